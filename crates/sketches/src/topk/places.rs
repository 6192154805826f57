//! An item's fingerprint and cells.

use crate::hash::{Columns, GROUP, hashes_of_rows, murmur_32, murmur_32_of_seeds};
use crate::machine::words::{self, Task, Use, Words};

use super::shape::Shape;

/// The seed of fingerprints.
const FINGERPRINT_SEED: u32 = 1919;

/// An item's fingerprint, and its cell in each row.
pub struct Places {
    pub fingerprint: u32,
    cells: [u32; GROUP],
    depth: usize,
    /// The cells of a sketch of more than [`GROUP`] rows, which no client can make.
    deep: Vec<u32>,
}

impl Places {
    /// Hashes an item for a sketch of a shape, whose rows have these columns.
    #[inline]
    pub fn of(item: &[u8], shape: &Shape, columns: Columns) -> Self {
        let (fingerprint, hashes) = words::run(Hash {
            item,
            depth: shape.depth() as usize,
        });
        let mut places = Self {
            fingerprint,
            cells: hashes,
            depth: shape.depth() as usize,
            deep: Vec::new(),
        };
        if places.depth > GROUP {
            places.hash_deep(item);
        }
        let mut start = 0;
        for cell in places.cells_mut() {
            *cell = start + narrow(columns.of(*cell));
            start = start.wrapping_add(shape.width());
        }
        places
    }

    /// Computes the hashes of all rows of a deep sketch.
    #[cold]
    fn hash_deep(&mut self, item: &[u8]) {
        self.deep = vec![0; self.depth];
        for (first, hashes) in (0..).step_by(GROUP).zip(self.deep.chunks_mut(GROUP)) {
            let count = hashes.len();
            hashes.copy_from_slice(&words::run(Rows { item, first, count })[..count]);
        }
    }

    #[inline]
    fn cells_mut(&mut self) -> &mut [u32] {
        if self.depth > GROUP {
            &mut self.deep
        } else {
            &mut self.cells[..self.depth]
        }
    }

    /// Returns the index of the item's cell in each row.
    #[inline]
    pub fn cells(&self) -> &[u32] {
        if self.depth > GROUP {
            &self.deep
        } else {
            &self.cells[..self.depth]
        }
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

struct Rows<'i> {
    item: &'i [u8],
    first: u32,
    count: usize,
}

impl Task for Rows<'_> {
    const USE: Use = Use::Hashing;
    type Output = [u32; GROUP];

    #[inline(always)]
    fn run<W: Words>(self) -> Self::Output {
        hashes_of_rows(self.item, self.first, self.count)
    }
}
