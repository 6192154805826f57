//! The hash functions of our own objects: `SipHash` with a seed.
//!
//! An item's two hashes are SipHash-1-3, keyed with the two halves of the seed. The message is the one that `Hash for
//! [u8]` feeds a hasher on a 64-bit machine: the length as eight little-endian bytes, then the bytes. Version 3 of the
//! `bloomfilter` crate computes the same. Stored bits depend on it, so it never changes. (SipHash: Aumasson and
//! Bernstein 2012.)

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use crate::machine::words::Words;

use super::message::{block, last_block, rest, words_of};
use super::probe::Probe;

/// The keys of an object's two hash functions, 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seed([u8; 32]);

impl Seed {
    /// The seed of objects made without randomness, for reproducible tests and trusted input: anyone who knows a seed
    /// can make items that collide.
    pub const FIXED: Self = Self([
        89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115,
        62, 152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
    ]);

    /// Creates a random seed, made of the random keys that the standard library gives its hash maps.
    ///
    /// ```
    /// # use valkeybloom_sketches::Seed;
    /// assert_ne!(Seed::random(), Seed::random());
    /// ```
    pub fn random() -> Self {
        let keys = RandomState::new();
        let mut bytes = [0; 32];
        for (index, part) in bytes.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&keys.hash_one(index).to_le_bytes());
        }
        Self(bytes)
    }

    /// Creates the seed of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the seed.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Hashes an item. Once is enough, however many filters are queried.
    #[inline]
    pub fn probe(&self, item: &[u8]) -> Probe {
        let [a, b] = self.hash::<u64>(&[item]);
        Probe::new(a, b)
    }

    /// Returns both hashes of `Words::COUNT` items.
    #[inline(always)]
    pub(crate) fn hash<W: Words>(&self, items: &[&[u8]]) -> [W; 2] {
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
        // Shorter items keep their state while the longer ones are hashed.
        for index in fewest..=most {
            let before = sip.0;
            sip.block(words_of(items, |item| match index.cmp(&(item.len() / 8)) {
                Ordering::Less => block(item, index),
                Ordering::Equal => tail(item),
                Ordering::Greater => 0,
            }));
            let goes_on = |item: &[u8]| if index <= item.len() / 8 { u64::MAX } else { 0 };
            let mask = words_of(items, goes_on);
            let after = sip.0.as_flattened_mut().iter_mut();
            for (after, before) in after.zip(before.as_flattened()) {
                *after = before.xor(before.xor(*after).and(mask));
            }
        }
        sip.finish()
    }
}

/// A hasher of items of one length. Their first block, the length, is hashed once.
pub struct OfLength<W> {
    length: usize,
    sip: TwinSip<W>,
}

impl<W: Words> OfLength<W> {
    #[inline]
    pub fn new(seed: &Seed, length: usize) -> Self {
        let mut sip = TwinSip::new(&seed.0);
        sip.block(W::splat(length as u64));
        Self { length, sip }
    }

    /// Returns both hashes of [`Words::COUNT`] items, or `None` if one of them has another length.
    #[inline(always)]
    pub fn hash(&self, items: &[&[u8]]) -> Option<[W; 2]> {
        if items.iter().any(|item| item.len() != self.length) {
            return None;
        }
        let mut sip = TwinSip::<W>(self.sip.0);
        for index in 0..self.length / 8 {
            sip.block(words_of(items, |item| block(item, index)));
        }
        let rest = if self.length < 8 {
            words_of(items, |item| rest(&item[..self.length]))
        } else {
            let last: W = words_of(items, |item| last_block(&item[..self.length]));
            last.shift_right(64 - 8 * u32::from(self.length.to_le_bytes()[0] % 8))
        };
        sip.block(rest.xor(W::splat(top(self.length))));
        Some(sip.finish())
    }
}

/// Returns the block that is hashed last: the bytes after the last whole block and, on top, the length.
#[inline]
fn tail(item: &[u8]) -> u64 {
    top(item.len()) | rest(item)
}

/// Returns the length of the message modulo 256 in the highest byte. It includes the eight bytes of the length prefix.
#[inline]
fn top(length: usize) -> u64 {
    u64::from(length.to_le_bytes()[0].wrapping_add(8)) << 56
}

/// Two SipHash-1-3 of one message, side by side. The chains are independent, so the processor runs both in little more
/// time than one. Each word of the state is a `W`: one 64-bit word per message.
struct TwinSip<W>([[W; 4]; 2]);

impl<W: Words> TwinSip<W> {
    #[inline]
    fn new(keys: &[u8; 32]) -> Self {
        let (words, _) = keys.as_chunks::<8>();
        let key = |index: usize| u64::from_le_bytes(words[index]);
        let state = |k0, k1| {
            [
                W::splat(k0 ^ 0x736f_6d65_7073_6575),
                W::splat(k1 ^ 0x646f_7261_6e64_6f6d),
                W::splat(k0 ^ 0x6c79_6765_6e65_7261),
                W::splat(k1 ^ 0x7465_6462_7974_6573),
            ]
        };
        Self([state(key(0), key(1)), state(key(2), key(3))])
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
