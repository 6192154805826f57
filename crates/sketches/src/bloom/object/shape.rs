//! Shapes: the requested parameters of objects.

use crate::bloom::filter::{Cells, Geometry};
use crate::bloom::law::{Allowance, Growth, Law, Limits, Params, Refusal, State, Tightening};
use crate::number::{Fraction, MAX_CAPACITY, to_double};

use super::window::Window;

/// The kind of an object: what it supports beyond additions and lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing more: items stay.
    Plain,
    /// Items expire.
    Windowed(Window),
    /// Items can be removed.
    Counting,
}

/// The requested parameters of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Rates, capacity and growth; with a window, the capacity is that of a period.
    pub params: Params,
    /// The kind of the object.
    pub kind: Kind,
}

/// The filters of a planned stack, oldest first.
#[derive(Default)]
pub(super) struct Grown {
    /// Capacity and size of each filter.
    pub filters: Vec<(u64, Geometry)>,
    /// Size in bytes of the object after each filter.
    pub sizes: Vec<u64>,
}

impl Shape {
    /// Returns the shape of a plain object.
    pub const fn plain(params: Params) -> Self {
        Self {
            params,
            kind: Kind::Plain,
        }
    }

    /// Returns the window, if items expire.
    pub const fn window(&self) -> Option<Window> {
        match self.kind {
            Kind::Windowed(window) => Some(window),
            Kind::Plain | Kind::Counting => None,
        }
    }

    /// Returns whether items can be removed.
    pub const fn is_counting(&self) -> bool {
        matches!(self.kind, Kind::Counting)
    }

    /// Returns the kind of cells in an object of ours.
    pub const fn cells(&self) -> Cells {
        match self.kind {
            Kind::Plain | Kind::Windowed(_) => Cells::Bits,
            Kind::Counting => Cells::Counters,
        }
    }

    /// Returns the ratio of the rates of successive filters. Only plain objects can follow valkey-bloom's law.
    pub fn tightening(&self) -> Tightening {
        match self.kind {
            Kind::Plain => self.params.tightening,
            Kind::Windowed(_) | Kind::Counting => self.params.tightening.as_ours(),
        }
    }

    /// Returns the most periods that are live at the same time, including one opened ahead; 1 without a window.
    pub fn most_periods(&self) -> u64 {
        self.window().map_or(1, |window| window.periods() + 1)
    }

    /// Returns the number of parts that the error rate is divided into.
    pub fn parts(&self) -> f64 {
        to_double(self.most_periods())
    }

    /// Returns the law of growth of one period, or `None` if its rate is too small for a double.
    pub(crate) fn law(&self) -> Option<Law> {
        Some(Law::of(&Params {
            error_rate: Fraction::new(self.params.error_rate.get() / self.parts())?,
            tightening: self.tightening(),
            ..self.params
        }))
    }

    /// Returns the capacity that another period with this initial capacity can grow to, and what stops it there.
    /// `bytes` is the size of the object before that period's first filter.
    pub(crate) fn reach_beside(
        &self,
        bytes: u64,
        capacity: u64,
        allowance: Allowance,
    ) -> (u64, Option<Refusal>) {
        let Some(law) = self.law() else {
            return (0, Some(Refusal::RateTooSmall));
        };
        law.reach(
            State::before_first(bytes, capacity, self.cells()),
            allowance,
        )
    }

    /// Returns the initial capacity of a period for `items`: the reserved capacity, or its smallest doubling that is
    /// enough. So the periods of a window have few sizes, and those of one size are interleaved.
    pub(super) fn room_for(&self, items: u64) -> u64 {
        // Doubling does not enlarge a capacity of 0, which no object has.
        let mut room = self.params.capacity.max(1);
        let adapts = self.window().is_some() && self.params.growth != Growth::Fixed;
        while adapts && room < items.min(MAX_CAPACITY) {
            room = room.saturating_mul(2).min(MAX_CAPACITY);
        }
        room
    }

    /// Returns the filters of a stack that holds `items`, and the size in bytes of the object after each of them.
    /// `bytes` is the size without the stack.
    pub(super) fn stack_beside(
        &self,
        bytes: u64,
        items: u64,
        limits: Limits,
    ) -> Result<Grown, Refusal> {
        let law = self.law().ok_or(Refusal::RateTooSmall)?;
        let first = State::before_first(bytes, self.room_for(items), self.cells());
        let mut at = first;
        let Grown {
            mut filters,
            mut sizes,
        } = Grown::default();
        law.grow(&mut at, items, limits, |step, at| {
            let room = filters.try_reserve(1).and(sizes.try_reserve(1));
            room.map_err(|_| Refusal::OutOfMemory)?;
            filters.push((step.capacity, step.geometry));
            sizes.push(at.bytes);
            Ok(())
        })?;
        Ok(Grown { filters, sizes })
    }

    /// Returns the size of the first filter of a stack with this initial capacity.
    pub(super) fn first_geometry(&self, capacity: u64) -> Result<Geometry, Refusal> {
        let law = self.law().ok_or(Refusal::RateTooSmall)?;
        let step = law.step(
            &State::before_first(0, capacity, self.cells()),
            Limits::NONE.into(),
        )?;
        Ok(step.geometry)
    }
}
