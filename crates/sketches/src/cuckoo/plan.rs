//! Plans: the filters and the memory of an object, computed before it is made.

use crate::number::{power, to_double, to_whole};

use super::growth::Plan;
use super::object::Cuckoo;
use super::shape::{Limits, Params, Refusal, Shape};

/// For bucket sizes from this one on, the percentage of its slots that a filter is sure to use before an item finds no room.
/// The lowest of five filters of 2²⁰ buckets with 20 iterations was not below, by
/// `cargo bench -p valkeybloom-sketches --bench accuracy -- cuckoo`.
const SURE_PERCENT: [(u8, u64); 5] = [(1, 21), (2, 27), (4, 75), (8, 83), (16, 87)];

/// The number of iterations of that measurement.
const MEASURED_ITERATIONS: u64 = 20;

impl Params {
    /// Returns the number of items that a filter with this many slots is sure to take, unless it has far more than 2²⁰ buckets:
    /// the larger a filter, the earlier it meets an item that finds no room. With fewer than 20 iterations, the number is taken
    /// to be proportionally smaller.
    pub fn sure_items(&self, slots: u64) -> u64 {
        let share = self.sure_share();
        slots / WHOLE * share + slots % WHOLE * share / WHOLE
    }

    /// Returns the number of slots with which a filter is [sure](Self::sure_items) to take this many items.
    pub fn sure_slots(&self, items: u64) -> u64 {
        let share = self.sure_share();
        let rest = (items % share * WHOLE).div_ceil(share);
        (items / share).saturating_mul(WHOLE).saturating_add(rest)
    }

    /// Returns the share of the slots that a filter is sure to use, of [`WHOLE`].
    fn sure_share(&self) -> u64 {
        let of_size = SURE_PERCENT
            .iter()
            .rev()
            .find(|(size, _)| *size <= self.bucket_size);
        let percent = of_size.map_or(SURE_PERCENT[0].1, |(_, percent)| *percent);
        percent * u64::from(self.max_iterations).clamp(1, MEASURED_ITERATIONS)
    }
}

/// All of the slots, where [`Params::sure_share`] returns a part.
const WHOLE: u64 = 100 * MEASURED_ITERATIONS;

impl Shape {
    /// Returns the fewest filters that have a slot for each of `items` items.
    ///
    /// # Errors
    /// The [`Refusal`] of the first filter that is refused.
    pub fn plan(&self, items: u64, limits: &Limits) -> Result<Plan, Refusal> {
        let mut plan = Plan::without_filters(Cuckoo::BASE_BYTES);
        while plan.filters == 0 || plan.slots < items {
            plan.grow(self, limits)?;
        }
        Ok(plan)
    }

    /// Returns the largest object, and what stops its growth.
    pub fn reach(&self, limits: &Limits) -> (Plan, Refusal) {
        let mut plan = Plan::without_filters(Cuckoo::BASE_BYTES);
        loop {
            if let Err(refusal) = plan.grow(self, limits) {
                return (plan, refusal);
            }
        }
    }

    /// Returns the expected error rate of an object with this many items, on average over the items that were never added.
    /// An item is looked up in two buckets of each filter, and one fingerprint in 255 is its own.
    pub fn rate_at(&self, items: u64) -> f64 {
        let mut compared = 0.0;
        let (mut rest, mut index) = (items, 0);
        while rest > 0
            && let Some(slots) = self.bytes_of(index)
        {
            let held = rest.min(slots);
            let load = to_double(held) / to_double(slots);
            compared += 2.0 * f64::from(self.bucket_size) * load;
            (rest, index) = (rest - held, index + 1);
        }
        // Between two whole numbers of fingerprints the rate is nearly linear.
        let none_of = |fingerprints| power(254.0 / 255.0, fingerprints);
        let whole = to_whole(compared);
        let part = compared - to_double(whole);
        1.0 - none_of(whole) * (1.0 - part / 255.0)
    }
}
