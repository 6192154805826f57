//! What a new object is requested to be.

use crate::bloom::filter::{Cells, Geometry};
use crate::bloom::law::{Allowance, Growth, Law, Limits, Params, Refusal, Standing, Tightening};
use crate::number::{Fraction, MAX_CAPACITY, to_double};

use super::window::Window;

/// What an object does beyond adding and looking up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: items stay.
    Plain,
    /// Items expire.
    Windowed(Window),
    /// Items can be removed.
    Counting,
}

/// What a new object is requested to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Rates, capacities and growth; with a window, the capacity of a period.
    pub params: Params,
    /// What it does beyond adding and looking up.
    pub kind: Kind,
}

impl Shape {
    /// An object of bits that stay.
    pub const fn plain(params: Params) -> Self {
        Self {
            params,
            kind: Kind::Plain,
        }
    }

    /// How long items are found, if not forever.
    pub const fn window(&self) -> Option<Window> {
        match self.kind {
            Kind::Windowed(window) => Some(window),
            Kind::Plain | Kind::Counting => None,
        }
    }

    /// Whether items can be removed.
    pub const fn is_counting(&self) -> bool {
        matches!(self.kind, Kind::Counting)
    }

    /// What stands in the filters of an object of ours.
    pub const fn cells(&self) -> Cells {
        match self.kind {
            Kind::Plain | Kind::Windowed(_) => Cells::Bits,
            Kind::Counting => Cells::Counters,
        }
    }

    /// The ratio of the rates of successive filters. Only plain objects are valkey-bloom's.
    pub fn tightening(&self) -> Tightening {
        match self.kind {
            Kind::Plain => self.params.tightening,
            Kind::Windowed(_) | Kind::Counting => self.params.tightening.as_ours(),
        }
    }

    /// The most periods that may answer at a time, one of them opened ahead; without a window, 1.
    pub fn most_periods(&self) -> u64 {
        self.window().map_or(1, |window| window.periods() + 1)
    }

    /// Into how many parts the error rate is divided.
    pub fn parts(&self) -> f64 {
        to_double(self.most_periods())
    }

    /// The law of growth of one period, or `None` where a double can't hold its rate.
    pub fn law(&self) -> Option<Law> {
        Some(Law::of(&Params {
            error_rate: Fraction::new(self.params.error_rate.get() / self.parts())?,
            tightening: self.tightening(),
            ..self.params
        }))
    }

    /// The capacity that one more period can grow to which begins with this one, in an object that takes this many bytes
    /// before that period's first filter, and what stops it.
    pub fn reach_beside(
        &self,
        bytes: u64,
        capacity: u64,
        allowance: Allowance,
    ) -> (u64, Option<Refusal>) {
        let Some(law) = self.law() else {
            return (0, Some(Refusal::RateTooSmall));
        };
        law.reach(
            Standing::before_first(bytes, capacity, self.cells()),
            allowance,
        )
    }

    /// Returns the capacity of a period that is to take `items`: the reserved one, or the least of its doublings that is
    /// enough. The periods of a window then have few sizes, and those of one size are interleaved.
    pub(super) fn room_for(&self, items: u64) -> u64 {
        let mut room = self.params.capacity;
        let adapts = self.window().is_some() && self.params.growth != Growth::Fixed;
        while adapts && room < items.min(MAX_CAPACITY) {
            room = room.saturating_mul(2).min(MAX_CAPACITY);
        }
        room
    }

    /// The filters of a stack that takes `items`, and the bytes of an object with that stack that takes this many
    /// without one.
    pub(super) fn stack_beside(
        &self,
        bytes: u64,
        items: u64,
        limits: Limits,
    ) -> Result<(Vec<(u64, Geometry)>, u64), Refusal> {
        let law = self.law().ok_or(Refusal::RateTooSmall)?;
        let first = Standing::before_first(bytes, self.room_for(items), self.cells());
        let (mut at, mut filters) = (first, Vec::new());
        while at.filters == 0 || at.capacity < items {
            if at.filters > 0 && law.growth() == Growth::Fixed {
                return Err(Refusal::Full);
            }
            let step = law.step(&at, limits.into())?;
            let room = filters.try_reserve(1);
            room.map_err(|_| Refusal::OutOfMemory)?;
            filters.push((step.capacity, step.geometry));
            at.push(&step);
        }
        Ok((filters, at.bytes))
    }

    /// The size of the first filter of a stack that begins with this capacity.
    pub(super) fn first_geometry(&self, capacity: u64) -> Result<Geometry, Refusal> {
        let law = self.law().ok_or(Refusal::RateTooSmall)?;
        let step = law.step(
            &Standing::before_first(0, capacity, self.cells()),
            Limits::NONE.into(),
        )?;
        Ok(step.geometry)
    }
}
