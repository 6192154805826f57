//! Which ids went into which filter of a stack of counters.
//!
//! Each filter keeps the interval of the ids that it took. An item with an id is removed where exactly one
//! filter of those whose interval holds the id claims it. The filter that counted it is among these, so that
//! no other one loses counts: ids may come in any order. With rising ids intervals do not overlap, but for an
//! id that two filters share, and removal is exact, as in dablooms (Bitly 2012). Where they overlap, a false
//! positive leaves an item in place now and then, as it does without ids.

use crate::bloom::law::{Allowance, Growth, Refusal};
use crate::bloom::stack::Stack;
use crate::hash::Probe;
use crate::machine::memory;

/// The lowest and the highest id that a filter took.
pub type Interval = (u64, u64);

/// The ids that the filters of a stack took.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The interval of each filter that took ids; empty until one does.
    pub intervals: Vec<Option<Interval>>,
}

/// The smallest interval that holds two others.
pub fn hull(one: Option<Interval>, other: Option<Interval>) -> Option<Interval> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

impl Ids {
    /// Ids of these intervals, without a table if there are none.
    pub fn new(intervals: Vec<Option<Interval>>) -> Self {
        if intervals.iter().all(Option::is_none) {
            return Self::default();
        }
        Self { intervals }
    }

    /// Whether no filter took ids so far.
    pub const fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    pub fn interval(&self, index: usize) -> Option<Interval> {
        self.intervals.get(index).copied().flatten()
    }

    /// Whether a filter's interval holds an id.
    pub fn holds(&self, index: usize, id: u64) -> bool {
        let interval = self.interval(index);
        interval.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&id))
    }

    /// The filter to count an item in, which is recorded as that of its id, if it has one. Calls `allowance`
    /// only if the stack, or this table, has to grow.
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
            // To the filter with its earlier counts, so that one filter holds all of them.
            None => claimant.or_else(|| with_room(stack)),
        };
        // One entry for each filter, and for the one to be stacked.
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

    /// The filter for an item with an id, if there is one that takes it. Of several, the newest.
    fn choose(&self, stack: &Stack, probe: Probe, id: u64) -> Option<usize> {
        let filters = stack.filters();
        let newest = |wanted: &dyn Fn(usize) -> bool| {
            let mut newest_first = (0..filters.len()).rev();
            newest_first.find(|index| wanted(*index))
        };
        let holds = |index: usize| self.holds(index, id);
        let has_room = |index: usize| !filters[index].is_full();
        let claims = |index: usize| filters[index].contains(probe);
        // One whose interval holds the id. If it claims the item, that takes no room, and its counts stay
        // together.
        let held = newest(&|index| holds(index) && claims(index));
        let held = held.or_else(|| newest(&|index| holds(index) && has_room(index)));
        if held.is_some() {
            return held;
        }
        // One whose interval reaches the id without overlapping another.
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
            // There will be no other. One that is full takes what it knows.
            return with_room(stack).or_else(|| newest(&claims));
        }
        // While intervals are apart, an id above all of them keeps them apart: room that removals made in an
        // older filter is not used before that filter is empty.
        let rises = !is_held && above.is_none();
        with_room(stack).filter(|index| !rises || self.overlaps(*index))
    }

    /// The filter that takes the next new item, if that is certain whatever the item: neither the stack nor this
    /// table has to grow, and no interval.
    pub fn next_with_room(&self, stack: &Stack, id: Option<u64>) -> Option<usize> {
        let filters = stack.filters();
        if !self.is_empty() && self.intervals.len() < filters.len() {
            return None;
        }
        let takes = |index: &usize| !filters[*index].is_full() && self.may_hold(*index, id);
        (0..filters.len()).rev().find(takes)
    }

    /// Whether the counts of an item with this id, or without one, may be in a filter.
    pub fn may_hold(&self, index: usize, id: Option<u64>) -> bool {
        id.is_none_or(|id| self.holds(index, id))
    }

    /// Whether a filter's interval overlaps another.
    fn overlaps(&self, index: usize) -> bool {
        let Some((lowest, highest)) = self.interval(index) else {
            return false;
        };
        let meet = |other: &Interval| other.0 <= highest && other.1 >= lowest;
        // Itself, and another.
        self.intervals
            .iter()
            .flatten()
            .filter(|other| meet(other))
            .count()
            > 1
    }

    /// Forgets the ids of a filter that claims nothing any more.
    pub fn forget(&mut self, index: usize) {
        if let Some(interval) = self.intervals.get_mut(index) {
            *interval = None;
        }
    }

    /// Requires that these are ids of a stack of so many filters.
    pub fn check(&self, filters: usize) -> Result<(), &'static str> {
        if !self.is_empty() && self.intervals.len() != filters {
            return Err("ids of another number of filters");
        }
        let mut intervals = self.intervals.iter().flatten();
        if intervals.all(|(lowest, highest)| lowest <= highest) {
            Ok(())
        } else {
            Err("ids out of order")
        }
    }

    /// Bytes of memory outside the value itself.
    pub const fn memory_bytes(&self) -> u64 {
        (self.intervals.capacity() * size_of::<Option<Interval>>()) as u64
    }

    pub fn try_clone(&self) -> Option<Self> {
        self.copy(self.intervals.len())
    }

    /// A copy with so many entries, at least as many as there are.
    fn copy(&self, entries: usize) -> Option<Self> {
        let mut intervals = memory::reserved(entries)?;
        intervals.extend_from_slice(&self.intervals);
        intervals.resize(entries, None);
        Some(Self { intervals })
    }
}

/// The newest filter with room. Filters of counters may have room again.
fn with_room(stack: &Stack) -> Option<usize> {
    stack.filters().iter().rposition(|filter| !filter.is_full())
}
