//! What an object holds, and its operations.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Allowance, Limits, Links, Refusal};
use crate::bloom::stack::{Added, Stack};
use crate::hash::{Hasher, Probe};
use crate::machine::memory::{self, Relocate};
use crate::number::{MAX_CAPACITY, either};

use super::counters::Counters;
use super::estimate;
use super::ids::Ids;
use super::period::Period;
use super::shape::Shape;
use super::timeline::Timeline;
use super::view::{self, View};
use super::window::Time;

/// A Bloom object: a stack of filters that acts as one, or a list of such stacks, one per period of its window.
///
/// Lookups cover the *live* periods of a window, those that have not expired. Methods that take a clock read it only
/// if the object has a window, in milliseconds since the epoch.
///
/// ```
/// use valkeybloom_sketches::bloom::{
///     Added, Growth, Kind, Limits, Object, Params, Shape, Tightening, Time, Window,
/// };
/// use valkeybloom_sketches::{Fraction, Seed};
///
/// let params = Params {
///     capacity: 1000,
///     error_rate: Fraction::new(0.01).unwrap(),
///     tightening: Tightening::HALF,
///     growth: Growth::from_expansion(2),
/// };
/// let mut seen = Object::plain(&params, Seed::random(), Limits::NONE).unwrap();
/// let url = b"https://example.org/";
/// let never = || 0;
/// assert!(!seen.contains(url, never));
/// assert_eq!(seen.add(url, Time::default(), None, || Limits::NONE), Ok(Added::New));
/// assert!(seen.contains(url, never));
///
/// let shape = Shape { params, kind: Kind::Windowed(Window::new(60_000, 5).unwrap()) };
/// let mut lately = Object::new(&shape, Seed::random(), Time::at(0), Limits::NONE).unwrap();
/// assert_eq!(lately.add(url, Time::at(0), None, || Limits::NONE), Ok(Added::New));
/// assert!(lately.contains(url, || 4 * 60_000));
/// assert!(!lately.contains(url, || 5 * 60_000));
/// ```
#[derive(Debug)]
pub struct Object(pub(super) Body);

#[derive(Debug)]
pub(super) enum Body {
    /// A plain object: one stack of bits, ours or `RedisBloom`'s.
    Stack(Stack),
    /// An object with counters.
    Counters(Box<Counters>),
    /// An object with a window.
    Timeline(Box<Timeline>),
}

// A plain object takes no more memory than its stack, and no more than in earlier builds.
const _: () = assert!(Object::BASE_BYTES == Stack::BASE_BYTES);

impl Object {
    /// Size of an object without filters, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(112) as u64;

    /// Panics if the object is not valid, in builds with debug assertions.
    #[inline]
    pub(super) fn assert_valid(&self) {
        if cfg!(debug_assertions)
            && let Err(what) = self.check()
        {
            panic!("{what}: {self:?}");
        }
    }

    /// Returns the only stack of an object without a window.
    const fn stack(&self) -> Option<&Stack> {
        match &self.0 {
            Body::Stack(stack) => Some(stack),
            Body::Counters(counters) => Some(&counters.stack),
            Body::Timeline(_) => None,
        }
    }

    const fn timeline(&self) -> Option<&Timeline> {
        match &self.0 {
            Body::Stack(_) | Body::Counters(_) => None,
            Body::Timeline(timeline) => Some(timeline),
        }
    }

    /// Returns the live periods, oldest first, if there is a window.
    fn live(&self, now_ms: impl FnOnce() -> u64) -> &[Period] {
        let timeline = self.timeline();
        timeline.map_or(&[], |timeline| timeline.live(now_ms()))
    }

    /// Returns the only stack, or those of these periods, each with the number of its period.
    fn stacks_of<'o>(
        &'o self,
        periods: &'o [Period],
    ) -> impl Iterator<Item = (Option<u64>, &'o Stack)> {
        let only = self.stack().into_iter().map(|stack| (None, stack));
        only.chain(periods.iter().map(|p| (Some(p.number), &p.stack)))
    }

    /// Returns the live stacks, oldest first.
    fn live_stacks(&self, now_ms: impl FnOnce() -> u64) -> impl Iterator<Item = &Stack> {
        let stacks = self.stacks_of(self.live(now_ms));
        stacks.map(|(_, stack)| stack)
    }

    /// Returns the filters of the only stack, or of these periods, with their bits.
    fn views_of<'o>(&'o self, periods: &'o [Period]) -> impl Iterator<Item = View<'o>> {
        let own = self.stack().map_or(&[][..], Stack::filters).iter();
        let own = own.map(|filter| View::new(filter, None));
        let timeline = self.timeline().into_iter();
        own.chain(timeline.flat_map(move |t| periods.iter().flat_map(|p| t.views(p))))
    }

    /// Copies the object, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let body = match &self.0 {
            Body::Stack(stack) => Body::Stack(stack.try_clone()?),
            Body::Counters(counters) => Body::Counters(Box::new(counters.try_clone()?)),
            Body::Timeline(timeline) => Body::Timeline(Box::new(timeline.try_clone()?)),
        };
        Some(Self(body))
    }

    /// Returns whether the object is plain: it reads no clock and takes no ids.
    #[inline]
    pub const fn is_plain(&self) -> bool {
        matches!(self.0, Body::Stack(_))
    }

    /// Returns the requested shape. The capacity of a plain object is its first filter's.
    pub fn shape(&self) -> Shape {
        match &self.0 {
            Body::Stack(stack) => {
                let capacity = stack.filters().first().map_or(0, Filter::capacity);
                Shape::plain(stack.law().series().params(capacity))
            }
            Body::Counters(counters) => counters.shape(),
            Body::Timeline(timeline) => timeline.shape(),
        }
    }

    /// Returns the hash function of the items.
    #[inline]
    pub const fn hasher(&self) -> &Hasher {
        match &self.0 {
            Body::Stack(stack) => stack.hasher(),
            Body::Counters(counters) => counters.stack.hasher(),
            Body::Timeline(timeline) => &timeline.hasher,
        }
    }

    /// Returns the fields of an object of `RedisBloom` besides its filters; `None` for other objects.
    #[inline]
    pub(crate) const fn links(&self) -> Option<&Links> {
        match &self.0 {
            Body::Stack(stack) => stack.law().links(),
            Body::Counters(_) | Body::Timeline(_) => None,
        }
    }

    /// Hashes an item for this object.
    // Out of line, an addition takes 26 more instructions (`./build.sh bench instructions`).
    #[inline(always)]
    pub fn probe(&self, item: &[u8]) -> Probe {
        self.hasher().probe(item)
    }

    /// Returns whether the object claims an item: false is certain, true is wrong at the error rate.
    #[inline]
    pub fn contains(&self, item: &[u8], now_ms: impl FnOnce() -> u64) -> bool {
        self.contains_probe(self.probe(item), now_ms)
    }

    /// Looks up an item by its [probe](Self::probe), as [`contains`](Self::contains) does.
    #[inline]
    pub fn contains_probe(&self, probe: Probe, now_ms: impl FnOnce() -> u64) -> bool {
        match &self.0 {
            Body::Stack(stack) => stack.contains(probe),
            Body::Counters(counters) => counters.stack.contains(probe),
            Body::Timeline(timeline) => timeline.contains(probe, now_ms()),
        }
    }

    /// Looks up items in order, and passes the result of [`contains`](Self::contains) for each to `answer`.
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        mut answer: impl FnMut(bool),
    ) {
        self.contains_each_hashed(items, now_ms, |_, claimed| answer(claimed));
    }

    /// Looks up items in order, and passes a hash of each and the result of [`contains`](Self::contains) to `answer`.
    /// Equal items have equal hashes.
    pub fn contains_each_hashed<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        mut answer: impl FnMut(u64, bool),
    ) {
        let answer = |probe: Probe, claimed| answer(probe.hashes().0, claimed);
        match &self.0 {
            Body::Stack(stack) => stack.contains_each(items, answer),
            Body::Counters(counters) => counters.stack.contains_each(items, answer),
            Body::Timeline(timeline) => timeline.contains_each(items, now_ms(), answer),
        }
    }

    /// Adds an item. An object with a window is to be [tidied](Self::tidy) first. Counters record the id, if the item
    /// has one. Calls `limits` only if the object has to grow.
    ///
    /// # Errors
    /// Any [`Refusal`]. The object is unchanged then.
    #[inline]
    pub fn add(
        &mut self,
        item: &[u8],
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        self.add_probe(self.probe(item), time, id, limits)
    }

    /// Adds an item by its probe, as [`add`](Self::add) does. All objects with an equal [`hasher`](Self::hasher) can
    /// use the same probe. A probe of another hasher stands for a different item.
    ///
    /// ```
    /// # use valkeybloom_sketches::bloom::{Growth, Limits, Object, Params, Tightening, Time};
    /// # use valkeybloom_sketches::{Fraction, Seed};
    /// # let params = Params {
    /// #     capacity: 100,
    /// #     error_rate: Fraction::new(0.01).unwrap(),
    /// #     tightening: Tightening::HALF,
    /// #     growth: Growth::from_expansion(2),
    /// # };
    /// let seed = Seed::random();
    /// let mut one = Object::plain(&params, seed, Limits::NONE).unwrap();
    /// let mut other = Object::plain(&params, seed, Limits::NONE).unwrap();
    /// assert_eq!(one.hasher(), other.hasher());
    /// let probe = one.probe(b"item");
    /// for object in [&mut one, &mut other] {
    ///     object.add_probe(probe, Time::default(), None, || Limits::NONE).unwrap();
    ///     assert!(object.contains_probe(probe, || 0));
    /// }
    /// assert!(other.contains(b"item", || 0));
    /// ```
    ///
    /// # Errors
    /// Any [`Refusal`]. The object is unchanged then.
    #[inline]
    pub fn add_probe(
        &mut self,
        probe: Probe,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let added = match &mut self.0 {
            Body::Stack(stack) => stack.add(probe, || limits().into()),
            Body::Counters(counters) => counters.add(probe, id, || beside_base(limits())),
            Body::Timeline(timeline) => timeline.add(probe, time, || beside_base(limits())),
        };
        self.assert_valid();
        added
    }

    /// Adds items in order, and passes the result of [`add`](Self::add) for each to `outcome`. Stops after the first
    /// refusal: later items are not tried.
    pub fn add_each<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        // A single item needs no batch.
        if items.size_hint().1 == Some(1) {
            return items.for_each(|item| outcome(self.add(item, time, id, &limits)));
        }
        match &mut self.0 {
            Body::Stack(stack) => {
                stack.add_each(items, || limits().into(), |_, _, added| outcome(added));
            }
            Body::Counters(counters) => {
                counters.add_each(items, id, || beside_base(limits()), outcome);
            }
            Body::Timeline(timeline) => {
                timeline.add_each(items, time, || beside_base(limits()), outcome);
            }
        }
        self.assert_valid();
    }

    /// Overwrites cells of a plain object's filters, starting at byte `begin` of all cells end to end. Returns whether
    /// the bytes are within one filter; if not, nothing is written.
    pub fn overwrite(&mut self, begin: u64, bytes: &[u8]) -> bool {
        match &mut self.0 {
            Body::Stack(stack) => stack.overwrite(begin, bytes),
            Body::Counters(_) | Body::Timeline(_) => false,
        }
    }

    /// Frees expired periods. If the clock was set back, shifts the other periods back with it. Returns whether
    /// anything changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let tidied = match &mut self.0 {
            Body::Stack(_) | Body::Counters(_) => false,
            Body::Timeline(timeline) => timeline.tidy(now_ms),
        };
        self.assert_valid();
        tidied
    }

    /// Returns the initial capacity of the period of this time, or `None` without such a period or without a window.
    pub fn room(&self, time: Time) -> Option<u64> {
        self.timeline()?.room(time)
    }

    /// Opens the period of this time with this capacity, unless it exists. [`add`](Self::add) would open it with a
    /// capacity that fits the items of the periods before it. A capacity of 0 counts as 1.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn begin_period(
        &mut self,
        time: Time,
        capacity: u64,
        limits: Limits,
    ) -> Result<(), Refusal> {
        let Body::Timeline(timeline) = &mut self.0 else {
            return Ok(());
        };
        let target = timeline.window.target(time);
        if timeline.index_of(target).is_none() {
            timeline.open_with(target, capacity.max(1), beside_base(limits))?;
        }
        self.assert_valid();
        Ok(())
    }

    /// Removes one count of an item from counters. Returns whether it did: only if exactly one filter claims the item,
    /// or with an id, exactly one of the filters that may hold that id. A counter that reached 15 stays, since the
    /// true count is unknown. Removing an item that was never added, or not with that id, takes a count from other
    /// items, which may then be missing.
    pub fn remove(&mut self, item: &[u8], id: Option<u64>) -> bool {
        let removed = match &mut self.0 {
            Body::Counters(counters) => counters.remove(counters.stack.hasher().probe(item), id),
            Body::Stack(_) | Body::Timeline(_) => false,
        };
        self.assert_valid();
        removed
    }

    /// Returns how often an item was added to counters and not removed: an upper bound, except that each filter counts
    /// to 15 at most. Returns 0 without counters.
    pub fn count(&self, item: &[u8]) -> u64 {
        let probe = self.probe(item);
        let counters = self.all_filters().filter(|f| f.cells() == Cells::Counters);
        counters.map(|f| u64::from(f.count(probe))).sum()
    }

    /// Returns the number of items that were new when they were added; with a window, summed over the live periods.
    pub fn items(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        match &self.0 {
            Body::Counters(counters) => counters.items(),
            _ => sum(self.live_stacks(now_ms).map(Stack::items)),
        }
    }

    /// Returns the sum of the live filters' capacities.
    pub fn capacity(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        sum(self.live_stacks(now_ms).map(Stack::capacity))
    }

    /// Returns the current error rate, estimated from the contents of each filter.
    pub fn estimated_rate(&self, now_ms: impl Fn() -> u64) -> f64 {
        let by_equations = either(self.live_stacks(&now_ms).map(Stack::estimated_rate));
        estimate::rate(by_equations, self.views_of(self.live(&now_ms)))
    }

    /// Returns the capacity that the object can grow to before a limit stops it; with a window, that of the current
    /// period.
    pub fn reach(&self, now_ms: impl FnOnce() -> u64, limits: Limits) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.reach(limits.into()),
            Body::Counters(counters) => counters.reach(beside_base(limits)),
            Body::Timeline(timeline) => timeline.reach(now_ms(), beside_base(limits)),
        }
    }

    /// Returns the live filters, oldest first, each with the number of its period, if there is a window, and the rate
    /// that it was made for.
    pub fn filters(
        &self,
        now_ms: impl FnOnce() -> u64,
    ) -> impl Iterator<Item = (Option<u64>, View<'_>, f64)> {
        // Filters of most periods share their rates, which are expensive: they are found by solving equations.
        let mut rates = HashMap::new();
        let periods = self.live(now_ms);
        let places = self.stacks_of(periods).flat_map(|(period, stack)| {
            let indices = 0..stack.filters().len();
            indices.map(move |index| (period, stack, index))
        });
        let views = places.zip(self.views_of(periods));
        views.map(move |((period, stack, index), view)| {
            let of = (index, view.capacity(), view.filter().merge_key());
            let rate = rates.entry(of).or_insert_with(|| stack.filter_rate(index));
            (period, view, *rate)
        })
    }

    /// Returns the number of live filters.
    pub fn filter_count(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        let stacks = self.live_stacks(now_ms);
        stacks.map(|stack| stack.filters().len() as u64).sum()
    }

    /// Returns the number of live periods of an object with a window.
    pub fn live_periods(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        Some(self.timeline()?.live(now_ms()).len() as u64)
    }

    /// Returns the number of items in the current period of an object with a window: those that [`reach`](Self::reach)
    /// limits.
    pub fn period_items(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        let timeline = self.timeline()?;
        let index = timeline.index_of(timeline.window.period_at(now_ms()));
        Some(index.map_or(0, |index| timeline.periods[index].stack.items()))
    }

    /// Returns all periods that take memory, live or not. Only an object with a window has periods.
    pub fn periods(&self) -> &[Period] {
        self.timeline().map_or(&[], |timeline| &timeline.periods)
    }

    /// Returns all filters that take memory, live or not, with their bits.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.views_of(self.periods())
    }

    /// Returns the blobs of all filters that take memory: their stored forms. Interleaved filters are copied; yields
    /// `None` for a filter if its copy can't be allocated.
    pub fn blobs(&self) -> impl Iterator<Item = Option<Cow<'_, [u8]>>> {
        view::blobs(self.views())
    }

    /// Returns the ids that the filters of counters took.
    pub(crate) const fn ids(&self) -> Option<&Ids> {
        match &self.0 {
            Body::Counters(counters) => Some(&counters.ids),
            Body::Stack(_) | Body::Timeline(_) => None,
        }
    }

    /// Returns all stacks that take memory, live or not, each with the number of its period: 0 without a window.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (u64, &Stack)> {
        let stacks = self.stacks_of(self.periods());
        stacks.map(|(number, stack)| (number.unwrap_or(0), stack))
    }

    /// Returns all filters that take memory, live or not. With a window, their bits may be elsewhere:
    /// [`views`](Self::views) have them.
    pub(crate) fn all_filters(&self) -> impl Iterator<Item = &Filter> {
        self.stacks().flat_map(|(_, stack)| stack.filters())
    }

    fn all_stacks_mut(&mut self) -> impl Iterator<Item = &mut Stack> {
        let (one, periods) = match &mut self.0 {
            Body::Stack(stack) => (Some(stack), &mut [][..]),
            Body::Counters(counters) => (Some(&mut counters.stack), &mut [][..]),
            Body::Timeline(timeline) => (None, &mut timeline.periods[..]),
        };
        let periods = periods.iter_mut().map(|period| &mut period.stack);
        one.into_iter().chain(periods)
    }

    /// Moves tables and blobs, starting with number `first`, until `by` stops. Returns the number of the next one, if
    /// there is one.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        let mut number = 0;
        for stack in self.all_stacks_mut() {
            let count = 1 + stack.filters().len();
            for index in first.saturating_sub(number).min(count)..count {
                if number + index > first && by.should_stop() {
                    return Some(number + index);
                }
                match index.checked_sub(1) {
                    None => stack.relocate_table(|table| by.table(table)),
                    Some(index) => stack.filters_mut()[index].relocate(|blob| by.blob(blob)),
                }
            }
            number += count;
        }
        if let Body::Timeline(timeline) = &mut self.0 {
            let lanes = &mut timeline.lanes;
            for index in first.saturating_sub(number)..lanes.blobs() {
                if number + index > first && by.should_stop() {
                    return Some(number + index);
                }
                lanes.relocate(index, by);
            }
        }
        self.assert_valid();
        None
    }

    /// Returns the number of filters that take memory, live or not, their items, and their capacity.
    #[inline]
    pub fn totals(&self) -> (u64, u64, u64) {
        let of = |stack: &Stack| {
            let filters = stack.filters().len() as u64;
            (filters, stack.items(), stack.capacity())
        };
        // A module asks before and after each change.
        if let Body::Stack(stack) = &self.0 {
            return of(stack);
        }
        let stacks = self.stacks().map(|(_, stack)| of(stack));
        let (filters, items, capacity) = stacks.fold((0, 0, 0), |sum: (_, u64, u64), of| {
            (
                sum.0 + of.0,
                sum.1.saturating_add(of.1),
                sum.2.saturating_add(of.2),
            )
        });
        let repeats = self.ids().map_or(0, |ids| ids.repeats);
        (filters, items.saturating_sub(repeats), capacity)
    }

    /// Returns the exact sum of the object's allocations in bytes, including itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.memory_bytes(),
            Body::Counters(counters) => Self::BASE_BYTES + counters.memory_bytes(),
            Body::Timeline(timeline) => Self::BASE_BYTES + timeline.memory_bytes(),
        }
    }

    /// Returns whether limits admit the object.
    pub fn is_within(&self, limits: Limits) -> bool {
        let mut filters = self.all_filters().map(|f| f.geometry().blob_bytes());
        filters.all(|bytes| bytes <= limits.filter_bytes)
            && self.memory_bytes() <= limits.object_bytes
    }
}

/// Returns the allowance for what an object keeps in a box.
pub(super) fn beside_base(limits: Limits) -> Allowance {
    limits.beside(Object::BASE_BYTES).into()
}

/// Returns a saturating sum over periods. Only claims in files can reach its bound.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add).min(MAX_CAPACITY)
}
