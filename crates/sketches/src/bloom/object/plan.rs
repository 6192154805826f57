//! Plans: the memory of an object, computed before it is made.

use std::num::NonZeroU32;

use crate::bloom::filter::Geometry;
use crate::bloom::law::{Growth, Law, Limits, Refusal, State, TableStep};
use crate::bloom::stack::Stack;
use crate::number::{self, MAX_CAPACITY, to_double, to_whole};
use crate::table::Payload;

use super::body::Object;
use super::shape::{Kind, New, Shape};
use super::tables::Tables;

/// The filters or tables, and the memory, of an object that is not made yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The filters or tables, oldest first.
    pub parts: Vec<PlannedPart>,
    /// Size in bytes of the new object.
    pub first_bytes: u64,
    /// Size in bytes of the object with the items.
    pub full_bytes: u64,
    /// The lowest limits that admit the object with the items. The size of a table varies with its items, so they exceed
    /// what is expected of it.
    pub least: Limits,
    /// The items that it is planned for; with a window, in all periods.
    pub items: u64,
}

/// A filter of a stack, or a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedPart {
    /// The number of items up to which it keeps its rate.
    pub capacity: u64,
    /// Its size.
    pub size: PartSize,
    /// Size in bytes of the object when this part is full, and none follows.
    pub object_bytes: u64,
}

/// The size of a filter or of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PartSize {
    /// A filter takes all its memory at once.
    Filter(Geometry),
    /// A table takes memory for its items.
    Table(TableStep, Payload),
}

impl PlannedPart {
    /// Returns its size in bytes with this number of items.
    #[must_use]
    pub fn bytes(&self, items: u64) -> u64 {
        match self.size {
            PartSize::Filter(geometry) => geometry.blob_bytes(),
            PartSize::Table(step, payload) => step.bytes(payload, items),
        }
    }

    /// Returns the error rate with this number of items.
    #[must_use]
    pub fn rate_at(&self, items: u64) -> f64 {
        match self.size {
            PartSize::Filter(geometry) => geometry.rate_at(items),
            PartSize::Table(step, _) => step.rate_at(items),
        }
    }
}

/// Returns the capacity of each shard of a filter for `capacity` items: an even share *s*, plus 5·√(*s*·(1−1/N)).
///
/// Actual shares vary: a shard's share is binomial, with a standard deviation of √(*s*·(1−1/N)). With all `capacity`
/// items added, one shard in three million exceeds the even share by more than five standard deviations, if it is
/// 10,000 items or more; of the smallest shares, one in twelve thousand. So a non-scaling filter hardly ever refuses
/// items, and a scaling filter need not grow. At a million items per shard the margin costs 0.5 % of memory.
#[must_use]
pub fn shard_capacity(capacity: u64, shards: NonZeroU32) -> u64 {
    let share = capacity.div_ceil(u64::from(shards.get()));
    let variance = to_double(share) * (1.0 - 1.0 / f64::from(shards.get()));
    share.saturating_add(to_whole((5.0 * variance.sqrt()).ceil()))
}

impl Plan {
    /// Returns the sum of the capacities.
    pub fn capacity(&self) -> u64 {
        let capacities = self.parts.iter().map(|part| part.capacity);
        capacities.fold(0, u64::saturating_add)
    }

    /// Returns the size in bytes and the expected error rate of the object as it fills: at `each` numbers of items for each
    /// part, evenly spaced and ending with the full part.
    pub fn points(&self, each: u64) -> Vec<(u64, u64, f64)> {
        let (mut points, mut before, mut older) = (vec![(0, self.first_bytes, 0.0)], 0, 0.0);
        for part in &self.parts {
            for number in 1..=each {
                let held = u128::from(part.capacity) * u128::from(number) / u128::from(each);
                let held = u64::try_from(held).unwrap_or(part.capacity);
                let rate = number::either([older, part.rate_at(held)].into_iter());
                let lacking =
                    part.bytes(part.capacity) - part.bytes(held).min(part.bytes(part.capacity));
                points.push((before + held, part.object_bytes - lacking, rate));
            }
            older = number::either([older, part.rate_at(part.capacity)].into_iter());
            before += part.capacity;
        }
        points
    }

    /// Returns the expected error rate of the object with this many items, all new. Its parts fill from the oldest on; items
    /// beyond their capacity count as in the newest one.
    pub fn rate_at(&self, items: u64) -> f64 {
        let (mut rest, newest) = (items, self.parts.len().saturating_sub(1));
        let rates = self.parts.iter().enumerate().map(|(index, part)| {
            let held = if index == newest {
                rest
            } else {
                rest.min(part.capacity)
            };
            rest -= held;
            part.rate_at(held)
        });
        number::either(rates)
    }
}

/// Size in bytes of an object of tables that has none.
const TABLES_BYTES: u64 = Object::BASE_BYTES + Tables::BASE_BYTES;

impl New {
    /// Returns the capacity that the object can grow to, and what stops it there. Nothing does if the capacity is
    /// [`MAX_CAPACITY`].
    pub fn reach(&self, limits: Limits) -> (u64, Option<Refusal>) {
        let shape = self.shape();
        if shape.kind != Kind::Plain {
            return shape.reach_of_tables(limits);
        }
        match self.before_first() {
            Ok((law, at)) => law.reach(at, limits),
            Err(refusal) => (0, Some(refusal)),
        }
    }

    /// Returns the filters or tables and the memory of the object with `items` items, with a window in each period.
    ///
    /// # Errors
    /// Any [`Refusal`]: [`Refusal::Full`] if the object does not grow and its capacity is smaller than `items`.
    pub fn plan(&self, items: u64, limits: Limits) -> Result<Plan, Refusal> {
        let shape = self.shape();
        let plan = if shape.kind == Kind::Plain {
            self.plan_of_filters(items, limits)?
        } else {
            shape.plan_of_tables(items.saturating_mul(shape.most_periods()), limits)?
        };
        if plan.full_bytes > limits.object_bytes {
            return Err(Refusal::MemoryLimit);
        }
        Ok(plan)
    }

    fn plan_of_filters(&self, items: u64, limits: Limits) -> Result<Plan, Refusal> {
        let (law, mut at) = self.before_first()?;
        let mut parts = Vec::new();
        law.grow(&mut at, items, limits, |step, at| {
            parts.push(PlannedPart {
                capacity: step.capacity,
                size: PartSize::Filter(step.geometry),
                object_bytes: at.bytes,
            });
        })?;
        let blobs = parts.iter().map(|part| part.bytes(part.capacity));
        Ok(Plan {
            first_bytes: parts.first().map_or(0, |first| first.object_bytes),
            full_bytes: at.bytes,
            least: Limits {
                filter_bytes: blobs.max().unwrap_or(0),
                object_bytes: at.bytes,
                saturate: false,
            },
            parts,
            items,
        })
    }

    /// Returns the law of growth, and the state of the stack before the first filter.
    fn before_first(&self) -> Result<(Law, State), Refusal> {
        let params = self.shape().params;
        let law = match self {
            Self::Own(_) => Law::of(&params),
            Self::RedisBloom { factor, .. } => Law::of_redisbloom(&params, *factor)?,
        };
        let at = State {
            filters: 0,
            newest: params.capacity.max(1),
            hashes: u32::MAX,
            all_hashes: 0,
            capacity: 0,
            bytes: Stack::BASE_BYTES + law.memory_bytes(),
        };
        Ok((law, at))
    }
}

impl Shape {
    /// Returns the capacity that tables of this shape can grow to, and what stops them there.
    pub(super) fn reach_of_tables(&self, limits: Limits) -> (u64, Option<Refusal>) {
        let payload = self.payload();
        let (mut capacity, mut bytes) = (0_u64, TABLES_BYTES);
        let mut before = Vec::new();
        loop {
            let step = match self.table_step(before.iter().copied()) {
                Ok(step) => step,
                Err(refusal) => return (capacity, Some(refusal)),
            };
            bytes = bytes.saturating_add(Tables::ENTRY_BYTES);
            let room = limits.table_bytes(bytes);
            if step.largest_bytes(payload, step.most) > room {
                let (mut fits, mut exceeds) = (0, step.most);
                while exceeds - fits > 1 {
                    let middle = fits + (exceeds - fits) / 2;
                    if step.largest_bytes(payload, middle) > room {
                        exceeds = middle;
                    } else {
                        fits = middle;
                    }
                }
                return (capacity.saturating_add(fits), Some(Refusal::MemoryLimit));
            }
            before.push(step);
            capacity = capacity.saturating_add(step.most);
            bytes = bytes.saturating_add(step.bytes(payload, step.most));
            if self.params.growth == Growth::Fixed {
                return (capacity, Some(Refusal::Full));
            }
            if capacity >= MAX_CAPACITY {
                break;
            }
        }
        (MAX_CAPACITY, None)
    }

    fn plan_of_tables(&self, items: u64, limits: Limits) -> Result<Plan, Refusal> {
        let payload = self.payload();
        let first = self.table_step([])?;
        let first_bytes = TABLES_BYTES + Tables::ENTRY_BYTES + first.bytes(payload, 0);
        let (mut parts, mut left, mut bytes) = (Vec::new(), items, TABLES_BYTES);
        let mut before = Vec::new();
        let mut least = Limits {
            filter_bytes: 0,
            object_bytes: 0,
            saturate: false,
        };
        loop {
            let step = self.table_step(before.iter().copied())?;
            before.push(step);
            let grows = self.params.growth != Growth::Fixed;
            // The older tables of a window become empty, and go.
            if left > step.most && grows && self.window().is_some() {
                continue;
            }
            let held = left.min(step.most);
            bytes = bytes.saturating_add(Tables::ENTRY_BYTES);
            let largest = step.largest_bytes(payload, held);
            if largest > limits.table_bytes(bytes) {
                return Err(Refusal::MemoryLimit);
            }
            least.filter_bytes = least.filter_bytes.max(largest);
            least.object_bytes = least.object_bytes.max(bytes.saturating_add(largest));
            parts.push(PlannedPart {
                capacity: step.most,
                size: PartSize::Table(step, payload),
                object_bytes: bytes.saturating_add(step.bytes(payload, step.most)),
            });
            bytes = bytes.saturating_add(step.bytes(payload, held));
            left -= held;
            if left == 0 {
                break;
            }
            if !grows {
                return Err(Refusal::Full);
            }
        }
        least.object_bytes = least.object_bytes.max(bytes);
        Ok(Plan {
            parts,
            first_bytes,
            full_bytes: bytes,
            least,
            items,
        })
    }

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
