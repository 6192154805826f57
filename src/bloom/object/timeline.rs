//! Objects with a window, or with counters: a list of stacks, one for each *period* in which something was
//! added. A lookup covers those of the last `n` periods. Counters have no window: their one period lasts.
//!
//! ```text
//!   period    c−n      c−n+1   …   c−1       c        c+1
//!             passed   oldest                now      made ahead, for a time to live of the whole window
//! ```

use crate::bloom::hash::{Hasher, Probe};
use crate::bloom::law::{Limits, Refusal};
use crate::bloom::stack::{self, Added, Stack};

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

    #[inline(never)]
    pub fn contains(&self, probe: Probe, now_ms: impl FnOnce() -> u64) -> bool {
        let mut live = self.live(now_ms).iter().rev();
        live.any(|period| period.stack.contains(probe))
    }

    /// The newest period that answers and claims an item.
    fn claimant(&self, probe: Probe, now_ms: u64) -> Option<usize> {
        let live = self.live(|| now_ms);
        let claimant = live.iter().rposition(|period| period.stack.contains(probe));
        claimant.map(|index| self.periods.len() - live.len() + index)
    }

    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        answer: impl FnMut(bool),
    ) {
        let live = self.live(now_ms);
        let newest_first = || live.iter().rev();
        let filters = || newest_first().flat_map(|period| period.stack.filters().iter().rev());
        stack::contains_each(&self.hasher, items, filters, answer);
    }

    /// Frees the periods that have passed, and sets the others back with the clock, if that was. Returns whether
    /// anything changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let Some(window) = self.shape.window() else {
            return false;
        };
        let current = window.period_at(now_ms);
        let has_passed = |period: &Period| window.has_passed(period.number, current);
        let newest = self.periods.last().map_or(0, |period| period.number);
        let back = newest.saturating_sub(current.saturating_add(1));
        if back == 0 && !self.periods.iter().any(has_passed) {
            return false;
        }
        // What lies a window before the newest was merged in, and is of another clock.
        let of_clock =
            |period: &Period| !window.has_passed(period.number, newest.saturating_sub(1));
        for period in &mut self.periods {
            if of_clock(period) {
                period.number = period.number.saturating_sub(back);
            }
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
        let claimant = self.claimant(probe, time.now_ms);
        let index = match claimant.filter(|index| self.periods[*index].number >= target) {
            // That period keeps it for as long as requested.
            Some(_) if !self.shape.is_counting() => return Ok(Added::Present),
            Some(index) => Some(index),
            None => self.periods.iter().rposition(|p| p.number == target),
        };
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
        match added {
            // There is no room to keep it for longer, but it is there.
            Err(Refusal::Full) if claimant.is_some() => Ok(Added::Present),
            added => added.map(|added| claimant.map_or(added, |_| Added::Again)),
        }
    }

    /// Adds each item in turn, and passes the result of [`add`](Self::add) to `outcome`. Stops after the first
    /// refusal.
    #[inline(never)]
    pub fn add_each<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        for item in items {
            let added = self.add(self.hasher.probe(item), time, id, &limits);
            outcome(added);
            if added.is_err() {
                return;
            }
        }
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
        let base = Self::BASE_BYTES + self.table_bytes();
        let (older, from) = self.periods.split_at_mut(index);
        let (period, newer) = from.split_at_mut(1);
        let Period { stack, ids, .. } = &mut period[0];
        let beside = base + ids.memory_bytes() - Stack::BASE_BYTES;
        let others = || older.iter().chain(&*newer).map(Period::memory_bytes);
        let limits = || limits().beside(beside + others().sum::<u64>());
        if !self.shape.is_counting() {
            return stack.add(probe, limits);
        }
        let claimed = stack.contains(probe);
        let index = ids.place(stack, probe, id, limits)?;
        stack.count_up(index, probe);
        Ok(if claimed { Added::Again } else { Added::New })
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
        let may_hold = |index: &usize| id.is_none_or(|id| ids.holds(*index, id));
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
