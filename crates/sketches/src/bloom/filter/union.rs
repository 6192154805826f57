//! Unions and comparisons of filters of the same size.

use std::hash::Hash;

use crate::machine::work;
use crate::number::{to_double, to_whole};

use super::single::Filter;
use super::{bits, rate};

impl Filter {
    /// Returns a key that is equal for filters of the same size, in which an item has the same cells.
    pub(crate) fn merge_key(&self) -> impl Ord + Hash + use<> {
        (
            self.positions(),
            self.hashes(),
            self.cells(),
            self.geometry().cell_bytes,
        )
    }

    /// Returns whether this filter has all bits of another filter of the same size.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.lacking(other).is_none()
    }

    /// Returns the offset of the first byte in which another filter of the same size has bits that this filter lacks.
    pub(crate) fn lacking(&self, other: &Self) -> Option<usize> {
        let (own, others) = (self.bitmap(), other.bitmap());
        let lacking = bits::lacking(own, others);
        work::bytes(2 * lacking.map_or(own.len(), |offset| offset + 1));
        lacking
    }

    /// Estimates the number of items in the union with another filter of the same size, from the cells in use in either.
    pub(crate) fn items_of_union(&self, other: &Self) -> u64 {
        let (own, others) = (self.bitmap(), other.bitmap());
        work::bytes(own.len() + others.len());
        self.items_of(bits::ones_of_union(own, others))
    }

    /// Unites this filter with another filter of the same size. The number of items stays as it is. Returns the number
    /// estimated from the cells in use then.
    pub(crate) fn absorb(&mut self, other: &Self) -> u64 {
        work::bytes(2 * other.bitmap().len());
        let in_use = bits::unite(self.bitmap_mut(), other.bitmap());
        self.items_of(in_use)
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
            in_use += bits::unite(&mut blob[start..], other);
        }
        let blob = blob.into_boxed_slice();
        let union = Self { blob, ..*self };
        Some((union, self.items_of(in_use)))
    }

    /// Returns the number of items that a number of cells in use stands for.
    fn items_of(&self, in_use: u64) -> u64 {
        let positions = to_double(self.positions());
        let fill = (to_double(in_use) / positions).min(1.0);
        let (items, _) = rate::items_of_fill(positions, self.hashes(), fill);
        to_whole(items.round())
    }
}
