//! Filters of one size, laid over each other.

use std::hash::Hash;

use crate::bloom::number::{log2, to_double, to_whole};

use super::cells::Cells;
use super::single::{Filter, Layout};
use super::{bits, counters, rate};

/// How improbable it must be, as a power of two, that counters are no smaller than others by chance.
const CERTAIN_BITS: f64 = 32.0;

impl Filter {
    /// What is alike in filters of one size, in which an item has the same cells.
    pub(crate) fn merge_key(&self) -> impl Eq + Hash + use<> {
        (
            self.positions(),
            self.hashes(),
            self.cells(),
            self.geometry().cell_bytes,
        )
    }

    /// Whether another filter of this size has nothing that this one lacks: no bit, and no count. Counters that
    /// are no smaller only by chance don't tell: removals would then take counts from what they hold.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        let (own, others) = (self.bitmap(), other.bitmap());
        if other.cells() != Cells::Counters {
            return bits::hold(own, others);
        }
        let in_use = other.fill() * to_double(other.positions());
        let certain = in_use * -log2(self.fill()) >= CERTAIN_BITS;
        certain && counters::hold(own, others)
    }

    /// How many items it would have with those of another filter of this size laid over its own, by the bits
    /// that would be set.
    pub(crate) fn items_of_union(&self, other: &Self) -> u64 {
        let (own, others) = (self.bitmap(), other.bitmap());
        let in_use = match self.cells() {
            Cells::Counters => counters::saturated(counters::in_use_in_union(own, others)).into(),
            Cells::Bits | Cells::BareBits => bits::ones_of_union(own, others),
        };
        self.items_of(in_use)
    }

    /// Lays another filter of this size over this one. Its number of items stays as it is. Returns how many
    /// it would have, by the cells that are in use now.
    pub(crate) fn absorb(&mut self, other: &Self) -> u64 {
        let kind = self.cells();
        let in_use = unite(kind, self.bitmap_mut(), other.bitmap());
        self.now_in_use(in_use)
    }

    /// A copy with another filter of this size laid over it, made in one pass, and what
    /// [`absorb`](Self::absorb) returns; `None` if there is no memory for it.
    pub(crate) fn united(&self, other: &Self) -> Option<(Self, u64)> {
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.blob.len()).ok()?;
        blob.extend_from_slice(&self.blob[..self.header_bytes()]);
        let mut in_use = 0;
        // What was copied is still near when the other is laid over it.
        let pieces = self.bitmap().chunks(8192).zip(other.bitmap().chunks(8192));
        for (own, other) in pieces {
            let begin = blob.len();
            blob.extend_from_slice(own);
            in_use += unite(self.cells(), &mut blob[begin..], other);
        }
        let blob = blob.into_boxed_slice();
        let mut union = Self { blob, ..*self };
        let items = union.now_in_use(in_use);
        Some((union, items))
    }

    /// Records how many cells are in use. Returns the number of items that they stand for.
    fn now_in_use(&mut self, now: u64) -> u64 {
        let now = match &mut self.layout {
            Layout::Counters { in_use, .. } => {
                *in_use = counters::saturated(now);
                (*in_use).into()
            }
            _ => now,
        };
        self.items_of(now)
    }

    /// How many items it would have with so many cells in use.
    fn items_of(&self, in_use: u64) -> u64 {
        let positions = to_double(self.positions());
        let fill = (to_double(in_use) / positions).min(1.0);
        let (items, _) = rate::items_of_fill(positions, self.hashes(), fill);
        to_whole(items.round())
    }
}

/// Lays cells over others of this kind. Returns how many are in use then.
fn unite(kind: Cells, cells: &mut [u8], other: &[u8]) -> u64 {
    match kind {
        Cells::Counters => counters::unite(cells, other),
        Cells::Bits | Cells::BareBits => bits::unite(cells, other),
    }
}
