//! The kinds of cells that a filter's blob contains.

use crate::machine::memory;
use crate::machine::words::{self, Words};

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

    /// Returns a mask of the positions whose cell is in use: bit 0 for the first. Bits that are clear in `wanted`, which
    /// is not 0, stay clear.
    #[inline(always)]
    pub(crate) fn are_in_use<W: Words>(self, cells: &[u8], positions: W, wanted: u64) -> u64 {
        match self {
            Self::Bits | Self::BareBits => positions.are_used_in::<1>(cells, wanted),
            Self::Counters => positions.are_used_in::<4>(cells, wanted),
        }
    }

    /// Prefetches the memory of the cell at a position.
    #[inline]
    pub(super) fn prefetch(self, cells: &[u8], position: u64) {
        let byte = match self {
            Self::Bits | Self::BareBits => words::byte_of::<1>(position),
            Self::Counters => words::byte_of::<4>(position),
        };
        memory::prefetch(cells, byte);
    }
}
