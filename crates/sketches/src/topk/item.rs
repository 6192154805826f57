//! An item's fingerprint and cells.

use crate::hash::{GROUP, Rows, murmur_32};

/// An item's fingerprint, and its cell in each row.
pub struct Cells<'i> {
    pub fingerprint: u32,
    /// The cells in the first rows. In a sketch of more rows, which no client can make, [`Self::each`] finds the others.
    first: &'i [usize],
    item: &'i [u8],
    rows: Rows,
}

impl<'i> Cells<'i> {
    /// Hashes an item for a sketch of these rows. `room` takes the first cells.
    #[inline]
    pub fn of(item: &'i [u8], rows: Rows, room: &'i mut [[usize; GROUP]; 1]) -> Self {
        rows.locate(0, &mut std::iter::once(item), room);
        Self {
            fingerprint: fingerprint(item),
            first: &room[0][..GROUP.min(rows.depth())],
            item,
            rows,
        }
    }

    /// Passes the index of the item's cell in each row to `visit`, in order.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(usize)) {
        self.first.iter().copied().for_each(&mut visit);
        if self.rows.depth() > GROUP {
            let visit_all = |cells: &[usize]| cells.iter().copied().for_each(&mut visit);
            self.rows.each_group(self.item, GROUP, visit_all);
        }
    }
}

/// Returns the fingerprint of an item.
pub fn fingerprint(item: &[u8]) -> u32 {
    murmur_32(item, 1919)
}
