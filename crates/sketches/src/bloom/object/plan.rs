//! What an object takes, worked out before there is one.

use crate::bloom::filter::Geometry;
use crate::bloom::law::{Limits, Refusal};
use crate::bloom::stack::Stack;

use super::lanes::Lanes;
use super::period::Period;
use super::shape::{Kind, Shape};
use super::timeline::Timeline;

/// What an object takes, before there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The filters of one stack, oldest first: what each takes, and its size.
    pub filters: Vec<(u64, Geometry)>,
    /// Bytes of the object as it is made, with one filter.
    pub first_bytes: u64,
    /// Bytes of the object with all of these filters; with a window, in each of the periods that may take memory
    /// at a time.
    pub full_bytes: u64,
}

impl Plan {
    /// Sum of the filters' capacities; with a window, of one period.
    pub fn capacity(&self) -> u64 {
        self.filters.iter().map(|(capacity, _)| capacity).sum()
    }
}

impl Shape {
    /// The capacity that an object of this shape can grow to, in a period if it has any, and what stops it:
    /// nothing, if that is [`MAX_CAPACITY`](crate::bloom::MAX_CAPACITY).
    pub fn reach(&self, limits: Limits) -> (u64, Option<Refusal>) {
        let (base, period) = self.base_bytes();
        self.reach_beside(base + period, self.params.capacity, limits.into())
    }

    /// The filters that an object of this shape has once it takes `items`, in a period if it has any, and its memory. A
    /// window is planned as it is once it has adapted: before, its first periods stack filters.
    ///
    /// # Errors
    /// Any [`Refusal`]: [`Refusal::Full`] where it is not to grow and its capacity is smaller.
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

    /// Bytes of an object without periods, and of a period without filters. An object is as large as a stack.
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
