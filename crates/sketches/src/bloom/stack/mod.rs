//! A stack of filters that acts as one scalable Bloom filter (Almeida, Baquero, Preguiça and Hutchison
//! 2007): the newest filter takes new items until it is full, and then a larger filter is stacked on it by a law.

mod lanes;
mod lookup;
mod patience;

use crate::bloom::filter::{Cells, Filter, Geometry};
use crate::bloom::law::{Allowance, Depth, Growth, Law, NextFilter, Refusal, State};
use crate::hash::{BATCH, Batch, Hasher, Probe};
use crate::machine::memory;
use crate::number::{MAX_CAPACITY, Sums, either};

pub use lanes::{LanesOfBatch, TOGETHER, narrow, narrow_batch};
pub use lookup::{
    Rest, Row, any_contains, claims, claims_counted, claims_of_any, claims_patiently, contains_each,
};
pub use patience::{Effort, PATIENCE, Patience, Tally, ToTheEnd};

/// The outcome of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The item was new, and is in the object now.
    New,
    /// The object claimed the item already, and is unchanged.
    Present,
    /// The object claimed the item already, and added it once more. Only objects with periods or counters do.
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
    /// The error rate of all filters but the newest, if they are filters of bits, which no longer change.
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
    pub fn with_first(
        mut self,
        capacity: u64,
        allowance: Allowance,
        make: fn(u64, Geometry, &Hasher) -> Option<Filter>,
    ) -> Result<Self, Refusal> {
        let first = State {
            newest: capacity.max(1),
            ..self.state()
        };
        let step = self.law.step(&first, allowance)?;
        let filter = make(step.capacity, step.geometry, &self.hasher);
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
        let older = match self.filters.split_last() {
            Some((_, older)) if self.cells == Cells::Counters => rate_of(older),
            _ => self.older_rate,
        };
        let newest = self.filters.last().map_or(0.0, |newest| {
            let is_saturable = self.law.growth() == Growth::Fixed && newest.is_full();
            if self.cells == Cells::BareBits && is_saturable {
                newest.rate_of_bits()
            } else {
                newest.estimated_rate()
            }
        });
        either([f64::from(older), newest].into_iter())
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
    pub fn reach(&self, allowance: Allowance) -> u64 {
        self.law.reach(self.state(), allowance).0
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

    /// Returns the numbers of the filters that claim an item, newest first.
    pub fn claimants(&self, probe: Probe) -> impl Iterator<Item = usize> {
        let indices = (0..self.filters.len()).rev();
        indices.filter(move |index| self.filters[*index].contains(probe))
    }

    /// Adds an item to a stack of bits. Calls `allowance` only if the stack must grow.
    #[inline]
    pub fn add(
        &mut self,
        probe: Probe,
        allowance: impl FnOnce() -> Allowance,
    ) -> Result<Added, Refusal> {
        // A single filter tests and sets the bits in one pass.
        if self.filters.len() > 1 && self.contains(probe) {
            return Ok(Added::Present);
        }
        self.add_unclaimed(probe, allowance)
    }

    /// Adds an item that no older filter claims. Calls `allowance` only if the stack must grow.
    #[inline]
    pub fn add_unclaimed(
        &mut self,
        probe: Probe,
        allowance: impl FnOnce() -> Allowance,
    ) -> Result<Added, Refusal> {
        self.add_to_newest(probe, |newest| newest.insert(probe), allowance)
    }

    /// Adds each item in turn to a stack of bits, and passes its batch, its index there and the result of
    /// [`add`](Self::add) to `outcome`. Stops after the first refusal: the items after it are not tried.
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(&Batch, usize, Result<Added, Refusal>),
    ) {
        loop {
            let batch = Batch::of(&self.hasher, &mut items);
            let each = |index, added: Result<_, _>| {
                outcome(&batch, index, added);
                added.is_ok()
            };
            let all = self.add_rest(&mut Rest::of(&batch), &allowance, each);
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
        allowance: impl Fn() -> Allowance,
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
                self.add_to_newest(probe, insert, &allowance)
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
        allowance: Allowance,
    ) -> Result<(), Refusal> {
        loop {
            let batch = Batch::of_probes(&mut probes);
            let mut row = Row::new(&batch);
            for (item, probe) in batch.probes().enumerate() {
                if self.is_full() {
                    self.make_room_for_one(allowance)?;
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

    /// Counts an item whose bits were set in the lane of the only filter, if it was new there.
    pub fn count_in_lane(&mut self, new: bool) -> Added {
        self.filters[0].count_if(new);
        self.items += u64::from(new);
        if new { Added::New } else { Added::Present }
    }

    /// Adds an item that no older filter claims to the newest filter, by `insert`.
    #[inline(always)]
    fn add_to_newest(
        &mut self,
        probe: Probe,
        insert: impl FnOnce(&mut Filter) -> bool,
        allowance: impl FnOnce() -> Allowance,
    ) -> Result<Added, Refusal> {
        let newest = self.filters.last_mut().ok_or(Refusal::MemoryLimit)?;
        if newest.is_full() || self.items >= MAX_CAPACITY {
            if newest.contains(probe) {
                return Ok(Added::Present);
            }
            return self.add_to_full(probe, allowance());
        }
        let new = insert(newest);
        self.items += u64::from(new);
        Ok(if new { Added::New } else { Added::Present })
    }

    #[cold]
    fn add_to_full(&mut self, probe: Probe, allowance: Allowance) -> Result<Added, Refusal> {
        self.make_room_for_one(allowance)?;
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
    fn grow_or_saturate(&mut self, allowance: Allowance) -> Result<(), Refusal> {
        if self.law.growth() != Growth::Fixed {
            let step = self.law.step(&self.state(), allowance)?;
            let filter = Filter::new(step.capacity, step.geometry, &self.hasher);
            self.push(&step, filter)
        } else if allowance.limits.saturate {
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
        if let (Some(newest), Cells::Bits | Cells::BareBits) = (self.filters.last(), self.cells) {
            self.older_rate = with_rate(self.older_rate, newest);
        }
        self.capacity += filter.capacity();
        self.blob_bytes += filter.blob().len() as u64;
        self.filters.push(filter);
        self.is_deep = hashes_of(&self.filters) > u64::from(PATIENCE);
        Ok(())
    }

    /// Makes room for an item when all filters are full.
    pub fn make_room_for_one(&mut self, allowance: Allowance) -> Result<(), Refusal> {
        // Only a file can claim this number of items.
        if self.items >= MAX_CAPACITY {
            return Err(match self.law.growth() {
                Growth::Fixed => Refusal::Full,
                Growth::By(_) => Refusal::MemoryLimit,
            });
        }
        self.grow_or_saturate(allowance)
    }

    /// Makes room in the newest filter of counters when all filters are full. Returns the filter's index.
    pub fn make_room(&mut self, allowance: Allowance) -> Result<usize, Refusal> {
        let newest = self.filters.len() - 1;
        if self.law.growth() == Growth::Fixed && self.recount(newest, Filter::make_room) {
            return Ok(newest);
        }
        self.grow_or_saturate(allowance)?;
        Ok(self.filters.len() - 1)
    }

    /// Counts an item in a filter. Returns whether the filter did not claim the item before.
    pub fn count_up(&mut self, index: usize, probe: Probe) -> bool {
        self.recount(index, |filter| filter.count_up(probe))
    }

    /// Counts an item of a batch whose items all go to this filter. Returns whether the filter did not claim the item before.
    #[inline]
    pub fn count_up_in(&mut self, index: usize, row: &mut Row, item: usize) -> bool {
        if !row.has(item) {
            row.locate(item, &self.filters[index]);
        }
        self.recount(index, |filter| match row.positions(item) {
            Some(positions) => filter.count_up_at(positions),
            None => filter.count_up(row.batch.probe(item)),
        })
    }

    /// Removes one count of an item that a filter claims. Returns whether it did.
    pub fn count_down(&mut self, index: usize, probe: Probe) -> bool {
        self.recount(index, |filter| filter.count_down(probe))
    }

    fn recount<T>(&mut self, index: usize, change: impl FnOnce(&mut Filter) -> T) -> T {
        let filter = &mut self.filters[index];
        self.items -= filter.items();
        let changed = change(filter);
        // This matters only after a file that claims very many items.
        filter.cut_items(MAX_CAPACITY - self.items);
        self.items += filter.items();
        changed
    }

    /// Lets `place` move the table of filters. `place` returns the same filters, perhaps elsewhere.
    pub fn relocate_table(&mut self, place: impl FnOnce(Vec<Filter>) -> Vec<Filter>) {
        self.filters = place(std::mem::take(&mut self.filters));
    }

    /// Makes the stack grow by another law of ours from here on.
    pub fn follow(&mut self, law: Law) {
        self.law = law;
        self.seal_overfull();
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
