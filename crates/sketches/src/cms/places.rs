//! Where the counters of items are.

use crate::hash::{Columns, GROUP, hashes_of_deep_rows, hashes_of_rows};
use crate::machine::memory::prefetch;
use crate::machine::words::{self, Task, Use, Words};
use crate::machine::work;

use super::shape::Shape;

/// The most items that are located together.
pub const ITEMS_MAX: usize = 128;

/// The layout of a table of counters: row by row.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    columns: Columns,
    width: usize,
    depth: usize,
    cell_bytes: usize,
}

impl Layout {
    /// Returns the layout of a table that exists, so that its numbers fit `usize`.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a table of this shape is allocated"
    )]
    pub const fn of(shape: &Shape) -> Self {
        Self {
            columns: Columns::new(shape.width()),
            width: shape.width() as usize,
            depth: shape.depth() as usize,
            cell_bytes: shape.cell_size().bytes() as usize,
        }
    }

    /// Returns the number of rows.
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// Passes the indices of one item's counters to `visit`, some rows at a time.
    #[cold]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a column is below 2³², and seeds are cut to 32 bits"
    )]
    pub fn by_rows(&self, item: &[u8], mut visit: impl FnMut(&[usize])) {
        work::steps(self.depth);
        let mut cells = [0; GROUP];
        for first in (0..self.depth).step_by(GROUP) {
            let rows = GROUP.min(self.depth - first);
            work::bytes(item.len());
            let hashes = hashes_of_deep_rows(item, first as u32, rows);
            for ((cell, hash), row) in cells[..rows].iter_mut().zip(hashes).zip(first..) {
                *cell = row * self.width + self.columns.of(hash) as usize;
            }
            visit(&cells[..rows]);
        }
    }
}

/// The indices of the counters of some items, up to `CELLS` in all. Each item has one in each row.
pub struct Places<const CELLS: usize> {
    cells: [usize; CELLS],
    depth: usize,
    count: usize,
}

impl<const CELLS: usize> Places<CELLS> {
    /// Makes room for items in a table of this layout, which has at most `CELLS` rows.
    #[inline]
    pub const fn new(layout: &Layout) -> Self {
        debug_assert!(layout.depth <= CELLS);
        Self {
            cells: [0; CELLS],
            depth: layout.depth,
            count: 0,
        }
    }

    /// Locates the next items, as many as there is room for and up to [`ITEMS_MAX`], and prefetches their counters.
    /// Returns whether there were any.
    #[inline]
    pub fn locate<'i>(
        &mut self,
        layout: &Layout,
        table: &[u8],
        items: &mut impl Iterator<Item = &'i [u8]>,
    ) -> bool {
        self.count = words::run(Locate {
            layout,
            table,
            items,
            cells: &mut self.cells,
        });
        self.count > 0
    }

    /// Returns the counters of each item in order: their indices in the table, first row first.
    #[inline]
    pub fn each(&self) -> impl Iterator<Item = &[usize]> {
        self.cells.chunks_exact(self.depth).take(self.count)
    }
}

/// Locating items. Returns how many there were.
struct Locate<'l, I> {
    layout: &'l Layout,
    table: &'l [u8],
    items: &'l mut I,
    cells: &'l mut [usize],
}

impl<'i, I: Iterator<Item = &'i [u8]>> Task for Locate<'_, I> {
    const USE: Use = Use::Hashing;
    type Output = usize;

    #[inline(always)]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a column is below 2³², and the table is allocated"
    )]
    fn run<W: Words>(self) -> usize {
        let Layout {
            columns,
            width,
            depth,
            cell_bytes,
        } = *self.layout;
        let rooms = self.cells.chunks_exact_mut(depth).take(ITEMS_MAX);
        let mut count = 0;
        for (cells, item) in rooms.zip(self.items) {
            work::steps(depth);
            let mut start = 0;
            for (row, cells) in (0..).step_by(GROUP).zip(cells.chunks_mut(GROUP)) {
                work::bytes(item.len());
                let hashes = hashes_of_rows(item, row, cells.len());
                for (cell, hash) in cells.iter_mut().zip(hashes) {
                    *cell = start + columns.of(hash) as usize;
                    prefetch(self.table, *cell * cell_bytes);
                    start += width;
                }
            }
            count += 1;
        }
        count
    }
}
