//! Positions from hashes: where an item's cells lie in a filter.
//!
//! Position `i` in a filter of `m` cells is `a mod m`, `b mod m`, and from `i = 2` on
//! `((a + i·b) mod 2⁶⁴ mod P) mod m`, where `P = 2⁶⁴ − 59` is the largest prime below 2⁶⁴: double hashing
//! (Kirsch and Mitzenmacher 2006) the way version 3 of the `bloomfilter` crate does it. In a bare filter,
//! `RedisBloom`'s, it is `(a + i·b) mod 2⁶⁴ mod m` for every `i`. Stored bits depend on both, so neither
//! ever changes.

use crate::hash::Probe;
use crate::machine::words::Words;
use crate::machine::work;

/// The largest prime below 2⁶⁴.
const P: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// The positions of an item in a filter, one for each hash function.
pub struct Positions<const BARE: bool> {
    probe: Probe,
    modulus: Modulus,
    hashes: u32,
    /// The number of positions returned so far.
    round: u32,
    /// `a + round·b`.
    sum: u64,
}

impl<const BARE: bool> Positions<BARE> {
    #[inline(always)]
    pub fn new(probe: Probe, modulus: Modulus, hashes: u32) -> Self {
        let (round, sum) = (0, probe.a);
        Self {
            probe,
            modulus,
            hashes,
            round,
            sum,
        }
    }

    /// Returns the next position, computed the way that position number `round` is.
    #[inline(always)]
    fn next_like(&mut self, round: u32) -> Option<u64> {
        let is_there = self.round < self.hashes;
        is_there.then(|| {
            work::steps(1);
            let point = point::<u64, BARE>(round, self.sum, self.probe.b);
            self.round += 1;
            self.sum = self.sum.wrapping_add(self.probe.b);
            self.modulus.reduce(point)
        })
    }
}

impl<const BARE: bool> Iterator for Positions<BARE> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        self.next_like(self.round)
    }

    /// Handles the first two positions, which are computed differently, apart from the others: the loop over those then
    /// has no branch for it.
    #[inline(always)]
    fn all<F: FnMut(u64) -> bool>(&mut self, mut test: F) -> bool {
        while self.round < 2 {
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

/// Returns the number that filters of any size reduce to an item's position number `i`.
#[inline(always)]
pub fn point_of<const BARE: bool>(probe: Probe, i: u32) -> u64 {
    let sum = probe.a.wrapping_add(probe.b.wrapping_mul(u64::from(i)));
    point::<u64, BARE>(i, sum, probe.b)
}

/// Returns the numbers that filters of any size reduce to positions number `i` of items, given the items' `a + i·b` and
/// `b`.
#[inline(always)]
pub fn point<W: Words, const BARE: bool>(i: u32, sum: W, b: W) -> W {
    match i {
        _ if BARE => sum,
        0 => sum,
        1 => b,
        _ => mod_p(sum),
    }
}

/// Returns `point mod P` without a division: the quotient is 0 or 1, and where it is 0 the subtraction wraps
/// to a larger number.
#[inline(always)]
fn mod_p<W: Words>(point: W) -> W {
    point.min(point.sub(W::splat(P)))
}

/// A filter's number of cells, and the reciprocal that reduces a number by it without a division.
#[derive(Clone, Copy, Debug)]
pub struct Modulus {
    bits: u64,
    reciprocal: u64,
}

impl Modulus {
    /// Returns `⌊2⁶⁴ / bits⌋`, or one less for a single bit.
    pub const fn reciprocal(bits: u64) -> u64 {
        // 2⁶⁴ does not fit a `u64`: its quotient is that of 2⁶⁴ − 1, or one more for a power of two.
        (u64::MAX / bits).saturating_add((u64::MAX % bits == bits - 1) as u64)
    }

    pub const fn new(bits: u64, reciprocal: u64) -> Self {
        Self { bits, reciprocal }
    }

    /// Returns the number of cells.
    #[inline(always)]
    pub const fn cells(self) -> u64 {
        self.bits
    }

    /// Returns `x mod bits`, exactly. The reciprocal is at most one below `2⁶⁴ / bits`, so the estimated
    /// quotient is the true one or one less, or up to three less where the product's high half is
    /// an estimate too. Subtractions correct the remainder. There are fewer than 2⁶⁰ bits.
    #[inline(always)]
    pub fn reduce<W: Words>(self, x: W) -> W {
        let bits = W::splat(self.bits);
        let quotient = x.mul_high(W::splat(self.reciprocal));
        let mut rest = x.sub(quotient.mul(bits));
        if !W::EXACT {
            rest = rest.sub_if_more(bits.add(bits));
        }
        rest.sub_if_more(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Seed;

    #[test]
    fn the_published_vector() {
        let probe = Seed::FIXED.probe(b"item");
        assert_eq!(
            probe.hashes(),
            (1_551_870_070_758_006_461, 15_380_462_718_969_971_528)
        );
        let modulus = Modulus::new(960, Modulus::reciprocal(960));
        let positions: Vec<u64> = Positions::<false>::new(probe, modulus, 7).collect();
        assert_eq!(positions, [701, 8, 461, 213, 925, 677, 429]);
    }

    #[test]
    fn the_remainder_is_exact_at_every_edge() {
        let sizes =
            (1..2000).chain((3..60).flat_map(|bit| [(1 << bit) - 7, 1 << bit, (1 << bit) + 8]));
        for bits in sizes {
            let modulus = Modulus::new(bits, Modulus::reciprocal(bits));
            let top = u64::MAX / bits * bits;
            let edges = [0, 1, bits - 1, bits, bits + 1, 2 * bits - 1, 2 * bits];
            for x in edges.into_iter().chain([top - 1, top, P - 1, P, u64::MAX]) {
                assert_eq!(modulus.reduce(x), x % bits, "{x} mod {bits}");
            }
        }
    }
}
