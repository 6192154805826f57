//! Numbers that other floors agree on: fractions, powers, sums that can't overflow, and how large they
//! may become.

/// The largest capacity of an object, all filters together, and the most bytes that its filters may take.
pub const MAX_CAPACITY: u64 = i64::MAX as u64;

/// A number strictly between 0 and 1: an error rate, or a tightening ratio.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// 0.5.
    pub const HALF: Self = Self(0.5);

    /// The number, or `None` if it does not lie strictly between 0 and 1 (NaN does not).
    pub const fn new(value: f64) -> Option<Self> {
        if 0.0 < value && value < 1.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// `base` to the power of `exponent`, by squaring. `f64::powf` may differ between machines, and then a
/// replica's filters would.
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

/// `e` to the power of a number: the same on every processor, as the C library's is not.
pub fn exp(exponent: f64) -> f64 {
    libm::exp(exponent)
}

/// `e` to the power of a number, less 1: the same on every processor.
pub fn expm1(exponent: f64) -> f64 {
    libm::expm1(exponent)
}

/// The natural logarithm of 1 and a number: the same on every processor.
pub fn ln_1p(number: f64) -> f64 {
    libm::log1p(number)
}

/// The natural logarithm of a number: the same on every processor, as the C library's is not.
pub fn ln(number: f64) -> f64 {
    libm::log(number)
}

/// The natural logarithm of a positive number, rounded correctly. Other programs size their filters by their C
/// library's, which is nearly always that. It is the sum `2·(s + s³/3 + s⁵/5 + …)` with `s = (m−1)/(m+1)`, for
/// the number `m·2ᵉ`, in pairs of doubles, plus `e·ln 2`.
#[allow(clippy::cast_precision_loss, reason = "an exponent is small")]
pub fn rounded_ln(number: f64) -> f64 {
    // ln 2, and what its double lacks.
    const LN_2: Pair = Pair(std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17);
    // As many terms as tell two pairs apart, for the largest `s`.
    const ODD_RECIPROCALS: [Pair; 22] = {
        let (mut reciprocals, mut index, mut odd) = ([Pair(1.0, 0.0); 22], 0, 1.0);
        while index < reciprocals.len() {
            reciprocals[index] = Pair(1.0, 0.0).over(Pair(odd, 0.0));
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
    let s = Pair(m - 1.0, 0.0).over(Pair::sum(m, 1.0));
    let square = s.times(s);
    let mut sum = Pair(0.0, 0.0);
    for reciprocal in ODD_RECIPROCALS.into_iter().rev() {
        sum = sum.times(square).plus(reciprocal);
    }
    let of_m = s.times(sum).times(Pair(2.0, 0.0));
    let Pair(high, low) = LN_2.times(Pair(exponent, 0.0)).plus(of_m);
    high + low
}

/// The sum of two doubles, of which the second is what the first lacks.
#[derive(Clone, Copy)]
struct Pair(f64, f64);

impl Pair {
    /// A sum of two doubles, exactly (Knuth 1969).
    const fn sum(one: f64, other: f64) -> Self {
        let sum = one + other;
        let of_other = sum - one;
        Self(sum, (one - (sum - of_other)) + (other - of_other))
    }

    /// A product of two doubles, exactly (Dekker 1971). A fused operation would be one on some processors only.
    const fn product(one: f64, other: f64) -> Self {
        let (Self(a, b), Self(c, d)) = (Self::halves(one), Self::halves(other));
        let product = one * other;
        Self(product, ((a * c - product) + a * d + b * c) + b * d)
    }

    /// A double as the sum of two with half as many digits, exactly (Veltkamp 1968).
    const fn halves(number: f64) -> Self {
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

/// The logarithm of a number to base 2: the same on every processor.
pub fn log2(number: f64) -> f64 {
    libm::log2(number)
}

/// The probability that any of several independent events happens, of these probabilities.
pub fn either(events: impl Iterator<Item = f64>) -> f64 {
    events.fold(0.0, |any, event| any + event * (1.0 - any))
}

/// A whole number, rounded.
#[allow(clippy::cast_precision_loss, reason = "an estimate needs no more")]
pub const fn to_double(number: u64) -> f64 {
    number as f64
}

/// A number without its fraction, from 0 to the largest.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
pub const fn to_whole(number: f64) -> u64 {
    number as u64
}

/// Sums over filters, none of which passes [`MAX_CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sum of the filters' capacities.
    pub capacity: u64,
    /// Number of items in the filters.
    pub items: u64,
    /// Bytes of the filters.
    pub bytes: u64,
}

impl Sums {
    /// Adds a filter.
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
