//! The laws of growth by a series, written down once more: the size of every filter and what it takes. Sizes of
//! ours are found by plain bisection over every number of hash functions, those of valkey-bloom by its crate.

#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the equations are in doubles"
)]

use bloomfilter::Bloom;
use valkeybloom_sketches::bloom::{Growth, Params};
use valkeybloom_sketches::{MAX_CAPACITY, Seed};

use crate::support::{filter, rate_of};

/// Sizes beyond this many bytes are not computed: no memory holds them.
pub const MOST_BYTES: u64 = 1 << 55;

/// Returns the items that a filter has taken as new per position, when this share of its positions is set: each of `k`
/// hash functions adds the integral of a geometric series.
pub fn items_per_position(fill: f64, hashes: u32) -> f64 {
    let mut power = 1.0;
    let terms = (1..=hashes).map(|j| {
        power *= fill;
        power / f64::from(j)
    });
    terms.sum::<f64>() / f64::from(hashes)
}

/// Returns the `c` of the floor `c·n/m²` that double hashing puts under a filter, as documented: all positions of two
/// items coincide, or some of them.
fn coincidences(hashes: u32, fill: f64, items: f64) -> f64 {
    let k = f64::from(hashes);
    if hashes == 1 {
        return 0.0;
    }
    let all = if hashes == 2 {
        0.0
    } else {
        2.2 / (k * (k - 1.0))
    };
    let some = (2.5 * fill / (1.0 - fill).powi(2)).min(1.0 + 0.75 * (k - 2.0));
    all + some * (1.0 + 0.5 / items)
}

/// Returns the number between 0 and `high` at which a rising function crosses 0.
fn crossing(high: f64, function: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, high);
    // More halvings than a double has digits.
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if function(middle) > 0.0 {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

/// Returns the rate at which a filter of this size claims strangers, when it holds `items` items.
pub fn rate_of_size(items: u64, bytes: u64, hashes: u32) -> f64 {
    let (n, m) = (items as f64, bytes as f64 * 8.0);
    let fill = crossing(1.0, |fill| items_per_position(fill, hashes) - n / m);
    fill.powf(hashes.into()) + coincidences(hashes, fill, n) * n / m / m
}

/// Returns the most hash functions of a filter: without a floor `−log₂ q` are best, and rounding may add one.
pub fn most_hashes(rate: f64) -> u32 {
    (-rate.log2()).ceil() as u32 + 1
}

/// Returns the fewest bytes of bits, and the fewest hash functions that suffice with them, for `capacity` items at this
/// rate; `None` above [`MOST_BYTES`]. Below a rate of 10⁻¹² more hash functions than are tried would take fewer
/// bytes.
pub fn least(capacity: u64, rate: f64) -> Option<(u64, u32)> {
    // Coincidences alone need more, whatever the number of hash functions.
    if rate < 1e-45 {
        return None;
    }
    let n = capacity as f64;
    let sizes = (1..=most_hashes(rate)).map(|hashes| {
        let fill = crossing(1.0, |fill| {
            let per_position = items_per_position(fill, hashes);
            let floor = coincidences(hashes, fill, n) * per_position * per_position / n;
            fill.powf(hashes.into()) + floor - rate
        });
        let bytes = (n / items_per_position(fill, hashes) / 8.0).ceil();
        // If the number of positions is a power of two, an item's positions repeat too soon.
        let bytes = bytes as u64;
        let unlucky = bytes.is_power_of_two() && hashes > 2;
        (bytes + u64::from(unlucky), hashes)
    });
    sizes.min().filter(|(bytes, _)| *bytes < MOST_BYTES)
}

/// Returns the size that valkey-bloom gives a filter, of at most 2⁶⁰ bytes: bytes of bits and hash functions.
pub fn by_crate(capacity: u64, rate: f64) -> (u64, u32) {
    let capacity = usize::try_from(capacity).unwrap();
    let bytes = (Bloom::<[u8]>::compute_bitmap_size(capacity, rate) as u64).min(1 << 60);
    let bits_per_item = (bytes * 8) as f64 / capacity as f64;
    let hashes = (bits_per_item * std::f64::consts::LN_2).round() as u32;
    (bytes, hashes.max(1))
}

/// Returns the size of filter `index` for `capacity` items; the largest if no memory holds it.
pub fn size(params: &Params, index: u64, capacity: u64) -> (u64, u32) {
    let rate = rate_of(params, index).unwrap().get();
    if params.tightening.is_ours() {
        least(capacity, rate).unwrap_or((MOST_BYTES, most_hashes(rate)))
    } else {
        by_crate(capacity, rate)
    }
}

/// Returns the capacity of the next filter, after filters for `total` items, the newest of them for `newest`. `None`
/// if there is no next one, or no number for it.
pub fn next_capacity(params: &Params, newest: u64, total: u64) -> Option<u64> {
    let Growth::By(factor) = params.growth else {
        return None;
    };
    let mut next = u128::from(newest) * u128::from(factor.get());
    if params.tightening.is_ours() {
        next = next.max(u128::from(total).div_ceil(16));
    }
    u64::try_from(next)
        .ok()
        .filter(|next| *next <= MAX_CAPACITY)
}

/// Returns an empty filter of the crate's of this size.
pub fn crates((bytes, hashes): (u64, u32), seed: &Seed) -> Bloom<[u8]> {
    let bitmap = vec![0; usize::try_from(bytes).unwrap()];
    Bloom::from_bytes(filter(hashes, seed, 0, bitmap).blob()).unwrap()
}
