//! Planned cuckoo filters.

use std::ops::RangeInclusive;

use valkeybloom_sketches::cuckoo::{
    FILTERS_MAX, Limits as CuckooLimits, Params, Plan, Refusal, Shape, ranges,
};

use valkeybloom_protocol::names::CUCKOO_FILTERS;

use crate::limits::{Limits, refusal, stop, stored};
use crate::picture::{Curve, Picture, whole};
use crate::report::{Report, rounded, to_double};
use crate::{Fault, Planned, Request};

/// The most steps in a picture, whose lines a few hundred pixels show. Smaller steps are drawn as one.
const STEPS: u64 = 200;

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
    /// The slots of a bucket, the moves and the expansion of CF.RESERVE without options.
    pub const DEFAULTS: Params = Params::REDISBLOOM;

    /// Returns the shape, and its plan for a server without limits.
    fn planned(&self) -> Result<(Shape, Plan), Fault> {
        let field = self.start.map_or("items", |_| "start");
        let capacities = self.bucket_size.saturating_mul(2)..=ranges::CAPACITY_MAX;
        let params = Params {
            bucket_size: within(
                self.bucket_size,
                ranges::BUCKET_SIZE,
                "bucket_size",
                "the bucket size",
            )?,
            max_iterations: within(
                self.max_iterations,
                ranges::MAX_ITERATIONS,
                "max_iterations",
                "the number of iterations",
            )?,
            expansion: within(
                self.expansion,
                ranges::EXPANSION,
                "expansion",
                "the expansion",
            )?,
            capacity: within(
                self.capacity(),
                capacities,
                field,
                "the number of items to start with",
            )?,
        };
        let with = |params| {
            let shape = Shape::new(&params)?;
            let plan = shape.plan(self.items, &CuckooLimits::NONE).ok()?;
            Some((shape, plan))
        };
        // No other start and expansion lead to more slots.
        let largest = Params {
            capacity: ranges::CAPACITY_MAX,
            expansion: 1,
            ..params
        };
        with(params).ok_or_else(|| {
            let why = match params.expansion {
                0 => NoPlan::Fixed,
                _ if with(largest).is_none() => NoPlan::TooMany,
                1 => NoPlan::StartsSmall,
                _ => NoPlan::ExpandsFast,
            };
            why.fault(field)
        })
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
        let (shape, plan) = self.planned()?;
        let admitted = shape.plan(self.items, &limits.of_cuckoo());

        let mut report = Report::default();
        report.number("items", self.items);
        report.number("slots", plan.slots);
        let made = shape.plan(0, &CuckooLimits::NONE).unwrap_or(plan).bytes;
        report.number("bytes when made", stored(made));
        // An item that finds no room needs the next filter, so the filters are never filled to the last slot.
        report.number("bytes at least", stored(plan.bytes));
        report.number("filters at least", plan.filters);
        // The requested items are what the filter is full with.
        let rate = rounded(shape.rate_at(self.items), 3);
        report.row("rate when full", rate.to_string(), rate);
        let (reached, stopped) = shape.reach(&limits.of_cuckoo());
        let (name, value) = stopped_by(&shape, &reached, stopped, limits);
        let (text, limit) = stop(name, value, reached.slots);
        report.row("limit", text, limit);
        report.row("command", self.command(), self.command());
        let refusal = match admitted {
            Ok(_) => None,
            Err(Refusal::MaxFilters) => {
                let or = ", or reserve a larger capacity";
                Some(refusal(CUCKOO_FILTERS, plan.filters, or))
            }
            Err(_) => {
                let largest = shape.bytes_of(plan.filters - 1);
                Some(limits.refusal(largest, plan.bytes, ""))
            }
        };
        Ok(Planned { report, refusal })
    }

    fn pictures(&self, _: &Limits) -> Vec<Picture> {
        let Ok((shape, _)) = self.planned() else {
            return Vec::new();
        };
        let end = self.items.saturating_mul(2);
        let most = shape.reach(&CuckooLimits::NONE).0.slots.min(end);
        let (mut steps, mut items) = (Vec::new(), 0);
        while items < most
            && let Ok(plan) =
                shape.plan(most.min(items + most.div_ceil(STEPS)), &CuckooLimits::NONE)
        {
            steps.push((plan.slots, stored(plan.bytes)));
            items = plan.slots;
        }
        let (at, most) = (to_double(self.items), to_double(most));
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
            picture("Bytes at least", Curve::of_steps(name, steps, most)),
            picture("Error rate", Curve::new(name, rates)),
        ]
    }
}

/// Why there is no plan.
enum NoPlan {
    /// The filter does not grow.
    Fixed,
    /// There would have to be too many filters, unless the first one is larger.
    StartsSmall,
    /// The filters reach the largest size too soon, unless they grow by less.
    ExpandsFast,
    /// No filter is large enough.
    TooMany,
}

impl NoPlan {
    /// Returns the fault, with advice that helps. `field` holds the number of items to start with.
    fn fault(self, field: &'static str) -> Fault {
        let (field, text) = match self {
            Self::Fixed => ("items", "a filter that does not grow has fewer slots"),
            Self::StartsSmall => (
                field,
                "65,535 filters, the most, are too small: start larger",
            ),
            Self::ExpandsFast => (
                field,
                "filters of 4 GiB end growth: start with 1073741824 and expansion 1",
            ),
            Self::TooMany => ("items", "no cuckoo filter is large enough for that"),
        };
        Fault::impossible(field, text)
    }
}

/// Returns a number as a narrower type, which has the whole range.
///
/// # Errors
/// It is not within the range. The fault is that of a field, in which the number is called `name`.
fn within<T: TryFrom<u64>>(
    number: u64,
    range: RangeInclusive<u64>,
    field: &'static str,
    name: &str,
) -> Result<T, Fault> {
    let (least, most) = (range.start(), range.end());
    let narrow = T::try_from(number).ok();
    let narrow = narrow.filter(|_| range.contains(&number));
    narrow.ok_or_else(|| {
        let text = format!("{name} is not within {least} to {most}");
        Fault::invalid(field, text)
    })
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
        _ if reached.filters == FILTERS_MAX => ("the most filters, 65,535", None),
        _ if shape.bytes_of(reached.filters).is_none() => ("the largest filter of 4 GiB", None),
        Refusal::MemoryLimit | Refusal::OutOfMemory => {
            let further = shape.reach(&limits.of_object().of_cuckoo()).0.slots;
            let (name, value) = limits.memory(further > reached.slots);
            (name, Some(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_ends_where_the_plan_says() {
        let plan = |start, expansion, items, limits: &Limits| {
            let request = Cuckoo {
                items,
                start: Some(start),
                bucket_size: 2,
                max_iterations: 20,
                expansion,
            };
            let planned = request.plan(limits);
            planned.map(|planned| planned.report.json["limit"]["name"].clone())
        };
        let limits = Limits {
            cuckoo_filters: 1 << 16,
            ..Limits::default()
        };
        for (start, expansion, expected) in [
            (100, 0, "EXPANSION 0"),
            (100, 1, "the most filters, 65,535"),
            (100, 2, "bf.bloom-filter-max-memory-usage"),
        ] {
            let name = plan(start, expansion, 50, &limits).expect("it is large enough");
            assert_eq!(name, expected);
        }
        let few = Limits {
            cuckoo_filters: 3,
            ..limits
        };
        assert_eq!(
            plan(100, 1, 50, &few).expect("it is large enough"),
            CUCKOO_FILTERS
        );
    }
}
