//! A cuckoo filter that grows: its filters, items and removals.

use crate::bytes::DecodeError;
use crate::machine::memory::{self, Relocate};
use crate::machine::work;

use super::buckets::Buckets;
use super::growth::Plan;
use super::outline::{Outline, ValidOutline};
use super::place::{Place, Places};
use super::room::Room;
use super::shape::{Limits, Refusal, Shape};
use super::summary::{Summaries, group_size};

/// A cuckoo filter that grows.
#[derive(Debug)]
pub struct Cuckoo {
    shape: Shape,
    /// Oldest first, at least one.
    filters: Vec<Buckets>,
    /// Number of items. In damaged files it may be wrong.
    items: u64,
    /// Removals since the last compaction.
    deletes: u64,
    /// Number of slots of all filters.
    size: u64,
    /// Bytes of the slots that take memory.
    slot_bytes: u64,
    /// Summaries of the filters after the first group that have memory. `None` if there is only one group, or if an
    /// allocation failed and all filters have to be searched.
    summaries: Option<Box<Summaries>>,
}

impl Cuckoo {
    /// Size of an object without its filters, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(80) as u64;

    /// Creates an empty object of one filter.
    ///
    /// # Errors
    /// The [`Refusal`] of the limits or of the allocator.
    pub fn new(shape: Shape, limits: &Limits) -> Result<Self, Refusal> {
        let mut object = Self::with_filters(shape, Vec::new());
        object.grow(limits)?;
        Ok(object)
    }

    /// Creates the empty object that an outline claims: a filter takes memory with the first byte written to it.
    /// Returns `None` if the table can't be allocated.
    pub(super) fn claimed(outline: &ValidOutline) -> Option<Self> {
        let filters = usize::try_from(outline.filters).ok()?;
        let mut slots = memory::reserved(filters)?;
        slots.resize_with(filters, Vec::new);
        Self::from_outline(outline, slots).ok()
    }

    /// Creates the object of an outline and its filters' slots, oldest first. An empty list of slots stands for a
    /// filter that is empty and takes no memory.
    ///
    /// # Errors
    /// The reason that the slots are invalid, or [`DecodeError::NoMemory`].
    pub fn from_outline(outline: &ValidOutline, slots: Vec<Vec<u8>>) -> Result<Self, DecodeError> {
        let mut object = Self::with_filters(outline.shape, outline.fill(slots)?);
        (object.items, object.deletes) = (outline.items, outline.deletes);
        object.assert_valid();
        Ok(object)
    }

    /// Creates the object of these filters, without items.
    fn with_filters(shape: Shape, filters: Vec<Buckets>) -> Self {
        let mut object = Self {
            shape,
            filters,
            items: 0,
            deletes: 0,
            size: 0,
            slot_bytes: 0,
            summaries: None,
        };
        object.sum_up();
        object
    }

    /// Returns the numbers that are stored.
    pub fn outline(&self) -> Outline {
        Outline {
            filters: self.filters.len() as u64,
            first_buckets: self.shape.first_buckets,
            items: self.items,
            deletes: self.deletes,
            bucket_size: self.shape.bucket_size.into(),
            max_iterations: self.shape.max_iterations.into(),
            expansion: self.shape.expansion.into(),
        }
    }

    /// Returns the object without its slots.
    pub(super) const fn valid_outline(&self) -> ValidOutline {
        ValidOutline {
            shape: self.shape,
            filters: self.filters.len() as u64,
            items: self.items,
            deletes: self.deletes,
        }
    }

    /// Returns the shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the filters, oldest first.
    pub fn filters(&self) -> &[Buckets] {
        &self.filters
    }

    /// Returns the number of items. It may be any number in a damaged file.
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Returns the number of items removed since the last compaction.
    pub const fn deletes(&self) -> u64 {
        self.deletes
    }

    /// Returns the number of slots of all filters: their size in bytes, whether or not they take memory.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the exact sum of the object's allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        let table = self.filters.capacity() * size_of::<Buckets>();
        let summaries = self.summaries.as_ref().map_or(0, |s| s.memory_bytes());
        Self::BASE_BYTES + table as u64 + self.slot_bytes + summaries
    }

    /// Returns whether the filter claims an item: false is certain, true is probable.
    #[inline]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.holds(Place::of(item))
    }

    /// Returns whether any filter holds a fingerprint. The newest is searched first: it is the largest.
    #[inline]
    fn holds(&self, place: Place) -> bool {
        let summaries = self.summaries.as_ref();
        summaries.is_some_and(|summaries| summaries.holds(place))
            || self.searched().iter().rev().any(|f| f.contains(place))
    }

    /// Returns the filters without a summary.
    #[inline]
    fn searched(&self) -> &[Buckets] {
        match self.summaries {
            Some(_) => &self.filters[..group_size(self.shape.bucket_size)],
            None => &self.filters,
        }
    }

    /// Looks up each item, and passes the result of [`contains`](Self::contains) to `report`.
    #[inline]
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        mut report: impl FnMut(bool),
    ) {
        let (mut items, mut places) = (items.fuse(), Places::new());
        while places.take(&mut items) {
            // Masks of the items found, and of those left to look for.
            let (mut found, mut left) = (0, places.mask());
            if let Some(summaries) = &self.summaries {
                places.each(left, |index, place| {
                    found |= u64::from(summaries.holds(place)) << index;
                });
                left &= !found;
            }
            for filter in self.searched().iter().rev() {
                work::steps(1);
                filter.prefetch_each(&places, left);
                found |= filter.contains_each(&places, left);
                left &= !found;
                if left == 0 {
                    break;
                }
            }
            (0..places.count()).for_each(|index| report(found >> index & 1 == 1));
        }
    }

    /// Returns how often an item was added and not removed, as far as fingerprints show: items with the same
    /// fingerprint and buckets count too, and a fingerprint whose two buckets are the same counts twice.
    pub fn count(&self, item: &[u8]) -> u64 {
        let place = Place::of(item);
        self.filters.iter().map(|f| f.count(place)).sum()
    }

    /// Adds an item; with `unless_present`, only if it is not claimed yet. Returns whether it was added. Calls `limits`
    /// only if the item needs another filter.
    ///
    /// # Errors
    /// The [`Refusal`] if there is no room.
    #[inline]
    pub fn add(
        &mut self,
        item: &[u8],
        unless_present: bool,
        limits: impl Fn() -> Limits,
    ) -> Result<bool, Refusal> {
        self.put(Place::of(item), unless_present, limits)
    }

    /// Adds items in order, and passes the result of [`add`](Self::add) for each to `report`.
    #[inline]
    pub fn add_each<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        unless_present: bool,
        limits: impl Fn() -> Limits,
        mut report: impl FnMut(Result<bool, Refusal>),
    ) {
        let (mut items, mut places) = (items.fuse(), Places::new());
        while places.take(&mut items) {
            for filter in self.searched().iter().rev() {
                filter.prefetch_each(&places, places.mask());
            }
            places.each(places.mask(), |_, place| {
                report(self.put(place, unless_present, &limits));
            });
        }
    }

    fn put(
        &mut self,
        place: Place,
        unless_present: bool,
        limits: impl Fn() -> Limits,
    ) -> Result<bool, Refusal> {
        if unless_present && self.holds(place) {
            return Ok(false);
        }
        while !self.put_in_slot(place)? {
            self.grow(&limits())?;
        }
        self.items = self.items.saturating_add(1);
        self.assert_valid();
        Ok(true)
    }

    /// Puts a fingerprint into an empty slot of its buckets, newest filter first, or else makes room in the newest.
    /// Returns whether it found a slot.
    #[inline]
    fn put_in_slot(&mut self, place: Place) -> Result<bool, Refusal> {
        let filters = self.filters.len();
        let summaries = self.summaries.as_ref();
        let end = summaries.map_or(filters, |summaries| summaries.end_of_room(place, filters));
        for (index, filter) in self.filters[..end].iter_mut().enumerate().rev() {
            work::steps(1);
            let unallocated = filter.slots().is_empty();
            if filter.put(place)? {
                if unallocated {
                    self.slot_bytes += filter.size();
                }
                self.summarize(index, |summaries, filters| {
                    summaries.learn(index, &filters[index], place);
                });
                return Ok(true);
            }
        }
        let max_iterations = self.shape.max_iterations;
        let newest = self.filters.last_mut();
        let moved = newest.and_then(|newest| newest.kick(place, max_iterations));
        if let Some(moved) = moved {
            let index = filters - 1;
            self.summarize(index, |summaries, filters| {
                summaries.learn(index, &filters[index], place);
                summaries.learn(index, &filters[index], moved);
            });
        }
        Ok(moved.is_some())
    }

    /// Records a change of a filter that has memory in its summary, if it has one. If the summary can't be allocated,
    /// all summaries are dropped.
    fn summarize(&mut self, index: usize, note: impl FnOnce(&mut Summaries, &[Buckets])) {
        if index >= group_size(self.shape.bucket_size)
            && let Some(summaries) = &mut self.summaries
        {
            match summaries.admit(index) {
                Some(()) => note(summaries, &self.filters),
                None => self.summaries = None,
            }
        }
    }

    /// Adds the next filter.
    #[cold]
    fn grow(&mut self, limits: &Limits) -> Result<(), Refusal> {
        let mut plan = Plan {
            filters: self.filters.len() as u64,
            slots: self.size,
            bytes: self.memory_bytes(),
        };
        let buckets = plan.grow(&self.shape, limits)?;
        let mut filter = Buckets::unallocated(buckets, self.shape.bucket_size);
        let room = self.filters.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        filter.allocate()?;
        self.size += filter.size();
        self.slot_bytes += filter.size();
        self.filters.push(filter);
        let index = self.filters.len() - 1;
        if index == group_size(self.shape.bucket_size) {
            self.summaries = Summaries::of(&self.filters, self.shape.bucket_size);
        } else {
            self.summarize(index, |_, _| ());
        }
        Ok(())
    }

    /// Removes an item once. Returns whether it was claimed. Removing an item that was never added may remove another
    /// item.
    pub fn remove(&mut self, item: &[u8]) -> bool {
        let place = Place::of(item);
        let summaries = self.summaries.as_ref();
        let end = summaries.map_or(usize::MAX, |summaries| summaries.end_of_holders(place));
        let end = end.min(self.filters.len());
        let mut filters = self.filters[..end].iter_mut();
        let taken_from = filters.rposition(|filter| filter.remove(place));
        let Some(index) = taken_from else {
            return false;
        };
        self.summarize(index, |summaries, filters| {
            summaries.forget(index, filters, place);
        });
        self.items = self.items.saturating_sub(1);
        self.deletes = self.deletes.saturating_add(1);
        if self.filters.len() > 1 && self.is_due() {
            self.compact_filters(Stop::AtRemainder);
        }
        self.assert_valid();
        true
    }

    /// Returns whether enough was removed for a compaction: more than a tenth of the items. If a header claimed too
    /// few items, the occupied slots decide, so that not every removal compacts.
    fn is_due(&self) -> bool {
        let removed = self.deletes.saturating_mul(10);
        removed > self.items && removed > self.filters.iter().map(Buckets::occupied).sum()
    }

    /// Moves fingerprints to older filters where there is room, and drops the newest filters that become empty.
    /// Returns whether anything changed.
    pub fn compact(&mut self) -> bool {
        let changed = self.compact_filters(Stop::Never);
        self.assert_valid();
        changed
    }

    fn compact_filters(&mut self, stop: Stop) -> bool {
        let mut changed = self.deletes > 0;
        let mut room = Room::of(&self.filters);
        for index in (1..self.filters.len()).rev() {
            let (older, newer) = self.filters.split_at_mut(index);
            room.exclude(&newer[0], older);
            changed |= room.fill_from(&mut newer[0], older);
            if newer[0].occupied() > 0 {
                if stop == Stop::AtRemainder {
                    break;
                }
            } else if index + 1 == self.filters.len() {
                self.filters.pop();
                changed = true;
            }
        }
        self.filters.shrink_to_fit();
        self.deletes = 0;
        self.summaries = None;
        self.sum_up();
        changed
    }

    /// Overwrites stored slots, at an offset into the slots of all filters end to end.
    ///
    /// # Errors
    /// Any [`ChunkError`]. Then nothing has changed.
    pub fn write(&mut self, offset: u64, slots: &[u8]) -> Result<(), ChunkError> {
        let (index, within) = self.find(offset).ok_or(ChunkError::Misplaced)?;
        let filter = &mut self.filters[index];
        if slots.is_empty() || slots.len() as u64 > filter.size() - within {
            return Err(ChunkError::Misplaced);
        }
        let unallocated = filter.slots().is_empty();
        let start = usize::try_from(within).map_err(|_| ChunkError::NoMemory)?;
        let lost = filter.write(start, slots);
        let lost = lost.map_err(|_| ChunkError::NoMemory)?;
        if unallocated {
            self.slot_bytes += filter.slots().len() as u64;
        }
        if !filter.slots().is_empty() {
            let bucket_size = u64::from(self.shape.bucket_size);
            let end = (within + slots.len() as u64).div_ceil(bucket_size);
            self.summarize(index, |summaries, filters| {
                if lost {
                    summaries.renew(index, filters);
                } else {
                    summaries.learn_all(index, &filters[index], within / bucket_size..end);
                }
            });
        }
        self.assert_valid();
        Ok(())
    }

    /// Returns the filter at an offset into the slots of all filters end to end, and the offset into its own slots.
    pub fn find(&self, offset: u64) -> Option<(usize, u64)> {
        let first = self.filters.first()?.size();
        if self.shape.expansion == 1 {
            // All filters have one size. There may be many, so the index is computed.
            let index = usize::try_from(offset / first).ok()?;
            return (index < self.filters.len()).then_some((index, offset % first));
        }
        let mut left = offset;
        for (index, filter) in self.filters.iter().enumerate() {
            match left.checked_sub(filter.size()) {
                Some(after) => left = after,
                None => return Some((index, left)),
            }
        }
        None
    }

    /// Copies the object, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let summaries = self.summaries.as_ref();
        Some(Self {
            filters: memory::collected(self.filters.iter().map(Buckets::try_clone))?,
            summaries: summaries.and_then(|summaries| summaries.try_clone()),
            ..*self
        })
    }

    /// Moves the allocations to other memory, starting with step `first`. Returns the step to resume at, or `None` at
    /// the end.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        let filters = self.filters.len();
        let summaries = self.summaries.as_ref().map_or(0, |s| s.movable());
        for step in first..=filters + summaries {
            if step > first && by.should_stop() {
                return Some(step);
            }
            match (step.checked_sub(1), &mut self.summaries) {
                (None, _) => self.filters = by.table(std::mem::take(&mut self.filters)),
                (Some(index), Some(summaries)) if index >= filters => {
                    summaries.relocate(index - filters, by);
                }
                (Some(index), _) => self.filters[index].relocate(|slots| by.blob(slots)),
            }
        }
        self.assert_valid();
        None
    }

    /// Computes the summaries and sums from the filters.
    fn sum_up(&mut self) {
        self.summaries = Summaries::of(&self.filters, self.shape.bucket_size);
        self.size = self.filters.iter().map(Buckets::size).sum();
        let bytes = self.filters.iter().map(|f| f.slots().len() as u64);
        self.slot_bytes = bytes.sum();
    }

    /// Asserts that the object is valid, in builds with debug assertions and if that takes little time.
    fn assert_valid(&self) {
        if cfg!(debug_assertions) && self.size() <= 1 << 12 {
            assert!(self.outline().check().is_ok());
            let bytes: usize = self.filters.iter().map(|f| f.slots().len()).sum();
            assert_eq!(self.slot_bytes, bytes as u64);
            let size: u64 = self.filters.iter().map(Buckets::size).sum();
            assert_eq!(self.size, size);
            for (index, filter) in self.filters.iter().enumerate() {
                assert_eq!(self.shape.bytes_of(index as u64), Some(filter.size()));
                assert!(filter.is_valid(), "filter {index}");
            }
            if let Some(summaries) = &self.summaries {
                let anew = Summaries::of(&self.filters, self.shape.bucket_size).expect("memory");
                assert!(summaries.matches(&anew));
            }
        }
    }
}

/// The reason that a chunk is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The chunk is empty, or not within one filter.
    Misplaced,
    /// There is not enough memory for the filter's slots.
    NoMemory,
}

crate::error::texts!(ChunkError {
    Self::Misplaced => "the chunk is not within one filter",
    Self::NoMemory => "not enough memory",
});

/// The condition for ending a compaction early.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The compaction never ends early.
    Never,
    /// The compaction ends at the first filter that can't be emptied.
    AtRemainder,
}
