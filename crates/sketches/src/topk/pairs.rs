//! Pairs of 32-bit numbers in eight bytes, little endian: the form of cells, entries of the heap, and buckets.

/// The number of bytes of a pair.
pub const PAIR_BYTES: usize = 8;

/// Returns the pair at an index.
#[inline]
pub fn get(pairs: &[u8], index: usize) -> (u32, u32) {
    read(pairs.as_chunks().0[index])
}

/// Replaces the pair at an index.
#[inline]
pub fn set(pairs: &mut [u8], index: usize, pair: (u32, u32)) {
    *get_mut(pairs, index) = written(pair);
}

/// Returns the bytes of the pair at an index.
#[inline]
pub fn get_mut(pairs: &mut [u8], index: usize) -> &mut [u8; PAIR_BYTES] {
    &mut pairs.as_chunks_mut().0[index]
}

/// Returns the pair of its bytes.
#[inline]
pub const fn read(bytes: [u8; PAIR_BYTES]) -> (u32, u32) {
    split(u64::from_le_bytes(bytes))
}

/// Returns the bytes of a pair.
#[inline]
pub fn written((low, high): (u32, u32)) -> [u8; PAIR_BYTES] {
    (u64::from(high) << 32 | u64::from(low)).to_le_bytes()
}

/// Returns the number of pairs.
#[inline]
pub const fn count(pairs: &[u8]) -> usize {
    pairs.len() / PAIR_BYTES
}

/// Returns the low and the high half of a word.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "each half has 32 bits")]
pub const fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}
