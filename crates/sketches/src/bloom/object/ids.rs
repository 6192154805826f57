//! The ids of items in a stack of counters, by filter.
//!
//! Each filter keeps the interval of the ids that it took. An item with an id is removed if exactly one filter claims
//! it, of those whose interval holds the id. The filter that counted the item is among these, so no other filter loses
//! counts: ids may come in any order. With rising ids, intervals do not overlap, except for an id that two filters
//! share, and removal is exact, as in dablooms (Bitly 2012). If they overlap, a false positive occasionally leaves an
//! item in place, as happens without ids.
//!
//! An item that is added with several ids may be in several filters, and each of them counts it among its items. The
//! *repeats* are those beyond the first, so that the number of items is that of different ones.

use crate::machine::memory;

/// The lowest and the highest id that a filter took.
pub type Interval = (u64, u64);

/// The ids that the filters of a stack took.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The interval of each filter, if it took ids; empty until one does.
    pub intervals: Box<[Option<Interval>]>,
    /// The number of items that a filter took although another one claimed them; 0 without intervals.
    pub repeats: u64,
}

/// Returns the smallest interval that contains two others.
pub fn hull(one: Option<Interval>, other: Option<Interval>) -> Option<Interval> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

impl Ids {
    /// Creates the ids of these intervals, without a table if no filter has one.
    pub fn new(intervals: Box<[Option<Interval>]>, repeats: u64) -> Self {
        if intervals.iter().all(Option::is_none) {
            return Self::default();
        }
        Self { intervals, repeats }
    }

    /// Returns whether no filter took ids so far.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    pub fn interval(&self, index: usize) -> Option<Interval> {
        self.intervals.get(index).copied().flatten()
    }

    /// Returns whether a filter's interval contains an id.
    pub fn holds(&self, index: usize, id: u64) -> bool {
        let interval = self.interval(index);
        interval.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&id))
    }

    /// Returns whether a filter may hold counts of an item with this id, or without one.
    pub fn may_hold(&self, index: usize, id: Option<u64>) -> bool {
        id.is_none_or(|id| self.holds(index, id))
    }

    /// Returns whether a filter's interval overlaps another.
    pub fn overlaps(&self, index: usize) -> bool {
        let Some((lowest, highest)) = self.interval(index) else {
            return false;
        };
        let meet = |other: &Interval| other.0 <= highest && other.1 >= lowest;
        // The filter's own interval is one of them.
        let intervals = self.intervals.iter().flatten();
        intervals.filter(|other| meet(other)).count() > 1
    }

    /// Clears the ids of a filter that is empty again.
    pub fn forget(&mut self, index: usize) {
        if let Some(interval) = self.intervals.get_mut(index) {
            *interval = None;
        }
    }

    /// Checks that these can be the ids of a stack of `filters` filters.
    pub fn check(&self, filters: usize) -> Result<(), &'static str> {
        if !self.is_empty() && self.intervals.len() != filters {
            return Err("ids of another number of filters");
        }
        if self.is_empty() && self.repeats > 0 {
            return Err("repeats without ids");
        }
        let mut intervals = self.intervals.iter().flatten();
        if intervals.all(|(lowest, highest)| lowest <= highest) {
            Ok(())
        } else {
            Err("ids out of order")
        }
    }

    /// Returns the size of the table in bytes, without `self`.
    pub fn memory_bytes(&self) -> u64 {
        size_of_val(&*self.intervals) as u64
    }

    pub fn try_clone(&self) -> Option<Self> {
        self.copy(self.intervals.len())
    }

    /// Copies the table, extended to `entries` entries. Returns `None` if allocation fails.
    pub fn copy(&self, entries: usize) -> Option<Self> {
        let mut intervals = memory::reserved(entries)?;
        intervals.extend_from_slice(&self.intervals);
        intervals.resize(entries, None);
        Some(Self {
            intervals: memory::boxed(intervals)?,
            repeats: self.repeats,
        })
    }
}
