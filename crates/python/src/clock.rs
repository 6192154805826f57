//! The clock that ages are measured by. It is never set back, and stands still while the machine is suspended.

use std::time::Duration;

/// The system's coarse clock: four times as fast as the exact one, and behind it by up to a tick, 10 ms or less.
#[cfg(target_os = "linux")]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
#[cfg(not(target_os = "linux"))]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// How far the coarse clock is never behind, even if the system is late with a tick.
const SLACK: Duration = Duration::from_millis(100);

/// Returns the time since the system started.
pub fn now() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns a time that is not past an end if now is not: that of the coarse clock if the end is far, else now.
#[inline]
pub fn now_before(is_before_end: impl Fn(Duration) -> bool) -> Duration {
    let coarse = read(COARSE);
    if is_before_end(coarse + SLACK) {
        coarse
    } else {
        now()
    }
}

#[inline]
fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place that is written to is this function's own.
    let outcome = unsafe { libc::clock_gettime(clock, &raw mut time) };
    // A copy must not seem fresh because there is no clock.
    assert_eq!(outcome, 0, "the system has no monotonic clock");
    #[allow(clippy::cast_possible_truncation, reason = "less than a billion")]
    Duration::new(
        time.tv_sec.cast_unsigned(),
        time.tv_nsec.cast_unsigned() as u32,
    )
}
