//! Objects with a window, or with counters: a list of stacks, one for each *period* in which something was
//! added. A lookup covers those of the last `n` periods. Counters have no window: their one period lasts.
//!
//! ```text
//!   period    c−n      c−n+1   …   c−1       c        c+1
//!             passed   oldest                now      made ahead, for a time to live of the whole window
//! ```

use crate::bloom::filter::Filter;
use crate::bloom::hash::{Batch, Hasher, Probe};
use crate::bloom::law::{Limits, Refusal};
use crate::bloom::stack::{self, Stack};

use super::ids::Ids;
use super::lanes::{Begin, Lanes, Next};
use super::period::{Lane, Period};
use super::shape::Shape;
use super::view::View;
use super::window::Time;

/// A list of periods.
#[derive(Debug)]
pub struct Timeline {
    pub shape: Shape,
    /// How items are hashed.
    pub hasher: Hasher,
    /// In order of their numbers; with equal numbers, the newest last.
    pub periods: Vec<Period>,
    pub(super) lanes: Lanes,
    /// Number of filters that have their own bits.
    pub(super) own_filters: usize,
}

impl Timeline {
    /// A list without periods.
    pub fn new(shape: Shape, hasher: Hasher) -> Self {
        Self {
            shape,
            hasher,
            periods: Vec::new(),
            lanes: Lanes::default(),
            own_filters: 0,
        }
    }

    /// The same with periods whose filters have their own bits.
    pub fn with_periods(self, periods: Vec<Period>) -> Self {
        let mut timeline = Self { periods, ..self };
        timeline.count_own();
        timeline
    }

    pub(super) fn count_own(&mut self) {
        self.own_filters = own_filters(&self.periods);
    }

    /// Requires that lanes are those of periods, and that filters with their own bits are counted.
    pub fn check(&self) -> Result<(), &'static str> {
        self.lanes.check(&self.periods)?;
        if self.own_filters == own_filters(&self.periods) {
            Ok(())
        } else {
            Err("filters that are not counted")
        }
    }

    pub fn try_clone(&self) -> Option<Self> {
        let mut periods = Vec::new();
        periods.try_reserve_exact(self.periods.len()).ok()?;
        for period in &self.periods {
            periods.push(period.try_clone()?);
        }
        let lanes = self.lanes.try_clone()?;
        Some(Self {
            periods,
            lanes,
            ..*self
        })
    }

    /// The filters of a period, with their bits.
    pub fn views<'t>(&'t self, period: &'t Period) -> impl Iterator<Item = View<'t>> {
        let first = period.lane.map(|lane| self.lanes.filters_of(lane));
        let lanes = std::iter::once(first).chain(std::iter::repeat(None));
        let filters = period.stack.filters().iter().zip(lanes);
        filters.map(|(filter, lane)| View::new(filter, lane))
    }

    /// A copy of a period whose filters have their own bits, or `None` if there is no memory for it.
    pub fn separate(&self, period: &Period) -> Option<Period> {
        let filters: Option<_> = self.views(period).map(|view| view.separate()).collect();
        let stack = period.stack.with_filters(filters?);
        Some(Period::new(period.number, stack, period.ids.try_clone()?))
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

    /// What [`since`](Self::since) has, with its periods in two parts: those before one, and that with those after it.
    pub(super) fn around(&self, number: u64, now_ms: u64) -> (u64, &[Period], &[Period]) {
        let (since, own) = self.since(|| now_ms);
        let (earlier, later) = own.split_at(own.partition_point(|p| p.number < number));
        (since, earlier, later)
    }

    /// The oldest period that answers, if there is a window, and the periods that answer with filters of their own.
    pub(super) fn since(&self, now_ms: impl FnOnce() -> u64) -> (u64, &[Period]) {
        let Some(window) = self.shape.window() else {
            return (0, &self.periods);
        };
        let now_ms = now_ms();
        let own = if self.own_filters > 0 {
            self.live(|| now_ms)
        } else {
            &[]
        };
        (window.oldest(window.period_at(now_ms)), own)
    }

    #[inline(never)]
    pub fn contains(&self, probe: Probe, now_ms: impl FnOnce() -> u64) -> bool {
        if self.shape.is_counting() {
            return self
                .periods
                .first()
                .is_some_and(|only| only.stack.contains(probe));
        }
        self.contains_in_window(probe, now_ms)
    }

    #[inline(never)]
    fn contains_in_window(&self, probe: Probe, now_ms: impl FnOnce() -> u64) -> bool {
        let (since, own) = self.since(now_ms);
        any_contains(own, probe) || self.lanes.claims(probe, since, since).from != 0
    }

    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        answer: impl FnMut(Probe, bool),
    ) {
        let (since, own) = self.since(now_ms);
        let claims = |batch: &Batch, all: u64| {
            let claimed = self.lanes.claims_of_batch(batch, all, since, since).from;
            claimed | stack::claims_of_any(batch, newest_first(own), all & !claimed)
        };
        stack::contains_each(&self.hasher, items, claims, answer);
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
        for lane in self
            .periods
            .iter()
            .filter(|p| has_passed(p))
            .filter_map(|p| p.lane)
        {
            self.lanes.release(lane);
        }
        self.periods.retain(|period| !has_passed(period));
        self.periods.shrink_to_fit();
        self.periods.sort_by_key(|period| period.number);
        self.lanes.tidy(&mut self.periods);
        self.count_own();
        true
    }

    /// Goes on so many times with interleaving filters, if there are any to be interleaved.
    #[inline]
    pub(super) fn interleave(&mut self, times: usize, now_ms: u64, limits: impl Fn() -> Limits) {
        let idle = self.lanes.is_settled() || self.shape.is_counting();
        if !idle && !self.lanes.go_on(times) {
            self.interleave_next(now_ms, limits());
        }
    }

    #[cold]
    fn interleave_next(&mut self, now_ms: u64, limits: Limits) {
        if self.lanes.part(&mut self.periods) {
            return self.count_own();
        }
        let room = limits.object_bytes.saturating_sub(self.memory_bytes());
        // The capacity that it was said to grow to is kept.
        let reach = |limits| self.reach(|| now_ms, limits);
        let next = self.lanes.next(&self.periods);
        let has_room =
            |next: &&Next| next.bytes <= room && reach(limits) == reach(limits.beside(next.bytes));
        let next = next.as_ref().filter(has_room);
        self.lanes.begin(&mut self.periods, next);
        self.count_own();
    }

    /// The newest period with this number.
    pub(super) fn period_of(&self, number: u64) -> Option<usize> {
        self.periods.iter().rposition(|p| p.number == number)
    }

    /// The period that items added at a time go into.
    pub fn target(&self, time: Time) -> u64 {
        self.shape.window().map_or(0, |window| window.target(time))
    }

    /// Bytes of the object beside its periods.
    pub(super) fn base_bytes(&self) -> u64 {
        Self::BASE_BYTES + self.table_bytes() + self.lanes.memory_bytes()
    }

    /// Opens a period that does not exist. Returns its index.
    pub fn open(&mut self, number: u64, limits: Limits) -> Result<usize, Refusal> {
        // The stack's own base is part of its entry in the table.
        let rest = self.memory_bytes() + self.entry_bytes() - Stack::BASE_BYTES;
        let shape = &self.shape;
        let law = shape.law().ok_or(Refusal::RateTooSmall)?;
        let capacity = shape.params.capacity;
        let begin = |lane: Option<Lane>| {
            // What a lane takes is there already.
            let limits = limits.beside(rest - self.lanes.bytes_of_lane(lane));
            let first = if lane.is_some() {
                Filter::in_lane
            } else {
                Filter::new
            };
            Stack::with_first(
                law.clone(),
                self.hasher,
                shape.cells(),
                capacity,
                limits,
                first,
            )
        };
        let mut lane = self.free_lane(Begin::InUse);
        let mut stack = begin(lane);
        if stack
            .as_ref()
            .is_err_and(|refusal| *refusal == Refusal::MemoryLimit)
        {
            lane = self.free_lane(Begin::Anywhere);
            stack = begin(lane);
        }
        let stack = stack?;
        let room = self.periods.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        let index = self.periods.partition_point(|p| p.number <= number);
        match lane {
            Some(lane) => self.lanes.take(lane, number),
            None => self.lanes.unsettle(),
        }
        let period = Period {
            lane,
            ..Period::new(number, stack, Ids::default())
        };
        self.own_filters += period.own_filters().len();
        self.periods.insert(index, period);
        Ok(index)
    }

    /// An empty lane for the next period.
    fn free_lane(&self, at: Begin) -> Option<Lane> {
        // Most windows have none, and need not know the size.
        let is_free = !self.lanes.are_none() && !self.shape.is_counting();
        let geometry = is_free
            .then(|| self.shape.first_geometry().ok())
            .flatten()?;
        self.lanes.free_lane(geometry, at)
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
        let reach = |lane| {
            let in_lane = self.lanes.bytes_of_lane(lane);
            self.shape.reach_beside(bytes - in_lane, limits).0
        };
        // As a period is opened.
        match (self.free_lane(Begin::InUse), reach(None)) {
            (None, 0) => reach(self.free_lane(Begin::Anywhere)),
            (None, own) => own,
            (lane, _) => reach(lane),
        }
    }

    /// Bytes of an object without periods.
    pub const BASE_BYTES: u64 = size_of::<Self>() as u64;

    /// The exact sum of the object's allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        let periods = self.periods.iter().map(Period::memory_bytes);
        self.base_bytes() + periods.sum::<u64>()
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

/// How many filters of these periods have their own bits.
fn own_filters(periods: &[Period]) -> usize {
    periods
        .iter()
        .map(|period| period.own_filters().len())
        .sum()
}

/// The filters of some periods that have their own bits.
pub(super) fn newest_first(periods: &[Period]) -> impl Iterator<Item = &Filter> {
    let periods = periods.iter().rev();
    periods.flat_map(|period| period.own_filters().iter().rev())
}

/// Whether any of the filters of these periods that have their own bits claims the item.
pub(super) fn any_contains(periods: &[Period], probe: Probe) -> bool {
    let Some((newest, older)) = periods.split_last() else {
        return false;
    };
    stack::any_contains(newest.own_filters(), probe)
        || !older.is_empty() && stack::any_apart_contains(newest_first(older), probe)
}
