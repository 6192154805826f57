//! Windows: the expiry of periods.
//!
//! Time is an argument, in milliseconds since the epoch. If the clock is set forward, periods expire as if that time
//! had elapsed. If it is set back, the next write shifts all periods back with it, and they expire one by one again.

/// The time for which items are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    period_ms: u64,
    periods: u64,
}

impl Window {
    /// The most periods of a window: their numbers have 16 bits in each item.
    pub const MAX_PERIODS: u64 = 60_000;

    /// Creates a window of `periods` periods of `period_ms` milliseconds. Returns `None` if one of the numbers is 0,
    /// if there are more than [`MAX_PERIODS`](Self::MAX_PERIODS), or if the total length does not fit an `i64`.
    pub fn new(period_ms: u64, periods: u64) -> Option<Self> {
        let window = period_ms.checked_mul(periods)?;
        let fits = window > 0 && i64::try_from(window).is_ok() && periods <= Self::MAX_PERIODS;
        fits.then_some(Self { period_ms, periods })
    }

    /// Returns the length of a period in milliseconds. Periods begin at multiples of it since the epoch.
    pub const fn period_ms(self) -> u64 {
        self.period_ms
    }

    /// Returns the number of periods. An item is found for at most this many periods, and for at
    /// least one fewer. With a time to live, it may be found for one more, and for as short as that time.
    pub const fn periods(self) -> u64 {
        self.periods
    }

    /// Returns the length of the window in milliseconds.
    pub const fn ms(self) -> u64 {
        self.period_ms * self.periods
    }

    /// Returns the number of the period that contains a time.
    pub const fn period_at(self, now_ms: u64) -> u64 {
        now_ms / self.period_ms
    }

    /// Returns the number of the oldest live period when `current` is the current one.
    pub const fn oldest(self, current: u64) -> u64 {
        current.saturating_sub(self.periods - 1)
    }

    /// Returns the number of the period for an item with this time to live, if `ahead` is added to the numbers of periods:
    /// the first that expires at its end or later. Without a time to live, returns the current one.
    pub fn target(self, time: Time, ahead: u64) -> u64 {
        let current = self.period_at(time.now_ms).saturating_add(ahead);
        let Some(ttl_ms) = time.ttl_ms else {
            return current;
        };
        let end = time.now_ms.saturating_add(ttl_ms).div_ceil(self.period_ms);
        // A time to live is at most the window: rounded up, it ends with the items of the next period.
        let first = end.saturating_add(ahead).saturating_sub(self.periods);
        first.clamp(self.oldest(current), current.saturating_add(1))
    }
}

/// The time of an operation. Only objects with a window use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// The time in milliseconds since the epoch.
    pub now_ms: u64,
    /// The items' time to live in milliseconds; `None` for the window's.
    pub ttl_ms: Option<u64>,
}

impl Time {
    /// Returns this time, for items that stay for the whole window.
    pub const fn at(now_ms: u64) -> Self {
        Self {
            now_ms,
            ttl_ms: None,
        }
    }
}
