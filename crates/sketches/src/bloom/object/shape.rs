//! Shapes: the requested parameters of objects.

use crate::bloom::law::{Params, Refusal, TableStep, Tightening};
use crate::table::Payload;

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
    /// The object begins small, and takes the least memory when it has as many items as its capacity.
    ScaledTo,
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
            _ => None,
        }
    }

    /// Returns whether items can be removed.
    pub const fn is_counting(&self) -> bool {
        matches!(self.kind, Kind::Counting)
    }

    /// Returns the ratio of the rates of successive filters or tables. Only plain objects have a choice.
    pub fn tightening(&self) -> Tightening {
        match self.kind {
            Kind::Plain => self.params.tightening,
            _ => Tightening::QUARTER,
        }
    }

    /// Returns the most periods that are live at the same time, including one opened ahead; 1 without a window.
    pub fn most_periods(&self) -> u64 {
        self.window().map_or(1, |window| window.periods() + 1)
    }

    /// Returns what the tables of the object keep of each item.
    #[must_use]
    pub fn payload(&self) -> Payload {
        match self.kind {
            Kind::Plain | Kind::ScaledTo => Payload::Nothing,
            Kind::Counting => Payload::Count,
            // A window has at most 60,000 periods.
            Kind::Windowed(window) => {
                Payload::Period(u32::try_from(window.periods()).unwrap_or(u32::MAX))
            }
        }
    }

    /// Returns the step of growth that follows those of the object's tables before.
    ///
    /// # Errors
    /// [`Refusal::RateTooSmall`]
    pub fn table_step(
        &self,
        before: impl IntoIterator<Item = TableStep>,
    ) -> Result<TableStep, Refusal> {
        let items = self.params.capacity.saturating_mul(self.most_periods());
        TableStep::after(before.into_iter(), &self.params, items, self.payload())
    }
}
