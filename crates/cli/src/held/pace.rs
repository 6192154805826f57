//! The load that a run puts on a server: at most so many keys a second.

use std::time::{Duration, Instant};

/// The most keys that are read at once.
const BATCH: u64 = 200;

/// The number of keys whose reading costs a server as much as a page of SCAN, which passes a thousand keys.
pub const PAGE: u64 = 10;

/// Spreads reads over time.
pub struct Pace {
    /// 0: no limit.
    keys_per_second: u64,
    /// The time from which more may be read.
    next: Instant,
}

impl Pace {
    /// Creates a pace of `keys_per_second`, or without a limit for 0.
    pub fn new(keys_per_second: u64) -> Self {
        Self {
            keys_per_second,
            next: Instant::now(),
        }
    }

    /// Returns the number of keys to read at once: those of a twentieth of a second.
    pub fn batch(&self) -> usize {
        let keys = match self.keys_per_second {
            0 => BATCH,
            rate => (rate / 20).clamp(1, BATCH),
        };
        usize::try_from(keys).unwrap_or(1)
    }

    /// Waits until these keys may be read.
    pub fn wait(&mut self, keys: u64) {
        std::thread::sleep(self.take(keys, Instant::now()));
    }

    /// Accounts for these keys, and returns the time to wait before they are read.
    fn take(&mut self, keys: u64, now: Instant) -> Duration {
        if self.keys_per_second == 0 {
            return Duration::ZERO;
        }
        // Time that passed unused is not made up for: that would be a burst.
        let start = self.next.max(now);
        let nanoseconds = u128::from(keys) * 1_000_000_000 / u128::from(self.keys_per_second);
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        let next = start.checked_add(Duration::from_nanos(nanoseconds));
        self.next = next.unwrap_or(start);
        start - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_spread_and_unused_time_is_lost() {
        let mut pace = Pace::new(100);
        let start = pace.next;
        let at = |ms| start + Duration::from_millis(ms);
        // Ten keys at a hundred a second take 100 ms.
        assert_eq!(pace.take(10, at(0)), Duration::ZERO);
        assert_eq!(pace.take(10, at(0)), Duration::from_millis(100));
        assert_eq!(pace.take(5, at(150)), Duration::from_millis(50));
        // After a long pause the next keys come at once, and those after them wait.
        assert_eq!(pace.take(10, at(10_000)), Duration::ZERO);
        assert_eq!(pace.take(10, at(10_000)), Duration::from_millis(100));
    }

    #[test]
    fn batches_suit_the_pace() {
        for (keys_per_second, batch) in [(0, 200), (1, 1), (100, 5), (10_000, 200)] {
            assert_eq!(Pace::new(keys_per_second).batch(), batch);
        }
        let mut unlimited = Pace::new(0);
        let now = Instant::now();
        assert_eq!(unlimited.take(u64::MAX, now), Duration::ZERO);
        assert_eq!(unlimited.take(u64::MAX, now), Duration::ZERO);
    }
}
