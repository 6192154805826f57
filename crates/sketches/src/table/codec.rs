//! What a table keeps of each fingerprint, as bits of entries.
//!
//! An entry ends with a *tag*. In a set it has no bits. In a window it is the last bits of the period (`periods.rs`). The tag of
//! a count has two bits: 0 and 1 stand for one and two, and 2 for three or more. What exceeds three follows in entries of its
//! own, whose tag is 3: their remainders are its digits, the lowest first.

use std::ops::Range;

use super::bits::{self, mask};
use super::periods;

/// The bits of the number of a bucket in a shard.
pub const BUCKET_BITS: u32 = 10;

/// The tag of a count of three or more.
pub const MANY: u64 = 2;
/// The tag of a digit.
const DIGIT: u64 = 3;
/// The fewest bits of a remainder that is a digit, so that a count of 64 bits has at most eleven digits. With fewer, counts
/// would take much more memory where fingerprints are dense.
const DIGIT_BITS: u32 = 6;

/// What a table keeps of each fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    Nothing,
    /// A count, from 1 on.
    Count,
    /// The period until which it stays, of a window of this many periods.
    Period(u32),
}

impl Payload {
    /// Returns the number of periods of a window; 0 without periods.
    pub(super) const fn periods(self) -> u32 {
        match self {
            Self::Nothing | Self::Count => 0,
            Self::Period(periods) => periods,
        }
    }

    /// Returns the bits of an entry's tag.
    pub(super) const fn tag_bits(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Count => 2,
            Self::Period(periods) => periods::tag_bits(periods),
        }
    }

    /// Returns the fewest bits of a remainder.
    const fn least_remainder(self) -> u32 {
        match self {
            Self::Count => DIGIT_BITS,
            Self::Nothing | Self::Period(_) => 0,
        }
    }

    /// Returns the most bits of a fingerprint.
    #[must_use]
    pub const fn most_bits(self) -> u32 {
        let most = bits::MOST + BUCKET_BITS - self.tag_bits();
        if most > Codec::MOST_BITS {
            Codec::MOST_BITS
        } else {
            most
        }
    }

    /// Returns the most entries of a fingerprint with this value.
    pub fn entries(self, value: u64) -> u64 {
        let Self::Count = self else { return 1 };
        let above = value.saturating_sub(MANY + 1);
        1 + u64::from(u64::BITS - above.leading_zeros()).div_ceil(DIGIT_BITS.into())
    }
}

/// A fingerprint that a table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The fingerprint.
    pub fingerprint: u64,
    /// What is kept of it: its count, or the number of its period; else 0.
    pub value: u64,
}

/// The bits of a shard's entries, at most `bits::MOST`.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    /// The bits of a remainder.
    pub remainder: u32,
    /// The bits of a tag.
    pub tag: u32,
    /// Whether an entry may be a digit of the one before it.
    has_digits: bool,
}

impl Widths {
    /// Returns the bits of an entry.
    #[inline]
    pub const fn entry(self) -> u32 {
        self.remainder + self.tag
    }

    /// Returns whether an entry is a digit of the one before it.
    #[inline]
    pub const fn is_digit(self, entry: u64) -> bool {
        self.has_digits && entry & mask(self.tag) == DIGIT
    }
}

/// Returns the bits of the length of a range.
#[inline]
pub const fn bits_of(range: &Range<u64>) -> u32 {
    u64::BITS - (range.end - 1 - range.start).leading_zeros()
}

/// How the fingerprints of a table are written.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// The bits of a fingerprint.
    pub bits: u32,
    /// What is kept of it.
    pub payload: Payload,
    /// The bits of a tag.
    tag: u32,
}

impl Codec {
    /// The most bits of a fingerprint.
    pub const MOST_BITS: u32 = 60;

    /// Returns the codec of fingerprints of this many bits.
    pub const fn new(bits: u32, payload: Payload) -> Self {
        Self {
            bits,
            payload,
            tag: payload.tag_bits(),
        }
    }

    /// Returns the bits of the entries of a shard for the fingerprints of a range of this many bits.
    #[inline]
    pub const fn widths(self, range: u32) -> Widths {
        let least = self.payload.least_remainder();
        let remainder = range.saturating_sub(BUCKET_BITS);
        let remainder = if remainder > least { remainder } else { least };
        Widths {
            remainder,
            tag: self.tag,
            has_digits: matches!(self.payload, Payload::Count),
        }
    }

    /// Returns the bits of the entries of a shard for the fingerprints of a range.
    #[inline]
    pub const fn widths_of(self, range: &Range<u64>) -> Widths {
        self.widths(bits_of(range))
    }

    /// Returns whether digits may follow an entry with this tag: a count of exactly three has none.
    #[inline]
    pub fn may_have_digits(self, tag: u64) -> bool {
        self.payload == Payload::Count && tag == MANY
    }

    /// Returns the tag of the entry of a fingerprint with this value.
    #[inline]
    pub fn tag(self, value: u64, widths: Widths) -> u64 {
        match self.payload {
            Payload::Nothing => 0,
            Payload::Count => (value - 1).min(MANY),
            Payload::Period(_) => value & mask(widths.tag),
        }
    }

    /// Returns the entries that follow that of a fingerprint with this value.
    #[inline]
    pub fn digits(self, value: u64, widths: Widths) -> impl Iterator<Item = u64> {
        let mut left = match self.payload {
            Payload::Count => value.saturating_sub(MANY + 1),
            Payload::Nothing | Payload::Period(_) => 0,
        };
        std::iter::from_fn(move || {
            let digit = left & mask(widths.remainder);
            let is_digit = left > 0;
            left >>= widths.remainder;
            is_digit.then_some(digit << widths.tag | DIGIT)
        })
    }

    /// Returns the value of a fingerprint with this tag, which [has no digits](Self::may_have_digits).
    #[inline]
    pub const fn decoded(self, tag: u64, oldest: u64, widths: Widths) -> u64 {
        match self.payload {
            Payload::Nothing => 0,
            Payload::Count => tag + 1,
            Payload::Period(_) => periods::period_of(oldest, tag, widths.tag),
        }
    }
}
