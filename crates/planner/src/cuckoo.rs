//! Planned cuckoo filters.

use std::ops::RangeInclusive;

use valkeybloom_sketches::cuckoo::{
    FILTER_BYTES_MAX, FILTERS_MAX, Limits as CuckooLimits, Params, Plan, Refusal, Shape, ranges,
};

use valkeybloom_protocol::names::CUCKOO_FILTERS;

use crate::limits::{Limits, refusal, stop, stored};
use crate::picture::{Curve, Picture, whole};
use crate::report::{Report, rounded, to_double};
use crate::{Fault, Planned, Request};

/// The most steps in a picture, whose lines a few hundred pixels show. Smaller steps are drawn as one.
const STEPS: u64 = 200;

/// The numbers that the texts below name.
const _: () = {
    assert!(FILTERS_MAX == 65_535 && FILTER_BYTES_MAX == 4 << 30);
    assert!(ranges::CAPACITY_MAX == 1_073_741_824);
};

/// A cuckoo filter to plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuckoo {
    /// Number of items.
    pub items: u64,
    /// Capacity of the first filter, if it is not that for all items.
    pub start: Option<u64>,
    /// Slots of a bucket.
    pub bucket_size: u64,
    /// The most fingerprints moved to make room for one.
    pub max_iterations: u64,
    /// The growth factor from one filter to the next; 0 for a filter that does not grow.
    pub expansion: u64,
}

impl Cuckoo {
    /// The slots of a bucket, the moves and the expansion of CF.RESERVE without options, on a server with default settings.
    pub const DEFAULTS: Params = Params::REDISBLOOM;

    /// Returns the parameters, the shape, and its plan for a server without limits.
    ///
    /// # Errors
    /// A parameter is not within its range, or no such filter has enough slots.
    fn planned(&self) -> Result<(Params, Shape, Plan), Fault> {
        let params = self.params()?;
        match without_limits(&params, self.slots(&params)) {
            Some((shape, plan)) => Ok((params, shape, plan)),
            None => Err(self.too_few_slots(&params)),
        }
    }

    /// Returns the parameters.
    ///
    /// # Errors
    /// One is not within its range.
    fn params(&self) -> Result<Params, Fault> {
        let size = within(
            self.bucket_size,
            ranges::BUCKET_SIZE,
            "bucket_size",
            "the bucket size",
        )?;
        let moves = within(
            self.max_iterations,
            ranges::MAX_ITERATIONS,
            "max_iterations",
            "the number of iterations",
        )?;
        let expansion = within(
            self.expansion,
            ranges::EXPANSION,
            "expansion",
            "the expansion",
        )?;
        let mut params = Params {
            capacity: 0,
            bucket_size: u8::try_from(size).unwrap_or(u8::MAX),
            max_iterations: u16::try_from(moves).unwrap_or(u16::MAX),
            expansion: u16::try_from(expansion).unwrap_or(u16::MAX),
        };
        let capacity = self.start.unwrap_or_else(|| {
            let capacity = Params::capacity_for(self.slots(&params), size);
            capacity.min(ranges::CAPACITY_MAX.max(self.items))
        });
        let capacities = 2 * size..=ranges::CAPACITY_MAX;
        let name = "the number of items to start with";
        params.capacity = within(capacity, capacities, self.field_of_capacity(), name)?;
        Ok(params)
    }

    /// Returns the number of slots for the items: one for each, if those that find no room go to the next filter.
    fn slots(&self, params: &Params) -> u64 {
        match params.expansion {
            0 => params.sure_slots(self.items),
            _ => self.items,
        }
    }

    /// Returns the field of the page that the capacity comes from.
    fn field_of_capacity(&self) -> &'static str {
        self.start.map_or("items", |_| "start")
    }

    /// Returns why there is no plan, with advice that helps.
    fn too_few_slots(&self, params: &Params) -> Fault {
        // No other start and expansion lead to more slots.
        let largest = Params {
            capacity: ranges::CAPACITY_MAX,
            expansion: 1,
            ..*params
        };
        let start = self.field_of_capacity();
        let (field, text) = match params.expansion {
            0 => ("items", "a filter that does not grow is full before"),
            _ if without_limits(&largest, self.items).is_none() => (
                "items",
                "no cuckoo filter with that bucket size has as many slots",
            ),
            1 => (
                start,
                "65,535 filters, the most, are too small: start larger",
            ),
            _ => (
                start,
                "filters of 4 GiB end growth: start with 1073741824 and expansion 1",
            ),
        };
        Fault::impossible(field, text)
    }

    /// Returns the command that creates a filter under a key. It has all options, because a server's settings can change their
    /// defaults.
    pub fn command(params: &Params, key: &str) -> String {
        let Params {
            capacity,
            bucket_size,
            max_iterations,
            expansion,
        } = params;
        format!(
            "CF.RESERVE {key} {capacity} BUCKETSIZE {bucket_size} MAXITERATIONS {max_iterations} EXPANSION {expansion}"
        )
    }

    /// Returns the figures of a plan, and what stops growth beyond it.
    fn report(&self, params: &Params, shape: &Shape, plan: &Plan, limits: &Limits) -> Report {
        let mut report = Report::default();
        report.number("items", self.items);
        report.number("slots", plan.slots);
        let made = shape.plan(0, &CuckooLimits::NONE).unwrap_or(*plan).bytes;
        report.number("bytes when made", stored(made));
        // An item that finds no room needs the next filter, so the filters are never filled to the last slot.
        report.number("bytes at least", stored(plan.bytes));
        report.number("filters at least", plan.filters);
        // The requested items are what the filter is full with.
        let rate = rounded(shape.rate_at(self.items), 3);
        report.row("rate when full", rate.to_string(), rate);
        let (reached, stopped) = shape.reach(&limits.of_cuckoo());
        let (name, value) = stopped_by(shape, &reached, stopped, limits);
        let items = match stopped {
            Refusal::Full => params.sure_items(reached.slots),
            _ => reached.slots,
        };
        let (text, limit) = stop(name, value, items);
        report.row("limit", text, limit);
        let command = Self::command(params, "key");
        report.row("command", command.clone(), command);
        report
    }
}

/// Returns the shape of an object, and its plan for some items on a server without limits, if there is one.
fn without_limits(params: &Params, items: u64) -> Option<(Shape, Plan)> {
    let shape = Shape::new(params)?;
    let plan = shape.plan(items, &CuckooLimits::NONE).ok()?;
    Some((shape, plan))
}

/// Returns why a server with these limits refuses a plan, and what to do about it; `None` if it does not.
fn refusal_of(params: &Params, shape: &Shape, plan: &Plan, limits: &Limits) -> Option<String> {
    // Filters grow, so the last one is the largest.
    let largest = shape.bytes_of(plan.filters - 1).unwrap_or(u64::MAX);
    let mut exceeded = limits.exceeded(largest, stored(plan.bytes));
    let mut or = "";
    if plan.filters > limits.of_cuckoo().filters {
        exceeded.insert(0, (CUCKOO_FILTERS, plan.filters + 1));
        if params.capacity < ranges::CAPACITY_MAX {
            or = ", or reserve a larger capacity";
        }
    }
    refusal(&exceeded, or)
}

impl Request for Cuckoo {
    fn plan(&self, limits: &Limits) -> Result<Planned, Fault> {
        let (params, shape, plan) = self.planned()?;
        Ok(Planned {
            report: self.report(&params, &shape, &plan, limits),
            refusal: refusal_of(&params, &shape, &plan, limits),
        })
    }

    fn pictures(&self, _: &Limits) -> Vec<Picture> {
        let Ok((_, shape, _)) = self.planned() else {
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

/// Requires that a number is within a range.
///
/// # Errors
/// It is not. The fault is that of a field, in which the number is called `name`.
fn within(
    number: u64,
    range: RangeInclusive<u64>,
    field: &'static str,
    name: &str,
) -> Result<u64, Fault> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (least, most) = (range.start(), range.end());
    let text = format!("{name} is not within {least} to {most}");
    Err(Fault::invalid(field, text))
}

/// Returns the name of what stops growth, and its value if it is a setting.
fn stopped_by(
    shape: &Shape,
    reached: &Plan,
    stopped: Refusal,
    limits: &Limits,
) -> (&'static str, Option<u64>) {
    match stopped {
        Refusal::Full => ("EXPANSION 0", None),
        _ if reached.filters == FILTERS_MAX => ("the most filters, 65,535", None),
        Refusal::MaxFilters => (CUCKOO_FILTERS, Some(limits.cuckoo_filters)),
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
    use crate::limits::tests::check;

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
            let name = plan(start, expansion, 30, &limits).expect("it is large enough");
            assert_eq!(name, expected);
        }
        let few = Limits {
            cuckoo_filters: 3,
            ..limits
        };
        assert_eq!(
            plan(100, 1, 30, &few).expect("it is large enough"),
            CUCKOO_FILTERS
        );
    }

    #[test]
    fn a_refusal_names_each_limit() {
        for (items, start, expansion) in [
            (1, None, 1),
            (1025, None, 0),
            (300_000, None, 2),
            (20_000, Some(100), 1),
            (300_000, Some(100), 2),
            (300_000, Some(100), 32_768),
        ] {
            let request = Cuckoo {
                items,
                start,
                bucket_size: 2,
                max_iterations: 20,
                expansion,
            };
            let (_, shape, plan) = request.planned().expect("it is large enough");
            check(&request, |limits| {
                shape.plan(plan.slots, &limits.of_cuckoo()).is_ok()
            });
        }
    }
}
