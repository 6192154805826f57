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

/// Makes words of `stride` bytes, each byte from eight blobs, or undoes that. The bytes are whole words.
pub fn exchange(blobs: &mut [Box<[u8]>], stride: usize, bytes: Range<usize>) {
    let pairs = (0..stride).flat_map(|one| (one + 1..stride).map(move |other| (one, other)));
    for (one, other) in pairs {
        let (upper, lower) = blobs.split_at_mut(other * LANES);
        let upper = &mut upper[one * LANES..][..LANES];
        for (upper, lower) in upper.iter_mut().zip(lower) {
            let upper = upper[of_blob(&bytes)].iter_mut();
            let lower = lower[of_blob(&bytes)].iter_mut();
            let (upper, lower) = (upper.skip(other), lower.skip(one));
            let bytes = upper.step_by(stride).zip(lower.step_by(stride));
            bytes.for_each(|(upper, lower)| std::mem::swap(upper, lower));
        }
    }
}

/// The lowest bit of one byte in each word, by the size of words and the number of the byte.
pub static PARTS: [[[u64; PIECE_BYTES / 8]; MOST_EIGHTS]; MOST_EIGHTS] = {
    let mut parts = [[[0; PIECE_BYTES / 8]; MOST_EIGHTS]; MOST_EIGHTS];
    let mut at = 0;
    while at < MOST_EIGHTS * PIECE_BYTES {
        let (stride, byte) = (at / PIECE_BYTES + 1, at % PIECE_BYTES);
        parts[stride - 1][byte % stride][byte / 8] |= 1 << (byte % 8 * 8);
        at += 1;
    }
    parts
};

/// Picks the bits of a lane in some parts of words, bit 0 from the first blob, bit 1 from the second, and so on; from each
/// at most [`PIECE_BYTES`].
pub struct Pick<'p> {
    pub of_bits: [&'p [u8]; LANES],
    pub lane: usize,
    pub parts: &'p [u64; PIECE_BYTES / 8],
    pub to: &'p mut [u64; PIECE_BYTES / 8],
}

impl Task for Pick<'_> {
    const USE: Use = Use::Passes;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        for (bit, bytes) in self.of_bits.into_iter().enumerate() {
            let pick = |word, part| (word >> self.lane & part) << bit;
            let (whole, rest) = bytes.as_chunks();
            let to = self.to.iter_mut().zip(self.parts);
            for ((picked, part), bytes) in to.zip(whole) {
                *picked |= pick(u64::from_le_bytes(*bytes), *part);
            }
            if !rest.is_empty() {
                let last = whole.len();
                self.to[last] |= pick(words::begun_with(rest), self.parts[last]);
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
