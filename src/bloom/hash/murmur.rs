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
fn murmur_64(item: &[u8], seed: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_hashes() {
        for (item, a, b) in [
            ("foo", 0x822b_4f99_b121_f10d, 0x9d63_d52a_557f_61c2),
            ("", 0x1ab1_1ea5_a7b2_c56e, 0xbbdd_cb5a_b56d_d547),
            ("a", 0x4292_cee2_27b9_150a, 0x7e9b_5270_31f5_0c11),
            ("item", 0x369c_43a9_71e0_ac3f, 0x013d_6bb1_8d1a_6a54),
            ("12345678", 0x700b_ea34_3394_41c4, 0x94cc_ce09_94c5_c064),
            ("123456789", 0xb791_da69_f9d3_95e3, 0xabf3_563d_45e8_173b),
        ] {
            assert_eq!(probe_64(item.as_bytes()).hashes(), (a, b), "{item}");
        }
        assert_eq!(probe_32(b"foo").hashes(), (0x23a2_56d0, 0x9fbc_0655));
    }
}
