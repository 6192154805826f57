//! Arithmetic that the other layers share: fractions, powers, random numbers, checked sums, and the largest capacity.

/// Exponentials and logarithms: unlike the C library's, the results are the same on every processor.
pub use libm::{exp, expm1, log as ln, log1p as ln_1p, log2};

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

/// Returns the natural logarithm of a positive number, correctly rounded. Other programs size their filters with their
/// C library's logarithm, which is nearly always correctly rounded.
///
/// For the number `m·2ᵉ` and `s = (m−1)/(m+1)`, this computes `2·(s + s³/3 + s⁵/5 + …) + e·ln 2` in double-doubles.
#[allow(clippy::cast_precision_loss, reason = "an exponent is small")]
pub fn rounded_ln(number: f64) -> f64 {
    // ln 2 as a double, and the rest.
    const LN_2: DoubleDouble = DoubleDouble(std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);
    // For the largest `s`, further terms don't change a double-double.
    const ODD_RECIPROCALS: [DoubleDouble; 22] = {
        let (mut reciprocals, mut index, mut odd) = ([DoubleDouble(1.0, 0.0); 22], 0, 1.0);
        while index < reciprocals.len() {
            reciprocals[index] = DoubleDouble(1.0, 0.0).over(DoubleDouble(odd, 0.0));
            (index, odd) = (index + 1, odd + 2.0);
        }
        reciprocals
    };
    let (number, below) = if number < f64::MIN_POSITIVE {
        (number * 2.0_f64.powi(64), 64.0)
    } else {
        (number, 0.0)
    };
    let bits = number.to_bits();
    let mut exponent = (bits >> 52) as f64 - 1023.0 - below;
    let mut m = f64::from_bits(bits & !(0x7FF << 52) | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        (m, exponent) = (m / 2.0, exponent + 1.0);
    }
    let s = DoubleDouble(m - 1.0, 0.0).over(DoubleDouble::sum(m, 1.0));
    let square = s.times(s);
    let mut sum = DoubleDouble(0.0, 0.0);
    for reciprocal in ODD_RECIPROCALS.into_iter().rev() {
        sum = sum.times(square).plus(reciprocal);
    }
    let of_m = s.times(sum).times(DoubleDouble(2.0, 0.0));
    let DoubleDouble(high, low) = LN_2.times(DoubleDouble(exponent, 0.0)).plus(of_m);
    high + low
}

/// An unevaluated sum of two doubles, for twice the precision. The second is the rounding error of the first.
#[derive(Clone, Copy)]
struct DoubleDouble(f64, f64);

impl DoubleDouble {
    /// Returns the exact sum of two doubles (Knuth 1969).
    const fn sum(one: f64, other: f64) -> Self {
        let sum = one + other;
        let of_other = sum - one;
        Self(sum, (one - (sum - of_other)) + (other - of_other))
    }

    /// Returns the exact product of two doubles (Dekker 1971). A fused multiply-add is a single instruction on some
    /// processors only.
    const fn product(one: f64, other: f64) -> Self {
        let (Self(a, b), Self(c, d)) = (Self::split(one), Self::split(other));
        let product = one * other;
        Self(product, ((a * c - product) + a * d + b * c) + b * d)
    }

    /// Splits a double into two with half as many digits, exactly (Veltkamp 1968).
    const fn split(number: f64) -> Self {
        let high = 134_217_729.0 * number;
        let high = high - (high - number);
        Self(high, number - high)
    }

    const fn plus(self, other: Self) -> Self {
        let Self(high, low) = Self::sum(self.0, other.0);
        Self::sum(high, low + (self.1 + other.1))
    }

    const fn times(self, other: Self) -> Self {
        let Self(high, low) = Self::product(self.0, other.0);
        Self::sum(high, low + (self.0 * other.1 + self.1 * other.0))
    }

    const fn over(self, other: Self) -> Self {
        let first = self.0 / other.0;
        let rest = self.plus(other.times(Self(-first, 0.0)));
        let second = rest.0 / other.0;
        let rest = rest.plus(other.times(Self(-second, 0.0)));
        Self::sum(first, second).plus(Self(rest.0 / other.0, 0.0))
    }
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
#[allow(clippy::cast_precision_loss, reason = "an estimate needs no more")]
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
