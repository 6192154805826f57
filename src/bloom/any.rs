//! An object of whichever kind a key holds.

use super::chunks::{self, Piece};
use super::codec::{self, DecodeError, RdbWrite};
use super::extended::Extended;
use super::filter::Filter;
use super::object::{Added, BloomObject, MergeError, Refusal};
use super::probe::Seed;
use super::shape::{Shape, Time};
use super::sizing::{Limits, Params};

/// Which of the stored forms an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A stack of filters of bits.
    Plain,
    /// The same, as `RedisBloom` has it.
    RedisBloom,
    /// With periods or counters.
    Extended,
}

/// An object of any family. What depends on the time asks for it, in milliseconds since the epoch, only
/// where the object has periods.
#[derive(Debug)]
pub enum AnyObject {
    /// A stack of filters of bits, ours or `RedisBloom`'s.
    Plain(BloomObject),
    /// With periods or counters.
    Extended(Box<Extended>),
}

// A plain object costs the same, alone or as one of these.
const _: () = assert!(size_of::<AnyObject>() == size_of::<BloomObject>());

/// The time, which is asked for only where the object has periods.
fn time_of(object: &Extended, now_ms: impl FnOnce() -> u64) -> u64 {
    object.shape().window.map_or(0, |_| now_ms())
}

impl AnyObject {
    /// An empty object of a shape, ready for items at a time.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn new(shape: &Shape, seed: Seed, time: Time, limits: Limits) -> Result<Self, Refusal> {
        Ok(if shape.is_plain() {
            Self::Plain(BloomObject::new(&shape.params, seed, limits)?)
        } else {
            Self::Extended(Box::new(Extended::new(shape, seed, time, limits)?))
        })
    }

    /// The object of a dump, as BF.LOAD takes it.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    pub fn decode(dump: &[u8]) -> Result<Self, DecodeError> {
        codec::decode_any(dump)
    }

    /// Its dump, as BF.LOAD takes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Plain(object) => codec::encode(object),
            Self::Extended(object) => codec::encode_extended(object),
        }
    }

    /// Length of the dump that [`encode`](Self::encode) writes, in bytes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Plain(object) => codec::encoded_len(object),
            Self::Extended(object) => {
                let cells: usize = object.all_filters().map(|f| f.bitmap().len()).sum();
                self.piece(0).1.bytes().len() + cells
            }
        }
    }

    /// The piece of its chunked dump at a cursor, with the cursor of the next one.
    #[must_use]
    pub fn piece(&self, cursor: u64) -> (u64, Piece<'_>) {
        chunks::piece_of_any(self, cursor)
    }

    /// All pieces of its chunked dump, each with the cursor of the next one.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, Piece<'_>)> {
        chunks::pieces_of_any(self)
    }

    /// Writes its RDB fields.
    pub fn write_rdb(&self, to: &mut impl RdbWrite) {
        match self {
            Self::Plain(object) => codec::write_rdb(object, to),
            Self::Extended(object) => codec::write_extended(object, to),
        }
    }

    /// Its family.
    #[must_use]
    pub fn family(&self) -> Family {
        match self {
            Self::Plain(object) if object.is_redisbloom() => Family::RedisBloom,
            Self::Plain(_) => Family::Plain,
            Self::Extended(_) => Family::Extended,
        }
    }

    /// A copy in memory of its own, or `None` where there is none.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        Some(match self {
            Self::Plain(object) => Self::Plain(object.try_clone()?),
            Self::Extended(object) => Self::Extended(Box::new(object.try_clone()?)),
        })
    }

    /// One object that answers for all of these, at least one.
    ///
    /// # Errors
    /// Any [`MergeError`].
    pub fn merged(sources: &[&Self], limits: Limits) -> Result<Self, MergeError> {
        let (mut plain, mut extended) = (Vec::new(), Vec::new());
        for source in sources {
            match source {
                Self::Plain(object) => plain.push(object),
                Self::Extended(object) => extended.push(object.as_ref()),
            }
        }
        match (plain.is_empty(), extended.is_empty()) {
            (false, true) => Ok(Self::Plain(BloomObject::merged(&plain, limits)?)),
            (true, false) => {
                let merged = Extended::merged(&extended, limits)?;
                Ok(Self::Extended(Box::new(merged)))
            }
            _ => Err(MergeError::Kinds),
        }
    }

    /// Frees the periods that have passed, as [`Extended::tidy`] does, and tells whether anything was changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Extended(object) => object.tidy(now_ms),
        }
    }

    /// Whether the object claims the item: false is certain, true is right but for the error rate.
    #[must_use]
    #[inline]
    pub fn contains(&self, item: &[u8], now_ms: impl FnOnce() -> u64) -> bool {
        match self {
            Self::Plain(object) => object.contains(object.probe(item)),
            Self::Extended(object) => object.contains(object.probe(item), time_of(object, now_ms)),
        }
    }

    /// Asks for each item in turn, and tells `answer` what [`contains`](Self::contains) says.
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        answer: impl FnMut(bool),
    ) {
        match self {
            Self::Plain(object) => object.contains_each(items, answer),
            Self::Extended(object) => object.contains_each(items, time_of(object, now_ms), answer),
        }
    }

    /// Adds each item in turn, and tells `outcome` what became of it; stops after the first refusal.
    pub fn add_each<'i>(
        &mut self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        limits: impl Fn() -> Limits,
        outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        match self {
            Self::Plain(object) => object.add_each(items, limits, outcome),
            Self::Extended(object) => {
                let time = Time::at(time_of(object, now_ms));
                object.tidy(time.now_ms);
                object.add_each(items, time, None, limits, outcome);
            }
        }
    }

    /// What the object was asked to be; the capacity is the first filter's.
    #[must_use]
    pub fn shape(&self) -> Shape {
        match self {
            Self::Plain(object) => Shape::plain(object.params()),
            Self::Extended(object) => *object.shape(),
        }
    }

    /// The keys of the hash functions.
    #[must_use]
    pub const fn seed(&self) -> &Seed {
        match self {
            Self::Plain(object) => object.seed(),
            Self::Extended(object) => object.seed(),
        }
    }

    /// Rates, capacities and growth; with a window, the capacity of a period.
    #[must_use]
    pub fn params(&self) -> Params {
        match self {
            Self::Plain(object) => object.params(),
            Self::Extended(object) => object.shape().params,
        }
    }

    /// Number of items that the object took for new; with a window, in each period that answers.
    #[must_use]
    pub fn items(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Plain(object) => object.items(),
            Self::Extended(object) => object.items(time_of(object, now_ms)),
        }
    }

    /// Number of items that the filters that answer are made for.
    #[must_use]
    pub fn capacity(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Plain(object) => object.capacity(),
            Self::Extended(object) => object.capacity(time_of(object, now_ms)),
        }
    }

    /// The rate of false positives now, as the items in each filter let expect it.
    #[must_use]
    pub fn estimated_rate(&self, now_ms: impl FnOnce() -> u64) -> f64 {
        match self {
            Self::Plain(object) => object.estimated_rate(),
            Self::Extended(object) => object.estimated_rate(time_of(object, now_ms)),
        }
    }

    /// The most items that the object can come to hold before a limit stops its growth; with a window, in
    /// the current period.
    #[must_use]
    pub fn max_scaled_capacity(&self, now_ms: impl FnOnce() -> u64, limits: Limits) -> u64 {
        match self {
            Self::Plain(object) => object.max_scaled_capacity(limits),
            Self::Extended(object) => object.max_scaled_capacity(time_of(object, now_ms), limits),
        }
    }

    /// The filters that answer now, oldest first, each with the number of its period, if there are any, and
    /// the rate that it was made for.
    #[must_use]
    pub fn filters(&self, now_ms: impl FnOnce() -> u64) -> Vec<(Option<u64>, &Filter, f64)> {
        match self {
            Self::Plain(object) => {
                let filters = object.filters().iter().enumerate();
                filters
                    .map(|(index, f)| (None, f, object.filter_rate(index)))
                    .collect()
            }
            Self::Extended(object) => {
                let windowed = object.shape().window.is_some();
                let filters = object.filters(time_of(object, now_ms));
                filters
                    .map(|(period, f, rate)| (windowed.then_some(period), f, rate))
                    .collect()
            }
        }
    }

    /// Number of filters that answer now.
    #[must_use]
    pub fn filter_count(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Plain(object) => object.filters().len() as u64,
            Self::Extended(object) => object.filters(time_of(object, now_ms)).count() as u64,
        }
    }

    /// Number of periods that answer now, of an object that has periods.
    #[must_use]
    pub fn live_periods(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        match self {
            Self::Extended(object) if object.shape().window.is_some() => {
                Some(object.live_periods(now_ms()))
            }
            _ => None,
        }
    }

    /// The bits of a hash: 64, or 32 in old objects of `RedisBloom`.
    #[must_use]
    pub fn hash_bits(&self) -> u32 {
        match self {
            Self::Plain(object) => object.hash_bits(),
            Self::Extended(_) => 64,
        }
    }

    /// All filters that take memory, whether they answer or not.
    #[must_use]
    pub fn all_filters(&self) -> Box<dyn Iterator<Item = &Filter> + '_> {
        match self {
            Self::Plain(object) => Box::new(object.filters().iter()),
            Self::Extended(object) => Box::new(object.all_filters()),
        }
    }

    /// Lets `place` move the tables of filters, as [`BloomObject::relocate_table`] does.
    pub fn relocate_tables(&mut self, place: impl FnMut(Vec<Filter>) -> Vec<Filter>) {
        match self {
            Self::Plain(object) => object.relocate_table(place),
            Self::Extended(object) => object.relocate_tables(place),
        }
    }

    /// Lets `place` move the blob of filter `index` of all, as [`BloomObject::relocate_filter`] does.
    pub fn relocate_filter(
        &mut self,
        index: usize,
        place: impl FnOnce(Box<[u8]>) -> Box<[u8]>,
    ) -> bool {
        match self {
            Self::Plain(object) => object.relocate_filter(index, place),
            Self::Extended(object) => object.relocate_filter(index, place),
        }
    }

    /// Number, items and capacity of all filters that take memory, whether they answer or not.
    #[must_use]
    #[inline]
    pub fn totals(&self) -> (u64, u64, u64) {
        match self {
            Self::Plain(object) => (
                object.filters().len() as u64,
                object.items(),
                object.capacity(),
            ),
            Self::Extended(object) => object.totals(),
        }
    }

    /// The exact number of bytes that the object's allocations asked for, itself included.
    #[must_use]
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Plain(object) => object.memory_bytes(),
            Self::Extended(object) => object.memory_bytes(),
        }
    }

    /// Whether the limits admit such an object.
    #[must_use]
    pub fn is_within(&self, limits: Limits) -> bool {
        match self {
            Self::Plain(object) => object.is_within(limits),
            Self::Extended(object) => object.is_within(limits),
        }
    }
}
