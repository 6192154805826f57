//! Strings of bits in bytes: reading, writing and moving a few of them.
//!
//! Words are read at any byte, so every string is followed by [`SPARE`] bytes.

use crate::machine::memory::index;

/// The bytes after a string that may be read with it. They are written back as they were.
pub const SPARE: usize = 8;

/// The most bits that are read or written at once: those of a word that begins anywhere in a byte.
pub const MOST: u32 = 57;

/// Returns the word at a byte.
#[inline(always)]
pub fn word(bytes: &[u8], at: usize) -> u64 {
    let (word, _) = bytes[at..].split_first_chunk().expect("bytes to spare");
    u64::from_le_bytes(*word)
}

/// Writes the word at a byte.
#[inline]
pub fn put_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Returns a mask of the lowest bits, fewer than 64.
#[inline(always)]
pub const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// Returns at most [`MOST`] bits.
#[inline(always)]
pub fn get(bytes: &[u8], begin: usize, count: u32) -> u64 {
    word(bytes, begin / 8) >> (begin % 8) & mask(count)
}

/// Writes at most [`MOST`] bits. No other bit of `bits` is set.
#[inline]
pub fn put(bytes: &mut [u8], begin: usize, count: u32, bits: u64) {
    let (at, shift) = (begin / 8, begin % 8);
    let others = word(bytes, at) & !(mask(count) << shift);
    put_word(bytes, at, others | bits << shift);
}

/// Inserts `count` zeros, from 1 to [`MOST`], before a bit of a string that ends at `end`.
#[inline]
pub fn open(bytes: &mut [u8], begin: usize, end: usize, count: u32) {
    let (words, own) = words_of(bytes, begin, end + count as usize);
    let (mut kept, mut carry, mut left) = (mask_below(begin), 0, words.len());
    for word in words {
        left -= 1;
        let here = u64::from_le_bytes(*word);
        let moved = (here & !kept) << count | here & kept | carry;
        (kept, carry) = (0, here >> (64 - count));
        let own = if left == 0 { own } else { u64::MAX };
        *word = (moved & own | here & !own).to_le_bytes();
    }
}

/// Removes `count` bits, from 1 to [`MOST`], from a bit on, of a string that ends at `end`.
#[inline]
pub fn close(bytes: &mut [u8], begin: usize, end: usize, count: u32) {
    let (words, mut own) = words_of(bytes, begin, end);
    let (mut carry, mut left) = (0, words.len());
    for word in words.iter_mut().rev() {
        left -= 1;
        let here = u64::from_le_bytes(*word);
        let moved = (here & own) >> count | carry << (64 - count);
        let kept = if left == 0 { mask_below(begin) } else { 0 };
        let changed = own & !kept;
        *word = (moved & changed | here & !changed).to_le_bytes();
        (own, carry) = (u64::MAX, here);
    }
}

/// Returns a mask of the bits of a byte below one of them.
#[inline]
const fn mask_below(bit: usize) -> u64 {
    (1 << (bit % 8)) - 1
}

/// Returns the words of a string, from the byte of a bit on, and a mask of those bits of the last one that are before the
/// string's end.
#[inline]
fn words_of(bytes: &mut [u8], begin: usize, end: usize) -> (&mut [[u8; 8]], u64) {
    let first = begin / 8;
    let bits = end - 8 * first;
    let count = bits.div_ceil(64);
    let (words, _) = bytes[first..first + 8 * count].as_chunks_mut();
    (words, u64::MAX >> (64 * count - bits))
}

/// Returns the number of set bits before one of them, in words from a byte on.
pub fn rank(bytes: &[u8], at: usize, bit: usize) -> u32 {
    let (whole, rest) = bytes[at..].split_at(bit / 8);
    let below = rest[0] & ((1 << (bit % 8)) - 1);
    let whole = whole.iter().map(|byte| byte.count_ones());
    whole.sum::<u32>() + below.count_ones()
}

/// Returns the place of the set bit with a rank, counted from 0, in words from a byte on. There is such a bit.
#[inline(always)]
pub fn select(bytes: &[u8], mut at: usize, mut rank: u32) -> usize {
    let begin = at;
    loop {
        let word = word(bytes, at);
        let count = word.count_ones();
        if rank < count {
            return 8 * (at - begin) + select_in(word, rank);
        }
        rank -= count;
        at += 8;
    }
}

/// Returns the place of the set bit of a word with a rank. The word has such a bit.
///
/// The instruction PDEP does this, too, but is slow on some processors. With it, lookups took 8 to 12 % less time.
#[inline(always)]
fn select_in(word: u64, rank: u32) -> usize {
    // Each byte gets the number of bits that are set in it and below (Vigna 2008).
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES << 7;
    let pairs = word - ((word >> 1) & (ONES * 0x55));
    let quarters = (pairs & (ONES * 0x33)) + ((pairs >> 2) & (ONES * 0x33));
    let sums = ((quarters + (quarters >> 4)) & (ONES * 0x0f)).wrapping_mul(ONES);
    // The bytes with a sum of at most the rank are below the one of the bit.
    let rank = u64::from(rank);
    let below = (((rank * ONES) | TOPS) - sums) & TOPS;
    let byte = 8 * below.count_ones();
    let rank = rank - (((sums << 8) >> byte) & 0xff);
    byte as usize + usize::from(PLACES[index(rank)][index((word >> byte) & 0xff)])
}

/// The places of the set bits of a byte, by their ranks.
const PLACES: [[u8; 256]; 8] = {
    let mut places = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut place, mut rank) = (0, 0);
        while place < 8 {
            if byte >> place & 1 == 1 {
                places[rank][byte] = place;
                rank += 1;
            }
            place += 1;
        }
        byte += 1;
    }
    places
};
