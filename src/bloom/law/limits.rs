//! How far memory may go, and why growth is refused.

/// The most filters that a stack may have, and that may be loaded. Those of valkey-bloom and of `RedisBloom`
/// end at about as many, where their rate becomes too small for a double; ours stay below 700.
pub const MAX_FILTERS: u64 = 1100;

/// The most hash functions that all filters of a stack may have together: somewhat more than a stack needs
/// that halves its rate with every filter until it is too small.
pub const MAX_HASHES_OF_STACK: u64 = 1 << 20;

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
