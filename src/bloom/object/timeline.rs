//! Objects with a window, or with counters: a list of stacks, one for each *period* in which something was
//! added. A lookup covers those of the last `n` periods. Counters have no window: their one period lasts.
//!
//! ```text
//!   period    c−n      c−n+1   …   c−1       c        c+1
//!             passed   oldest                now      made ahead, for a time to live of the whole window
//! ```

use crate::bloom::filter::Filter;
use crate::bloom::hash::{BATCH, Batch, Hasher, Probe};
use crate::bloom::law::{Limits, Refusal};
use crate::bloom::stack::{self, Added, Known, ROW, Row, Stack};

use super::ids::Ids;
use super::shape::Shape;
use super::window::Time;

/// The items added in a period.
#[derive(Debug)]
pub struct Period {
    /// Its number: periods are numbered since the epoch. 0, without a window.
    pub number: u64,
    pub stack: Stack,
    /// Which ids went into which filter of counters.
    pub ids: Ids,
}

impl Period {
    /// Bytes beside the entry in the table of periods.
    pub fn memory_bytes(&self) -> u64 {
        self.stack.memory_bytes() - Stack::BASE_BYTES + self.ids.memory_bytes()
    }

    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            number: self.number,
            stack: self.stack.try_clone()?,
            ids: self.ids.try_clone()?,
        })
    }
}

/// A list of periods.
#[derive(Debug)]
pub struct Timeline {
    pub shape: Shape,
    /// How items are hashed.
    pub hasher: Hasher,
    /// In order of their numbers; with equal numbers, the newest last.
    pub periods: Vec<Period>,
}

impl Timeline {
    pub fn try_clone(&self) -> Option<Self> {
        let mut periods = Vec::new();
        periods.try_reserve_exact(self.periods.len()).ok()?;
        for period in &self.periods {
            periods.push(period.try_clone()?);
        }
        Some(Self { periods, ..*self })
    }

    /// The periods that answer, oldest first. Reads the time only if there is a window.
    pub fn live(&self, now_ms: impl FnOnce() -> u64) -> &[Period] {
        let Some(window) = self.shape.window() else {
            return &self.periods;
        };
        let current = window.period_at(now_ms());
        let passed = |period: &Period| window.has_passed(period.number, current);
        &self.periods[self.periods.partition_point(passed)..]
    }

    /// The periods that answer, in two parts: those before a period, and that one with those after it.
    fn live_around(&self, number: u64, now_ms: u64) -> (&[Period], &[Period]) {
        let live = self.live(|| now_ms);
        live.split_at(live.partition_point(|period| period.number < number))
    }

    #[inline(never)]
    pub fn contains(&self, probe: Probe, now_ms: impl FnOnce() -> u64) -> bool {
        any_contains(self.live(now_ms), probe)
    }

    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        answer: impl FnMut(Probe, bool),
    ) {
        let live = self.live(now_ms);
        stack::contains_each(&self.hasher, items, || newest_first(live), answer);
    }

    /// Frees the periods that have passed, and sets the others back with the clock, if that was. Returns whether
    /// anything changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let Some(window) = self.shape.window() else {
            return false;
        };
        let current = window.period_at(now_ms);
        let mut changed = false;
        // The newest period of a clock, and how far that was set back. What lies a window before it was merged in,
        // and is of another clock.
        let (mut newest, mut back) = (None, 0);
        for period in self.periods.iter_mut().rev() {
            let before = |newest: u64| window.has_passed(period.number, newest.saturating_sub(1));
            if newest.is_none_or(before) {
                newest = Some(period.number);
                back = period.number.saturating_sub(current.saturating_add(1));
            }
            period.number = period.number.saturating_sub(back);
            changed |= back > 0;
        }
        let has_passed = |period: &Period| window.has_passed(period.number, current);
        if !changed && !self.periods.iter().any(has_passed) {
            return false;
        }
        self.periods.retain(|period| !has_passed(period));
        self.periods.shrink_to_fit();
        self.periods.sort_by_key(|period| period.number);
        true
    }

    /// Adds an item, after [`tidy`](Self::tidy); to counters, with its id if it has one. Calls `limits` only
    /// if the object has to grow.
    pub fn add(
        &mut self,
        probe: Probe,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let target = self.target(time);
        let mut renews = false;
        if !self.shape.is_counting() {
            let (earlier, later) = self.live_around(target, time.now_ms);
            // A later period keeps it for as long as requested.
            if any_contains(later, probe) {
                return Ok(Added::Present);
            }
            renews = any_contains(earlier, probe);
        }
        let index = self.period_of(target);
        let added = if let Some(index) = index {
            self.add_to(index, probe, id, limits)
        } else {
            let index = self.open(target, limits())?;
            let added = self.add_to(index, probe, id, limits);
            if added.is_err() {
                self.periods.remove(index);
            }
            added
        };
        if renews { renewed(added) } else { added }
    }

    /// Adds each item in turn, and passes the result of [`add`](Self::add) to `outcome`. Stops after the first
    /// refusal.
    #[inline(never)]
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        let mut row = Row::new();
        loop {
            let batch = Batch::of(&self.hasher, &mut items);
            let mut each = |added: Result<_, _>| {
                outcome(added);
                added.is_ok()
            };
            let mut first = 0;
            while first < batch.len() {
                if self.shape.is_counting() {
                    first = self.count_batch(&batch, first, id, &mut row, &mut each);
                } else {
                    match self.add_batch(&batch, first, time, &mut row, &limits, &mut each) {
                        Some(true) => break,
                        Some(false) => return,
                        None => {}
                    }
                }
                // The object has to grow for the next item, or may have to.
                if first < batch.len() {
                    if !each(self.add(batch.probe(first), time, id, &limits)) {
                        return;
                    }
                    first += 1;
                }
            }
            if batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds the items of a batch from `first` on to a window, and passes each result to `each`, until that returns
    /// false. Returns whether all were tried; `None`, and does nothing, if there is no such period yet.
    fn add_batch(
        &mut self,
        batch: &Batch,
        first: usize,
        time: Time,
        row: &mut Row,
        limits: impl Fn() -> Limits,
        mut each: impl FnMut(Result<Added, Refusal>) -> bool,
    ) -> Option<bool> {
        let target = self.target(time);
        let index = self.period_of(target)?;
        let (earlier, later) = self.live_around(target, time.now_ms);
        let items = batch.mask_from(first);
        let present = stack::claims_of_any(batch, newest_first(later), items);
        let renewed_items = stack::claims_of_any(batch, newest_first(earlier), items & !present);
        let (period, limits) = self.beside_others(index, limits);
        let known = Known {
            present,
            asked: period.stack.filters().len() - 1,
        };
        let mut item = first;
        let each = |added| {
            let renews = renewed_items >> item & 1 == 1;
            item += 1;
            each(if renews { renewed(added) } else { added })
        };
        let stack = &mut period.stack;
        Some(stack.add_batch(batch, first, known, row, limits, each))
    }

    /// Adds items of a batch to counters, from `first` on, and passes each result to `each`, until it comes to
    /// one that needs more than a place in a filter which has room. Returns the number of that.
    fn count_batch(
        &mut self,
        batch: &Batch,
        first: usize,
        id: Option<u64>,
        row: &mut Row,
        mut each: impl FnMut(Result<Added, Refusal>) -> bool,
    ) -> usize {
        let Some(Period { stack, ids, .. }) = self.periods.last_mut() else {
            return first;
        };
        let Some(target) = ids.next_with_room(stack, id) else {
            return first;
        };
        // Until the target is full, no other filter comes to claim anything: what is counted there is claimed
        // already. An item goes to the newest that claims it, of those that may have its counts.
        let items = batch.mask_from(first);
        let (mut after, mut before, mut elsewhere) = (0, 0, 0);
        let mut owners = [0; BATCH];
        for (index, filter) in stack.filters().iter().enumerate().rev() {
            let candidates = items & !(after | before);
            if index == target {
                continue;
            }
            if !ids.may_hold(index, id) {
                elsewhere |= stack::claims(batch, filter, candidates & !elsewhere);
                continue;
            }
            let claimed = stack::claims(batch, filter, candidates);
            for (item, owner) in owners.iter_mut().enumerate() {
                if claimed >> item & 1 == 1 {
                    *owner = index;
                }
            }
            *(if index > target {
                &mut after
            } else {
                &mut before
            }) |= claimed;
        }
        let mut located = None;
        for (item, owner) in owners.into_iter().enumerate().take(batch.len()).skip(first) {
            let (probe, bit) = (batch.probe(item), 1 << item);
            let takes = |stack: &Stack| stack.filters()[target].contains(probe);
            if after & bit != 0 || before & bit != 0 && !takes(stack) {
                let was_full = stack.filters()[owner].is_full();
                stack.count_up(owner, probe);
                each(Ok(Added::Again));
                // A number of items that was not plausible is put right.
                if stack.filters()[owner].is_full() != was_full {
                    return item + 1;
                }
                continue;
            }
            if stack.filters()[target].is_full() && !takes(stack) {
                return item;
            }
            let of_row = item / ROW * ROW;
            if located != Some(of_row) {
                row.locate(batch, of_row, &stack.filters()[target]);
                located = Some(of_row);
            }
            let new = stack.count_up_in(target, row, item, probe) && elsewhere & bit == 0;
            each(Ok(if new { Added::New } else { Added::Again }));
        }
        batch.len()
    }

    /// The newest period with this number.
    fn period_of(&self, number: u64) -> Option<usize> {
        self.periods.iter().rposition(|p| p.number == number)
    }

    /// The period that items added at a time go into.
    pub fn target(&self, time: Time) -> u64 {
        self.shape.window().map_or(0, |window| window.target(time))
    }

    fn add_to(
        &mut self,
        index: usize,
        probe: Probe,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let is_counting = self.shape.is_counting();
        let (Period { stack, ids, .. }, limits) = self.beside_others(index, limits);
        if !is_counting {
            return stack.add(probe, limits);
        }
        let claimant = stack.claimants(probe).next();
        let index = ids.place(stack, probe, claimant, id, limits)?;
        stack.count_up(index, probe);
        Ok(claimant.map_or(Added::New, |_| Added::Again))
    }

    /// A period, and the limits for its stack: what the rest of the object leaves.
    fn beside_others(
        &mut self,
        index: usize,
        limits: impl Fn() -> Limits,
    ) -> (&mut Period, impl Fn() -> Limits) {
        let base = Self::BASE_BYTES + self.table_bytes();
        let (older, from) = self.periods.split_at_mut(index);
        let (period, newer) = from.split_at_mut(1);
        let period = &mut period[0];
        let beside = base + period.ids.memory_bytes() - Stack::BASE_BYTES;
        let limits = move || {
            let others = older.iter().chain(&*newer).map(Period::memory_bytes);
            limits().beside(beside + others.sum::<u64>())
        };
        (period, limits)
    }

    /// Opens a period that does not exist. Returns its index.
    pub fn open(&mut self, number: u64, limits: Limits) -> Result<usize, Refusal> {
        // The stack's own base is part of its entry in the table.
        let rest = self.memory_bytes() + self.entry_bytes() - Stack::BASE_BYTES;
        let shape = &self.shape;
        let stack = Stack::new(
            shape.law().ok_or(Refusal::RateTooSmall)?,
            self.hasher,
            shape.cells(),
            shape.params.capacity,
            limits.beside(rest),
        )?;
        let room = self.periods.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        let index = self.periods.partition_point(|p| p.number <= number);
        let period = Period {
            number,
            stack,
            ids: Ids::default(),
        };
        self.periods.insert(index, period);
        Ok(index)
    }

    /// Removes one count of an item from counters, and returns whether it did: if a single filter claims the
    /// item, of those whose interval holds its id, if it has one. Removing what was never added takes a count
    /// from other items, which may then be missing.
    pub fn remove(&mut self, probe: Probe, id: Option<u64>) -> bool {
        let Some(Period { stack, ids, .. }) = self.periods.last_mut() else {
            return false;
        };
        let may_hold = |index: &usize| ids.may_hold(*index, id);
        let mut claimants = stack.claimants(probe).filter(may_hold);
        let (Some(index), None) = (claimants.next(), claimants.next()) else {
            return false;
        };
        drop(claimants);
        let removed = stack.count_down(index, probe);
        if stack.filters()[index].is_unused() {
            ids.forget(index);
        }
        removed
    }

    /// The capacity that the object can grow to, in the current period if it has a window, before a limit
    /// stops it.
    pub fn reach(&self, now_ms: impl FnOnce() -> u64, limits: Limits) -> u64 {
        let window = self.shape.window();
        let current = window.map_or(0, |window| window.period_at(now_ms()));
        let rest = |period: &Period| self.memory_bytes() - period.stack.memory_bytes();
        if let Some(period) = self.periods.iter().rfind(|p| p.number == current) {
            return period.stack.reach(limits.beside(rest(period)));
        }
        let bytes = self.memory_bytes() + self.entry_bytes();
        self.shape.reach_beside(bytes, limits).0
    }

    /// Bytes of an object without periods.
    pub const BASE_BYTES: u64 = size_of::<Self>() as u64;

    /// The exact sum of the object's allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        let periods = self.periods.iter().map(Period::memory_bytes);
        Self::BASE_BYTES + self.table_bytes() + periods.sum::<u64>()
    }

    fn table_bytes(&self) -> u64 {
        (self.periods.capacity() * size_of::<Period>()) as u64
    }

    /// Bytes by which one more period enlarges the table.
    fn entry_bytes(&self) -> u64 {
        if self.periods.capacity() > self.periods.len() {
            0
        } else {
            size_of::<Period>() as u64
        }
    }
}

/// The filters of some periods.
fn newest_first(periods: &[Period]) -> impl Iterator<Item = &Filter> {
    let stacks = periods.iter().rev().map(|period| &period.stack);
    stacks.flat_map(|stack| stack.filters().iter().rev())
}

/// Whether any of these periods claims the item.
fn any_contains(periods: &[Period], probe: Probe) -> bool {
    let Some((newest, older)) = periods.split_last() else {
        return false;
    };
    newest.stack.contains(probe)
        || !older.is_empty() && stack::any_apart_contains(newest_first(older), probe)
}

/// What an add did whose item an earlier period claims: if there is no room to keep it for longer, it is there.
fn renewed(added: Result<Added, Refusal>) -> Result<Added, Refusal> {
    match added {
        Ok(Added::New) => Ok(Added::Again),
        Err(Refusal::Full) => Ok(Added::Present),
        added => added,
    }
}
