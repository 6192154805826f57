//! `valkeybloom build`: fills a filter from files in this program's own memory, and puts it in place whole.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use redis::{Cmd, Value, cmd};

use valkeybloom_client::{shard_capacity, shard_of};
use valkeybloom_sketches::bloom::{Added, Limits, Object, Refusal, Time, chunks};
use valkeybloom_sketches::{Fraction, Seed};

use super::failure::{Failure, Fault, Result, shown};
use super::lines::{Block, Input};
use super::options::{self, FilterOptions};
use super::place::{Place, Upload, now_ms};
use super::progress::{Progress, Show};
use super::report::Report;
use super::server::{Server, Tls, is_filter};

/// The most items of a command that adds: some hundred microseconds of the server's time.
const COMMAND_ITEMS: usize = 1000;

/// No limits of memory: the server has its own. A filter that is not to grow takes no more when it is full.
const LIMITS: Limits = Limits {
    saturate: false,
    ..Limits::NONE
};

/// Fill a filter from files and put it in place at once
#[derive(Args)]
pub struct Build {
    /// Files with an item a line, packed by gzip or zstd or not; - is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    #[arg(long, value_name = "URL")]
    to: String,
    /// The filter's key
    #[arg(long, value_name = "KEY")]
    key: String,
    /// The error rate
    #[arg(long, value_name = "P", value_parser = options::rate, required_unless_present = "add")]
    rate: Option<Fraction>,
    /// Number of items, like 100M or 2.5k; without it they are counted first
    #[arg(long, value_name = "N", value_parser = options::items)]
    items: Option<u64>,
    #[command(flatten)]
    filter: FilterOptions,
    /// Items end with a zero byte, not with their line
    #[arg(long, short = '0')]
    zero: bool,
    /// Time to live of the filter, like 30d
    #[arg(long, value_name = "TIME", value_parser = options::duration_ms)]
    ttl: Option<u64>,
    /// Build an empty filter if the files hold no items
    #[arg(long)]
    allow_empty: bool,
    /// Add to the filter that is there, with BF.INSERT
    #[arg(long, conflicts_with_all = ["rate", "items", "nonscaling", "expansion", "ttl", "allow_empty"])]
    add: bool,
    /// Spread it over N keys: KEY:0 and so on, as docs/sharded.md says
    #[arg(long, value_name = "N")]
    shards: Option<NonZeroU32>,
}

/// How many items were read, and how many of them were new.
#[derive(Default)]
struct Counts {
    items: u64,
    new: u64,
}

impl Build {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let start = Instant::now();
        if self.shards.is_some() && self.key.contains(['{', '}']) {
            return Err(Failure::usage(
                "the name of a sharded filter can't hold braces",
            ));
        }
        let input = Input {
            files: self.files.clone(),
            zero: self.zero,
        };
        let bytes = input.bytes()?;
        if input.is_once() && self.items.is_none() && !self.add {
            return Err(Failure::usage(
                "the standard input can be read only once: tell its --items",
            ));
        }
        let server = Server::connect(&self.to, tls)?;
        server.require_module()?;
        let keys = self.keys();
        for key in &keys {
            self.check_place(&server, key)?;
        }
        let counts = match self.rate {
            Some(rate) if !self.add => {
                let items = match self.items {
                    Some(items) => items,
                    None => count(&input, bytes, show)?,
                };
                self.replace(&server, &keys, &input, bytes, (items, rate), show)?
            }
            _ => add(&server, &keys, &input, bytes, show)?,
        };
        if show == Show::Nothing && !json {
            return Ok(());
        }
        let mut report = Report::default();
        report.row("key", &self.key, self.key.clone());
        report.number("items", counts.items);
        report.number("new", counts.new);
        let seconds = start.elapsed().as_secs_f64();
        report.hidden("seconds", seconds);
        report.end(json, Ok(()))
    }

    /// The key, or those of the shards.
    fn keys(&self) -> Vec<String> {
        match self.shards {
            None => vec![self.key.clone()],
            Some(shards) => (0..shards.get())
                .map(|shard| format!("{}:{shard}", self.key))
                .collect(),
        }
    }

    /// Nothing but a filter is replaced or added to.
    fn check_place(&self, server: &Server, key: &str) -> Result<()> {
        let kind: Result<String, Fault> = server.get(key.as_bytes(), cmd("TYPE").arg(key));
        let what = || format!("could not look at {} at", shown(key.as_bytes()));
        let kind = kind.map_err(|fault| server.failure(&what(), &fault))?;
        if is_filter(&kind) || kind == "none" && !self.add {
            return Ok(());
        }
        let (key, address) = (shown(key.as_bytes()), server.address());
        Err(Failure::new(if kind == "none" {
            format!("{key} is not there at {address}: build it without --add")
        } else {
            format!(
                "{key} at {address} is no filter but of type {kind}: name another key, or delete it"
            )
        }))
    }

    fn replace(
        &self,
        server: &Server,
        keys: &[String],
        input: &Input,
        bytes: Option<u64>,
        (items, rate): (u64, Fraction),
        show: Show,
    ) -> Result<Counts> {
        let shards = NonZeroU32::new(u32::try_from(keys.len()).unwrap_or(u32::MAX));
        let shards = shards.unwrap_or(NonZeroU32::MIN);
        let params = self.filter.params(shard_capacity(items, shards), rate);
        let make = |_: &String| Object::plain(&params, new_seed()?, LIMITS).map_err(no_filter);
        let mut objects: Vec<Object> = keys.iter().map(make).collect::<Result<_>>()?;
        let failed = |key: &str, fault: &Fault| {
            let what = format!("could not build {} at", shown(key.as_bytes()));
            server.failure(&what, fault)
        };
        // What the server refuses is known before the files are read.
        for (key, object) in keys.iter().zip(&objects) {
            let header = chunks::piece(object, 0);
            let (_, header) = header.ok_or_else(|| no_filter(Refusal::OutOfMemory))?;
            let upload = Upload::begin(server, key.as_bytes(), header.bytes());
            upload.map_err(|fault| failed(key, &fault))?;
        }
        let counts = fill(&mut objects, shards, input, bytes, show)?;
        if counts.items == 0 && !self.allow_empty {
            return Err(Failure::new(
                "there are no items: to build an empty filter, add --allow-empty",
            ));
        }

        let sum = objects.iter().map(Object::memory_bytes).sum();
        let mut progress = Progress::new(show, "sending", "bytes", Some(sum));
        let mut sent = 0;
        let mut uploads = Vec::new();
        for (key, object) in keys.iter().zip(&objects) {
            let mut pieces = chunks::pieces(object);
            let header = pieces.next().map(|(_, header)| header);
            let header = header.as_ref().map_or(&[][..], chunks::Piece::bytes);
            let upload = || {
                let mut upload = Upload::begin(server, key.as_bytes(), header)?;
                for (cursor, chunk) in pieces {
                    upload.chunk(cursor, chunk.bytes())?;
                    sent += chunk.bytes().len() as u64;
                    progress.at(sent, sent);
                }
                Ok(upload)
            };
            uploads.push(upload().map_err(|fault| failed(key, &fault))?);
        }
        progress.end(sent);
        let expires_ms = self.ttl.map(|ttl| now_ms().saturating_add(ttl));
        for (key, upload) in keys.iter().zip(uploads) {
            let placed = upload.finish(expires_ms, Place::Replace);
            placed.map_err(|fault| failed(key, &fault))?;
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

/// Counts the items, to know how large a filter they need.
fn count(input: &Input, bytes: Option<u64>, show: Show) -> Result<u64> {
    let mut progress = Progress::new(show, "counting", "items", bytes);
    let mut items = 0;
    input.each(|block, read| {
        items += block.items().count() as u64;
        progress.at(read, items);
        Ok(())
    })?;
    progress.end(items);
    Ok(items.max(1))
}

/// Fills a filter, or the shards of one.
fn fill(
    objects: &mut [Object],
    shards: NonZeroU32,
    input: &Input,
    bytes: Option<u64>,
    show: Show,
) -> Result<Counts> {
    let mut progress = Progress::new(show, "filling", "items", bytes);
    let mut counts = Counts::default();
    input.each(|block, read| {
        if let [object] = objects {
            add_to(object, &block.items(), block, &mut counts)?;
        } else {
            for (object, items) in objects.iter_mut().zip(divided(block, shards)) {
                add_to(object, &items.iter().copied(), block, &mut counts)?;
            }
        }
        progress.at(read, counts.items);
        Ok(())
    })?;
    progress.end(counts.items);
    Ok(counts)
}

/// The items of each shard.
fn divided(block: &Block, shards: NonZeroU32) -> Vec<Vec<&[u8]>> {
    let mut of_shards = vec![Vec::new(); shards.get() as usize];
    for item in block.items() {
        of_shards[shard_of(item, shards) as usize].push(item);
    }
    of_shards
}

fn add_to<'b>(
    object: &mut Object,
    items: &(impl Iterator<Item = &'b [u8]> + Clone),
    block: &Block,
    counts: &mut Counts,
) -> Result<()> {
    let mut refused = None;
    let mut tried = 0;
    let outcome = |added: Result<Added, Refusal>| {
        tried += 1;
        match added {
            Ok(added) => counts.new += u64::from(added == Added::New),
            Err(refusal) => refused = Some(refusal),
        }
    };
    object.add_each(items.clone(), Time::default(), None, || LIMITS, outcome);
    counts.items += tried;
    let Some(refusal) = refused else {
        return Ok(());
    };
    let last = usize::try_from(tried)
        .ok()
        .and_then(|tried| items.clone().nth(tried - 1));
    let place = last.map_or(String::new(), |item| block.place(item));
    Err(Failure::new(match refusal {
        Refusal::Full => format!(
            "the filter is full at {place}: name more --items, or let it grow, without --nonscaling"
        ),
        Refusal::RateTooSmall => {
            format!("the filter can't grow any more at {place}: name more --items")
        }
        Refusal::MemoryLimit | Refusal::OutOfMemory => {
            format!("there is no memory for the filter at {place}: use a machine with more")
        }
    }))
}

/// Adds to the filter on the server, or to its shards.
fn add(
    server: &Server,
    keys: &[String],
    input: &Input,
    bytes: Option<u64>,
    show: Show,
) -> Result<Counts> {
    let shards = NonZeroU32::new(u32::try_from(keys.len()).unwrap_or(u32::MAX));
    let shards = shards.unwrap_or(NonZeroU32::MIN);
    let mut progress = Progress::new(show, "adding", "items", bytes);
    let mut counts = Counts::default();
    input.each(|block, read| {
        let of_shards = divided(block, shards);
        // Of each shard, the commands of a block are on their way together.
        let mut commands = Vec::new();
        let mut batches = Vec::new();
        for (key, items) in keys.iter().zip(&of_shards) {
            for batch in items.chunks(COMMAND_ITEMS) {
                commands.push((key.clone().into_bytes(), insert(key, batch)));
                batches.push((key, batch));
            }
        }
        for ((key, batch), reply) in batches.into_iter().zip(server.call_all(&commands)) {
            let what = |item: Option<&&[u8]>| {
                let place = item.map_or(String::new(), |item| block.place(item));
                format!("could not add {place} to {} at", shown(key.as_bytes()))
            };
            let reply = reply.map_err(|fault| server.failure(&what(batch.first()), &fault))?;
            let Value::Array(answers) = reply else {
                let fault = Fault::Lost("unexpected reply to BF.INSERT".to_owned());
                return Err(server.failure(&what(batch.first()), &fault));
            };
            for (index, answer) in answers.into_iter().enumerate() {
                match answer {
                    Value::ServerError(error) => {
                        return Err(server.failure(&what(batch.get(index)), &error.into()));
                    }
                    answer => counts.new += u64::from(answer == Value::Int(1)),
                }
            }
            counts.items += batch.len() as u64;
        }
        progress.at(read, counts.items);
        Ok(())
    })?;
    progress.end(counts.items);
    Ok(counts)
}

/// Not BF.MADD, which would make a filter that is not there from the server's settings.
fn insert(key: &str, items: &[&[u8]]) -> Cmd {
    let mut insert = cmd("BF.INSERT");
    insert.arg(key).arg("NOCREATE").arg("ITEMS").arg(items);
    insert
}
