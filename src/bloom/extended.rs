//! Objects that do more than a stack of bits: with periods, of which the oldest pass out of sight, or
//! with counters in place of bits, so that items can be taken back.
//!
//! Such an object is a list of [`BloomObject`]s, one for each *period* in which something was added. A
//! query asks those of the last `n` periods. An object without a window has one period, which lasts.
//!
//! ```text
//!   period    c−n      c−n+1   …   c−1       c        c+1
//!             passed   oldest                now      made ahead, for a time to live of the whole window
//! ```
//!
//! Time comes as an argument, in milliseconds since the epoch. A clock may be set. Forward, periods pass
//! as they would have by waiting. Back, what was added later than now is taken for added just now, by the
//! next write: so it stays for a window from now on, and no longer.

use std::ops::Range;

use super::any::AnyObject;
use super::batch::{Hasher, claims_each};
use super::filter::Filter;
use super::object::{Added, BloomObject, MergeError, Parts, Refusal};
use super::probe::{Probe, Seed};
use super::shape::{Shape, Time, Window};
use super::sizing::{Fraction, Growth, Limits, MAX_CAPACITY, Params, Sums};
use super::stack::{Stack, StackParts};

/// More items than anybody ever adds, and more than the filters of periods that fit in memory are made for,
/// each at a rate of a half or less. So far below what sums may be, an object that was loaded can grow as
/// any other, and be loaded again.
const MANY: u64 = MAX_CAPACITY / 2;

/// An [`Extended`] object as it was stored, not checked yet.
#[derive(Debug)]
pub(super) struct ExtendedParts {
    pub(super) expansion: u64,
    pub(super) error_rate: f64,
    pub(super) tightening: f64,
    pub(super) counting: bool,
    /// Length of a period and number of periods.
    pub(super) window: Option<(u64, u64)>,
    pub(super) capacity: u64,
    pub(super) seed: Seed,
    pub(super) stacks: Vec<StackParts>,
}

/// A period that lacks its filters.
pub(super) struct Announced {
    stack: Stack,
    parts: Parts,
    /// Length of each filter's cells in bytes.
    pub(super) lengths: Vec<u64>,
}

impl Announced {
    /// Bytes of the period that are none of its filters'.
    pub(super) fn overhead(&self) -> u64 {
        (size_of::<Stack>() + size_of_val(&*self.stack.ranges)) as u64
    }

    /// What stands before each filter's cells.
    pub(super) fn blobs(self) -> impl Iterator<Item = Vec<u8>> {
        self.parts.filters.into_iter().map(|filter| filter.blob)
    }
}

impl ExtendedParts {
    /// Checks all that does not need the filters' cells.
    pub(super) fn check(self) -> Result<(Extended, Vec<Announced>), &'static str> {
        let window = match self.window {
            None => None,
            Some((period_ms, periods)) => {
                Some(Window::new(period_ms, periods).ok_or("window out of range")?)
            }
        };
        if window.is_none() && !self.counting {
            return Err("neither window nor counters");
        }
        if window.is_some() && self.counting {
            return Err("window with counters");
        }
        if !(1..=MAX_CAPACITY).contains(&self.capacity) {
            return Err("capacity out of range");
        }
        let expansion = u32::try_from(self.expansion).map_err(|_| "expansion out of range")?;
        let shape = Shape {
            params: Params {
                capacity: self.capacity,
                error_rate: Fraction::new(self.error_rate).ok_or("error rate out of range")?,
                tightening: Fraction::new(self.tightening)
                    .ok_or("tightening ratio out of range")?,
                growth: Growth::from_expansion(expansion),
            },
            window,
            counting: self.counting,
        };
        let of_period = shape.of_period().ok_or("error rate out of range")?;
        if self.stacks.is_empty() && window.is_none() {
            return Err("no filters");
        }
        let mut stacks = Vec::new();
        let mut sums = Sums::default();
        let mut before = 0;
        for stack in self.stacks {
            if stack.period < before || window.is_none() && stack.period != 0 {
                return Err("periods out of order");
            }
            before = stack.period;
            stack.check_ids(self.counting)?;
            let parts = Parts {
                expansion: self.expansion,
                error_rate: of_period.error_rate.get(),
                tightening: self.tightening,
                seed_is_random: 1,
                filters: stack.filters,
            };
            let (object, lengths) = BloomObject::without_filters(shape.cell(), &parts)?;
            if *object.seed() != self.seed {
                return Err("filters of different seeds");
            }
            for (filter, bytes) in parts.filters.iter().zip(&lengths) {
                sums.add(filter.capacity, filter.items, *bytes)?;
            }
            if sums.items > MANY || window.is_some() && sums.capacity > MANY {
                return Err("sum out of range");
            }
            let stack = Stack {
                period: stack.period,
                object,
                ids: stack.ids,
                ranges: stack.ranges,
            };
            stacks.push(Announced {
                stack,
                parts,
                lengths,
            });
        }
        Ok((Extended::empty(&shape, self.seed), stacks))
    }
}

/// A Bloom object with periods or counters.
///
/// ```
/// use valkeybloom::bloom::{Added, Extended, Fraction, Growth, Limits, Params, Seed, Shape, Time, Window};
///
/// let shape = Shape {
///     params: Params {
///         capacity: 1000,
///         error_rate: Fraction::new(0.01).unwrap(),
///         tightening: Fraction::HALF,
///         growth: Growth::from_expansion(2),
///     },
///     window: Window::new(60_000, 5),
///     counting: false,
/// };
/// let mut seen = Extended::new(&shape, Seed::FIXED, Time::at(0), Limits::Obey).unwrap();
/// let probe = seen.probe(b"https://example.org/");
/// assert_eq!(seen.add(probe, Time::at(0), None, || Limits::Obey), Ok(Added::New));
/// assert!(seen.contains(probe, 4 * 60_000));
/// assert!(!seen.contains(probe, 5 * 60_000));
/// ```
#[derive(Debug)]
pub struct Extended {
    shape: Shape,
    seed: Seed,
    /// By period, of one period the newest last.
    stacks: Vec<Stack>,
}

impl Extended {
    /// What an object without periods takes, in bytes: itself, and the place that points to it.
    pub const BASE_BYTES: u64 = (size_of::<Self>() + size_of::<AnyObject>()) as u64;

    /// An empty object, ready for items at a time.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn new(shape: &Shape, seed: Seed, time: Time, limits: Limits) -> Result<Self, Refusal> {
        let mut object = Self::empty(shape, seed);
        object.open(object.target(time), limits)?;
        Ok(object)
    }

    fn empty(shape: &Shape, seed: Seed) -> Self {
        debug_assert!(
            shape.window.is_none() || !shape.counting,
            "a window with counters"
        );
        Self {
            shape: *shape,
            seed,
            stacks: Vec::new(),
        }
    }

    /// The object that these parts are, if they are one.
    pub(super) fn from_parts(parts: ExtendedParts) -> Result<Self, &'static str> {
        let (mut object, stacks) = parts.check()?;
        object.stacks.reserve_exact(stacks.len());
        for Announced {
            mut stack, parts, ..
        } in stacks
        {
            stack.object = BloomObject::from_parts_with(object.shape.cell(), parts)?;
            object.stacks.push(stack);
        }
        Ok(object)
    }

    /// A copy in memory of its own, or `None` where there is none.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        let mut stacks = Vec::new();
        stacks.try_reserve_exact(self.stacks.len()).ok()?;
        for stack in &self.stacks {
            stacks.push(stack.try_clone()?);
        }
        Some(Self { stacks, ..*self })
    }

    /// What the object was asked to be.
    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The keys of the hash functions.
    #[must_use]
    pub const fn seed(&self) -> &Seed {
        &self.seed
    }

    pub(super) fn stacks(&self) -> &[Stack] {
        &self.stacks
    }

    /// Hashes an item for this object.
    #[must_use]
    #[inline(never)]
    pub fn probe(&self, item: &[u8]) -> Probe {
        self.seed.probe(item)
    }

    /// The stacks that answer at a time, oldest first.
    fn live(&self, now_ms: u64) -> impl DoubleEndedIterator<Item = &Stack> {
        self.stacks[self.live_indices(now_ms)].iter()
    }

    /// Where they stand: the oldest have passed.
    fn live_indices(&self, now_ms: u64) -> Range<usize> {
        let window = self.shape.window;
        let passed = |stack: &Stack| window.is_some_and(|w| w.has_passed(stack.period, now_ms));
        self.stacks.partition_point(passed)..self.stacks.len()
    }

    fn target(&self, time: Time) -> u64 {
        self.shape.window.map_or(0, |window| window.target(time))
    }

    /// Whether the object claims the item at a time: false is certain, true is right but for the error
    /// rate.
    #[must_use]
    pub fn contains(&self, probe: Probe, now_ms: u64) -> bool {
        self.claimant(probe, now_ms).is_some()
    }

    /// The newest stack that claims an item.
    #[inline(never)]
    fn claimant(&self, probe: Probe, now_ms: u64) -> Option<usize> {
        let live = self.live_indices(now_ms);
        let claims = |stack: &Stack| stack.object.contains(probe);
        let claimant = self.stacks[live.clone()].iter().rposition(claims);
        claimant.map(|index| live.start + index)
    }

    /// Asks for each item in turn, and tells `answer` what [`contains`](Self::contains) says.
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: u64,
        answer: impl FnMut(bool),
    ) {
        let stacks = || self.live(now_ms).rev();
        let filters = || stacks().flat_map(|stack| stack.object.filters().iter().rev());
        claims_each(Hasher::Sip(&self.seed), items, filters, answer);
    }

    /// Frees the periods that have passed, and takes what was added later than now for added just now.
    /// Tells whether anything was changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let Some(window) = self.shape.window else {
            return false;
        };
        let ahead = window.at(now_ms) + 1;
        let has_passed = |stack: &Stack| window.has_passed(stack.period, now_ms);
        let tidy = |stack: &Stack| !has_passed(stack) && stack.period <= ahead;
        if self.stacks.iter().all(tidy) {
            return false;
        }
        self.stacks.retain(|stack| !has_passed(stack));
        self.stacks.shrink_to_fit();
        for stack in &mut self.stacks {
            stack.period = stack.period.min(ahead);
        }
        true
    }

    /// Adds an item, after [`tidy`](Self::tidy); where counters have ids, with its own. `limits` is asked
    /// only where the object has to grow.
    ///
    /// # Errors
    /// Any [`Refusal`]; no item is changed then, and no period opened.
    pub fn add(
        &mut self,
        probe: Probe,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let target = self.target(time);
        let claimant = self.claimant(probe, time.now_ms);
        let index = match claimant.filter(|index| self.stacks[*index].period >= target) {
            // It is found for as long as is asked.
            Some(_) if !self.shape.counting => return Ok(Added::Present),
            Some(index) => Some(index),
            None => self.stacks.iter().rposition(|stack| stack.period == target),
        };
        let added = if let Some(index) = index {
            self.add_to(index, probe, id, limits)
        } else {
            let index = self.open(target, limits())?;
            let added = self.add_to(index, probe, id, limits);
            if added.is_err() {
                self.stacks.remove(index);
            }
            added
        };
        added.map(|added| match claimant {
            Some(_) => Added::Again,
            None => added,
        })
    }

    fn add_to(
        &mut self,
        index: usize,
        probe: Probe,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let base = Self::BASE_BYTES + self.table_bytes();
        let (older, from) = self.stacks.split_at_mut(index);
        let (stack, newer) = from.split_at_mut(1);
        let stack = &mut stack[0];
        let beside = base + stack.memory_bytes() - stack.object.memory_bytes();
        let others = || older.iter().chain(&*newer).map(Stack::memory_bytes);
        let limits = || limits().beside(beside + others().sum::<u64>());
        if self.shape.counting {
            stack.count_up(probe, id, limits)
        } else {
            stack.object.add(probe, limits)
        }
    }

    /// What the table takes more for one more period.
    fn place_bytes(&self) -> u64 {
        let room = self.stacks.capacity() - self.stacks.len();
        if room == 0 {
            size_of::<Stack>() as u64
        } else {
            0
        }
    }

    /// Opens a period that has no stack, and tells where it stands.
    fn open(&mut self, period: u64, limits: Limits) -> Result<usize, Refusal> {
        // The stack's own base is part of its place.
        let rest = self.memory_bytes() + self.place_bytes() - BloomObject::BASE_BYTES;
        let stack = Stack::new(period, &self.shape, self.seed, limits.beside(rest))?;
        let room = self.stacks.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        let index = self.stacks.partition_point(|other| other.period <= period);
        self.stacks.insert(index, stack);
        Ok(index)
    }

    /// Adds each item in turn, and tells `outcome` what [`add`](Self::add) says. It stops after the first
    /// refusal: the items behind it are not tried.
    pub fn add_each<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        for item in items {
            let added = self.add(self.probe(item), time, id, &limits);
            outcome(added);
            if added.is_err() {
                return;
            }
        }
    }

    /// Takes back one count of an item, and tells whether it did. With an id: of the filter that took that
    /// id, if it claims the item. Without: of the one filter that claims it; where several do, none.
    /// Removing what was never added takes a count of other items, which may then be missing.
    pub fn remove(&mut self, probe: Probe, id: Option<u64>) -> bool {
        if !self.shape.counting {
            return false;
        }
        let mut found = None;
        for (index, stack) in self.stacks.iter().enumerate() {
            let of_id = match id {
                Some(id) => match stack.took(id) {
                    Some(filter) => Some(filter),
                    None => continue,
                },
                None => None,
            };
            let claimants = stack.object.claimants(probe);
            for filter in claimants.filter(|filter| of_id.is_none_or(|of_id| of_id == *filter)) {
                if found.replace((index, filter)).is_some() {
                    return false;
                }
            }
        }
        let Some((index, filter)) = found else {
            return false;
        };
        self.stacks[index].object.count_down(filter, probe);
        true
    }

    /// How often an item was added and not removed, at most; each filter counts up to 15. Without
    /// counters, 0.
    #[must_use]
    pub fn count(&self, probe: Probe) -> u64 {
        if !self.shape.counting {
            return 0;
        }
        let counts = self.all_filters().map(|filter| filter.count(probe));
        counts.map(u64::from).sum()
    }

    /// The filters that answer at a time, oldest first, each with the number of its period and the rate
    /// that it was made for.
    pub fn filters(&self, now_ms: u64) -> impl Iterator<Item = (u64, &Filter, f64)> {
        self.live(now_ms).flat_map(|stack| {
            let filters = stack.object.filters().iter().enumerate();
            filters.map(|(index, filter)| (stack.period, filter, stack.object.filter_rate(index)))
        })
    }

    /// All filters that take memory, whether they answer or not.
    pub fn all_filters(&self) -> impl Iterator<Item = &Filter> {
        self.stacks.iter().flat_map(|stack| stack.object.filters())
    }

    /// How many periods answer at a time.
    #[must_use]
    pub fn live_periods(&self, now_ms: u64) -> u64 {
        let live = &self.stacks[self.live_indices(now_ms)];
        let periods = live.chunk_by(|one, other| one.period == other.period);
        periods.count() as u64
    }

    /// Number of items that the periods that answer took for new, each for itself.
    #[must_use]
    pub fn items(&self, now_ms: u64) -> u64 {
        let each = self.live(now_ms).map(|stack| stack.object.items());
        each.fold(0, u64::saturating_add)
    }

    /// Number of items that the filters that answer are made for.
    #[must_use]
    pub fn capacity(&self, now_ms: u64) -> u64 {
        let each = self.live(now_ms).map(|stack| stack.object.capacity());
        each.fold(0, u64::saturating_add)
    }

    /// Filters, items and capacity of all that takes memory, whether it answers or not.
    #[must_use]
    pub fn totals(&self) -> (u64, u64, u64) {
        let sum = |(filters, items, capacity): (u64, u64, u64), stack: &Stack| {
            let object = &stack.object;
            (
                filters + object.filters().len() as u64,
                object.items().saturating_add(items),
                object.capacity().saturating_add(capacity),
            )
        };
        self.stacks.iter().fold((0, 0, 0), sum)
    }

    /// The rate of false positives at a time, as the items in each filter let expect it.
    #[must_use]
    pub fn estimated_rate(&self, now_ms: u64) -> f64 {
        let rates = self.live(now_ms).map(|stack| stack.object.estimated_rate());
        rates.sum::<f64>().min(1.0)
    }

    /// The most items that the object can come to hold, in the current period where it has a window,
    /// before a limit stops its growth.
    #[must_use]
    pub fn max_scaled_capacity(&self, now_ms: u64, limits: Limits) -> u64 {
        let current = self.target(Time::at(now_ms));
        let rest = |stack: &Stack| self.memory_bytes() - stack.object.memory_bytes();
        if let Some(stack) = self.stacks.iter().rfind(|stack| stack.period == current) {
            return stack.object.max_scaled_capacity(limits.beside(rest(stack)));
        }
        let bytes = self.memory_bytes() + self.place_bytes();
        self.shape.reach_of_period(bytes, limits).0
    }

    /// The exact number of bytes that the object's allocations asked for, itself included.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let stacks = self.stacks.iter().map(Stack::memory_bytes);
        Self::BASE_BYTES + self.table_bytes() + stacks.sum::<u64>()
    }

    fn table_bytes(&self) -> u64 {
        (self.stacks.capacity() * size_of::<Stack>()) as u64
    }

    /// Whether the limits admit such an object.
    #[must_use]
    pub fn is_within(&self, limits: Limits) -> bool {
        let mut filters = self.all_filters().map(|filter| filter.blob().len() as u64);
        filters.all(|bytes| limits.admit_filter(bytes)) && limits.admit_object(self.memory_bytes())
    }

    /// An object that answers for all of these, at least one: of each period what [`BloomObject::merged`]
    /// makes of it, but that stacks with ids stay as they are.
    ///
    /// # Errors
    /// Any [`MergeError`].
    pub fn merged(sources: &[&Self], limits: Limits) -> Result<Self, MergeError> {
        const NO_MEMORY: MergeError = MergeError::Refused(Refusal::OutOfMemory);
        let (first, others) = sources.split_first().ok_or(MergeError::Kinds)?;
        for other in others {
            if first.seed != other.seed {
                return Err(MergeError::Seeds);
            }
            let kind = |object: &Self| (object.shape.window, object.shape.counting);
            if kind(first) != kind(other) {
                return Err(MergeError::Kinds);
            }
        }
        let rate = sources
            .iter()
            .map(|s| s.shape.params.error_rate.get())
            .sum();
        let mut merged = Self::empty(&first.shape, first.seed);
        let mut stacks: Vec<&Stack> = sources.iter().flat_map(|source| &source.stacks).collect();
        stacks.sort_by_key(|stack| stack.period);
        let reserved = merged.stacks.try_reserve_exact(stacks.len());
        reserved.map_err(|_| NO_MEMORY)?;
        for of_period in stacks.chunk_by(|one, other| one.period == other.period) {
            let (with_ids, without): (Vec<&Stack>, Vec<&Stack>) =
                of_period.iter().partition(|stack| stack.ids.is_some());
            for stack in with_ids {
                merged.stacks.push(stack.try_clone().ok_or(NO_MEMORY)?);
            }
            let objects: Vec<&BloomObject> = without.iter().map(|stack| &stack.object).collect();
            if let Some(stack) = without.first() {
                merged.stacks.push(Stack {
                    period: stack.period,
                    object: BloomObject::merged(&objects, Limits::Obey)?,
                    ids: None,
                    ranges: Vec::new(),
                });
            }
        }
        merged.stacks.shrink_to_fit();
        merged.promise(rate)?;
        // As it will be checked when it is loaded.
        let (_, items, capacity) = merged.totals();
        let most = merged.shape.window.map_or(MAX_CAPACITY, |_| MANY);
        if items <= MANY && capacity <= most && merged.is_within(limits) {
            Ok(merged)
        } else {
            Err(MergeError::Refused(Refusal::MemoryLimit))
        }
    }

    /// Sets the rate of the whole to this, or to as much as a period needs, and has all periods grow as
    /// the whole does: that is stored once.
    fn promise(&mut self, rate: f64) -> Result<(), MergeError> {
        let (parts, params) = (self.shape.parts(), self.shape.params);
        let needed = self
            .stacks
            .iter_mut()
            .map(|stack| stack.object.grow_as(params) * parts);
        let rate = Fraction::new(needed.fold(rate, f64::max)).ok_or(MergeError::Rates)?;
        self.shape.params.error_rate = rate;
        let share = self.shape.of_period().ok_or(MergeError::Rates)?.error_rate;
        for stack in &mut self.stacks {
            stack.object.set_error_rate(share);
        }
        Ok(())
    }

    /// The stack that holds filter `index` of all, and the filter's number in it.
    fn place_of(&self, mut index: usize) -> Option<(usize, usize)> {
        for (place, stack) in self.stacks.iter().enumerate() {
            let filters = stack.object.filters().len();
            if index < filters {
                return Some((place, index));
            }
            index -= filters;
        }
        None
    }

    /// Lets `place` move the tables of filters, as [`BloomObject::relocate_table`] does.
    pub fn relocate_tables(&mut self, mut place: impl FnMut(Vec<Filter>) -> Vec<Filter>) {
        for stack in &mut self.stacks {
            stack.object.relocate_table(&mut place);
        }
    }

    /// Lets `place` move the blob of filter `index` of all, as [`BloomObject::relocate_filter`] does.
    pub fn relocate_filter(
        &mut self,
        index: usize,
        place: impl FnOnce(Box<[u8]>) -> Box<[u8]>,
    ) -> bool {
        let Some((stack, index)) = self.place_of(index) else {
            return false;
        };
        self.stacks[stack].object.relocate_filter(index, place)
    }
}
