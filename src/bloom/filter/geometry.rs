//! The size of a filter, for a capacity and an error rate.
//!
//! All of it is computed from doubles by operations that are the same on every processor: a replica has to
//! come to the same size.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the equations are in doubles; a cast from a double saturates"
)]

use std::f64::consts::LN_2;

use crate::bloom::number::{Fraction, exp, ln, rounded_ln};

use super::cells::Cells;
use super::rate;

/// The most bytes of bits: more than memory.
const MOST_BYTES: u64 = 1 << 60;

/// The same in positions.
const MOST_POSITIONS: f64 = (1_u64 << 63) as f64;

/// How far the number of items in counters may fall behind what the counters in use stand for, in standard
/// deviations.
pub const DRIFT: f64 = 5.0;

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
    /// The least size at which a filter that has taken `capacity` items (at least 1) as new claims others at
    /// this rate at most, by the equations of [`rate`]; of sizes in whole bytes that are equal, the one with
    /// fewest hash functions. Sizes beyond memory saturate at about 2⁶⁰ bytes of bits, which no limit admits.
    ///
    /// Counters have room for more items than they are said to hold, by [`DRIFT`] standard deviations.
    pub fn for_rate(capacity: u64, rate: Fraction, cells: Cells) -> Self {
        let (items, rate) = (to_double(capacity.max(1)), rate.get());
        let exact = Self::for_items(items, rate, cells);
        if cells != Cells::Counters {
            return exact;
        }
        let positions = to_double(exact.positions);
        let fill = rate::fill_after(items / positions, exact.hashes);
        let (_, deviation) = rate::items_of_fill(positions, exact.hashes, fill);
        Self::for_items(items + DRIFT * deviation, rate, cells)
    }

    fn for_items(items: f64, rate: f64, cells: Cells) -> Self {
        // Coincidences alone need so many positions, whatever the number of hash functions.
        if 0.25 * items / rate > MOST_POSITIONS * MOST_POSITIONS {
            let hashes = (-ln(rate) / LN_2).ceil() as u32;
            return Self::of_bytes(MOST_BYTES, hashes, cells);
        }
        let positions = |hashes| positions_for(items, rate, hashes);
        // Without coincidences so many hash functions, or one fewer, are best, and fewer with them: in steps that
        // double, until it gets worse.
        let mut high = (-ln(rate) / LN_2).ceil() as u32 + 1;
        let (mut best, mut hashes, mut step, mut low) = (positions(high), high, 1, 1);
        while hashes > 1 {
            let fewer = hashes.saturating_sub(step).max(1);
            let of_fewer = positions(fewer);
            if of_fewer >= best {
                low = fewer;
                break;
            }
            (high, hashes, best) = (hashes, fewer, of_fewer);
            step *= 2;
        }
        // It lies between these two.
        while low < high {
            let middle = low.midpoint(high);
            if positions(middle) <= positions(middle + 1) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // Fewer, where whole bytes allow it.
        let (mut hashes, mut bytes) = (low, whole_bytes(positions(low), low));
        while hashes > 1 {
            let of_fewer = whole_bytes(positions(hashes - 1), hashes - 1);
            if of_fewer > bytes {
                break;
            }
            (hashes, bytes) = (hashes - 1, of_fewer);
        }
        Self::of_bytes(bytes, hashes, cells)
    }

    /// The size that valkey-bloom gives a filter, by the formulas of the `bloomfilter` crate: `n·ln p / −ln²2`
    /// bits, rounded up to bytes, and `m/n·ln 2` hash functions, rounded (Bloom 1970).
    pub fn by_formula(capacity: u64, rate: Fraction, cells: Cells) -> Self {
        let items = to_double(capacity.max(1));
        let bytes = (items * rounded_ln(rate.get()) / (-8.0 * (LN_2 * LN_2))).ceil() as u64;
        let bytes = bytes.clamp(1, MOST_BYTES);
        let hashes = (to_double(bytes * 8) / items * LN_2).round() as u32;
        Self::of_bytes(bytes, hashes.max(1), cells)
    }

    fn of_bytes(bytes: u64, hashes: u32, cells: Cells) -> Self {
        Self {
            positions: bytes * 8,
            cell_bytes: bytes * cells.bits(),
            hashes,
            cells,
        }
    }

    /// Length of the whole blob in bytes.
    pub const fn blob_bytes(self) -> u64 {
        self.cell_bytes + self.cells.header_bytes() as u64
    }
}

fn to_double(number: u64) -> f64 {
    number as f64
}

/// The number of positions of a filter for so many items at this rate, with this many hash functions.
fn positions_for(items: f64, rate: f64, hashes: u32) -> f64 {
    items / rate::items_per_position(fill_for(items, rate, hashes), hashes).0
}

/// So many positions in whole bytes.
fn whole_bytes(positions: f64, hashes: u32) -> u64 {
    let bytes = ((positions / 8.0).ceil() as u64).clamp(1, MOST_BYTES);
    // Where the number of positions is a power of two, many more of them coincide.
    if bytes.is_power_of_two() && hashes > 2 {
        bytes + 1
    } else {
        bytes
    }
}

/// The share of set bits at which a filter that holds so many items has this rate: the solution of
/// `xᵏ + c·A(x)²/n = q`, by Newton's method within bounds.
fn fill_for(items: f64, rate: f64, hashes: u32) -> f64 {
    let (mut low, mut high) = (0.0, exp(ln(rate) / f64::from(hashes)));
    let mut fill = high;
    for _ in 0..60 {
        let (per_position, power_of_fill) = rate::items_per_position(fill, hashes);
        let (c, slope_of_c) = rate::coincidences_and_slope(hashes, fill, items);
        let floor = c * per_position * per_position / items;
        let excess = power_of_fill + floor - rate;
        if excess.abs() <= 1e-12 * rate {
            break;
        }
        if excess > 0.0 {
            high = fill;
        } else {
            low = fill;
        }
        let slope_of_items = rate::slope(fill, power_of_fill, hashes);
        let slope_of_floor =
            (2.0 * c * slope_of_items + slope_of_c * per_position) * per_position / items;
        let slope = f64::from(hashes) * power_of_fill / fill + slope_of_floor;
        fill -= excess / slope;
        if !(low < fill && fill < high) {
            fill = f64::midpoint(low, high);
        }
    }
    fill
}
