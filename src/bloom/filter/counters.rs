//! Cells that are counters of 4 bits (Fan, Cao, Almeida and Broder 2000): the counter at position `i` is the
//! low half of byte `i/2`, or the high half where `i` is odd.

/// A counter that reaches this stays there: how often it was passed is unknown.
pub const SATURATED: u8 = 15;

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

/// Whether none of the counters at these positions is 0.
#[inline(always)]
pub fn all_used(cells: &[u8], mut positions: impl Iterator<Item = u64>) -> bool {
    positions.all(|position| cells[(position / 2) as usize] & 15 << (position % 2 * 4) != 0)
}

/// Counts up at these positions. Returns how many counters left 0.
#[inline(always)]
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

#[inline(always)]
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

/// Whether no counter of another filter of the same size is larger than its own here.
pub fn hold(cells: &[u8], other: &[u8]) -> bool {
    let mut pairs = cells.iter().zip(other);
    pairs.all(|(two, other)| two & 15 >= other & 15 && two >> 4 >= other >> 4)
}

/// How many counters are not 0; saturates.
pub fn in_use(cells: &[u8]) -> u32 {
    in_use_in_union(cells, cells)
}

/// How many counters are not 0 in either of two filters of one size; saturates.
pub fn in_use_in_union(cells: &[u8], other: &[u8]) -> u32 {
    let pairs = cells.iter().zip(other).map(|(two, other)| two | other);
    let used = pairs.map(|two| u64::from(two & 15 != 0) + u64::from(two >> 4 != 0));
    u32::try_from(used.sum::<u64>()).unwrap_or(u32::MAX)
}

/// The positions of the counters that are not 0.
pub fn positions_in_use(cells: &[u8]) -> Vec<u64> {
    let mut positions = Vec::new();
    for (first, two) in (0..).step_by(2).zip(cells) {
        positions.extend((two & 15 != 0).then_some(first));
        positions.extend((two >> 4 != 0).then_some(first + 1));
    }
    positions
}
