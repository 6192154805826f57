//! What an object is to be, and how time passes for it.
//!
//! *The rate that was asked for is the rate that is had*: since at most `n + 1` periods answer at one
//! time, each is made at `p / (n + 1)`, and within it the law of [`sizing`](super::sizing) holds.

use super::extended::Extended;
use super::object::BloomObject;
use super::sizing::{Cell, Fraction, Limits, Params, Stop};
use super::stack::Stack;

/// How long items are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    period_ms: u64,
    periods: u64,
}

impl Window {
    /// The most periods that a window may have, a day of minutes: each is one more filter to ask.
    pub const MAX_PERIODS: u64 = 1_440;

    /// A window of so many periods of so many milliseconds; `None` if one of them is 0, if there are
    /// more than [`MAX_PERIODS`](Self::MAX_PERIODS), or if all together are longer than an `i64` holds.
    #[must_use]
    pub fn new(period_ms: u64, periods: u64) -> Option<Self> {
        let window = period_ms.checked_mul(periods)?;
        let fits = window > 0 && i64::try_from(window).is_ok() && periods <= Self::MAX_PERIODS;
        fits.then_some(Self { period_ms, periods })
    }

    /// Length of a period in milliseconds. Periods begin at multiples of it since the epoch.
    #[must_use]
    pub const fn period_ms(self) -> u64 {
        self.period_ms
    }

    /// How many periods an item is found for, at the most: those before it passes are one fewer.
    #[must_use]
    pub const fn periods(self) -> u64 {
        self.periods
    }

    /// Length of the window in milliseconds.
    #[must_use]
    pub const fn ms(self) -> u64 {
        self.period_ms * self.periods
    }

    /// The period that a time lies in.
    pub(super) const fn at(self, now_ms: u64) -> u64 {
        now_ms / self.period_ms
    }

    /// Whether a period has passed out of the window.
    pub(super) const fn has_passed(self, period: u64, now_ms: u64) -> bool {
        period.saturating_add(self.periods) <= self.at(now_ms)
    }

    /// The period that an item with such a time to live goes into: the first that passes at its end or
    /// later. Without one, the current.
    pub(super) fn target(self, time: Time) -> u64 {
        let current = self.at(time.now_ms);
        let Some(ttl_ms) = time.ttl_ms else {
            return current;
        };
        let end = time.now_ms.saturating_add(ttl_ms).div_ceil(self.period_ms);
        // Of what is asked for, no more than the window can be had, and no less than is left anyway.
        let oldest = (current + 1).saturating_sub(self.periods);
        end.saturating_sub(self.periods).clamp(oldest, current + 1)
    }
}

/// When something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// The time, in milliseconds since the epoch.
    pub now_ms: u64,
    /// For how long the items are to be found, in milliseconds; in an object without a window, of no
    /// effect.
    pub ttl_ms: Option<u64>,
}

impl Time {
    /// This time, for items that stay as long as others.
    #[must_use]
    pub const fn at(now_ms: u64) -> Self {
        Self {
            now_ms,
            ttl_ms: None,
        }
    }
}

/// What an object is to be. A window and counters do not combine: an item that passes by itself can't
/// be removed afterwards without taking the counts of others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Rates, capacities and growth; with a window, the capacity of a period.
    pub params: Params,
    /// How long items are found, if not for ever.
    pub window: Option<Window>,
    /// Whether items can be removed; never with a window.
    pub counting: bool,
}

impl Shape {
    /// An object of bits that stay.
    #[must_use]
    pub const fn plain(params: Params) -> Self {
        Self {
            params,
            window: None,
            counting: false,
        }
    }

    /// Whether a [`BloomObject`] alone does all that is asked.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.window.is_none() && !self.counting
    }

    pub(super) const fn cell(&self) -> Cell {
        if self.counting {
            Cell::Counter
        } else {
            Cell::Bit
        }
    }

    /// Into how many parts the rate is divided: as many periods as may answer at one time.
    #[allow(clippy::cast_precision_loss, reason = "there are few periods")]
    pub(super) fn parts(&self) -> f64 {
        self.window
            .map_or(1.0, |window| window.periods as f64 + 1.0)
    }

    /// The parameters of one period, or `None` where a double can't hold its rate.
    pub(super) fn of_period(&self) -> Option<Params> {
        Some(Params {
            error_rate: Fraction::new(self.params.error_rate.get() / self.parts())?,
            ..self.params
        })
    }

    /// The most items that an object of this shape holds in a period before something stops its growth,
    /// and what stops it.
    #[must_use]
    pub fn reach(&self, limits: Limits) -> (u64, Option<Stop>) {
        let bytes = if self.is_plain() {
            BloomObject::BASE_BYTES
        } else {
            Extended::BASE_BYTES + size_of::<Stack>() as u64
        };
        self.reach_of_period(bytes, limits)
    }

    /// The same for one more period of an object that takes so many bytes before its first filter.
    pub(super) fn reach_of_period(&self, bytes: u64, limits: Limits) -> (u64, Option<Stop>) {
        let Some(params) = self.of_period() else {
            return (0, Some(Stop::Rate));
        };
        params.reach_with(self.cell(), bytes, limits)
    }
}
