//! A hashed item.

/// The two hashes of an item: all that a filter needs. An item is hashed once, however many filters are queried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    /// The first hash.
    pub(crate) a: u64,
    /// The second hash, which determines the distance between positions.
    pub(crate) b: u64,
}

impl Probe {
    /// Creates the probe of these hashes.
    pub(crate) const fn new(a: u64, b: u64) -> Self {
        Self { a, b }
    }

    /// Returns the probe of two hashes, which [`hashes`](Self::hashes) returned for an object with an equal hasher.
    pub const fn from_hashes(a: u64, b: u64) -> Self {
        Self::new(a, b)
    }

    /// Returns the two hashes.
    pub const fn hashes(&self) -> (u64, u64) {
        (self.a, self.b)
    }
}
