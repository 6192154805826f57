//! Whether two sketches may have taken the same items with other chance.

use crate::number;

use super::item::fingerprint;
use super::object::TopK;
use super::pairs::{self, PAIR_BYTES};

/// The most listed items that are expected to share all of their cells, where chance is taken to decide on no count.
const FEW: f64 = 1e-3;

/// The least rows whose counts show what chance does.
const ROWS: u32 = 3;

impl TopK {
    /// Returns whether two sketches may have taken the same items, and differ only by chance.
    ///
    /// They have to have the same shape, and the same cells without an owner, because the first item always gets such a
    /// cell. An item with a cell to itself has its true count in both. Where rows are so full that listed items may have
    /// no such cell, counts may differ by what a cell can lose, and lists by the items that are within that of their end.
    /// Then one or two rows show too little, and their counts are not compared.
    pub fn agrees_with(&self, other: &Self) -> bool {
        if self.shape() != other.shape() || !self.uses_cells_of(other) {
            return false;
        }
        // Without chance the sketches would be equal.
        if self.shape().decay() >= 1.0 {
            return false;
        }
        match self.loss().zip(other.loss()) {
            None => self.lists_all_of(other, None) && other.lists_all_of(self, None),
            Some(_) if self.shape().depth() < ROWS => true,
            Some((own, others)) => {
                let loss = Some(own.max(others));
                self.lists_all_of(other, loss) && other.lists_all_of(self, loss)
            }
        }
    }

    fn uses_cells_of(&self, other: &Self) -> bool {
        let is_used = |list: &Self, at| pairs::get(list.cells(), at).1 > 0;
        let mut cells = 0..pairs::count(self.cells());
        cells.all(|at| is_used(self, at) == is_used(other, at))
    }

    /// Returns the count that is safe from as many contests as a row has had, as far as its counts show; `None` if listed
    /// items have a cell to themselves.
    fn loss(&self) -> Option<f64> {
        let shape = self.shape();
        let (mut sharing, mut most) = (f64::from(shape.k()), 1.0_f64);
        let row_bytes = shape.width() as usize * PAIR_BYTES;
        for row in self.cells().chunks_exact(row_bytes) {
            let counts = (0..pairs::count(row)).map(|at| pairs::get(row, at).1);
            let (used, sum) = counts.fold((0.0, 0.0), |(used, sum), count| {
                (used + f64::from(count.min(1)), sum + f64::from(count))
            });
            sharing *= used / f64::from(shape.width());
            most = most.max(sum);
        }
        (sharing > FEW).then(|| number::ln(most) / -number::ln(shape.decay()))
    }

    /// Returns whether another list has the items of this one, with the same counts or, given a loss, with close ones.
    fn lists_all_of(&self, other: &Self, loss: Option<f64>) -> bool {
        let mut entries = self.entries();
        entries.all(|(count, listed)| {
            // An item that an old file has cut is found in no list.
            let Some((_, item)) = listed.filter(|(_, item)| self.contains(item)) else {
                return true;
            };
            let (_, spread) = self.cells_of(item);
            let (most_there, spread_there) = other.cells_of(item);
            let allowed = loss.map_or(0.0, |loss| loss.max(spread.into()).max(spread_there.into()));
            // At the end of a list, an item may not have got in.
            let gap = match other.list.find(item, fingerprint(item)) {
                Some(slot) => count.abs_diff(other.list.count(slot)),
                None => count.saturating_sub(most_there.max(other.list.floor())),
            };
            f64::from(gap) <= allowed
        })
    }

    /// Returns the largest count of an item's own cells, and how much less the smallest is: all of it, if another item
    /// owns one of the cells.
    fn cells_of(&self, item: &[u8]) -> (u32, u32) {
        let (mut least, mut most) = (u32::MAX, 0);
        self.each_own_count(item, |count| {
            least = least.min(count);
            most = most.max(count);
        });
        (most, most.saturating_sub(least))
    }
}
