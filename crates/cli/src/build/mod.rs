//! `valkeybloom build`: fills a key from files, and puts it in place at once. With shards, that is one key after another.
//!
//! ```text
//!   replacing: source → filter  a Bloom filter in this program's memory, sent in chunks ┐
//!                     → adding  a sketch on the server                                  ┴→ a temporary key → its final name
//!   with --add: source → adding  a key that exists
//! ```

mod adding;
mod batches;
mod enough;
mod filter;
mod replacing;
mod replies;
mod source;
mod target;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use clap::Args;
use valkeybloom_client::shard_keys;

use self::adding::Adding;
use self::replacing::{Built, ReplaceOptions, Replacing, items_or_unknown};
use self::source::{Counts, Source};
use self::target::{NewOptions, Target};
use super::failure::{Failure, Result, shown, text_of};
use super::family::Family;
use super::lines::Input;
use super::options;
use super::progress::Show;
use super::report::{self, Report, grouped};
use super::server::{Server, Tls};

/// Fill a filter or a sketch from files, and put it in place at once
#[derive(Args)]
pub struct Build {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// The key
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    new: NewOptions,
    #[command(flatten)]
    replacement: ReplaceOptions,
    #[command(flatten)]
    input: Input,
    /// Add to the filter or sketch that is there; after an early end, the same command goes on
    #[arg(long, conflicts_with_all = ["family", "rate", "items", "nonscaling", "expansion", "window", "counting", "scale_to",
        "probability", "k", "compression", "replace", "change_kind", "ttl", "allow_few"])]
    add: bool,
    /// Spread the filter over N keys, KEY:0 and so on, as docs/sharded.md describes
    #[arg(long, value_name = "N", value_parser = options::shard_count)]
    shards: Option<NonZeroU32>,
}

/// What a run has done.
enum Done<'s> {
    Added(Adding<'s>, Counts),
    Built(Family, Built),
}

impl Build {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let start = Instant::now();
        let target = (!self.add)
            .then(|| Target::from_options(&self.new, self.shards.is_some()))
            .transpose()?;
        let keys = match self.shards {
            None => vec![self.key.clone()],
            Some(shards) => {
                shard_keys(&self.key, shards).map_err(|error| Failure::usage(error.to_string()))?
            }
        };
        let source = Source {
            input: &self.input,
            bytes: self.input.bytes()?,
            shards: self.shards.unwrap_or(NonZeroU32::MIN),
            show,
        };
        let replacing = target.map(|target| Replacing {
            options: &self.replacement,
            target,
            items: self.new.items,
            keys: &keys,
            source: &source,
            address: &self.to,
            tls,
        });
        let counts_first = replacing.as_ref().is_some_and(Replacing::counts_first);
        if counts_first && source.bytes.is_none() {
            return Err(Failure::usage(
                "the input can be read only once, because not all of it is files: pass --items",
            ));
        }
        let server = Server::connect(&self.to, tls)?;
        let done = match &replacing {
            None => {
                let adding = Adding::to_existing(&server, &keys, &source)?;
                let counts = adding.add(&source, || Ok(()))?;
                Done::Added(adding, counts)
            }
            Some(replacing) => Done::Built(replacing.target.family(), replacing.run(server)?),
        };
        if show != Show::Nothing || json {
            report::end(self.report(&done, start.elapsed()), json, Ok(()))?;
        }
        // Last, because until here the same command goes on where a run ended.
        if let Done::Added(adding, _) = done {
            adding.finish();
        }
        Ok(())
    }

    fn report(&self, done: &Done<'_>, time: Duration) -> Report {
        let (family, counts, done_before) = match done {
            Done::Added(adding, counts) => (adding.family, counts, adding.done_before()),
            Done::Built(family, built) => (*family, &built.counts, 0),
        };
        let mut report = Report::default();
        let key = self.key.as_bytes();
        report.row("key", shown(key), text_of(key));
        report.number("items", counts.items);
        if matches!(family, Family::Bloom | Family::Cuckoo) {
            let new = (done_before == 0).then_some(counts.new);
            report.row("new", new.map_or("unknown".to_owned(), grouped), new);
        }
        if let Done::Built(_, Built { replaced, .. }) = done
            && !replaced.is_empty()
        {
            let items: Option<u64> = replaced.iter().copied().sum();
            report.row("replaced", items_or_unknown(items), items);
        }
        report.hidden("seconds", time.as_secs_f64());
        report
    }
}
