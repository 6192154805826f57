//! Objects without their slots, and the rules of valid ones. Bytes from outside become an [`ValidOutline`] first.

use crate::bytes::DecodeError;
use crate::machine::{memory, work};

use super::buckets::Buckets;
use super::growth::Plan;
use super::shape::{FILTER_BYTES_MAX, FILTERS_MAX, Limits, Shape, ranges};

/// The numbers of an object, unchecked.
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    /// Number of filters.
    pub filters: u64,
    /// Number of buckets of the first filter.
    pub first_buckets: u64,
    /// Number of items.
    pub items: u64,
    /// Removals since the last compaction.
    pub deletes: u64,
    /// Slots per bucket.
    pub bucket_size: u64,
    /// The most fingerprints moved to make room for one.
    pub max_iterations: u64,
    /// The growth factor from one filter to the next.
    pub expansion: u64,
}

/// A valid object without its slots.
#[derive(Clone, Copy, Debug)]
pub struct ValidOutline {
    pub(super) shape: Shape,
    pub(super) filters: u64,
    pub(super) items: u64,
    pub(super) deletes: u64,
}

impl Outline {
    /// Checks that each number is in range, and that all filters that follow from them are possible. The numbers of
    /// items and of removals may have any value: in real damaged files they are wrong.
    ///
    /// # Errors
    /// The reason that the numbers are invalid, in words for a log.
    pub fn check(&self) -> Result<ValidOutline, &'static str> {
        if !(1..=FILTERS_MAX).contains(&self.filters) {
            return Err("number of filters out of range");
        }
        if !self.first_buckets.is_power_of_two() || self.first_buckets > FILTER_BYTES_MAX {
            return Err("number of buckets out of range");
        }
        if !ranges::BUCKET_SIZE.contains(&self.bucket_size) {
            return Err("bucket size out of range");
        }
        if !ranges::MAX_ITERATIONS.contains(&self.max_iterations) {
            return Err("iterations out of range");
        }
        if !ranges::EXPANSION.contains(&self.expansion) {
            return Err("expansion out of range");
        }
        if self.expansion > 0 && !self.expansion.is_power_of_two() {
            return Err("expansion is no power of two");
        }
        #[allow(clippy::cast_possible_truncation, reason = "they are in range")]
        let outline = ValidOutline {
            shape: Shape {
                first_buckets: self.first_buckets,
                bucket_size: self.bucket_size as u8,
                max_iterations: self.max_iterations as u16,
                expansion: self.expansion as u16,
            },
            filters: self.filters,
            items: self.items,
            deletes: self.deletes,
        };
        // Filters never shrink, so none is too large if the last is not.
        let last = outline.shape.buckets_of(self.filters - 1);
        last.map(|_| outline).ok_or("filter out of range")
    }
}

impl ValidOutline {
    /// Returns a new object: one filter without items.
    pub const fn of_new(shape: Shape) -> Self {
        Self {
            shape,
            filters: 1,
            items: 0,
            deletes: 0,
        }
    }

    /// Returns the number of buckets of each filter.
    pub fn buckets(&self) -> impl Iterator<Item = u64> + use<> {
        let shape = self.shape;
        (0..self.filters).filter_map(move |index| shape.buckets_of(index))
    }

    /// Returns whether the limits admit the object once all slots have memory. `own_bytes` is the size of the object
    /// without filters.
    ///
    /// No data backs a claim, so the limits are checked first. A claim may be as large as an object that grew within
    /// the limits.
    pub(super) fn is_within(&self, own_bytes: u64, limits: &Limits) -> bool {
        let mut plan = Plan::without_filters(own_bytes);
        self.filters <= limits.filters
            && (0..self.filters).all(|_| {
                work::steps(1);
                plan.grow(&self.shape, limits).is_ok()
            })
    }

    /// Creates the filters of these slots, oldest first. Empty lists stand for filters that are empty and take no memory.
    pub(super) fn fill(&self, slots: Vec<Vec<u8>>) -> Result<Vec<Buckets>, DecodeError> {
        if slots.len() as u64 != self.filters {
            return Err("filters that are not as many as they should be".into());
        }
        let mut filters = memory::reserved(slots.len()).ok_or(DecodeError::NoMemory)?;
        for (slots, buckets) in slots.into_iter().zip(self.buckets()) {
            let slots = memory::boxed(slots).ok_or(DecodeError::NoMemory)?;
            let filter = Buckets::from_slots(slots, buckets, self.shape.bucket_size);
            filters.push(filter.ok_or("filter of the wrong size")?);
        }
        Ok(filters)
    }
}
