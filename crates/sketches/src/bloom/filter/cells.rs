//! The kinds of cells that a filter's blob contains.

/// The number of bytes in front of a filter's cells.
pub const HEADER_BYTES: usize = 45;

/// The contents of a filter's blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cells {
    /// A header, then bits.
    #[default]
    Bits,
    /// Bits without a header: a filter of `RedisBloom`.
    BareBits,
}

impl Cells {
    /// Returns the number of bytes in front of the cells.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Bits => HEADER_BYTES,
            Self::BareBits => 0,
        }
    }
}
