//! `valkeybloom build`: fills a key from files, and puts it in place at once. With shards, that is one key after another.
//!
//! ```text
//!   source → filter  a Bloom filter in this program's memory, sent in chunks ┐
//!          → adding  a sketch on the server                                  ┴→ a temporary key → its final name
//!          → adding  a key that exists, with --add
//! ```

mod adding;
mod enough;
mod filter;
mod source;
mod target;

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use clap::Args;
use valkeybloom_client::shard_keys;
use valkeybloom_sketches::bloom::Dialect;

use self::adding::{Adding, counts_equal_items};
use self::filter::{Filters, Ready};
use self::source::{Counts, Source};
use self::target::{NewOptions, Plan, Target, inapplicable};
use super::existing::{existing, required_family};
use super::failure::{Failure, Result, shown};
use super::family::{Family, dialect_of};
use super::held::limits;
use super::held::row::Row;
use super::lines::Input;
use super::options;
use super::progress::Show;
use super::receipts::{RunReceipts, Sending};
use super::report::{self, Report, grouped};
use super::server::{Server, Tls};
use super::upload::{NewExpiry, Upload};

/// Fill a filter or a sketch from files, and put it in place at once
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Build {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// The key
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    new: NewOptions,
    /// Replace the filter or sketch that is there
    #[arg(long)]
    replace: bool,
    /// Replace it even by another family, or a filter that counts or has a window by one that does not
    #[arg(long)]
    change_kind: bool,
    #[command(flatten)]
    input: Input,
    /// Time to live, like 30d
    #[arg(long, value_name = "TIME", value_parser = options::duration_ms)]
    ttl: Option<u64>,
    /// Build it even if the files hold no items, or fewer than half of --items, or of the items that they replace
    #[arg(long)]
    allow_few: bool,
    /// Add to the filter or sketch that is there; after an early end, the same command goes on
    #[arg(long, conflicts_with_all = ["family", "rate", "items", "nonscaling", "expansion", "window", "counting", "scale_to",
        "probability", "k", "compression", "replace", "change_kind", "ttl", "allow_few"])]
    add: bool,
    /// Spread the filter over N keys, KEY:0 and so on, as docs/sharded.md describes
    #[arg(long, value_name = "N", value_parser = options::shard_count)]
    shards: Option<NonZeroU32>,
}

/// What a run has done.
struct Done<'s> {
    family: Family,
    counts: Counts,
    /// The number of items of each key that was replaced, if known.
    replaced: Vec<Option<u64>>,
    /// The receipts, if repeated additions would count twice.
    receipts: Option<RunReceipts<'s>>,
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
        let counts_first = target
            .as_ref()
            .is_some_and(|target| self.counts_first(target));
        if counts_first && source.bytes.is_none() {
            return Err(Failure::usage(
                "the input can be read only once, because not all of it is files: pass --items",
            ));
        }
        let server = Server::connect(&self.to, tls)?;
        let done = match &target {
            None => add(&server, &keys, &source)?,
            Some(target) => self.build(target, &server, tls, &keys, &source)?,
        };
        if show != Show::Nothing || json {
            report::end(self.report(&done, start.elapsed()), json, Ok(()))?;
        }
        // Last, because until here the same command goes on where a run ended.
        if let Some(receipts) = done.receipts {
            receipts.delete();
        }
        Ok(())
    }

    fn report(&self, done: &Done<'_>, time: Duration) -> Report {
        let mut report = Report::default();
        report.row("key", &self.key, self.key.clone());
        report.number("items", done.counts.items);
        if matches!(done.family, Family::Bloom | Family::Cuckoo) {
            let receipts = done.receipts.as_ref();
            let before = receipts.map_or(0, RunReceipts::done_before);
            let new = (before == 0).then_some(done.counts.new);
            report.row("new", number_or_unknown(new), new);
        }
        if !done.replaced.is_empty() {
            let items: Option<u64> = done.replaced.iter().copied().sum();
            report.row("replaced", number_or_unknown(items) + " items", items);
        }
        report.hidden("seconds", time.as_secs_f64());
        report
    }

    /// Returns whether the items are counted in a first pass, because the capacity depends on their number.
    const fn counts_first(&self, target: &Target) -> bool {
        target.has_capacity() && self.new.items.is_none()
    }

    /// Builds new values, and puts them in place.
    fn build<'s>(
        &self,
        target: &Target,
        server: &Server,
        tls: &Tls,
        keys: &[String],
        source: &Source<'_>,
    ) -> Result<Done<'s>> {
        if target.family() == Family::Bloom {
            server.require_bloom_filters()?;
        }
        let items_to_replace = self.items_to_replace(target, server, keys)?;
        // Connections that are idle while files are read may be closed by the server, or by what is between.
        let reconnect = || Server::connect(&self.to, tls);
        let (counted, counted_by) = if self.counts_first(target) {
            (source.count()?, Some(reconnect()?))
        } else {
            (0, None)
        };
        let server = counted_by.as_ref().unwrap_or(server);
        let items = self.new.items.unwrap_or(counted);
        let (counts, replaced) = match target.plan(items, source.shards) {
            Plan::Local(shape) => {
                let mut filters = Filters::new(server, keys, &shape)?;
                let counts = filters.fill(source)?;
                self.require_enough(target, counted, &counts, items_to_replace)?;
                let server = reconnect()?;
                let ready = filters.send(&server, source.show)?;
                (counts, self.put_in_place(target, &server, ready)?)
            }
            Plan::Command(creation) => {
                let (counts, ready) =
                    self.fill_on_server(target.family(), &creation, server, source)?;
                self.require_enough(target, counted, &counts, items_to_replace)?;
                (counts, self.put_in_place(target, server, vec![ready])?)
            }
        };
        Ok(Done {
            family: target.family(),
            counts,
            replaced,
            receipts: None,
        })
    }

    /// Returns the number of items of the keys that are to be replaced, as far as they are of the target's family.
    fn items_to_replace(&self, target: &Target, server: &Server, keys: &[String]) -> Result<u64> {
        let mut items = 0;
        for key in keys {
            let row = self.check(target, server, key)?;
            let alike = row.filter(|row| Family::of(&row.kind) == Some(target.family()));
            items += alike.and_then(|row| row.items).unwrap_or(0);
        }
        Ok(items)
    }

    /// Renames the values to their keys, one after another. Returns the number of items that each replaced key had.
    fn put_in_place(
        &self,
        target: &Target,
        server: &Server,
        ready: Vec<Ready<'_>>,
    ) -> Result<Vec<Option<u64>>> {
        let mut replaced = Vec::new();
        let mut waiting = ready.into_iter();
        for place in 0.. {
            let renewed = filter::renew_all(server, waiting.as_mut_slice());
            let Some(next) = waiting.next() else {
                break;
            };
            let put = renewed.and_then(|()| self.put(target, server, next));
            let row = put.map_err(|failure| match place {
                0 => failure,
                _ => failure.with_note("the shards before it are in place already"),
            })?;
            replaced.extend(row.map(|row| row.items));
        }
        Ok(replaced)
    }

    /// Renames a value to its key. Returns what it replaced.
    fn put(
        &self,
        target: &Target,
        server: &Server,
        Ready { key, upload }: Ready<'_>,
    ) -> Result<Option<Row>> {
        // Another client may have replaced it.
        let replaced = self.check(target, server, key)?;
        let expires = self.ttl.map_or(NewExpiry::Unchanged, NewExpiry::After);
        let finished = upload.finish(expires, self.replaces());
        let failed = |fault| server.failure_of("build", key.as_bytes(), &fault);
        if finished.map_err(failed)? {
            return Ok(replaced);
        }
        let (key, address) = (shown(key.as_bytes()), server.address());
        Err(Failure::new(format!(
            "could not build {key} at {address}: another client has just created it"
        )))
    }

    /// Creates a value under a temporary key, and has the server fill it.
    fn fill_on_server<'s>(
        &'s self,
        family: Family,
        creation: &[String],
        server: &'s Server,
        source: &Source<'_>,
    ) -> Result<(Counts, Ready<'s>)> {
        let failed = |fault| {
            let what = format!("could not build {} at", shown(self.key.as_bytes()));
            limits::failure(server, &what, &fault, None)
        };
        let words: Vec<&[u8]> = creation.iter().map(String::as_bytes).collect();
        let upload = Upload::create(server, self.key.as_bytes(), &words);
        let mut upload = upload.map_err(failed)?;
        let adding = Adding {
            server,
            family,
            names: std::slice::from_ref(&self.key),
            keys: vec![upload.temporary().to_vec()],
            // A cluster's client may send a command again by itself. CF.INSERTNX adds an item only once.
            receipts: (server.is_cluster() && family != Family::Cuckoo)
                .then(|| RunReceipts::of_temporary(server, upload.temporary())),
        };
        let counts = adding.add(source, || upload.renew().map_err(failed))?;
        if let Some(receipts) = adding.receipts {
            receipts.delete();
        }
        let key = &self.key;
        Ok((counts, Ready { key, upload }))
    }

    const fn replaces(&self) -> bool {
        self.replace || self.change_kind
    }

    /// Requires the items that were counted in the first pass, and unless few are allowed, half of those that `--items`
    /// promised or that are to be replaced.
    fn require_enough(
        &self,
        target: &Target,
        counted: u64,
        counts: &Counts,
        items_to_replace: u64,
    ) -> Result<()> {
        let items = counts.items;
        enough::require_counted(counted, items)?;
        if self.allow_few {
            return Ok(());
        }
        enough::require_any(items)?;
        enough::require_promised(self.new.items.unwrap_or(0), items)?;
        // Filters count the items that were new to them.
        let comparable = if target.has_capacity() {
            counts.new
        } else {
            items
        };
        enough::require_replaced(items_to_replace, comparable)
    }

    /// Returns what the key holds; `None` if it does not exist.
    ///
    /// # Errors
    /// The key holds another value, or a filter or sketch that the options do not permit to replace: by any, by one of
    /// another family, or by one that does not count or has no window.
    fn check(&self, target: &Target, server: &Server, name: &str) -> Result<Option<Row>> {
        let Some((family, row)) = existing(server, name)? else {
            return Ok(None);
        };
        let kind = row.bloom().map(|bloom| bloom.kind);
        let why = if !self.replaces() {
            let items = number_or_unknown(row.items);
            format!(
                "exists, with {items} items: replace it with --replace, or add to it with --add"
            )
        } else if !self.change_kind
            && let Some(difference) = target.difference(family, kind)
        {
            format!("{difference}, or replace it with --change-kind")
        } else {
            return Ok(Some(row));
        };
        let name = shown(name.as_bytes());
        Err(Failure::new(format!(
            "{name} at {} {why}",
            server.address()
        )))
    }
}

/// Returns a number that may be unknown.
fn number_or_unknown(number: Option<u64>) -> String {
    number.map_or("unknown".to_owned(), grouped)
}

/// Adds the items to keys that exist.
fn add<'s>(server: &'s Server, keys: &'s [String], source: &Source<'_>) -> Result<Done<'s>> {
    let (family, counts_twice) = family_of(server, keys)?;
    let names: Vec<_> = keys.iter().map(|key| key.clone().into_bytes()).collect();
    let sending = if keys.len() > 1 || counts_equal_items(family) {
        Sending::OutOfOrder
    } else {
        Sending::InOrder
    };
    let read = || RunReceipts::read(server, &names, "build", source.input, sending);
    let receipts = counts_twice.then(read).transpose()?;
    if let Some(receipts) = &receipts {
        receipts.resume(receipts.done_before(), source.show);
    }
    let adding = Adding {
        server,
        family,
        names: keys,
        keys: names,
        receipts,
    };
    let counts = adding.add(source, || Ok(()));
    let explained = |failure| match &adding.receipts {
        Some(receipts) => receipts.status.explain(failure),
        None => failure,
    };
    Ok(Done {
        family,
        counts: counts.map_err(explained)?,
        replaced: Vec::new(),
        receipts: adding.receipts,
    })
}

/// Returns the family of keys that exist, and whether one of them counts what is added twice.
fn family_of(server: &Server, keys: &[String]) -> Result<(Family, bool)> {
    let mut family = Family::Bloom;
    let mut counts_twice = false;
    for key in keys {
        let kind = server.type_of(key.as_bytes())?;
        if kind == "none" {
            let missing = server.missing_key(key.as_bytes());
            return Err(Failure::new(missing + ": build it without --add"));
        }
        family = required_family(server, key, &kind)?;
        if family != Family::Bloom && keys.len() > 1 {
            return Err(inapplicable("--shards", family));
        }
        // Filters with a window have this type, too, and nothing against receipts.
        counts_twice |= match family {
            Family::Bloom => dialect_of(&kind) == Some(Dialect::Bloomfltx),
            Family::Cuckoo => false,
            Family::Cms | Family::Topk | Family::Tdigest => true,
        };
    }
    Ok((family, counts_twice))
}
