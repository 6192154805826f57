//! A count-min sketch: its counters, increments and estimates.

use std::iter;

use crate::error::Refusal;
use crate::hash::{Columns, GROUP, Rows};
use crate::machine::memory::{self, Relocate};

use super::cells::{for_cell_size, get, set};
use super::shape::{CellSize, Shape};

/// The items whose counters are found together, and so fetched together.
const BATCH: usize = 16;

/// What becomes of an increment or a merge that counters of four bytes can't take. Counters of other sizes refuse it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It changes nothing, as in `RedisBloom` from 8.12 on.
    #[default]
    Refuse,
    /// Counters grow as far as they go, and the total by all of it, as in `RedisBloom` before 8.12.
    Saturate,
}

/// The reason that an item was not counted. Nothing has changed, unless the variant says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// A counter or the total would exceed its largest value.
    Overflow,
    /// A counter or the total would fall below 0.
    Underflow,
    /// All counters of the item have their largest value, so its number is unknown. With [`Overflow::Saturate`], they
    /// were increased as far as possible, and the total was increased.
    Saturated,
}

crate::error::texts!(NotCounted {
    Self::Overflow => "a counter would overflow",
    Self::Underflow => "a counter would fall below 0",
    Self::Saturated => "the counters are saturated",
});

/// A count-min sketch.
#[derive(Debug)]
pub struct CountMin {
    shape: Shape,
    rows: Rows,
    /// The size of a counter.
    cell_bytes: usize,
    /// The sum of all increments. It wraps if counters saturate.
    count: u64,
    /// The counters row by row, in their stored form.
    table: Box<[u8]>,
}

impl CountMin {
    /// Size of a sketch without its counters, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(88) as u64;

    /// Creates an empty sketch of at most `max_bytes` bytes, [`BASE_BYTES`](Self::BASE_BYTES) included.
    ///
    /// # Errors
    /// The [`Refusal`] of the limit or of the allocator.
    pub fn new(shape: Shape, max_bytes: u64) -> Result<Self, Refusal> {
        let bytes = shape.bytes().ok_or(Refusal::OutOfMemory)?;
        if bytes.saturating_add(Self::BASE_BYTES) > max_bytes {
            return Err(Refusal::MemoryLimit);
        }
        let bytes = usize::try_from(bytes).map_err(|_| Refusal::OutOfMemory)?;
        let table = memory::zeroed(bytes).ok_or(Refusal::OutOfMemory)?;
        Ok(Self::with_table(shape, 0, table))
    }

    /// Creates a sketch of these counters.
    ///
    /// # Errors
    /// The reason that they are invalid, in words for a log.
    pub fn from_parts(shape: Shape, count: u64, table: Box<[u8]>) -> Result<Self, &'static str> {
        if shape.bytes() != Some(table.len() as u64) {
            return Err("counters of another size");
        }
        // Counters of four bytes may have saturated elsewhere.
        if count > MOST && shape.cell_size() != CellSize::Four {
            return Err("count out of range");
        }
        let valid = |cell: &[u8; 8]| u64::from_le_bytes(*cell) <= MOST;
        if shape.cell_size() == CellSize::Eight && !table.as_chunks().0.iter().all(valid) {
            return Err("counter out of range");
        }
        Ok(Self::with_table(shape, count, table))
    }

    /// Creates a sketch of valid counters.
    pub(super) fn with_table(shape: Shape, count: u64, table: Box<[u8]>) -> Self {
        debug_assert_eq!(shape.bytes(), Some(table.len() as u64));
        Self {
            shape,
            rows: Rows::new(Columns::new(shape.width()), shape.width(), shape.depth()),
            cell_bytes: shape.cell_size() as usize,
            count,
            table,
        }
    }

    /// Returns the shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the sum of all increments. It is below 2⁶³, unless counters saturate: then it wraps at 2⁶⁴.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the counters row by row, little endian.
    pub const fn table(&self) -> &[u8] {
        &self.table
    }

    /// Returns the exact sum of the sketch's allocations in bytes, including itself.
    pub const fn memory_bytes(&self) -> u64 {
        Self::BASE_BYTES + self.table.len() as u64
    }

    /// Returns how often an item was counted, or somewhat more: the least of its counters.
    #[inline]
    pub fn estimate(&self, item: &[u8]) -> u64 {
        let mut estimate = u64::MAX;
        if self.rows.depth() > GROUP {
            let least_of_group = |cells: &[usize]| estimate = estimate.min(self.least(cells));
            self.rows.each_group(item, 0, least_of_group);
        } else {
            let report = &mut |least| estimate = least;
            self.estimate_next(&mut iter::once(item), &mut [[0; GROUP]], report);
        }
        estimate
    }

    /// Passes the [`estimate`](Self::estimate) of each item to `report`.
    #[inline]
    pub fn estimate_each<'i>(
        &self,
        mut items: impl Iterator<Item = &'i [u8]>,
        mut report: impl FnMut(u64),
    ) {
        if self.rows.depth() > GROUP {
            return items.for_each(|item| report(self.estimate(item)));
        }
        let mut cells = [[0; GROUP]; BATCH];
        while self.estimate_next(&mut items, &mut cells, &mut report) == BATCH {}
    }

    /// Reports the estimates of the next items, one for each array of `cells`. Returns how many there were.
    #[inline]
    fn estimate_next<'i>(
        &self,
        items: &mut impl Iterator<Item = &'i [u8]>,
        cells: &mut [[usize; GROUP]],
        report: &mut impl FnMut(u64),
    ) -> usize {
        let count = self.locate(items, cells);
        for cells in &cells[..count] {
            report(self.least(&cells[..self.rows.depth()]));
        }
        count
    }

    /// Finds the counters of the next items, one for each array of `cells`, and prefetches them. Returns how many there
    /// were.
    #[inline]
    fn locate<'i>(
        &self,
        items: &mut impl Iterator<Item = &'i [u8]>,
        cells: &mut [[usize; GROUP]],
    ) -> usize {
        let count = self.rows.locate(0, items, cells);
        for cells in &cells[..count] {
            for cell in &cells[..self.rows.depth()] {
                memory::prefetch(&self.table, cell * self.cell_bytes);
            }
        }
        count
    }

    /// Returns the least of some counters.
    #[inline]
    fn least(&self, cells: &[usize]) -> u64 {
        for_cell_size!(self.shape.cell_size(), least_and_most(&self.table, cells))[0]
    }

    /// Adds a number to an item, and returns the item's new estimate. The number may be negative.
    ///
    /// # Errors
    /// [`NotCounted`]
    #[inline]
    pub fn increment(
        &mut self,
        item: &[u8],
        by: i64,
        overflow: Overflow,
    ) -> Result<u64, NotCounted> {
        if self.rows.depth() > GROUP {
            return self.increment_deep(item, by, overflow);
        }
        let mut outcome = Ok(0);
        let report = &mut |counted| outcome = counted;
        let pair = &mut iter::once((item, by));
        self.increment_next(pair, overflow, &mut [[0; GROUP]], &mut [0], report);
        outcome
    }

    /// Adds to items in order, and passes the result of [`increment`](Self::increment) for each to `report`.
    #[inline]
    pub fn increment_each<'i>(
        &mut self,
        mut pairs: impl Iterator<Item = (&'i [u8], i64)>,
        overflow: Overflow,
        mut report: impl FnMut(Result<u64, NotCounted>),
    ) {
        if self.rows.depth() > GROUP {
            return pairs.for_each(|(item, by)| report(self.increment_deep(item, by, overflow)));
        }
        let (mut cells, mut numbers) = ([[0; GROUP]; BATCH], [0; BATCH]);
        let mut next =
            || self.increment_next(&mut pairs, overflow, &mut cells, &mut numbers, &mut report);
        while next() == BATCH {}
    }

    /// Adds to the next items, one for each array of `cells`, and notes their increments. Returns how many there were.
    #[inline]
    fn increment_next<'i>(
        &mut self,
        pairs: &mut impl Iterator<Item = (&'i [u8], i64)>,
        overflow: Overflow,
        cells: &mut [[usize; GROUP]],
        increments: &mut [i64],
        report: &mut impl FnMut(Result<u64, NotCounted>),
    ) -> usize {
        let mut next = 0;
        let mut items = pairs.map(|(item, by)| {
            increments[next] = by;
            next += 1;
            item
        });
        let count = self.locate(&mut items, cells);
        let size = self.shape.cell_size();
        for (cells, by) in cells[..count].iter().zip(increments) {
            let cells = &cells[..self.rows.depth()];
            let (table, count) = (&mut self.table, &mut self.count);
            report(for_cell_size!(
                size,
                add(table, count, cells, *by, overflow)
            ));
        }
        count
    }

    /// Adds to an item's smallest and largest counter alone, which decide for all of them, and then to all.
    #[cold]
    fn increment_deep(
        &mut self,
        item: &[u8],
        by: i64,
        overflow: Overflow,
    ) -> Result<u64, NotCounted> {
        let size = self.shape.cell_size();
        let mut bounds = [u64::MAX, 0];
        self.rows.each_group(item, 0, |cells| {
            let [least, most] = for_cell_size!(size, least_and_most(&self.table, cells));
            bounds = [bounds[0].min(least), bounds[1].max(most)];
        });
        let mut count = self.count;
        let outcome = for_cell_size!(size, add_to_two(bounds, &mut count, by, overflow));
        if outcome.is_ok() || outcome == Err(NotCounted::Saturated) {
            self.rows.each_group(item, 0, |cells| {
                let mut before = self.count;
                let _ =
                    for_cell_size!(size, add(&mut self.table, &mut before, cells, by, overflow));
            });
            self.count = count;
        }
        outcome
    }

    /// Copies the sketch, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            table: memory::copied(&self.table)?,
            ..*self
        })
    }

    /// Moves the counters to other memory, in one step.
    pub fn relocate(&mut self, by: &mut impl Relocate) {
        self.table = by.blob(std::mem::take(&mut self.table));
    }
}

/// The largest count and the largest counter, because replies are signed.
pub(super) const MOST: u64 = CellSize::Eight.max();

/// Returns the least and the largest of some counters.
#[inline]
fn least_and_most<const BYTES: usize>(table: &[u8], cells: &[usize]) -> [u64; 2] {
    let counters = cells.iter().map(|cell| get::<BYTES>(table, *cell));
    counters.fold([u64::MAX, 0], |[least, most], counter| {
        [least.min(counter), most.max(counter)]
    })
}

/// Returns what adding to these two counters gives.
fn add_to_two<const BYTES: usize>(
    counters: [u64; 2],
    count: &mut u64,
    by: i64,
    overflow: Overflow,
) -> Result<u64, NotCounted> {
    let mut table = [0; 16];
    for (cell, counter) in counters.into_iter().enumerate() {
        set::<BYTES>(&mut table, cell, counter);
    }
    add::<BYTES>(&mut table, count, &[0, 1], by, overflow)
}

/// Adds to the counters of one item and to the count, and returns the least of the counters. Either all of them change
/// or none, unless counters of four bytes saturate.
#[inline]
fn add<const BYTES: usize>(
    table: &mut [u8],
    count: &mut u64,
    cells: &[usize],
    by: i64,
    overflow: Overflow,
) -> Result<u64, NotCounted> {
    let max = u64::MAX >> (64 - 8 * BYTES) & MOST;
    let saturates = BYTES == 4 && overflow == Overflow::Saturate;
    if by < 0 {
        let [least, _] = least_and_most::<BYTES>(table, cells);
        if by.unsigned_abs() > least.min(*count) {
            return Err(NotCounted::Underflow);
        }
    } else if !saturates && by.cast_unsigned() > MOST.saturating_sub(*count) {
        return Err(NotCounted::Overflow);
    }
    if saturates {
        let [least, _] = change::<BYTES>(table, cells, by, |sum| sum.min(max));
        *count = count.wrapping_add_signed(by);
        let is_known = by < 0 || least < max;
        return is_known.then_some(least).ok_or(NotCounted::Saturated);
    }
    let [least, bits] = change::<BYTES>(table, cells, by, |sum| sum);
    if bits > max {
        // This is rare, so a counter wraps before it is checked, and back again.
        change::<BYTES>(table, cells, -by, |sum| sum);
        return Err(NotCounted::Overflow);
    }
    *count = count.wrapping_add_signed(by);
    Ok(least)
}

/// Adds to counters; each becomes what `keep` makes of the sum. Returns the least of them, and the bits that any sum
/// has.
#[inline]
fn change<const BYTES: usize>(
    table: &mut [u8],
    cells: &[usize],
    by: i64,
    keep: impl Fn(u64) -> u64,
) -> [u64; 2] {
    let (mut least, mut bits) = (u64::MAX, 0);
    for cell in cells {
        let sum = get::<BYTES>(table, *cell).wrapping_add_signed(by);
        let counter = keep(sum);
        set::<BYTES>(table, *cell, counter);
        least = least.min(counter);
        bits |= sum;
    }
    [least, bits]
}
