//! What an object holds, and its operations.

use crate::bloom::filter::Filter;
use crate::bloom::law::{Limits, Links, Refusal};
use crate::bloom::stack::{Added, Stack};
use crate::hash::{Hasher, Probe};
use crate::machine::memory::{self, Relocate};

use super::estimate;
use super::part::Part;
use super::shape::Shape;
use super::tables::Tables;
use super::window::Time;

/// A Bloom object: a stack of filters that acts as one, or tables of the fingerprints of its items.
///
/// Methods that take a clock read it only if the object has a window, in milliseconds since the epoch.
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
/// assert_eq!(seen.add(url, Time::default(), || Limits::NONE), Ok(Added::New));
/// assert!(seen.contains(url, never));
///
/// let shape = Shape { params, kind: Kind::Windowed(Window::new(60_000, 5).unwrap()) };
/// let mut lately = Object::new(&shape, Seed::random(), Limits::NONE).unwrap();
/// assert_eq!(lately.add(url, Time::at(0), || Limits::NONE), Ok(Added::New));
/// assert!(lately.contains(url, || 4 * 60_000));
/// assert!(!lately.contains(url, || 5 * 60_000));
/// ```
#[derive(Debug)]
pub struct Object(pub(super) Body);

#[derive(Debug)]
pub(super) enum Body {
    /// A plain object: one stack of bits, ours or `RedisBloom`'s.
    Stack(Stack),
    /// Any other object.
    Tables(Box<Tables>),
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

    pub(super) const fn stack(&self) -> Option<&Stack> {
        match &self.0 {
            Body::Stack(stack) => Some(stack),
            Body::Tables(_) => None,
        }
    }

    /// Returns the tables of an object that is not a stack of filters.
    pub(crate) const fn tables(&self) -> Option<&Tables> {
        match &self.0 {
            Body::Stack(_) => None,
            Body::Tables(tables) => Some(tables),
        }
    }

    /// Copies the object, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let body = match &self.0 {
            Body::Stack(stack) => Body::Stack(stack.try_clone()?),
            Body::Tables(tables) => Body::Tables(Box::new(tables.try_clone()?)),
        };
        Some(Self(body))
    }

    /// Returns whether the object is a stack of filters: items stay in it, and it reads no clock.
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
            Body::Tables(tables) => *tables.shape(),
        }
    }

    /// Returns the hash function of the items.
    #[inline]
    pub const fn hasher(&self) -> &Hasher {
        match &self.0 {
            Body::Stack(stack) => stack.hasher(),
            Body::Tables(tables) => tables.hasher(),
        }
    }

    /// Returns the fields of an object of `RedisBloom` besides its filters; `None` for other objects.
    #[inline]
    pub(crate) const fn links(&self) -> Option<&Links> {
        match &self.0 {
            Body::Stack(stack) => stack.law().links(),
            Body::Tables(_) => None,
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
            Body::Tables(tables) => tables.contains(probe, now_ms),
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
            Body::Tables(tables) => tables.contains_each(items, now_ms, answer),
        }
    }

    /// Adds an item. An object with a window is to be [tidied](Self::tidy) first. Calls `limits` only if the object has to
    /// grow.
    ///
    /// # Errors
    /// Any [`Refusal`]. The object is unchanged then.
    #[inline]
    pub fn add(
        &mut self,
        item: &[u8],
        time: Time,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        self.add_probe(self.probe(item), time, limits)
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
    ///     object.add_probe(probe, Time::default(), || Limits::NONE).unwrap();
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
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let added = match &mut self.0 {
            Body::Stack(stack) => stack.add(probe, limits),
            Body::Tables(tables) => tables.add(probe, time, || beside_base(limits())),
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
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        // A single item needs no batch.
        if items.size_hint().1 == Some(1) {
            return items.for_each(|item| outcome(self.add(item, time, &limits)));
        }
        match &mut self.0 {
            Body::Stack(stack) => {
                stack.add_each(items, limits, |_, added| outcome(added));
            }
            Body::Tables(tables) => {
                tables.add_each(items, time, || beside_base(limits()), outcome);
            }
        }
        self.assert_valid();
    }

    /// Adds items to a plain object as [`add_each`](Self::add_each) does, and passes the probes of new ones to `new`, in
    /// order. Does nothing to other objects.
    pub fn add_each_probed<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
        mut new: impl FnMut(Probe),
    ) {
        if let Body::Stack(stack) = &mut self.0 {
            stack.add_each(items, &limits, |probe, added| {
                if matches!(added, Ok(Added::New)) {
                    new(probe);
                }
                outcome(added);
            });
        }
        self.assert_valid();
    }

    /// Adds the items of a [`Feed`](crate::Feed) to a copy of the plain object that they were new to. Each counts, even if
    /// the copy has its bits already, as it may if the copy was made in chunks while items were added. Does nothing to
    /// other objects.
    ///
    /// # Errors
    /// Any [`Refusal`]. The items before it are added.
    pub fn replay_each(
        &mut self,
        probes: impl Iterator<Item = Probe>,
        limits: Limits,
    ) -> Result<(), Refusal> {
        let replayed = match &mut self.0 {
            Body::Stack(stack) => stack.replay_each(probes, limits),
            Body::Tables(_) => Ok(()),
        };
        self.assert_valid();
        replayed
    }

    /// Overwrites cells of a plain object's filters, starting at byte `begin` of all cells end to end. Returns whether
    /// the bytes are within one filter; if not, nothing is written.
    pub fn overwrite(&mut self, begin: u64, bytes: &[u8]) -> bool {
        match &mut self.0 {
            Body::Stack(stack) => stack.overwrite(begin, bytes),
            Body::Tables(_) => false,
        }
    }

    /// Returns whether the clock was set back since the last write: [`tidy`](Self::tidy) sets the periods of all items back.
    pub fn is_ahead(&self, now_ms: u64) -> bool {
        self.tables().is_some_and(|tables| tables.lead(now_ms) > 0)
    }

    /// Drops the items that have expired; their memory is freed as others are added. If the clock was set back, sets the
    /// periods of all items back with it. Returns whether anything changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let tidied = match &mut self.0 {
            Body::Stack(_) => false,
            Body::Tables(tables) => tables.tidy(now_ms),
        };
        self.assert_valid();
        tidied
    }

    /// Takes one off the count of an item in an object that counts. Returns whether it did: only if exactly one table claims
    /// the item. An item that was never added may take a count from another, which may then be missing.
    pub fn remove(&mut self, item: &[u8]) -> bool {
        let probe = self.probe(item);
        match &mut self.0 {
            Body::Tables(tables) if tables.shape().is_counting() => tables.remove(probe),
            _ => false,
        }
    }

    /// Returns how often, at most, an item was added to an object that counts and not removed; 0 for other objects.
    pub fn count(&self, item: &[u8]) -> u64 {
        let counting = self.tables().filter(|tables| tables.shape().is_counting());
        counting.map_or(0, |tables| tables.count(self.probe(item)))
    }

    /// Returns the number of items that were new when they were added, and have not expired.
    pub fn items(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.items(),
            Body::Tables(tables) => tables.items(now_ms),
        }
    }

    /// Returns the number of items for which the error rate is kept without growth.
    pub fn capacity(&self) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.capacity(),
            Body::Tables(tables) => tables.capacity(),
        }
    }

    /// Returns the current error rate, estimated from the contents of each filter.
    pub fn estimated_rate(&self, now_ms: impl FnOnce() -> u64) -> f64 {
        match &self.0 {
            Body::Stack(stack) => estimate::rate(stack.estimated_rate(), stack.filters().iter()),
            Body::Tables(tables) => tables.rate(now_ms),
        }
    }

    /// Returns the capacity that the object can grow to before a limit stops it.
    pub fn reach(&self, limits: Limits) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.reach(limits),
            Body::Tables(tables) => tables.shape().reach(limits).0,
        }
    }

    /// Returns the filters of a stack, oldest first, each with the rate that it was made for.
    pub fn filters(&self) -> impl Iterator<Item = (&Filter, f64)> {
        let stack = self.stack().into_iter();
        stack.flat_map(|stack| {
            let filters = stack.filters().iter().enumerate();
            filters.map(|(index, filter)| (filter, stack.filter_rate(index)))
        })
    }

    /// Returns the tables of an object that is not a stack, oldest first.
    pub fn parts(&self) -> &[Part] {
        self.tables().map_or(&[], Tables::parts)
    }

    /// Returns the tables that have items, and the newest: those that [`filter_count`](Self::filter_count) counts.
    pub fn parts_in_use(&self) -> impl Iterator<Item = &Part> {
        self.tables().into_iter().flat_map(Tables::parts_in_use)
    }

    /// Returns the number of filters or tables.
    pub fn filter_count(&self) -> u64 {
        self.totals().0
    }

    /// Returns the number of periods with items that have not expired, if there is a window.
    pub fn live_periods(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        self.tables()?.live_periods(now_ms)
    }

    /// Returns the number of the latest period that a window is known to have reached, if there is one.
    pub fn reached_period(&self) -> Option<u64> {
        self.tables()?.reached_period()
    }

    /// Returns the number of items in the current period, if there is a window.
    pub fn period_items(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        self.tables()?.period_items(now_ms)
    }

    /// Returns the filters of a stack.
    pub(crate) fn all_filters(&self) -> &[Filter] {
        self.stack().map_or(&[], Stack::filters)
    }

    /// Returns the number of allocations.
    pub fn allocations(&self) -> u64 {
        match &self.0 {
            Body::Stack(stack) => 2 + 2 * stack.filters().len() as u64,
            Body::Tables(tables) => tables.allocations(),
        }
    }

    /// Moves tables and blobs, starting with number `first`, until `by` stops. Returns the number of the next one, if
    /// there is one.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        let next = match &mut self.0 {
            Body::Tables(tables) => {
                if first == 0 {
                    by.fixed(tables);
                }
                tables.relocate(first, by)
            }
            Body::Stack(stack) => stack.relocate(first, by),
        };
        self.assert_valid();
        next
    }

    /// Returns the number of filters or tables, their items, and their capacity. Items that have expired count until the
    /// next write.
    #[inline]
    pub fn totals(&self) -> (u64, u64, u64) {
        match &self.0 {
            Body::Stack(stack) => {
                let filters = stack.filters().len() as u64;
                (filters, stack.items(), stack.capacity())
            }
            Body::Tables(tables) => {
                let parts = tables.parts_in_use();
                let items = parts.clone().map(|part| part.table.fingerprints());
                (parts.count() as u64, items.sum(), tables.capacity())
            }
        }
    }

    /// Returns the exact sum of the object's allocations in bytes, including itself.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match &self.0 {
            Body::Stack(stack) => stack.memory_bytes(),
            Body::Tables(tables) => Self::BASE_BYTES + tables.memory_bytes(),
        }
    }

    /// Returns whether limits admit the object.
    pub fn is_within(&self, limits: Limits) -> bool {
        let mut filters = self.all_filters().iter().map(|f| f.geometry().blob_bytes());
        let mut tables = self.parts().iter().map(|part| part.table.memory_bytes());
        filters.all(|bytes| bytes <= limits.filter_bytes)
            && tables.all(|bytes| bytes <= limits.filter_bytes)
            && self.memory_bytes() <= limits.object_bytes
    }
}

/// Returns the limits for what an object keeps in a box.
pub(super) fn beside_base(limits: Limits) -> Limits {
    limits.beside(Object::BASE_BYTES)
}
