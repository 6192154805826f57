//! Times of JavaScript: microseconds since a moment of its choice, by a clock that never goes back.

use std::time::Duration;

/// Returns the time of a number of microseconds, without the fraction of one; 0 for a negative number and NaN.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
pub const fn time(us: f64) -> Duration {
    Duration::from_micros(us as u64)
}

/// Returns the microseconds of a time, with the fraction of one.
pub const fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_whole_microseconds() {
        for (us, expected) in [
            (0.0, Duration::ZERO),
            (0.9, Duration::ZERO),
            (1.9, Duration::from_micros(1)),
            (1.5e6, Duration::from_millis(1500)),
            (-1.0, Duration::ZERO),
            (f64::NAN, Duration::ZERO),
            (f64::INFINITY, Duration::from_micros(u64::MAX)),
        ] {
            assert_eq!(time(us), expected, "{us}");
        }
    }

    #[test]
    fn microseconds_have_fractions() {
        for (time, expected) in [
            (Duration::ZERO, "0.0"),
            (Duration::from_nanos(500), "0.5"),
            (Duration::from_millis(1500), "1500000.0"),
        ] {
            assert_eq!(format!("{:.1}", micros(time)), expected);
        }
    }
}
