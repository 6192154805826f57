//! Items to probes, probes to bit positions.
//!
//! Both steps are a promise to stored data: they are those of version 3 of the `bloomfilter` crate,
//! bit for bit, and never change.
//!
//! An item's two hashes are SipHash-1-3 under the two halves of the seed, of the message that
//! `Hash for [u8]` feeds a hasher on a 64-bit machine: the length as eight little-endian bytes, then
//! the bytes. Position `i` in a filter of `m` bits is `hA mod m`, `hB mod m`, and from `i = 2` on
//! `((hA + i·hB) mod 2⁶⁴ mod P) mod m`, where `P = 2⁶⁴ − 59` is the largest prime below 2⁶⁴.

use std::cmp::Ordering;

use super::machine::{MAX_WORDS, Words};

/// The largest prime below 2⁶⁴.
const P: u64 = 0xFFFF_FFFF_FFFF_FFC5;

/// The keys of an object's two hash functions, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed of objects made without randomness. Whoever knows a seed can make items that
    /// collide, so it is for reproducible tests and trusted input.
    pub const FIXED: Self = Self([
        89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115,
        62, 152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
    ]);

    /// A seed of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes of the seed.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether this is any other seed than [`Seed::FIXED`].
    #[must_use]
    pub fn is_random(&self) -> bool {
        *self != Self::FIXED
    }

    /// Hashes an item: once, whatever the number of filters that will be asked.
    #[must_use]
    #[inline]
    pub fn probe(&self, item: &[u8]) -> Probe {
        let [a, b] = self.hash::<u64>(&[item]);
        Probe { a, b }
    }

    /// Both hashes of as many items as there are words in a `W`.
    #[inline(always)]
    pub(super) fn hash<W: Words>(&self, items: &[&[u8]]) -> [W; 2] {
        let mut sip = TwinSip::<W>::new(&self.0);
        sip.block(words_of(items, |item| item.len() as u64));
        let blocks = |item: &&[u8]| item.len() / 8;
        let fewest = items.iter().map(blocks).min().unwrap_or(0);
        let most = items.iter().map(blocks).max().unwrap_or(0);
        for index in 0..fewest {
            sip.block(words_of(items, |item| block(item, index)));
        }
        if fewest == most {
            sip.block(words_of(items, tail));
            return sip.finish();
        }
        // Where an item has ended, its hashes stay as they are until the longest has.
        for index in fewest..=most {
            let before = sip.0;
            sip.block(words_of(items, |item| match index.cmp(&(item.len() / 8)) {
                Ordering::Less => block(item, index),
                Ordering::Equal => tail(item),
                Ordering::Greater => 0,
            }));
            let goes_on = |item: &[u8]| if index <= item.len() / 8 { u64::MAX } else { 0 };
            let mask = words_of(items, goes_on);
            for (after, before) in sip
                .0
                .as_flattened_mut()
                .iter_mut()
                .zip(before.as_flattened())
            {
                *after = before.xor(before.xor(*after).and(mask));
            }
        }
        sip.finish()
    }
}

/// A word of each item.
#[inline(always)]
fn words_of<W: Words>(items: &[&[u8]], word: impl Fn(&[u8]) -> u64) -> W {
    let mut words = [0; MAX_WORDS];
    for (slot, item) in words.iter_mut().zip(&items[..W::COUNT]) {
        *slot = word(item);
    }
    W::load(&words)
}

/// Eight bytes of an item that has them.
#[inline(always)]
fn block(item: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(item.as_chunks::<8>().0[index])
}

/// What is hashed last: the bytes behind the last whole block and, on top, the length of the message
/// modulo 256, to which the eight bytes of the prefix count.
#[inline(always)]
fn tail(item: &[u8]) -> u64 {
    let length = u64::from(item.len().to_le_bytes()[0].wrapping_add(8)) << 56;
    let left = item.len() % 8;
    // A copy of so few bytes would cost more than the hash: they are read in pieces that overlap.
    let bytes = if let Some(last) = item.last_chunk::<8>() {
        u64::from_le_bytes(*last) >> 8 >> (56 - 8 * left)
    } else if let (Some(first), Some(last)) = (item.first_chunk::<4>(), item.last_chunk::<4>()) {
        let last = u64::from(u32::from_le_bytes(*last));
        u64::from(u32::from_le_bytes(*first)) | last << (8 * (left - 4))
    } else if let (Some(first), Some(last)) = (item.first(), item.last()) {
        let middle = u64::from(item[left / 2]) << (8 * (left / 2));
        u64::from(*first) | middle | u64::from(*last) << (8 * (left - 1))
    } else {
        0
    };
    length | bytes
}

/// Two SipHash-1-3 of one message, side by side: the two chains do not depend on each other, so the
/// processor runs them in the time of little more than one. A word of the state is as many words of
/// 64 bits as there are messages.
struct TwinSip<W>([[W; 4]; 2]);

impl<W: Words> TwinSip<W> {
    #[inline(always)]
    fn new(keys: &[u8; 32]) -> Self {
        let (words, _) = keys.as_chunks::<8>();
        let key = |index: usize| u64::from_le_bytes(words[index]);
        Self([[key(0), key(1)], [key(2), key(3)]].map(|[k0, k1]| {
            [
                W::splat(k0 ^ 0x736f_6d65_7073_6575),
                W::splat(k1 ^ 0x646f_7261_6e64_6f6d),
                W::splat(k0 ^ 0x6c79_6765_6e65_7261),
                W::splat(k1 ^ 0x7465_6462_7974_6573),
            ]
        }))
    }

    #[inline(always)]
    fn round(&mut self) {
        for [v0, v1, v2, v3] in &mut self.0 {
            *v0 = v0.add(*v1);
            *v2 = v2.add(*v3);
            *v1 = v1.rotate::<13>().xor(*v0);
            *v3 = v3.rotate::<16>().xor(*v2);
            *v0 = v0.rotate::<32>();
            *v2 = v2.add(*v1);
            *v0 = v0.add(*v3);
            *v1 = v1.rotate::<17>().xor(*v2);
            *v3 = v3.rotate::<21>().xor(*v0);
            *v2 = v2.rotate::<32>();
        }
    }

    #[inline(always)]
    fn block(&mut self, message: W) {
        for v in &mut self.0 {
            v[3] = v[3].xor(message);
        }
        self.round();
        for v in &mut self.0 {
            v[0] = v[0].xor(message);
        }
    }

    #[inline(always)]
    fn finish(mut self) -> [W; 2] {
        for v in &mut self.0 {
            v[2] = v[2].xor(W::splat(0xff));
        }
        for _ in 0..3 {
            self.round();
        }
        self.0.map(|v| v[0].xor(v[1]).xor(v[2]).xor(v[3]))
    }
}

/// All that a filter may know about an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    a: u64,
    b: u64,
}

impl Probe {
    pub(super) const fn new(a: u64, b: u64) -> Self {
        Self { a, b }
    }

    /// The two hashes.
    #[must_use]
    pub const fn hashes(&self) -> (u64, u64) {
        (self.a, self.b)
    }

    /// The item's first `hashes` bit positions in a filter of this size.
    #[inline(always)]
    pub(super) fn positions<const PLAIN: bool>(
        self,
        modulus: Modulus,
        hashes: u32,
    ) -> impl Iterator<Item = u64> + use<PLAIN> {
        (0..hashes).map(move |i| modulus.reduce(self.point::<PLAIN>(i)))
    }

    /// What a filter reduces to the item's bit position number `i`, whatever the filter's size.
    #[inline(always)]
    pub(super) fn point<const PLAIN: bool>(self, i: u32) -> u64 {
        let sum = self.a.wrapping_add(self.b.wrapping_mul(u64::from(i)));
        point::<u64, PLAIN>(i, sum, self.b)
    }
}

/// What filters reduce to bit positions number `i`: of items whose `a + i·b` and `b` these are. In a
/// `PLAIN` filter, RedisBloom's, it is the sum itself.
#[inline(always)]
pub(super) fn point<W: Words, const PLAIN: bool>(i: u32, sum: W, b: W) -> W {
    match i {
        _ if PLAIN => sum,
        0 => sum,
        1 => b,
        _ => mod_p(sum),
    }
}

/// `point mod P` without a division: the quotient is 0 or 1, and where it is 0 the subtraction wraps
/// to more than there was.
#[inline(always)]
fn mod_p<W: Words>(point: W) -> W {
    point.min(point.sub(W::splat(P)))
}

/// A filter's number of bits, with what it takes to reduce by it without a division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulus {
    bits: u64,
    reciprocal: u64,
}

impl Modulus {
    /// `⌊2⁶⁴ / bits⌋`, or one less for a single bit.
    pub(super) const fn reciprocal(bits: u64) -> u64 {
        // 2⁶⁴ does not fit: its quotient is that of 2⁶⁴ − 1, or one more for a power of two.
        (u64::MAX / bits).saturating_add((u64::MAX % bits == bits - 1) as u64)
    }

    pub(super) const fn new(bits: u64, reciprocal: u64) -> Self {
        Self { bits, reciprocal }
    }

    /// `x mod bits`, exactly. The reciprocal is at most one below `2⁶⁴ / bits`, so the estimated
    /// quotient is the true one or one less, or up to three less where the product's high half is
    /// an estimate too. Subtractions mend the remainder: of `bits` and what wraps, the smaller.
    #[inline(always)]
    pub(super) fn reduce<W: Words>(self, x: W) -> W {
        let bits = W::splat(self.bits);
        let quotient = x.mul_high(W::splat(self.reciprocal));
        let mut rest = x.sub(quotient.mul(bits));
        if !W::EXACT {
            rest = rest.min(rest.sub(bits.add(bits)));
        }
        rest.min(rest.sub(bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vector() {
        let probe = Seed::FIXED.probe(b"item");
        assert_eq!(
            probe.hashes(),
            (1_551_870_070_758_006_461, 15_380_462_718_969_971_528)
        );
        let modulus = Modulus::new(960, Modulus::reciprocal(960));
        let positions: Vec<u64> = probe.positions::<false>(modulus, 7).collect();
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
