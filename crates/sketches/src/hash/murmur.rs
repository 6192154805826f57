//! The hash functions of `RedisBloom`'s objects: `MurmurHash` (Austin Appleby, public domain).
//!
//! The seed of the first hash is fixed. The first hash is the seed of the second.

use crate::machine::words::{MAX_WORDS, Words};

use super::message::{block, rest, words_of};
use super::probe::Probe;

/// Returns both 64-bit hashes of an item.
#[inline]
pub fn probe_64(item: &[u8]) -> Probe {
    let [a, b] = probes_64(&[item]);
    Probe::new(a, b)
}

/// Returns both 64-bit hashes of [`Words::COUNT`] items.
#[inline(always)]
pub fn probes_64<W: Words>(items: &[&[u8]]) -> [W; 2] {
    let a = murmur_64(items, W::splat(0xc6a4_a793_5bd1_e995));
    [a, murmur_64(items, a)]
}

/// Returns both 32-bit hashes of an item. `RedisBloom` used them until 2018.
#[inline]
pub fn probe_32(item: &[u8]) -> Probe {
    let a = murmur_32(item, 0x9747_b28c);
    Probe::new(u64::from(a), u64::from(murmur_32(item, a)))
}

/// Computes `MurmurHash64A` of [`Words::COUNT`] items, each with its own seed. Items of equal lengths are hashed side
/// by side.
#[inline(always)]
pub fn murmur_64<W: Words>(items: &[&[u8]], seeds: W) -> W {
    let length = items[0].len();
    if items.iter().all(|item| item.len() == length) {
        return of_length(items, length, seeds);
    }
    let (mut hashes, mut words) = ([0; MAX_WORDS], [0; MAX_WORDS]);
    seeds.store(&mut words);
    for ((hash, item), seed) in hashes.iter_mut().zip(items).zip(words) {
        *hash = of_length(&[item], item.len(), seed);
    }
    W::load(&hashes)
}

#[inline(always)]
fn of_length<W: Words>(items: &[&[u8]], length: usize, seeds: W) -> W {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let m = W::splat(M);
    let mut hash = seeds.xor(W::splat((length as u64).wrapping_mul(M)));
    for index in 0..length / 8 {
        let block: W = words_of(items, |item| block(item, index));
        hash = hash.xor(fold(block.mul(m)).mul(m)).mul(m);
    }
    if !length.is_multiple_of(8) {
        let rest: W = words_of(items, |item| rest(&item[..length]));
        hash = hash.xor(rest).mul(m);
    }
    fold(fold(hash).mul(m))
}

/// XORs the 17 highest bits into the lowest.
#[inline]
fn fold<W: Words>(word: W) -> W {
    word.xor(word.rotate::<17>().and(W::splat((1 << 17) - 1)))
}

/// Computes `MurmurHash2`.
#[inline]
pub fn murmur_32(item: &[u8], seed: u32) -> u32 {
    let [hash] = murmur_32_of_seeds(item, [seed]);
    hash
}

/// Computes `MurmurHash2` of an item for each of several seeds.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "a length modulo 2³²")]
pub fn murmur_32_of_seeds<const SEEDS: usize>(item: &[u8], seeds: [u32; SEEDS]) -> [u32; SEEDS] {
    const M: u32 = 0x5bd1_e995;
    let mut hashes = seeds.map(|seed| seed ^ item.len() as u32);
    let (blocks, tail) = item.as_chunks::<4>();
    for block in blocks {
        let k = u32::from_le_bytes(*block).wrapping_mul(M);
        let k = (k ^ k >> 24).wrapping_mul(M);
        for hash in &mut hashes {
            *hash = hash.wrapping_mul(M) ^ k;
        }
    }
    if !tail.is_empty() {
        let rest = match *tail {
            [a] => u32::from(a),
            [a, b] => u32::from(u16::from_le_bytes([a, b])),
            [a, b, c, ..] => u32::from_le_bytes([a, b, c, 0]),
            [] => 0,
        };
        for hash in &mut hashes {
            *hash = (*hash ^ rest).wrapping_mul(M);
        }
    }
    for hash in &mut hashes {
        *hash = (*hash ^ *hash >> 13).wrapping_mul(M);
        *hash ^= *hash >> 15;
    }
    hashes
}
