//! `valkeybloom size`: computes the memory of a planned filter or sketch, or describes an existing filter.

use std::collections::HashMap;
use std::ffi::CString;
use std::num::NonZeroU32;

use clap::Args;
use redis::{FromRedisValue, cmd};
use serde_json::{Value, json};

use valkeybloom_client::shard_capacity;
use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::names::{BF_INFO, BF_RESERVE, FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::{Dialect, Kind, Limits, Plan, Refusal, Shape, Window};
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

use super::failure::{Failure, Fault, Result, shown};
use super::options::{self, FilterOptions, STORED_BYTES};
use super::planned_sketch::{self, SketchOptions};
use super::report::{Report, grouped, ratio, two_digits};
use super::server::{Server, Tls, dialect_of};

/// The most shards that are tried: the number of a cluster's slots.
const MOST_SHARDS: u32 = 16_384;

/// Compute the memory that a filter or a sketch takes
#[derive(Args)]
pub struct Size {
    /// Number of items, like 100M or 2.5k; with a window, in one period
    #[arg(long, value_name = "N", value_parser = options::items, required_unless_present_any = ["of", "sketch"],
        conflicts_with = "sketch")]
    items: Option<u64>,
    /// The error rate
    #[arg(long, value_name = "P", value_parser = options::rate, required_unless_present_any = ["of", "sketch"],
        conflicts_with = "sketch")]
    rate: Option<Fraction>,
    /// Start with a filter for N items, and let it grow
    #[arg(long, value_name = "N", value_parser = options::items, conflicts_with = "nonscaling")]
    growing_from: Option<u64>,
    #[command(flatten)]
    filter: FilterOptions,
    /// Length of a period, like 1h: items expire
    #[arg(long, value_name = "TIME", value_parser = options::duration_ms, requires = "periods")]
    window: Option<u64>,
    /// Number of periods for which an item is found
    #[arg(long, value_name = "N", requires = "window")]
    periods: Option<u64>,
    /// Items can be removed
    #[arg(long, conflicts_with = "window")]
    counting: bool,
    /// Spread the filter over N keys; without N, or with 0, over the fewest that the limits allow
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    shards: Option<u32>,
    /// bf.bloom-filter-max-memory-usage of the server
    #[arg(long, value_name = "BYTES", value_parser = options::bytes, default_value = "64mb")]
    filter_limit: u64,
    /// bf.bloom-memory-usage-limit of the server; 0: no limit
    #[arg(long, value_name = "BYTES", value_parser = options::bytes, default_value = "0")]
    object_limit: u64,
    /// Describe an existing filter
    #[arg(long, num_args = 2, value_names = ["URL", "KEY"],
        conflicts_with_all = ["items", "growing_from", "nonscaling", "expansion", "window", "counting", "shards",
            "filter_limit", "object_limit", "sketch"])]
    of: Option<Vec<String>>,
    #[command(flatten)]
    sketch: SketchOptions,
}

impl Size {
    pub fn run(&self, tls: &Tls, json: bool) -> Result<()> {
        let limits = planned_sketch::Limits {
            filter: self.filter_limit,
            object: self.object_limit,
        };
        if let Some(planned) = self.sketch.run(&limits, json) {
            return planned;
        }
        match (&self.of, self.items, self.rate) {
            (Some(of), _, _) => {
                let server = Server::connect(&of[0], tls)?;
                existing(&server, of[1].as_bytes(), self.rate)?.end(json, Ok(()))
            }
            (None, Some(items), Some(rate)) => self.planned(items, rate, json),
            _ => Err(Failure::usage("--items and --rate are needed")),
        }
    }

    fn planned(&self, items: u64, rate: Fraction, json: bool) -> Result<()> {
        let limits = self.limits();
        let fewest = || {
            let mut all = (1..=MOST_SHARDS).filter_map(NonZeroU32::new);
            all.find(|&shards| {
                let of_shard = self.shape(items, rate, shards);
                of_shard.is_some_and(|(shape, items)| shape.plan(items, limits).is_ok())
            })
        };
        let shards = match self.shards.map(NonZeroU32::new) {
            None => NonZeroU32::MIN,
            Some(Some(shards)) => shards,
            Some(None) => fewest().ok_or_else(|| {
                Failure::new(format!("more than {MOST_SHARDS} shards would be needed"))
            })?,
        };
        let window = || Failure::usage("a window has 1 to 1440 periods");
        let (shape, items_of_shard) = self.shape(items, rate, shards).ok_or_else(window)?;
        let planned = shape.plan(items_of_shard, limits);
        let admitted = planned.is_ok();
        let plan = planned.or_else(|refusal| match refusal {
            Refusal::MemoryLimit => shape.plan(items_of_shard, Limits::NONE),
            other => Err(other),
        });
        let plan = plan.map_err(refused)?;

        let mut report = Report::default();
        report.number("items", items);
        report.row("error rate", rate.get().to_string(), rate.get());
        if self.shards.is_some() {
            report.number("shards", shards.get().into());
            report.number("capacity of a shard", shape.params.capacity);
        }
        let held = items.saturating_mul(shape.most_periods());
        describe(&mut report, &plan, held, shards);
        let (text, limit) = self.limit(&shape);
        report.row("limit", text, limit);
        let command = self.command(self.shards.map_or("key", |_| "key:0"), &shape);
        let others = match shards.get() {
            1 => String::new(),
            shards => format!("   (and so on, up to key:{})", shards - 1),
        };
        report.row("command", command.clone() + &others, command);
        let refused = || {
            let advice = self.advice(&plan);
            Failure::new(format!("a server with these limits refuses it: {advice}"))
        };
        report.end(json, admitted.then_some(()).ok_or_else(refused))
    }

    /// Returns the shape of a shard, and the number of its items; `None` for an impossible window.
    fn shape(&self, items: u64, rate: Fraction, shards: NonZeroU32) -> Option<(Shape, u64)> {
        let kind = match (self.window, self.periods) {
            (Some(ms), Some(periods)) => Kind::Windowed(Window::new(ms, periods)?),
            _ if self.counting => Kind::Counting,
            _ => Kind::Plain,
        };
        let capacity = self.growing_from.unwrap_or(items);
        let params = self.filter.params(shard_capacity(capacity, shards), rate);
        Some((Shape { params, kind }, shard_capacity(items, shards)))
    }

    fn limits(&self) -> Limits {
        Limits {
            filter_bytes: self.filter_limit,
            object_bytes: match self.object_limit {
                0 => u64::MAX,
                bytes => bytes.saturating_sub(STORED_BYTES),
            },
            saturate: false,
        }
    }

    /// Returns the limit that stops the growth, and the number of items there, as text and as JSON.
    fn limit(&self, shape: &Shape) -> (String, Value) {
        let (reach, refusal) = shape.reach(self.limits());
        let (name, bytes) = match refusal {
            None => return ("none".to_owned(), Value::Null),
            Some(Refusal::Full) => ("NONSCALING", None),
            Some(Refusal::RateTooSmall) => ("error rate", None),
            Some(Refusal::MemoryLimit | Refusal::OutOfMemory) => {
                let of_object = Limits {
                    filter_bytes: u64::MAX,
                    ..self.limits()
                };
                if shape.reach(of_object).0 > reach {
                    (FILTER_MEMORY, Some(self.filter_limit))
                } else {
                    (OBJECT_MEMORY, Some(self.object_limit))
                }
            }
        };
        let size = bytes.map_or(String::new(), |bytes| format!(" {}", grouped(bytes)));
        let text = format!("{name}{size}, at {} items", grouped(reach));
        let limit = json!({ "name": name, "bytes": bytes, "items": reach });
        (text, limit)
    }

    fn command(&self, key: &str, shape: &Shape) -> String {
        let (rate, capacity) = (shape.params.error_rate.get(), shape.params.capacity);
        let kind = match shape.kind {
            Kind::Plain => String::new(),
            Kind::Windowed(of) => format!(" WINDOW {} PERIODS {}", of.period_ms(), of.periods()),
            Kind::Counting => " COUNTING".to_owned(),
        };
        let words = self.filter.words();
        format!("{BF_RESERVE} {key} {rate} {capacity}{words}{kind}")
    }

    /// Names the setting to raise for a plan that exceeds the limits.
    fn advice(&self, plan: &Plan) -> String {
        let largest = plan.filters.iter().map(|(_, size)| size.blob_bytes()).max();
        let (setting, bytes) = match largest {
            Some(bytes) if bytes > self.filter_limit => (FILTER_MEMORY, bytes),
            _ => (OBJECT_MEMORY, plan.full_bytes + STORED_BYTES),
        };
        format!("set {setting} to {bytes} there, or use --shards")
    }
}

fn refused(refusal: Refusal) -> Failure {
    Failure::new(match refusal {
        Refusal::RateTooSmall => "that rate is too small for the last filters of its stack",
        Refusal::Full | Refusal::MemoryLimit | Refusal::OutOfMemory => {
            "no memory is large enough for that"
        }
    })
}

/// Adds the rows for the memory of all shards of a plan, which hold at most `items` items.
fn describe(report: &mut Report, plan: &Plan, items: u64, shards: NonZeroU32) {
    let shards = u64::from(shards.get());
    let of_shards = |bytes: u64| bytes.saturating_add(STORED_BYTES).saturating_mul(shards);
    report.number("bytes when made", of_shards(plan.first_bytes));
    let full = of_shards(plan.full_bytes);
    report.number("bytes when full", full);
    let each = ratio(full, items);
    report.row("bytes an item", format!("{each:.2}"), each);
    report.number("filters", plan.filters.len() as u64 * shards);
    let hashes: Vec<u32> = plan.filters.iter().map(|(_, size)| size.hashes).collect();
    let text: Vec<String> = hashes.iter().map(u32::to_string).collect();
    report.row("hash functions", text.join(" "), hashes);
}

/// The text for fields that other modules do not report.
const UNKNOWN: &str = "unknown to this server";

/// Describes a filter on a server.
fn existing(server: &Server, key: &[u8], rate: Option<Fraction>) -> Result<Report> {
    let failed = |fault| server.failure(&format!("could not read {} at", shown(key)), &fault);
    let kind: String = server.get(key, cmd("TYPE").arg(key)).map_err(failed)?;
    let info = Info::of(server, key).map_err(failed)?;
    let (items, capacity, bytes) = info.sums();

    let mut report = Report::default();
    report.row("type", &kind, kind.clone());
    report.number("items", items);
    report.number("capacity", capacity);
    let full = ratio(items, capacity) * 100.0;
    report.row("full", format!("{full:.1} %"), full / 100.0);
    report.number("bytes", bytes);
    let each = ratio(bytes, items);
    report.row("bytes an item", format!("{each:.2}"), each);
    report.number("filters", info.get(InfoField::Filters).unwrap_or(0));
    let requested: Option<f64> = info.get(InfoField::Error);
    let now: Option<f64> = info.get(InfoField::EstimatedError);
    let text = requested.map(|rate| rate.to_string());
    report.row("error rate", text.as_deref().unwrap_or(UNKNOWN), requested);
    let text = now.map(two_digits);
    report.row("error rate now", text.as_deref().unwrap_or(UNKNOWN), now);
    let reach: Option<u64> = match info.get::<u64>(InfoField::Expansion) {
        None => Some(capacity),
        Some(_) => info.get(InfoField::MaxScaledCapacity),
    };
    let text = match reach {
        None => UNKNOWN.to_owned(),
        Some(MAX_CAPACITY) => "any number of items".to_owned(),
        Some(reach) => format!("{} items", grouped(reach)),
    };
    report.row("can grow to", text, reach);
    if let Some(rate) = rate.or(requested.and_then(Fraction::new)) {
        add_replacement(&mut report, &info, &kind, rate)?;
    }
    Ok(report)
}

/// Adds the rows for a new filter, reserved for the items that the filter has.
fn add_replacement(report: &mut Report, info: &Info, kind: &str, rate: Fraction) -> Result<()> {
    let (items, _, bytes) = info.sums();
    let window = info
        .get(InfoField::Window)
        .zip(info.get(InfoField::Periods));
    let window = window.and_then(|(ms, periods)| Window::new(ms, periods));
    let periods = info.get(InfoField::LivePeriods).unwrap_or(1).max(1);
    let expansion = info.get(InfoField::Expansion);
    let filter = FilterOptions {
        nonscaling: expansion.is_none(),
        expansion: expansion.unwrap_or(2),
    };
    let shape = Shape {
        params: filter.params(items.div_ceil(periods).max(1), rate),
        kind: match window {
            Some(window) => Kind::Windowed(window),
            None if dialect_of(kind) == Some(Dialect::Bloomfltx) => Kind::Counting,
            None => Kind::Plain,
        },
    };
    let plan = shape.plan(shape.params.capacity, Limits::NONE);
    let plan = plan.map_err(refused)?;
    // A window has as many periods as now.
    let new_bytes = match window {
        Some(_) => plan.full_bytes / shape.most_periods() * periods,
        None => plan.full_bytes + STORED_BYTES,
    };
    report.number("bytes if reserved for its items", new_bytes);
    let saved = bytes.saturating_sub(new_bytes);
    let percent = ratio(saved, bytes) * 100.0;
    report.row(
        "saved by that",
        format!("{} ({percent:.1} %)", grouped(saved)),
        saved,
    );
    Ok(())
}

/// A reply to BF.INFO, from any module.
pub struct Info(HashMap<CString, redis::Value>);

impl Info {
    pub fn of(server: &Server, key: &[u8]) -> Result<Self, Fault> {
        Ok(Self(server.get(key, cmd(BF_INFO).arg(key))?))
    }

    /// Returns a field, unless it is missing or null.
    pub fn get<T: FromRedisValue>(&self, field: InfoField) -> Option<T> {
        let value = self.0.get(field.title());
        let value = value.filter(|value| **value != redis::Value::Nil)?;
        T::from_redis_value(value.clone()).ok()
    }

    pub fn fields(&self) -> &HashMap<CString, redis::Value> {
        &self.0
    }

    /// Returns the numbers of items, of the capacity and of bytes.
    pub fn sums(&self) -> (u64, u64, u64) {
        let number = |field| self.get(field).unwrap_or(0);
        (
            number(InfoField::Items),
            number(InfoField::Capacity),
            number(InfoField::Size),
        )
    }
}
