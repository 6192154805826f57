//! Plans: the memory of an object, computed before it is made.

use std::num::NonZeroU32;

use crate::bloom::filter::Geometry;
use crate::bloom::law::{Limits, Refusal};
use crate::bloom::stack::Stack;
use crate::number::{self, to_double, to_whole};

use super::lanes::Lanes;
use super::period::Period;
use super::shape::{Grown, Kind, Shape};
use super::timeline::Timeline;

/// The filters and the memory of an object that is not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Capacity and size of the filters of one stack, oldest first.
    pub filters: Vec<(u64, Geometry)>,
    /// Size in bytes of an object of one stack, after each of these filters.
    pub sizes: Vec<u64>,
    /// Size in bytes of the new object, with one filter.
    pub first_bytes: u64,
    /// Size in bytes of the object with all of these filters; with a window, in all periods that may take memory at
    /// the same time.
    pub full_bytes: u64,
    /// Number of such stacks that may be live at the same time: more than one with a window.
    pub periods: u64,
}

/// Returns the capacity of each shard of a filter for `capacity` items: an even share *s*, plus 5·√(*s*·(1−1/N)).
///
/// Actual shares vary: a shard's share is binomial, with a standard deviation of √(*s*·(1−1/N)). With all `capacity`
/// items added, one shard in three million exceeds the even share by more than five standard deviations. So a
/// non-scaling filter does not refuse items, and a scaling filter need not grow. At a million items per shard the margin
/// costs 0.5 % of memory.
#[must_use]
pub fn shard_capacity(capacity: u64, shards: NonZeroU32) -> u64 {
    let share = capacity.div_ceil(u64::from(shards.get()));
    let variance = to_double(share) * (1.0 - 1.0 / f64::from(shards.get()));
    share.saturating_add(to_whole((5.0 * variance.sqrt()).ceil()))
}

impl Plan {
    /// Returns the sum of the filters' capacities; with a window, of one period.
    pub fn capacity(&self) -> u64 {
        let capacities = self.filters.iter().map(|(capacity, _)| *capacity);
        capacities.fold(0, u64::saturating_add)
    }

    /// Returns the expected error rate as the object fills: at `each` numbers of items for each filter, evenly spaced and
    /// ending with the full filter. The rates are those of [`rate_at`](Self::rate_at).
    pub fn rates(&self, each: u64) -> Vec<(u64, f64)> {
        let (mut points, mut before, mut older) = (vec![(0, 0.0)], 0, 0.0);
        for (capacity, geometry) in &self.filters {
            for part in 1..=each {
                let held = u128::from(*capacity) * u128::from(part) / u128::from(each);
                let held = u64::try_from(held).unwrap_or(*capacity);
                let rate = number::either([older, geometry.rate_at(held)].into_iter());
                points.push((before + held, self.in_all_periods(rate)));
            }
            older = number::either([older, geometry.rate_at(*capacity)].into_iter());
            before += capacity;
        }
        points
    }

    /// Returns the rate of the object whose periods each have this rate.
    fn in_all_periods(&self, rate: f64) -> f64 {
        1.0 - number::power(1.0 - rate, self.periods)
    }

    /// Returns the expected error rate of the object with this many items, all new, with a window in each period. Filters
    /// fill from the oldest on; items beyond their capacity count as in the newest one.
    pub fn rate_at(&self, items: u64) -> f64 {
        let (mut rest, newest) = (items, self.filters.len().saturating_sub(1));
        let rates = self.filters.iter().enumerate();
        let rates = rates.map(|(index, (capacity, geometry))| {
            let held = if index == newest {
                rest
            } else {
                rest.min(*capacity)
            };
            rest -= held;
            geometry.rate_at(held)
        });
        self.in_all_periods(number::either(rates))
    }
}

impl Shape {
    /// Returns the capacity that an object of this shape, or with a window each period, can grow to, and what stops it
    /// there. Nothing does if the capacity is [`MAX_CAPACITY`](crate::MAX_CAPACITY).
    pub fn reach(&self, limits: Limits) -> (u64, Option<Refusal>) {
        let (base, period) = self.base_bytes();
        self.reach_beside(base + period, self.params.capacity, limits.into())
    }

    /// Returns the filters and the memory of an object of this shape that holds `items`, with a window in each period.
    /// A window is planned in its adapted state; before that, its first periods stack filters.
    ///
    /// # Errors
    /// Any [`Refusal`]: [`Refusal::Full`] if the object does not grow and its capacity is smaller than `items`.
    pub fn plan(&self, items: u64, limits: Limits) -> Result<Plan, Refusal> {
        let (base, period) = self.base_bytes();
        let first = self.stack_beside(base + period, 0, limits)?;
        let Grown { filters, sizes } = self.stack_beside(base + period, items, limits)?;
        let last = |sizes: &[u64]| sizes.last().copied().unwrap_or(base);
        let periods = (last(&sizes) - base).saturating_mul(self.most_periods());
        let lanes = match self.kind {
            Kind::Windowed(_) => Lanes::bytes_beside(
                self.first_geometry(self.params.capacity)?,
                self.most_periods(),
            ),
            Kind::Plain | Kind::Counting => 0,
        };
        let full_bytes = base.saturating_add(periods).saturating_add(lanes);
        if full_bytes > limits.object_bytes {
            return Err(Refusal::MemoryLimit);
        }
        Ok(Plan {
            filters,
            first_bytes: last(&first.sizes),
            sizes,
            full_bytes,
            periods: self.most_periods(),
        })
    }

    /// Returns the size in bytes of an object without periods, and of a period without filters. A plain object is as
    /// large as its stack.
    const fn base_bytes(&self) -> (u64, u64) {
        match self.kind {
            Kind::Plain => (Stack::BASE_BYTES, 0),
            Kind::Windowed(_) | Kind::Counting => {
                let base = Stack::BASE_BYTES + Timeline::BASE_BYTES;
                (base, Period::ENTRY_BYTES)
            }
        }
    }
}
