//! The ratio of the rates of successive filters, and whose law an object follows.
//!
//! valkey-bloom and this module store their objects in the same form, which has no field for the law. The ratio
//! encodes the law instead: a ratio of ours is cut to [`DIGITS`] decimal digits and stored as the next double above.
//! No decimal number with that many digits is that double, so nobody writes one of ours by accident. valkey-bloom
//! reads such a ratio, and grows the object as if the ratio were the decimal number.

use crate::number::Fraction;

/// Decimal digits of a ratio of ours: the most that every double preserves.
const DIGITS: usize = 15;

/// The ratio of the rates of successive filters, and whose law they follow.
#[derive(Clone, Copy, PartialEq)]
pub struct Tightening(
    // Negative for valkey-bloom's law, so that the law takes no extra space.
    f64,
);

impl Tightening {
    /// The ratio that selects this module's own law: 0.5.
    pub const HALF: Self = Self(0.5);

    /// Returns the ratio of an object that this module makes, cut to 15 digits.
    pub fn ours(ratio: Fraction) -> Self {
        if ratio == Fraction::HALF {
            return Self::HALF;
        }
        Self(cut(ratio.get()))
    }

    /// Returns the ratio of an object that valkey-bloom made.
    pub const fn of_valkey_bloom(ratio: Fraction) -> Self {
        Self(-ratio.get())
    }

    /// Returns the ratio of an object that grows by valkey-bloom's law. A ratio that marks an object as ours is cut to
    /// 15 digits.
    pub fn like_valkey_bloom(ratio: f64) -> Self {
        let stored = Self::from_stored(ratio).unwrap_or(Self::HALF);
        Self(-stored.ratio())
    }

    /// Decodes the ratio in files and in commands of a primary. Returns `None` if it is not strictly between 0 and 1.
    pub fn from_stored(stored: f64) -> Option<Self> {
        let ratio = Fraction::new(stored)?;
        let below = stored.next_down();
        Some(match Fraction::new(below) {
            Some(ours) if cut(below).to_bits() == below.to_bits() => Self::ours(ours),
            _ => Self::of_valkey_bloom(ratio),
        })
    }

    /// Returns the same ratio under a law of this module.
    #[must_use]
    pub fn as_ours(self) -> Self {
        if self.is_ours() {
            self
        } else {
            Self(cut(self.ratio()))
        }
    }

    /// Returns the number for files and replicated commands.
    pub const fn to_stored(self) -> f64 {
        if self.is_ours() {
            self.0.next_up()
        } else {
            -self.0
        }
    }

    /// Returns the ratio itself.
    pub const fn ratio(self) -> f64 {
        self.0.abs()
    }

    /// Returns whether the object grows by a law of this module.
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

/// Returns the double nearest to a number's first 15 digits. If that rounds up to 1, returns the largest such double
/// below 1.
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
