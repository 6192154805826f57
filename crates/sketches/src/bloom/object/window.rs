//! How time passes for an object with a window.
//!
//! Time is an argument, in milliseconds since the epoch. If the clock is set forward, periods expire as if that time
//! had gone by. If it is set back, the next write sets all periods back with it, and they expire one by one as before.
//! Either way there are never more periods than the error rate was divided by.

/// How long items are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    period_ms: u64,
    periods: u64,
}

impl Window {
    /// The most periods that a window may have: each is at least one more filter to look up in.
    pub const MAX_PERIODS: u64 = 1440;

    /// A window of so many periods of so many milliseconds; `None` if one of them is 0, if there are
    /// more than [`MAX_PERIODS`](Self::MAX_PERIODS), or if all together are longer than an `i64` holds.
    pub fn new(period_ms: u64, periods: u64) -> Option<Self> {
        let window = period_ms.checked_mul(periods)?;
        let fits = window > 0 && i64::try_from(window).is_ok() && periods <= Self::MAX_PERIODS;
        fits.then_some(Self { period_ms, periods })
    }

    /// Length of a period in milliseconds. Periods begin at multiples of it since the epoch.
    pub const fn period_ms(self) -> u64 {
        self.period_ms
    }

    /// The number of periods that an item is found for at most; at least it is one fewer.
    pub const fn periods(self) -> u64 {
        self.periods
    }

    /// Length of the window in milliseconds.
    pub const fn ms(self) -> u64 {
        self.period_ms * self.periods
    }

    /// The number of the period that a time lies in.
    pub const fn period_at(self, now_ms: u64) -> u64 {
        now_ms / self.period_ms
    }

    /// Whether a period has passed out of the window when another one is current.
    pub const fn has_passed(self, period: u64, current: u64) -> bool {
        current.saturating_sub(period) >= self.periods
    }

    /// The number of the oldest period that has not passed when one is current.
    pub const fn oldest(self, current: u64) -> u64 {
        current.saturating_sub(self.periods - 1)
    }

    /// The period that an item with such a time to live goes into: the first that passes at its end or
    /// later. Without one, the current.
    pub fn target(self, time: Time) -> u64 {
        let current = self.period_at(time.now_ms);
        let Some(ttl_ms) = time.ttl_ms else {
            return current;
        };
        let end = time.now_ms.saturating_add(ttl_ms).div_ceil(self.period_ms);
        // An item stays no longer than the window, and at least as long as the oldest period.
        let oldest = self.oldest(current);
        end.saturating_sub(self.periods)
            .clamp(oldest, current.saturating_add(1))
    }
}

/// When something is done. Only an object with a window uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// The time, in milliseconds since the epoch.
    pub now_ms: u64,
    /// The items' time to live in milliseconds; `None` for that of others.
    pub ttl_ms: Option<u64>,
}

impl Time {
    /// This time, for items that stay as long as others.
    pub const fn at(now_ms: u64) -> Self {
        Self {
            now_ms,
            ttl_ms: None,
        }
    }
}
