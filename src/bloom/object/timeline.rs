//! Objects with a window, or with counters: a list of stacks, one for each *period* in which something was
//! added. A lookup covers those of the last `n` periods. Counters have no window: their one period lasts.
//!
//! ```text
//!   period    c−n      c−n+1   …   c−1       c        c+1
//!             passed   oldest                now      made ahead, for a time to live of the whole window
//! ```

use crate::bloom::filter::{Filter, Interleaved};
use crate::bloom::hash::{BATCH, Batch, Hasher, Probe};
use crate::bloom::law::{Growth, Limits, Refusal};
use crate::bloom::stack::{self, Added, Known, ROW, Row, Stack};

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
    own_filters: usize,
}

/// So many times interleaving goes on with each item that is added, and with each batch: some microseconds.
const TIMES_OF_ITEM: usize = 1;
const TIMES_OF_BATCH: usize = 16;

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

    fn count_own(&mut self) {
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
    fn around(&self, number: u64, now_ms: u64) -> (u64, &[Period], &[Period]) {
        let (since, own) = self.since(|| now_ms);
        let (earlier, later) = own.split_at(own.partition_point(|p| p.number < number));
        (since, earlier, later)
    }

    /// The oldest period that answers, if there is a window, and the periods that answer with filters of their own.
    fn since(&self, now_ms: impl FnOnce() -> u64) -> (u64, &[Period]) {
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
            self.interleave(TIMES_OF_ITEM, time.now_ms, &limits);
            let (since, earlier, later) = self.around(target, time.now_ms);
            let claims = self.lanes.claims(probe, since, target);
            // A later period keeps it for as long as requested.
            if claims.from != 0 || any_contains(later, probe) {
                return Ok(Added::Present);
            }
            renews = claims.before != 0 || any_contains(earlier, probe);
        }
        let index = self.period_of(target);
        let added = if let Some(index) = index {
            self.add_to(index, probe, id, limits)
        } else {
            let index = self.open(target, limits())?;
            let added = self.add_to(index, probe, id, limits);
            if added.is_err() {
                let period = self.periods.remove(index);
                if let Some(lane) = period.lane {
                    self.lanes.release(lane);
                }
                self.count_own();
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
            self.interleave(TIMES_OF_BATCH, time.now_ms, &limits);
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
                        Some(next) => first = next,
                        None => return,
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

    /// Adds items of a batch to a window, from `first` on, and passes each result to `each`, until it comes to one
    /// that needs another period, or needs a lane's stack to grow. Returns the number of that, or `None` once `each`
    /// returned false.
    fn add_batch(
        &mut self,
        batch: &Batch,
        first: usize,
        time: Time,
        row: &mut Row,
        limits: impl Fn() -> Limits,
        mut each: impl FnMut(Result<Added, Refusal>) -> bool,
    ) -> Option<usize> {
        let target = self.target(time);
        let Some(index) = self.period_of(target) else {
            return Some(first);
        };
        let items = batch.mask_from(first);
        let (since, earlier, later) = self.around(target, time.now_ms);
        let in_lanes = self.lanes.claims_of_batch(batch, items, since, target);
        let present = in_lanes.from;
        let present = present | stack::claims_of_any(batch, newest_first(later), items & !present);
        let renewed_items = in_lanes.before & !present;
        let unclaimed = items & !(present | renewed_items);
        let renewed_items =
            renewed_items | stack::claims_of_any(batch, newest_first(earlier), unclaimed);
        let mut item = first;
        let each = |added| {
            let renews = renewed_items >> item & 1 == 1;
            item += 1;
            each(if renews { renewed(added) } else { added })
        };
        let Period { stack, lane, .. } = &mut self.periods[index];
        if let (Some(lane), [_]) = (*lane, stack.filters()) {
            let (filters, lane) = self.lanes.filters_of_mut(lane);
            let place = (stack, filters, lane);
            return add_batch_to_lane(batch, first, present, row, place, limits, each);
        }
        let base = self.base_bytes();
        let (period, limits) = beside_others(&mut self.periods, base, index, limits);
        let known = Known {
            present,
            asked: period.stack.filters().len() - 1,
        };
        let stack = &mut period.stack;
        let all = stack.add_batch(batch, first, known, row, limits, each);
        self.own_filters += stack.filters().len() - 1 - known.asked;
        all.then_some(batch.len())
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

    /// Goes on so many times with interleaving filters, if there are any to be interleaved.
    #[inline]
    fn interleave(&mut self, times: usize, now_ms: u64, limits: impl Fn() -> Limits) {
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
        let base = self.base_bytes();
        let (period, limits) = beside_others(&mut self.periods, base, index, limits);
        let Period {
            stack, ids, lane, ..
        } = period;
        let before = stack.filters().len();
        let added = match (*lane, stack.filters()) {
            _ if is_counting => {
                let claimant = stack.claimants(probe).next();
                ids.place(stack, probe, claimant, id, limits).map(|index| {
                    stack.count_up(index, probe);
                    claimant.map_or(Added::New, |_| Added::Again)
                })
            }
            (Some(lane), [_]) => {
                let (filters, lane) = self.lanes.filters_of_mut(lane);
                add_to_lane(probe, stack, (filters, lane), limits)
            }
            _ => stack.add_unclaimed(probe, limits),
        };
        self.own_filters += stack.filters().len() - before;
        added
    }

    /// Bytes of the object beside its periods.
    fn base_bytes(&self) -> u64 {
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

/// A period, and the limits for its stack: what the rest of the object, which takes so many bytes beside its
/// periods, leaves.
fn beside_others(
    periods: &mut [Period],
    base: u64,
    index: usize,
    limits: impl Fn() -> Limits,
) -> (&mut Period, impl Fn() -> Limits) {
    let (older, from) = periods.split_at_mut(index);
    let (period, newer) = from.split_at_mut(1);
    let period = &mut period[0];
    let beside = base + period.ids.memory_bytes() - Stack::BASE_BYTES;
    let limits = move || {
        let others = older.iter().chain(&*newer).map(Period::memory_bytes);
        limits().beside(beside + others.sum::<u64>())
    };
    (period, limits)
}

/// Adds an item that no period from this one on claims to a stack of one filter, whose bits are in a lane.
fn add_to_lane(
    probe: Probe,
    stack: &mut Stack,
    (filters, lane): (&mut Interleaved, u8),
    limits: impl Fn() -> Limits,
) -> Result<Added, Refusal> {
    if stack.is_full() {
        stack.make_room_for_one(limits())?;
    }
    match stack.filters() {
        [_] => Ok(stack.count_in_lane(filters.insert(lane, probe))),
        _ => stack.add_unclaimed(probe, limits),
    }
}

/// Adds the items of a batch from `first` on to a stack of one filter, whose bits are in a lane, until it has to grow.
/// Returns the number of the next item, or `None` once `each` returned false.
fn add_batch_to_lane(
    batch: &Batch,
    first: usize,
    present: u64,
    row: &mut Row,
    (stack, filters, lane): (&mut Stack, &mut Interleaved, u8),
    limits: impl Fn() -> Limits,
    mut each: impl FnMut(Result<Added, Refusal>) -> bool,
) -> Option<usize> {
    let mut located = None;
    for item in first..batch.len() {
        let probe = batch.probe(item);
        let is_present = present >> item & 1 == 1;
        let added = if is_present || stack.is_full() && filters.contains(lane, probe) {
            Added::Present
        } else {
            if stack.is_full() {
                if stack.law().growth() != Growth::Fixed {
                    return Some(item);
                }
                // It takes more, or refuses, and does not grow.
                if let Err(refusal) = stack.make_room_for_one(limits()) {
                    if !each(Err(refusal)) {
                        return None;
                    }
                    continue;
                }
            }
            let of_row = item / ROW * ROW;
            if located != Some(of_row) {
                row.locate_in_lanes(batch, of_row, filters);
                located = Some(of_row);
            }
            stack.count_in_lane(match row.positions(item % ROW) {
                Some(positions) => filters.insert_at(lane, positions),
                None => filters.insert(lane, probe),
            })
        };
        if !each(Ok(added)) {
            return None;
        }
    }
    Some(batch.len())
}

/// How many filters of these periods have their own bits.
fn own_filters(periods: &[Period]) -> usize {
    periods
        .iter()
        .map(|period| period.own_filters().len())
        .sum()
}

/// The filters of some periods that have their own bits.
fn newest_first(periods: &[Period]) -> impl Iterator<Item = &Filter> {
    let periods = periods.iter().rev();
    periods.flat_map(|period| period.own_filters().iter().rev())
}

/// Whether any of the filters of these periods that have their own bits claims the item.
fn any_contains(periods: &[Period], probe: Probe) -> bool {
    let Some((newest, older)) = periods.split_last() else {
        return false;
    };
    stack::any_contains(newest.own_filters(), probe)
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
