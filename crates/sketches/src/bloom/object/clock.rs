//! The numbers of an object's periods.
//!
//! A period's number is the clock's number plus `ahead`. If the clock was set back, a write raises `ahead`, so that the number
//! of the clock's period falls by one at most. For example, `ahead` is 10, and an item of the clock's period 100 has number
//! 110. If the clock is then set back to period 60, `ahead` becomes 49: the clock's period has number 109, and items are
//! still added to 110, the latest period in which the object was written.

use crate::table::Period;

use super::window::{Time, Window};

/// The clock of an object with a window: it numbers the periods.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub window: Window,
    /// What is added to the clock's number of a period.
    pub ahead: u64,
}

/// The time of an operation on a window; zeros without a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// The current period.
    pub current: Period,
    /// The oldest one that has not expired.
    pub oldest: Period,
    /// The period to which items are added.
    pub target: Period,
}

impl Clock {
    /// The clock's last number of a period, which is some 35,000 years away if each takes a millisecond.
    pub const LAST_PERIOD: u64 = 1 << 50;

    /// Returns what is added while the clock was never set back, and to stored numbers; 0 without a window. It is so large that
    /// the periods of a window can be subtracted from any number, even in 1970.
    pub fn least_ahead(window: Option<Window>) -> u64 {
        window.map_or(0, |window| 2 * window.periods() + 4)
    }

    /// Returns the period that contains a time.
    #[inline]
    pub fn period_at(self, now_ms: u64) -> Period {
        Period(self.window.period_at(now_ms).min(Self::LAST_PERIOD) + self.ahead)
    }

    /// Returns the oldest period of the window that ends with one.
    #[inline]
    pub const fn oldest(self, current: Period) -> Period {
        Period(self.window.oldest(current.0))
    }

    /// Returns the latest period in which an object was written, given its newest period with items, which a time to live may
    /// have opened early, and the period before which all items were dropped.
    pub fn reached(self, newest: Period, dropped: Period) -> Period {
        let newest_but_one = newest.0.saturating_sub(1);
        Period(newest_but_one.max(dropped.0 + self.window.periods() - 1))
    }

    /// Returns the period that counts as the current one for a write, after one in the period `reached`. It is not earlier than
    /// that: otherwise, items would become older each time that the clock goes to and fro.
    pub fn current(self, now_ms: u64, reached: Period) -> Period {
        self.period_at(now_ms).max(reached)
    }

    /// Returns by how many periods, but for one, the clock was set back after a write in the period `reached`.
    pub fn lead(self, now_ms: u64, reached: Period) -> u64 {
        reached.0.saturating_sub(self.period_at(now_ms).0 + 1)
    }

    /// Returns the time of a write after one in the period `reached`.
    pub fn now(self, time: Time, reached: Period) -> Now {
        let current = self.current(time.now_ms, reached);
        let oldest = self.oldest(current);
        let least = time.ttl_ms.map_or(current, |_| oldest);
        let target = Period(self.window.target(time, self.ahead));
        Now {
            current,
            oldest,
            target: target.clamp(least, Period(current.0 + 1)),
        }
    }
}
