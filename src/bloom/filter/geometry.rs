//! The size of a filter, for a capacity and an error rate.
//!
//! A filter for `n` items at rate `p` has `m = n·ln p / −ln²2` cells, rounded up to a multiple of 8, and
//! `m/n·ln 2` hash functions, rounded (Bloom 1970), exactly as the `bloomfilter` crate computes them.

use crate::bloom::number::Fraction;

/// The number of bytes in front of a filter's cells.
pub const HEADER_BYTES: usize = 45;

/// What a filter's blob contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cells {
    /// A header, then bits.
    #[default]
    Bits,
    /// A header, then counters of 4 bits.
    Counters,
    /// Bits alone: a filter of `RedisBloom`.
    BareBits,
}

impl Cells {
    /// Number of bytes in front of the cells.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Bits | Self::Counters => HEADER_BYTES,
            Self::BareBits => 0,
        }
    }

    /// Size of a cell in bits.
    pub const fn bits(self) -> u64 {
        match self {
            Self::Bits | Self::BareBits => 1,
            Self::Counters => 4,
        }
    }
}

/// The size of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of positions, at least 1: of cells that are in use.
    pub positions: u64,
    /// Length of all cells in bytes.
    pub cell_bytes: u64,
    /// Number of hash functions, at least 1.
    pub hashes: u32,
    /// What is at a position.
    pub cells: Cells,
}

impl Geometry {
    /// The size of a filter for `capacity` items (at least 1) at this rate. Sizes beyond memory saturate at
    /// about 2⁶⁰ bytes of bits, which no limit admits.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the formulas are the crate's, in doubles; a cast from a double saturates"
    )]
    pub fn for_rate(capacity: u64, rate: Fraction, cells: Cells) -> Self {
        let items = usize::try_from(capacity.max(1)).unwrap_or(usize::MAX);
        let bytes = bloomfilter::Bloom::<[u8]>::compute_bitmap_size(items, rate.get()) as u64;
        let positions = bytes.clamp(1, 1 << 60) * 8;
        let per_item = positions as f64 / capacity as f64;
        let hashes = (per_item * std::f64::consts::LN_2).round() as u32;
        Self {
            positions,
            cell_bytes: positions / 8 * cells.bits(),
            hashes: hashes.max(1),
            cells,
        }
    }

    /// Length of the whole blob in bytes.
    pub const fn blob_bytes(self) -> u64 {
        self.cell_bytes + self.cells.header_bytes() as u64
    }
}
