//! How far an object may grow, and why growth is refused.

use crate::bloom::filter::Cells;

/// The most filters of a stack. Stacks of valkey-bloom and of `RedisBloom` end at about as many, where their rate
/// becomes too small for a double; ours stay below 700.
pub const MAX_FILTERS: u64 = 1100;

/// How deep an object is: its filters, and the hash functions of all of them together. That bounds the time of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Number of filters.
    pub filters: u64,
    /// Number of hash functions.
    pub hashes: u64,
}

impl Depth {
    /// How deep an object of bits may be. Neither a stack that halves its rate with every filter until it is too small,
    /// nor a window of 1,440 periods at the smallest rate, has as many hash functions.
    const MOST_OF_BITS: Self = Self {
        filters: 4096,
        hashes: 1 << 21,
    };

    /// How deep a stack of counters may be, whose lookups are not bounded otherwise.
    const MOST_OF_COUNTERS: Self = Self {
        filters: MAX_FILTERS,
        hashes: 1 << 15,
    };

    /// How deep an object may be whose filters contain this.
    pub const fn most(cells: Cells) -> Self {
        match cells {
            Cells::Bits | Cells::BareBits => Self::MOST_OF_BITS,
            Cells::Counters => Self::MOST_OF_COUNTERS,
        }
    }

    /// Both depths together.
    pub const fn and(self, other: Self) -> Self {
        Self {
            filters: self.filters + other.filters,
            hashes: self.hashes + other.hashes,
        }
    }

    /// Whether it is at most this deep.
    pub const fn is_within(self, most: Self) -> bool {
        self.filters <= most.filters && self.hashes <= most.hashes
    }

    /// Whether more than half of this depth is used.
    pub const fn is_past_half_of(self, most: Self) -> bool {
        2 * self.filters > most.filters || 2 * self.hashes > most.hashes
    }
}

/// How far the memory of an object may go: as far as the settings of this server say.
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
    /// No limits: what comes from a primary or a file is obeyed.
    pub const NONE: Self = Self {
        filter_bytes: u64::MAX,
        object_bytes: u64::MAX,
        saturate: true,
    };

    /// The limits of a server whose settings are at their defaults.
    pub const DEFAULT: Self = Self {
        filter_bytes: 64 << 20,
        object_bytes: u64::MAX,
        saturate: false,
    };

    /// The same limits for a part of an object of which the rest takes so many bytes.
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

/// What a stack may take: what limits admit, less what the rest of its object takes.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// The limits on memory, less the bytes of the rest.
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

/// Why there is no room for an item, or an object. Nothing was changed.
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
