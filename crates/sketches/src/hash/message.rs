//! Reading items as words: one word of each of several items, for hashing side by side.

use crate::machine::words::{MAX_WORDS, Words};

/// Collects one word of each of the first [`Words::COUNT`] items.
#[inline(always)]
pub fn words_of<W: Words>(items: &[&[u8]], word: impl Fn(&[u8]) -> u64) -> W {
    let mut words = [0; MAX_WORDS];
    for (slot, item) in words.iter_mut().zip(&items[..W::COUNT]) {
        *slot = word(item);
    }
    W::load(&words)
}

/// Returns block `index`, eight bytes, of an item that is long enough.
#[inline]
pub fn block(item: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(item.as_chunks::<8>().0[index])
}

/// Returns the last eight bytes of an item that is long enough.
#[inline]
pub fn last_block(item: &[u8]) -> u64 {
    let last = item.last_chunk::<8>();
    last.map_or(0, |last| u64::from_le_bytes(*last))
}

/// Returns the bytes after the last whole block.
#[inline]
pub fn rest(item: &[u8]) -> u64 {
    let left = item.len() % 8;
    // A copy of so short a slice costs more than the hash, so overlapping pieces are read.
    if let Some(last) = item.last_chunk::<8>() {
        u64::from_le_bytes(*last) >> 8 >> (56 - 8 * left)
    } else if let (Some(first), Some(last)) = (item.first_chunk::<4>(), item.last_chunk::<4>()) {
        let last = u64::from(u32::from_le_bytes(*last));
        u64::from(u32::from_le_bytes(*first)) | last << (8 * (left - 4))
    } else if let (Some(first), Some(last)) = (item.first(), item.last()) {
        let middle = u64::from(item[left / 2]) << (8 * (left / 2));
        u64::from(*first) | middle | u64::from(*last) << (8 * (left - 1))
    } else {
        0
    }
}
