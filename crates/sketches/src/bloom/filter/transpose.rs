//! Transposing bits and bytes of blobs to interleave filters.

use std::ops::Range;

use crate::machine::words::{self, Task, Use, Words};

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
pub static PARTS: [[Line; MOST_EIGHTS]; MOST_EIGHTS] = {
    let mut parts = [[[0; PIECE_BYTES]; MOST_EIGHTS]; MOST_EIGHTS];
    let mut at = 0;
    while at < MOST_EIGHTS * PIECE_BYTES {
        let (stride, byte) = (at / PIECE_BYTES + 1, at % PIECE_BYTES);
        parts[stride - 1][byte % stride][byte] = u8::MAX;
        at += 1;
    }
    parts
};

/// Makes words of `stride` bytes, each byte from eight blobs, or undoes that. The bytes are whole words, at most
/// [`PIECE_BYTES`].
pub fn exchange(blobs: &mut [Box<[u8]>], stride: usize, bytes: Range<usize>) {
    let pairs = (0..stride).flat_map(|one| (one + 1..stride).map(move |other| (one, other)));
    for (one, other) in pairs {
        let (upper, lower) = blobs.split_at_mut(other * LANES);
        let upper = &mut upper[one * LANES..][..LANES];
        for (upper, lower) in upper.iter_mut().zip(lower) {
            words::run(Exchange {
                upper: &mut upper[of_blob(&bytes)][other - one..],
                lower: &mut lower[of_blob(&bytes)],
                part: &PARTS[stride - 1][one],
            });
        }
    }
}

/// Exchanges the bytes of a part between two blobs.
struct Exchange<'b> {
    /// The bytes from the first word's other part on.
    upper: &'b mut [u8],
    lower: &'b mut [u8],
    part: &'b Line,
}

impl Task for Exchange<'_> {
    const USE: Use = Use::Passes;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let bytes = self.upper.iter_mut().zip(self.lower).zip(self.part);
        for ((upper, lower), part) in bytes {
            let changes = (*upper ^ *lower) & part;
            *upper ^= changes;
            *lower ^= changes;
        }
    }
}

/// Collects the bytes of eight filters from words: of each word the byte `byte`.
pub struct Collect<'c> {
    /// The blobs of the words, eight for each byte of a word.
    pub blobs: &'c [Box<[u8]>],
    /// The place of the words in the blobs; at most [`PIECE_BYTES`].
    pub words: Range<usize>,
    pub byte: usize,
    /// Eight lines of zeros, one for each bit.
    pub to: [&'c mut [u8]; LANES],
}

impl Task for Collect<'_> {
    const USE: Use = Use::Passes;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(mut self) {
        let parts = &PARTS[self.blobs.len() / LANES - 1];
        for ((part, mask), blobs) in (0..).zip(parts).zip(self.blobs.chunks_exact(LANES)) {
            // The byte becomes byte number `part` of the word.
            let begin = self.words.start + self.byte - part;
            for (to, blob) in self.to.iter_mut().zip(blobs) {
                for ((to, from), mask) in to.iter_mut().zip(&blob[begin..]).zip(mask) {
                    *to |= from & mask;
                }
            }
        }
    }
}

/// Transposes the same bytes of eight blobs: bit `j` of the byte in blob `i` becomes bit `i` of the byte in blob `j`.
pub struct Turn<'b>(pub [&'b mut [u8]; LANES]);

/// The number of words of each blob that are transposed together.
const BLOCK: usize = 8;

impl Task for Turn<'_> {
    const USE: Use = Use::Passes;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(mut self) {
        let length = self.0[0].len();
        for begin in (0..length).step_by(BLOCK * 8) {
            let end = length.min(begin + BLOCK * 8);
            turn_block(self.0.each_mut().map(|bytes| &mut bytes[begin..end]));
        }
    }
}

#[inline(always)]
fn turn_block(blocks: [&mut [u8]; LANES]) {
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
    turn::<4>(&mut lines, !0 / 0xff * 0x0f);
    turn::<2>(&mut lines, !0 / 0xff * 0x33);
    turn::<1>(&mut lines, !0 / 0xff * 0x55);
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
fn turn<const BY: usize>(lines: &mut [[u64; BLOCK]; LANES], low: u64) {
    for first in (0..LANES).filter(|line| line & BY == 0) {
        let (upper, lower) = lines.split_at_mut(first + BY);
        for (upper, lower) in upper[first].iter_mut().zip(&mut lower[0]) {
            let changes = (*upper >> BY ^ *lower) & low;
            *lower ^= changes;
            *upper ^= changes << BY;
        }
    }
}
