//! A stack of filters that acts as one scalable Bloom filter (Almeida, Baquero, Preguiça and Hutchison
//! 2007): the newest filter takes new items until it is full, and then a larger filter is stacked on it by a law.
//!
//! An item is hashed once for all filters. A lookup asks the newest filter first, as it holds most of the items. An add to
//! several filters begins with a lookup, since an item that any of them claims is not added again; a single filter tests and
//! sets the bits in one pass. Sums over the filters are stored, because files may hold stacks of thousands.
//!
//! A stack only grows. It reads no limits before a filter is full, and an add that is refused changes nothing.

mod lookup;
mod patience;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Depth, Growth, Law, Limits, NextFilter, Refusal, State};
use crate::hash::{BATCH, Batch, Hasher, Probe};
use crate::machine::memory;
use crate::number::{MAX_CAPACITY, Sums, either};

use lookup::{Rest, Row, any_contains, claims_of_any, claims_patiently};
pub use lookup::{claims_counted, contains_each};
pub use patience::Budget;
use patience::{PATIENCE, Patience};

/// The outcome of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The item was new, and is in the object now.
    New,
    /// The object claimed the item already, and is unchanged.
    Present,
    /// The object claimed the item already, and added it once more. Only objects that count or forget do.
    Again,
}

/// A stack of filters.
#[derive(Debug)]
pub struct Stack {
    /// Oldest first; never empty.
    filters: Vec<Filter>,
    hasher: Hasher,
    law: Law,
    cells: Cells,
    /// Whether the filters have more than [`PATIENCE`] hash functions in all.
    is_deep: bool,
    // Sums over the filters, stored because a stack may be deep.
    items: u64,
    capacity: u64,
    blob_bytes: u64,
    /// The error rate of all filters but the newest, which no longer change.
    older_rate: f32,
}

impl Stack {
    /// The bytes of a stack without filters.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(112) as u64;

    /// Creates a stack without filters: the first one is to come.
    pub fn new(law: Law, hasher: Hasher, cells: Cells) -> Self {
        Self {
            filters: Vec::new(),
            hasher,
            law,
            cells,
            is_deep: false,
            items: 0,
            capacity: 0,
            blob_bytes: 0,
            older_rate: 0.0,
        }
    }

    /// Stacks the first filter, which is empty and has this capacity, where 0 counts as 1.
    pub fn with_first(mut self, capacity: u64, limits: Limits) -> Result<Self, Refusal> {
        let first = State {
            newest: capacity.max(1),
            ..self.state()
        };
        let step = self.law.step(&first, limits)?;
        let filter = Filter::new(step.capacity, step.geometry, &self.hasher);
        self.push(&step, filter)?;
        Ok(self)
    }

    /// Creates a stack of these filters, oldest first.
    pub fn from_filters(
        law: Law,
        hasher: Hasher,
        cells: Cells,
        filters: Vec<Filter>,
    ) -> Result<Self, &'static str> {
        let sums = sums_of(&filters)?;
        let older = filters.split_last().map_or(&[][..], |(_, older)| older);
        Ok(Self {
            is_deep: hashes_of(&filters) > u64::from(PATIENCE),
            older_rate: rate_of(older),
            filters,
            items: sums.items,
            capacity: sums.capacity,
            blob_bytes: sums.bytes,
            ..Self::new(law, hasher, cells)
        })
    }

    pub fn try_clone(&self) -> Option<Self> {
        self.with_filters(memory::collected(
            self.filters.iter().map(Filter::try_clone),
        )?)
    }

    /// Returns this stack with copies of its filters, or `None` if there is no memory for its law.
    pub fn with_filters(&self, filters: Vec<Filter>) -> Option<Self> {
        let mut stack = Self {
            filters,
            law: self.law.try_clone()?,
            ..*self
        };
        stack.recount_bytes();
        Some(stack)
    }

    /// Returns the filters, oldest first. There is at least one.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Recomputes the sum of the bytes of blobs.
    pub fn recount_bytes(&mut self) {
        let bytes = self.filters.iter().map(|filter| filter.blob().len() as u64);
        self.blob_bytes = bytes.sum();
    }

    /// Returns the filters, to be moved. A change of a blob's size requires a call of
    /// [`recount_bytes`](Self::recount_bytes) afterwards.
    pub fn filters_mut(&mut self) -> &mut [Filter] {
        &mut self.filters
    }

    pub const fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    pub const fn law(&self) -> &Law {
        &self.law
    }

    pub const fn cells(&self) -> Cells {
        self.cells
    }

    /// Returns the number of items that were new when they were added.
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Returns the sum of the filters' capacities.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    pub fn has_right_sums(&self) -> bool {
        let kept = Sums {
            capacity: self.capacity,
            items: self.items,
            bytes: self.blob_bytes,
        };
        sums_of(&self.filters) == Ok(kept)
    }

    /// Returns the exact sum of the stack's allocations in bytes, including itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let table = self.filters.capacity() * size_of::<Filter>();
        Self::BASE_BYTES + table as u64 + self.blob_bytes + self.law.memory_bytes()
    }

    pub fn filter_rate(&self, index: usize) -> f64 {
        let filter = self.filters.get(index);
        filter.map_or(0.0, |filter| self.law.filter_rate(index, filter))
    }

    /// Estimates the error rate from the contents of each filter.
    pub fn estimated_rate(&self) -> f64 {
        let newest = self.filters.last().map_or(0.0, |newest| {
            let is_saturable = self.law.growth() == Growth::Fixed && newest.is_full();
            if self.cells == Cells::BareBits && is_saturable {
                newest.rate_of_bits()
            } else {
                newest.estimated_rate()
            }
        });
        either([f64::from(self.older_rate), newest].into_iter())
    }

    /// Overwrites the cells of the filters from byte `start` of all cells end to end. Returns whether all bytes lie in one
    /// filter; nothing is written otherwise.
    pub fn overwrite(&mut self, start: u64, bytes: &[u8]) -> bool {
        let mut start = start;
        for filter in &mut self.filters {
            let cells = filter.bitmap_mut();
            let length = cells.len() as u64;
            if start < length {
                let start = usize::try_from(start).unwrap_or(usize::MAX);
                let end = start.checked_add(bytes.len());
                let place = end.and_then(|end| cells.get_mut(start..end));
                return place.map(|place| place.copy_from_slice(bytes)).is_some();
            }
            start -= length;
        }
        false
    }

    /// Returns the capacity that the stack can grow to before a limit stops it; [`MAX_CAPACITY`] if no limit does.
    pub fn reach(&self, limits: Limits) -> u64 {
        self.law.reach(self.state(), limits).0
    }

    /// Returns the numbers of filters and of hash functions.
    pub fn depth(&self) -> Depth {
        Depth {
            filters: self.filters.len() as u64,
            hashes: hashes_of(&self.filters),
        }
    }

    fn state(&self) -> State {
        State {
            filters: self.filters.len() as u64,
            newest: self.filters.last().map_or(0, Filter::capacity),
            hashes: self.filters.last().map_or(u32::MAX, Filter::hashes),
            all_hashes: self.depth().hashes,
            capacity: self.capacity,
            bytes: self.memory_bytes(),
            cells: self.cells,
        }
    }

    #[inline(always)]
    pub fn contains(&self, probe: Probe) -> bool {
        if self.is_deep {
            let (batch, filters) = (Batch::of_one(probe), self.filters.iter().rev());
            return claims_patiently(&batch, filters, 1, &mut Patience::new()) != 0;
        }
        // The newest filter is the largest and holds most of the items, so it comes first.
        let Some((newest, older)) = self.filters.split_last() else {
            return false;
        };
        newest.contains(probe) || !older.is_empty() && any_contains(older.iter().rev(), probe)
    }

    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        answer: impl FnMut(Probe, bool),
    ) {
        let claims = |batch: &Batch, all| {
            let filters = self.filters.iter().rev();
            if self.is_deep {
                return claims_patiently(batch, filters, all, &mut Patience::new());
            }
            claims_of_any(batch, filters, all)
        };
        contains_each(&self.hasher, items, claims, answer);
    }

    /// Adds an item to a stack of bits. Calls `limits` only if the stack must grow.
    #[inline]
    pub fn add(&mut self, probe: Probe, limits: impl FnOnce() -> Limits) -> Result<Added, Refusal> {
        // A single filter tests and sets the bits in one pass.
        if self.filters.len() > 1 && self.contains(probe) {
            return Ok(Added::Present);
        }
        self.add_unclaimed(probe, limits)
    }

    /// Adds an item that no older filter claims. Calls `limits` only if the stack must grow.
    #[inline]
    pub fn add_unclaimed(
        &mut self,
        probe: Probe,
        limits: impl FnOnce() -> Limits,
    ) -> Result<Added, Refusal> {
        self.add_to_newest(probe, |newest| newest.insert(probe), limits)
    }

    /// Adds each item in turn to a stack of bits, and passes its batch, its index there and the result of
    /// [`add`](Self::add) to `outcome`. Stops after the first refusal: the items after it are not tried.
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(&Batch, usize, Result<Added, Refusal>),
    ) {
        loop {
            let batch = Batch::of(&self.hasher, &mut items);
            let each = |index, added: Result<_, _>| {
                outcome(&batch, index, added);
                added.is_ok()
            };
            let all = self.add_rest(&mut Rest::of(&batch), &limits, each);
            if !all || batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds the rest of a batch, and passes each index and result to `outcome`, until that returns false. Returns whether
    /// all items were tried.
    #[inline]
    pub fn add_rest(
        &mut self,
        rest: &mut Rest,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(usize, Result<Added, Refusal>) -> bool,
    ) -> bool {
        let batch = rest.row.batch;
        let mut patience = None;
        rest.row.forget();
        while !rest.is_empty() {
            let newest = self.filters.len().saturating_sub(1);
            if rest.searched < newest {
                let filters = self.filters[rest.searched..newest].iter().rev();
                let items = batch.mask_from(rest.next) & !rest.present;
                rest.present |= if self.is_deep {
                    let patience = patience.get_or_insert_with(Patience::new);
                    claims_patiently(batch, filters, items, patience)
                } else {
                    claims_of_any(batch, filters, items)
                };
                rest.searched = newest;
                rest.row.forget();
            }
            let added = if rest.is_next_present() {
                Ok(Added::Present)
            } else {
                let probe = batch.probe(rest.next);
                if !rest.row.has(rest.next) {
                    rest.row.locate(rest.next, &self.filters[newest]);
                }
                let insert = |newest: &mut Filter| match rest.row.positions(rest.next) {
                    Some(positions) => newest.insert_at(positions),
                    None => newest.insert_slowly(probe),
                };
                self.add_to_newest(probe, insert, &limits)
            };
            rest.next += 1;
            if !outcome(rest.next - 1, added) {
                return false;
            }
        }
        true
    }

    /// Adds items that were new to the stack that this one is a copy of: each counts, even if its bits are set already.
    pub fn replay_each(
        &mut self,
        mut probes: impl Iterator<Item = Probe>,
        limits: Limits,
    ) -> Result<(), Refusal> {
        loop {
            let batch = Batch::of_probes(&mut probes);
            let mut row = Row::new(&batch);
            for (item, probe) in batch.probes().enumerate() {
                if self.is_full() {
                    self.make_room_for_one(limits)?;
                    row.forget();
                }
                let newest = self.filters.last_mut().ok_or(Refusal::MemoryLimit)?;
                if !row.has(item) {
                    row.locate(item, newest);
                }
                let had_clear_bits = match row.positions(item) {
                    Some(positions) => newest.insert_at(positions),
                    None => newest.insert_slowly(probe),
                };
                newest.count_if(!had_clear_bits);
                self.items += 1;
                self.end_count_at_capacity();
            }
            if batch.len() < BATCH {
                return Ok(());
            }
        }
    }

    /// Returns whether the newest filter takes no more items.
    pub fn is_full(&self) -> bool {
        self.items >= MAX_CAPACITY || self.filters.last().is_none_or(Filter::is_full)
    }

    /// Adds an item that no older filter claims to the newest filter, by `insert`.
    #[inline(always)]
    fn add_to_newest(
        &mut self,
        probe: Probe,
        insert: impl FnOnce(&mut Filter) -> bool,
        limits: impl FnOnce() -> Limits,
    ) -> Result<Added, Refusal> {
        let newest = self.filters.last_mut().ok_or(Refusal::MemoryLimit)?;
        if newest.is_full() || self.items >= MAX_CAPACITY {
            if newest.contains(probe) {
                return Ok(Added::Present);
            }
            return self.add_to_full(probe, limits());
        }
        let new = insert(newest);
        self.items += u64::from(new);
        Ok(if new { Added::New } else { Added::Present })
    }

    #[cold]
    fn add_to_full(&mut self, probe: Probe, limits: Limits) -> Result<Added, Refusal> {
        self.make_room_for_one(limits)?;
        if let Some(newest) = self.filters.last_mut() {
            newest.insert_slowly(probe);
            self.items += 1;
        }
        self.end_count_at_capacity();
        Ok(Added::New)
    }

    /// Ends the count of a saturated filter of `RedisBloom` at its capacity, because `RedisBloom` loads no filter that
    /// counts more items.
    fn end_count_at_capacity(&mut self) {
        if let (Some(newest), Cells::BareBits) = (self.filters.last_mut(), self.cells) {
            self.items -= newest.items();
            newest.cut_items(newest.capacity());
            self.items += newest.items();
        }
    }

    /// Makes room when all filters are full: stacks a new filter, or lets the filter of a non-scaling stack take more
    /// items than its capacity.
    fn grow_or_saturate(&mut self, limits: Limits) -> Result<(), Refusal> {
        if self.law.growth() != Growth::Fixed {
            let step = self.law.step(&self.state(), limits)?;
            let filter = Filter::new(step.capacity, step.geometry, &self.hasher);
            self.push(&step, filter)
        } else if limits.saturate {
            Ok(())
        } else {
            Err(Refusal::Full)
        }
    }

    fn push(&mut self, step: &NextFilter, filter: Option<Filter>) -> Result<(), Refusal> {
        // The table has no spare places: growth is rare, and the stack's size stays a plain sum.
        let room = self.filters.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        let filter = filter.ok_or(Refusal::OutOfMemory)?;
        self.law.enter(step)?;
        if let Some(newest) = self.filters.last() {
            self.older_rate = with_rate(self.older_rate, newest);
        }
        self.capacity += filter.capacity();
        self.blob_bytes += filter.blob().len() as u64;
        self.filters.push(filter);
        self.is_deep = hashes_of(&self.filters) > u64::from(PATIENCE);
        Ok(())
    }

    /// Makes room for an item when all filters are full.
    pub fn make_room_for_one(&mut self, limits: Limits) -> Result<(), Refusal> {
        // Only a file can claim this number of items.
        if self.items >= MAX_CAPACITY {
            return Err(match self.law.growth() {
                Growth::Fixed => Refusal::Full,
                Growth::By(_) => Refusal::MemoryLimit,
            });
        }
        self.grow_or_saturate(limits)
    }

    /// Lets `place` move the table of filters. `place` returns the same filters, perhaps elsewhere.
    pub fn relocate_table(&mut self, place: impl FnOnce(Vec<Filter>) -> Vec<Filter>) {
        self.filters = place(std::mem::take(&mut self.filters));
    }

    /// Raises the capacity of the newest filter to its number of items, if that is larger and the stack is a scaling one of
    /// bits of ours. Only a stack that did not scale before can have more items; files store the filter this way.
    pub fn seal_overfull(&mut self) {
        if self.law.growth() == Growth::Fixed || self.cells != Cells::Bits {
            return;
        }
        if let Some(newest) = self.filters.last_mut()
            && newest.items() > newest.capacity()
        {
            self.capacity += newest.items() - newest.capacity();
            newest.seal();
        }
    }
}

/// Returns the number of hash functions of all of these filters.
fn hashes_of(filters: &[Filter]) -> u64 {
    let hashes = filters.iter().map(|filter| u64::from(filter.hashes()));
    hashes.sum()
}

/// Returns the error rate of filters, rounded after each filter the way it is when they are stacked one by one.
fn rate_of(filters: &[Filter]) -> f32 {
    filters.iter().fold(0.0, with_rate)
}

fn with_rate(older: f32, filter: &Filter) -> f32 {
    as_single(either(
        [f64::from(older), filter.estimated_rate()].into_iter(),
    ))
}

#[allow(clippy::cast_possible_truncation, reason = "a rate is an estimate")]
const fn as_single(rate: f64) -> f32 {
    rate as f32
}

fn sums_of(filters: &[Filter]) -> Result<Sums, &'static str> {
    let mut sums = Sums::default();
    for filter in filters {
        let bytes = filter.blob().len() as u64;
        sums.add(filter.capacity(), filter.items(), bytes)?;
    }
    Ok(sums)
}
