//! The parameters of a stack of filters.
//!
//! valkey-bloom and this module store their objects in the same form, which has no field for the law. The tightening
//! ratio encodes it instead: a ratio of ours is cut to [`DIGITS`] decimal digits, is at least [`LEAST`], and is stored
//! as the next double above. No decimal number with that many digits is that double, so nobody writes one of ours by
//! accident. valkey-bloom reads such a ratio, and grows the object as if the ratio were the decimal number.

use std::num::NonZeroU32;

use crate::number::Fraction;

/// Decimal digits of a ratio of ours: the most that every normal double preserves.
const DIGITS: usize = 15;

/// The least ratio of ours. Doubles below 2.2e-308 are subnormal: they have fewer digits, so every one of them is a
/// number of 15 digits, and none can be a mark.
const LEAST: f64 = 1e-307;

/// The growth of a stack when its newest filter is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// No growth: the object is non-scaling.
    Fixed,
    /// A filter of its capacity times this factor is stacked on it.
    By(NonZeroU32),
}

impl Growth {
    /// Returns the growth with an expansion factor; 0 stands for a non-scaling object.
    pub const fn from_expansion(expansion: u32) -> Self {
        match NonZeroU32::new(expansion) {
            None => Self::Fixed,
            Some(factor) => Self::By(factor),
        }
    }

    /// Returns the expansion factor, or 0 for a non-scaling object, as stored in files.
    pub const fn expansion(self) -> u32 {
        match self {
            Self::Fixed => 0,
            Self::By(factor) => factor.get(),
        }
    }
}

/// The program whose law a series of rates follows.
// It also discriminates the variants of a law, which makes every object eight bytes smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    Ours,
    ValkeyBloom,
}

/// The ratio of the rates of successive filters, and whose law they follow: this module's or valkey-bloom's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tightening {
    pub(super) ratio: Fraction,
    pub(super) author: Author,
}

impl Tightening {
    /// The ratio that selects this module's own law: 0.5.
    pub const HALF: Self = Self {
        ratio: Fraction::HALF,
        author: Author::Ours,
    };

    /// The ratio of the rates of successive tables of fingerprints.
    pub const QUARTER: Self = Self {
        ratio: Fraction::QUARTER,
        author: Author::Ours,
    };

    /// Returns the ratio of an object that this module makes: cut to 15 digits, and at least 1e-307.
    pub fn ours(ratio: Fraction) -> Self {
        // Every command that may create an object reads the setting, and cutting goes through text.
        if ratio == Fraction::HALF {
            return Self::HALF;
        }
        Self {
            ratio: cut(ratio),
            author: Author::Ours,
        }
    }

    /// Returns the ratio of an object that valkey-bloom made.
    pub const fn of_valkey_bloom(ratio: Fraction) -> Self {
        Self {
            ratio,
            author: Author::ValkeyBloom,
        }
    }

    /// Returns the ratio of an object that grows by valkey-bloom's law. A ratio that marks an object as ours is cut to
    /// 15 digits.
    pub fn like_valkey_bloom(ratio: Fraction) -> Self {
        Self::of_valkey_bloom(Self::from_stored(ratio).ratio)
    }

    /// Decodes the ratio in files and in commands of a primary.
    pub fn from_stored(stored: Fraction) -> Self {
        match Fraction::new(stored.get().next_down()) {
            Some(below) if cut(below) == below => Self::ours(below),
            _ => Self::of_valkey_bloom(stored),
        }
    }

    /// Returns the same ratio under a law of this module.
    #[must_use]
    pub fn as_ours(self) -> Self {
        match self.author {
            Author::Ours => self,
            Author::ValkeyBloom => Self::ours(self.ratio),
        }
    }

    /// Returns the number for files and replicated commands.
    pub const fn to_stored(self) -> f64 {
        match self.author {
            Author::Ours => self.ratio.get().next_up(),
            Author::ValkeyBloom => self.ratio.get(),
        }
    }

    /// Returns the ratio itself.
    pub const fn ratio(self) -> Fraction {
        self.ratio
    }

    /// Returns whether the object grows by a law of this module.
    pub const fn is_ours(self) -> bool {
        matches!(self.author, Author::Ours)
    }
}

/// Returns the double nearest to a ratio's first 15 digits, at least [`LEAST`]. If that rounds up to 1, returns the
/// largest such double below 1.
fn cut(ratio: Fraction) -> Fraction {
    let digits = format!("{:.*e}", DIGITS - 1, ratio.get());
    let cut: f64 = digits.parse().unwrap_or(ratio.get());
    Fraction::new(cut.clamp(LEAST, 1.0 - 1e-15)).unwrap_or(ratio)
}

/// The parameters of a stack of filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Capacity of the first filter, 1 to `i64::MAX`.
    pub capacity: u64,
    /// The error rate that the whole stack must not exceed.
    pub error_rate: Fraction,
    /// The ratio of the rates of successive filters, and whose law they follow.
    pub tightening: Tightening,
    /// The growth of the stack when its newest filter is full.
    pub growth: Growth,
}

impl Params {
    /// Checks parameters that were read from a file.
    ///
    /// # Errors
    /// The parameter that is out of range, in words for a log.
    pub fn from_stored(
        capacity: u64,
        error_rate: f64,
        tightening: f64,
        expansion: u64,
    ) -> Result<Self, &'static str> {
        let expansion = u32::try_from(expansion).map_err(|_| "expansion out of range")?;
        let error_rate = Fraction::new(error_rate).ok_or("error rate out of range")?;
        let tightening = Fraction::new(tightening).ok_or("tightening ratio out of range")?;
        Ok(Self {
            capacity,
            error_rate,
            tightening: Tightening::from_stored(tightening),
            growth: Growth::from_expansion(expansion),
        })
    }
}
