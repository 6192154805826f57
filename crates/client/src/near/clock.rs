//! A clock that is never set back, read in a few nanoseconds. The time in which the machine sleeps does not count.

use std::time::Duration;

/// How far [`roughly`] may be behind [`now`], with a wide margin: Linux sets its coarse clock every 1 to 10 ms.
pub const SLACK: Duration = Duration::from_millis(100);

#[cfg(target_os = "linux")]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    pub fn now() -> Duration {
        read(ClockId::Monotonic)
    }

    #[inline]
    pub fn roughly() -> Duration {
        read(ClockId::MonotonicCoarse)
    }

    #[inline]
    fn read(clock: ClockId) -> Duration {
        let time = clock_gettime(clock);
        #[allow(
            clippy::cast_sign_loss,
            clippy::cast_possible_truncation,
            reason = "the kernel gives seconds since the start, and less than 10⁹ nanoseconds"
        )]
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    pub fn now() -> Duration {
        START.elapsed()
    }

    pub fn roughly() -> Duration {
        now()
    }
}

pub use system::{now, roughly};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rough_time_is_a_little_behind() {
        for _ in 0..100_000 {
            let (before, rough, after) = (now(), roughly(), now());
            assert!(rough <= after, "{rough:?} {after:?}");
            assert!(rough + SLACK >= before, "{rough:?} {before:?}");
        }
    }
}
