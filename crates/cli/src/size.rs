//! `valkeybloom size`: computes the memory of a planned filter or sketch, or describes an existing filter.

use std::collections::HashMap;
use std::ffi::CString;

use clap::Args;
use redis::{FromRedisValue, cmd};

use valkeybloom_planner::{
    Bloom, Fault as PlanFault, Limits, Request, STORED_BYTES, Shards, refused,
};
use valkeybloom_protocol::bloom::{InfoField, Maker};
use valkeybloom_protocol::names::BF_INFO;
use valkeybloom_sketches::bloom::{Dialect, Kind, Limits as BloomLimits, Shape, Window};
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

use super::failure::{Failure, Fault, Result, shown};
use super::list::row::{self, Details, Row};
use super::options::{self, FilterOptions};
use super::planned_sketch::{CuckooOptions, SketchOptions};
use super::report::{self, Report, grouped, ratio, two_digits};
use super::server::{Server, Tls, dialect_of};

/// Compute the memory that a filter or a sketch takes
#[derive(Args)]
pub struct Size {
    /// Number of items, like 100M or 2.5k; with a window, in one period
    #[arg(long, value_name = "N", value_parser = options::items, required_unless_present_any = ["of", "sketch"],
        conflicts_with = "sketch")]
    items: Option<u64>,
    /// The error rate
    #[arg(long, value_name = "P", value_parser = options::rate, required_unless_present_any = ["of", "other"],
        conflicts_with = "other")]
    rate: Option<Fraction>,
    /// Start with a filter for N items, and let it grow
    #[arg(long, value_name = "N", value_parser = options::items, conflicts_with = "nonscaling")]
    growing_from: Option<u64>,
    #[command(flatten)]
    filter: FilterOptions,
    /// Length of a period, like 1h: items expire
    #[arg(long, value_name = "TIME", value_parser = options::duration_ms, requires = "periods", conflicts_with = "other")]
    window: Option<u64>,
    /// Number of periods for which an item is found
    #[arg(long, value_name = "N", requires = "window")]
    periods: Option<u64>,
    /// Items can be removed
    #[arg(long, conflicts_with_all = ["window", "other"])]
    counting: bool,
    /// bf.bloom-new-filters of the server: own, valkey-bloom or redisbloom
    #[arg(long, value_name = "KIND", value_parser = options::maker, default_value = "own", conflicts_with = "other")]
    kind: Maker,
    /// Spread the filter over N keys; without N, or with 0, over the fewest that the limits allow
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "0", value_parser = options::shards,
        conflicts_with = "other")]
    shards: Option<Shards>,
    /// bf.bloom-filter-max-memory-usage of the server
    #[arg(long, value_name = "BYTES", value_parser = options::bytes, default_value = "64mb")]
    filter_limit: u64,
    /// bf.bloom-memory-usage-limit of the server; 0: no limit
    #[arg(long, value_name = "BYTES", value_parser = options::bytes, default_value = "0")]
    object_limit: u64,
    /// Describe an existing filter
    #[arg(long, num_args = 2, value_names = ["URL", "KEY"],
        conflicts_with_all = ["items", "growing_from", "nonscaling", "expansion", "window", "counting", "shards",
            "kind", "filter_limit", "object_limit", "other"])]
    of: Option<Vec<String>>,
    #[command(flatten)]
    cuckoo: CuckooOptions,
    #[command(flatten)]
    sketch: SketchOptions,
}

impl Size {
    pub fn run(&self, tls: &Tls, json: bool) -> Result<()> {
        if let Some(of) = &self.of {
            let server = Server::connect(&of[0], tls)?;
            let found = existing(&server, of[1].as_bytes(), self.rate)?;
            return report::end(found, json, Ok(()));
        }
        let limits = Limits {
            filter: self.filter_limit,
            object: self.object_limit,
            cuckoo_filters: self.cuckoo.max_filters,
        };
        let planned = self.request()?.plan(&limits).map_err(failure)?;
        let refused = planned
            .refusal
            .map_or(Ok(()), |text| Err(Failure::new(text)));
        report::end(planned.report, json, refused)
    }

    fn request(&self) -> Result<Request> {
        let cuckoo = || {
            self.cuckoo
                .request(self.items, self.growing_from, self.filter)
        };
        if let Some(request) = self.sketch.request().or_else(cuckoo) {
            return Ok(request);
        }
        let (Some(items), Some(rate)) = (self.items, self.rate) else {
            return Err(Failure::usage("--items and --rate are needed"));
        };
        let kind = options::kind(self.window.zip(self.periods), self.counting)?;
        Ok(Request::Bloom(Bloom {
            items,
            rate,
            start: self.growing_from,
            growth: self.filter.growth(),
            kind,
            maker: self.kind,
            shards: self.shards,
        }))
    }
}

fn failure(fault: PlanFault) -> Failure {
    if fault.is_invalid {
        Failure::usage(fault.text)
    } else {
        Failure::new(fault.text)
    }
}

/// The text for fields that other modules do not report.
const UNKNOWN: &str = "unknown to this server";

/// Describes a filter on a server.
fn existing(server: &Server, key: &[u8], rate: Option<Fraction>) -> Result<Report> {
    let failed = |fault| server.failure(&format!("could not read {} at", shown(key)), &fault);
    let kind: String = server.get(key, cmd("TYPE").arg(key)).map_err(failed)?;
    let info = server.get(key, cmd(BF_INFO).arg(key)).map_err(failed)?;
    let row = Row::new(key.to_vec(), &kind, info);
    let (items, capacity) = (row.items.unwrap_or(0), row.capacity.unwrap_or(0));
    let bytes = row.bytes.unwrap_or(0);

    let mut report = Report::default();
    report.row("type", &kind, kind.clone());
    report.number("items", items);
    report.number("capacity", capacity);
    let full = ratio(items, capacity) * 100.0;
    report.row("full", format!("{full:.1} %"), full / 100.0);
    report.number("bytes", bytes);
    let each = ratio(bytes, items);
    report.row("bytes an item", format!("{each:.2}"), each);
    report.number("filters", row.filters.unwrap_or(0));
    let text = row.rate.map(|rate| rate.to_string());
    report.row("error rate", text.as_deref().unwrap_or(UNKNOWN), row.rate);
    let text = row.rate_now.map(two_digits);
    let text = text.as_deref().unwrap_or(UNKNOWN);
    report.row("error rate now", text, row.rate_now);
    if let Details::Bloom(bloom) = &row.details {
        let of_period = if let (Some(_), Some(items)) = (bloom.window, bloom.reaching) {
            report.number("items in the period", items);
            " in a period"
        } else {
            ""
        };
        let text = match bloom.reach {
            None => UNKNOWN.to_owned(),
            Some(MAX_CAPACITY) => "any number of items".to_owned(),
            Some(reach) => format!("{} items{of_period}", grouped(reach)),
        };
        report.row("can grow to", text, bloom.reach);
        if let Some(rate) = rate.or(row.rate.and_then(Fraction::new)) {
            add_replacement(&mut report, &row, bloom, rate)?;
        }
    }
    Ok(report)
}

/// Adds the rows for a new filter, reserved for the items that the filter has.
fn add_replacement(
    report: &mut Report,
    row: &Row,
    bloom: &row::Bloom,
    rate: Fraction,
) -> Result<()> {
    let (items, bytes) = (row.items.unwrap_or(0), row.bytes.unwrap_or(0));
    let periods = bloom.live_periods.unwrap_or(1).max(1);
    let filter = FilterOptions {
        nonscaling: bloom.growth == row::Growth::Fixed,
        expansion: match bloom.growth {
            row::Growth::By(expansion) => Some(expansion),
            _ => None,
        },
    };
    let window = bloom
        .window
        .and_then(|(ms, periods)| Window::new(ms, periods));
    let shape = Shape {
        params: filter.params(items.div_ceil(periods).max(1), rate),
        kind: match window {
            Some(window) => Kind::Windowed(window),
            None if dialect_of(&row.kind) == Some(Dialect::Bloomfltx) => Kind::Counting,
            None => Kind::Plain,
        },
    };
    let plan = shape.plan(shape.params.capacity, BloomLimits::NONE);
    let plan = plan.map_err(|refusal| Failure::new(refused(refusal)))?;
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
