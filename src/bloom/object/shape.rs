//! What a new object is requested to be.

use crate::bloom::filter::Cells;
use crate::bloom::law::{Law, Limits, Params, Refusal, Standing, Tightening};
use crate::bloom::number::Fraction;

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

    /// Into how many parts the error rate is divided: the most periods that may answer at a time, one of
    /// them opened ahead.
    #[allow(clippy::cast_precision_loss, reason = "there are few periods")]
    pub fn parts(&self) -> f64 {
        self.window()
            .map_or(1.0, |window| window.periods() as f64 + 1.0)
    }

    /// The law of growth of one period, or `None` where a double can't hold its rate.
    pub fn law(&self) -> Option<Law> {
        Some(Law::of(&Params {
            error_rate: Fraction::new(self.params.error_rate.get() / self.parts())?,
            tightening: self.tightening(),
            ..self.params
        }))
    }

    /// The capacity that one more period can grow to, in an object that takes this many bytes before that
    /// period's first filter, and what stops it.
    pub fn reach_beside(&self, bytes: u64, limits: Limits) -> (u64, Option<Refusal>) {
        let Some(law) = self.law() else {
            return (0, Some(Refusal::RateTooSmall));
        };
        let first = Standing {
            filters: 0,
            newest: self.params.capacity,
            hashes: u32::MAX,
            capacity: 0,
            bytes,
            cells: self.cells(),
        };
        law.reach(first, limits)
    }
}
