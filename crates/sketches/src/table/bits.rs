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
#[allow(clippy::cast_possible_truncation, reason = "less than 8")]
pub fn open(bytes: &mut [u8], begin: usize, end: usize, count: u32, bits: u64) {
    let Some(moved) = Moved::new(bytes, begin, end + count as usize) else {
        return;
    };
    let (at, shift) = (begin / 8, begin as u32 % 8);
    let old = word(bytes, at);
    for block in (1..moved.blocks).rev() {
        let at = moved.first + BLOCK * block;
        let (_, new) = shifted_up(bytes, at, count);
        store(bytes, at, new);
    }
    let (other, new) = shifted_up(bytes, moved.first, count);
    store(bytes, moved.first, moved.first_block(other, new));
    moved.end(bytes, 0, 0);
    if 8 * (at + 8) <= end {
        // The word that was read before need not wait for what was written.
        let after = old >> shift << shift << 1 << (count - 1);
        put_word(bytes, at, old & mask(shift) | bits << shift | after);
    } else {
        put(bytes, begin, count, bits);
    }
}

/// Removes `count` bits, up to [`MOST`], from a bit on, of a string that ends at `end`. The last bit of the string becomes
/// `last`, and other bits that are free there any value.
///
/// # Panics
/// There are fewer than 64 bytes before the string, or fewer than [`SPARE`] after it.
#[inline(always)]
pub fn close(bytes: &mut [u8], begin: usize, end: usize, count: u32, last: bool) {
    let Some(moved) = Moved::new(bytes, begin, end) else {
        return;
    };
    let (old, new) = shifted_down(bytes, moved.first, count);
    store(bytes, moved.first, moved.first_block(old, new));
    for block in 1..moved.blocks {
        let at = moved.first + BLOCK * block;
        let (_, new) = shifted_down(bytes, at, count);
        store(bytes, at, new);
    }
    let bit = (end - 1) % 8;
    moved.end(bytes, 1 << bit, u8::from(last) << bit);
}

/// The words that are moved together, so that the compiler uses SIMD.
const WORDS: usize = 8;
/// Their bytes.
const BLOCK: usize = 8 * WORDS;

/// A string that is moved in blocks, the last of which ends with the string.
struct Moved {
    /// The first byte of the first block.
    first: usize,
    blocks: usize,
    /// The first bit of the string in the first block.
    begin: usize,
    /// The byte in which the string ends, and a mask of its bits after the string.
    last: (u8, u8),
}

impl Moved {
    /// Begins to move a string, if it has any bits.
    #[inline(always)]
    fn new(bytes: &[u8], begin: usize, end: usize) -> Option<Self> {
        if begin == end {
            return None;
        }
        let after = end.div_ceil(8);
        let blocks = (8 * after - begin).div_ceil(8 * BLOCK);
        let first = after - BLOCK * blocks;
        Some(Self {
            first,
            blocks,
            begin: begin - 8 * first,
            last: (bytes[after - 1], !(u8::MAX >> (8 * after - end))),
        })
    }

    /// Returns the words of the first block: old bits before the string, and new ones.
    #[inline(always)]
    fn first_block(&self, old: [u64; WORDS], new: [u64; WORDS]) -> [u64; WORDS] {
        let (first, partial) = (self.begin / 64, u64::MAX << (self.begin % 64));
        each(|number| {
            let mask = if number == first { partial } else { u64::MAX };
            let mask = if number < first { 0 } else { mask };
            new[number] & mask | old[number] & !mask
        })
    }

    /// Restores the bits after the string, and clears and sets bits of its last byte.
    #[inline(always)]
    fn end(&self, bytes: &mut [u8], clear: u8, set: u8) {
        let (old, mask) = self.last;
        let last = &mut bytes[self.first + BLOCK * self.blocks - 1];
        *last = *last & !mask & !clear | old & mask | set;
    }
}

/// Returns the words from a byte on, as they are and shifted to where bits are inserted before them.
#[inline(always)]
fn shifted_up(bytes: &[u8], at: usize, count: u32) -> ([u64; WORDS], [u64; WORDS]) {
    let (low, high) = (loaded(bytes, at - 8), loaded(bytes, at));
    (
        high,
        each(|word| high[word] << count | low[word] >> 1 >> (63 - count)),
    )
}

/// Returns the words from a byte on, as they are and shifted to where bits are removed before them.
#[inline(always)]
fn shifted_down(bytes: &[u8], at: usize, count: u32) -> ([u64; WORDS], [u64; WORDS]) {
    let (low, high) = (loaded(bytes, at), loaded(bytes, at + 8));
    (
        low,
        each(|word| low[word] >> count | high[word] << 1 << (63 - count)),
    )
}

/// Returns the words from a byte on.
#[inline(always)]
fn loaded(bytes: &[u8], at: usize) -> [u64; WORDS] {
    let from: &[u8; BLOCK] = bytes[at..].first_chunk().expect("a block");
    let (words, _) = from.as_chunks();
    each(|word| u64::from_le_bytes(words[word]))
}

/// Replaces the words from a byte on.
#[inline(always)]
fn store(bytes: &mut [u8], at: usize, by: [u64; WORDS]) {
    let to: &mut [u8; BLOCK] = bytes[at..].first_chunk_mut().expect("a block");
    let (words, _) = to.as_chunks_mut();
    for (word, by) in words.iter_mut().zip(by) {
        *word = by.to_le_bytes();
    }
}

/// Returns a word for each number. Unlike `array::from_fn`, the loop is unrolled.
#[inline(always)]
fn each(word: impl Fn(usize) -> u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (number, to) in words.iter_mut().enumerate() {
        *to = word(number);
    }
    words
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
