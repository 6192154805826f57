//! The false positive rate of a filter, and how full it becomes.
//!
//! Only items that are *new* are counted, and each of these sets at least one bit. So a filter of `m` bits and
//! `k` hash functions whose share of set bits is `x` has taken `t` items, where
//!
//! ```text
//!   t/m = A(x) = 1/k · (x + x²/2 + x³/3 + … + xᵏ/k)
//! ```
//!
//! (`dx/dt = k/m · (1 − x)/(1 − xᵏ)`, integrated; Bloom's formula of 1970 is this sum taken to infinity). Such a
//! filter claims `xᵏ` of all other items, and some more, because all positions of an item come from two hashes:
//! the positions of two items may coincide. That adds `c·t/m²`, with the `c` of [`coincidences`], which is the lower
//! bound of the error rate of a small filter.

use crate::number::{expm1, ln, power};

/// Above this number of hash functions, the sum is taken to infinity: the terms beyond are too small for an estimate
/// to show.
const MANY_HASHES: u32 = 64;

/// `1/j` for `j` from 1. A multiplication takes a third of the time of a division.
const RECIPROCALS: [f64; MANY_HASHES as usize] = {
    let mut reciprocals = [0.0; MANY_HASHES as usize];
    let (mut index, mut j) = (0, 1.0);
    while index < reciprocals.len() {
        reciprocals[index] = 1.0 / j;
        (index, j) = (index + 1, j + 1.0);
    }
    reciprocals
};

/// Returns `A(x)` and `xᵏ`. Terms are summed in four rows that do not wait for each other.
pub fn items_per_position(fill: f64, hashes: u32) -> (f64, f64) {
    let square = fill * fill;
    let fourth = square * square;
    let mut powers = [fill, square, square * fill, fourth];
    let mut sums = [0.0; 4];
    let mut rows = RECIPROCALS[..hashes.min(MANY_HASHES) as usize].chunks_exact(4);
    for reciprocals in &mut rows {
        for row in 0..4 {
            sums[row] += powers[row] * reciprocals[row];
            powers[row] *= fourth;
        }
    }
    for (row, reciprocal) in rows.remainder().iter().enumerate() {
        sums[row] += powers[row] * reciprocal;
    }
    let mut sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if hashes > MANY_HASHES {
        let mut power = power(fill, MANY_HASHES.into());
        for j in MANY_HASHES + 1..=hashes {
            power *= fill;
            let term = power / f64::from(j);
            // This term and all that follow are too small to change the sum.
            if term < 1e-18 * sum {
                break;
            }
            sum += term;
        }
    }
    (sum / f64::from(hashes), power(fill, hashes.into()))
}

/// Returns the derivative of `A` at `x`, given `xᵏ`.
pub fn slope(fill: f64, power: f64, hashes: u32) -> f64 {
    if fill < 1.0 {
        (1.0 - power) / (1.0 - fill) / f64::from(hashes)
    } else {
        1.0
    }
}

/// Returns the share of set bits after this many new items per position: the inverse of `A`. The share is 1 for more
/// items than a filter can take as new.
pub fn fill_after(items_per_bit: f64, hashes: u32) -> f64 {
    // The first estimate takes the sum to infinity. The true share is a little larger.
    let mut fill = -expm1(-f64::from(hashes) * items_per_bit);
    if hashes > MANY_HASHES {
        return fill;
    }
    // Newton's method; A is convex.
    for _ in 0..8 {
        let (items, power) = items_per_position(fill, hashes);
        let step = (items - items_per_bit) / slope(fill, power, hashes);
        fill = (fill - step).min(1.0);
        if step.abs() < 1e-12 {
            break;
        }
    }
    fill
}

/// Returns the `c` in `c·t/m²`: how much more than by chance the positions of two items coincide, in a filter with
/// this share of set bits that holds this many items, if `m` is not a power of two. It is an upper bound, found
/// by measurement and at most a third too large (`cargo run --release --no-default-features --example rates`).
/// It counts items with the same positions, and items that share some positions while the bits of other items cover the
/// rest. Up to two positions are independent; there the bound covers only the differences between small filters.
/// The second number is the derivative of `c` by the share of set bits.
pub fn coincidences(hashes: u32, fill: f64, items: f64) -> (f64, f64) {
    let k = f64::from(hashes);
    let all = match hashes {
        0 | 1 => return (0.0, 0.0),
        2 => 0.0,
        _ => 2.2 / (k * (k - 1.0)),
    };
    let unused = 1.0 - fill;
    let some = 2.5 * fill / (unused * unused);
    let most = 1.0 + 0.75 * (k - 2.0);
    let small = 1.0 + 0.5 / items.max(1.0);
    if some < most {
        let slope = 2.5 * (1.0 + fill) / (unused * unused * unused);
        (all + some * small, slope * small)
    } else {
        (all + most * small, 0.0)
    }
}

/// Returns the number of items that a filter of `positions` has taken as new, with this share of set bits, and
/// its standard deviation `√(m·u·(1 − (1 + t)·u))·A′(x)`, with `u = 1 − x` and `t = −ln u`.
pub fn items_of_fill(positions: f64, hashes: u32, fill: f64) -> (f64, f64) {
    let (per_position, power) = items_per_position(fill, hashes);
    let unused = (1.0 - fill).max(f64::MIN_POSITIVE);
    let variance = positions * unused * (1.0 - (1.0 - ln(unused)) * unused);
    let deviation = variance.max(0.0).sqrt() * slope(fill, power, hashes);
    (positions * per_position, deviation)
}

/// Returns the error rate of a filter, bare or with a header, with this share of set bits: the share of items that the
/// filter claims though they were never added.
pub fn false_positives(bare: bool, positions: u64, hashes: u32, fill: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    let m = positions as f64;
    let items_per_bit = if hashes > MANY_HASHES {
        -ln((1.0 - fill).max(f64::MIN_POSITIVE)) / f64::from(hashes)
    } else {
        items_per_position(fill, hashes).0
    };
    let (mut c, _) = coincidences(hashes, fill, items_per_bit * m);
    if bare {
        // Positions of RedisBloom run in both directions.
        c = (2.0 * c).max(2.0);
    }
    let mut rate = power(fill, hashes.into()) + c * items_per_bit / m;
    if positions.is_power_of_two() && hashes > 2 {
        rate += cycles(bare, hashes, fill) / m;
    }
    rate.min(1.0)
}

/// Returns what short cycles of positions add to the rate, times `m`. Where the number of positions is a power of two, so
/// is the period of an item's positions: for one in `m` items all positions but one or two are the same.
fn cycles(bare: bool, hashes: u32, fill: f64) -> f64 {
    let (mut sum, mut period) = (0.0, 1);
    while period < hashes {
        let others = u32::from(!bare);
        let of_period = f64::from((period / 2).max(1));
        sum += of_period * power(fill, (period + others).into());
        period *= 2;
    }
    sum
}
