//! What a table keeps of each fingerprint, as bits of entries.
//!
//! Nothing takes no bits. A period takes its last bits (`periods.rs`). A count takes two, the *tag*: it is the count less one,
//! up to 2. A count of three or more is 2 there, and what exceeds three follows in entries of its own, whose tag is 3: their
//! remainders are its digits, the lowest first.

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

    /// Returns the most entries of a fingerprint, if this count or period is kept of it.
    pub fn entries(self, held: u64) -> u64 {
        let Self::Count = self else { return 1 };
        let above = held.saturating_sub(MANY + 1);
        1 + u64::from(u64::BITS - above.leading_zeros()).div_ceil(DIGIT_BITS.into())
    }
}

/// The bits of a shard's entries, at most `bits::MOST`.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    remainder: u32,
    tag: u32,
    /// Whether entries whose tag is all ones belong to the one before them.
    has_digits: bool,
}

impl Widths {
    /// Returns the bits of a remainder.
    #[inline]
    pub const fn remainder(self) -> u32 {
        self.remainder
    }

    /// Returns the bits of a tag.
    #[inline]
    pub const fn tag(self) -> u32 {
        self.tag
    }

    #[inline]
    pub const fn entry(self) -> u32 {
        self.remainder() + self.tag()
    }

    /// Returns whether an entry belongs to the one before it.
    #[inline]
    pub const fn is_digit(self, entry: u64) -> bool {
        self.has_digits && entry & mask(self.tag()) == DIGIT
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

    /// Returns the tag of an entry.
    #[inline]
    pub fn tag(self, held: u64, widths: Widths) -> u64 {
        match self.payload {
            Payload::Nothing => 0,
            Payload::Count => (held - 1).min(MANY),
            Payload::Period(_) => held & mask(widths.tag()),
        }
    }

    /// Returns the entries that follow.
    #[inline]
    pub fn digits(self, held: u64, widths: Widths) -> impl Iterator<Item = u64> {
        let mut left = match self.payload {
            Payload::Count => held.saturating_sub(MANY + 1),
            Payload::Nothing | Payload::Period(_) => 0,
        };
        std::iter::from_fn(move || {
            let digit = left & mask(widths.remainder());
            let is_digit = left > 0;
            left >>= widths.remainder();
            is_digit.then_some(digit << widths.tag() | DIGIT)
        })
    }

    /// Returns what is kept of a fingerprint with this tag, which [has no digits](Self::may_have_digits).
    #[inline]
    pub const fn decoded(self, tag: u64, oldest: u64, widths: Widths) -> u64 {
        match self.payload {
            Payload::Nothing => 0,
            Payload::Count => tag + 1,
            Payload::Period(_) => periods::period_of(oldest, tag, widths.tag()),
        }
    }
}
