//! The rows of a table of counters or cells, and an item's cell in each: its column follows from `MurmurHash2` with the
//! number of the row as its seed.
//!
//! The seed only begins the state. A block of the item is mixed once for many rows, and the rows are hashed side by
//! side. Sketches of `RedisBloom` hold counters at the columns that follow, so neither ever changes.

use crate::machine::words::{self, Task, Use, Words};
use crate::machine::{memory, work};

use super::murmur::murmur_32_of_seeds;

/// The most rows that are hashed together. Their states fit the registers of a processor with 256-bit vectors.
pub const GROUP: usize = 64;

/// The rows of a table in memory.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    columns: Columns,
    width: usize,
    depth: usize,
}

impl Rows {
    /// Creates `depth` rows of `width` cells, whose columns are given.
    pub const fn new(columns: Columns, width: u64, depth: u64) -> Self {
        Self {
            columns,
            width: memory::index(width),
            depth: memory::index(depth),
        }
    }

    /// Returns the number of rows.
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// Finds the cells of the next items, as many items as there are arrays, and returns the number of items. Each gets
    /// the indices of its cells in the rows from `first` on, at most [`GROUP`], followed by unspecified values.
    #[inline]
    pub fn locate<'i>(
        &self,
        first: usize,
        items: &mut impl Iterator<Item = &'i [u8]>,
        cells: &mut [[usize; GROUP]],
    ) -> usize {
        words::run(Locate {
            rows: self,
            first,
            items,
            cells,
        })
    }

    /// Finds an item's cells in the rows from `first` on, at most `MOST`.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "seeds have 32 bits")]
    fn locate_one<const MOST: usize>(&self, item: &[u8], first: usize, cells: &mut [usize]) {
        let count = MOST.min(self.depth - first);
        work::steps(count);
        work::bytes(item.len());
        let mut seeds = [first as u32; MOST];
        for (seed, row) in seeds.iter_mut().zip(0..) {
            *seed = seed.wrapping_add(row);
        }
        let mut start = first * self.width;
        let hashes = murmur_32_of_seeds(item, seeds);
        for (cell, hash) in cells[..count].iter_mut().zip(hashes) {
            *cell = start + memory::index(self.columns.of(hash));
            start += self.width;
        }
    }

    /// Passes the indices of an item's cells in the rows from `first` on to `visit`, in groups.
    #[cold]
    pub fn each_group(&self, item: &[u8], first: usize, mut visit: impl FnMut(&[usize])) {
        let mut cells = [[0; GROUP]];
        for first in (first..self.depth).step_by(GROUP) {
            self.locate(first, &mut std::iter::once(item), &mut cells);
            visit(&cells[0][..GROUP.min(self.depth - first)]);
        }
    }
}

struct Locate<'l, I> {
    rows: &'l Rows,
    first: usize,
    items: &'l mut I,
    cells: &'l mut [[usize; GROUP]],
}

impl<'i, I: Iterator<Item = &'i [u8]>> Task for Locate<'_, I> {
    const USE: Use = Use::Hashing;
    type Output = usize;

    #[inline(always)]
    fn run<W: Words>(self) -> usize {
        let Self { rows, first, .. } = self;
        let mut count = 0;
        for (cells, item) in self.cells.iter_mut().zip(self.items) {
            match rows.depth - first {
                0..=8 => rows.locate_one::<8>(item, first, cells),
                9..=16 => rows.locate_one::<16>(item, first, cells),
                17..=32 => rows.locate_one::<32>(item, first, cells),
                _ => rows.locate_one::<GROUP>(item, first, cells),
            }
            count += 1;
        }
        count
    }
}

/// The columns of a row: hash → hash modulo width, without a division.
///
/// `hash · ⌈2⁶⁴/width⌉ mod 2⁶⁴` is the fraction of the quotient, and its product with the width is the remainder:
/// exact for hashes of 32 bits and widths up to 2³² (Lemire, Kaser and Kurz 2019).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The width, or 2³² if that is less: hashes are below it.
    width: u64,
    reciprocal: u64,
}

impl Columns {
    /// Creates the columns of a row with `width` counters, at least 1.
    pub const fn new(width: u64) -> Self {
        let width = if width < 1 << 32 { width } else { 1 << 32 };
        Self {
            width,
            // For a width of 1 it wraps to 0, and so every remainder is 0.
            reciprocal: (u64::MAX / width).wrapping_add(1),
        }
    }

    /// Returns the column of a hash: less than the width, and less than 2³².
    #[inline]
    pub fn of(self, hash: u32) -> u64 {
        let fraction = self.reciprocal.wrapping_mul(hash.into());
        ((u128::from(fraction) * u128::from(self.width)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_remainders() {
        let near = |number: u64| number.saturating_sub(2).max(1)..=number.saturating_add(2);
        let widths = (0..64).flat_map(|bits| near(1 << bits)).chain(1..2000);
        for width in widths.chain(near(u64::from(u32::MAX) / 3)) {
            let columns = Columns::new(width);
            // Remainders are hardest next to multiples of the width.
            let most = u64::from(u32::MAX);
            let multiples = [0, 1, 2, 3, most / width / 2, most / width];
            let near = multiples.map(|times| near(times.saturating_mul(width)));
            let hashes = near.into_iter().flatten();
            let hashes = hashes.chain([0, most / 2, most - 1, most]);
            for hash in hashes.filter_map(|hash| u32::try_from(hash).ok()) {
                let expected = u64::from(hash) % width;
                assert_eq!(columns.of(hash), expected, "{hash} % {width}");
            }
        }
    }
}
