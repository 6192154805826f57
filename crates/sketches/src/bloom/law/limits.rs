//! The state of a stack, its next filter, the limits on growth, and the reasons that growth is refused.

use crate::bloom::filter::{Filter, Geometry};
use crate::number::MAX_CAPACITY;

use super::link::Link;

/// The most filters of a stack. Stacks of valkey-bloom and `RedisBloom` end near this number, when their rate becomes
/// too small for a double; ours stay below 700.
pub const MAX_FILTERS: u64 = 1100;

/// Limits on an object, from the settings of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that one filter may take.
    pub filter_bytes: u64,
    /// The most bytes that the object may take in total; `u64::MAX` is no limit.
    pub object_bytes: u64,
    /// Whether a full non-scaling object takes more items.
    pub saturate: bool,
}

impl Limits {
    /// No limits, for commands of a primary and for files.
    pub const NONE: Self = Self {
        filter_bytes: u64::MAX,
        object_bytes: u64::MAX,
        saturate: true,
    };

    /// The limits of a server with default settings.
    pub const DEFAULT: Self = Self {
        filter_bytes: 64 << 20,
        object_bytes: u64::MAX,
        saturate: false,
    };

    /// Returns the limits on one part of an object whose other parts take `rest` bytes.
    #[must_use]
    pub fn beside(self, rest: u64) -> Self {
        let object_bytes = match self.object_bytes {
            u64::MAX => u64::MAX,
            bytes => bytes.saturating_sub(rest),
        };
        Self {
            object_bytes,
            ..self
        }
    }

    /// Returns the most bytes of one table of an object whose other parts take `rest` bytes.
    pub(crate) fn table_bytes(self, rest: u64) -> u64 {
        self.beside(rest).object_bytes.min(self.filter_bytes)
    }
}

/// The reason that there is no room for an item or an object. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The next filter would exceed a limit on memory, or its capacity overflows.
    MemoryLimit,
    /// The next filter's rate is too small for a double.
    RateTooSmall,
    /// The object is non-scaling and full.
    Full,
    /// The allocator has no memory for the next filter.
    OutOfMemory,
}

crate::error::texts!(Refusal {
    Self::MemoryLimit => "it would exceed the limit on memory",
    Self::RateTooSmall => "the next filter's error rate is too small",
    Self::Full => "the filter is full and does not grow",
    Self::OutOfMemory => "not enough memory",
});

/// The state of a stack before its next filter.
#[derive(Clone, Copy)]
pub struct State {
    /// Number of filters so far.
    pub filters: u64,
    /// Capacity of the newest filter; without filters, of the first one.
    pub newest: u64,
    /// Number of hash functions of the newest filter; `u32::MAX` without filters.
    pub hashes: u32,
    /// Number of hash functions of all filters so far.
    pub all_hashes: u64,
    /// Capacity of the filters so far.
    pub capacity: u64,
    /// Bytes of the object so far.
    pub bytes: u64,
}

/// The next filter of a stack.
#[derive(Clone, Copy)]
pub struct NextFilter {
    /// The filter's capacity.
    pub capacity: u64,
    /// The filter's size.
    pub geometry: Geometry,
    /// The link, under `RedisBloom`'s law.
    pub link: Option<Link>,
}

impl NextFilter {
    /// Returns the bytes that the filter adds to the object.
    pub fn cost(&self) -> u64 {
        let link = self.link.map_or(0, |_| size_of::<Link>());
        self.geometry.blob_bytes() + (Filter::ENTRY_BYTES + link) as u64
    }

    /// Returns whether limits admit the filter, and the object with it.
    pub fn is_within(&self, at: &State, limits: Limits) -> bool {
        self.geometry.blob_bytes() <= limits.filter_bytes
            && at.bytes.saturating_add(self.cost()) <= limits.object_bytes
    }

    /// Checks that the stack can take the filter within limits.
    pub fn admit(&self, at: &State, limits: Limits) -> Result<(), Refusal> {
        if self.fits_number(at) && at.filters < MAX_FILTERS && self.is_within(at, limits) {
            Ok(())
        } else {
            Err(Refusal::MemoryLimit)
        }
    }

    /// Returns whether the sum of capacities, including this one, is at most [`MAX_CAPACITY`].
    pub fn fits_number(&self, at: &State) -> bool {
        let total = at.capacity.checked_add(self.capacity);
        total.is_some_and(|total| total <= MAX_CAPACITY)
    }
}

impl State {
    /// Adds a filter, whose capacity is known to fit.
    pub fn push(&mut self, step: &NextFilter) {
        self.filters += 1;
        self.newest = step.capacity;
        self.hashes = step.geometry.hashes;
        self.all_hashes += u64::from(step.geometry.hashes);
        self.capacity += step.capacity;
        self.bytes = self.bytes.saturating_add(step.cost());
    }
}
