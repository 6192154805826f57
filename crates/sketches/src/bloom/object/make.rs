//! Making objects, new ones, those of outlines and unions of others, and checking that they are valid.

use crate::bloom::law::{Law, Limits, Params, Refusal};
use crate::bloom::stack::Stack;
use crate::bytes::DecodeError;
use crate::hash::{Hasher, Seed};

use super::body::{Body, Object, beside_base};
use super::check::{FilterFields, check_stack};
use super::merge::{self, MergeError};
use super::outline::Outline;
use super::shape::{Kind, New, Shape};
use super::tables::Tables;

impl Object {
    /// Creates an empty object. Objects of `RedisBloom` ignore the seed.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn make(new: &New, seed: Seed, limits: Limits) -> Result<Self, Refusal> {
        match new {
            New::Own(shape) => Self::new(shape, seed, limits),
            New::RedisBloom { params, factor } => {
                let law = Law::of_redisbloom(params, *factor)?;
                let stack = Stack::new(law, Hasher::Murmur64);
                Self::of_stack(stack, params.capacity, limits)
            }
        }
    }

    /// Creates an empty object of a shape.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn new(shape: &Shape, seed: Seed, limits: Limits) -> Result<Self, Refusal> {
        if shape.kind == Kind::Plain {
            return Self::plain(&shape.params, seed, limits);
        }
        let tables = Tables::new(shape, Hasher::Sip(seed), beside_base(limits))?;
        Ok(Self::of_tables(tables))
    }

    /// Creates an empty plain object.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn plain(params: &Params, seed: Seed, limits: Limits) -> Result<Self, Refusal> {
        let stack = Stack::new(Law::of(params), Hasher::Sip(seed));
        Self::of_stack(stack, params.capacity, limits)
    }

    fn of_stack(stack: Stack, capacity: u64, limits: Limits) -> Result<Self, Refusal> {
        let stack = stack.with_first(capacity, limits)?;
        Self(Body::Stack(stack)).checked()
    }

    /// Creates the object of an outline with complete cells: the only way in from outside.
    ///
    /// # Errors
    /// Those of [`Outline::finish`].
    pub(crate) fn from_outline(outline: &mut Outline) -> Result<Self, DecodeError> {
        let object = Self(Body::Stack(outline.finish()?));
        object.assert_valid();
        Ok(object)
    }

    /// Creates the object of these tables.
    pub(crate) fn of_tables(tables: Tables) -> Self {
        Self(Body::Tables(Box::new(tables)))
    }

    /// Returns the union of objects, at least one. With a window, items are left out that had expired when the newest
    /// period of all began.
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
    /// don't admit are refused before memory for them is allocated. If `now_ms` is given, items that have expired by
    /// then do not count, and objects that are [ahead](Self::is_ahead) are set back.
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
        if let Body::Tables(first) = &first.0 {
            let mut others_tables = merge::reserved(others.len())?;
            others_tables.extend(others.iter().filter_map(|other| other.tables()));
            let union = first.union(&others_tables, now_ms, beside_base(limits))?;
            return Ok(union.map(Self::of_tables));
        }
        let mut stacks = merge::reserved(sources.len())?;
        stacks.extend(sources.iter().filter_map(|source| source.stack()));
        let merged = merge::stacks(&stacks, limits)?;
        let merged = merged.map(|stack| Self(Body::Stack(stack)).checked());
        merged.transpose().map_err(MergeError::Refused)
    }

    /// Checks that the object is valid, by the rules of `check_stack`.
    ///
    /// # Errors
    /// The reason that the object is invalid.
    pub fn check(&self) -> Result<(), &'static str> {
        let stack = match &self.0 {
            Body::Stack(stack) => stack,
            Body::Tables(tables) => return tables.check(),
        };
        let filters = stack.filters().iter().map(FilterFields::from);
        check_stack(stack.hasher(), stack.law(), filters)?;
        if stack.has_right_sums() {
            Ok(())
        } else {
            Err("sums differ from the filters'")
        }
    }

    /// Returns the object if it is valid. The only possible fault of a new or merged one is a sum that overflows, and
    /// that exceeds every limit.
    fn checked(self) -> Result<Self, Refusal> {
        let checked = self.check();
        checked.map(|()| self).map_err(|_| Refusal::MemoryLimit)
    }
}
