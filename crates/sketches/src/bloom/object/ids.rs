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

use crate::bloom::law::{Allowance, Growth, Refusal};
use crate::bloom::stack::Stack;
use crate::hash::Probe;
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

    /// Returns the filter to count an item in, and adds the id, if there is one, to its interval. Calls `allowance`
    /// only if the stack or this table has to grow.
    ///
    /// `claimant` is the newest filter that claims the item.
    pub fn place(
        &mut self,
        stack: &mut Stack,
        probe: Probe,
        claimant: Option<usize>,
        id: Option<u64>,
        allowance: impl FnOnce() -> Allowance,
    ) -> Result<usize, Refusal> {
        let found = match id {
            Some(id) => self.choose(stack, probe, id),
            // All counts of an item stay in one filter.
            None => claimant.or_else(|| with_room(stack)),
        };
        // One entry for each filter, including one about to be stacked.
        let stacks = found.is_none() && stack.law().growth() != Growth::Fixed;
        let entries = stack.filters().len() + usize::from(stacks);
        let lacks = (id.is_some() || !self.is_empty()) && self.intervals.len() < entries;
        let table = if lacks {
            Some(self.copy(entries).ok_or(Refusal::OutOfMemory)?)
        } else {
            None
        };
        let more = table.as_ref().map_or(0, Self::memory_bytes);
        let more = more.saturating_sub(self.memory_bytes());
        let index = match found {
            Some(index) if more == 0 => index,
            _ => {
                let allowance = allowance().beside(more);
                if more > 0 && stack.memory_bytes() > allowance.limits.object_bytes {
                    return Err(Refusal::MemoryLimit);
                }
                found.map_or_else(|| stack.make_room(allowance), Ok)?
            }
        };
        if let Some(table) = table {
            *self = table;
        }
        if let Some(id) = id {
            self.intervals[index] = hull(self.interval(index), Some((id, id)));
        }
        Ok(index)
    }

    /// Returns the filter for an item with an id, if any takes it; of several the newest.
    fn choose(&self, stack: &Stack, probe: Probe, id: u64) -> Option<usize> {
        let filters = stack.filters();
        let newest = |wanted: &dyn Fn(usize) -> bool| {
            let mut newest_first = (0..filters.len()).rev();
            newest_first.find(|index| wanted(*index))
        };
        let holds = |index: usize| self.holds(index, id);
        let has_room = |index: usize| !filters[index].is_full();
        let claims = |index: usize| filters[index].contains(probe);
        // First choice: a filter whose interval holds the id. If it claims the item too, that takes no room, and the
        // counts stay together.
        let held = newest(&|index| holds(index) && claims(index));
        let held = held.or_else(|| newest(&|index| holds(index) && has_room(index)));
        if held.is_some() {
            return held;
        }
        // Second choice: a filter whose interval reaches the id without overlapping another.
        let intervals = || self.intervals.iter().flatten();
        let is_held = intervals().any(|(lowest, highest)| (*lowest..=*highest).contains(&id));
        let below = intervals().map(|interval| interval.1).filter(|at| *at < id);
        let above = intervals().map(|interval| interval.0).filter(|at| *at > id);
        let (below, above) = (below.max(), above.min());
        let reaches = |index: usize| {
            let interval = self.interval(index);
            interval.is_none_or(|(lowest, highest)| Some(highest) == below || Some(lowest) == above)
        };
        let next = |index: usize| !is_held && reaches(index) && (has_room(index) || claims(index));
        if let Some(index) = newest(&next) {
            return Some(index);
        }
        if stack.law().growth() == Growth::Fixed {
            // No filter will follow. A full one takes items that it claims.
            return with_room(stack).or_else(|| newest(&claims));
        }
        // An id above all intervals keeps them disjoint: room from removals in an older filter is not used before that
        // filter is empty.
        let rises = !is_held && above.is_none();
        with_room(stack).filter(|index| !rises || self.overlaps(*index))
    }

    /// Returns the filter for the next new item, if it does not depend on the item: the stack, this table and the
    /// intervals stay as they are.
    pub fn next_with_room(&self, stack: &Stack, id: Option<u64>) -> Option<usize> {
        let filters = stack.filters();
        if !self.is_empty() && self.intervals.len() < filters.len() {
            return None;
        }
        let takes = |index: &usize| !filters[*index].is_full() && self.may_hold(*index, id);
        (0..filters.len()).rev().find(takes)
    }

    /// Returns whether a filter may hold counts of an item with this id, or without one.
    pub fn may_hold(&self, index: usize, id: Option<u64>) -> bool {
        id.is_none_or(|id| self.holds(index, id))
    }

    /// Returns whether a filter's interval overlaps another.
    fn overlaps(&self, index: usize) -> bool {
        let Some((lowest, highest)) = self.interval(index) else {
            return false;
        };
        let meet = |other: &Interval| other.0 <= highest && other.1 >= lowest;
        // The filter's own interval is one of them.
        self.intervals
            .iter()
            .flatten()
            .filter(|other| meet(other))
            .count()
            > 1
    }

    /// Enters an item that a filter took as new although another filter claims it.
    pub fn repeat(&mut self) {
        self.repeats = self.repeats.saturating_add(1);
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

/// Returns the newest filter with room. Removals make room in filters of counters.
fn with_room(stack: &Stack) -> Option<usize> {
    stack.filters().iter().rposition(|filter| !filter.is_full())
}
