//! The size of a filter, for a capacity and an error rate.
//!
//! Sizes are computed from doubles by operations that are the same on every processor, because replicas must come to
//! the same size.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the equations are in doubles; a cast from a double saturates"
)]

use std::f64::consts::LN_2;

use crate::number::{Fraction, exp, ln, rounded_ln, to_double};

use super::cells::Cells;
use super::rate;

/// The most bytes of bits, more than fit in memory.
const MOST_BYTES: u64 = 1 << 60;

/// The positions of [`MOST_BYTES`].
const MOST_POSITIONS: f64 = (1_u64 << 63) as f64;

/// The least size in bytes of a filter whose cells are likely to miss the caches.
pub const LARGE_BYTES: usize = 256 * 1024;

/// The least size in bytes of a filter most of whose cells are in memory alone.
pub const MEMORY_BYTES: usize = 8 << 20;

/// The size of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of positions, at least 1: cells without the unused ones at the end.
    pub positions: u64,
    /// Length of all cells in bytes.
    pub cell_bytes: u64,
    /// Number of hash functions, at least 1.
    pub hashes: u32,
    /// The kind of the cells.
    pub cells: Cells,
}

impl Geometry {
    /// Returns the least size at which a filter that has taken `capacity` items (at least 1) as new has at most this
    /// error rate, by the equations of `filter/rate.rs`. Among sizes of as many whole bytes, it is the one with the fewest
    /// hash functions. It has at most one hash function more than a filter without coincidences: very many would take
    /// somewhat less memory at rates below 10⁻¹², and much more time. Sizes beyond memory saturate at about 2⁶⁰ bytes
    /// of bits, which no limit admits.
    pub fn for_rate(capacity: u64, rate: Fraction, cells: Cells) -> Self {
        Self::for_rate_near(capacity, rate, cells, u32::MAX)
    }

    /// Returns the size of [`for_rate`](Self::for_rate). The search for the best number of hash functions begins at
    /// `hashes`, and is quicker if that is near.
    pub fn for_rate_near(capacity: u64, rate: Fraction, cells: Cells, hashes: u32) -> Self {
        let items = to_double(capacity.max(1));
        let most = most_hashes(rate);
        let near = hashes.clamp(1, most);
        // Coincidences alone need this many positions, whatever the number of hash functions.
        if 0.25 * items / rate.get() > MOST_POSITIONS * MOST_POSITIONS {
            return Self::of_bytes(MOST_BYTES, near, cells);
        }
        let positions = |hashes| positions_for(items, rate, hashes);
        let (mut hashes, least) = least(near, most, positions);
        let mut bytes = whole_bytes(least, hashes);
        // Takes fewer hash functions where whole bytes allow it.
        while hashes > 1 {
            let of_fewer = whole_bytes(positions(hashes - 1), hashes - 1);
            if of_fewer > bytes {
                break;
            }
            (hashes, bytes) = (hashes - 1, of_fewer);
        }
        Self::of_bytes(bytes, hashes, cells)
    }

    /// Returns the size that valkey-bloom gives a filter, by the formulas of the `bloomfilter` crate: `n·ln p / −ln²2`
    /// bits, rounded up to bytes, and `m/n·ln 2` hash functions, rounded (Bloom 1970).
    pub fn by_formula(capacity: u64, rate: Fraction, cells: Cells) -> Self {
        let items = to_double(capacity.max(1));
        let bytes = (items * rounded_ln(rate.get()) / (-8.0 * (LN_2 * LN_2))).ceil() as u64;
        let bytes = bytes.clamp(1, MOST_BYTES);
        let hashes = (to_double(bytes * 8) / items * LN_2).round() as u32;
        Self::of_bytes(bytes, hashes.max(1), cells)
    }

    pub(super) fn of_bytes(bytes: u64, hashes: u32, cells: Cells) -> Self {
        Self {
            positions: bytes * 8,
            cell_bytes: bytes,
            hashes,
            cells,
        }
    }

    /// Returns the error rate of a filter of this size with `items` that were all new.
    pub fn rate_at(&self, items: u64) -> f64 {
        let items_per_position = to_double(items) / to_double(self.positions);
        let fill = rate::fill_after(items_per_position, self.hashes);
        let is_bare = self.cells == Cells::BareBits;
        rate::false_positives(is_bare, self.positions, self.hashes, fill)
    }

    /// Returns the length of the whole blob in bytes.
    pub const fn blob_bytes(self) -> u64 {
        self.cell_bytes + self.cells.header_bytes() as u64
    }

    /// Returns whether the cells are worth prefetching: those of a smaller filter are in the caches anyway.
    pub const fn is_large(&self) -> bool {
        self.blob_bytes() >= LARGE_BYTES as u64
    }
}

/// Returns the most hash functions of a filter for this rate.
fn most_hashes(rate: Fraction) -> u32 {
    (-ln(rate.get()) / LN_2).ceil() as u32 + 1
}

/// Finds the minimum of a function that falls, then rises, over the whole numbers from 1 to `most`. Returns the number
/// and the value there.
fn least(near: u32, most: u32, function: impl Fn(u32) -> f64) -> (u32, f64) {
    let at = |number| (number, function(number));
    let mut best = at(near);
    while best.0 > 1
        && let fewer = at(best.0 - 1)
        && fewer.1 <= best.1
    {
        best = fewer;
    }
    while best.0 < most
        && let more = at(best.0 + 1)
        && more.1 < best.1
    {
        best = more;
    }
    best
}

/// Returns the number of positions of a filter for `items` at this rate, with this many hash functions.
fn positions_for(items: f64, rate: Fraction, hashes: u32) -> f64 {
    items / items_per_position_for(items, rate, hashes)
}

/// Returns the bytes of this many positions, rounded up.
fn whole_bytes(positions: f64, hashes: u32) -> u64 {
    let bytes = ((positions / 8.0).ceil() as u64).clamp(1, MOST_BYTES);
    // Where the number of positions is a power of two, many more positions coincide.
    if bytes.is_power_of_two() && hashes > 2 {
        bytes + 1
    } else {
        bytes
    }
}

/// Returns `A(x)` of a filter with this rate `q` that holds `n` items: at the `x` that solves `xᵏ + c·A(x)²/n = q`, found
/// by Newton's method within bounds.
fn items_per_position_for(items: f64, rate: Fraction, hashes: u32) -> f64 {
    let rate = rate.get();
    let (mut low, mut high) = (0.0, exp(ln(rate) / f64::from(hashes)));
    let mut fill = high;
    let mut found = 0.0;
    for _ in 0..60 {
        let (per_position, power_of_fill) = rate::items_per_position(fill, hashes);
        let (c, slope_of_c) = rate::coincidences(hashes, fill, items);
        let floor = c * per_position * per_position / items;
        let excess = power_of_fill + floor - rate;
        let slope_of_items = rate::slope(fill, power_of_fill, hashes);
        let slope_of_floor =
            (2.0 * c * slope_of_items + slope_of_c * per_position) * per_position / items;
        let slope = f64::from(hashes) * power_of_fill / fill + slope_of_floor;
        let step = excess / slope;
        found = per_position - slope_of_items * step;
        // Each step squares the relative error.
        if excess.abs() <= 1e-8 * rate {
            break;
        }
        if excess > 0.0 {
            high = fill;
        } else {
            low = fill;
        }
        fill -= step;
        if !(low < fill && fill < high) {
            fill = f64::midpoint(low, high);
        }
    }
    found
}
