//! Positions from hashes: where an item's cells lie in a filter.
//!
//! Position `i` in a filter of `m` cells is `a mod m`, `b mod m`, and from `i = 2` on
//! `((a + i·b) mod 2⁶⁴ mod P) mod m`, where `P = 2⁶⁴ − 59` is the largest prime below 2⁶⁴: double hashing
//! (Kirsch and Mitzenmacher 2006) the way version 3 of the `bloomfilter` crate does it. In a bare filter,
//! `RedisBloom`'s, it is `(a + i·b) mod 2⁶⁴ mod m` for every `i`. Stored bits depend on both, so neither
//! ever changes.

use std::ops::Range;

use crate::hash::Probe;
use crate::machine::words::Words;
use crate::machine::work;

/// The largest prime below 2⁶⁴.
const P: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// The number of cells of a filter, with what reduces an item's hashes to positions without a division.
#[derive(Clone, Copy, Debug)]
pub struct Modulus {
    cells: u64,
    reciprocal: u64,
    /// `P`, or 0 in a bare filter.
    prime: u64,
}

impl Modulus {
    /// Returns `⌊2⁶⁴ / cells⌋`, or one less for a single cell.
    pub const fn reciprocal(cells: u64) -> u64 {
        // 2⁶⁴ does not fit a `u64`: its quotient is that of 2⁶⁴ − 1, or one more for a power of two.
        (u64::MAX / cells).saturating_add((u64::MAX % cells == cells - 1) as u64)
    }

    pub const fn new(cells: u64, reciprocal: u64, is_bare: bool) -> Self {
        Self {
            cells,
            reciprocal,
            prime: if is_bare { 0 } else { P },
        }
    }

    /// Returns the number that filters of any size and the same kind reduce to an item's position number `i`.
    #[inline]
    pub fn point_of(self, probe: Probe, i: u32) -> u64 {
        let sum = probe.a.wrapping_add(probe.b.wrapping_mul(u64::from(i)));
        self.point(i, sum, probe.b)
    }

    /// Returns positions number `i` of items, given the items' `a + i·b` and `b`.
    #[inline(always)]
    pub fn position<W: Words>(self, i: u32, sum: W, b: W) -> W {
        self.reduce(self.point(i, sum, b))
    }

    #[inline(always)]
    fn point<W: Words>(self, i: u32, sum: W, b: W) -> W {
        match i {
            0 => sum,
            1 if self.prime > 0 => b,
            // The minimum of vectors takes several instructions.
            _ if W::COUNT > 1 && self.prime == 0 => sum,
            // This is `sum mod P`: the quotient is 0 or 1, and where it is 0 the subtraction wraps to a larger number. In a
            // bare filter it is the sum.
            _ => sum.min(sum.sub(W::splat(self.prime))),
        }
    }

    /// Returns `x mod cells`, exactly. The reciprocal is at most one below `2⁶⁴ / cells`, so the estimated
    /// quotient is the true one or one less, or up to three less where the product's high half is
    /// an estimate too. Subtractions correct the remainder. There are fewer than 2⁶⁰ cells.
    #[inline(always)]
    pub fn reduce<W: Words>(self, x: W) -> W {
        let cells = W::splat(self.cells);
        let quotient = x.mul_high(W::splat(self.reciprocal));
        let mut rest = x.sub(quotient.mul(cells));
        if !W::EXACT {
            rest = rest.sub_if_more(cells.add(cells));
        }
        rest.sub_if_more(cells)
    }
}

/// The positions of an item in a filter, one for each hash function.
pub struct Positions {
    pub probe: Probe,
    pub modulus: Modulus,
    pub rounds: Range<u32>,
    /// `a + i·b`, before round `i`.
    pub sum: u64,
}

impl Positions {
    /// Returns the next position, computed the way that position number `round` is.
    #[inline(always)]
    fn next_like(&mut self, round: u32) -> Option<u64> {
        self.rounds.next()?;
        work::steps(1);
        let position = self.modulus.position(round, self.sum, self.probe.b);
        self.sum = self.sum.wrapping_add(self.probe.b);
        Some(position)
    }
}

impl Iterator for Positions {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        self.next_like(self.rounds.start)
    }

    /// Handles the first two positions, which are computed differently, apart from the others: the loop over those then
    /// has no branch for it.
    #[inline(always)]
    fn all<F: FnMut(u64) -> bool>(&mut self, mut test: F) -> bool {
        while self.rounds.start < 2 {
            match self.next() {
                Some(position) if test(position) => {}
                last => return last.is_none(),
            }
        }
        while let Some(position) = self.next_like(2) {
            if !test(position) {
                return false;
            }
        }
        true
    }

    #[inline(always)]
    fn for_each<F: FnMut(u64)>(mut self, mut visit: F) {
        self.all(|position| {
            visit(position);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remainder_is_exact_at_every_edge() {
        let sizes =
            (1..2000).chain((3..60).flat_map(|bit| [(1 << bit) - 7, 1 << bit, (1 << bit) + 8]));
        for cells in sizes {
            let modulus = Modulus::new(cells, Modulus::reciprocal(cells), false);
            let top = u64::MAX / cells * cells;
            let edges = [0, 1, cells - 1, cells, cells + 1, 2 * cells - 1, 2 * cells];
            for x in edges.into_iter().chain([top - 1, top, P - 1, P, u64::MAX]) {
                assert_eq!(modulus.reduce(x), x % cells, "{x} mod {cells}");
            }
        }
    }
}
