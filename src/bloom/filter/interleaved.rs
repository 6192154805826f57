//! Filters of bits of one size, interleaved: what stands in each of them at one position is in one byte, so that
//! all are asked at the price of one (Dadi et al. 2018).
//!
//! ```text
//!              byte 0                     byte 1
//!   blob 0     position 0 of all lanes    position 8 of all lanes    …
//!   blob 1     position 1 of all lanes    position 9 of all lanes    …
//!   …
//!   blob 7     position 7 of all lanes    position 15 of all lanes   …
//! ```
//!
//! Byte `i` of all blobs has the same bits as byte `i` of the filters had, turned: lines become columns. So filters
//! are interleaved where they are, some bytes at a time, and take no more memory.

use std::ops::Range;

use crate::bloom::hash::Probe;
use crate::bloom::machine::memory::{self, Relocate};
use crate::bloom::machine::words::{self, Task, Use, Words};

use super::cells::HEADER_BYTES;
use super::geometry::Geometry;
use super::positions::{Modulus, Positions};

/// How many filters are interleaved: one for each bit of a byte.
pub const LANES: usize = 8;

/// So many bytes of each blob are interleaved, or cleared, in one step.
pub const PIECE_BYTES: usize = 512;

/// Eight filters, interleaved. Each is a *lane*; a lane may be given to another filter when its own is gone.
#[derive(Debug)]
pub struct Interleaved {
    /// Each begins with the header of a filter; the filters' headers are all the same.
    blobs: [Box<[u8]>; LANES],
    geometry: Geometry,
    reciprocal: u64,
    /// So many bytes of each blob's cells are interleaved. In the others each filter has its own bits still.
    done: usize,
    /// The lanes, of each piece, whose bits are in use there. Those of the others were left by a filter that is gone.
    in_use: Box<[u8]>,
}

impl Interleaved {
    /// The memory in bytes that interleaving takes beside the filters of this size.
    pub const fn bytes_beside(geometry: Geometry) -> u64 {
        geometry.cell_bytes.div_ceil(PIECE_BYTES as u64) + (LANES * HEADER_BYTES) as u64
    }

    /// Interleaves the filters that `lend` gives the blobs of, which are of this size. If there is no memory for what
    /// goes with them, returns `None`, and asks for none.
    pub fn of(
        geometry: Geometry,
        lend: impl FnOnce() -> Option<[Box<[u8]>; LANES]>,
    ) -> Option<Self> {
        let pieces = geometry.cell_bytes.div_ceil(PIECE_BYTES as u64);
        let mut in_use = memory::zeroed(usize::try_from(pieces).ok()?)?;
        in_use.fill(u8::MAX);
        Some(Self {
            blobs: lend()?,
            geometry,
            reciprocal: Modulus::reciprocal(geometry.positions),
            done: 0,
            in_use,
        })
    }

    pub fn try_clone(&self) -> Option<Self> {
        let mut blobs = [const { None }; LANES];
        for (copy, blob) in blobs.iter_mut().zip(&self.blobs) {
            *copy = Some(memory::copied(blob)?);
        }
        Some(Self {
            blobs: blobs.map(Option::unwrap_or_default),
            in_use: memory::copied(&self.in_use)?,
            ..*self
        })
    }

    /// The size of each filter.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline(always)]
    pub(crate) const fn modulus(&self) -> Modulus {
        Modulus::new(self.geometry.positions, self.reciprocal)
    }

    fn cell_bytes(&self) -> usize {
        self.blobs[0].len() - HEADER_BYTES
    }

    /// Whether all bytes are interleaved.
    pub fn is_done(&self) -> bool {
        self.done == self.cell_bytes()
    }

    /// Interleaves so many more pieces.
    pub fn go_on(&mut self, pieces: usize) {
        for _ in 0..pieces {
            let end = self.cell_bytes().min(self.done + PIECE_BYTES);
            let bytes = HEADER_BYTES + self.done..HEADER_BYTES + end;
            words::run(Turn(
                self.blobs.each_mut().map(|blob| &mut blob[bytes.clone()]),
            ));
            self.done = end;
        }
    }

    /// The lanes in which the bit at a position is set.
    #[inline(always)]
    pub(crate) fn at(&self, position: u64) -> u8 {
        let byte = (position / 8) as usize;
        let lanes = if byte < self.done {
            self.blobs[(position % 8) as usize][HEADER_BYTES + byte]
        } else {
            self.not_done_at(position)
        };
        lanes & self.in_use[byte / PIECE_BYTES]
    }

    #[cold]
    fn not_done_at(&self, position: u64) -> u8 {
        let byte = HEADER_BYTES + (position / 8) as usize;
        let bits = self
            .blobs
            .iter()
            .map(|blob| blob[byte] >> (position % 8) & 1);
        (0..)
            .zip(bits)
            .fold(0, |lanes, (lane, bit)| lanes | bit << lane)
    }

    /// Prefetches the memory of the bits at a position.
    #[inline(always)]
    pub(crate) fn prefetch_at(&self, position: u64) {
        let byte = HEADER_BYTES + (position / 8) as usize;
        memory::prefetch(&self.blobs[(position % 8) as usize], byte);
    }

    /// The positions of an item, the same in all lanes.
    #[inline(always)]
    fn positions(&self, probe: Probe) -> Positions<false> {
        Positions::new(probe, self.modulus(), self.geometry.hashes)
    }

    /// Whether a lane claims an item.
    pub fn contains(&self, lane: u8, probe: Probe) -> bool {
        self.positions(probe)
            .all(|position| self.at(position) >> lane & 1 == 1)
    }

    /// Sets an item's bits in a lane. Returns whether one of them was clear.
    pub fn insert(&mut self, lane: u8, probe: Probe) -> bool {
        self.insert_at(lane, self.positions(probe))
    }

    /// The same of an item whose positions are known.
    #[inline(always)]
    pub fn insert_at(&mut self, lane: u8, positions: impl Iterator<Item = u64>) -> bool {
        let mut changed = 0;
        positions.for_each(|position| {
            let byte = (position / 8) as usize;
            let (blob, bit) = if byte < self.done {
                if self.in_use[byte / PIECE_BYTES] >> lane & 1 == 0 {
                    self.clear(byte / PIECE_BYTES, lane);
                }
                ((position % 8) as usize, 1 << lane)
            } else {
                (usize::from(lane), 1 << (position % 8))
            };
            let cell = &mut self.blobs[blob][HEADER_BYTES + byte];
            let before = *cell;
            *cell |= bit;
            changed |= before ^ *cell;
        });
        changed != 0
    }

    /// Empties a lane whose filter is gone. Its bits are cleared piece by piece, as other items come there.
    pub fn empty(&mut self, lane: u8) {
        for lanes in &mut self.in_use {
            *lanes &= !(1 << lane);
        }
    }

    #[cold]
    fn clear(&mut self, piece: usize, lane: u8) {
        let begin = HEADER_BYTES + piece * PIECE_BYTES;
        for blob in &mut self.blobs {
            let end = blob.len().min(begin + PIECE_BYTES);
            for lanes in &mut blob[begin..end] {
                *lanes &= !(1 << lane);
            }
        }
        self.in_use[piece] |= 1 << lane;
    }

    /// Appends these bytes of a lane's cells, as its filter would have them.
    pub fn copy_cells(&self, lane: u8, range: Range<usize>, to: &mut Vec<u8>) {
        let mut begin = range.start;
        while begin < range.end {
            let piece = begin / PIECE_BYTES;
            let end = range.end.min((piece + 1) * PIECE_BYTES);
            let bytes = HEADER_BYTES + begin..HEADER_BYTES + end;
            let copied = to.len();
            if self.in_use[piece] >> lane & 1 == 0 {
                to.resize(copied + bytes.len(), 0);
            } else if begin < self.done {
                to.resize(copied + bytes.len(), 0);
                for (bit, blob) in self.blobs.iter().enumerate() {
                    for (cells, lanes) in to[copied..].iter_mut().zip(&blob[bytes.clone()]) {
                        *cells |= (lanes >> lane & 1) << bit;
                    }
                }
            } else {
                to.extend_from_slice(&self.blobs[usize::from(lane)][bytes]);
            }
            begin = end;
        }
    }

    /// Bytes of all blobs, and of what goes with them.
    pub fn memory_bytes(&self) -> u64 {
        let blobs = self.blobs.iter().map(|blob| blob.len() as u64);
        blobs.sum::<u64>() + self.in_use.len() as u64
    }

    /// Lets `by` move blob number `index`, of [`LANES`].
    pub fn relocate(&mut self, index: usize, by: &mut impl Relocate) {
        self.blobs[index] = by.blob(std::mem::take(&mut self.blobs[index]));
    }
}

/// Turns the same bytes of eight blobs: bit `j` of the byte in blob `i` becomes bit `i` of the byte in blob `j`. At
/// most [`PIECE_BYTES`] of each.
struct Turn<'b>([&'b mut [u8]; LANES]);

impl Task for Turn<'_> {
    const USE: Use = Use::Passes;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let mut words = [[0_u64; PIECE_BYTES / 8]; LANES];
        for (words, bytes) in words.iter_mut().zip(&self.0) {
            let (whole, rest) = bytes.as_chunks();
            for (word, bytes) in words.iter_mut().zip(whole) {
                *word = u64::from_le_bytes(*bytes);
            }
            if !rest.is_empty() {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                words[whole.len()] = u64::from_le_bytes(last);
            }
        }
        // Halves of the square change places, then fourths, then eighths.
        turn::<4>(&mut words, !0 / 0xff * 0x0f);
        turn::<2>(&mut words, !0 / 0xff * 0x33);
        turn::<1>(&mut words, !0 / 0xff * 0x55);
        for (words, bytes) in words.iter().zip(self.0) {
            let (whole, rest) = bytes.as_chunks_mut();
            for (word, bytes) in words.iter().zip(&mut *whole) {
                *bytes = word.to_le_bytes();
            }
            if !rest.is_empty() {
                let last = words[whole.len()].to_le_bytes();
                rest.copy_from_slice(&last[..rest.len()]);
            }
        }
    }
}

/// Exchanges bits of lines that are `BY` apart.
#[inline(always)]
fn turn<const BY: usize>(lines: &mut [[u64; PIECE_BYTES / 8]; LANES], low: u64) {
    for first in (0..LANES).filter(|line| line & BY == 0) {
        let (upper, lower) = lines.split_at_mut(first + BY);
        for (upper, lower) in upper[first].iter_mut().zip(&mut lower[0]) {
            let changes = (*upper >> BY ^ *lower) & low;
            *lower ^= changes;
            *upper ^= changes << BY;
        }
    }
}
