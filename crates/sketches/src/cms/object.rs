//! A count-min sketch: its counters, increments and estimates.

use crate::machine::memory::{self, Relocate};

use super::cells::{for_cell_size, get, set};
use super::places::{ITEMS_MAX, Layout, Places};
use super::shape::{CellSize, Refusal, Shape};

/// Rows of the sketches whose single items are located in a small buffer.
const SHALLOW: usize = 64;

/// Room for the counters of many items. In sketches of more rows, which no client can make, some rows are looked at in
/// turn.
const BATCH: usize = 1024;

/// The reason that an item was not counted. Nothing has changed, unless the variant says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// A counter or the total would exceed its largest value.
    Overflow,
    /// A counter or the total would fall below 0.
    Underflow,
    /// All counters of the item have their largest value, so its number is unknown. Only counters of four bytes
    /// saturate. They were increased as far as possible, and the total was increased.
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
    layout: Layout,
    /// The sum of all increments. With counters of four bytes it wraps.
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
        if count > count_max(shape.cell_size()) {
            return Err("count out of range");
        }
        let max = CellSize::Eight.max();
        let valid = |cell: &[u8; 8]| u64::from_le_bytes(*cell) <= max;
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
            layout: Layout::of(&shape),
            count,
            table,
        }
    }

    /// Returns the shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the sum of all increments. With counters of four bytes it wraps at 2⁶⁴; else it is below 2⁶³.
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
        let mut estimate = 0;
        let item = &mut std::iter::once(item);
        let report = &mut |least| estimate = least;
        if self.layout.depth() <= SHALLOW {
            let mut places = Places::<SHALLOW>::new(&self.layout);
            self.estimate_next(&mut places, item, report);
        } else {
            self.estimate_each(item, report);
        }
        estimate
    }

    /// Passes the [`estimate`](Self::estimate) of each item to `report`.
    #[inline]
    pub fn estimate_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        mut report: impl FnMut(u64),
    ) {
        let mut items = items.fuse();
        if self.layout.depth() > BATCH {
            items.for_each(|item| report(self.estimate_deep(item)));
            return;
        }
        let mut places = Places::<BATCH>::new(&self.layout);
        while self.estimate_next(&mut places, &mut items, &mut report) {}
    }

    #[cold]
    fn estimate_deep(&self, item: &[u8]) -> u64 {
        let mut estimate = u64::MAX;
        self.layout.by_rows(item, |cells| {
            let least = for_cell_size!(self.shape.cell_size(), least(&self.table, cells));
            estimate = estimate.min(least);
        });
        estimate
    }

    /// Reports the estimates of the next items. Returns whether there were any.
    #[inline]
    fn estimate_next<'i, const CELLS: usize>(
        &self,
        places: &mut Places<CELLS>,
        items: &mut impl Iterator<Item = &'i [u8]>,
        report: &mut impl FnMut(u64),
    ) -> bool {
        let found = places.locate(&self.layout, &self.table, items);
        for_cell_size!(
            self.shape.cell_size(),
            report_least(&self.table, places.each(), report)
        );
        found
    }

    /// Adds a number to an item, and returns the item's new estimate. The number may be negative.
    ///
    /// # Errors
    /// [`NotCounted`]
    #[inline]
    pub fn increment(&mut self, item: &[u8], by: i64) -> Result<u64, NotCounted> {
        let mut outcome = Ok(0);
        let pair = &mut std::iter::once((item, by));
        let report = &mut |counted| outcome = counted;
        if self.layout.depth() <= SHALLOW {
            let mut places = Places::<SHALLOW>::new(&self.layout);
            self.increment_next(&mut places, pair, &mut [0], report);
        } else {
            self.increment_each(pair, report);
        }
        outcome
    }

    /// Adds to items in order, and passes the result of [`increment`](Self::increment) for each to `report`.
    #[inline]
    pub fn increment_each<'i>(
        &mut self,
        pairs: impl Iterator<Item = (&'i [u8], i64)>,
        mut report: impl FnMut(Result<u64, NotCounted>),
    ) {
        let mut pairs = pairs.fuse();
        if self.layout.depth() > BATCH {
            pairs.for_each(|(item, by)| report(self.increment_deep(item, by)));
            return;
        }
        let mut increments = [0; ITEMS_MAX];
        let mut places = Places::<BATCH>::new(&self.layout);
        while self.increment_next(&mut places, &mut pairs, &mut increments, &mut report) {}
    }

    /// Adds to an item's smallest and largest counter alone, which decide for all of them, and then to all.
    #[cold]
    fn increment_deep(&mut self, item: &[u8], by: i64) -> Result<u64, NotCounted> {
        let size = self.shape.cell_size();
        let mut bounds = [u64::MAX, 0];
        self.layout.by_rows(item, |cells| {
            let [least, most] = for_cell_size!(size, least_and_most(&self.table, cells));
            bounds = [bounds[0].min(least), bounds[1].max(most)];
        });
        let mut count = self.count;
        let outcome = for_cell_size!(size, add_to_two(bounds, &mut count, by));
        if outcome.is_ok() || outcome == Err(NotCounted::Saturated) {
            self.layout.by_rows(item, |cells| {
                let mut before = self.count;
                let _ = for_cell_size!(size, add(&mut self.table, &mut before, cells, by));
            });
            self.count = count;
        }
        outcome
    }

    /// Adds to the next items, and notes their increments. Returns whether there were any.
    #[inline]
    fn increment_next<'i, const CELLS: usize>(
        &mut self,
        places: &mut Places<CELLS>,
        pairs: &mut impl Iterator<Item = (&'i [u8], i64)>,
        increments: &mut [i64],
        report: &mut impl FnMut(Result<u64, NotCounted>),
    ) -> bool {
        let mut count = 0;
        let mut items = pairs.map(|(item, by)| {
            increments[count] = by;
            count += 1;
            item
        });
        let found = places.locate(&self.layout, &self.table, &mut items);
        for (cells, by) in places.each().zip(increments) {
            report(for_cell_size!(
                self.shape.cell_size(),
                add(&mut self.table, &mut self.count, cells, *by)
            ));
        }
        found
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

/// Returns the largest count of a sketch. With counters of four bytes, the count wraps.
const fn count_max(size: CellSize) -> u64 {
    match size {
        CellSize::Four => u64::MAX,
        _ => i64::MAX as u64,
    }
}

/// Returns the least of one item's counters.
#[inline(always)]
fn least<const BYTES: usize>(table: &[u8], cells: &[usize]) -> u64 {
    let counters = cells.iter().map(|cell| get::<BYTES>(table, *cell));
    counters.fold(u64::MAX, u64::min)
}

/// Returns the least and the largest of some counters.
fn least_and_most<const BYTES: usize>(table: &[u8], cells: &[usize]) -> [u64; 2] {
    let counters = cells.iter().map(|cell| get::<BYTES>(table, *cell));
    [least::<BYTES>(table, cells), counters.max().unwrap_or(0)]
}

/// Returns what adding to these two counters gives.
fn add_to_two<const BYTES: usize>(
    counters: [u64; 2],
    count: &mut u64,
    by: i64,
) -> Result<u64, NotCounted> {
    let mut table = [0; 16];
    for (cell, counter) in counters.into_iter().enumerate() {
        set::<BYTES>(&mut table, cell, counter);
    }
    add::<BYTES>(&mut table, count, &[0, 1], by)
}

/// Reports the least counter of each item.
#[inline(always)]
fn report_least<'p, const BYTES: usize>(
    table: &[u8],
    places: impl Iterator<Item = &'p [usize]>,
    report: &mut impl FnMut(u64),
) {
    for cells in places {
        report(least::<BYTES>(table, cells));
    }
}

/// Adds to the counters of one item, and returns the least of them.
#[inline(always)]
fn add<const BYTES: usize>(
    table: &mut [u8],
    count: &mut u64,
    cells: &[usize],
    by: i64,
) -> Result<u64, NotCounted> {
    match u64::try_from(by) {
        Err(_) => subtract::<BYTES>(table, count, cells, by.unsigned_abs()),
        Ok(by) if BYTES == 4 => add_saturating(table, count, cells, by),
        Ok(by) => add_exactly::<BYTES>(table, count, cells, by),
    }
}

/// Adds to counters of four bytes, as far as they go. The count takes all of it.
#[inline(always)]
fn add_saturating(
    table: &mut [u8],
    count: &mut u64,
    cells: &[usize],
    by: u64,
) -> Result<u64, NotCounted> {
    const MAX: u64 = CellSize::Four.max();
    let mut least = MAX;
    for cell in cells {
        let counter = get::<4>(table, *cell).saturating_add(by).min(MAX);
        set::<4>(table, *cell, counter);
        least = least.min(counter);
    }
    *count = count.wrapping_add(by);
    if least < MAX {
        Ok(least)
    } else {
        Err(NotCounted::Saturated)
    }
}

/// Adds to all counters and to the count, or to none of them.
#[inline(always)]
fn add_exactly<const BYTES: usize>(
    table: &mut [u8],
    count: &mut u64,
    cells: &[usize],
    by: u64,
) -> Result<u64, NotCounted> {
    let max = u64::MAX >> (64 - 8 * BYTES) & CellSize::Eight.max();
    let largest = cells.iter().map(|cell| get::<BYTES>(table, *cell)).max();
    let fits = |number: u64, max| max - number >= by;
    if !fits(largest.unwrap_or(0), max) || !fits(*count, CellSize::Eight.max()) {
        return Err(NotCounted::Overflow);
    }
    let mut least = max;
    for cell in cells {
        let counter = get::<BYTES>(table, *cell) + by;
        set::<BYTES>(table, *cell, counter);
        least = least.min(counter);
    }
    *count += by;
    Ok(least)
}

/// Subtracts from all counters and from the count, or from none of them.
#[inline(always)]
fn subtract<const BYTES: usize>(
    table: &mut [u8],
    count: &mut u64,
    cells: &[usize],
    by: u64,
) -> Result<u64, NotCounted> {
    let least = least::<BYTES>(table, cells);
    if least < by || *count < by {
        return Err(NotCounted::Underflow);
    }
    for cell in cells {
        let counter = get::<BYTES>(table, *cell) - by;
        set::<BYTES>(table, *cell, counter);
    }
    *count -= by;
    Ok(least - by)
}
