//! Making objects, new ones, those of outlines and unions of others, and checking that they are valid.

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Law, Limits, Params, Refusal};
use crate::bloom::stack::Stack;
use crate::bytes::DecodeError;
use crate::hash::{Hasher, Seed};

use super::body::{Body, Object, beside_base};
use super::check::{Check, FilterFields};
use super::counters::Counters;
use super::ids::Ids;
use super::merge::{self, MergeError};
use super::outline::Outline;
use super::shape::{Kind, New, Shape};
use super::timeline::Timeline;
use super::window::Time;

impl Object {
    /// Creates an empty object, ready for items added at this time. Objects of `RedisBloom` ignore the seed.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn make(new: &New, seed: Seed, time: Time, limits: Limits) -> Result<Self, Refusal> {
        match new {
            New::Own(shape) => Self::new(shape, seed, time, limits),
            New::RedisBloom { params, factor } => {
                let law = Law::of_redisbloom(params, *factor)?;
                let stack = Stack::new(law, Hasher::Murmur64, Cells::BareBits);
                Self::of_stack(stack, params.capacity, limits)
            }
        }
    }

    /// Creates an empty object of a shape, ready for items added at this time.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn new(shape: &Shape, seed: Seed, time: Time, limits: Limits) -> Result<Self, Refusal> {
        let hasher = Hasher::Sip(seed);
        let allowance = beside_base(limits);
        let body = match shape.kind {
            Kind::Plain => return Self::plain(&shape.params, seed, limits),
            Kind::Counting => Body::Counters(Box::new(Counters::new(shape, hasher, allowance)?)),
            Kind::Windowed(window) => {
                let tightening = shape.tightening();
                let params = Params {
                    tightening,
                    ..shape.params
                };
                let mut timeline = Timeline::new(params, window, hasher);
                timeline.open(window.target(time), allowance)?;
                Body::Timeline(Box::new(timeline))
            }
        };
        Self(body).checked()
    }

    /// Creates an empty plain object.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn plain(params: &Params, seed: Seed, limits: Limits) -> Result<Self, Refusal> {
        let stack = Stack::new(Law::of(params), Hasher::Sip(seed), Cells::Bits);
        Self::of_stack(stack, params.capacity, limits)
    }

    fn of_stack(stack: Stack, capacity: u64, limits: Limits) -> Result<Self, Refusal> {
        let stack = stack.with_first(capacity, limits.into(), Filter::new)?;
        Self(Body::Stack(stack)).checked()
    }

    /// Creates the object of an outline with complete cells: the only way in from outside.
    ///
    /// # Errors
    /// The reason that the outline is invalid, or that the object's tables can't be allocated; the outline is unchanged
    /// then.
    pub(crate) fn from_outline(outline: &mut Outline) -> Result<Self, DecodeError> {
        outline.check()?;
        let periods = outline.finish()?;
        let Shape { params, kind } = outline.shape;
        let body = if let Kind::Windowed(window) = kind {
            let timeline = Timeline::new(params, window, outline.hasher).with_periods(periods);
            Body::Timeline(Box::new(timeline))
        } else {
            let stack = periods.into_iter().next().ok_or("no filters")?.stack;
            match kind {
                Kind::Counting => Body::Counters(Box::new(Counters {
                    capacity: params.capacity,
                    stack,
                    ids: std::mem::take(&mut outline.ids),
                })),
                _ => Body::Stack(stack),
            }
        };
        let object = Self(body);
        object.check()?;
        Ok(object)
    }

    /// Returns the union of objects, at least one.
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

    /// Returns the union of objects, at least one, or `None` if the first one already equals it. Filters that limits
    /// don't admit are refused before memory for them is allocated. If `now_ms` is given, periods that have expired by
    /// then are not counted.
    ///
    /// # Errors
    /// Any [`MergeError`].
    pub fn union(
        sources: &[&Self],
        now_ms: Option<u64>,
        limits: Limits,
    ) -> Result<Option<Self>, MergeError> {
        let (first, others) = sources.split_first().ok_or(MergeError::Kinds)?;
        let all = |alike: &dyn Fn(&Self) -> bool| others.iter().all(|other| alike(other));
        if !all(&|other| other.is_plain() == first.is_plain()) {
            return Err(MergeError::Kinds);
        }
        if !all(&|other| other.hasher() == first.hasher()) {
            return Err(MergeError::Seeds);
        }
        if !all(&|other| other.shape().kind == first.shape().kind) {
            return Err(MergeError::Kinds);
        }
        let filters = sources.iter().flat_map(|source| source.all_filters());
        let source_bytes = filters.map(|f| f.geometry().cell_bytes).sum();
        let mut budget = merge::Budget::new(limits, Self::BASE_BYTES, source_bytes);
        let no_ids = Ids::default();
        let mut stacks = merge::reserved(sources.len())?;
        let mut timelines = merge::reserved(sources.len())?;
        for source in sources {
            match &source.0 {
                Body::Stack(stack) => stacks.push((stack, &no_ids)),
                Body::Counters(counters) => stacks.push((&counters.stack, &counters.ids)),
                Body::Timeline(timeline) => timelines.push(&**timeline),
            }
        }
        let merged = match &first.0 {
            Body::Stack(_) => {
                let union = merge::stacks(&stacks, 1.0, &mut budget)?;
                union.map(|(stack, _)| Body::Stack(stack))
            }
            Body::Counters(counters) => {
                let capacity = counters.capacity;
                let union = merge::stacks(&stacks, 1.0, &mut budget)?;
                union.map(|(stack, ids)| {
                    Body::Counters(
                        Counters {
                            capacity,
                            stack,
                            ids,
                        }
                        .into(),
                    )
                })
            }
            Body::Timeline(_) => {
                let union = merge::timelines(&timelines, now_ms, &mut budget)?;
                union.map(|timeline| Body::Timeline(timeline.into()))
            }
        };
        let merged = merged.map(|body| Self(body).checked());
        merged.transpose().map_err(MergeError::Refused)
    }

    /// Checks that the object is valid, by the rules of `Check`.
    ///
    /// # Errors
    /// The reason that the object is invalid.
    pub fn check(&self) -> Result<(), &'static str> {
        let no_ids = Ids::default();
        let (shape, hasher) = (self.shape(), self.hasher());
        let law_of_period = shape.law();
        let (law, ids) = match &self.0 {
            Body::Stack(stack) => (stack.law(), &no_ids),
            Body::Counters(counters) => (counters.stack.law(), &counters.ids),
            Body::Timeline(_) => {
                let law = law_of_period.as_ref();
                (law.ok_or("error rate out of range")?, &no_ids)
            }
        };
        let check = Check {
            shape: &shape,
            hasher,
            law,
            ids,
        };
        check.object(self.stacks().map(|(number, stack)| {
            let filters = stack.filters().iter();
            (number, filters.map(FilterFields::from))
        }))?;
        for (_, stack) in self.stacks() {
            if stack.law() != law || stack.hasher() != hasher {
                return Err("periods that grow or hash differently");
            }
            if !stack.has_right_sums() {
                return Err("sums that are not the filters'");
            }
        }
        if let Body::Timeline(timeline) = &self.0 {
            timeline.check()?;
        }
        Ok(())
    }

    /// Returns the object if it is valid. The only possible fault of a new or merged one is a sum that overflows, and
    /// that exceeds every limit.
    fn checked(self) -> Result<Self, Refusal> {
        match self.check() {
            Ok(()) => Ok(self),
            Err(_) => Err(Refusal::MemoryLimit),
        }
    }
}
