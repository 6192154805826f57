//! Interleaved filters of bits of the same size: the bits of all filters at a position are in one word, so that a lookup in
//! all of them costs as much as a lookup in one (Dadi et al. 2018). A word has a byte for each eight filters. For 16:
//!
//! ```text
//!               bytes 0 and 1              bytes 2 and 3
//!   blob 0      position 0 of all lanes    position 16 of all lanes    …
//!   blob 1      position 1 of all lanes    position 17 of all lanes    …
//!   …
//!   blob 15     position 15 of all lanes   position 31 of all lanes    …
//! ```
//!
//! Bytes `i` and `i + 1` of all blobs have the same bits as those bytes of the filters had, transposed. So filters are
//! interleaved in place, some bytes at a time, and take no more memory: first eight filters, which eight more can join. The
//! newest eight are taken apart the same way.
//!
//! Words of up to four bytes need 370 lines more than words of one byte. A day of 24 hours for a million items each
//! (`cargo bench -- window`) takes 15 µs for a batch of 100 strangers with them and 35 µs without, 0.6 µs or 1.4 for a
//! single stranger, and 0.12 s or 0.2 to add 100,000 items.

use std::ops::Range;

use crate::hash::Probe;
use crate::machine::memory::{self, Relocate};
use crate::machine::words;

use super::cells::HEADER_BYTES;
use super::geometry::Geometry;
use super::positions::{Modulus, Positions};
use super::transpose::{Collect, LANES, MASKS, MOST_EIGHTS, PIECE_BYTES, Turn, of_blob};

/// Interleaved filters. Each has a *lane*, which another filter may get when the first is gone.
#[derive(Debug)]
pub struct Interleaved {
    /// One blob for each lane. Each blob begins with the header of a filter; the headers of all filters are the same.
    pub(super) blobs: Vec<Box<[u8]>>,
    pub(super) geometry: Geometry,
    reciprocal: u64,
    /// 2⁶³ divided by the bytes in a word, rounded up.
    pub(super) reciprocal_of_eights: u64,
    /// The number of bytes of each blob's cells that are in words of this size. Beyond these, the newest eight filters
    /// still have their own bits, and the other filters have words without the newest.
    pub(super) done: usize,
    /// The mask of lanes, for each piece, whose bits are in use there. Bits of the other lanes are left from a filter that
    /// is gone.
    pub(super) in_use: Box<[u32]>,
    /// The number of pieces from the first on that all of the newest eight lanes use. Later pieces may be unused.
    pub(super) clean: usize,
}

/// Words that have the bits of eight filters: bit `j` of their byte `i` is in blob `first + i % stride * 8 + j`.
#[derive(Clone, Copy)]
struct WordsOfEight {
    /// Bytes in a word.
    stride: usize,
    first: usize,
    /// The byte of each word that has these eight filters.
    byte: usize,
}

impl Interleaved {
    /// Returns the bytes of overhead for filters of this size, and for each eight of them.
    pub const fn bytes_beside(geometry: Geometry) -> (u64, u64) {
        let in_use = geometry.cell_bytes.div_ceil(PIECE_BYTES as u64) * size_of::<u32>() as u64;
        let of_eight = LANES * (HEADER_BYTES + memory::BLOB_POINTER);
        (in_use, of_eight as u64)
    }

    /// Creates a group of filters of this size, without filters yet. Returns `None` if there is no memory for it.
    pub fn new(geometry: Geometry) -> Option<Self> {
        let pieces = geometry.cell_bytes.div_ceil(PIECE_BYTES as u64);
        let pieces = usize::try_from(pieces).ok()?;
        let mut in_use = memory::reserved(pieces)?;
        in_use.resize(pieces, 0);
        Some(Self {
            blobs: Vec::new(),
            geometry,
            reciprocal: Modulus::reciprocal(geometry.positions),
            reciprocal_of_eights: 0,
            done: 0,
            in_use: in_use.into_boxed_slice(),
            clean: 0,
        })
    }

    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            blobs: memory::collected(self.blobs.iter().map(|blob| memory::copied(blob)))?,
            in_use: memory::copied(&self.in_use)?,
            ..*self
        })
    }

    /// Returns the size of each filter.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the number of lanes.
    pub const fn lanes(&self) -> usize {
        self.blobs.len()
    }

    /// Returns the number of bytes in a word.
    pub(super) const fn eights(&self) -> usize {
        self.blobs.len() / LANES
    }

    pub(crate) const fn modulus(&self) -> Modulus {
        Modulus::new(self.geometry.positions, self.reciprocal, false)
    }

    /// Returns the length of the cells of each filter in bytes.
    #[allow(clippy::cast_possible_truncation, reason = "they are in memory")]
    pub const fn cell_bytes(&self) -> usize {
        self.geometry.cell_bytes as usize
    }

    /// Returns the bytes of each blob that words of `eights` bytes fill. Each eight lanes have the bytes after these to
    /// themselves.
    pub(super) const fn filled_by(&self, eights: usize) -> usize {
        self.cell_bytes() - self.cell_bytes() % eights
    }

    /// Returns whether all bytes are interleaved. A group without filters is.
    pub const fn is_done(&self) -> bool {
        self.eights() == 0 || self.done == self.filled_by(self.eights())
    }

    /// Returns the number of bytes in a word before the newest eight filters came, but at least 1.
    pub(super) const fn eights_before(&self) -> usize {
        if self.eights() > 1 {
            self.eights() - 1
        } else {
            1
        }
    }

    /// Returns the number of the word that contains a byte of the filters, and the number of the byte's part in it.
    fn divided(&self, byte: usize) -> (usize, usize) {
        let product = byte as u128 * u128::from(self.reciprocal_of_eights);
        let word = (product >> 63) as usize;
        (word, byte - word * self.eights())
    }

    /// Returns the blob with the word of an interleaved position, and where the word begins in the blob.
    #[inline]
    fn place_of(&self, position: u64) -> (usize, usize) {
        let (word, of_word) = self.divided((position / 8) as usize);
        let blob = of_word * LANES + (position % 8) as usize;
        (blob, HEADER_BYTES + word * self.eights())
    }

    /// Returns the mask of lanes whose bit at a position is set.
    #[inline]
    pub(crate) fn at(&self, position: u64) -> u32 {
        let byte = (position / 8) as usize;
        let lanes = if byte < self.done {
            let (blob, begin) = self.place_of(position);
            word_at(&self.blobs[blob][begin..])
        } else {
            self.not_done_at(position)
        };
        // Bits that follow the word belong to lanes that are not in use.
        lanes & self.in_use[byte / PIECE_BYTES]
    }

    #[cold]
    fn not_done_at(&self, position: u64) -> u32 {
        let (byte, bit) = ((position / 8) as usize, (position % 8) as usize);
        let mut word = [0; MOST_EIGHTS];
        for (eight, (lanes, own)) in word.iter_mut().zip(self.blobs.chunks(LANES)).enumerate() {
            *lanes = if let Some(words) = self.words_with(eight, byte) {
                let (blob, byte) = words.place(byte, bit);
                self.blobs[blob][byte]
            } else {
                let bits = own.iter().map(|blob| blob[HEADER_BYTES + byte] >> bit & 1);
                let bits = (0..).zip(bits);
                bits.fold(0, |all, (lane, bit)| all | bit << lane)
            };
        }
        u32::from_le_bytes(word)
    }

    /// Prefetches the memory of the bits at a position.
    #[inline]
    pub(crate) fn prefetch_at(&self, position: u64) {
        let (blob, byte) = self.place_of(position);
        memory::prefetch(&self.blobs[blob], byte);
        memory::prefetch(&self.blobs[blob], byte + self.eights() - 1);
    }

    /// Returns the words that have a byte of eight of the filters, or `None` if each filter has it in the blob of its lane.
    const fn words_with(&self, eight: usize, byte: usize) -> Option<WordsOfEight> {
        let newest = self.eights() - 1;
        let stride = if byte < self.done {
            self.eights()
        } else if !self.is_done() && eight == newest {
            return None;
        } else if !self.is_done() && byte < self.filled_by(newest) {
            newest
        } else {
            return Some(WordsOfEight {
                stride: 1,
                first: eight * LANES,
                byte: 0,
            });
        };
        Some(WordsOfEight {
            stride,
            first: 0,
            byte: eight,
        })
    }

    /// Splits some bytes of eight of the filters into ranges, each in words of one kind or in none.
    fn split(
        &self,
        eight: usize,
        bytes: Range<usize>,
    ) -> [(Range<usize>, Option<WordsOfEight>); 3] {
        let mut start = bytes.start;
        [self.done, self.filled_by(self.eights_before()), bytes.end].map(|end| {
            let range = start..end.min(bytes.end).max(start);
            start = range.end;
            let words = self.words_with(eight, range.start);
            (range, words)
        })
    }

    /// Returns the positions of an item, which are the same in all lanes.
    fn positions(&self, probe: Probe) -> Positions {
        self.modulus().positions(probe, self.geometry.hashes)
    }

    /// Returns whether a lane claims an item.
    pub fn contains(&self, lane: u8, probe: Probe) -> bool {
        self.positions(probe)
            .all(|position| self.at(position) >> lane & 1 == 1)
    }

    /// Sets an item's bits in a lane. Returns whether one of them was clear.
    pub fn insert(&mut self, lane: u8, probe: Probe) -> bool {
        self.insert_at(lane, self.positions(probe))
    }

    /// Sets the bits at an item's positions in a lane. Returns whether one of them was clear.
    #[inline]
    pub fn insert_at(&mut self, lane: u8, positions: impl Iterator<Item = u64>) -> bool {
        let mut changed = 0;
        let (eight, lane_bit) = (usize::from(lane) / LANES, 1 << (usize::from(lane) % LANES));
        positions.for_each(|position| {
            let byte = (position / 8) as usize;
            self.clear_unused(byte / PIECE_BYTES, lane);
            let (blob, byte, bit) = if byte < self.done {
                let (blob, begin) = self.place_of(position);
                (blob, begin + eight, lane_bit)
            } else {
                self.place_not_done(lane, position)
            };
            let cell = &mut self.blobs[blob][byte];
            let before = *cell;
            *cell |= bit;
            changed |= before ^ *cell;
        });
        changed != 0
    }

    /// Returns the blob, the byte and the bit that have the bit of a lane at a position not interleaved yet.
    #[cold]
    fn place_not_done(&self, lane: u8, position: u64) -> (usize, usize, u8) {
        let (byte, bit) = ((position / 8) as usize, (position % 8) as usize);
        let lane = usize::from(lane);
        let Some(words) = self.words_with(lane / LANES, byte) else {
            return (lane, HEADER_BYTES + byte, 1 << bit);
        };
        let (blob, byte) = words.place(byte, bit);
        (blob, byte, 1 << (lane % LANES))
    }

    /// Empties a lane whose filter is gone. Each piece of its bits is cleared when the next item is added there.
    pub fn empty(&mut self, lane: u8) {
        for lanes in &mut self.in_use {
            *lanes &= !(1 << lane);
        }
        self.clean = 0;
    }

    fn piece(&self, piece: usize) -> Range<usize> {
        let begin = piece * PIECE_BYTES;
        begin..self.cell_bytes().min(begin + PIECE_BYTES)
    }

    /// Clears the bits that another filter left in a piece of a lane.
    #[inline]
    pub(super) fn clear_unused(&mut self, piece: usize, lane: u8) {
        if self.in_use[piece] >> lane & 1 == 0 {
            self.clear(piece, lane);
        }
    }

    #[cold]
    fn clear(&mut self, piece: usize, lane: u8) {
        self.in_use[piece] |= 1 << lane;
        let lane = usize::from(lane);
        for (bytes, words) in self.split(lane / LANES, self.piece(piece)) {
            let bytes = of_blob(&bytes);
            let Some(words) = words else {
                self.blobs[lane][bytes].fill(0);
                continue;
            };
            let mask = &MASKS[words.stride - 1][words.byte];
            for blob in &mut self.blobs[words.blobs()] {
                for (lanes, mask) in blob[bytes.clone()].iter_mut().zip(mask) {
                    *lanes &= !(mask & 1 << (lane % LANES));
                }
            }
        }
    }

    /// Appends these bytes of the cells of some of eight lanes, in the form that a filter with bits of its own has, each
    /// to its own output.
    pub fn copy_cells(&self, eight: usize, range: Range<usize>, to: &mut [Option<&mut Vec<u8>>]) {
        for number in range.start / PIECE_BYTES..range.end.div_ceil(PIECE_BYTES) {
            let piece = self.piece(number);
            let mut cells = [[0; PIECE_BYTES]; LANES];
            self.copy_piece(eight, &piece, &mut cells);
            let wanted = range.start.max(piece.start)..range.end.min(piece.end);
            let wanted = wanted.start - piece.start..wanted.end - piece.start;
            for (lane, (cells, to)) in (eight * LANES..).zip(cells.iter_mut().zip(&mut *to)) {
                if let Some(to) = to {
                    if self.in_use[number] >> lane & 1 == 0 {
                        cells.fill(0);
                    }
                    to.extend_from_slice(&cells[wanted.clone()]);
                }
            }
        }
    }

    fn copy_piece(
        &self,
        eight: usize,
        piece: &Range<usize>,
        cells: &mut [[u8; PIECE_BYTES]; LANES],
    ) {
        for (bytes, words_of) in self.split(eight, piece.clone()) {
            let mut cells = cells
                .each_mut()
                .map(|cells| &mut cells[bytes.start - piece.start..bytes.end - piece.start]);
            let bytes = of_blob(&bytes);
            let Some(words_of) = words_of else {
                for (cells, blob) in cells.iter_mut().zip(&self.blobs[eight * LANES..]) {
                    cells.copy_from_slice(&blob[bytes.clone()]);
                }
                continue;
            };
            words::run(Collect {
                blobs: &self.blobs[words_of.blobs()],
                start: bytes.start,
                byte: words_of.byte,
                to: &mut cells,
            });
            words::run(Turn(cells));
        }
    }

    /// Returns the bytes of all blobs and of their tables.
    pub fn memory_bytes(&self) -> u64 {
        let blobs = self.blobs.iter().map(|blob| blob.len() as u64);
        let table = self.blobs.capacity() * size_of::<Box<[u8]>>();
        let in_use = size_of_val(&*self.in_use);
        blobs.sum::<u64>() + (table + in_use) as u64
    }

    /// Lets `by` move the blob of a lane.
    pub fn relocate(&mut self, lane: usize, by: &mut impl Relocate) {
        self.blobs[lane] = by.blob(std::mem::take(&mut self.blobs[lane]));
    }
}

impl WordsOfEight {
    const fn blobs(self) -> Range<usize> {
        self.first..self.first + self.stride * LANES
    }

    /// Returns the blob that has a bit of a byte of all eight filters, and the byte there.
    const fn place(self, byte: usize, bit: usize) -> (usize, usize) {
        let (word, of_word) = (byte / self.stride, byte % self.stride);
        let start = HEADER_BYTES + word * self.stride;
        (self.first + of_word * LANES + bit, start + self.byte)
    }
}

/// Returns four bytes from the start of a slice, zeros where it ends: the word there, and bytes after it.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "fewer than four bytes")]
fn word_at(bytes: &[u8]) -> u32 {
    match bytes.first_chunk() {
        Some(word) => u32::from_le_bytes(*word),
        None => words::begun_with(bytes) as u32,
    }
}
