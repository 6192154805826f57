//! How filters come to be interleaved, and are taken apart: some bytes at a time, because others wait meanwhile.

use std::ops::Range;

use crate::machine::words;

use super::geometry::Geometry;
use super::interleaved::Interleaved;
use super::transpose::{LANES, MOST_EIGHTS, PIECE_BYTES, Turn, exchange, of_blob};

/// Bytes of each blob that are interleaved together.
struct Step {
    begin: usize,
    /// Up to here there were words without the newest eight.
    end_before: usize,
    /// Up to here there are words with them.
    end: usize,
    /// Up to here they have their bits turned.
    last: usize,
}

impl Step {
    const fn before(&self) -> Range<usize> {
        self.begin..self.end_before
    }

    const fn words(&self) -> Range<usize> {
        self.begin..self.end
    }
}

impl Interleaved {
    /// Whether it takes eight more filters of a size.
    pub fn takes(&self, geometry: Geometry) -> bool {
        self.geometry == geometry && self.eights() < MOST_EIGHTS && self.is_done()
    }

    /// Begins to interleave the filters that `lend` gives the blobs of, where it [`takes`](Self::takes) them. If there is
    /// no memory for what goes with them, returns `None`, and asks for none.
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

    /// Whether the newest eight have their own bits, all of them, and no others.
    pub const fn is_apart(&self) -> bool {
        self.done == 0 && self.clean == self.in_use.len()
    }

    /// Gives back the blobs of the newest eight, which [are apart](Self::is_apart), in order of their lanes. Those lanes
    /// are gone.
    pub fn part(&mut self) -> Vec<Box<[u8]>> {
        debug_assert!(self.is_apart());
        let kept = self.blobs.len().saturating_sub(LANES);
        let parted = self.blobs.split_off(kept);
        for lanes in &mut self.in_use {
            *lanes &= !(u32::MAX << kept);
        }
        self.count_eights();
        self.clean = 0;
        self.done = self.filled_by(self.eights().max(1));
        parted
    }

    fn count_eights(&mut self) {
        self.reciprocal_of_eights = (1_u64 << 63).div_ceil(self.eights().max(1) as u64);
    }

    /// Interleaves so many times some bytes more, each in about a microsecond. Returns false if all are.
    pub fn go_on(&mut self, times: usize) -> bool {
        let begun = !self.is_done();
        for _ in 0..times {
            if self.is_done() {
                break;
            }
            let (eights, before) = (self.eights(), self.eights_before());
            let step = self.step(self.done);
            self.turn_newest(&step);
            exchange(&mut self.blobs, before, step.before());
            exchange(&mut self.blobs, eights, step.words());
            self.done = step.end;
        }
        begun
    }

    /// Takes the newest eight so many times some bytes further apart, each in about a microsecond, and then clears what
    /// other filters left in them. Returns false if they [are apart](Self::is_apart).
    pub fn go_back(&mut self, times: usize) -> bool {
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
            exchange(&mut self.blobs, eights, step.words());
            exchange(&mut self.blobs, before, step.before());
            self.turn_newest(&step);
            self.done = step.begin;
        }
        begun
    }

    /// The bytes that are interleaved together, from the first one on.
    fn step(&self, begin: usize) -> Step {
        let (eights, before) = (self.eights(), self.eights_before());
        let (end, all) = (begin + self.step_bytes(), self.filled_by(eights));
        // At the end come the bytes that do not fill a word.
        let (end_before, end, last) = if end >= all {
            (self.filled_by(before), all, self.cell_bytes())
        } else {
            (end, end, end)
        };
        Step {
            begin,
            end_before,
            end,
            last,
        }
    }

    /// The same, up to the end.
    fn step_to(&self, end: usize) -> Step {
        let last = end - 1;
        self.step(last - last % self.step_bytes())
    }

    /// How many bytes of each blob are interleaved together.
    const fn step_bytes(&self) -> usize {
        let unit = self.eights() * self.eights_before();
        (PIECE_BYTES / self.eights()).next_multiple_of(unit)
    }

    fn turn_newest(&mut self, step: &Step) {
        let bytes = of_blob(&(step.begin..step.last));
        if let Some(newest) = self.blobs.last_chunk_mut::<LANES>() {
            words::run(Turn(newest.each_mut().map(|blob| &mut blob[bytes.clone()])));
        }
    }

    /// Clears a piece of those of the newest eight that do not use it.
    fn clear_newest(&mut self, piece: usize) {
        for lane in (0..).skip(self.lanes() - LANES).take(LANES) {
            self.clear_unused(piece, lane);
        }
    }
}
