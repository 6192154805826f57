//! An item's fingerprint and cells.

use crate::hash::{
    Columns, GROUP, hashes_of_deep_rows, hashes_of_rows, murmur_32, murmur_32_of_seeds,
};
use crate::machine::words::{self, Task, Use, Words};

use super::shape::Shape;

/// The seed of fingerprints.
const FINGERPRINT_SEED: u32 = 1919;

/// An item's fingerprint, and its cell in each row.
pub struct Places<'i> {
    pub fingerprint: u32,
    /// The cells in the first rows. In a sketch of more rows, which no client can make, [`Self::each`] finds the others.
    cells: [u32; GROUP],
    item: &'i [u8],
    depth: u32,
    width: u32,
    columns: Columns,
}

impl<'i> Places<'i> {
    /// Hashes an item for a sketch of a shape, whose rows have these columns.
    #[inline]
    pub fn of(item: &'i [u8], shape: &Shape, columns: Columns) -> Self {
        let (depth, width) = (shape.depth(), shape.width());
        let (fingerprint, mut cells) = words::run(Hash {
            item,
            depth: depth as usize,
        });
        to_cells(&mut cells[..GROUP.min(depth as usize)], 0, width, columns);
        Self {
            fingerprint,
            cells,
            item,
            depth,
            width,
            columns,
        }
    }

    /// Passes the index of the item's cell in each row to `visit`, in order.
    #[inline]
    pub fn each(&self, mut visit: impl FnMut(u32)) {
        let rows = GROUP.min(self.depth as usize);
        self.cells[..rows].iter().copied().for_each(&mut visit);
        if self.depth as usize > GROUP {
            self.each_deep(visit);
        }
    }

    #[cold]
    fn each_deep(&self, mut visit: impl FnMut(u32)) {
        for first in (0..self.depth).step_by(GROUP).skip(1) {
            let rows = GROUP.min((self.depth - first) as usize);
            let mut cells = hashes_of_deep_rows(self.item, first, rows);
            to_cells(&mut cells[..rows], first, self.width, self.columns);
            cells[..rows].iter().copied().for_each(&mut visit);
        }
    }
}

/// Replaces the hashes of rows from `first` on by the indices of their cells, which are below 2³².
#[inline(always)]
fn to_cells(hashes: &mut [u32], first: u32, width: u32, columns: Columns) {
    let mut start = first.wrapping_mul(width);
    for hash in hashes {
        *hash = start + narrow(columns.of(*hash));
        start = start.wrapping_add(width);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "columns are below 2³²")]
const fn narrow(column: u64) -> u32 {
    column as u32
}

/// Returns the fingerprint of an item.
pub fn fingerprint(item: &[u8]) -> u32 {
    murmur_32(item, FINGERPRINT_SEED)
}

struct Hash<'i> {
    item: &'i [u8],
    depth: usize,
}

impl Task for Hash<'_> {
    const USE: Use = Use::Hashing;
    /// The fingerprint, and the hash for each row.
    type Output = (u32, [u32; GROUP]);

    #[inline(always)]
    fn run<W: Words>(self) -> Self::Output {
        if self.depth < 8 {
            // The fingerprint fits the same vector.
            let seeds = [0, 1, 2, 3, 4, 5, 6, FINGERPRINT_SEED];
            let hashes = murmur_32_of_seeds(self.item, seeds);
            let mut rows = [0; GROUP];
            rows[..8].copy_from_slice(&hashes);
            (hashes[7], rows)
        } else {
            let rows = hashes_of_rows(self.item, 0, self.depth.min(GROUP));
            (fingerprint(self.item), rows)
        }
    }
}
