//! The hash functions of `RedisBloom`'s objects: `MurmurHash` (Austin Appleby, in the public domain).
//!
//! The seed of the first hash is fixed; the first hash is the seed of the second.

use super::probe::Probe;

/// Both hashes of 64 bits.
#[inline]
pub fn probe_64(item: &[u8]) -> Probe {
    let a = murmur_64(item, 0xc6a4_a793_5bd1_e995);
    Probe::new(a, murmur_64(item, a))
}

/// Both hashes of 32 bits, as `RedisBloom` used them until 2018.
#[inline]
pub fn probe_32(item: &[u8]) -> Probe {
    let a = murmur_32(item, 0x9747_b28c);
    Probe::new(u64::from(a), u64::from(murmur_32(item, a)))
}

/// `MurmurHash64A`.
#[inline]
pub fn murmur_64(item: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = seed ^ (item.len() as u64).wrapping_mul(M);
    let (blocks, tail) = item.as_chunks::<8>();
    for block in blocks {
        let mut k = u64::from_le_bytes(*block).wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let rest = tail
            .iter()
            .rev()
            .fold(0, |rest, byte| rest << 8 | u64::from(*byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}

/// `MurmurHash2`.
#[inline]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the length modulo 2³² is what is mixed in"
)]
fn murmur_32(item: &[u8], seed: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = seed ^ item.len() as u32;
    let (blocks, tail) = item.as_chunks::<4>();
    for block in blocks {
        let mut k = u32::from_le_bytes(*block).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        let rest = tail
            .iter()
            .rev()
            .fold(0, |rest, byte| rest << 8 | u32::from(*byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}
