//! Items to probes, probes to bit positions.
//!
//! Both steps are a promise to stored data: they are those of version 3 of the `bloomfilter` crate,
//! bit for bit, and never change.
//!
//! An item's two hashes are SipHash-1-3 under the two halves of the seed, of the message that
//! `Hash for [u8]` feeds a hasher on a 64-bit machine: the length as eight little-endian bytes, then
//! the bytes. Position `i` in a filter of `m` bits is `hA mod m`, `hB mod m`, and from `i = 2` on
//! `((hA + i·hB) mod 2⁶⁴ mod P) mod m`, where `P = 2⁶⁴ − 59` is the largest prime below 2⁶⁴.

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
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.0[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let mut sip = TwinSip::new([[word(0), word(8)], [word(16), word(24)]]);
        sip.block(item.len() as u64);
        let (blocks, tail) = item.as_chunks::<8>();
        for block in blocks {
            sip.block(u64::from_le_bytes(*block));
        }
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        // The message's length modulo 256 in the top byte; the eight bytes of the prefix count.
        last[7] = item.len().to_le_bytes()[0].wrapping_add(8);
        sip.block(u64::from_le_bytes(last));
        let [a, b] = sip.finish();
        Probe { a, b }
    }
}

/// Two SipHash-1-3 of one message, side by side: the two chains do not depend on each other, so the
/// processor runs them in the time of little more than one.
struct TwinSip([[u64; 4]; 2]);

impl TwinSip {
    #[inline(always)]
    fn new(keys: [[u64; 2]; 2]) -> Self {
        Self(keys.map(|[k0, k1]| {
            [
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d,
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ]
        }))
    }

    #[inline(always)]
    fn round(&mut self) {
        for [v0, v1, v2, v3] in &mut self.0 {
            *v0 = v0.wrapping_add(*v1);
            *v2 = v2.wrapping_add(*v3);
            *v1 = v1.rotate_left(13) ^ *v0;
            *v3 = v3.rotate_left(16) ^ *v2;
            *v0 = v0.rotate_left(32);
            *v2 = v2.wrapping_add(*v1);
            *v0 = v0.wrapping_add(*v3);
            *v1 = v1.rotate_left(17) ^ *v2;
            *v3 = v3.rotate_left(21) ^ *v0;
            *v2 = v2.rotate_left(32);
        }
    }

    #[inline(always)]
    fn block(&mut self, message: u64) {
        for v in &mut self.0 {
            v[3] ^= message;
        }
        self.round();
        for v in &mut self.0 {
            v[0] ^= message;
        }
    }

    #[inline(always)]
    fn finish(mut self) -> [u64; 2] {
        for v in &mut self.0 {
            v[2] ^= 0xff;
        }
        for _ in 0..3 {
            self.round();
        }
        self.0.map(|v| v[0] ^ v[1] ^ v[2] ^ v[3])
    }
}

/// All that a filter may know about an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Probe {
    a: u64,
    b: u64,
}

impl Probe {
    /// The two hashes.
    #[must_use]
    pub const fn hashes(&self) -> (u64, u64) {
        (self.a, self.b)
    }

    /// The item's first `hashes` bit positions in a filter of this size.
    #[inline(always)]
    pub(super) fn positions(self, modulus: Modulus, hashes: u32) -> impl Iterator<Item = u64> {
        (0..hashes).map(move |i| modulus.reduce(self.point(i)))
    }

    /// What a filter reduces to the item's bit position number `i`, whatever the filter's size.
    #[inline(always)]
    pub(super) const fn point(self, i: u32) -> u64 {
        match i {
            0 => self.a,
            1 => self.b,
            _ => {
                let point = self.a.wrapping_add(self.b.wrapping_mul(i as u64));
                // `point mod P` without a division: the quotient is 0 or 1.
                if point >= P { point - P } else { point }
            }
        }
    }
}

/// A filter's number of bits, with what it takes to reduce by it without a division.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulus {
    bits: u64,
    reciprocal: u64,
}

impl Modulus {
    /// `⌊2⁶⁴ / bits⌋`, for 2 bits or more.
    pub(super) const fn reciprocal(bits: u64) -> u64 {
        // 2⁶⁴ does not fit: its quotient is that of 2⁶⁴ − 1, or one more for a power of two.
        u64::MAX / bits + (u64::MAX % bits == bits - 1) as u64
    }

    pub(super) const fn new(bits: u64, reciprocal: u64) -> Self {
        Self { bits, reciprocal }
    }

    /// `x mod bits`, exactly. The reciprocal is less than one below `2⁶⁴ / bits`, so the estimated
    /// quotient is the true one or one less, and one subtraction mends the remainder.
    #[inline(always)]
    pub(super) const fn reduce(self, x: u64) -> u64 {
        let quotient = ((x as u128 * self.reciprocal as u128) >> 64) as u64;
        let rest = x - quotient * self.bits;
        if rest >= self.bits {
            rest - self.bits
        } else {
            rest
        }
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
        let positions: Vec<u64> = probe.positions(modulus, 7).collect();
        assert_eq!(positions, [701, 8, 461, 213, 925, 677, 429]);
    }

    #[test]
    fn the_remainder_is_exact_at_every_edge() {
        let sizes = (8..2000)
            .chain((3..60).flat_map(|bit| [(1 << bit) - 8, 1 << bit, (1 << bit) + 8]))
            .filter(|bits| bits % 8 == 0 && *bits > 0);
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
