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

/// Sums over the filters of an object that came from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub capacity: u64,
    pub items: u64,
    pub bytes: u64,
}

impl Sums {
    /// Adds a filter.
    pub(super) fn add(
        &mut self,
        capacity: u64,
        items: u64,
        bytes: u64,
    ) -> Result<(), &'static str> {
        let add = |sum: &mut u64, more: u64| {
            let total = sum.checked_add(more).filter(|sum| *sum <= MAX_CAPACITY);
            *sum = total.ok_or("sum out of range")?;
            Ok(())
        };
        add(&mut self.capacity, capacity)?;
        add(&mut self.items, items)?;
        add(&mut self.bytes, bytes)
    }
}

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
        /// The most bytes that the object may take, all in all; `u64::MAX` is no limit.
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

    /// The same limits for a part of an object of which the rest takes so many bytes.
    pub(super) fn beside(self, rest: u64) -> Self {
        match self {
            Self::Within {
                filter_bytes,
                object_bytes,
                saturate,
            } if object_bytes < u64::MAX => Self::Within {
                filter_bytes,
                object_bytes: object_bytes.saturating_sub(rest),
                saturate,
            },
            other => other,
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

/// What stands at a position of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cell {
    /// A bit.
    #[default]
    Bit = 1,
    /// A counter of 4 bits, which stays at 15 once it is there.
    Counter = 4,
}

impl Cell {
    /// Its size in bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self as u64
    }
}

/// The size of one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of positions, divided by 8: the length of the bitmap in bytes, where cells are bits.
    pub bitmap_bytes: u64,
    /// Number of hash functions.
    pub hashes: u32,
    /// What stands at a position.
    pub cell: Cell,
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
            cell: Cell::Bit,
        }
    }

    /// The same number of positions, with such cells.
    #[must_use]
    pub const fn with_cells(self, cell: Cell) -> Self {
        Self { cell, ..self }
    }

    /// Length of the whole blob in bytes.
    #[must_use]
    pub const fn blob_bytes(self) -> u64 {
        self.bitmap_bytes * self.cell.bits() + HEADER_BYTES as u64
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

    /// The share of the error rate that the law gives to the first filters, so many of them.
    #[allow(clippy::cast_precision_loss, reason = "the law needs no exact index")]
    pub(super) fn share_of(&self, filters: u64) -> f64 {
        if self.growth == Growth::Fixed {
            1.0
        } else if self.tightening == Fraction::HALF {
            filters as f64 / (filters as f64 + 1.0)
        } else {
            1.0 - power(self.tightening.get(), filters)
        }
    }

    /// The most items that an object of these parameters holds before something stops its growth,
    /// and what stops it: nothing, if the capacity reaches [`MAX_CAPACITY`] first.
    #[must_use]
    pub fn reach(&self, limits: Limits) -> (u64, Option<Stop>) {
        self.reach_with(Cell::Bit, BloomObject::BASE_BYTES, limits)
    }

    /// The same for an object of such cells, which takes so many bytes before its first filter.
    pub(super) fn reach_with(self, cell: Cell, bytes: u64, limits: Limits) -> (u64, Option<Stop>) {
        let mut outlook = Outlook {
            params: self,
            cell,
            limits,
            index: 0,
            next_capacity: Some(self.capacity),
            capacity: 0,
            bytes,
        };
        outlook.reach()
    }
}

/// `base` to the power of `exponent`, by squaring: `f64::powf` may differ between machines, and
/// then a replica's filters would.
pub(super) fn power(mut base: f64, mut exponent: u64) -> f64 {
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
    pub cell: Cell,
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
        // A capacity that no number holds is at least as large as the largest.
        let capacity = self.next_capacity.unwrap_or(u64::MAX);
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
        let geometry = Geometry::new(capacity, rate).with_cells(self.cell);
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
        let next = self.next_capacity.unwrap_or(u64::MAX);
        let filter = self.filter(self.index, next);
        let bytes = filter.map(|geometry| self.bytes.saturating_add(cost(geometry)));
        if next > MAX_CAPACITY - self.capacity
            && bytes.is_ok_and(|bytes| self.limits.admit_object(bytes))
        {
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
        let object_bytes = match self.limits {
            Limits::Within { object_bytes, .. } if object_bytes < u64::MAX => object_bytes,
            _ => return self.finish_evenly(possible, each),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn params(capacity: u64, error_rate: f64, tightening: f64, expansion: u32) -> Params {
        Params {
            capacity,
            error_rate: Fraction::new(error_rate).unwrap(),
            tightening: Fraction::new(tightening).unwrap(),
            growth: Growth::from_expansion(expansion),
        }
    }

    fn within(filter_bytes: u64, object_bytes: u64) -> Limits {
        Limits::Within {
            filter_bytes,
            object_bytes,
            saturate: false,
        }
    }

    const NONE: u64 = u64::MAX;

    /// What [`Params::reach`] means: one filter after the other is sized and added up, until
    /// something stops it. `None` where it takes more than so many filters to tell, or capacities
    /// beyond 64 bits.
    fn naive(params: &Params, limits: Limits, most_filters: u64) -> Option<(u64, Option<Stop>)> {
        let (filter_bytes, object_bytes) = match limits {
            Limits::Obey => (NONE, NONE),
            Limits::Within {
                filter_bytes,
                object_bytes,
                ..
            } => (filter_bytes, object_bytes),
        };
        let over = |bytes: u128, limit| limit != NONE && bytes > u128::from(limit);
        let mut bytes = size_of::<BloomObject>() as u128;
        let (mut total, mut next) = (0_u64, Some(params.capacity));
        for index in 0..most_filters {
            if params.growth == Growth::Fixed && index == 1 || total == MAX_CAPACITY {
                return Some((total, None));
            }
            let capacity = next?;
            let Some(rate) = params.rate(index) else {
                return Some((total, Some(Stop::Rate)));
            };
            let blob = u128::from(Geometry::new(capacity, rate).bitmap_bytes) + 45;
            bytes += blob + size_of::<super::super::Filter>() as u128;
            if over(blob, filter_bytes) || over(bytes, object_bytes) {
                return Some((total, Some(Stop::Memory)));
            }
            if capacity > MAX_CAPACITY - total {
                return Some((MAX_CAPACITY, None));
            }
            total += capacity;
            next = capacity.checked_mul(u64::from(params.growth.expansion()));
        }
        None
    }

    #[track_caller]
    fn agrees(params: &Params, limits: Limits, most_filters: u64) -> bool {
        let expected = naive(params, limits, most_filters);
        if let Some(expected) = expected {
            let reach = params.reach(limits);
            assert_eq!(reach.0, expected.0, "{params:?}, {limits:?}");
            if reach.0 < MAX_CAPACITY {
                assert_eq!(reach.1, expected.1, "{params:?}, {limits:?}");
            }
        }
        expected.is_some()
    }

    #[test]
    fn reach_of_growing_filters_is_that_of_a_loop() {
        let (mut agreed, mut asked) = (0, 0);
        for expansion in [2, 3, 10, 1000, u32::MAX] {
            for capacity in [1, 10, 1000, 100_000, 1 << 33, 1 << 62, MAX_CAPACITY] {
                for rate in [0.9, 0.5, 0.01, 1e-6, 1e-300, 5e-324] {
                    for tightening in [0.5, 0.1, 0.8, 0.999_999, 1e-100] {
                        let params = params(capacity, rate, tightening, expansion);
                        let mut ask = |limits| {
                            asked += 1;
                            agreed += u32::from(agrees(&params, limits, 10_000));
                        };
                        ask(Limits::Obey);
                        for filter_bytes in [0, 100, 64 << 20, 1 << 45, i64::MAX as u64, NONE] {
                            for object_bytes in [0, 1000, 1 << 30, 1 << 46, 1 << 62, NONE] {
                                ask(within(filter_bytes, object_bytes));
                            }
                        }
                    }
                }
            }
        }
        assert!(
            agreed > asked / 10 * 9,
            "{agreed} of {asked} were comparable"
        );
    }

    /// No number holds the next capacity here. It is too large for the limits for all that, and
    /// its rate too small.
    #[test]
    fn a_capacity_beyond_64_bits_is_within_no_limit() {
        let wide = |capacity, rate, tightening| params(capacity, rate, tightening, u32::MAX);
        let first = 1_u64 << 33;
        for limits in [within(1 << 40, NONE), within(NONE, 1 << 40)] {
            let reach = wide(first, 0.01, 0.5).reach(limits);
            assert_eq!(reach, (first, Some(Stop::Memory)), "{limits:?}");
        }
        let second = 10 * u64::from(u32::MAX);
        let reach = wide(10, 0.01, 0.5).reach(within(NONE, 1 << 46));
        assert_eq!(reach, (10 + second, Some(Stop::Memory)));
        let reach = wide(first, 1e-200, 1e-200).reach(Limits::Obey);
        assert_eq!(reach, (first, Some(Stop::Rate)));
    }

    #[test]
    fn reach_of_a_non_scaling_object_is_its_one_filter() {
        for capacity in [1, 100, 1 << 40, MAX_CAPACITY] {
            for rate in [0.9, 0.01, 5e-324] {
                let params = params(capacity, rate, 0.5, 0);
                assert_eq!(params.reach(Limits::Obey), (capacity, None));
                let blob = Geometry::new(capacity, params.error_rate).blob_bytes();
                let total = blob + 48 + BloomObject::BASE_BYTES;
                let stopped = (0, Some(Stop::Memory));
                assert_eq!(params.reach(within(blob, total)), (capacity, None));
                assert_eq!(params.reach(within(blob - 1, total)), stopped);
                assert_eq!(params.reach(within(blob, total - 1)), stopped);
            }
        }
    }

    /// Filters of one capacity are not looked at one by one; as long as they are few that must not
    /// show, to the byte.
    #[test]
    fn reach_of_even_filters_is_that_of_a_loop() {
        for (capacity, sizes) in [
            (1, [300, 3000, 100_000, 1_200_000]),
            (10, [300, 3000, 100_000, 1_200_000]),
            (1000, [3000, 100_000, 2_000_000, 30_000_000]),
            (100_000, [300_000, 2_000_000, 100_000_000, 1_000_000_000]),
        ] {
            for rate in [0.9, 0.3, 0.01, 1e-6, 1e-300] {
                for tightening in [0.5, 0.1, 0.8, 0.999] {
                    let params = params(capacity, rate, tightening, 1);
                    for size in sizes {
                        // Around the limit of the loop too: one byte more or less shows.
                        for object_bytes in size..size + 70 {
                            let limits = within(NONE, object_bytes);
                            assert!(agrees(&params, limits, 20_000), "{limits:?}");
                        }
                    }
                }
            }
        }
    }

    /// A filter's size passes its limit after many filters, of which none is looked at.
    #[test]
    fn reach_of_even_filters_ends_at_the_limit_of_one_filter() {
        let mut agreed = 0;
        for capacity in [1, 10, 1000, 100_000] {
            for rate in [0.5, 0.01, 1e-200] {
                for tightening in [0.5, 0.1, 0.9, 0.999] {
                    let params = params(capacity, rate, tightening, 1);
                    for index in [0, 1, 2, 30, 500, 2000] {
                        let Some(rate) = params.rate(index) else {
                            continue;
                        };
                        let bytes = Geometry::new(capacity, rate).blob_bytes();
                        for filter_bytes in [bytes - 1, bytes, bytes + 1] {
                            let limits = within(filter_bytes, NONE);
                            agreed += u32::from(agrees(&params, limits, 20_000));
                            let limits = within(filter_bytes, 1 << 30);
                            agreed += u32::from(agrees(&params, limits, 20_000));
                        }
                    }
                }
            }
        }
        assert!(agreed > 1000, "{agreed} were comparable");
    }

    #[test]
    fn reach_of_even_filters_ends_where_the_rate_does() {
        for capacity in [1, 1000] {
            for rate in [0.5, 0.01, 1e-300, 5e-323] {
                for tightening in [0.01, 0.1, 0.9, 0.99] {
                    let params = params(capacity, rate, tightening, 1);
                    for limits in [Limits::Obey, within(NONE, NONE), within(1 << 40, 1 << 50)] {
                        assert!(agrees(&params, limits, 100_000));
                        assert_eq!(params.reach(limits).1, Some(Stop::Rate));
                    }
                }
            }
        }
    }

    /// Past some thousands of sizes, many filters are counted at the size of their last. The
    /// answer may then be lower than the truth, by the part that [`Outlook::reach_evenly`] tells,
    /// and never higher.
    #[test]
    fn reach_of_very_many_filters_is_nearly_and_never_above_that_of_a_loop() {
        let mut coarse = 0;
        for (capacity, object_bytes) in [
            (100_000, 20_u64 << 30),
            (100_000, 60 << 30),
            (100_000, 100 << 30),
            (250_000, 60 << 30),
            (1_000_000, 200 << 30),
        ] {
            for rate in [0.3, 0.01, 1e-6] {
                for (tightening, percent) in [(0.5, 99), (0.99, 97)] {
                    let params = params(capacity, rate, tightening, 1);
                    let limits = within(NONE, object_bytes);
                    let (exact, stop) = naive(&params, limits, 1_000_000).unwrap();
                    let reach = params.reach(limits);
                    assert_eq!(reach.1, stop);
                    assert!(reach.0 <= exact, "{} over {exact}: {params:?}", reach.0);
                    let least = exact / 100 * percent;
                    assert!(reach.0 >= least, "{} for {exact}: {params:?}", reach.0);
                    coarse += u32::from(reach.0 < exact);
                }
            }
        }
        assert!(coarse > 0, "none of them was so many");
    }

    /// Numbers for which a loop over the filters would not end in a lifetime. That these end at
    /// all is what is tested; and what they answer is in bounds.
    #[test]
    fn reach_ends_soon_whatever_the_numbers() {
        let mut asked = 0;
        for expansion in [0, 1, 2, u32::MAX] {
            for capacity in [1, 2, 1000, 1 << 31, 1 << 61, MAX_CAPACITY] {
                for rate in [1.0 - f64::EPSILON, 0.5, 0.01, 1e-300, 5e-324] {
                    for tightening in [0.5, 1.0 - f64::EPSILON, 0.999_999, 0.3, 1e-100, 5e-324] {
                        let params = params(capacity, rate, tightening, expansion);
                        let mut last = 0;
                        for object_bytes in [0, 1 << 20, 1 << 36, 1 << 50, 1 << 62, NONE] {
                            for filter_bytes in [64 << 20, NONE] {
                                let limits = within(filter_bytes, object_bytes);
                                let (reach, _) = params.reach(limits);
                                assert!(reach <= MAX_CAPACITY);
                                asked += 1;
                                // More room is more items, or as many.
                                if filter_bytes == NONE {
                                    assert!(reach >= last, "{params:?}, {limits:?}");
                                    last = reach;
                                }
                            }
                        }
                        let (obeyed, _) = params.reach(Limits::Obey);
                        assert!(obeyed >= last);
                    }
                }
            }
        }
        assert_eq!(asked, 4 * 6 * 5 * 6 * 12);
    }

    /// The settings of a server say "no limit" by the largest number: no sum of bytes is over it.
    #[test]
    fn what_nothing_stops_reaches_all_that_can_be_counted() {
        for expansion in [1, 2, 3, u32::MAX] {
            for capacity in [1, 1000, MAX_CAPACITY] {
                for limits in [Limits::Obey, within(NONE, NONE)] {
                    let params = params(capacity, 0.01, 0.5, expansion);
                    assert_eq!(params.reach(limits), (MAX_CAPACITY, None));
                }
            }
        }
    }
}
