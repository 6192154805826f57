//! Plans: the memory of an object, computed before it is made.

use std::num::NonZeroU32;

use crate::bloom::filter::{Cells, Geometry};
use crate::bloom::law::{Law, Limits, Refusal, State};
use crate::bloom::stack::Stack;
use crate::number::{self, to_double, to_whole};

use super::counters::Counters;
use super::lanes::Lanes;
use super::period::Period;
use super::shape::{Kind, New, Shape};
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

/// Size in bytes of an object with a window and without periods.
const WINDOW_BYTES: u64 = Stack::BASE_BYTES + Timeline::BASE_BYTES;

impl New {
    /// Returns the capacity that the object, or with a window each period, can grow to, and what stops it there.
    /// Nothing does if the capacity is [`MAX_CAPACITY`](crate::MAX_CAPACITY).
    pub fn reach(&self, limits: Limits) -> (u64, Option<Refusal>) {
        match self.before_first(self.shape().params.capacity) {
            Ok((law, at)) => law.reach(at, limits.into()),
            Err(refusal) => (0, Some(refusal)),
        }
    }

    /// Returns the filters and the memory of the object with `items` items, with a window in each period. A window is
    /// planned in its adapted state; before that, its first periods stack filters.
    ///
    /// # Errors
    /// Any [`Refusal`]: [`Refusal::Full`] if the object does not grow and its capacity is smaller than `items`.
    pub fn plan(&self, items: u64, limits: Limits) -> Result<Plan, Refusal> {
        let shape = self.shape();
        let (law, mut new) = self.before_first(shape.params.capacity)?;
        law.grow(&mut new, 0, limits, |_, _| {})?;
        let (law, mut at) = self.before_first(shape.room_for(items))?;
        let (mut filters, mut sizes) = (Vec::new(), Vec::new());
        law.grow(&mut at, items, limits, |step, at| {
            filters.push((step.capacity, step.geometry));
            sizes.push(at.bytes);
        })?;
        let periods = shape.most_periods();
        let full_bytes = match shape.kind {
            Kind::Plain | Kind::Counting => at.bytes,
            Kind::Windowed(_) => {
                let lanes =
                    Lanes::bytes_beside(shape.first_geometry(shape.params.capacity)?, periods);
                let stacks = (at.bytes - WINDOW_BYTES).saturating_mul(periods);
                WINDOW_BYTES.saturating_add(stacks).saturating_add(lanes)
            }
        };
        if full_bytes > limits.object_bytes {
            return Err(Refusal::MemoryLimit);
        }
        Ok(Plan {
            filters,
            sizes,
            first_bytes: new.bytes,
            full_bytes,
            periods,
        })
    }

    /// Returns the law of growth of one period, and the state of its stack before the first filter, which has this
    /// capacity.
    fn before_first(&self, capacity: u64) -> Result<(Law, State), Refusal> {
        let bytes = match self.shape().kind {
            Kind::Plain => Stack::BASE_BYTES,
            Kind::Counting => Stack::BASE_BYTES + Counters::BASE_BYTES,
            Kind::Windowed(_) => WINDOW_BYTES + Period::ENTRY_BYTES,
        };
        match self {
            Self::Own(shape) => shape.before_first(bytes, capacity),
            Self::RedisBloom { params, factor } => {
                let law = Law::of_redisbloom(params, *factor)?;
                let bytes = bytes + law.memory_bytes();
                Ok((law, State::before_first(bytes, capacity, Cells::BareBits)))
            }
        }
    }
}

impl Shape {
    /// Returns [`New::reach`] of an object of this shape.
    pub fn reach(&self, limits: Limits) -> (u64, Option<Refusal>) {
        New::Own(*self).reach(limits)
    }

    /// Returns [`New::plan`] of an object of this shape.
    ///
    /// # Errors
    /// Those of [`New::plan`].
    pub fn plan(&self, items: u64, limits: Limits) -> Result<Plan, Refusal> {
        New::Own(*self).plan(items, limits)
    }
}
