//! The parameters of objects, the sizes of their filters, and their limits.

use std::ops::RangeInclusive;

/// The ranges of a new object's parameters.
pub mod ranges {
    use super::RangeInclusive;

    /// The largest capacity. The smallest is two buckets.
    pub const CAPACITY_MAX: u64 = 1 << 30;
    /// Slots per bucket.
    pub const BUCKET_SIZE: RangeInclusive<u64> = 1..=255;
    /// The most fingerprints moved to make room for one.
    pub const MAX_ITERATIONS: RangeInclusive<u64> = 1..=65_535;
    /// The growth factor from one filter to the next; 0 for objects that do not grow.
    pub const EXPANSION: RangeInclusive<u64> = 0..=32_768;
}

/// The most filters of an object.
pub const FILTERS_MAX: u64 = 65_535;

/// The largest size of a filter in bytes. `RedisBloom` loses items in larger ones.
pub const FILTER_BYTES_MAX: u64 = 1 << 32;

/// The requested parameters of a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Capacity of the first filter.
    pub capacity: u64,
    /// Slots per bucket.
    pub bucket_size: u8,
    /// The most fingerprints moved to make room for one.
    pub max_iterations: u16,
    /// The growth factor from one filter to the next, to be rounded up to a power of two; 0 for a single filter.
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

    /// Returns the capacity of a first filter with a slot for each item. It is a multiple of the bucket size, because the rest
    /// of another capacity makes no bucket; up to the largest capacity, and beyond it only for more items.
    pub fn capacity_for(items: u64, bucket_size: u64) -> u64 {
        let buckets = items.div_ceil(bucket_size.max(1)).max(2);
        let slots = buckets.saturating_mul(bucket_size);
        slots.min(ranges::CAPACITY_MAX.max(items))
    }

    /// Returns whether all parameters are within their [`ranges`].
    pub fn are_valid(&self) -> bool {
        let least = 2 * u64::from(self.bucket_size);
        (least..=ranges::CAPACITY_MAX).contains(&self.capacity)
            && ranges::BUCKET_SIZE.contains(&self.bucket_size.into())
            && ranges::MAX_ITERATIONS.contains(&self.max_iterations.into())
            && ranges::EXPANSION.contains(&self.expansion.into())
    }
}

/// The numbers that determine all filters of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A power of two.
    pub(super) first_buckets: u64,
    /// At least 1.
    pub(super) bucket_size: u8,
    /// At least 1.
    pub(super) max_iterations: u16,
    /// A power of two, or 0.
    pub(super) expansion: u16,
}

impl Shape {
    /// Returns the shape of a new object, or `None` if its parameters are not valid.
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

    /// Returns the number of slots per bucket.
    pub const fn bucket_size(&self) -> u8 {
        self.bucket_size
    }

    /// Returns the most fingerprints that are moved to make room for one.
    pub const fn max_iterations(&self) -> u16 {
        self.max_iterations
    }

    /// Returns the growth factor from one filter to the next, a power of two; 0 for objects that do not grow.
    pub const fn expansion(&self) -> u16 {
        self.expansion
    }

    /// Returns the number of buckets of filter `index`, or `None` if there can be no such filter. The number grows by
    /// the expansion from one filter to the next.
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

    /// Returns the size of filter `index` in bytes, or `None` if there can be no such filter.
    pub fn bytes_of(&self, index: u64) -> Option<u64> {
        let buckets = self.buckets_of(index)?;
        Some(buckets * u64::from(self.bucket_size))
    }
}

/// Limits on the memory of an object, from the settings of this server.
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
    /// No limits, for commands of a primary and for files.
    pub const NONE: Self = Self {
        filters: u64::MAX,
        filter_bytes: u64::MAX,
        object_bytes: u64::MAX,
    };
}

/// The reason that there is no room for an item or an object. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The filter is full, and the object does not grow.
    Full,
    /// The object already has the most filters allowed.
    MaxFilters,
    /// The next filter would exceed a limit on memory, or its size overflows.
    MemoryLimit,
    /// The allocator has no memory for it.
    OutOfMemory,
}

crate::error::texts!(Refusal {
    Self::Full => "the filter is full and does not grow",
    Self::MaxFilters => "the object has the most filters allowed",
    Self::MemoryLimit => "it would exceed the limit on memory",
    Self::OutOfMemory => "not enough memory",
});
