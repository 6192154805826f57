//! Limits on growth, and the reasons that growth is refused.

use crate::bloom::filter::Cells;

/// The most filters of a stack. Stacks of valkey-bloom and `RedisBloom` end near this number, when their rate becomes
/// too small for a double; ours stay below 700.
pub const MAX_FILTERS: u64 = 1100;

/// The depth of an object: its filters, and the hash functions of all of them together. It bounds the time of a
/// lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Number of filters.
    pub filters: u64,
    /// Number of hash functions.
    pub hashes: u64,
}

impl Depth {
    /// The greatest depth of an object of bits. No real object has as many hash functions: neither a stack that halves
    /// its rate with every filter until it is too small, nor a window of 1,440 periods at the smallest rate.
    const MOST_OF_BITS: Self = Self {
        filters: 4096,
        hashes: 1 << 21,
    };

    /// The greatest depth of a stack of counters. Nothing else bounds its lookups.
    const MOST_OF_COUNTERS: Self = Self {
        filters: MAX_FILTERS,
        hashes: 1 << 15,
    };

    /// Returns the greatest depth of an object with these cells.
    pub const fn most(cells: Cells) -> Self {
        match cells {
            Cells::Bits | Cells::BareBits => Self::MOST_OF_BITS,
            Cells::Counters => Self::MOST_OF_COUNTERS,
        }
    }

    /// Returns the sum of two depths.
    pub const fn and(self, other: Self) -> Self {
        Self {
            filters: self.filters + other.filters,
            hashes: self.hashes + other.hashes,
        }
    }

    /// Returns whether the depth is at most `most`.
    pub const fn is_within(self, most: Self) -> bool {
        self.filters <= most.filters && self.hashes <= most.hashes
    }

    /// Returns whether the depth is more than half of `most`.
    pub const fn is_past_half_of(self, most: Self) -> bool {
        2 * self.filters > most.filters || 2 * self.hashes > most.hashes
    }
}

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
}

/// The room for a stack: the limits, less what the rest of its object takes.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// The limits, less the bytes of the rest.
    pub limits: Limits,
    /// The depth of the rest.
    pub rest: Depth,
}

impl Allowance {
    /// Subtracts bytes that the rest of the object takes.
    #[must_use]
    pub fn beside(self, bytes: u64) -> Self {
        Self {
            limits: self.limits.beside(bytes),
            ..self
        }
    }
}

impl From<Limits> for Allowance {
    fn from(limits: Limits) -> Self {
        Self {
            limits,
            rest: Depth::default(),
        }
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
