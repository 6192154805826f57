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
mod row;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Growth, Law, Limits, Refusal, State};
use crate::hash::{BATCH, Batch, Hasher, Probe};
use crate::machine::memory::{self, Relocate};
use crate::number::{MAX_CAPACITY, Sums, either};

use lookup::{any_contains, claims_of_any, claims_patiently};
pub use lookup::{claims_counted, contains_each};
pub use patience::Tally;
use patience::{PATIENCE, Patience};
use row::Row;

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
    /// Oldest first; never empty. All have the kind of cells that the law says: lookups depend on it.
    filters: Vec<Filter>,
    hasher: Hasher,
    law: Law,
    /// Whether the filters have more than [`PATIENCE`] hash functions in all.
    is_deep: bool,
    /// Sums over the filters, stored because a stack may be deep; the bytes are those of the blobs.
    sums: Sums,
    /// The error rate of all filters but the newest, which no longer change.
    older_rate: f32,
}

impl Stack {
    /// The bytes of a stack without filters.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(112) as u64;

    /// Creates a stack without filters: the first one is to come.
    pub fn new(law: Law, hasher: Hasher) -> Self {
        Self {
            filters: Vec::new(),
            hasher,
            law,
            is_deep: false,
            sums: Sums::default(),
            older_rate: 0.0,
        }
    }

    /// Stacks the first filter, which is empty and has this capacity, where 0 counts as 1.
    pub fn with_first(mut self, capacity: u64, limits: Limits) -> Result<Self, Refusal> {
        let first = State {
            newest: capacity.max(1),
            ..self.state()
        };
        self.grow(&first, limits)?;
        Ok(self)
    }

    /// Creates a stack of these filters, oldest first.
    pub fn from_filters(
        law: Law,
        hasher: Hasher,
        filters: Vec<Filter>,
    ) -> Result<Self, &'static str> {
        let older = filters.split_last().map_or(&[][..], |(_, older)| older);
        Ok(Self {
            is_deep: hashes_of(&filters) > u64::from(PATIENCE),
            // Rounded after each filter, the way it is when they are stacked one by one.
            older_rate: older.iter().fold(0.0, with_rate),
            sums: sums_of(&filters)?,
            filters,
            ..Self::new(law, hasher)
        })
    }

    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            filters: memory::collected(self.filters.iter().map(Filter::try_clone))?,
            law: self.law.try_clone()?,
            ..*self
        })
    }

    /// Returns the filters, oldest first. There is at least one.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    pub const fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    pub const fn law(&self) -> &Law {
        &self.law
    }

    /// Returns the number of items that were new when they were added.
    pub const fn items(&self) -> u64 {
        self.sums.items
    }

    /// Returns the sum of the filters' capacities.
    pub const fn capacity(&self) -> u64 {
        self.sums.capacity
    }

    pub fn has_right_sums(&self) -> bool {
        sums_of(&self.filters) == Ok(self.sums)
    }

    /// Returns the exact sum of the stack's allocations in bytes, including itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let table = self.filters.capacity() * size_of::<Filter>();
        Self::BASE_BYTES + table as u64 + self.sums.bytes + self.law.memory_bytes()
    }

    pub fn filter_rate(&self, index: usize) -> f64 {
        let filter = self.filters.get(index);
        filter.map_or(0.0, |filter| self.law.filter_rate(index, filter))
    }

    /// Estimates the error rate from the contents of each filter.
    pub fn estimated_rate(&self) -> f64 {
        let newest = self.filters.last().map_or(0.0, |newest| {
            let is_saturable = self.law.growth() == Growth::Fixed && newest.is_full();
            if self.law.cells() == Cells::BareBits && is_saturable {
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

    fn state(&self) -> State {
        State {
            filters: self.filters.len() as u64,
            newest: self.filters.last().map_or(0, Filter::capacity),
            hashes: self.filters.last().map_or(u32::MAX, Filter::hashes),
            all_hashes: hashes_of(&self.filters),
            capacity: self.sums.capacity,
            bytes: self.memory_bytes(),
        }
    }

    #[inline(always)]
    pub fn contains(&self, probe: Probe) -> bool {
        if self.is_deep {
            let batch = Batch::of_one(probe);
            return claims_patiently(&batch, &self.filters, 1, &mut Patience::new()) != 0;
        }
        // The newest filter is the largest and holds most of the items, so it comes first.
        let Some((newest, older)) = self.filters.split_last() else {
            return false;
        };
        newest.contains(probe) || !older.is_empty() && any_contains(older, probe)
    }

    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        answer: impl FnMut(Probe, bool),
    ) {
        let claims = |batch: &Batch, all| {
            if self.is_deep {
                return claims_patiently(batch, &self.filters, all, &mut Patience::new());
            }
            claims_of_any(batch, &self.filters, all)
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
        self.add_to_newest(probe, |newest| newest.insert(probe), limits)
    }

    /// Adds each item in turn to a stack of bits, and passes its probe and the result of [`add`](Self::add) to `outcome`.
    /// Stops after the first refusal: the items after it are not tried.
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Probe, Result<Added, Refusal>),
    ) {
        loop {
            let batch = Batch::of(&self.hasher, &mut items);
            let (mut row, mut patience) = (Row::new(&batch), None);
            // The mask of items that are present already, and the number of filters, oldest first, that were searched for them.
            let (mut present, mut searched) = (0, 0);
            for (index, probe) in batch.probes().enumerate() {
                let newest = self.filters.len().saturating_sub(1);
                if searched < newest {
                    let filters = &self.filters[searched..newest];
                    let items = batch.mask_from(index) & !present;
                    present |= if self.is_deep {
                        let patience = patience.get_or_insert_with(Patience::new);
                        claims_patiently(&batch, filters, items, patience)
                    } else {
                        claims_of_any(&batch, filters, items)
                    };
                    searched = newest;
                    row.forget();
                }
                let added = if present >> index & 1 == 1 {
                    Ok(Added::Present)
                } else {
                    let insert = |newest: &mut Filter| match row.positions(index, newest) {
                        Some(positions) => newest.insert_at(positions),
                        None => newest.insert_slowly(probe),
                    };
                    self.add_to_newest(probe, insert, &limits)
                };
                outcome(probe, added);
                if added.is_err() {
                    return;
                }
            }
            if batch.len() < BATCH {
                return;
            }
        }
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
                let had_clear_bits = match row.positions(item, newest) {
                    Some(positions) => newest.insert_at(positions),
                    None => newest.insert_slowly(probe),
                };
                newest.count_if(!had_clear_bits);
                self.sums.items += 1;
                self.end_count_at_capacity();
            }
            if batch.len() < BATCH {
                return Ok(());
            }
        }
    }

    /// Returns whether the newest filter takes no more items.
    pub fn is_full(&self) -> bool {
        self.sums.items >= MAX_CAPACITY || self.filters.last().is_none_or(Filter::is_full)
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
        if newest.is_full() || self.sums.items >= MAX_CAPACITY {
            if newest.contains(probe) {
                return Ok(Added::Present);
            }
            return self.add_to_full(probe, limits());
        }
        let new = insert(newest);
        self.sums.items += u64::from(new);
        Ok(if new { Added::New } else { Added::Present })
    }

    #[cold]
    fn add_to_full(&mut self, probe: Probe, limits: Limits) -> Result<Added, Refusal> {
        self.make_room_for_one(limits)?;
        if let Some(newest) = self.filters.last_mut() {
            newest.insert_slowly(probe);
            self.sums.items += 1;
        }
        self.end_count_at_capacity();
        Ok(Added::New)
    }

    /// Ends the count of a saturated filter of `RedisBloom` at its capacity, because `RedisBloom` loads no filter that
    /// counts more items.
    fn end_count_at_capacity(&mut self) {
        if let (Some(newest), Cells::BareBits) = (self.filters.last_mut(), self.law.cells()) {
            self.sums.items -= newest.items();
            newest.cut_items(newest.capacity());
            self.sums.items += newest.items();
        }
    }

    /// Stacks the filter that follows from a state.
    fn grow(&mut self, at: &State, limits: Limits) -> Result<(), Refusal> {
        let step = self.law.step(at, limits)?;
        let filter = Filter::new(step.capacity, step.geometry, &self.hasher);
        let filter = filter.ok_or(Refusal::OutOfMemory)?;
        // The table has no spare places: growth is rare, and the stack's size stays a plain sum.
        let room = self.filters.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        self.law.enter(&step)?;
        if let Some(newest) = self.filters.last() {
            self.older_rate = with_rate(self.older_rate, newest);
        }
        self.sums.capacity += filter.capacity();
        self.sums.bytes += filter.blob().len() as u64;
        self.filters.push(filter);
        self.is_deep = hashes_of(&self.filters) > u64::from(PATIENCE);
        Ok(())
    }

    /// Makes room for an item when all filters are full: stacks a new filter, or lets the filter of a non-scaling stack take
    /// more items than its capacity.
    fn make_room_for_one(&mut self, limits: Limits) -> Result<(), Refusal> {
        // Only a file can claim this number of items.
        let is_countable = self.sums.items < MAX_CAPACITY;
        match self.law.growth() {
            Growth::Fixed if is_countable && limits.saturate => Ok(()),
            Growth::Fixed => Err(Refusal::Full),
            Growth::By(_) if !is_countable => Err(Refusal::MemoryLimit),
            Growth::By(_) => self.grow(&self.state(), limits),
        }
    }

    /// Moves the table of filters and their blobs, starting with step `first`, until `by` stops. Returns the step to resume
    /// at, if there is one.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        (first..=self.filters.len()).find(|step| {
            if *step > first && by.should_stop() {
                return true;
            }
            match step.checked_sub(1) {
                None => self.filters = by.table(std::mem::take(&mut self.filters)),
                Some(index) => self.filters[index].relocate(|blob| by.blob(blob)),
            }
            false
        })
    }

    /// Raises the capacity of the newest filter to its number of items, if that is larger and the stack is a scaling one of
    /// bits of ours. Only a stack that did not scale before can have more items; files store the filter this way.
    pub fn seal_overfull(&mut self) {
        if self.law.growth() == Growth::Fixed || self.law.cells() != Cells::Bits {
            return;
        }
        if let Some(newest) = self.filters.last_mut()
            && newest.items() > newest.capacity()
        {
            self.sums.capacity += newest.items() - newest.capacity();
            newest.seal();
        }
    }
}

/// Returns the number of hash functions of all of these filters.
fn hashes_of(filters: &[Filter]) -> u64 {
    let hashes = filters.iter().map(|filter| u64::from(filter.hashes()));
    hashes.sum()
}

/// Returns the error rate of filters of a rate and one more.
#[allow(clippy::cast_possible_truncation, reason = "a rate is an estimate")]
fn with_rate(older: f32, filter: &Filter) -> f32 {
    either([f64::from(older), filter.estimated_rate()].into_iter()) as f32
}

fn sums_of(filters: &[Filter]) -> Result<Sums, &'static str> {
    let mut sums = Sums::default();
    for filter in filters {
        let bytes = filter.blob().len() as u64;
        sums.add(filter.capacity(), filter.items(), bytes)?;
    }
    Ok(sums)
}
