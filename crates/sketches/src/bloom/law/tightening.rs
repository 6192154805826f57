//! The ratio of the rates of successive filters, and whose law an object follows.
//!
//! valkey-bloom and this module keep their objects in the same form, which has no field for the law. The ratio
//! tells: a ratio of ours is cut to [`DIGITS`] decimal digits and stored as the next double above. No decimal
//! number of so many digits is that double, so nobody who writes one means ours. valkey-bloom reads it, and
//! grows such an object as if the ratio was the decimal number.

use crate::number::Fraction;

/// Decimal digits of a ratio of ours: as many as every double tells apart.
const DIGITS: usize = 15;

/// The ratio of the rates of successive filters, and by whose law they grow.
#[derive(Clone, Copy, PartialEq)]
pub struct Tightening(
    // Negative for valkey-bloom's law. So it takes no more than the number.
    f64,
);

impl Tightening {
    /// 0.5: the ratio that selects this module's own law.
    pub const HALF: Self = Self(0.5);

    /// The ratio of an object that this module makes, cut to 15 digits.
    pub fn ours(ratio: Fraction) -> Self {
        if ratio == Fraction::HALF {
            return Self::HALF;
        }
        Self(cut(ratio.get()))
    }

    /// The ratio of an object that valkey-bloom made.
    pub const fn of_valkey_bloom(ratio: Fraction) -> Self {
        Self(-ratio.get())
    }

    /// The ratio of an object that grows by valkey-bloom's law. A ratio that marks an object as ours is cut to 15 digits.
    pub fn like_valkey_bloom(ratio: f64) -> Self {
        let told = Self::from_stored(ratio).unwrap_or(Self::HALF);
        Self(-told.ratio())
    }

    /// The ratio, as files and commands from a primary hold it; `None` if it does not lie strictly between
    /// 0 and 1.
    pub fn from_stored(stored: f64) -> Option<Self> {
        let ratio = Fraction::new(stored)?;
        let below = stored.next_down();
        Some(match Fraction::new(below) {
            Some(ours) if cut(below).to_bits() == below.to_bits() => Self::ours(ours),
            _ => Self::of_valkey_bloom(ratio),
        })
    }

    /// The same ratio, by a law of this module.
    #[must_use]
    pub fn as_ours(self) -> Self {
        if self.is_ours() {
            self
        } else {
            Self(cut(self.ratio()))
        }
    }

    /// The number that files and replicated commands hold.
    pub const fn to_stored(self) -> f64 {
        if self.is_ours() {
            self.0.next_up()
        } else {
            -self.0
        }
    }

    /// The ratio itself.
    pub const fn ratio(self) -> f64 {
        self.0.abs()
    }

    /// Whether the object grows by a law of this module.
    pub const fn is_ours(self) -> bool {
        self.0 > 0.0
    }
}

impl std::fmt::Debug for Tightening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = if self.is_ours() {
            "ours"
        } else {
            "valkey-bloom's"
        };
        write!(f, "{} ({whose})", self.ratio())
    }
}

/// The nearest double to a number's first 15 digits; of a number next to 1, one below it.
fn cut(number: f64) -> f64 {
    let cut = format!("{number:.*e}", DIGITS - 1)
        .parse()
        .unwrap_or(number);
    if cut < 1.0 { cut } else { 1.0 - 1e-15 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_tells_whose_it_is() {
        for text in [
            "0.5",
            "0.3",
            "0.999999999999999",
            "0.1",
            "1e-100",
            "0.123456789012345",
        ] {
            let ratio = Fraction::new(text.parse().unwrap()).unwrap();
            let ours = Tightening::ours(ratio);
            assert_eq!(
                (ours.ratio(), ours.is_ours()),
                (ratio.get(), true),
                "{text}"
            );
            assert_eq!(
                Tightening::from_stored(ours.to_stored()),
                Some(ours),
                "{text}"
            );
            let theirs = Tightening::from_stored(ratio.get()).unwrap();
            assert_eq!(
                (theirs.ratio(), theirs.is_ours()),
                (ratio.get(), false),
                "{text}"
            );
            assert_eq!(
                theirs.to_stored().to_bits(),
                ratio.get().to_bits(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_ratio_of_any_double_is_kept_or_cut() {
        for ratio in [
            1.0 / 3.0,
            1.0 - f64::EPSILON / 2.0,
            5e-324,
            0.1 + 0.2,
            f64::MIN_POSITIVE,
        ] {
            let ours = Tightening::ours(Fraction::new(ratio).unwrap());
            assert!((ours.ratio() - ratio).abs() <= 1e-15, "{ratio}");
            assert_eq!(
                Tightening::from_stored(ours.to_stored()),
                Some(ours),
                "{ratio}"
            );
        }
        assert_eq!(
            Tightening::HALF.to_stored().to_bits(),
            0.5_f64.to_bits() + 1
        );
        for number in [0.0, -0.5, 1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Tightening::from_stored(number), None, "{number}");
        }
    }
}
