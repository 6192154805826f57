//! Transposing bits and bytes of blobs to interleave filters.

use std::ops::Range;

use crate::machine::words::{self, Task, Words};

use super::cells::HEADER_BYTES;

/// The number of filters in a byte: one for each bit.
pub const LANES: usize = 8;

/// The most bytes in a word.
pub const MOST_EIGHTS: usize = 4;

/// The number of bytes of each blob that are cleared in one step: a multiple of every word size.
pub const PIECE_BYTES: usize = 768;

/// Returns the place in a blob of these bytes of the cells.
pub const fn of_blob(bytes: &Range<usize>) -> Range<usize> {
    HEADER_BYTES + bytes.start..HEADER_BYTES + bytes.end
}

/// The bytes of a blob.
pub type Line = [u8; PIECE_BYTES];

/// The mask of one byte of each word, by the size of words and the number of the byte.
pub static MASKS: [[Line; MOST_EIGHTS]; MOST_EIGHTS] = {
    let mut masks = [[[0; PIECE_BYTES]; MOST_EIGHTS]; MOST_EIGHTS];
    let mut at = 0;
    while at < MOST_EIGHTS * PIECE_BYTES {
        let (stride, byte) = (at / PIECE_BYTES + 1, at % PIECE_BYTES);
        masks[stride - 1][byte % stride][byte] = u8::MAX;
        at += 1;
    }
    masks
};

/// Makes words of `stride` bytes, each byte from eight blobs, or undoes that. The bytes are whole words, at most
/// [`PIECE_BYTES`].
pub fn exchange(blobs: &mut [Box<[u8]>], stride: usize, bytes: Range<usize>) {
    let pairs = (0..stride).flat_map(|one| (one + 1..stride).map(move |other| (one, other)));
    for (one, other) in pairs {
        let (upper, lower) = blobs.split_at_mut(other * LANES);
        let upper = &mut upper[one * LANES..][..LANES];
        for (upper, lower) in upper.iter_mut().zip(lower) {
            // From the first word's other byte on.
            let upper = &mut upper[of_blob(&bytes)][other - one..];
            let lower = &mut lower[of_blob(&bytes)];
            words::run(Exchange(upper, lower, &MASKS[stride - 1][one]));
        }
    }
}

/// Exchanges the bytes of a mask between two blobs.
struct Exchange<'b>(&'b mut [u8], &'b mut [u8], &'b Line);

impl Task for Exchange<'_> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        for ((upper, lower), mask) in self.0.iter_mut().zip(self.1).zip(self.2) {
            let changes = (*upper ^ *lower) & mask;
            *upper ^= changes;
            *lower ^= changes;
        }
    }
}

/// The same bytes of eight blobs.
pub type Lines<'b> = [&'b mut [u8]; LANES];

/// Collects the bytes of eight filters from words: of each word one byte.
pub struct Collect<'c, 'l> {
    /// The blobs of the words, eight for each byte of a word.
    pub blobs: &'c [Box<[u8]>],
    /// Where the words begin in the blobs.
    pub start: usize,
    /// The byte of each word.
    pub byte: usize,
    /// Eight lines of zeros, one for each bit. They take at most [`PIECE_BYTES`].
    pub to: &'c mut Lines<'l>,
}

impl Task for Collect<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let masks = &MASKS[self.blobs.len() / LANES - 1];
        for ((of_word, mask), blobs) in (0..).zip(masks).zip(self.blobs.chunks_exact(LANES)) {
            // The byte becomes byte number `of_word` of the word.
            let start = self.start + self.byte - of_word;
            for (to, blob) in self.to.iter_mut().zip(blobs) {
                for ((to, from), mask) in to.iter_mut().zip(&blob[start..]).zip(mask) {
                    *to |= from & mask;
                }
            }
        }
    }
}

/// Transposes the same bytes of eight blobs: bit `j` of the byte in blob `i` becomes bit `i` of the byte in blob `j`.
pub struct Turn<'b>(pub Lines<'b>);

/// The number of words of each blob that are transposed together.
const BLOCK: usize = 8;

impl Task for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(mut self) {
        let length = self.0[0].len();
        for start in (0..length).step_by(BLOCK * 8) {
            let end = length.min(start + BLOCK * 8);
            turn_block(self.0.each_mut().map(|bytes| &mut bytes[start..end]));
        }
    }
}

#[inline(always)]
fn turn_block(blocks: Lines) {
    let mut lines = [[0_u64; BLOCK]; LANES];
    for (line, block) in lines.iter_mut().zip(&blocks) {
        let (whole, rest) = block.as_chunks();
        for (word, bytes) in line.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        if !rest.is_empty() {
            line[whole.len()] = words::begun_with(rest);
        }
    }
    // The halves of each square of 8×8 bits change places, then the quarters, then the eighths.
    turn_squares::<4>(&mut lines, !0 / 0xff * 0x0f);
    turn_squares::<2>(&mut lines, !0 / 0xff * 0x33);
    turn_squares::<1>(&mut lines, !0 / 0xff * 0x55);
    for (line, block) in lines.iter().zip(blocks) {
        let (whole, rest) = block.as_chunks_mut();
        for (word, bytes) in line.iter().zip(&mut *whole) {
            *bytes = word.to_le_bytes();
        }
        if !rest.is_empty() {
            let last = line[whole.len()].to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// Exchanges bits between lines that are `BY` apart.
#[inline(always)]
fn turn_squares<const BY: usize>(lines: &mut [[u64; BLOCK]; LANES], low: u64) {
    for first in (0..LANES).filter(|line| line & BY == 0) {
        let (upper, lower) = lines.split_at_mut(first + BY);
        for (upper, lower) in upper[first].iter_mut().zip(&mut lower[0]) {
            let changes = (*upper >> BY ^ *lower) & low;
            *lower ^= changes;
            *upper ^= changes << BY;
        }
    }
}
