//! The growth of an object: its next filter, and the limits that refuse it.

use crate::machine::memory;

use super::buckets::Buckets;
use super::shape::{Limits, Refusal, Shape};
use super::summary::Summaries;

/// The next filter of an object.
pub struct NextFilter {
    /// Number of buckets.
    pub buckets: u64,
    /// Number of slots.
    pub slots: u64,
    /// Size in bytes of the object with that filter.
    pub object_bytes: u64,
}

/// Returns filter `index` of an object that takes `bytes` without it.
///
/// # Errors
/// The [`Refusal`] of the shape or of the limits.
pub fn next_filter(
    shape: &Shape,
    index: u64,
    bytes: u64,
    limits: &Limits,
) -> Result<NextFilter, Refusal> {
    const ENTRY_BYTES: u64 = memory::stated::<Buckets>(40) as u64;
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
    let object_bytes = bytes + ENTRY_BYTES + slots + summaries;
    if slots > limits.filter_bytes || object_bytes > limits.object_bytes {
        return Err(Refusal::MemoryLimit);
    }
    Ok(NextFilter {
        buckets,
        slots,
        object_bytes,
    })
}
