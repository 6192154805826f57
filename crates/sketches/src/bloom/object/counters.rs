//! Objects with counters: a stack whose items can be removed, and the ids that its filters took.
//!
//! All counts of an item without an id stay in one filter. An item with an id goes to a filter whose interval of ids
//! holds it, else to the next one, else where there is room.

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Allowance, Growth, Refusal};
use crate::bloom::stack::{self, Added, Row, Stack};
use crate::hash::{BATCH, Batch, Hasher, Probe};
use crate::machine::memory;

use super::ids::{Ids, hull};
use super::shape::{Kind, Shape};

/// An object with counters.
#[derive(Debug)]
pub struct Counters {
    /// The requested capacity.
    pub capacity: u64,
    pub stack: Stack,
    /// The ids that each filter took.
    pub ids: Ids,
}

impl Counters {
    /// Size of an object without filters, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(144) as u64;

    /// Creates an object with an empty filter.
    pub fn new(shape: &Shape, hasher: Hasher, allowance: Allowance) -> Result<Self, Refusal> {
        let law = shape.law().ok_or(Refusal::RateTooSmall)?;
        let capacity = shape.params.capacity;
        // The base of the stack is part of this object's.
        let allowance = allowance.beside(Self::BASE_BYTES - Stack::BASE_BYTES);
        let stack = Stack::new(law, hasher, Cells::Counters);
        Ok(Self {
            capacity,
            stack: stack.with_first(capacity, allowance, Filter::new)?,
            ids: Ids::default(),
        })
    }

    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            capacity: self.capacity,
            stack: self.stack.try_clone()?,
            ids: self.ids.try_clone()?,
        })
    }

    /// Returns the requested shape.
    pub fn shape(&self) -> Shape {
        Shape {
            params: self.stack.law().series().params(self.capacity),
            kind: Kind::Counting,
        }
    }

    /// Returns the number of different items: those that several filters took count once.
    pub const fn items(&self) -> u64 {
        self.stack.items().saturating_sub(self.ids.repeats)
    }

    /// Returns the exact sum of the object's allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        self.stack.memory_bytes() + self.bytes_beside_stack()
    }

    fn bytes_beside_stack(&self) -> u64 {
        Self::BASE_BYTES - Stack::BASE_BYTES + self.ids.memory_bytes()
    }

    /// Returns the capacity that the object can grow to before a limit stops it.
    pub fn reach(&self, allowance: Allowance) -> u64 {
        self.stack
            .reach(allowance.beside(self.bytes_beside_stack()))
    }

    /// Adds an item, and records its id, if it has one. Calls `allowance` only if the object has to grow.
    pub fn add(
        &mut self,
        probe: Probe,
        id: Option<u64>,
        allowance: impl FnOnce() -> Allowance,
    ) -> Result<Added, Refusal> {
        // The only filter takes the item whether or not it claims it.
        if self.stack.filters().len() == 1 && self.next_with_room(id) == Some(0) {
            let new = self.stack.count_up(0, probe);
            return Ok(if new { Added::New } else { Added::Again });
        }
        let claimant = self.stack.claimants(probe).next();
        let index = self.place(probe, claimant, id, allowance)?;
        let new_here = self.stack.count_up(index, probe);
        Ok(self.taken(new_here, claimant.is_some()))
    }

    /// Returns the outcome of counting an item in a filter, to which it is new or not, where another filter claims it or
    /// none does.
    fn taken(&mut self, new_here: bool, is_elsewhere: bool) -> Added {
        if new_here && is_elsewhere {
            self.ids.repeats = self.ids.repeats.saturating_add(1);
        }
        if new_here && !is_elsewhere {
            Added::New
        } else {
            Added::Again
        }
    }

    /// Adds items in order, and passes the result of [`add`](Self::add) for each to `outcome`. Stops after the first
    /// refusal.
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        id: Option<u64>,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        loop {
            let batch = Batch::of(self.stack.hasher(), &mut items);
            let mut row = Row::new(&batch);
            let mut next = 0;
            while next < batch.len() {
                next = self.add_batch(&mut row, next, id, |added| outcome(Ok(added)));
                // The object may have to grow for this item.
                if next < batch.len() {
                    let added = self.add(batch.probe(next), id, &allowance);
                    outcome(added);
                    if added.is_err() {
                        return;
                    }
                    next += 1;
                }
            }
            if batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds items of a batch, from `first` on, and passes each result to `each`. Stops at an item that does not simply fit
    /// a filter with room. Returns the index of that item.
    fn add_batch(
        &mut self,
        row: &mut Row,
        first: usize,
        id: Option<u64>,
        mut each: impl FnMut(Added),
    ) -> usize {
        let Some(target) = self.next_with_room(id) else {
            return first;
        };
        let batch = row.batch;
        row.forget();
        // Until the target is full, no other filter starts to claim an item: items counted there are claimed already.
        // An item is counted in the newest filter that claims it, of those that may hold its counts.
        let items = batch.mask_from(first);
        let (mut after, mut before, mut elsewhere) = (0, 0, 0);
        let mut owners = [0; BATCH];
        for (index, filter) in self.stack.filters().iter().enumerate().rev() {
            let candidates = items & !(after | before);
            if index == target {
                continue;
            }
            if !self.ids.may_hold(index, id) {
                elsewhere |= stack::claims(batch, filter, candidates & !elsewhere);
                continue;
            }
            let claimed = stack::claims(batch, filter, candidates);
            for (item, owner) in owners.iter_mut().enumerate() {
                if claimed >> item & 1 == 1 {
                    *owner = index;
                }
            }
            let side = if index > target {
                &mut after
            } else {
                &mut before
            };
            *side |= claimed;
        }
        for (item, owner) in owners.into_iter().enumerate().take(batch.len()).skip(first) {
            let (probe, bit) = (batch.probe(item), 1 << item);
            let takes = |stack: &Stack| stack.filters()[target].contains(probe);
            if after & bit != 0 || before & bit != 0 && !takes(&self.stack) {
                let was_full = self.stack.filters()[owner].is_full();
                self.stack.count_up(owner, probe);
                each(Added::Again);
                // Counting corrected an implausible number of items.
                if self.stack.filters()[owner].is_full() != was_full {
                    return item + 1;
                }
                continue;
            }
            if self.stack.filters()[target].is_full() && !takes(&self.stack) {
                return item;
            }
            let new_here = self.stack.count_up_in(target, row, item);
            each(self.taken(new_here, elsewhere & bit != 0));
        }
        batch.len()
    }

    /// Returns the filter to count an item in, and adds the id, if there is one, to its interval. Calls `allowance`
    /// only if the stack or this table has to grow.
    ///
    /// `claimant` is the newest filter that claims the item.
    fn place(
        &mut self,
        probe: Probe,
        claimant: Option<usize>,
        id: Option<u64>,
        allowance: impl FnOnce() -> Allowance,
    ) -> Result<usize, Refusal> {
        let found = match id {
            Some(id) => self.choose(probe, id),
            // All counts of an item stay in one filter.
            None => claimant.or_else(|| self.with_room()),
        };
        // One entry for each filter, including one about to be stacked.
        let stacks = found.is_none() && self.stack.law().growth() != Growth::Fixed;
        let entries = self.stack.filters().len() + usize::from(stacks);
        let lacks = (id.is_some() || !self.ids.is_empty()) && self.ids.intervals.len() < entries;
        let table = if lacks {
            Some(self.ids.copy(entries).ok_or(Refusal::OutOfMemory)?)
        } else {
            None
        };
        let more = table.as_ref().map_or(0, Ids::memory_bytes);
        let more = more.saturating_sub(self.ids.memory_bytes());
        let index = match found {
            Some(index) if more == 0 => index,
            _ => {
                let allowance = allowance().beside(self.bytes_beside_stack() + more);
                if more > 0 && self.stack.memory_bytes() > allowance.limits.object_bytes {
                    return Err(Refusal::MemoryLimit);
                }
                found.map_or_else(|| self.stack.make_room(allowance), Ok)?
            }
        };
        if let Some(table) = table {
            self.ids = table;
        }
        if let Some(id) = id {
            self.ids.intervals[index] = hull(self.ids.interval(index), Some((id, id)));
        }
        Ok(index)
    }

    /// Returns the filter for an item with an id, if any takes it; of several the newest.
    fn choose(&self, probe: Probe, id: u64) -> Option<usize> {
        let (filters, ids) = (self.stack.filters(), &self.ids);
        let newest = |wanted: &dyn Fn(usize) -> bool| {
            let mut newest_first = (0..filters.len()).rev();
            newest_first.find(|index| wanted(*index))
        };
        let holds = |index: usize| ids.holds(index, id);
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
        let intervals = || ids.intervals.iter().flatten();
        let is_held = intervals().any(|(lowest, highest)| (*lowest..=*highest).contains(&id));
        let below = intervals().map(|interval| interval.1).filter(|at| *at < id);
        let above = intervals().map(|interval| interval.0).filter(|at| *at > id);
        let (below, above) = (below.max(), above.min());
        let reaches = |index: usize| {
            let interval = ids.interval(index);
            interval.is_none_or(|(lowest, highest)| Some(highest) == below || Some(lowest) == above)
        };
        let next = |index: usize| !is_held && reaches(index) && (has_room(index) || claims(index));
        if let Some(index) = newest(&next) {
            return Some(index);
        }
        if self.stack.law().growth() == Growth::Fixed {
            // No filter will follow. A full one takes items that it claims.
            return self.with_room().or_else(|| newest(&claims));
        }
        // An id above all intervals keeps them disjoint: room from removals in an older filter is not used before that
        // filter is empty.
        let rises = !is_held && above.is_none();
        let with_room = self.with_room();
        with_room.filter(|index| !rises || ids.overlaps(*index))
    }

    /// Returns the filter for the next new item, if it does not depend on the item: the stack, this table and the
    /// intervals stay as they are.
    fn next_with_room(&self, id: Option<u64>) -> Option<usize> {
        let (filters, ids) = (self.stack.filters(), &self.ids);
        if !ids.is_empty() && ids.intervals.len() < filters.len() {
            return None;
        }
        let takes = |index: &usize| !filters[*index].is_full() && ids.may_hold(*index, id);
        (0..filters.len()).rev().find(takes)
    }

    /// Returns the newest filter with room. Removals make room in filters of counters.
    fn with_room(&self) -> Option<usize> {
        let mut filters = self.stack.filters().iter();
        filters.rposition(|filter| !filter.is_full())
    }

    /// Removes one count of an item. Returns whether it did: only if exactly one filter claims the item, or with an id,
    /// exactly one of the filters whose interval holds it. Removing an item that was never added takes a count from other
    /// items, which may then be missing.
    pub fn remove(&mut self, probe: Probe, id: Option<u64>) -> bool {
        let Self { stack, ids, .. } = self;
        let (mut holder, mut is_elsewhere) = (None, false);
        for index in stack.claimants(probe) {
            if !ids.may_hold(index, id) {
                is_elsewhere = true;
            } else if holder.replace(index).is_some() {
                return false;
            }
        }
        let Some(index) = holder else {
            return false;
        };
        let removed = stack.count_down(index, probe);
        let filter = &stack.filters()[index];
        if removed && is_elsewhere && !filter.contains(probe) {
            ids.repeats = ids.repeats.saturating_sub(1);
        }
        if filter.is_unused() {
            ids.forget(index);
        }
        if stack.items() == 0 {
            ids.repeats = 0;
        }
        removed
    }
}
