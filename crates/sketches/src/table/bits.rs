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

/// Inserts `count` bits, up to [`MOST`], before a bit of a string that ends at `end`. No other bit of `bits` is set.
///
/// # Panics
/// There are fewer than 72 bytes before the string, which is moved in whole blocks.
#[inline(always)]
pub fn open(bytes: &mut [u8], begin: usize, end: usize, count: u32, bits: u64) {
    if count == 0 {
        return;
    }
    let (at, shift, after) = (begin / 8, begin % 8, end + count as usize);
    let (old, before, last) = (word(bytes, at), before(bytes, at), bytes[(after - 1) / 8]);
    let mut rest = blocks(bytes, at, after, 8, 0);
    while let Some(window) = rest.last_chunk_mut() {
        let (low, high) = (words(window, 0), words(window, 8));
        let mut new = [0; WORDS];
        for word in 0..WORDS {
            new[word] = high[word] << count | low[word] >> 1 >> (63 - count);
        }
        put_words(window, 8, new);
        let left = rest.len() - BLOCK;
        rest = &mut std::mem::take(&mut rest)[..left];
    }
    bytes[at - BLOCK..at].copy_from_slice(&before);
    let moved = u8::MAX >> (7 - (after - 1) % 8);
    let byte = &mut bytes[(after - 1) / 8];
    *byte = *byte & moved | last & !moved;
    let moved = if 8 * (at + 8) <= end {
        // The word that was read before need not wait for what was written.
        old >> shift << shift << 1 << (count - 1)
    } else {
        let inserted = shift + count as usize - 1;
        word(bytes, at) >> 1 >> inserted << inserted << 1
    };
    let kept = old & !(u64::MAX << shift);
    put_word(bytes, at, kept | bits << shift | moved);
}

/// Removes `count` bits, up to [`MOST`], from a bit on, of a string that ends at `end`. The last bit of the string becomes
/// `last`, and other bits that are free there any value.
///
/// # Panics
/// There are fewer than 64 bytes before the string, or fewer than [`SPARE`] after it.
#[inline(always)]
pub fn close(bytes: &mut [u8], begin: usize, end: usize, count: u32, last: bool) {
    if begin == end {
        return;
    }
    let (at, after, bit) = (begin / 8, (end - 1) / 8, (end - 1) % 8);
    let (first, before, others) = (bytes[at], before(bytes, at), bytes[after]);
    let mut rest = blocks(bytes, at, end, 0, 8);
    while let Some(window) = rest.first_chunk_mut() {
        let (low, high) = (words(window, 0), words(window, 8));
        let mut new = [0; WORDS];
        for word in 0..WORDS {
            new[word] = low[word] >> count | high[word] << 1 << (63 - count);
        }
        put_words(window, 0, new);
        rest = &mut std::mem::take(&mut rest)[BLOCK..];
    }
    bytes[at - BLOCK..at].copy_from_slice(&before);
    let moved = u8::MAX << (begin % 8);
    bytes[at] = bytes[at] & moved | first & !moved;
    let moved = !(u8::MAX << bit);
    bytes[after] = bytes[after] & moved | u8::from(last) << bit | others & !moved << 1;
}

/// The words that are moved together, so that the compiler uses SIMD.
const WORDS: usize = 8;
/// Their bytes.
const BLOCK: usize = 8 * WORDS;

/// Returns the block before a byte. It is restored when whole blocks were moved.
#[inline(always)]
fn before(bytes: &[u8], at: usize) -> [u8; BLOCK] {
    *bytes[at - BLOCK..].first_chunk().expect("a block")
}

/// Returns the blocks that have the bytes from one to that of the bit before `end`, the last one's end, and some bytes before
/// and after them.
#[inline(always)]
fn blocks(bytes: &mut [u8], from: usize, end: usize, before: usize, after: usize) -> &mut [u8] {
    let end = end.div_ceil(8);
    let length = (end - from).next_multiple_of(BLOCK);
    &mut bytes[end - length - before..end + after]
}

/// Returns the words from a byte on.
#[inline(always)]
fn words(window: &[u8; BLOCK + 8], at: usize) -> [u64; WORDS] {
    let from: &[u8; BLOCK] = window[at..].first_chunk().expect("a block");
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(from.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Replaces the words from a byte on.
#[inline(always)]
fn put_words(window: &mut [u8; BLOCK + 8], at: usize, by: [u64; WORDS]) {
    let to: &mut [u8; BLOCK] = window[at..].first_chunk_mut().expect("a block");
    for (word, by) in to.as_chunks_mut().0.iter_mut().zip(by) {
        *word = by.to_le_bytes();
    }
}

/// Returns the place of the set bit of a word with a rank. The word has such a bit.
///
/// The instruction PDEP does this, too, but is slow on some processors. With it, lookups took 8 to 12 % less time.
#[inline(always)]
pub fn select(word: u64, rank: u32) -> usize {
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
