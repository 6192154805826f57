//! A Bloom filter, or its shards, filled in this program's memory and sent in chunks.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Kind, Limits, Object, Refusal, Shape, Time, chunks};

use super::source::{Counts, Source};
use crate::failure::{Failure, Fault, Result, shown};
use crate::held::limits::{self, Sizes};
use crate::progress::{Progress, Show};
use crate::server::Server;
use crate::upload::Upload;

/// No memory limits, because the server has its own. A non-scaling filter refuses items when it is full.
const LIMITS: Limits = Limits {
    saturate: false,
    ..Limits::NONE
};

/// The filters of a run, one for each key.
pub struct Filters<'f> {
    filters: Vec<Filter<'f>>,
    time: Time,
}

struct Filter<'f> {
    key: &'f str,
    object: Object,
}

/// A complete value that waits under a temporary key, and the key that it is for.
pub struct Ready<'r> {
    pub key: &'r str,
    pub upload: Upload<'r>,
}

impl<'f> Filters<'f> {
    /// Creates empty filters, which the server would take.
    pub fn new(server: &Server, keys: &'f [String], shape: &Shape) -> Result<Self> {
        // The clock that the items will expire by.
        let now = |key: &String| {
            let failed = |fault| server.failure_of("build", key.as_bytes(), &fault);
            server.time_ms(key.as_bytes()).map_err(failed)
        };
        let is_windowed = matches!(shape.kind, Kind::Windowed(_));
        let now = keys.first().filter(|_| is_windowed).map_or(Ok(0), now)?;
        let make = |key: &'f String| {
            let object = Object::new(shape, new_seed()?, LIMITS).map_err(no_filter)?;
            Ok(Filter { key, object })
        };
        let filters: Vec<_> = keys.iter().map(make).collect::<Result<_>>()?;
        // A trial upload of the header: the server may refuse it, which saves reading the files.
        for filter in &filters {
            filter.begin(server)?;
        }
        let time = Time::at(now);
        Ok(Self { filters, time })
    }

    /// Adds the items of the source.
    pub fn fill(&mut self, source: &Source<'_>) -> Result<Counts> {
        source.each(
            "filling",
            || Ok(()),
            |block, counts| {
                let mut shards = self.filters.iter_mut().zip(source.by_shard(block));
                shards.try_for_each(|(filter, items)| {
                    let added = add_to(&mut filter.object, &items, self.time, counts);
                    added.map_err(|(refusal, item)| not_filled(refusal, &block.position(item)))
                })
            },
        )
    }

    /// Sends the filters, which then wait under temporary keys.
    pub fn send(&self, server: &'f Server, show: Show) -> Result<Vec<Ready<'f>>> {
        let objects = self.filters.iter().map(|filter| &filter.object);
        let sum = objects.map(Object::memory_bytes).sum();
        let mut progress = Progress::new(show, "sending", "bytes", Some(sum));
        let mut sent = 0;
        let mut ready = Vec::new();
        for filter in &self.filters {
            let mut upload = filter.begin(server)?;
            for (cursor, chunk) in chunks::pieces(&filter.object).skip(1) {
                renew_all(server, &mut ready)?;
                let sending = upload.chunk(cursor, &chunk);
                sending.map_err(|fault| filter.not_sent(server, &fault))?;
                sent += chunk.len() as u64;
                progress.at(sent, sent);
            }
            let key = filter.key;
            ready.push(Ready { key, upload });
        }
        progress.end(sent);
        Ok(ready)
    }
}

impl Filter<'_> {
    /// Begins to send the filter, with its header.
    fn begin<'s>(&self, server: &'s Server) -> Result<Upload<'s>> {
        let header = chunks::header(&self.object).ok_or_else(|| no_filter(Refusal::OutOfMemory))?;
        let upload = Upload::begin(server, self.key.as_bytes(), &header);
        upload.map_err(|fault| self.not_sent(server, &fault))
    }

    fn not_sent(&self, server: &Server, fault: &Fault) -> Failure {
        let what = format!("could not build {} at", shown(self.key.as_bytes()));
        let filters = self.object.filters();
        let filters = filters.map(|(filter, _)| filter.geometry().cell_bytes);
        let parts = self.object.parts().iter();
        let tables = parts.map(|part| part.table.memory_bytes());
        let sizes = Sizes {
            filter: filters.chain(tables).max().unwrap_or(0),
            object: self.object.memory_bytes(),
        };
        limits::failure(server, &what, fault, Some(sizes))
    }
}

/// Renews the times to live of values that wait while others are sent or put in place, where that is due.
pub fn renew_all(server: &Server, ready: &mut [Ready<'_>]) -> Result<()> {
    ready.iter_mut().try_for_each(|Ready { key, upload }| {
        let renewed = upload.renew();
        renewed.map_err(|fault| server.failure_of("build", key.as_bytes(), &fault))
    })
}

/// Adds items to a filter, and counts them. Returns the refusal, and the item that was refused.
fn add_to<'i>(
    object: &mut Object,
    items: &[&'i [u8]],
    time: Time,
    counts: &mut Counts,
) -> Result<(), (Refusal, &'i [u8])> {
    let mut rest = items.iter();
    let mut done = Ok(());
    let count = |added| {
        let item = rest.next().copied().unwrap_or_default();
        counts.items += 1;
        match added {
            Ok(added) => counts.new += u64::from(added == Added::New),
            Err(refusal) => done = Err((refusal, item)),
        }
    };
    object.add_each(items.iter().copied(), time, || LIMITS, count);
    done
}

fn new_seed() -> Result<Seed> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new(error.to_string()))?;
    Ok(Seed::new(bytes))
}

fn no_filter(refusal: Refusal) -> Failure {
    Failure::new(match refusal {
        Refusal::RateTooSmall => "could not make the filter: that rate is too small",
        _ => "could not make the filter: it is larger than this machine's memory",
    })
}

fn not_filled(refusal: Refusal, position: &str) -> Failure {
    Failure::new(match refusal {
        Refusal::Full => format!(
            "the filter is full at {position}: pass more --items, or let it grow, without --nonscaling"
        ),
        Refusal::RateTooSmall => {
            format!("the filter can't grow any more at {position}: pass more --items")
        }
        Refusal::MemoryLimit | Refusal::OutOfMemory => {
            format!("there is no memory for the filter at {position}: use a machine with more")
        }
    })
}
