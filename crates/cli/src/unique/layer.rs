//! A Bloom filter whose items each have one bit in each word of one cache line, so that a lookup reads memory once, and no word
//! waits for another.

#![allow(
    clippy::cast_possible_truncation,
    reason = "bits are cut out of hashes"
)]

use std::hint::black_box;
use std::ops::BitOr;

use super::hash::{Hash, place_in_part};

const LINE_WORDS: usize = 8;
const LINE_BITS: usize = 64 * LINE_WORDS;

/// A Bloom filter whose items each have one cache line.
pub struct Layer {
    pub(super) words: Vec<u64>,
    /// The index of the first word of a cache line.
    start: usize,
    lines: usize,
    /// The number of new items that it still takes.
    room: usize,
}

/// Reads words that do not wait for one another, so their cache misses overlap. A caller that reads them again finds them in
/// the cache.
pub fn touch_each<W: BitOr<Output = W> + Default>(words: impl Iterator<Item = W>) {
    // The compiler would leave out what nobody uses.
    black_box(words.fold(W::default(), |all, word| all | word));
}

impl Layer {
    /// Creates a layer for a number of items.
    pub fn new(room: usize, item_bits: usize) -> Self {
        let lines = (room * item_bits).div_ceil(LINE_BITS).max(1);
        // The system makes these zeros when they are used first.
        let words = vec![0; (lines + 1) * LINE_WORDS];
        let start = words.as_ptr().align_offset(LINE_BITS / 8) % LINE_WORDS;
        Self {
            words,
            start,
            lines,
            room,
        }
    }

    /// Returns whether it has the items that it was made for.
    pub fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Returns the index of the first word of a hash's line.
    fn line(&self, hash: Hash) -> usize {
        self.start + LINE_WORDS * place_in_part(hash, self.lines)
    }

    /// Returns the bit of a hash in each word of its line.
    fn bits(hash: Hash) -> [u64; LINE_WORDS] {
        let low = hash as u64;
        std::array::from_fn(|word| 1 << ((low >> (6 * word)) % 64))
    }

    /// Reads the cache line of a hash.
    pub fn touch(&self, hash: Hash) -> u64 {
        self.words[self.line(hash)]
    }

    pub fn contains(&self, hash: Hash) -> bool {
        let line = &self.words[self.line(hash)..][..LINE_WORDS];
        // All words, because a branch for each would often be mispredicted.
        let missing = |(word, bit): (&u64, u64)| !word & bit;
        let words = line.iter().zip(Self::bits(hash)).map(missing);
        words.fold(0, BitOr::bitor) == 0
    }

    /// Adds a hash. Returns whether it is new.
    pub fn add(&mut self, hash: Hash) -> bool {
        let at = self.line(hash);
        let line = &mut self.words[at..][..LINE_WORDS];
        let mut missing = 0;
        for (word, bit) in line.iter_mut().zip(Self::bits(hash)) {
            missing |= !*word & bit;
            *word |= bit;
        }
        self.room = self.room.saturating_sub(usize::from(missing != 0));
        missing != 0
    }
}
