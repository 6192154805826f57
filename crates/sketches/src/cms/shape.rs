//! The shape of a sketch: its width, its depth, and the size of its counters.

use crate::number::{Fraction, to_whole};

/// The most rows of a sketch that a client may make. Looking an item up costs a hash and a cache miss for each row, so
/// this bounds the time. The smallest probability that a sketch can be made for needs 149 rows.
pub const DEPTH_MAX: u64 = 256;

/// The largest number of counters in a sketch.
const COUNTERS_MAX: u64 = i64::MAX as u64;

/// The size of a counter. Counters are unsigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellSize {
    /// One byte.
    One = 1,
    /// Two bytes.
    Two = 2,
    /// Four bytes, the only size in `RedisBloom` before 8.12.
    #[default]
    Four = 4,
    /// Eight bytes.
    Eight = 8,
}

impl CellSize {
    /// All sizes.
    pub const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Eight];

    /// Returns the size of this many bytes, or `None` if there is no such size.
    pub fn of_bytes(bytes: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.bytes() == bytes)
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u64 {
        self as u64
    }

    /// Returns the largest value of a counter. For eight bytes it is 2⁶³ − 1, because replies are signed.
    pub const fn max(self) -> u64 {
        match self {
            Self::One => 0xff,
            Self::Two => 0xffff,
            Self::Four => 0xffff_ffff,
            Self::Eight => i64::MAX as u64,
        }
    }
}

/// The shape of a sketch. Sketches of equal shape can be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    width: u64,
    depth: u64,
    cell_size: CellSize,
}

impl Shape {
    /// Returns the shape of `depth` rows with `width` counters each. Returns `None` if there are none, or more than
    /// 2⁶³ − 1 counters.
    pub fn new(width: u64, depth: u64, cell_size: CellSize) -> Option<Self> {
        let counters = width.checked_mul(depth)?;
        (1..=COUNTERS_MAX).contains(&counters).then_some(Self {
            width,
            depth,
            cell_size,
        })
    }

    /// Returns the shape for an error rate and a probability: an estimate exceeds the true number by more than `error`
    /// times the sum of all increments with at most this probability. Returns `None` if no shape fits.
    ///
    /// The width is ⌈2 / `error`⌉ and the depth ⌈log₂(1 / `probability`)⌉, in single precision. As in `RedisBloom`, a
    /// probability just below a power of two gets the smaller depth.
    #[allow(clippy::cast_possible_truncation, reason = "it is single precision")]
    pub fn for_rates(error: Fraction, probability: Fraction, cell_size: CellSize) -> Option<Self> {
        let log = |number: f32| libm::log10(number.into()) as f32;
        let width = (2.0 / error.get()).ceil();
        let depth = (log(probability.get() as f32) / log(0.5)).ceil();
        let depth = to_whole(depth.into());
        Self::new(to_whole(width), depth, cell_size)
    }

    /// Returns whether a client may make sketches of this shape: the depth is at most [`DEPTH_MAX`].
    pub const fn is_within_limits(&self) -> bool {
        self.depth <= DEPTH_MAX
    }

    /// Returns the number of counters in a row.
    pub const fn width(&self) -> u64 {
        self.width
    }

    /// Returns the number of rows.
    pub const fn depth(&self) -> u64 {
        self.depth
    }

    /// Returns the size of a counter.
    pub const fn cell_size(&self) -> CellSize {
        self.cell_size
    }

    /// Returns the number of counters.
    pub const fn counters(&self) -> u64 {
        self.width * self.depth
    }

    /// Returns the size of all counters in bytes, or `None` if it is 2⁶⁴ or more.
    pub const fn bytes(&self) -> Option<u64> {
        self.counters().checked_mul(self.cell_size.bytes())
    }
}
