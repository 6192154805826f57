//! A clock for drivers. It is never set back, and stands still while the machine is suspended.
//!
//! The rules read no clock: a driver passes the time to each method of a [`Follower`]. A driver with a clock of its own,
//! such as a test, does not need this one.

use std::time::Duration;

use crate::Follower;

/// How far [`roughly`] may be behind [`now`], with a wide margin: Linux sets its coarse clock every 1 to 10 ms.
const SLACK: Duration = Duration::from_millis(100);

/// Returns the time since a moment that is the same for the whole life of a process.
pub fn now() -> Duration {
    system::now()
}

/// Returns a time for a lookup in a follower. The result of the lookup is the one at [`now`].
///
/// On Linux it reads the coarse clock, which takes a quarter of the time, unless the copy is about to become too old.
#[inline]
pub fn now_for(follower: &Follower) -> Duration {
    let latest = system::roughly() + SLACK;
    if follower.is_fresh(latest) {
        latest
    } else {
        now()
    }
}

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

#[cfg(test)]
mod tests {
    use super::system::roughly;
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
