//! Interleaving filters and taking them apart, some bytes at a time, because clients wait during each step.

use std::ops::Range;

use crate::machine::words;

use super::geometry::Geometry;
use super::interleaved::Interleaved;
use super::transpose::{LANES, MOST_EIGHTS, PIECE_BYTES, Turn, exchange, of_blob};

/// Bytes of each blob that are interleaved together.
struct Step {
    /// The words without the newest eight.
    before: Range<usize>,
    /// The words with the newest eight.
    words: Range<usize>,
    /// The transposed bytes of the newest eight.
    turned: Range<usize>,
}

impl Interleaved {
    /// Returns whether eight more filters of a size can join.
    pub fn takes(&self, geometry: Geometry) -> bool {
        self.geometry == geometry && self.eights() < MOST_EIGHTS && self.is_done()
    }

    /// Begins to interleave the filters whose blobs `lend` gives, if this group [`takes`](Self::takes) them. Returns `None`
    /// if there is no memory for their table; `lend` is not called then.
    pub fn take(&mut self, lend: impl FnOnce() -> Option<[Box<[u8]>; LANES]>) -> Option<()> {
        self.blobs.try_reserve_exact(LANES).ok()?;
        let blobs = lend()?;
        for lanes in &mut self.in_use {
            *lanes |= u32::from(u8::MAX) << self.blobs.len();
        }
        self.blobs.extend(blobs);
        self.count_eights();
        self.done = 0;
        self.clean = self.in_use.len();
        Some(())
    }

    /// Returns whether the newest eight filters have all of their own bits and no others.
    pub const fn is_apart(&self) -> bool {
        self.done == 0 && self.clean == self.in_use.len()
    }

    /// Removes the newest eight lanes, whose filters [are apart](Self::is_apart). Returns their blobs in order of the lanes.
    pub fn remove_newest(&mut self) -> Vec<Box<[u8]>> {
        debug_assert!(self.is_apart());
        let kept = self.blobs.len().saturating_sub(LANES);
        let removed = self.blobs.split_off(kept);
        for lanes in &mut self.in_use {
            *lanes &= !(u32::MAX << kept);
        }
        self.count_eights();
        self.clean = 0;
        self.done = self.filled_by(self.eights().max(1));
        removed
    }

    fn count_eights(&mut self) {
        self.reciprocal_of_eights = (1_u64 << 63).div_ceil(self.eights().max(1) as u64);
    }

    /// Interleaves some bytes more, `times` times, each in about a microsecond. Returns false if all bytes were interleaved
    /// before.
    pub fn advance(&mut self, times: usize) -> bool {
        let begun = !self.is_done();
        for _ in 0..times {
            if self.is_done() {
                break;
            }
            let (eights, before) = (self.eights(), self.eights_before());
            let step = self.step(self.done);
            self.turn_newest(&step.turned);
            exchange(&mut self.blobs, before, step.before);
            self.done = step.words.end;
            exchange(&mut self.blobs, eights, step.words);
        }
        begun
    }

    /// Takes some bytes of the newest eight filters apart, `times` times, each in about a microsecond, and then clears the
    /// bits that other filters left in their lanes. Returns false if they [were apart](Self::is_apart) before.
    pub fn undo(&mut self, times: usize) -> bool {
        let begun = !self.is_apart();
        for _ in 0..times {
            if self.is_apart() {
                break;
            }
            if self.done == 0 {
                self.clear_newest(self.clean);
                self.clean += 1;
                continue;
            }
            let (eights, before) = (self.eights(), self.eights_before());
            let step = self.step_to(self.done);
            self.done = step.words.start;
            exchange(&mut self.blobs, eights, step.words);
            exchange(&mut self.blobs, before, step.before);
            self.turn_newest(&step.turned);
        }
        begun
    }

    /// Returns the bytes from `start` on that are interleaved in one step.
    fn step(&self, start: usize) -> Step {
        let (eights, before) = (self.eights(), self.eights_before());
        let (end, all) = (start + self.step_bytes(), self.filled_by(eights));
        // The last step includes the bytes that do not fill a word.
        let (end_before, end, last) = if end >= all {
            (self.filled_by(before), all, self.cell_bytes())
        } else {
            (end, end, end)
        };
        Step {
            before: start..end_before,
            words: start..end,
            turned: start..last,
        }
    }

    /// Returns the bytes up to `end` that are interleaved in one step.
    fn step_to(&self, end: usize) -> Step {
        let last = end - 1;
        self.step(last - last % self.step_bytes())
    }

    /// Returns the number of bytes of each blob that are interleaved in one step.
    const fn step_bytes(&self) -> usize {
        let unit = self.eights() * self.eights_before();
        (PIECE_BYTES / self.eights()).next_multiple_of(unit)
    }

    fn turn_newest(&mut self, bytes: &Range<usize>) {
        let bytes = of_blob(bytes);
        if let Some(newest) = self.blobs.last_chunk_mut::<LANES>() {
            words::run(Turn(newest.each_mut().map(|blob| &mut blob[bytes.clone()])));
        }
    }

    /// Clears a piece in those of the newest eight lanes that do not use it.
    fn clear_newest(&mut self, piece: usize) {
        for lane in (0..).skip(self.lanes() - LANES).take(LANES) {
            self.clear_unused(piece, lane);
        }
    }
}
