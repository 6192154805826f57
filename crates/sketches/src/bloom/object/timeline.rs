//! Objects with a window: a list of stacks, one for each *period* in which an item was added. Lookups cover the *live*
//! periods: the last `n`, and one opened ahead.
//!
//! ```text
//!   period    c−n      c−n+1   …   c−1       c        c+1
//!             expired  oldest                now      opened ahead, for a time to live of the whole window
//! ```

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Allowance, Depth, Params, Refusal};
use crate::bloom::stack::{self, PATIENCE, Patience, Stack, ToTheEnd};
use crate::hash::{Batch, Hasher, Probe};
use crate::machine::memory;

use super::lanes::{Claimed, Groups, Lanes, Next, Numbers};
use super::period::{Lane, Period};
use super::shape::{Kind, Shape};
use super::view::View;
use super::window::{Time, Window};

/// A list of periods.
#[derive(Debug)]
pub struct Timeline {
    pub params: Params,
    pub window: Window,
    /// The hash function of the items.
    pub hasher: Hasher,
    /// The periods, with strictly rising numbers.
    pub periods: Vec<Period>,
    pub(super) lanes: Lanes,
    /// Number of filters that have their own bits.
    pub(super) own_filters: usize,
    /// Whether lookups take more than [`PATIENCE`] hash functions.
    pub(super) is_deep: bool,
}

/// The live periods, split at the target.
pub struct Live<'t> {
    pub numbers: Numbers,
    /// The periods before the target. Those without filters that have their own bits may be missing.
    pub earlier: &'t [Period],
    /// The target and later periods, with the same exception.
    pub later: &'t [Period],
}

impl Timeline {
    /// Creates a list without periods.
    pub fn new(params: Params, window: Window, hasher: Hasher) -> Self {
        Self {
            params,
            window,
            hasher,
            periods: Vec::new(),
            lanes: Lanes::default(),
            own_filters: 0,
            is_deep: false,
        }
    }

    /// Returns the requested shape.
    pub const fn shape(&self) -> Shape {
        Shape {
            params: self.params,
            kind: Kind::Windowed(self.window),
        }
    }

    /// Returns the list with these periods, whose filters have their own bits.
    pub fn with_periods(self, periods: Vec<Period>) -> Self {
        let mut timeline = Self { periods, ..self };
        timeline.count_own();
        timeline
    }

    /// Counts the filters that have their own bits, and the hash functions of a lookup.
    pub(super) fn count_own(&mut self) {
        self.own_filters = newest_first(&self.periods).count();
        let own = newest_first(&self.periods).map(|filter| u64::from(filter.hashes()));
        self.is_deep = own.sum::<u64>() + self.lanes.hashes() > u64::from(PATIENCE);
    }

    /// Checks that the lanes match the periods, and that filters with their own bits are counted.
    pub fn check(&self) -> Result<(), &'static str> {
        self.lanes.check(&self.periods)?;
        if self.own_filters == newest_first(&self.periods).count() {
            Ok(())
        } else {
            Err("filters that are not counted")
        }
    }

    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            periods: memory::collected(self.periods.iter().map(Period::try_clone))?,
            lanes: self.lanes.try_clone()?,
            ..*self
        })
    }

    /// Returns the filters of a period, with their bits.
    pub fn views<'t>(&'t self, period: &'t Period) -> impl Iterator<Item = View<'t>> {
        let first = period.lane.map(|lane| self.lanes.filters_of(lane));
        let lanes = std::iter::once(first).chain(std::iter::repeat(None));
        let filters = period.stack.filters().iter().zip(lanes);
        filters.map(|(filter, lane)| View::new(filter, lane))
    }

    /// Copies a period, with filters that have their own bits. Returns `None` if allocation fails.
    pub fn separate(&self, period: &Period) -> Option<Period> {
        period.separate(self.views(period))
    }

    /// Returns the live periods, oldest first.
    pub fn live(&self, now_ms: u64) -> &[Period] {
        let current = self.window.period_at(now_ms);
        let expired = |period: &Period| self.window.has_expired(period.number, current);
        &self.periods[self.periods.partition_point(expired)..]
    }

    /// Returns the live periods, split at a number.
    #[inline]
    pub(super) fn live_around(&self, number: u64, now_ms: u64) -> Live<'_> {
        let own = match self.own_filters {
            0 => &[],
            _ => self.live(now_ms),
        };
        let (earlier, later) = own.split_at(own.partition_point(|p| p.number < number));
        Live {
            numbers: Numbers {
                oldest: self.window.oldest(self.window.period_at(now_ms)),
                target: number,
            },
            earlier,
            later,
        }
    }

    #[inline(never)]
    pub fn contains(&self, probe: Probe, now_ms: u64) -> bool {
        self.claims_of_one(probe, &self.live_around(0, now_ms))
            .any()
            != 0
    }

    /// Looks up an item in the live periods, as [`claims`](Self::claims) does for many.
    pub(super) fn claims_of_one(&self, probe: Probe, live: &Live) -> Claimed {
        if self.is_deep {
            return self.claims_patiently(&Batch::of_one(probe), 1, live);
        }
        let is_in = |periods| stack::any_contains(newest_first(periods), probe);
        if is_in(live.later) {
            return Claimed {
                earlier: 0,
                later: 1,
            };
        }
        let mut claimed = self.lanes.claims_of_one(probe, live.numbers);
        if claimed.any() == 0 {
            claimed.earlier = is_in(live.earlier).into();
        }
        claimed
    }

    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: u64,
        answer: impl FnMut(Probe, bool),
    ) {
        let live = self.live_around(0, now_ms);
        let claims = |batch: &Batch, all: u64| self.claims(batch, all, &live).any();
        stack::contains_each(&self.hasher, items, claims, answer);
    }

    /// Looks up the items of a batch whose bit in `items` is set, in the live periods. Claims by periods before the target
    /// may be missing for an item that a later one claims.
    pub(super) fn claims(&self, batch: &Batch, items: u64, live: &Live) -> Claimed {
        if self.is_deep {
            return self.claims_patiently(batch, items, live);
        }
        let lanes = &self.lanes;
        let mut claimed = lanes.claims(batch, items, live.numbers, &mut ToTheEnd);
        let left = items & !claimed.later;
        claimed.later |= stack::claims_of_any(batch, newest_first(live.later), left);
        let left = items & !claimed.any();
        claimed.earlier |= stack::claims_of_any(batch, newest_first(live.earlier), left);
        claimed
    }

    /// Looks up items as [`claims`](Self::claims) does, in a deep window. An item whose lookup takes too long counts as
    /// claimed by an earlier period, which may expire soon.
    fn claims_patiently(&self, batch: &Batch, items: u64, live: &Live) -> Claimed {
        let mut patience = Patience::new();
        let lanes = &self.lanes;
        let mut claimed = lanes.claims(batch, items, live.numbers, &mut patience);
        let left = items & !(claimed.later | patience.exhausted());
        let later = newest_first(live.later);
        let found = stack::claims_patiently(batch, later, left, &mut patience);
        claimed.later |= found & !patience.exhausted();
        let left = left & !(found | claimed.earlier);
        let earlier = newest_first(live.earlier);
        claimed.earlier |= stack::claims_patiently(batch, earlier, left, &mut patience);
        claimed.earlier |= patience.exhausted();
        claimed
    }

    /// Frees expired periods. If the clock was set back, shifts the other periods back with it. Returns whether
    /// anything changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let (Some(oldest), Some(newest)) = (self.periods.first(), self.periods.last()) else {
            return false;
        };
        let window = self.window;
        let current = window.period_at(now_ms);
        let has_expired = |period: &Period| window.has_expired(period.number, current);
        let (is_any_expired, ahead) = (has_expired(oldest), current.saturating_add(1));
        let is_set_back = newest.number > ahead && self.set_back(ahead);
        if !is_set_back && !is_any_expired {
            return false;
        }
        let expired = self.periods.iter().filter(|period| has_expired(period));
        for lane in expired.filter_map(|period| period.lane) {
            self.lanes.release(lane);
        }
        self.periods.retain(|period| !has_expired(period));
        memory::fit(&mut self.periods);
        self.lanes.tidy(&mut self.periods);
        self.count_own();
        true
    }

    /// Shifts periods back with the clock, so that none is after `ahead`. Returns whether any number changed.
    ///
    /// Periods keep their distances, so they stop at number 0, and then the newest stay after `ahead`: until the clock
    /// reaches them, items are added to existing periods. Periods that are more than a window apart follow different
    /// clocks: they were merged. The later ones stay after the earlier ones.
    fn set_back(&mut self, ahead: u64) -> bool {
        let numbers: Vec<u64> = self.periods.iter().map(|period| period.number).collect();
        let mut end = self.periods.len();
        while end > 0 {
            let newest = numbers[end - 1];
            let is_of_other_clock = |number: &u64| newest - number > self.window.periods();
            let start = numbers[..end].partition_point(is_of_other_clock);
            let back = newest.saturating_sub(ahead).min(numbers[start]);
            for period in &mut self.periods[start..end] {
                period.number -= back;
            }
            end = start;
        }
        let mut least = 0;
        for period in &mut self.periods {
            period.number = period.number.max(least);
            least = period.number.saturating_add(1);
        }
        let mut pairs = self.periods.iter().zip(numbers);
        pairs.any(|(period, before)| period.number != before)
    }

    /// Runs up to `times` steps of interleaving, if there are filters to interleave.
    #[inline]
    pub(super) fn interleave(
        &mut self,
        times: usize,
        now_ms: u64,
        allowance: impl Fn() -> Allowance,
    ) {
        if !self.lanes.is_idle() && !self.lanes.go_on(times) {
            self.interleave_next(now_ms, allowance());
        }
    }

    #[cold]
    fn interleave_next(&mut self, now_ms: u64, allowance: Allowance) {
        if self.lanes.take_apart(&mut self.periods) {
            return self.count_own();
        }
        let most = allowance.limits.object_bytes;
        let room = most.saturating_sub(self.memory_bytes());
        // Interleaving must not reduce the capacity that was reported as reachable.
        let reach = |allowance| self.reach(now_ms, allowance);
        let next = self.lanes.next(&self.periods);
        let has_room = |next: &&Next| {
            next.bytes <= room && reach(allowance) == reach(allowance.beside(next.bytes))
        };
        let next = next.as_ref().filter(has_room);
        self.lanes.interleave(&mut self.periods, next);
        self.count_own();
    }

    /// Returns the index of the period with this number.
    pub(super) fn index_of(&self, number: u64) -> Option<usize> {
        self.periods
            .binary_search_by_key(&number, |p| p.number)
            .ok()
    }

    /// Returns the size of the object in bytes, without its periods.
    pub(super) fn base_bytes(&self) -> u64 {
        Self::BASE_BYTES + self.table_bytes() + self.lanes.memory_bytes()
    }

    /// Returns the initial capacity of the period of this time.
    pub fn room(&self, time: Time) -> Option<u64> {
        let index = self.index_of(self.window.target(time))?;
        let first = self.periods[index].stack.filters().first();
        first.map(Filter::capacity)
    }

    /// Opens a new period. Returns its index.
    pub fn open(&mut self, number: u64, allowance: Allowance) -> Result<usize, Refusal> {
        let (room, reserved) = (self.room_for(number), self.params.capacity);
        match self.open_with(number, room, allowance) {
            Err(Refusal::MemoryLimit) if room > reserved => {
                self.open_with(number, reserved, allowance)
            }
            opened => opened,
        }
    }

    /// Returns the initial capacity of a period: enough for the items of the two periods before, or of the one that
    /// had fewer. So a window with too small a reserved capacity adapts, and a single burst does not enlarge all later
    /// periods.
    fn room_for(&self, number: u64) -> u64 {
        let before = self.periods.partition_point(|p| p.number < number);
        let last_two = self.periods[..before].iter().rev().take(2);
        let items = last_two.map(|period| period.stack.items()).min();
        self.shape().room_for(items.unwrap_or(0))
    }

    /// Opens a new period with a first filter of this capacity. Returns its index.
    pub fn open_with(
        &mut self,
        number: u64,
        capacity: u64,
        allowance: Allowance,
    ) -> Result<usize, Refusal> {
        // The base of the stack is part of the entry in the table.
        let bytes = self.memory_bytes() + self.entry_bytes() - Stack::BASE_BYTES;
        let rest = depth_of(&self.periods);
        let law = self.shape().law().ok_or(Refusal::RateTooSmall)?;
        let stack_in = |lane: Option<Lane>| {
            // The memory of a lane is allocated already.
            let beside = allowance.beside(bytes - self.lanes.bytes_of_lane(lane));
            let first = match lane {
                Some(_) => Filter::in_lane,
                None => Filter::new,
            };
            let stack = Stack::new(law.clone(), self.hasher, Cells::Bits);
            stack.with_first(capacity, Allowance { rest, ..beside }, first)
        };
        let mut lane = self.free_lane(capacity, Groups::HalfInUse);
        let mut stack = stack_in(lane);
        if matches!(stack, Err(Refusal::MemoryLimit)) {
            lane = self.free_lane(capacity, Groups::All);
            stack = stack_in(lane);
        }
        let stack = stack?;
        let room = self.periods.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        let index = self.periods.partition_point(|p| p.number <= number);
        match lane {
            Some(lane) => self.lanes.take(lane, number),
            None => self.lanes.wake(),
        }
        let period = Period {
            lane,
            ..Period::new(number, stack)
        };
        self.periods.insert(index, period);
        self.count_own();
        Ok(index)
    }

    /// Returns an empty lane for a period of this initial capacity.
    fn free_lane(&self, capacity: u64, groups: Groups) -> Option<Lane> {
        // Most windows have no lanes, and skip computing the size.
        if self.lanes.is_empty() {
            return None;
        }
        let geometry = self.shape().first_geometry(capacity).ok()?;
        self.lanes.free_lane(geometry, groups)
    }

    /// Returns the capacity that the current period can grow to before a limit stops it.
    pub fn reach(&self, now_ms: u64, allowance: Allowance) -> u64 {
        let current = self.window.period_at(now_ms);
        if let Some(index) = self.index_of(current) {
            let stack = &self.periods[index].stack;
            let beside = allowance.beside(self.memory_bytes() - stack.memory_bytes());
            let (older, newer) = (&self.periods[..index], &self.periods[index + 1..]);
            let rest = depth_of(older).and(depth_of(newer));
            return stack.reach(Allowance { rest, ..beside });
        }
        let (room, reserved) = (self.room_for(current), self.params.capacity);
        match self.reach_from(room, allowance) {
            0 => self.reach_from(reserved, allowance),
            reach => reach,
        }
    }

    /// Returns the capacity that a period with this initial capacity can grow to.
    fn reach_from(&self, capacity: u64, allowance: Allowance) -> u64 {
        let bytes = self.memory_bytes() + self.entry_bytes();
        let rest = depth_of(&self.periods);
        let reach = |groups| {
            let lane = self.free_lane(capacity, groups);
            let beside = bytes - self.lanes.bytes_of_lane(lane);
            let first = self.shape().before_first(beside, capacity);
            first.map_or(0, |(law, at)| {
                law.reach(at, Allowance { rest, ..allowance }).0
            })
        };
        // The same order of attempts as in `open_with`.
        match reach(Groups::HalfInUse) {
            0 => reach(Groups::All),
            reached => reached,
        }
    }

    /// Size of an object without periods, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(160) as u64;

    /// Returns the exact sum of the object's allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        let periods = self.periods.iter().map(Period::memory_bytes);
        self.base_bytes() + periods.sum::<u64>()
    }

    fn table_bytes(&self) -> u64 {
        (self.periods.capacity() * size_of::<Period>()) as u64
    }

    /// Returns how many bytes another period adds to the table.
    fn entry_bytes(&self) -> u64 {
        let is_full = self.periods.capacity() == self.periods.len();
        u64::from(is_full) * size_of::<Period>() as u64
    }
}

/// Returns the total depth of periods.
pub(super) fn depth_of<'p>(periods: impl IntoIterator<Item = &'p Period>) -> Depth {
    let depths = periods.into_iter().map(|period| period.stack.depth());
    depths.fold(Depth::default(), Depth::and)
}

/// Returns the filters of periods that have their own bits, newest first.
pub(super) fn newest_first(periods: &[Period]) -> impl Iterator<Item = &Filter> {
    let periods = periods.iter().rev();
    periods.flat_map(|period| period.own_filters().iter().rev())
}
