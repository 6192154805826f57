//! The growth of an object: its next filter, and the limits that refuse it.

use crate::machine::memory;

use super::buckets::Buckets;
use super::shape::{Limits, Refusal, Shape};
use super::summary::Summaries;

/// The filters and the memory of an object that is not made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of filters.
    pub filters: u64,
    /// Number of slots of all filters: the most items that they hold. An item that finds no room needs the next filter,
    /// so the object may grow before.
    pub slots: u64,
    /// Size in bytes of the object, once all filters take memory.
    pub bytes: u64,
}

impl Plan {
    /// Returns the plan of an object without filters that takes `bytes`.
    pub(super) const fn without_filters(bytes: u64) -> Self {
        Self {
            filters: 0,
            slots: 0,
            bytes,
        }
    }

    /// Adds the next filter, and returns its number of buckets.
    ///
    /// # Errors
    /// The [`Refusal`] of the shape or of the limits.
    pub(super) fn grow(&mut self, shape: &Shape, limits: &Limits) -> Result<u64, Refusal> {
        const ENTRY_BYTES: u64 = memory::stated::<Buckets>(40) as u64;
        let index = self.filters;
        if index > 0 && shape.expansion == 0 {
            return Err(Refusal::Full);
        }
        if index >= limits.filters {
            return Err(Refusal::MaxFilters);
        }
        let buckets = shape.buckets_of(index).ok_or(Refusal::MemoryLimit)?;
        let slots = buckets * u64::from(shape.bucket_size);
        let summaries = |filters| Summaries::most_bytes(filters, buckets, shape.bucket_size);
        let summaries = summaries(index + 1) - summaries(index);
        let bytes = self.bytes + ENTRY_BYTES + slots + summaries;
        if slots > limits.filter_bytes || bytes > limits.object_bytes {
            return Err(Refusal::MemoryLimit);
        }
        *self = Self {
            filters: index + 1,
            slots: self.slots + slots,
            bytes,
        };
        Ok(buckets)
    }
}
