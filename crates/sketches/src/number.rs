//! Arithmetic that the other layers share: fractions, powers, random numbers, checked sums, and the largest capacity.

mod ln;

/// Exponentials and logarithms: unlike the C library's, the results are the same on every processor.
pub use libm::{exp, expm1, log as ln, log1p as ln_1p, log2};
pub use ln::rounded_ln;

/// The largest total capacity of an object, and the largest total size of its filters in bytes.
pub const MAX_CAPACITY: u64 = i64::MAX as u64;

/// A number strictly between 0 and 1: an error rate, or a tightening ratio.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// The fraction 0.5.
    pub const HALF: Self = Self(0.5);
    /// A quarter.
    pub const QUARTER: Self = Self(0.25);

    /// Returns the fraction, or `None` if the number is not strictly between 0 and 1 (NaN is not).
    pub const fn new(value: f64) -> Option<Self> {
        if 0.0 < value && value < 1.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// Returns the number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// Returns `base` to the power of `exponent`, by squaring. `f64::powf` may differ between machines, and then a
/// replica's filters would differ too.
pub fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

/// Returns the probability that at least one of several independent events happens, given their probabilities.
pub fn either(events: impl Iterator<Item = f64>) -> f64 {
    events.fold(0.0, |any, event| any + event * (1.0 - any))
}

/// Returns the next pseudo-random number: `SplitMix64` (Steele, Lea and Flood 2014).
#[inline]
pub const fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Converts an integer to the nearest double.
#[allow(clippy::cast_precision_loss, reason = "the nearest double is wanted")]
pub const fn to_double(number: u64) -> f64 {
    number as f64
}

/// Truncates a number to an integer. Numbers out of range become 0 or `u64::MAX`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
pub const fn to_whole(number: f64) -> u64 {
    number as u64
}

/// Sums over filters. None exceeds [`MAX_CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sum of the filters' capacities.
    pub capacity: u64,
    /// Number of items in the filters.
    pub items: u64,
    /// Size of the filters in bytes.
    pub bytes: u64,
}

impl Sums {
    /// Adds a filter, or fails if a sum would exceed [`MAX_CAPACITY`].
    pub fn add(&mut self, capacity: u64, items: u64, bytes: u64) -> Result<(), &'static str> {
        let add = |sum: u64, more: u64| {
            let total = sum.checked_add(more).filter(|sum| *sum <= MAX_CAPACITY);
            total.ok_or("sum out of range")
        };
        *self = Self {
            capacity: add(self.capacity, capacity)?,
            items: add(self.items, items)?,
            bytes: add(self.bytes, bytes)?,
        };
        Ok(())
    }
}
