//! A hashed item.

/// The two hashes of an item: all that a filter needs. An item is hashed once, whatever the number of filters
/// to look it up in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    /// The first hash.
    pub(crate) a: u64,
    /// The second hash: the distance between positions.
    pub(crate) b: u64,
}

impl Probe {
    /// The probe of these hashes.
    pub(crate) const fn new(a: u64, b: u64) -> Self {
        Self { a, b }
    }

    /// The two hashes.
    pub const fn hashes(&self) -> (u64, u64) {
        (self.a, self.b)
    }
}
