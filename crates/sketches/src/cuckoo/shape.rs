//! How a filter is made, how the next ones follow it, and how far they may go.

use std::ops::RangeInclusive;

/// What the numbers of a new object may be.
pub mod ranges {
    use super::RangeInclusive;

    /// Items that it is made for. The least is two buckets.
    pub const CAPACITY_MAX: u64 = 1 << 30;
    /// Slots of a bucket.
    pub const BUCKET_SIZE: RangeInclusive<u64> = 1..=255;
    /// Fingerprints moved one after another to make room for one.
    pub const MAX_ITERATIONS: RangeInclusive<u64> = 1..=65_535;
    /// The factor from one filter to the next; 0 for none.
    pub const EXPANSION: RangeInclusive<u64> = 0..=32_768;
}

/// The most filters of an object.
pub const FILTERS_MAX: u64 = 65_535;

/// The most bytes of a filter. `RedisBloom` loses items in larger ones.
pub const FILTER_BYTES_MAX: u64 = 1 << 32;

/// What a new object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Items that the first filter is made for.
    pub capacity: u64,
    /// Slots of a bucket.
    pub bucket_size: u8,
    /// Fingerprints moved one after another to make room for one.
    pub max_iterations: u16,
    /// The factor from one filter to the next, which is rounded up to a power of two; 0 for a single filter.
    pub expansion: u16,
}

impl Params {
    /// `RedisBloom`'s own defaults.
    pub const REDISBLOOM: Self = Self {
        capacity: 1024,
        bucket_size: 2,
        max_iterations: 20,
        expansion: 1,
    };

    /// Whether all of them are within their [`ranges`].
    pub fn are_valid(&self) -> bool {
        let least = 2 * u64::from(self.bucket_size);
        (least..=ranges::CAPACITY_MAX).contains(&self.capacity)
            && ranges::BUCKET_SIZE.contains(&self.bucket_size.into())
            && ranges::MAX_ITERATIONS.contains(&self.max_iterations.into())
            && ranges::EXPANSION.contains(&self.expansion.into())
    }
}

/// What all filters of an object follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Buckets of the first filter, a power of two.
    pub first_buckets: u64,
    /// Slots of a bucket, at least 1.
    pub bucket_size: u8,
    /// Fingerprints moved one after another to make room for one, at least 1.
    pub max_iterations: u16,
    /// The factor from one filter to the next: 0 for none, or a power of two.
    pub expansion: u16,
}

impl Shape {
    /// The shape of a new object. Returns `None` if its parameters are not valid.
    pub fn new(params: &Params) -> Option<Self> {
        params.are_valid().then(|| {
            let buckets = params.capacity / u64::from(params.bucket_size);
            Self {
                first_buckets: buckets.next_power_of_two(),
                bucket_size: params.bucket_size,
                max_iterations: params.max_iterations,
                expansion: match params.expansion {
                    0 => 0,
                    factor => factor.next_power_of_two(),
                },
            }
        })
    }

    /// The buckets of a filter, which grow by the expansion from one to the next. Returns `None` for a filter
    /// that can't be.
    pub fn buckets_of(&self, index: u64) -> Option<u64> {
        let power = u32::try_from(index).ok().filter(|_| index < FILTERS_MAX)?;
        let factor = match self.expansion {
            0 if index > 0 => return None,
            0 | 1 => 1,
            factor => u64::from(factor).checked_pow(power)?,
        };
        let buckets = self.first_buckets.checked_mul(factor)?;
        let bytes = buckets.checked_mul(u64::from(self.bucket_size))?;
        (bytes <= FILTER_BYTES_MAX).then_some(buckets)
    }

    /// The size in bytes of a filter that can be.
    pub fn bytes_of(&self, index: u64) -> Option<u64> {
        let buckets = self.buckets_of(index)?;
        Some(buckets * u64::from(self.bucket_size))
    }
}

/// How far the memory of an object may go: as far as the settings of this server say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most filters that it may grow to.
    pub filters: u64,
    /// The most bytes that one filter may take.
    pub filter_bytes: u64,
    /// The most bytes that the object may take in total; `u64::MAX` is no limit.
    pub object_bytes: u64,
}

impl Limits {
    /// No limits: what comes from a primary or a file is obeyed.
    pub const NONE: Self = Self {
        filters: u64::MAX,
        filter_bytes: u64::MAX,
        object_bytes: u64::MAX,
    };
}

/// Why there is no room for an item, or an object. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room, and the object does not expand.
    Full,
    /// It has as many filters as it may.
    MaxFilters,
    /// The next filter would exceed a limit on memory, or can't be expressed.
    MemoryLimit,
    /// The allocator has no memory for it.
    OutOfMemory,
}
