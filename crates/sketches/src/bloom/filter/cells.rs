//! The kinds of cells that a filter's blob contains.

/// The number of bytes in front of a filter's cells.
pub const HEADER_BYTES: usize = 45;

/// The contents of a filter's blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cells {
    /// A header, then bits.
    #[default]
    Bits,
    /// A header, then counters of 4 bits.
    Counters,
    /// Bits without a header: a filter of `RedisBloom`.
    BareBits,
}

impl Cells {
    /// Returns the number of bytes in front of the cells.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Bits | Self::Counters => HEADER_BYTES,
            Self::BareBits => 0,
        }
    }

    /// Returns the size of a cell in bits.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Bits | Self::BareBits => 1,
            Self::Counters => 4,
        }
    }
}
