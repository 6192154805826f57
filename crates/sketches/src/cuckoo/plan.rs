//! Plans: the filters and the memory of an object, computed before it is made.

use crate::number::{power, to_double, to_whole};

use super::growth::Plan;
use super::object::Cuckoo;
use super::shape::{Limits, Refusal, Shape};

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
