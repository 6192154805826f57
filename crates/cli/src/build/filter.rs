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
    keys: &'f [String],
    objects: Vec<Object>,
    time: Time,
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
        let make = |_| Object::new(shape, new_seed()?, LIMITS).map_err(no_filter);
        let filters = Self {
            keys,
            objects: keys.iter().map(make).collect::<Result<_>>()?,
            time: Time::at(now),
        };
        // A trial upload of the header: the server may refuse it, which saves reading the files.
        for (key, object) in keys.iter().zip(&filters.objects) {
            begin(server, key, object)?;
        }
        Ok(filters)
    }

    /// Adds the items of the source.
    pub fn fill(&mut self, source: &Source<'_>) -> Result<Counts> {
        source.each("filling", |block, counts| {
            let mut shards = self.objects.iter_mut().zip(source.by_shard(block));
            shards.try_for_each(|(object, items)| {
                let added = add_to(object, &items, self.time, counts);
                added.map_err(|(refusal, item)| not_filled(refusal, &block.position(item)))
            })
        })
    }

    /// Sends the filters, which then wait under temporary keys.
    pub fn send<'s>(&self, server: &'s Server, show: Show) -> Result<Vec<Upload<'s>>> {
        let sum = self.objects.iter().map(Object::memory_bytes).sum();
        let mut progress = Progress::new(show, "sending", "bytes", Some(sum));
        let mut sent = 0;
        let mut uploads = Vec::new();
        for (key, object) in self.keys.iter().zip(&self.objects) {
            let mut upload = begin(server, key, object)?;
            for (cursor, chunk) in chunks::pieces(object).skip(1) {
                renew_all(server, key, &mut uploads)?;
                let sending = upload.chunk(cursor, &chunk);
                sending.map_err(|fault| not_sent(server, key, object, &fault))?;
                sent += chunk.len() as u64;
                progress.at(sent, sent);
            }
            uploads.push(upload);
        }
        progress.end(sent);
        Ok(uploads)
    }
}

fn begin<'s>(server: &'s Server, key: &str, object: &Object) -> Result<Upload<'s>> {
    let header = chunks::header(object).ok_or_else(|| no_filter(Refusal::OutOfMemory))?;
    let upload = Upload::begin(server, key.as_bytes(), &header);
    upload.map_err(|fault| not_sent(server, key, object, &fault))
}

fn not_sent(server: &Server, key: &str, object: &Object, fault: &Fault) -> Failure {
    let what = format!("could not build {} at", shown(key.as_bytes()));
    let filters = object.filters();
    let filters = filters.map(|(filter, _)| filter.geometry().cell_bytes);
    let tables = object.parts().iter().map(|part| part.table.memory_bytes());
    let filters = filters.chain(tables);
    let sizes = Sizes {
        filter: filters.max().unwrap_or(0),
        object: object.memory_bytes(),
    };
    limits::failure(server, &what, fault, Some(sizes))
}

/// Renews the times to live of uploads that wait while others are sent or put in place, where that is due.
pub fn renew_all(server: &Server, key: &str, uploads: &mut [Upload<'_>]) -> Result<()> {
    let mut renewals = uploads.iter_mut().map(Upload::renew);
    let failed = |fault| server.failure_of("build", key.as_bytes(), &fault);
    renewals.try_for_each(|renewal| renewal.map_err(failed))
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
