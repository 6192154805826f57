//! `valkeybloom build`: fills a key from files, and puts it in place at once. With shards, that is one key after another.
//!
//! ```text
//!   source → filter  a Bloom filter in this program's memory, sent in chunks ┐
//!          → adding  a sketch on the server                                  ┴→ a temporary key → its final name
//!          → adding  a key that exists, with --add
//! ```

mod adding;
mod filter;
mod source;

use std::num::NonZeroU32;
use std::time::Instant;

use clap::Args;
use valkeybloom_client::{shard_capacity, shard_keys};
use valkeybloom_planner::TopK;
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Dialect, Kind, Params, Shape, Tightening};
use valkeybloom_sketches::topk;

use self::adding::Adding;
use self::filter::Filters;
use self::source::{Counts, Source};
use super::existing::{existing, required_family};
use super::failure::{Failure, Result, shown};
use super::family::{Family, dialect_of};
use super::held::limits;
use super::held::row::Row;
use super::lines::Input;
use super::options::{self, FilterOptions, KindOptions};
use super::progress::Show;
use super::receipts::RunReceipts;
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
    /// What to build
    #[arg(long = "as", value_name = "FAMILY", default_value = "bloom")]
    family: Family,
    /// The error rate; of a count-min sketch, the error of an estimate as a share of all counts
    #[arg(long, value_name = "P", value_parser = options::rate, required_unless_present_any = ["add", "family"],
        required_if_eq_any = [("family", "bloom"), ("family", "cms")])]
    rate: Option<Fraction>,
    /// Number of items, like 100M or 2.5k; without it, the items are counted first
    #[arg(long, value_name = "N", value_parser = options::items)]
    items: Option<u64>,
    #[command(flatten)]
    filter: FilterOptions,
    #[command(flatten)]
    kind: KindOptions,
    /// Probability that a count-min sketch's estimate has a larger error [default: 0.01]
    #[arg(long, value_name = "P", value_parser = options::rate)]
    probability: Option<Fraction>,
    /// Length of a Top-K's list
    #[arg(long, value_name = "N", value_parser = options::items, required_if_eq("family", "topk"))]
    k: Option<u64>,
    /// Compression of a t-digest: more is more accurate [default: 100]
    #[arg(long, value_name = "N", value_parser = options::items)]
    compression: Option<u64>,
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

impl Build {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let start = Instant::now();
        let kind = self.kind.kind()?;
        self.require_options_of_family(kind)?;
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
        if self.counts_first() && source.bytes.is_none() {
            return Err(Failure::usage(
                "the input can be read only once, because not all of it is files: pass --items",
            ));
        }
        let server = Server::connect(&self.to, tls)?;
        let (family, counts, replaced, receipts) = if self.add {
            let (family, counts, receipts) = add(&server, &keys, &source)?;
            (family, counts, Vec::new(), receipts)
        } else {
            let (counts, replaced) = self.build(server, tls, &keys, kind, &source)?;
            (self.family, counts, replaced, None)
        };
        if show != Show::Nothing || json {
            let mut report = Report::default();
            report.row("key", &self.key, self.key.clone());
            report.number("items", counts.items);
            if matches!(family, Family::Bloom | Family::Cuckoo) {
                let before = receipts.as_ref().map_or(0, RunReceipts::done_before);
                let new = (before == 0).then_some(counts.new);
                report.row("new", number_or_unknown(new), new);
            }
            if !replaced.is_empty() {
                let items: Option<u64> = replaced.into_iter().sum();
                report.row("replaced", number_or_unknown(items) + " items", items);
            }
            report.hidden("seconds", start.elapsed().as_secs_f64());
            report::end(report, json, Ok(()))?;
        }
        // Last, because this run could go on until now.
        if let Some(receipts) = receipts {
            receipts.delete();
        }
        Ok(())
    }

    /// Requires that all options are of use to the family.
    fn require_options_of_family(&self, kind: Kind) -> Result<()> {
        use Family::{Bloom, Cms, Cuckoo, Tdigest, Topk};
        let given = [
            ("--rate", self.rate.is_some(), &[Bloom, Cms][..]),
            ("--items", self.items.is_some(), &[Bloom, Cuckoo]),
            ("--nonscaling", self.filter.nonscaling, &[Bloom]),
            ("--expansion", self.filter.expansion.is_some(), &[Bloom]),
            ("--counting", kind == Kind::Counting, &[Bloom]),
            ("--scale-to", kind == Kind::ScaledTo, &[Bloom]),
            ("--window", matches!(kind, Kind::Windowed(_)), &[Bloom]),
            ("--probability", self.probability.is_some(), &[Cms]),
            ("--k", self.k.is_some(), &[Topk]),
            ("--compression", self.compression.is_some(), &[Tdigest]),
            ("--shards", self.shards.is_some(), &[Bloom]),
        ];
        // With --add, the key has a family already.
        let is_useless = |(_, is_given, families): &&(_, bool, &[Family])| {
            *is_given && !self.add && !families.contains(&self.family)
        };
        match given.iter().find(is_useless) {
            None => Ok(()),
            Some((option, ..)) => Err(useless(option, self.family)),
        }
    }

    /// Returns whether the items are counted in a first pass, because the capacity depends on their number.
    fn counts_first(&self) -> bool {
        let has_capacity = matches!(self.family, Family::Bloom | Family::Cuckoo);
        has_capacity && self.items.is_none() && !self.add
    }

    /// Builds new values, and puts them in place. Returns the numbers of items that were replaced, one for each key.
    fn build(
        &self,
        mut server: Server,
        tls: &Tls,
        keys: &[String],
        kind: Kind,
        source: &Source<'_>,
    ) -> Result<(Counts, Vec<Option<u64>>)> {
        // Connections that are idle while files are read may be closed by the server, or by what is between.
        let reconnect = || Server::connect(&self.to, tls);
        if self.family == Family::Bloom {
            server.require_bloom_filters()?;
        }
        let mut before = 0;
        for key in keys {
            let row = self.check(&server, key, kind)?;
            let alike = row.filter(|row| Family::of(&row.kind) == Some(self.family));
            before += alike.and_then(|row| row.items).unwrap_or(0);
        }
        let is_counted = self.counts_first();
        let mut counted = 0;
        if is_counted {
            counted = source.count()?;
            server = reconnect()?;
        }
        let items = self.items.unwrap_or(counted).max(1);
        let (counts, uploads) = if let (Family::Bloom, Some(error_rate)) = (self.family, self.rate)
        {
            let params = Params {
                capacity: shard_capacity(items, source.shards),
                error_rate,
                tightening: Tightening::HALF,
                growth: self.filter.growth(),
            };
            let shape = Shape { params, kind };
            let mut filters = Filters::new(&server, keys, &shape)?;
            let counts = filters.fill(source)?;
            self.require_all(counted, &counts, before)?;
            server = reconnect()?;
            (counts, filters.send(&server, source.show)?)
        } else {
            let (counts, upload) = self.fill_on_server(&server, keys, items, source)?;
            self.require_all(counted, &counts, before)?;
            (counts, vec![upload])
        };
        Ok((counts, self.put_in_place(&server, keys, kind, uploads)?))
    }

    /// Renames the uploads to their keys, one after another. Returns the number of items that each replaced key had.
    fn put_in_place(
        &self,
        server: &Server,
        keys: &[String],
        kind: Kind,
        uploads: Vec<Upload<'_>>,
    ) -> Result<Vec<Option<u64>>> {
        let expires = self.ttl.map_or(NewExpiry::Unchanged, NewExpiry::After);
        let mut replaced = Vec::new();
        let mut uploads = uploads.into_iter();
        for key in keys {
            filter::renew_all(server, key, uploads.as_mut_slice())?;
            let upload = uploads.next().expect("one for each key");
            // Another client may have replaced it.
            replaced.extend(self.check(server, key, kind)?.map(|row| row.items));
            let finished = upload.finish(expires, self.replaces());
            let failed = |fault| server.failure_of("build", key.as_bytes(), &fault);
            if !finished.map_err(failed)? {
                let (key, address) = (shown(key.as_bytes()), server.address());
                return Err(Failure::new(format!(
                    "could not build {key} at {address}: another client has just created it"
                )));
            }
        }
        Ok(replaced)
    }

    /// Creates a value under a temporary key, and has the server fill it.
    fn fill_on_server<'s>(
        &self,
        server: &'s Server,
        keys: &[String],
        items: u64,
        source: &Source<'_>,
    ) -> Result<(Counts, Upload<'s>)> {
        let failed = |fault| {
            let what = format!("could not build {} at", shown(self.key.as_bytes()));
            limits::failure(server, &what, &fault, None)
        };
        let creation = self.creation(items);
        let words: Vec<&[u8]> = creation.split(' ').map(str::as_bytes).collect();
        let upload = Upload::create(server, self.key.as_bytes(), &words);
        let mut upload = upload.map_err(failed)?;
        let adding = Adding {
            server,
            family: self.family,
            names: keys,
            keys: vec![upload.temporary().to_vec()],
            // A cluster's client may send a command again by itself. Cuckoo filters take an item only once.
            receipts: (server.is_cluster() && self.family != Family::Cuckoo)
                .then(|| RunReceipts::of_temporary(server, upload.temporary())),
        };
        let counts = adding.add(source, || upload.renew().map_err(failed))?;
        if let Some(receipts) = adding.receipts {
            receipts.delete();
        }
        Ok((counts, upload))
    }

    /// Returns the command that creates a value, without the key.
    fn creation(&self, items: u64) -> String {
        let number = |fraction: Option<Fraction>| fraction.map_or(0.01, Fraction::get).to_string();
        match self.family {
            Family::Bloom => {
                unreachable!("it is filled in this program, with the rate that is required")
            }
            // A cuckoo filter has room for four items at least.
            Family::Cuckoo => format!("CF.RESERVE {}", items.max(4)),
            Family::Cms => {
                let (rate, probability) = (number(self.rate), number(self.probability));
                format!("CMS.INITBYPROB {rate} {probability}")
            }
            Family::Topk => {
                let k = self.k.unwrap_or(1);
                let (width, depth) = (TopK::advised_width(k), topk::Shape::DEFAULT_DEPTH);
                let decay = topk::Shape::DEFAULT_DECAY;
                format!("TOPK.RESERVE {k} {width} {depth} {decay}")
            }
            Family::Tdigest => {
                let compression = self.compression.unwrap_or(100);
                format!("TDIGEST.CREATE COMPRESSION {compression}")
            }
        }
    }

    const fn replaces(&self) -> bool {
        self.replace || self.change_kind
    }

    /// Requires the items that were counted in the first pass, and half of those that `--items` promised or that are to
    /// be replaced.
    fn require_all(&self, counted: u64, counts: &Counts, before: u64) -> Result<()> {
        let items = counts.items;
        let promised = self.items.unwrap_or(0);
        // Filters count the items that were new to them.
        let comparable = match self.family {
            Family::Bloom | Family::Cuckoo => counts.new,
            Family::Cms | Family::Topk | Family::Tdigest => items,
        };
        let text = if items < counted {
            let (first, second) = (grouped(counted), grouped(items));
            format!("the files changed while they were read: {first} items at first, then {second}")
        } else if self.allow_few {
            return Ok(());
        } else if items == 0 {
            "there are no items: to build it without any, add --allow-few".to_owned()
        } else if items < promised / 2 {
            let (promised, items) = (grouped(promised), grouped(items));
            format!(
                "there are only {items} items, not {promised}: if they are all, add --allow-few"
            )
        } else if comparable < before / 2 {
            let (before, items) = (grouped(before), grouped(comparable));
            format!(
                "there are only {items} items, and {before} would be replaced: if they are all, add --allow-few"
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(text))
    }

    /// Returns what the key holds; `None` if it does not exist.
    ///
    /// # Errors
    /// The key holds another value, or a filter or sketch that the options do not permit to replace: by any, by one of
    /// another family, or by one that does not count or has no window.
    fn check(&self, server: &Server, name: &str, wanted: Kind) -> Result<Option<Row>> {
        let Some((family, row)) = existing(server, name)? else {
            return Ok(None);
        };
        let at = format!("{} at {}", shown(name.as_bytes()), server.address());
        if !self.replaces() {
            let items = number_or_unknown(row.items);
            return Err(Failure::new(format!(
                "{at} exists, with {items} items: replace it with --replace, or add to it with --add"
            )));
        }
        // A filter that lacks chunks has no kind, and may be replaced by any.
        let kind = row.bloom().map(|bloom| bloom.kind);
        let what = if family != self.family {
            let (object, word) = (family.object(), family.word());
            format!("is a {object}: build it with --as {word}")
        } else if matches!(kind, Some(Kind::Windowed(_))) && !matches!(wanted, Kind::Windowed(_)) {
            "has a window: build it with --window and --periods".to_owned()
        } else if kind == Some(Kind::Counting) && wanted != Kind::Counting {
            "counts its items: build it with --counting".to_owned()
        } else {
            return Ok(Some(row));
        };
        if self.change_kind {
            return Ok(Some(row));
        }
        let text = format!("{at} {what}, or replace it with --change-kind");
        Err(Failure::new(text))
    }
}

fn useless(option: &str, family: Family) -> Failure {
    let object = family.object();
    Failure::usage(format!("{option} does not apply to a {object}"))
}

/// Returns a number that may be unknown.
fn number_or_unknown(number: Option<u64>) -> String {
    number.map_or("unknown".to_owned(), grouped)
}

/// Adds the items to keys that exist. Returns the receipts, if repeated additions would count twice.
fn add<'s>(
    server: &'s Server,
    keys: &'s [String],
    source: &Source<'_>,
) -> Result<(Family, Counts, Option<RunReceipts<'s>>)> {
    let (family, counts_twice) = family_of(server, keys)?;
    let names: Vec<_> = keys.iter().map(|key| key.clone().into_bytes()).collect();
    let read = || RunReceipts::read(server, &names, "build", source.input);
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
        Some(receipts) => receipts.explain(failure),
        None => failure,
    };
    Ok((family, counts.map_err(explained)?, adding.receipts))
}

/// Returns the family of keys that exist, and whether one of them counts what is added twice.
fn family_of(server: &Server, keys: &[String]) -> Result<(Family, bool)> {
    let mut family = Family::Bloom;
    let mut counts_twice = false;
    for key in keys {
        let kind = server.type_of(key.as_bytes())?;
        if kind == "none" {
            let missing = server.missing(key.as_bytes());
            return Err(Failure::new(missing + ": build it without --add"));
        }
        family = required_family(server, key, &kind)?;
        if family != Family::Bloom && keys.len() > 1 {
            return Err(useless("--shards", family));
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
