//! Shapes: the requested parameters of objects.

use crate::bloom::filter::{Cells, Geometry};
use crate::bloom::law::{Growth, Law, Limits, Params, Refusal, State, Tightening};
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

/// A request for a new object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum New {
    /// An object of this module's own types. A plain one grows by valkey-bloom's law if its tightening ratio is marked
    /// as valkey-bloom's.
    Own(Shape),
    /// An object with the bits that `RedisBloom` 8.8 would give it.
    RedisBloom {
        /// The parameters. The tightening ratio is ignored: each filter has half the rate of the one before.
        params: Params,
        /// The growth factor to record, even if the object does not grow.
        factor: u32,
    },
}

impl New {
    /// The largest capacity of a filter of `RedisBloom`.
    pub const REDISBLOOM_CAPACITY: u64 = 1 << 30;
    /// The largest expansion of a filter of `RedisBloom`.
    pub const REDISBLOOM_EXPANSION: u32 = 32_768;

    /// Returns the kind and the parameters.
    pub const fn shape(&self) -> Shape {
        match self {
            Self::Own(shape) => *shape,
            Self::RedisBloom { params, .. } => Shape::plain(*params),
        }
    }
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

    /// Returns what the error rate is divided by, for the stack of each period.
    pub fn rate_divisor(&self) -> f64 {
        to_double(self.most_periods())
    }

    /// Returns the law of growth of one period, or `None` if its rate is too small for a double.
    pub(crate) fn law(&self) -> Option<Law> {
        Some(Law::of(&Params {
            error_rate: Fraction::new(self.params.error_rate.get() / self.rate_divisor())?,
            tightening: self.tightening(),
            ..self.params
        }))
    }

    /// Returns the law of growth of one period, and the state of its stack before the first filter, which has this
    /// capacity. `bytes` is the size of the object so far.
    pub(super) fn before_first(&self, bytes: u64, capacity: u64) -> Result<(Law, State), Refusal> {
        let law = self.law().ok_or(Refusal::RateTooSmall)?;
        Ok((law, State::before_first(bytes, capacity, self.cells())))
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

    /// Returns the size of the first filter of a stack with this initial capacity.
    pub(super) fn first_geometry(&self, capacity: u64) -> Result<Geometry, Refusal> {
        let (law, at) = self.before_first(0, capacity)?;
        Ok(law.step(&at, Limits::NONE.into())?.geometry)
    }
}
