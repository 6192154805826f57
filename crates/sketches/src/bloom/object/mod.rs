//! What a key holds.

mod additions;
mod check;
mod estimate;
mod holder;
mod ids;
mod lanes;
mod merge;
mod new;
mod outline;
mod overlap;
mod part;
mod period;
mod plan;
mod shape;
mod timeline;
mod view;
mod window;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Law, Limits, Links, Params, Refusal};
use crate::bloom::stack::{Added, Stack};
use crate::hash::{Hasher, Probe, Seed};
use crate::machine::memory::Relocate;
use crate::number::{MAX_CAPACITY, either};

use check::Check;
use holder::Search;
use timeline::Timeline;

pub use ids::{Ids, Interval};
pub use merge::MergeError;
pub use new::New;
pub use outline::{FilterOutline, Outline, PeriodOutline};
pub use period::Period;
pub use plan::Plan;
pub use shape::{Kind, Shape};
use view::Blobs;
pub use view::View;
pub use window::{Time, Window};

/// A Bloom object: a stack of filters that acts as one, or a list of such stacks, one for each period of its
/// window.
///
/// Methods that take a clock read it, in milliseconds since the epoch, only if the object has a window.
///
/// ```
/// use valkeybloom::bloom::{
///     Added, Fraction, Growth, Limits, Object, Params, Seed, Shape, Tightening, Time, Window, Kind,
/// };
///
/// let params = Params {
///     capacity: 1000,
///     error_rate: Fraction::new(0.01).unwrap(),
///     tightening: Tightening::HALF,
///     growth: Growth::from_expansion(2),
/// };
/// let mut seen = Object::plain(&params, Seed::FIXED, Limits::NONE).unwrap();
/// let url = b"https://example.org/";
/// let never = || 0;
/// assert!(!seen.contains(url, never));
/// assert_eq!(seen.add(url, Time::default(), None, || Limits::NONE), Ok(Added::New));
/// assert!(seen.contains(url, never));
///
/// let shape = Shape { params, kind: Kind::Windowed(Window::new(60_000, 5).unwrap()) };
/// let mut lately = Object::new(&shape, Seed::FIXED, Time::at(0), Limits::NONE).unwrap();
/// assert_eq!(lately.add(url, Time::at(0), None, || Limits::NONE), Ok(Added::New));
/// assert!(lately.contains(url, || 4 * 60_000));
/// assert!(!lately.contains(url, || 5 * 60_000));
/// ```
#[derive(Debug)]
pub struct Object(Body);

#[derive(Debug)]
enum Body {
    /// A plain object: one stack of bits, ours or `RedisBloom`'s.
    Stack(Stack),
    /// An object with a window, or with counters.
    Timeline(Box<Timeline>),
}

// A plain object takes no more than its stack, and as much as it always did.
const _: () = assert!(size_of::<Object>() == size_of::<Stack>() && size_of::<Object>() == 112);

impl Object {
    /// Bytes of an object without filters, including itself.
    pub const BASE_BYTES: u64 = size_of::<Self>() as u64;

    /// An empty object, ready for items added at this time. `RedisBloom`'s have no seed.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn make(new: &New, seed: Seed, time: Time, limits: Limits) -> Result<Self, Refusal> {
        match new {
            New::Own(shape) => Self::new(shape, seed, time, limits),
            New::RedisBloom { params, factor } => {
                let (links, first) = Links::begin(params, *factor)?;
                let law = Law::RedisBloom(Box::new(links));
                let (hasher, cells) = (Hasher::Murmur64, Cells::BareBits);
                let stack = Stack::begin(law, hasher, cells, &first, limits.into())?;
                Self(Body::Stack(stack)).checked()
            }
        }
    }

    /// An empty object of a shape, ready for items added at this time.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn new(shape: &Shape, seed: Seed, time: Time, limits: Limits) -> Result<Self, Refusal> {
        if shape.kind == Kind::Plain {
            return Self::plain(&shape.params, seed, limits);
        }
        let mut shape = *shape;
        shape.params.tightening = shape.tightening();
        let mut timeline = Timeline::new(shape, Hasher::Sip(seed));
        timeline.open(
            timeline.target(time),
            limits.beside(Self::BASE_BYTES).into(),
        )?;
        Self(Body::Timeline(Box::new(timeline))).checked()
    }

    /// An empty plain object.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn plain(params: &Params, seed: Seed, limits: Limits) -> Result<Self, Refusal> {
        let (law, hasher) = (Law::of(params), Hasher::Sip(seed));
        let stack = Stack::new(law, hasher, Cells::Bits, params.capacity, limits.into())?;
        Self(Body::Stack(stack)).checked()
    }

    /// The object of an outline whose cells are complete: the one way in from outside. `None`, and the outline is as
    /// it was, if there is no memory for the object's tables.
    ///
    /// # Errors
    /// What is wrong with it, in words for a log.
    pub fn from_outline(outline: &mut Outline) -> Result<Option<Self>, &'static str> {
        outline.check()?;
        let Some(periods) = outline.finish()? else {
            return Ok(None);
        };
        let object = if outline.shape.kind == Kind::Plain {
            let period = periods.into_iter().next().ok_or("no filters")?;
            Self(Body::Stack(period.stack))
        } else {
            let timeline = Timeline::new(outline.shape, outline.hasher).with_periods(periods);
            Self(Body::Timeline(Box::new(timeline)))
        };
        object.check()?;
        Ok(Some(object))
    }

    /// The union of these objects, at least one.
    ///
    /// # Errors
    /// Any [`MergeError`].
    pub fn merged(sources: &[&Self], limits: Limits) -> Result<Self, MergeError> {
        let copy = || {
            let first = sources.first().ok_or(MergeError::Kinds)?;
            first.try_clone().ok_or(merge::NO_MEMORY)
        };
        let merged = Self::union(sources, None, limits)?.map_or_else(copy, Ok)?;
        if merged.is_within(limits) {
            Ok(merged)
        } else {
            Err(merge::TOO_LARGE)
        }
    }

    /// The union of these objects, at least one, or `None` if the first one is that already. Filters that limits
    /// don't admit are refused before memory is taken for them; periods that have passed by now, if that is
    /// given, count for none.
    ///
    /// # Errors
    /// Any [`MergeError`].
    pub fn union(
        sources: &[&Self],
        now_ms: Option<u64>,
        limits: Limits,
    ) -> Result<Option<Self>, MergeError> {
        let (mut stacks, mut timelines) = (Vec::new(), Vec::new());
        let room = stacks.try_reserve_exact(sources.len());
        let room = room.and_then(|()| timelines.try_reserve_exact(sources.len()));
        room.map_err(|_| merge::NO_MEMORY)?;
        for source in sources {
            match &source.0 {
                Body::Stack(stack) => stacks.push(stack),
                Body::Timeline(timeline) => timelines.push(&**timeline),
            }
        }
        let mut budget = merge::Budget::new(limits, Self::BASE_BYTES);
        let filters = sources.iter().flat_map(|source| source.all_filters());
        let mut search = Search::among(filters.map(|f| f.geometry().cell_bytes).sum());
        let merged = match (stacks.is_empty(), timelines.is_empty()) {
            (false, true) => merge::stacks(&stacks, &mut budget, &mut search)?.map(Body::Stack),
            (true, false) => merge::timelines(&timelines, now_ms, &mut budget, &mut search)?
                .map(|timeline| Body::Timeline(Box::new(timeline))),
            _ => return Err(MergeError::Kinds),
        };
        let merged = merged.map(|body| Self(body).checked());
        merged.transpose().map_err(MergeError::Refused)
    }

    /// Requires that this is a valid object, as `Check` states what that is.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), &'static str> {
        let no_ids = Ids::default();
        let periods = self.all_periods();
        let (shape, hasher) = (self.shape(), self.hasher());
        let law_of_period = shape.law();
        let law = match &self.0 {
            Body::Stack(stack) => stack.law(),
            Body::Timeline(_) => law_of_period.as_ref().ok_or("error rate out of range")?,
        };
        let mut check = Check::begin(&shape, hasher, law)?;
        for (number, stack, ids) in periods {
            if stack.law() != law || stack.hasher() != hasher {
                return Err("periods that grow or hash differently");
            }
            let filters = stack.filters();
            check.period(number, ids.unwrap_or(&no_ids), filters.len())?;
            for filter in filters {
                let size = filter.geometry();
                check.filter(size, filter.capacity(), filter.items(), filter.blob())?;
            }
            if !stack.has_right_sums() {
                return Err("sums that are not the filters'");
            }
        }
        if let Body::Timeline(timeline) = &self.0 {
            timeline.check()?;
        }
        check.end()
    }

    /// With debug assertions, ends the program where the object is not valid.
    #[inline(always)]
    fn assert_valid(&self) {
        #[cfg(debug_assertions)]
        if let Err(what) = self.check() {
            panic!("{what}: {self:?}");
        }
    }

    /// The object, if it is valid. For a new or merged one the only possible fault is a sum that overflows,
    /// which is above every limit.
    fn checked(self) -> Result<Self, Refusal> {
        match self.check() {
            Ok(()) => Ok(self),
            Err(_) => Err(Refusal::MemoryLimit),
        }
    }

    /// All periods that take memory: number, stack and ids. Of a plain object, one.
    fn all_periods(&self) -> impl Iterator<Item = (u64, &Stack, Option<&Ids>)> {
        let (one, periods) = self.parts();
        let one = one.into_iter().map(|stack| (0, stack, None));
        let periods = periods.map_or(&[][..], |timeline| &timeline.periods).iter();
        one.chain(periods.map(|p| (p.number, &p.stack, Some(&p.ids))))
    }

    fn parts(&self) -> (Option<&Stack>, Option<&Timeline>) {
        match &self.0 {
            Body::Stack(stack) => (Some(stack), None),
            Body::Timeline(timeline) => (None, Some(timeline)),
        }
    }

    /// The stacks that answer now, oldest first, each with the number of its period where there is a window.
    fn live(&self, now_ms: impl FnOnce() -> u64) -> impl Iterator<Item = (Option<u64>, &Stack)> {
        self.stacks_of(self.answering(now_ms))
    }

    /// The periods that answer now, oldest first; none, of a plain object.
    fn answering(&self, now_ms: impl FnOnce() -> u64) -> &[Period] {
        let timeline = self.parts().1;
        timeline.map_or(&[], |timeline| timeline.live(now_ms))
    }

    /// The stacks of a plain object, or of these periods, each with the number of its period if there is a window.
    fn stacks_of<'o>(
        &'o self,
        periods: &'o [Period],
    ) -> impl Iterator<Item = (Option<u64>, &'o Stack)> {
        let (one, timeline) = self.parts();
        let windowed = timeline.is_some_and(|timeline| timeline.shape.window().is_some());
        let one = one.into_iter().map(|stack| (None, stack));
        one.chain(
            periods
                .iter()
                .map(move |p| (windowed.then_some(p.number), &p.stack)),
        )
    }

    /// The filters of a plain object, or of these periods, with their bits.
    fn views_of<'o>(&'o self, periods: &'o [Period]) -> impl Iterator<Item = View<'o>> {
        let (one, timeline) = self.parts();
        let own = one.map_or(&[][..], Stack::filters).iter();
        let own = own.map(|filter| View::new(filter, None));
        let of_periods = timeline.into_iter();
        own.chain(of_periods.flat_map(move |t| periods.iter().flat_map(|p| t.views(p))))
    }

    /// All stacks that take memory, whether they answer or not.
    fn all_stacks(&self) -> impl Iterator<Item = &Stack> {
        self.all_periods().map(|(_, stack, _)| stack)
    }

    /// A copy in memory of its own, or `None` where there is none.
    pub fn try_clone(&self) -> Option<Self> {
        let body = match &self.0 {
            Body::Stack(stack) => Body::Stack(stack.try_clone()?),
            Body::Timeline(timeline) => Body::Timeline(Box::new(timeline.try_clone()?)),
        };
        Some(Self(body))
    }

    /// Whether it is a plain object, which looks at no time and takes no ids.
    #[inline]
    pub const fn is_plain(&self) -> bool {
        matches!(self.0, Body::Stack(_))
    }

    /// The requested shape; the capacity is the first filter's.
    pub fn shape(&self) -> Shape {
        match &self.0 {
            Body::Stack(stack) => {
                let capacity = stack.filters().first().map_or(0, Filter::capacity);
                Shape::plain(stack.law().series().params(capacity))
            }
            Body::Timeline(timeline) => timeline.shape,
        }
    }

    /// How items are hashed.
    #[inline]
    pub const fn hasher(&self) -> &Hasher {
        match &self.0 {
            Body::Stack(stack) => stack.hasher(),
            Body::Timeline(timeline) => &timeline.hasher,
        }
    }

    /// What an object of `RedisBloom` has besides its filters.
    #[inline]
    pub const fn links(&self) -> Option<&Links> {
        match &self.0 {
            Body::Stack(stack) => stack.law().links(),
            Body::Timeline(_) => None,
        }
    }

    /// Hashes an item for this object.
    #[inline]
    pub fn probe(&self, item: &[u8]) -> Probe {
        self.hasher().probe(item)
    }

    /// Whether the object claims an item: false is certain, true is right except at the error rate.
    #[inline]
    pub fn contains(&self, item: &[u8], now_ms: impl FnOnce() -> u64) -> bool {
        match &self.0 {
            Body::Stack(stack) => stack.contains(stack.hasher().probe(item)),
            Body::Timeline(timeline) => timeline.contains(timeline.hasher.probe(item), now_ms),
        }
    }

    /// Looks each item up in turn, and passes the result of [`contains`](Self::contains) to `answer`.
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        mut answer: impl FnMut(bool),
    ) {
        self.contains_each_hashed(items, now_ms, |_, claimed| answer(claimed));
    }

    /// The same, and passes a hash of the item as well: equal items have equal ones.
    pub fn contains_each_hashed<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        mut answer: impl FnMut(u64, bool),
    ) {
        let answer = |probe: Probe, claimed| answer(probe.hashes().0, claimed);
        match &self.0 {
            Body::Stack(stack) => stack.contains_each(items, answer),
            Body::Timeline(timeline) => timeline.contains_each(items, now_ms, answer),
        }
    }

    /// Adds an item; to an object with a window after [`tidy`](Self::tidy), to counters with an id if it has
    /// one. Calls `limits` only if the object has to grow.
    ///
    /// # Errors
    /// Any [`Refusal`]; the object is unchanged then.
    #[inline]
    pub fn add(
        &mut self,
        item: &[u8],
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let added = match &mut self.0 {
            Body::Stack(stack) => stack.add(stack.hasher().probe(item), || limits().into()),
            Body::Timeline(timeline) => {
                let allowance = || limits().beside(Self::BASE_BYTES).into();
                timeline.add(timeline.hasher.probe(item), time, id, allowance)
            }
        };
        self.assert_valid();
        added
    }

    /// Adds each item in turn, and passes the result of [`add`](Self::add) to `outcome`. Stops after the first
    /// refusal: the items after it are not tried.
    pub fn add_each<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        id: Option<u64>,
        limits: impl Fn() -> Limits,
        outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        match &mut self.0 {
            Body::Stack(stack) => stack.add_each(items, || limits().into(), outcome),
            Body::Timeline(timeline) => {
                let allowance = || limits().beside(Self::BASE_BYTES).into();
                timeline.add_each(items, time, id, allowance, outcome);
            }
        }
        self.assert_valid();
    }

    /// Writes these bytes over the cells of a plain object's filters, from this byte of all of them end to end. Returns
    /// whether all of them lie in one filter; nothing is written otherwise.
    pub fn overwrite(&mut self, begin: u64, bytes: &[u8]) -> bool {
        match &mut self.0 {
            Body::Stack(stack) => stack.overwrite(begin, bytes),
            Body::Timeline(_) => false,
        }
    }

    /// Frees the periods that have passed, and sets the others back with the clock, if that was. Returns whether
    /// anything changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let tidied = match &mut self.0 {
            Body::Stack(_) => false,
            Body::Timeline(timeline) => timeline.tidy(now_ms),
        };
        self.assert_valid();
        tidied
    }

    /// Returns the capacity with which the period of this time began; `None` without such a period, or without a window.
    pub fn room(&self, time: Time) -> Option<u64> {
        self.parts().1?.room(time)
    }

    /// Begins the period of this time with this capacity, unless it exists. Otherwise [`add`](Self::add) begins it, with
    /// room for what the periods before it took.
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
        let target = timeline.target(time);
        if timeline.period_of(target).is_none() {
            let allowance = limits.beside(Self::BASE_BYTES).into();
            timeline.open_with(target, capacity, allowance)?;
        }
        self.assert_valid();
        Ok(())
    }

    /// Removes one count of an item, and returns whether it did: only counters can, and only if a single
    /// filter claims the item; with the id that it was added with, a single one of those that may hold that
    /// id. What was counted 15 times stays: how often more is unknown. Removing what was never added, or not
    /// with that id, takes a count from other items, which may then be missing.
    pub fn remove(&mut self, item: &[u8], id: Option<u64>) -> bool {
        let removed = match &mut self.0 {
            Body::Timeline(timeline) if timeline.shape.is_counting() => {
                timeline.remove(timeline.hasher.probe(item), id)
            }
            _ => false,
        };
        self.assert_valid();
        removed
    }

    /// How often an item was added to counters and not removed, at most; of each filter at most 15.
    /// Without counters, 0.
    pub fn count(&self, item: &[u8]) -> u64 {
        let probe = self.probe(item);
        let counters = self.all_filters().filter(|f| f.cells() == Cells::Counters);
        counters.map(|f| u64::from(f.count(probe))).sum()
    }

    /// Number of items that were new when they were added; with a window, summed over the periods that answer.
    pub fn items(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        sum(self.live(now_ms).map(|(_, stack)| stack.items()))
    }

    /// Sum of the capacities of the filters that answer.
    pub fn capacity(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        sum(self.live(now_ms).map(|(_, stack)| stack.capacity()))
    }

    /// The error rate now, estimated from what is in each filter.
    pub fn estimated_rate(&self, now_ms: impl Fn() -> u64) -> f64 {
        let by_equations = either(self.live(&now_ms).map(|(_, stack)| stack.estimated_rate()));
        estimate::rate(by_equations, self.views_of(self.answering(&now_ms)))
    }

    /// The capacity that the object can grow to before a limit stops it; with a window, in the current period.
    pub fn reach(&self, now_ms: impl FnOnce() -> u64, limits: Limits) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.reach(limits.into()),
            Body::Timeline(timeline) => {
                timeline.reach(now_ms, limits.beside(Self::BASE_BYTES).into())
            }
        }
    }

    /// The filters that answer now, oldest first, each with the number of its period, if there is a window,
    /// and the rate that it was made for.
    pub fn filters(
        &self,
        now_ms: impl FnOnce() -> u64,
    ) -> impl Iterator<Item = (Option<u64>, View<'_>, f64)> {
        // The same for the filters of most periods, and found by solving equations.
        let mut rates = HashMap::new();
        let periods = self.answering(now_ms);
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

    /// Number of filters that answer now.
    pub fn filter_count(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        let each = self.live(now_ms).map(|(_, stack)| stack.filters().len());
        each.sum::<usize>() as u64
    }

    /// Number of periods that answer now, of an object with a window.
    pub fn live_periods(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        self.shape().window()?;
        Some(self.answering(now_ms).len() as u64)
    }

    /// All periods that take memory, whether they answer or not; none, of a plain object.
    pub fn periods(&self) -> &[Period] {
        self.parts().1.map_or(&[], |timeline| &timeline.periods)
    }

    /// All filters that take memory, whether they answer or not, with their bits.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.views_of(self.periods())
    }

    /// The blobs of all filters that take memory: the forms in which they are stored. Filters that are interleaved are
    /// copied; `None` for one that there is no memory to copy.
    pub fn blobs(&self) -> impl Iterator<Item = Option<Cow<'_, [u8]>>> {
        Blobs::new(self.views())
    }

    /// All filters that take memory, whether they answer or not. Their bits may be elsewhere, unless it is a plain
    /// object: [`views`](Self::views) have them.
    pub(crate) fn all_filters(&self) -> impl Iterator<Item = &Filter> {
        self.all_stacks().flat_map(Stack::filters)
    }

    fn all_stacks_mut(&mut self) -> impl Iterator<Item = &mut Stack> {
        let (one, periods) = match &mut self.0 {
            Body::Stack(stack) => (Some(stack), &mut [][..]),
            Body::Timeline(timeline) => (None, &mut timeline.periods[..]),
        };
        let periods = periods.iter_mut().map(|period| &mut period.stack);
        one.into_iter().chain(periods)
    }

    /// Lets `by` move tables and blobs, one after another, beginning with number `begin`, until it has enough.
    /// Returns the number of the next one, if there is one.
    pub fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize> {
        let mut number = 0;
        for stack in self.all_stacks_mut() {
            let parts = 1 + stack.filters().len();
            for part in begin.saturating_sub(number).min(parts)..parts {
                if number + part > begin && by.has_enough() {
                    return Some(number + part);
                }
                match part.checked_sub(1) {
                    None => stack.relocate_table(|table| by.table(table)),
                    Some(index) => stack.filters_mut()[index].relocate(|blob| by.blob(blob)),
                }
            }
            number += parts;
        }
        if let Body::Timeline(timeline) = &mut self.0 {
            let lanes = &mut timeline.lanes;
            for index in begin.saturating_sub(number)..lanes.blobs() {
                if number + index > begin && by.has_enough() {
                    return Some(number + index);
                }
                lanes.relocate(index, by);
            }
        }
        self.assert_valid();
        None
    }

    /// Number, items and capacity of all filters that take memory, whether they answer or not.
    #[inline]
    pub fn totals(&self) -> (u64, u64, u64) {
        let of = |stack: &Stack| {
            let filters = stack.filters().len() as u64;
            (filters, stack.items(), stack.capacity())
        };
        match &self.0 {
            Body::Stack(stack) => of(stack),
            Body::Timeline(_) => self.all_stacks().map(of).fold((0, 0, 0), |sum, of| {
                let capacity = of.2.saturating_add(sum.2);
                (sum.0 + of.0, of.1.saturating_add(sum.1), capacity)
            }),
        }
    }

    /// The exact sum of the object's allocations in bytes, including itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.memory_bytes(),
            Body::Timeline(timeline) => Self::BASE_BYTES + timeline.memory_bytes(),
        }
    }

    /// Whether limits admit such an object.
    pub fn is_within(&self, limits: Limits) -> bool {
        let mut filters = self.all_filters().map(|f| f.geometry().blob_bytes());
        filters.all(|bytes| bytes <= limits.filter_bytes)
            && self.memory_bytes() <= limits.object_bytes
    }
}

/// A sum over periods; only files can claim so many that it is cut.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add).min(MAX_CAPACITY)
}
