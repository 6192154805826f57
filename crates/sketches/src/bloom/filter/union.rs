//! Unions and comparisons of filters of the same size.

use std::hash::Hash;

use crate::machine::work;
use crate::number::{log2, to_double, to_whole};

use super::cells::Cells;
use super::single::{Contents, Filter};
use super::{bits, counters, rate};

/// The bits of certainty that counters are not at least as large as other counters by chance.
const CERTAIN_BITS: f64 = 32.0;

impl Filter {
    /// Returns a key that is equal for filters of the same size, in which an item has the same cells.
    pub(crate) fn merge_key(&self) -> impl Eq + Hash + use<> {
        (
            self.positions(),
            self.hashes(),
            self.cells(),
            self.geometry().cell_bytes,
        )
    }

    /// Returns whether this filter has all bits, or counts, of another filter of the same size.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.can_tell(other) && self.lacking(other).is_none()
    }

    /// Returns whether this filter certainly holds the items of another filter if it has all of its cells. Counters may be
    /// large enough by chance; removals would then take counts from the items that they hold.
    pub(crate) fn can_tell(&self, other: &Self) -> bool {
        if other.cells() != Cells::Counters {
            return true;
        }
        let in_use = other.fill() * to_double(other.positions());
        in_use * -log2(self.fill()) >= CERTAIN_BITS
    }

    /// Returns the offset of the first byte in which another filter of the same size has bits or counts that this filter
    /// lacks.
    pub(crate) fn lacking(&self, other: &Self) -> Option<usize> {
        let (own, others) = (self.bitmap(), other.bitmap());
        let lacking = match self.cells() {
            Cells::Counters => counters::lacking(own, others),
            Cells::Bits | Cells::BareBits => bits::lacking(own, others),
        };
        work::bytes(2 * lacking.map_or(own.len(), |offset| offset + 1));
        lacking
    }

    /// Estimates the number of items in the union with another filter of the same size, from the cells in use in either.
    pub(crate) fn items_of_union(&self, other: &Self) -> u64 {
        let (own, others) = (self.bitmap(), other.bitmap());
        work::bytes(own.len() + others.len());
        let in_use = match self.cells() {
            Cells::Counters => counters::saturated(counters::in_use_in_union(own, others)).into(),
            Cells::Bits | Cells::BareBits => bits::ones_of_union(own, others),
        };
        self.items_of(in_use)
    }

    /// Unites this filter with another filter of the same size. The number of items stays as it is. Returns the number
    /// estimated from the cells in use then.
    pub(crate) fn absorb(&mut self, other: &Self) -> u64 {
        let kind = self.cells();
        work::bytes(2 * other.bitmap().len());
        let in_use = unite(kind, self.bitmap_mut(), other.bitmap());
        self.now_in_use(in_use)
    }

    /// Returns the union with another filter of the same size, made in one pass, and the number of items estimated from
    /// the cells in use in it; `None` if there is no memory for it.
    pub(crate) fn united(&self, other: &Self) -> Option<(Self, u64)> {
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.blob.len()).ok()?;
        blob.extend_from_slice(&self.blob[..self.header_bytes()]);
        let mut in_use = 0;
        work::bytes(3 * other.bitmap().len());
        // Each copied piece is still in the caches when the other filter's is united with it.
        let pieces = self.bitmap().chunks(8192).zip(other.bitmap().chunks(8192));
        for (own, other) in pieces {
            let start = blob.len();
            blob.extend_from_slice(own);
            in_use += unite(self.cells(), &mut blob[start..], other);
        }
        let blob = blob.into_boxed_slice();
        let mut union = Self { blob, ..*self };
        let items = union.now_in_use(in_use);
        Some((union, items))
    }

    /// Records the number of cells in use. Returns the number of items that they stand for.
    fn now_in_use(&mut self, now: u64) -> u64 {
        let now = match &mut self.contents {
            Contents::Counters { in_use, .. } => {
                *in_use = counters::saturated(now);
                (*in_use).into()
            }
            _ => now,
        };
        self.items_of(now)
    }

    /// Returns the number of items that a number of cells in use stands for.
    fn items_of(&self, in_use: u64) -> u64 {
        let positions = to_double(self.positions());
        let fill = (to_double(in_use) / positions).min(1.0);
        let (items, _) = rate::items_of_fill(positions, self.hashes(), fill);
        to_whole(items.round())
    }
}

/// Unites cells with others of the same kind. Returns the number in use then.
fn unite(kind: Cells, cells: &mut [u8], other: &[u8]) -> u64 {
    match kind {
        Cells::Counters => counters::unite(cells, other),
        Cells::Bits | Cells::BareBits => bits::unite(cells, other),
    }
}
