//! Planned cuckoo filters.

use std::ops::RangeInclusive;

use valkeybloom_sketches::cuckoo::{Limits as CuckooLimits, Params, Plan, Refusal, Shape, ranges};

use valkeybloom_protocol::names::CUCKOO_FILTERS;

use crate::limits::{Limits, refusal, stop, stored};
use crate::picture::{Curve, Picture, to_double, whole};
use crate::report::{Report, rounded};
use crate::{Fault, Planned, Request};

/// A cuckoo filter to plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuckoo {
    /// Number of items.
    pub items: u64,
    /// Capacity of the first filter, if it is not the number of items.
    pub start: Option<u64>,
    /// Slots of a bucket.
    pub bucket_size: u64,
    /// The most fingerprints moved to make room for one.
    pub max_iterations: u64,
    /// The growth factor from one filter to the next; 0 for a filter that does not grow.
    pub expansion: u64,
}

impl Cuckoo {
    /// The number of buckets' slots, of moves and the expansion that CF.RESERVE without options takes.
    pub const DEFAULTS: Params = Params::REDISBLOOM;

    fn shape(&self) -> Result<Shape, Fault> {
        let capacity = self.capacity();
        let field = self.start.map_or("items", |_| "start");
        let capacities = self.bucket_size.saturating_mul(2)..=ranges::CAPACITY_MAX;
        let within = |field, name: &str, number: u64, range: RangeInclusive<u64>| {
            let text = format!("{name} is not within {} to {}", range.start(), range.end());
            let is_within = range.contains(&number).then_some(());
            is_within.ok_or_else(|| Fault::invalid(field, text))
        };
        let (size, moves, factor) = (self.bucket_size, self.max_iterations, self.expansion);
        let iterations = "the number of iterations";
        within("bucket_size", "the bucket size", size, ranges::BUCKET_SIZE)?;
        within("max_iterations", iterations, moves, ranges::MAX_ITERATIONS)?;
        within("expansion", "the expansion", factor, ranges::EXPANSION)?;
        within(field, "the capacity", capacity, capacities)?;
        let narrow = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        let params = Params {
            capacity,
            bucket_size: u8::try_from(size).unwrap_or(u8::MAX),
            max_iterations: narrow(moves),
            expansion: narrow(factor),
        };
        Shape::new(&params).ok_or_else(|| Fault::invalid(field, "no filter has this capacity"))
    }

    fn capacity(&self) -> u64 {
        self.start.unwrap_or(self.items)
    }

    /// Returns the command. Options at their defaults are left out.
    fn command(&self) -> String {
        let defaults = Self::DEFAULTS;
        let option = |name, value: u64, default: u64| {
            let given = (value != default).then(|| format!(" {name} {value}"));
            given.unwrap_or_default()
        };
        let size = option("BUCKETSIZE", self.bucket_size, defaults.bucket_size.into());
        let (moves, most) = (self.max_iterations, defaults.max_iterations.into());
        let moves = option("MAXITERATIONS", moves, most);
        let factor = option("EXPANSION", self.expansion, defaults.expansion.into());
        format!("CF.RESERVE key {}{size}{moves}{factor}", self.capacity())
    }
}

impl Request for Cuckoo {
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault> {
        let shape = self.shape()?;
        let unlimited = CuckooLimits::NONE;
        let admitted = shape.plan(self.items, &limits.of_cuckoo());
        let impossible = |refusal| {
            let text = match refusal {
                Refusal::Full => "a filter that does not grow has fewer slots",
                _ => "no cuckoo filter is large enough for that",
            };
            Fault::impossible("items", text)
        };
        let plan = shape.plan(self.items, &unlimited).map_err(impossible)?;
        let made = shape.plan(0, &unlimited).map_err(impossible)?;

        let mut report = Report::default();
        report.number("items", self.items);
        report.number("slots", plan.slots);
        report.number("bytes when made", stored(made.bytes));
        // An item that finds no room needs the next filter, so the filters are never filled to the last slot.
        report.number("bytes at least", stored(plan.bytes));
        report.number("filters at least", plan.filters);
        let rate = rounded(shape.rate_at(self.items), 3);
        report.row("rate when full", rate.to_string(), rate);
        let (reached, stopped) = shape.reach(&limits.of_cuckoo());
        let (name, value) = stopped_by(&shape, &reached, stopped, limits);
        let (text, limit) = stop(name, value, reached.slots);
        report.row("limit", text, limit);
        report.row("command", self.command(), self.command());
        let refusal = admitted.err().map(|refused| {
            if refused == Refusal::MaxFilters {
                let or = ", or reserve a larger capacity";
                return refusal(CUCKOO_FILTERS, plan.filters, or);
            }
            let largest = shape.bytes_of(plan.filters - 1);
            limits.refusal(largest, plan.bytes, "")
        });
        Ok(Planned { report, refusal })
    }

    fn pictures(&self, _: &Limits) -> Vec<Picture> {
        let Ok(shape) = self.shape() else {
            return Vec::new();
        };
        let (at, end) = (to_double(self.items), 2.0 * to_double(self.items));
        let (mut steps, mut items) = (Vec::new(), 0);
        while items < self.items.saturating_mul(2)
            && let Ok(plan) = shape.plan(items + 1, &CuckooLimits::NONE)
            && steps.len() < 1000
        {
            steps.push((plan.slots, stored(plan.bytes)));
            items = plan.slots;
        }
        let most = to_double(items).min(end);
        let parts = (0..=100).map(|part| most * f64::from(part) / 100.0);
        let rates = parts.map(|items| (items, shape.rate_at(whole(items))));
        let name = "this module and RedisBloom";
        let picture = |title: &str, curve| Picture {
            title: title.to_owned(),
            x: "items",
            at,
            requested: None,
            curves: vec![curve],
        };
        vec![
            picture("Bytes at least", Curve::of_steps(name, steps, end)),
            picture("Error rate", Curve::new(name, rates)),
        ]
    }
}

/// Returns the setting that stops growth, and its value.
fn stopped_by(
    shape: &Shape,
    reached: &Plan,
    stopped: Refusal,
    limits: &Limits,
) -> (&'static str, Option<u64>) {
    match stopped {
        Refusal::Full => ("EXPANSION 0", None),
        Refusal::MaxFilters => (CUCKOO_FILTERS, Some(limits.cuckoo_filters)),
        _ if shape.bytes_of(reached.filters).is_none() => ("the largest filter of 4 GiB", None),
        Refusal::MemoryLimit | Refusal::OutOfMemory => {
            let further = shape.reach(&limits.of_object().of_cuckoo()).0.slots;
            let (name, value) = limits.memory(further > reached.slots);
            (name, Some(value))
        }
    }
}
