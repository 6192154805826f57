//! Cuckoo filters: sets of fingerprints, from which items can be removed.
//!
//! An *object* is a list of *filters*, oldest first, each an array of *buckets* of a few *slots*. An item is
//! hashed once, into a [`Place`]: a fingerprint of one byte, and two buckets of which either may hold it. The
//! second bucket follows from the first and the fingerprint, so that a fingerprint can be moved to its other
//! bucket without its item. Where both are full that makes room, and where it does not the next filter is made.
//!
//! ```text
//!   item ──hash──▶ Place ──▶ filter n−1 (newest)   B·eⁿ⁻¹ buckets of s slots
//!                        ──▶ …
//!                        ──▶ filter 0              B buckets
//! ```
//!
//! The stored slots, and so the rules by which they are filled, moved and emptied, are those of `RedisBloom`.
//!
//! Credits: Fan, Andersen, Kaminsky and Mitzenmacher 2014.

mod buckets;
mod outline;
mod place;
mod room;
mod shape;
mod summary;
pub mod wire;

pub use buckets::{Buckets, NoMemory};
pub use outline::{Outline, StoredOutline};
pub use place::Place;
pub use shape::{FILTER_BYTES_MAX, FILTERS_MAX, Limits, Params, Refusal, Shape, ranges};

use crate::machine::memory::Relocate;
use crate::machine::work;

use place::Places;
use room::Room;
use summary::{Summaries, group_size};

impl From<NoMemory> for Refusal {
    fn from(NoMemory: NoMemory) -> Self {
        Self::OutOfMemory
    }
}

/// A cuckoo filter that grows.
#[derive(Debug)]
pub struct Cuckoo {
    shape: Shape,
    /// Oldest first, at least one.
    filters: Vec<Buckets>,
    /// Items that are in, as far as whoever stored it said.
    items: u64,
    /// Removals since the last compaction.
    deletes: u64,
    /// Slots of all filters.
    size: u64,
    /// Bytes of the slots that take memory.
    slot_bytes: u64,
    /// Where filters are many: each that has memory, and is not of the first group, is in there. `None` where they are
    /// few, or where memory was refused, so that all have to be searched.
    summaries: Option<Box<Summaries>>,
}

impl Cuckoo {
    /// Bytes of an object without its filters.
    pub const BASE_BYTES: u64 = size_of::<Self>() as u64;

    /// An empty object of one filter.
    ///
    /// # Errors
    /// Why the limits, or the memory there is, do not admit it.
    pub fn new(shape: Shape, limits: &Limits) -> Result<Self, Refusal> {
        let mut object = Self {
            shape,
            filters: Vec::new(),
            items: 0,
            deletes: 0,
            size: 0,
            slot_bytes: 0,
            summaries: None,
        };
        object.grow(limits)?;
        Ok(object)
    }

    /// Makes the object that an outline claims, with nothing in it: a filter takes memory with the first byte that is
    /// written to it. Returns `None` if the limits do not admit all that is claimed, or there is no memory for the
    /// table.
    pub fn claimed(outline: &Outline, limits: &Limits) -> Option<Self> {
        let filters = outline.claim(Self::BASE_BYTES, limits)?;
        Some(Self::from_filters(outline, filters))
    }

    /// The object of this outline that has these slots in its filters, oldest first; no slots stand for empty ones,
    /// which take no memory. Returns `None` if there is no memory for its table.
    ///
    /// # Errors
    /// What is wrong with them, in words for a log.
    pub fn from_outline(
        outline: &Outline,
        slots: Vec<Vec<u8>>,
    ) -> Result<Option<Self>, &'static str> {
        let filters = outline.fill(slots)?;
        Ok(filters.map(|filters| Self::from_filters(outline, filters)))
    }

    fn from_filters(outline: &Outline, filters: Vec<Buckets>) -> Self {
        let mut object = Self {
            shape: outline.shape,
            filters,
            items: outline.items,
            deletes: outline.deletes,
            size: 0,
            slot_bytes: 0,
            summaries: None,
        };
        object.sum_up();
        object.assert_valid();
        object
    }

    /// The numbers that are stored of the object.
    pub fn outline(&self) -> StoredOutline {
        let Shape {
            first_buckets,
            bucket_size,
            max_iterations,
            expansion,
        } = self.shape;
        StoredOutline {
            filters: self.filters.len() as u64,
            first_buckets,
            items: self.items,
            deletes: self.deletes,
            bucket_size: bucket_size.into(),
            max_iterations: max_iterations.into(),
            expansion: expansion.into(),
        }
    }

    /// The shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The filters, oldest first.
    pub fn filters(&self) -> &[Buckets] {
        &self.filters
    }

    /// Items that are in. In damaged files it may be any number.
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Items removed since the last compaction.
    pub const fn deletes(&self) -> u64 {
        self.deletes
    }

    /// Slots of all filters, which is their size in bytes whether or not they take memory.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The exact sum of the object's allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        let table = self.filters.capacity() * size_of::<Buckets>();
        let summaries = self.summaries.as_ref().map_or(0, |s| s.memory_bytes());
        Self::BASE_BYTES + table as u64 + self.slot_bytes + summaries
    }

    /// Whether an item is in, or seems to be.
    #[inline]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.holds(Place::of(item))
    }

    /// Newest first: it is the largest.
    #[inline]
    fn holds(&self, place: Place) -> bool {
        let summaries = self.summaries.as_ref();
        summaries.is_some_and(|summaries| summaries.holds(place))
            || self.searched().iter().rev().any(|f| f.contains(place))
    }

    /// The filters without a summary.
    #[inline]
    fn searched(&self) -> &[Buckets] {
        match self.summaries {
            Some(_) => &self.filters[..group_size(self.shape.bucket_size)],
            None => &self.filters,
        }
    }

    /// Reports for each item whether it is in, or seems to be.
    #[inline]
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        mut report: impl FnMut(bool),
    ) {
        let (mut items, mut places) = (items.fuse(), Places::new());
        while places.take(&mut items) {
            // A bit for each item.
            let (mut found, mut left) = (0, places.mask());
            if let Some(summaries) = &self.summaries {
                let mut report = |index, holds| found |= u64::from(holds) << index;
                places.each(left, |index, place| report(index, summaries.holds(place)));
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

    /// How often an item was added and not removed, as far as fingerprints tell: items with the same one and the
    /// same buckets count too, and a fingerprint whose two buckets are one counts twice.
    pub fn count(&self, item: &[u8]) -> u64 {
        let place = Place::of(item);
        self.filters.iter().map(|f| f.count(place)).sum()
    }

    /// Adds an item once more, or with `unless_known` if it is not in. Returns whether it was added. The limits are
    /// only asked for where it needs another filter.
    ///
    /// # Errors
    /// Why there is no room.
    #[inline]
    pub fn add(
        &mut self,
        item: &[u8],
        unless_known: bool,
        limits: impl Fn() -> Limits,
    ) -> Result<bool, Refusal> {
        self.put(Place::of(item), unless_known, limits)
    }

    /// The same for many items. Reports for each whether it was added.
    #[inline]
    pub fn add_each<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        unless_known: bool,
        limits: impl Fn() -> Limits,
        mut report: impl FnMut(Result<bool, Refusal>),
    ) {
        let (mut items, mut places) = (items.fuse(), Places::new());
        while places.take(&mut items) {
            for filter in self.searched().iter().rev() {
                filter.prefetch_each(&places, places.mask());
            }
            places.each(places.mask(), |_, place| {
                report(self.put(place, unless_known, &limits));
            });
        }
    }

    fn put(
        &mut self,
        place: Place,
        unless_known: bool,
        limits: impl Fn() -> Limits,
    ) -> Result<bool, Refusal> {
        if unless_known && self.holds(place) {
            return Ok(false);
        }
        while !self.put_in_slot(place)? {
            self.grow(&limits())?;
        }
        self.items = self.items.saturating_add(1);
        self.assert_valid();
        Ok(true)
    }

    /// Puts a fingerprint into an empty slot of its buckets, newest filter first, or else into one that is made
    /// in the newest. Returns whether there was one.
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

    /// Notes in the summaries what was changed in a filter that has memory, if it has one. Without memory for that there
    /// are no summaries any more.
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

    /// Makes the next filter.
    #[cold]
    fn grow(&mut self, limits: &Limits) -> Result<(), Refusal> {
        let index = self.filters.len() as u64;
        if index > 0 && self.shape.expansion == 0 {
            return Err(Refusal::Full);
        }
        if index >= limits.filters {
            return Err(Refusal::MaxFilters);
        }
        let buckets = self.shape.buckets_of(index).ok_or(Refusal::MemoryLimit)?;
        let mut filter = Buckets::unallocated(buckets, self.shape.bucket_size);
        let summaries = |filters| Summaries::most_bytes(filters, buckets, self.shape.bucket_size);
        let summaries = summaries(index + 1) - summaries(index);
        let total = self.memory_bytes() + size_of::<Buckets>() as u64 + filter.size() + summaries;
        if filter.size() > limits.filter_bytes || total > limits.object_bytes {
            return Err(Refusal::MemoryLimit);
        }
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

    /// Removes an item once. Returns whether it was in, or seemed to be: to remove what was never added may remove
    /// another item.
    pub fn remove(&mut self, item: &[u8]) -> bool {
        let place = Place::of(item);
        let summaries = self.summaries.as_ref();
        let end = summaries.map_or(usize::MAX, |summaries| summaries.end_of_holders(place));
        let end = end.min(self.filters.len());
        let taken_from = self.filters[..end]
            .iter_mut()
            .rposition(|f| f.remove(place));
        let Some(index) = taken_from else {
            return false;
        };
        self.summarize(index, |summaries, filters| {
            summaries.forget(index, filters, place);
        });
        self.items = self.items.saturating_sub(1);
        self.deletes = self.deletes.saturating_add(1);
        if self.filters.len() > 1 && self.is_due() {
            self.compact_filters(Stop::WhereSomethingStays);
        }
        self.assert_valid();
        true
    }

    /// Whether more than a tenth of what is in was removed. Where a header claimed too few items, the occupied slots
    /// decide, so that not each removal is followed by a compaction.
    fn is_due(&self) -> bool {
        let removed = self.deletes.saturating_mul(10);
        removed > self.items && removed > self.filters.iter().map(Buckets::occupied).sum()
    }

    /// Moves what it can to older filters, and drops the newest ones that are empty then. Returns whether
    /// anything changed.
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
                if stop == Stop::WhereSomethingStays {
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

    /// Writes slots as they are stored, at an offset into those of all filters end to end. Returns whether they
    /// lie within one filter, as they must.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn write(&mut self, offset: u64, slots: &[u8]) -> Result<bool, NoMemory> {
        let Some((index, within)) = self.find(offset) else {
            return Ok(false);
        };
        let filter = &mut self.filters[index];
        if slots.is_empty() || slots.len() as u64 > filter.size() - within {
            return Ok(false);
        }
        let unallocated = filter.slots().is_empty();
        let start = usize::try_from(within).map_err(|_| NoMemory)?;
        let lost = filter.write(start, slots)?;
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
        Ok(true)
    }

    /// The filter at an offset into the slots of all filters end to end, and the offset into its own.
    pub fn find(&self, offset: u64) -> Option<(usize, u64)> {
        let first = self.filters.first()?.size();
        if self.shape.expansion == 1 {
            // There may be many.
            let index = usize::try_from(offset / first).ok()?;
            return (index < self.filters.len()).then_some((index, offset % first));
        }
        let mut left = offset;
        for (index, filter) in self.filters.iter().enumerate() {
            match left.checked_sub(filter.size()) {
                Some(behind) => left = behind,
                None => return Some((index, left)),
            }
        }
        None
    }

    /// A copy in memory of its own, or `None` where there is none.
    pub fn try_clone(&self) -> Option<Self> {
        let mut filters = Vec::new();
        filters.try_reserve_exact(self.filters.len()).ok()?;
        for filter in &self.filters {
            filters.push(filter.try_clone().ok()?);
        }
        let summaries = self.summaries.as_ref();
        let summaries = summaries.and_then(|summaries| summaries.try_clone());
        Some(Self {
            filters,
            summaries,
            ..*self
        })
    }

    /// Has the allocations moved to other memory, from step number `begin` on. Returns the number of the step at
    /// which to go on, or `None` at the end.
    pub fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize> {
        let filters = self.filters.len();
        let summaries = self.summaries.as_ref().map_or(0, |s| s.movable());
        for step in begin..=filters + summaries {
            if step > begin && by.has_enough() {
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

    /// Derives from the filters what is kept of them.
    fn sum_up(&mut self) {
        self.summaries = Summaries::of(&self.filters, self.shape.bucket_size);
        self.size = self.filters.iter().map(Buckets::size).sum();
        let bytes = self.filters.iter().map(|f| f.slots().len() as u64);
        self.slot_bytes = bytes.sum();
    }

    /// With debug assertions, checks that this is a valid object, if that takes little time.
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
                assert!(summaries.are(&anew));
            }
        }
    }
}

/// Where a compaction ends early.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Nowhere.
    Never,
    /// At the first filter that can't be emptied.
    WhereSomethingStays,
}
