//! Rates, capacities and limits: the arithmetic of an object's growth.
//!
//! *The rate that was asked for is the rate that is had.* An item that was never added is found
//! when any filter of the stack claims it, so at most with the sum of the filters' rates. For an
//! object of rate `p`, filter `i` (from 0) is made at `p / ((i+1)(i+2))`: that series sums to `p`.
//! It tightens slowly, so that the thousandth filter needs about 20 bits an item more than the
//! first, where halving each time would need 1,400. A tightening ratio `r` other than 0.5 asks for
//! the geometric series `p·(1−r)·rⁱ` instead, which also sums to `p` (Almeida et al. 2007, with the
//! first term scaled so that the bound is `p` itself).
//!
//! A filter for `n` items at rate `p` has `n·ln p / −ln²2` bits, rounded up to bytes, and
//! `m/n·ln 2` hash functions, rounded (Bloom 1970), exactly as the `bloomfilter` crate computes
//! them.

use std::num::NonZeroU32;

use super::filter::HEADER_BYTES;
use super::object::BloomObject;

/// A number strictly between 0 and 1: a false-positive rate, or a tightening ratio.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// 0.5: the tightening ratio that asks for the series of this module's front page.
    pub const HALF: Self = Self(0.5);

    /// The number, or `None` if it does not lie strictly between 0 and 1 (NaN does not).
    #[must_use]
    pub const fn new(value: f64) -> Option<Self> {
        if 0.0 < value && value < 1.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// What happens when an object's newest filter is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing is stacked on it: the object is non-scaling.
    Fixed,
    /// A filter of so many times the capacity is stacked on it.
    By(NonZeroU32),
}

impl Growth {
    /// The growth with this factor; 0 stands for a non-scaling object.
    #[must_use]
    pub const fn from_expansion(expansion: u32) -> Self {
        match NonZeroU32::new(expansion) {
            None => Self::Fixed,
            Some(factor) => Self::By(factor),
        }
    }

    /// The factor, or 0 for a non-scaling object: the form in which files hold it.
    #[must_use]
    pub const fn expansion(self) -> u32 {
        match self {
            Self::Fixed => 0,
            Self::By(factor) => factor.get(),
        }
    }
}

/// What an object is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Number of items that the first filter is made for, 1 to `i64::MAX`.
    pub capacity: u64,
    /// The rate of false positives that the whole object stays at or under.
    pub error_rate: Fraction,
    /// The ratio of the rates of successive filters; [`Fraction::HALF`] asks for `1/((i+1)(i+2))`.
    pub tightening: Fraction,
    /// What happens when a filter is full.
    pub growth: Growth,
}

/// The most items that an object may be made for, in all filters together.
pub const MAX_CAPACITY: u64 = i64::MAX as u64;

/// How far the memory of an object may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    /// As far as it must: what a primary or a file tells is obeyed. A full non-scaling object
    /// takes more items.
    Obey,
    /// As far as the settings of this server say.
    Within {
        /// The most bytes that one filter may take.
        filter_bytes: u64,
        /// The most bytes that the object may take, all in all.
        object_bytes: u64,
        /// Whether a full non-scaling object takes more items.
        saturate: bool,
    },
}

impl Limits {
    pub(super) fn admit_filter(self, bytes: u64) -> bool {
        match self {
            Self::Obey => true,
            Self::Within { filter_bytes, .. } => bytes <= filter_bytes,
        }
    }

    pub(super) fn admit_object(self, bytes: u64) -> bool {
        match self {
            Self::Obey => true,
            Self::Within { object_bytes, .. } => bytes <= object_bytes,
        }
    }

    pub(super) fn saturate(self) -> bool {
        match self {
            Self::Obey => true,
            Self::Within { saturate, .. } => saturate,
        }
    }
}

/// Why an object can't grow further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A limit on memory, or no number holds the next capacity.
    Memory,
    /// The next rate is too small for a double.
    Rate,
}

/// The size of one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Length of the bitmap in bytes.
    pub bitmap_bytes: u64,
    /// Number of hash functions.
    pub hashes: u32,
}

impl Geometry {
    /// The size of a filter for `capacity` items (at least 1) at this rate. Sizes beyond memory
    /// saturate at about 2⁶⁰ bytes, which no limit admits.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the formulas are the crate's, in doubles; a cast from a double saturates"
    )]
    pub fn new(capacity: u64, rate: Fraction) -> Self {
        let items = usize::try_from(capacity.max(1)).unwrap_or(usize::MAX);
        let bytes = bloomfilter::Bloom::<[u8]>::compute_bitmap_size(items, rate.get()) as u64;
        let bitmap_bytes = bytes.clamp(1, 1 << 60);
        let bits_per_item = (bitmap_bytes * 8) as f64 / capacity as f64;
        let hashes = (bits_per_item * std::f64::consts::LN_2).round() as u32;
        Self {
            bitmap_bytes,
            hashes: hashes.max(1),
        }
    }

    /// Length of the whole blob in bytes.
    #[must_use]
    pub const fn blob_bytes(self) -> u64 {
        self.bitmap_bytes + HEADER_BYTES as u64
    }
}

impl Params {
    /// The rate of filter `index`, or `None` where a double can't hold it.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "the law needs no exact index")]
    pub fn rate(&self, index: u64) -> Option<Fraction> {
        let (p, r) = (self.error_rate.get(), self.tightening.get());
        let rate = if self.growth == Growth::Fixed {
            p
        } else if self.tightening == Fraction::HALF {
            p / ((index as f64 + 1.0) * (index as f64 + 2.0))
        } else {
            p * (1.0 - r) * power(r, index)
        };
        Fraction::new(rate)
    }

    /// The most items that an object of these parameters holds before something stops its growth,
    /// and what stops it: nothing, if the capacity reaches [`MAX_CAPACITY`] first.
    #[must_use]
    pub fn reach(&self, limits: Limits) -> (u64, Option<Stop>) {
        let mut outlook = Outlook {
            params: *self,
            limits,
            index: 0,
            next_capacity: Some(self.capacity),
            capacity: 0,
            bytes: BloomObject::BASE_BYTES,
        };
        outlook.reach()
    }
}

/// `base` to the power of `exponent`, by squaring: `f64::powf` may differ between machines, and
/// then a replica's filters would.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

/// Where an object's growth stands, and how it goes on.
#[derive(Clone, Copy)]
pub(super) struct Outlook {
    pub params: Params,
    pub limits: Limits,
    /// Number of the next filter.
    pub index: u64,
    /// Capacity of the next filter; `None` where no number holds it.
    pub next_capacity: Option<u64>,
    /// Capacity of the filters so far.
    pub capacity: u64,
    /// Bytes of the object so far.
    pub bytes: u64,
}

/// How many filters are looked at one by one, before many are taken together.
const EXACT_STEPS: u32 = 1 << 14;

impl Outlook {
    /// The next filter, or why there can't be one.
    pub fn next(&self) -> Result<(u64, Geometry), Stop> {
        let capacity = self.next_capacity.ok_or(Stop::Memory)?;
        let geometry = self.filter(self.index, capacity)?;
        let total = self.capacity.checked_add(capacity);
        if total.is_none_or(|total| total > MAX_CAPACITY) {
            return Err(Stop::Memory);
        }
        if !self
            .limits
            .admit_object(self.bytes.saturating_add(cost(geometry)))
        {
            return Err(Stop::Memory);
        }
        Ok((capacity, geometry))
    }

    fn filter(&self, index: u64, capacity: u64) -> Result<Geometry, Stop> {
        let rate = self.params.rate(index).ok_or(Stop::Rate)?;
        let geometry = Geometry::new(capacity, rate);
        if self.limits.admit_filter(geometry.blob_bytes()) {
            Ok(geometry)
        } else {
            Err(Stop::Memory)
        }
    }

    fn push(&mut self, count: u64, capacity: u64, geometry: Geometry, expansion: u32) {
        self.index += count;
        self.capacity += count * capacity;
        self.bytes = self
            .bytes
            .saturating_add(cost(geometry).saturating_mul(count));
        self.next_capacity = capacity.checked_mul(u64::from(expansion));
    }

    /// How far growth goes from here, and what ends it.
    pub fn reach(&mut self) -> (u64, Option<Stop>) {
        let expansion = self.params.growth.expansion();
        let stop = match expansion {
            0 if self.index > 0 => return (self.capacity, Some(Stop::Memory)),
            0 => self.next().map(|(capacity, _)| self.capacity = capacity),
            1 => self.reach_evenly(),
            _ => loop {
                // Capacities at least double: 63 rounds at the most.
                match self.next() {
                    Ok((capacity, geometry)) => self.push(1, capacity, geometry, expansion),
                    Err(stop) => break Err(stop),
                }
            },
        };
        let Err(stop) = stop else {
            return (self.capacity, None);
        };
        // Where only the number's width stops it, nothing does.
        let unbounded = self.next_capacity.is_none_or(|next| {
            let filter = self.filter(self.index, next);
            let bytes = filter.map(|geometry| self.bytes.saturating_add(cost(geometry)));
            next > MAX_CAPACITY - self.capacity
                && bytes.is_ok_and(|bytes| self.limits.admit_object(bytes))
        });
        if unbounded {
            (MAX_CAPACITY, None)
        } else {
            (self.capacity, Some(stop))
        }
    }

    /// Growth by filters of one capacity, of which there can be 2⁶³. Their sizes only rise with
    /// the index, so most of them are not looked at: runs of equal size are skipped, and past
    /// [`EXACT_STEPS`] a run is also what differs by less than one part in 256, counted at its
    /// largest size.
    fn reach_evenly(&mut self) -> Result<(), Stop> {
        let Some(each) = self.next_capacity else {
            return Err(Stop::Memory);
        };
        let most = (MAX_CAPACITY - self.capacity) / each;
        // The filters that are possible one by one: a prefix, since sizes only rise.
        let possible = partition(most, |n| self.filter(self.index + n, each).is_ok());
        let Limits::Within { object_bytes, .. } = self.limits else {
            return self.finish_evenly(possible, each);
        };
        let mut left = possible;
        let mut steps = 0;
        while left > 0 {
            steps += 1;
            let (run, geometry) = if steps < EXACT_STEPS {
                let here = self.filter(self.index, each)?;
                let same = |n: u64| self.filter(self.index + n, each) == Ok(here);
                (gallop(left, same), here)
            } else {
                let run = (self.index / 256).clamp(1, left);
                (run, self.filter(self.index + run - 1, each)?)
            };
            let room = object_bytes.saturating_sub(self.bytes) / cost(geometry);
            let run = run.min(room);
            if run == 0 {
                return Err(Stop::Memory);
            }
            self.push(run, each, geometry, 1);
            left -= run;
        }
        self.finish_evenly(0, each)
    }

    fn finish_evenly(&mut self, count: u64, each: u64) -> Result<(), Stop> {
        self.index += count;
        self.capacity += count * each;
        self.filter(self.index, each)?;
        Err(Stop::Memory)
    }
}

/// What one more filter of this size adds to an object's bytes.
pub(super) fn cost(geometry: Geometry) -> u64 {
    geometry.blob_bytes() + size_of::<super::filter::Filter>() as u64
}

/// How many of the numbers from 0 below `end` hold, for a claim that holds up to some number and
/// then no more.
fn partition(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// As [`partition`], for an answer that is near 0 more often than not.
fn gallop(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let mut step = 1;
    while step < end && holds(step) {
        step = step.saturating_mul(2);
    }
    let low = step / 2;
    low + partition(end.min(step) - low, |n| holds(low + n))
}
