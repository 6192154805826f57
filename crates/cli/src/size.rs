//! `valkeybloom size`: computes the memory of a planned filter or sketch, or describes an existing filter.

use clap::{Args, Subcommand};

use valkeybloom_planner::{
    Bloom, CountMin, Cuckoo, Fault, FaultKind, Limits, Request, Shards, TDigest, TopK,
};
use valkeybloom_protocol::bloom::Maker;
use valkeybloom_sketches::cms::CellSize;
use valkeybloom_sketches::topk::Shape;
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

use super::failure::{Failure, Result};
use super::held::row::Row;
use super::info::Info;
use super::options::{self, FilterOptions, KindOptions};
use super::report::{self, Report, counted, grouped, ratio, two_digits};
use super::server::{Server, Tls};

/// Compute the memory that a filter or a sketch takes
#[derive(Args)]
#[command(subcommand_negates_reqs = true, subcommand_precedence_over_arg = true)]
pub struct Size {
    #[command(subcommand)]
    what: Option<What>,
    /// Short for `size bloom ITEMS RATE`
    #[arg(required = true, value_parser = options::items)]
    items: Option<u64>,
    /// The error rate
    #[arg(required = true, value_parser = options::rate)]
    rate: Option<Fraction>,
}

#[derive(Subcommand)]
enum What {
    #[command(flatten)]
    Planned(Planned),
    Of(Existing),
}

/// A filter or a sketch to plan.
#[derive(Subcommand)]
enum Planned {
    Bloom(BloomSize),
    Cuckoo(CuckooSize),
    Cms(CountMinSize),
    Topk(TopKSize),
    Tdigest(TDigestSize),
}

/// The limits of the server.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Server")]
struct LimitOptions {
    /// bf.bloom-filter-max-memory-usage of the server
    #[arg(long, value_name = "BYTES", value_parser = options::bytes, default_value = "64mb")]
    filter_limit: u64,
    /// bf.bloom-memory-usage-limit of the server; 0: no limit
    #[arg(long, value_name = "BYTES", value_parser = options::bytes, default_value = "0")]
    object_limit: u64,
}

impl From<LimitOptions> for Limits {
    fn from(options: LimitOptions) -> Self {
        Self {
            filter: options.filter_limit,
            object: options.object_limit,
            ..Self::default()
        }
    }
}

/// A Bloom filter: was an item added?
#[derive(Args)]
struct BloomSize {
    /// Number of items, like 100M or 2.5k; with a window, in one period
    #[arg(value_parser = options::items)]
    items: u64,
    /// The error rate
    #[arg(value_parser = options::rate)]
    rate: Fraction,
    /// Start with a filter for N items, and let it grow
    #[arg(long, value_name = "N", value_parser = options::items, conflicts_with = "nonscaling")]
    growing_from: Option<u64>,
    #[command(flatten)]
    filter: FilterOptions,
    #[command(flatten)]
    kind: KindOptions,
    /// Spread the filter over N keys; without N, or with 0, over the fewest that the limits allow
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "0", value_parser = options::shards)]
    shards: Option<Shards>,
    /// bf.bloom-new-filters of the server: own, valkey-bloom or redisbloom
    #[arg(long = "kind", value_name = "KIND", value_parser = options::maker, default_value = "own")]
    maker: Maker,
    #[command(flatten)]
    limits: LimitOptions,
}

/// A cuckoo filter: was an item added, and not removed?
#[derive(Args)]
struct CuckooSize {
    /// Number of items, like 100M or 2.5k
    #[arg(value_parser = options::items)]
    items: u64,
    /// Start with a filter for N items, and let it grow
    #[arg(long, value_name = "N", value_parser = options::items, conflicts_with = "nonscaling")]
    growing_from: Option<u64>,
    /// Make a filter that does not grow: it is full before all slots are in use
    #[arg(long)]
    nonscaling: bool,
    /// Growth factor from one filter to the next stacked on it
    #[arg(long, value_name = "N", conflicts_with = "nonscaling", default_value_t = Cuckoo::DEFAULTS.expansion.into(),
        value_parser = options::items)]
    expansion: u64,
    /// Slots of a bucket, 1 to 255
    #[arg(long, value_name = "N", value_parser = options::items, default_value_t = Cuckoo::DEFAULTS.bucket_size.into())]
    bucket_size: u64,
    /// The most items moved to make room for one, 1 to 65535
    #[arg(long, value_name = "N", value_parser = options::items, default_value_t = Cuckoo::DEFAULTS.max_iterations.into())]
    max_iterations: u64,
    /// bf.cf-max-expansions of the server, the number of filters at which adds stop
    #[arg(long, value_name = "N", value_parser = options::items, default_value = "32")]
    max_filters: u64,
    #[command(flatten)]
    limits: LimitOptions,
}

/// A count-min sketch: how often was an item counted?
#[derive(Args)]
struct CountMinSize {
    /// How far an estimate may exceed the count, as a share of all increments
    #[arg(value_parser = options::rate)]
    error: Fraction,
    /// The probability that an estimate exceeds the count by more
    #[arg(value_parser = options::rate)]
    probability: Fraction,
    /// Bytes of a counter: 1, 2, 4 or 8
    #[arg(long, value_name = "BYTES", value_parser = options::cell_size, default_value = "4")]
    cell_size: CellSize,
    #[command(flatten)]
    limits: LimitOptions,
}

/// A Top-K: which K items are most frequent?
#[derive(Args)]
struct TopKSize {
    /// Length of the list
    #[arg(value_parser = options::items)]
    k: u64,
    /// Cells in a row [default: 20 for each of the K items]
    #[arg(long, value_name = "N", value_parser = options::items)]
    width: Option<u64>,
    /// Number of rows
    #[arg(long, value_name = "N", value_parser = options::items, default_value_t = Shape::DEFAULT_DEPTH)]
    depth: u64,
    /// The decay
    #[arg(long, value_name = "D", value_parser = options::number, default_value_t = Shape::DEFAULT_DECAY)]
    decay: f64,
    #[command(flatten)]
    limits: LimitOptions,
}

/// A t-digest: which quantiles do values have?
#[derive(Args)]
struct TDigestSize {
    /// The compression: more is more accurate
    #[arg(value_parser = options::items, default_value = "100")]
    compression: u64,
    #[command(flatten)]
    limits: LimitOptions,
}

/// An existing Bloom filter: what would its items take in a filter reserved for them?
#[derive(Args)]
struct Existing {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    url: String,
    /// The filter's key
    key: String,
    /// The error rate, if the server does not report it
    #[arg(long, value_name = "P", value_parser = options::rate)]
    rate: Option<Fraction>,
}

impl Size {
    /// Returns the address of the server with an existing filter.
    pub fn address(&self) -> Option<&str> {
        match &self.what {
            Some(What::Of(existing)) => Some(&existing.url),
            _ => None,
        }
    }

    pub fn run(self, tls: &Tls, json: bool) -> Result<()> {
        if let (Some(_), Some(items)) = (&self.what, self.items) {
            return Err(Failure::usage(format!(
                "{items} comes before a subcommand, which takes its own items: leave one of them out"
            )));
        }
        let (request, limits) = match (self.what, self.items.zip(self.rate)) {
            (Some(What::Of(existing)), _) => {
                return report::end(existing.describe(tls)?, json, Ok(()));
            }
            (Some(What::Planned(planned)), _) => planned.request()?,
            (None, Some((items, rate))) => {
                let request: Box<dyn Request> = Box::new(Bloom::plain(items, rate));
                (request, Limits::default())
            }
            (None, None) => return Err(Failure::usage("ITEMS and RATE are needed")),
        };
        let planned = request.plan(&limits)?;
        let refused = planned.refusal.map(Failure::new);
        report::end(planned.report, json, refused.map_or(Ok(()), Err))
    }
}

impl Planned {
    /// Returns the request, and the limits of the server.
    fn request(self) -> Result<(Box<dyn Request>, Limits)> {
        Ok(match self {
            Self::Bloom(it) => {
                let bloom = Bloom {
                    start: it.growing_from,
                    growth: it.filter.growth(),
                    kind: it.kind.kind()?,
                    maker: it.maker,
                    shards: it.shards,
                    ..Bloom::plain(it.items, it.rate)
                };
                (Box::new(bloom), it.limits.into())
            }
            Self::Cuckoo(it) => {
                let cuckoo = Cuckoo {
                    items: it.items,
                    start: it.growing_from,
                    bucket_size: it.bucket_size,
                    max_iterations: it.max_iterations,
                    expansion: if it.nonscaling { 0 } else { it.expansion },
                };
                let limits = Limits {
                    cuckoo_filters: it.max_filters,
                    ..it.limits.into()
                };
                (Box::new(cuckoo), limits)
            }
            Self::Cms(it) => {
                let sketch = CountMin {
                    error: it.error,
                    probability: it.probability,
                    cell_size: it.cell_size,
                };
                (Box::new(sketch), it.limits.into())
            }
            Self::Topk(it) => {
                let list = TopK {
                    k: it.k,
                    width: it.width.unwrap_or(TopK::advised_width(it.k)),
                    depth: it.depth,
                    decay: it.decay,
                };
                (Box::new(list), it.limits.into())
            }
            Self::Tdigest(it) => {
                let compression = it.compression;
                (Box::new(TDigest { compression }), it.limits.into())
            }
        })
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            FaultKind::Invalid => Self::usage(fault.text),
            FaultKind::Impossible => Self::new(fault.text),
        }
    }
}

impl Existing {
    fn describe(&self, tls: &Tls) -> Result<Report> {
        let server = Server::connect(&self.url, tls)?;
        let key = self.key.as_bytes();
        let kind = server.required_type(key)?;
        let info =
            Info::of(&server, key).map_err(|fault| server.failure_of("read", key, &fault))?;
        let mut row = Row {
            kind,
            ..Row::default()
        };
        row.fill(&info);
        let (items, capacity) = (row.items.unwrap_or(0), row.capacity.unwrap_or(0));
        let bytes = row.bytes.unwrap_or(0);
        let shown = |text: Option<String>| text.unwrap_or("unknown to this server".to_owned());

        let mut report = Report::default();
        report.row("type", &row.kind, row.kind.clone());
        report.number("items", items);
        report.number("capacity", capacity);
        let full = ratio(items, capacity) * 100.0;
        report.row("full", format!("{full:.1} %"), full / 100.0);
        report.number("bytes", bytes);
        let each = ratio(bytes, items);
        report.row("bytes an item", format!("{each:.2}"), each);
        report.number("filters", row.filters.unwrap_or(0));
        let rate = row.rate.map(|rate| rate.to_string());
        report.row("error rate", shown(rate), row.rate);
        let rate_now = row.rate_now.map(two_digits);
        report.row("error rate now", shown(rate_now), row.rate_now);
        let Some(bloom) = row.bloom() else {
            return Ok(report);
        };
        if let Some(items) = bloom.period_items {
            report.number("items in the period", items);
        }
        let reach = bloom.reach.map(|reach| match reach {
            MAX_CAPACITY => "any number of items".to_owned(),
            reach => counted(reach, "item"),
        });
        report.row("can grow to", shown(reach), bloom.reach);

        let rate = self.rate.map(Fraction::get).or(row.rate);
        if let Some(new) = rate.and_then(|rate| bloom.plan(rate, items.max(1))) {
            let new_bytes = new.figures()?.bytes;
            report.number("bytes if reserved for its items", new_bytes);
            let saved = bytes.saturating_sub(new_bytes);
            let percent = ratio(saved, bytes) * 100.0;
            let text = format!("{} ({percent:.1} %)", grouped(saved));
            report.row("saved by that", text, saved);
        }
        Ok(report)
    }
}
