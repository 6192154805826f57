//! RedisBloom's hashes.

/// `MurmurHash64A` by its published description, byte by byte.
pub fn murmur_64(item: &[u8], seed: u64) -> u64 {
    let m = 0xc6a4_a793_5bd1_e995_u64;
    let mut hash = seed ^ m.wrapping_mul(item.len() as u64);
    let whole = item.len() / 8 * 8;
    for start in (0..whole).step_by(8) {
        let mut k = u64::from_le_bytes(item[start..start + 8].try_into().unwrap());
        k = k.wrapping_mul(m);
        k ^= k >> 47;
        k = k.wrapping_mul(m);
        hash ^= k;
        hash = hash.wrapping_mul(m);
    }
    for index in (whole..item.len()).rev() {
        hash ^= u64::from(item[index]) << (8 * (index - whole));
        if index == whole {
            hash = hash.wrapping_mul(m);
        }
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(m);
    hash ^ (hash >> 47)
}

/// `MurmurHash2` of 32 bits by its published description, byte by byte.
pub fn murmur_32(item: &[u8], seed: u32) -> u32 {
    let m = 0x5bd1_e995_u32;
    let mut hash = seed ^ u32::try_from(item.len()).unwrap();
    let whole = item.len() / 4 * 4;
    for start in (0..whole).step_by(4) {
        let mut k = u32::from_le_bytes(item[start..start + 4].try_into().unwrap());
        k = k.wrapping_mul(m);
        k ^= k >> 24;
        k = k.wrapping_mul(m);
        hash = hash.wrapping_mul(m) ^ k;
    }
    for index in (whole..item.len()).rev() {
        hash ^= u32::from(item[index]) << (8 * (index - whole));
        if index == whole {
            hash = hash.wrapping_mul(m);
        }
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(m);
    hash ^ (hash >> 15)
}
