//! Logarithms as other programs compute them.

use std::f64::consts::{LN_2, SQRT_2};

/// A double has this many bits below its exponent.
const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;

/// The exponent of 1 as a double stores it.
const BIAS: u64 = 1023;

/// Subnormal numbers are multiplied by this to become normal ones.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// Returns the natural logarithm of a positive finite number. The error before the only rounding is about 2⁻¹⁰⁰ of it, so
/// the result is nearly always correctly rounded. So is that of most C libraries, with which other programs size filters.
///
/// For the number `m·2ᵉ` and `s = (m−1)/(m+1)`, this computes `2·(s + s³/3 + s⁵/5 + …) + e·ln 2` in double-doubles.
#[allow(clippy::cast_precision_loss, reason = "an exponent is small")]
pub fn rounded_ln(number: f64) -> f64 {
    // ln 2 as a double, and the rest.
    const EXACT_LN_2: DoubleDouble = DoubleDouble(LN_2, 2.319_046_813_846_299_6e-17);
    // For the largest `s`, further terms don't change a double-double.
    const ODD_RECIPROCALS: [DoubleDouble; 22] = {
        let (mut reciprocals, mut index, mut odd) = ([DoubleDouble(1.0, 0.0); 22], 0, 1.0);
        while index < reciprocals.len() {
            reciprocals[index] = DoubleDouble(1.0, 0.0).over(DoubleDouble(odd, 0.0));
            (index, odd) = (index + 1, odd + 2.0);
        }
        reciprocals
    };
    debug_assert!(number > 0.0 && number.is_finite());
    let (number, scale) = if number < f64::MIN_POSITIVE {
        (number * TWO_TO_64, 64.0)
    } else {
        (number, 0.0)
    };
    let bits = number.to_bits();
    let mut exponent = (bits >> MANTISSA_BITS) as f64 - BIAS as f64 - scale;
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    let mut m = f64::from_bits(mantissa | BIAS << MANTISSA_BITS);
    if m > SQRT_2 {
        (m, exponent) = (m / 2.0, exponent + 1.0);
    }
    let s = DoubleDouble(m - 1.0, 0.0).over(DoubleDouble::sum(m, 1.0));
    let square = s.times(s);
    let mut sum = DoubleDouble(0.0, 0.0);
    for reciprocal in ODD_RECIPROCALS.into_iter().rev() {
        sum = sum.times(square).plus(reciprocal);
    }
    let of_m = s.times(sum).times(DoubleDouble(2.0, 0.0));
    let of_power = EXACT_LN_2.times(DoubleDouble(exponent, 0.0));
    let DoubleDouble(high, low) = of_power.plus(of_m);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The values were computed with 300 bits and rounded once.
    #[test]
    fn logarithms_are_rounded_correctly() {
        for (number, ln) in [
            (f64::from_bits(1), -744.440_071_921_381_2),
            (1e-310, -713.801_378_828_154_2),
            (f64::MIN_POSITIVE, -708.396_418_532_264_1),
            (1e-9, -20.723_265_836_946_41),
            (0.001, -6.907_755_278_982_137),
            (0.01, -4.605_170_185_988_091),
            (0.1, -2.302_585_092_994_045_5),
            (0.25, -1.386_294_361_119_890_6),
            (0.5, -LN_2),
            (SQRT_2 / 2.0, -0.346_573_590_279_972_6),
            (0.75, -0.287_682_072_451_780_9),
            (0.99, -0.010_050_335_853_501_45),
            (1.0 - f64::EPSILON / 2.0, -1.110_223_024_625_156_5e-16),
            (1.0, 0.0),
        ] {
            assert_eq!(rounded_ln(number).to_bits(), f64::to_bits(ln), "{number}");
        }
    }
}
