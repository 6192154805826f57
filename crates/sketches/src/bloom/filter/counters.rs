//! Cells that are counters of 4 bits (Fan, Cao, Almeida and Broder 2000): the counter at position `i` is the
//! low half of byte `i/2`, or the high half where `i` is odd.

use crate::machine::words::{self, Task, Words};
use crate::machine::work;

use super::bits;

/// The value at which a counter stays, because its true value is unknown from there on.
pub const SATURATED: u8 = 15;

/// Returns the least of the counters at these positions.
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

/// Returns whether all counters at these positions are above 0.
#[inline]
pub fn all_used(cells: &[u8], mut positions: impl Iterator<Item = u64>) -> bool {
    positions.all(|position| cells[(position / 2) as usize] & 15 << (position % 2 * 4) != 0)
}

/// Increments the counters at these positions that are not saturated. Returns how many of them were 0.
#[inline]
pub fn raise(cells: &mut [u8], positions: impl Iterator<Item = u64>) -> u32 {
    let mut left_zero = 0;
    each(cells, positions, |cell, shift| {
        let counter = *cell >> shift & 15;
        *cell += u8::from(counter < SATURATED) << shift;
        left_zero += u32::from(counter == 0);
    });
    left_zero
}

/// Decrements the counters at these positions that are neither 0 nor saturated. Returns how many reached 0.
pub fn lower(cells: &mut [u8], positions: impl Iterator<Item = u64>) -> u32 {
    let mut came_to_zero = 0;
    each(cells, positions, |cell, shift| {
        let counter = *cell >> shift & 15;
        *cell -= u8::from((1..SATURATED).contains(&counter)) << shift;
        came_to_zero += u32::from(counter == 1);
    });
    came_to_zero
}

/// Visits the byte of each counter at these positions, and the number of bits before the counter.
#[inline]
fn each(
    cells: &mut [u8],
    positions: impl Iterator<Item = u64>,
    mut visit: impl FnMut(&mut u8, u64),
) {
    positions.for_each(|position| {
        visit(&mut cells[(position / 2) as usize], position % 2 * 4);
    });
}

/// Adds the counters of another filter of the same size. Returns how many counters are above 0 then.
pub fn unite(cells: &mut [u8], other: &[u8]) -> u64 {
    words::run(Unite(cells, other))
}

/// Returns the first byte in which another filter of the same size has a larger counter than this filter.
pub fn lacking(cells: &[u8], other: &[u8]) -> Option<usize> {
    bits::first_lacking(cells, other, |two, other| {
        u8::from(two & 15 < other & 15) | u8::from(two >> 4 < other >> 4)
    })
}

/// Returns the sum of all counters.
pub fn sum(cells: &[u8]) -> u64 {
    work::bytes(cells.len());
    // The sum of 16 counters, those of 8 bytes, fits a byte.
    let sum = |eight: &[u8]| eight.iter().map(|two| (two & 15) + (two >> 4)).sum::<u8>();
    cells.chunks(8).map(|eight| u64::from(sum(eight))).sum()
}

/// Returns the number of counters above 0.
pub fn in_use(cells: &[u8]) -> u64 {
    in_use_in_union(cells, cells)
}

/// Returns the number of places at which either of two filters of the same size has a counter above 0.
pub fn in_use_in_union(cells: &[u8], other: &[u8]) -> u64 {
    words::run(InUseInUnion(cells, other))
}

/// The number of counters in this many bytes fits a byte.
const PIECE: usize = 64;

/// Returns how many of the two counters in each of some bytes, or in their counterparts, are above 0.
#[inline(always)]
fn count(cells: &[u8], other: &[u8]) -> u64 {
    let in_use = cells.iter().zip(other).map(|(two, other)| {
        let two = two | other;
        u8::from(two & 15 != 0) + u8::from(two >> 4 != 0)
    });
    in_use.sum::<u8>().into()
}

struct InUseInUnion<'c>(&'c [u8], &'c [u8]);

impl Task for InUseInUnion<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let (pieces, rest) = self.0.as_chunks::<PIECE>();
        let (other_pieces, other_rest) = self.1.as_chunks::<PIECE>();
        let pieces = pieces.iter().zip(other_pieces);
        let in_use = pieces.map(|(own, other)| count(own, other));
        in_use.sum::<u64>() + count(rest, other_rest)
    }
}

struct Unite<'c>(&'c mut [u8], &'c [u8]);

impl Task for Unite<'_> {
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let mut in_use = 0;
        // Pieces are in the caches when they are counted.
        for (cells, other) in self.0.chunks_mut(4096).zip(self.1.chunks(4096)) {
            for (two, other) in cells.iter_mut().zip(other) {
                let (low, high) = ((*two & 15) + (other & 15), (*two >> 4) + (other >> 4));
                *two = low.min(SATURATED) | high.min(SATURATED) << 4;
            }
            in_use += InUseInUnion(cells, cells).run::<W>();
        }
        in_use
    }
}

/// Returns a number of counters as a filter stores it, saturated at the largest `u32`.
pub fn saturated(in_use: u64) -> u32 {
    u32::try_from(in_use).unwrap_or(u32::MAX)
}
