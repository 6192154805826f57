//! Cells that are counters of 4 bits (Fan, Cao, Almeida and Broder 2000): the counter at position `i` is the
//! low half of byte `i/2`, or the high half where `i` is odd.

use crate::bloom::number::ln;

/// A counter that reaches this stays there: how often it was passed is unknown.
const SATURATED: u8 = 15;

/// The least of the counters at these positions.
pub fn least(cells: &[u8], positions: impl Iterator<Item = u64>) -> u8 {
    let counter = |position: u64| cells[(position / 2) as usize] >> (position % 2 * 4) & 15;
    let mut least = SATURATED;
    for position in positions {
        least = least.min(counter(position));
        if least == 0 {
            break;
        }
    }
    least
}

/// Counts up at these positions. Returns how many counters left 0.
pub fn raise(cells: &mut [u8], positions: impl Iterator<Item = u64>) -> u32 {
    let (mut left_zero, raised) = (0, |counter: u8| (counter + 1).min(SATURATED));
    change(cells, positions, raised, |before, _| {
        left_zero += u32::from(before == 0);
    });
    left_zero
}

/// Counts down at these positions, where counters are neither 0 nor saturated. Returns how many reached 0.
pub fn lower(cells: &mut [u8], positions: impl Iterator<Item = u64>) -> u32 {
    let lowered = |counter: u8| match counter {
        SATURATED => SATURATED,
        counter => counter.saturating_sub(1),
    };
    let mut came_to_zero = 0;
    change(cells, positions, lowered, |before, after| {
        came_to_zero += u32::from(before > 0 && after == 0);
    });
    came_to_zero
}

fn change(
    cells: &mut [u8],
    positions: impl Iterator<Item = u64>,
    change: impl Fn(u8) -> u8,
    mut changed: impl FnMut(u8, u8),
) {
    for position in positions {
        let (cell, shift) = (&mut cells[(position / 2) as usize], position % 2 * 4);
        let before = *cell >> shift & 15;
        let after = change(before);
        *cell = *cell & !(15 << shift) | after << shift;
        changed(before, after);
    }
}

/// Adds the counters of another filter of the same size.
pub fn unite(cells: &mut [u8], other: &[u8]) {
    let pairs = cells.iter_mut().zip(other);
    pairs.for_each(|(two, other)| {
        let (low, high) = ((*two & 15) + (other & 15), (*two >> 4) + (other >> 4));
        *two = low.min(SATURATED) | high.min(SATURATED) << 4;
    });
}

/// How many counters are not 0; saturates.
pub fn in_use(cells: &[u8]) -> u32 {
    let used = |two: &u8| u64::from(two & 15 != 0) + u64::from(two >> 4 != 0);
    u32::try_from(cells.iter().map(used).sum::<u64>()).unwrap_or(u32::MAX)
}

/// The least and the greatest number of items that so many counters in use, of so many, can stand for;
/// `None` if they can't tell.
///
/// `X` of `m` counters in use stand for `n = m t / k` items with `t = −ln(1 − X/m)`, give or take a standard
/// deviation of `√(m e^(−t) (1 − (1 + t) e^(−t))) / (k e^(−t))`. The range is five of these wide on either
/// side.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; a cast from a double saturates"
)]
pub fn plausible_items(in_use: u32, positions: u64, hashes: u32) -> Option<(u64, u64)> {
    let (m, k) = (positions as f64, f64::from(hashes));
    let unused = 1.0 - f64::from(in_use) / m;
    if unused <= 0.0 || in_use == u32::MAX {
        return None;
    }
    let t = -ln(unused);
    let variance = (m * unused * (1.0 - (1.0 + t) * unused)).max(0.0);
    let (items, deviation) = (m * t / k, variance.sqrt() / (k * unused));
    let least = (items - 5.0 * deviation).floor() - 1.0;
    let most = (items + 5.0 * deviation).ceil() + 1.0;
    Some((least as u64, most as u64))
}
