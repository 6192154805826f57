//! `valkeybloom build`: fills a filter from files, in this program's memory, and uploads it whole.

use std::num::NonZeroU32;
use std::time::Instant;

use clap::Args;
use redis::{Cmd, Value, cmd};

use valkeybloom_client::{shard_capacity, shard_keys, shard_of};
use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_sketches::bloom::{
    Added, Dialect, Kind, Limits, Object, Params, Refusal, Shape, Tightening, Time, chunks,
};
use valkeybloom_sketches::{Fraction, Seed};

use super::failure::{Failure, Fault, Result, shown};
use super::info::Info;
use super::lines::{Block, Input};
use super::list::limits::Settings;
use super::options::{self, FilterOptions, KindOptions};
use super::progress::{Progress, Show};
use super::report::{self, Report, grouped};
use super::server::{COMMAND_ITEMS, Server, Tls, dialect_of, is_filter};
use super::upload::{Upload, now_ms};

/// No memory limits, because the server has its own. A non-scaling filter refuses items when it is full.
const LIMITS: Limits = Limits {
    saturate: false,
    ..Limits::NONE
};

/// Fill a filter from files, and replace the old one at once
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Build {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    #[arg(long, value_name = "URL")]
    to: String,
    /// The filter's key
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The error rate
    #[arg(long, value_name = "P", value_parser = options::rate, required_unless_present = "add")]
    rate: Option<Fraction>,
    /// Number of items, like 100M or 2.5k; without it, the items are counted first
    #[arg(long, value_name = "N", value_parser = options::items)]
    items: Option<u64>,
    #[command(flatten)]
    filter: FilterOptions,
    #[command(flatten)]
    kind: KindOptions,
    /// Replace a filter with counters or a window by one of another kind
    #[arg(long)]
    change_kind: bool,
    #[command(flatten)]
    input: Input,
    /// Time to live of the filter, like 30d
    #[arg(long, value_name = "TIME", value_parser = options::duration_ms)]
    ttl: Option<u64>,
    /// Build an empty filter if the files hold no items
    #[arg(long)]
    allow_empty: bool,
    /// Add to the existing filter, with BF.INSERT
    #[arg(long, conflicts_with_all = ["rate", "items", "nonscaling", "expansion", "window", "counting", "change_kind", "ttl",
        "allow_empty"])]
    add: bool,
    /// Spread the filter over N keys, KEY:0 and so on, as docs/sharded.md describes
    #[arg(long, value_name = "N")]
    shards: Option<NonZeroU32>,
}

/// The numbers of items that were read, and of new items among them.
#[derive(Default)]
struct Counts {
    items: u64,
    new: u64,
}

impl Build {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let start = Instant::now();
        let keys = match self.shards {
            None => vec![self.key.clone()],
            Some(shards) => {
                shard_keys(&self.key, shards).map_err(|error| Failure::usage(error.to_string()))?
            }
        };
        let kind = self.kind.kind()?;
        let bytes = self.input.bytes()?;
        if bytes.is_none() && self.items.is_none() && !self.add {
            return Err(Failure::usage(
                "the input can be read only once, because not all of it is files: pass --items",
            ));
        }
        let building = Building {
            server: &Server::connect(&self.to, tls)?,
            keys: &keys,
            shards: self.shards.unwrap_or(NonZeroU32::MIN),
            input: &self.input,
            bytes,
            show,
        };
        building.server.require_bloom_filters()?;
        for key in &keys {
            self.check_key(building.server, key, kind)?;
        }
        let counts = match self.rate {
            Some(rate) if !self.add => self.replace(&building, rate, kind)?,
            _ => building.add()?,
        };
        if show == Show::Nothing && !json {
            return Ok(());
        }
        let mut report = Report::default();
        report.row("key", &self.key, self.key.clone());
        report.number("items", counts.items);
        report.number("new", counts.new);
        report.hidden("seconds", start.elapsed().as_secs_f64());
        report::end(report, json, Ok(()))
    }

    /// Requires that a key holds a filter, or nothing if a filter is to be built. A filter that is replaced by one of
    /// less use, without counters or without a window, has to be meant.
    fn check_key(&self, server: &Server, name: &str, wanted: Kind) -> Result<()> {
        let (key, address) = (shown(name.as_bytes()), server.address());
        let failed =
            |fault| server.failure(&format!("could not read the type of {key} at"), &fault);
        match &server.type_of(name.as_bytes())?[..] {
            kind if is_filter(kind) => {
                if self.add || self.change_kind || dialect_of(kind) != Some(Dialect::Bloomfltx) {
                    return Ok(());
                }
                let info = match Info::of(server, name.as_bytes()) {
                    // Nothing is lost with a part of a filter.
                    Err(fault) if fault.is(Error::STILL_LOADING) => return Ok(()),
                    info => info.map_err(failed)?,
                };
                let (what, option, is_same) = match info.of_filter::<u64>(InfoField::Window) {
                    Some(_) => (
                        "a window",
                        "--window and --periods",
                        matches!(wanted, Kind::Windowed(_)),
                    ),
                    None => ("counters", "--counting", wanted == Kind::Counting),
                };
                let text = format!(
                    "{key} at {address} has {what}: build it with {option}, or replace it with --change-kind"
                );
                is_same.then_some(()).ok_or_else(|| Failure::new(text))
            }
            "none" if !self.add => Ok(()),
            "none" => Err(Failure::new(format!(
                "{key} is not there at {address}: build it without --add"
            ))),
            kind => Err(Failure::new(format!(
                "{key} at {address} is no filter but of type {kind}: name another key, or delete it"
            ))),
        }
    }

    /// Builds new filters, and replaces the old ones.
    fn replace(&self, building: &Building, rate: Fraction, kind: Kind) -> Result<Counts> {
        let Building { server, keys, .. } = *building;
        let counted = match self.items {
            Some(_) => 0,
            None => building.count()?,
        };
        let items = self.items.unwrap_or(counted).max(1);
        let capacity = shard_capacity(items, building.shards);
        let shape = Shape {
            params: Params {
                capacity,
                error_rate: rate,
                tightening: Tightening::HALF,
                growth: self.filter.growth(),
            },
            kind,
        };
        let time = Time::at(now_ms());
        let make = |_: &String| Object::new(&shape, new_seed()?, time, LIMITS).map_err(no_filter);
        let mut objects: Vec<Object> = keys.iter().map(make).collect::<Result<_>>()?;
        let failed = |key: &str, object: &Object, fault: &Fault| {
            let what = format!("could not build {} at", shown(key.as_bytes()));
            let filters = object.views().map(|view| view.cell_bytes());
            let sizes = (filters.max().unwrap_or(0), object.memory_bytes());
            building.failure(&what, fault, sizes)
        };
        let begin = |key: &String, object: &Object| {
            let header = chunks::header(object).ok_or_else(|| no_filter(Refusal::OutOfMemory))?;
            let upload = Upload::begin(server, key.as_bytes(), &header);
            upload.map_err(|fault| failed(key, object, &fault))
        };
        // A trial upload of the header: the server may refuse it, which saves reading the files.
        for (key, object) in keys.iter().zip(&objects) {
            begin(key, object)?;
        }
        let counts = building.fill(&mut objects, time)?;
        if counts.items < counted {
            let (first, second) = (grouped(counted), grouped(counts.items));
            return Err(Failure::new(format!(
                "the files changed while they were read: {first} items at first, then {second}"
            )));
        }
        if counts.items == 0 && !self.allow_empty {
            return Err(Failure::new(
                "there are no items: to build an empty filter, add --allow-empty",
            ));
        }

        let sum = objects.iter().map(Object::memory_bytes).sum();
        let mut progress = Progress::new(building.show, "sending", "bytes", Some(sum));
        let mut sent = 0;
        let mut uploads = Vec::new();
        for (key, object) in keys.iter().zip(&objects) {
            let mut upload = begin(key, object)?;
            for (cursor, chunk) in chunks::pieces(object).skip(1) {
                let sending = upload.chunk(cursor, &chunk);
                sending.map_err(|fault| failed(key, object, &fault))?;
                sent += chunk.len() as u64;
                progress.at(sent, sent);
            }
            uploads.push(upload);
        }
        progress.end(sent);
        let expires_ms = self.ttl.map(|ttl| now_ms().saturating_add(ttl));
        for ((key, object), upload) in keys.iter().zip(&objects).zip(uploads) {
            let finished = upload.finish(expires_ms, true);
            finished.map_err(|fault| failed(key, object, &fault))?;
        }
        Ok(counts)
    }
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
            "the filter is full at {position}: name more --items, or let it grow, without --nonscaling"
        ),
        Refusal::RateTooSmall => {
            format!("the filter can't grow any more at {position}: name more --items")
        }
        Refusal::MemoryLimit | Refusal::OutOfMemory => {
            format!("there is no memory for the filter at {position}: use a machine with more")
        }
    })
}

/// The input and the target of a run.
struct Building<'b> {
    server: &'b Server,
    /// The filter's key, or the keys of its shards.
    keys: &'b [String],
    shards: NonZeroU32,
    input: &'b Input,
    /// The size of the input, if known.
    bytes: Option<u64>,
    show: Show,
}

impl Building<'_> {
    /// Reports a failure for a key. `sizes` are at least the bytes of its largest filter, and of the whole: if a limit
    /// refused it, the report names the limit.
    fn failure(&self, what: &str, fault: &Fault, sizes: (u64, u64)) -> Failure {
        let refusal = Error::from(Refusal::MemoryLimit);
        let limits = if fault.is(refusal) {
            Settings::of(self.server).unwrap_or_default()
        } else {
            Settings::default()
        };
        match &limits.refusing(sizes.0, sizes.1)[..] {
            [] => self.server.failure(what, fault),
            names => Failure::new(format!(
                "{what} {}: {refusal}; raise {} there, or use more shards",
                self.server.address(),
                names.join(" and ")
            )),
        }
    }

    /// Passes the blocks of the input to `take`, which counts the items, and shows the progress.
    fn each(
        &self,
        what: &'static str,
        mut take: impl FnMut(&Block, &mut Counts) -> Result<()>,
    ) -> Result<Counts> {
        let mut progress = Progress::new(self.show, what, "items", self.bytes);
        let mut counts = Counts::default();
        self.input.each(|block, read| {
            take(block, &mut counts)?;
            progress.at(read, counts.items);
            Ok(())
        })?;
        progress.end(counts.items);
        Ok(counts)
    }

    /// Counts the items, which determines the capacity.
    fn count(&self) -> Result<u64> {
        let counts = self.each("counting", |block, counts| {
            counts.items += block.items().count() as u64;
            Ok(())
        });
        Ok(counts?.items)
    }

    /// Fills a filter, or its shards.
    fn fill(&self, objects: &mut [Object], time: Time) -> Result<Counts> {
        self.each("filling", |block, counts| {
            let mut shards = objects.iter_mut().zip(self.by_shard(block));
            shards.try_for_each(|(object, items)| {
                let added = add_to(object, &items, time, counts);
                added.map_err(|(refusal, item)| not_filled(refusal, &block.position(item)))
            })
        })
    }

    /// Returns the items of each shard.
    fn by_shard<'i>(&self, block: &'i Block) -> Vec<Vec<&'i [u8]>> {
        if self.keys.len() == 1 {
            return vec![block.items().collect()];
        }
        let mut of_shards = vec![Vec::new(); self.keys.len()];
        for item in block.items() {
            of_shards[shard_of(item, self.shards) as usize].push(item);
        }
        of_shards
    }

    /// Adds the items to the filter on the server, or to its shards.
    fn add(&self) -> Result<Counts> {
        self.each("adding", |block, counts| {
            let of_shards = self.by_shard(block);
            // All commands of a block are sent at the same time.
            let mut commands = Vec::new();
            let mut batches = Vec::new();
            for (key, items) in self.keys.iter().zip(&of_shards) {
                for batch in items.chunks(COMMAND_ITEMS) {
                    commands.push((key.clone().into_bytes(), insert(key, batch)));
                    batches.push((key, batch));
                }
            }
            for ((key, batch), reply) in batches.into_iter().zip(self.server.call_all(&commands)) {
                let failed = |index: usize, fault: &Fault| {
                    let position = batch
                        .get(index)
                        .map_or(String::new(), |item| block.position(item));
                    let what = format!("could not add {position} to {} at", shown(key.as_bytes()));
                    self.failure(&what, fault, (0, 0))
                };
                let Value::Array(answers) = reply.map_err(|fault| failed(0, &fault))? else {
                    let text = format!("unexpected reply to {BF_INSERT}");
                    return Err(failed(0, &Fault::Lost(text)));
                };
                for (index, answer) in answers.into_iter().enumerate() {
                    match answer {
                        Value::ServerError(error) => return Err(failed(index, &error.into())),
                        answer => counts.new += u64::from(answer == Value::Int(1)),
                    }
                }
                counts.items += batch.len() as u64;
            }
            Ok(())
        })
    }
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
    object.add_each(
        items.iter().copied(),
        time,
        None,
        || LIMITS,
        |added| {
            let item = rest.next().copied().unwrap_or_default();
            counts.items += 1;
            match added {
                Ok(added) => counts.new += u64::from(added == Added::New),
                Err(refusal) => done = Err((refusal, item)),
            }
        },
    );
    done
}

/// Returns the command that adds items to an existing filter. BF.MADD would create a missing one from the server's
/// settings.
fn insert(key: &str, items: &[&[u8]]) -> Cmd {
    let mut insert = cmd(BF_INSERT);
    insert.arg(key).arg("NOCREATE").arg("ITEMS").arg(items);
    insert
}
