//! Plans: the memory of an object, computed before it is made.

use crate::bloom::filter::Geometry;
use crate::bloom::law::{Limits, Refusal};
use crate::bloom::stack::Stack;

use super::lanes::Lanes;
use super::period::Period;
use super::shape::{Kind, Shape};
use super::timeline::Timeline;

/// The filters and the memory of an object that is not made yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Capacity and size of the filters of one stack, oldest first.
    pub filters: Vec<(u64, Geometry)>,
    /// Size in bytes of the new object, with one filter.
    pub first_bytes: u64,
    /// Size in bytes of the object with all of these filters; with a window, in all periods that may take memory at
    /// the same time.
    pub full_bytes: u64,
}

impl Plan {
    /// Returns the sum of the filters' capacities; with a window, of one period.
    pub fn capacity(&self) -> u64 {
        self.filters.iter().map(|(capacity, _)| capacity).sum()
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
        let (_, first_bytes) = self.stack_beside(base + period, 0, limits)?;
        let (filters, bytes) = self.stack_beside(base + period, items, limits)?;
        let periods = (bytes - base).saturating_mul(self.most_periods());
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
            first_bytes,
            full_bytes,
        })
    }

    /// Returns the size in bytes of an object without periods, and of a period without filters. A plain object is as
    /// large as its stack.
    const fn base_bytes(&self) -> (u64, u64) {
        match self.kind {
            Kind::Plain => (Stack::BASE_BYTES, 0),
            Kind::Windowed(_) | Kind::Counting => {
                let base = Stack::BASE_BYTES + Timeline::BASE_BYTES;
                (base, size_of::<Period>() as u64)
            }
        }
    }
}
