//! Receipts: the answers that additions got, so that the same answers can be given again.
//!
//! A receipt is a string: a head that a person can read, then a bit for each answer, in the order of the server's
//! `GETBIT`. The head is `receipt1 `, the first position in 19 digits, a space, the number of answers in 6 digits, and a
//! line feed. Bits after the last answer are 0, so equal receipts have equal bytes.

use std::collections::TryReserveError;
use std::fmt;

/// How a head begins. The number is that of the format.
const VERSION: &[u8] = b"receipt1 ";
const FIRST_DIGITS: usize = 19;
const COUNT_DIGITS: usize = 6;
const COUNT_AT: usize = VERSION.len() + FIRST_DIGITS + 1;

/// The answers that are forgotten at once, so that the others are seldom moved. They fill whole bytes.
const STEP: usize = 512;

/// The bytes of a receipt, which can be resized. New bytes are 0.
pub trait Resize {
    /// Returns the bytes.
    fn bytes(&mut self) -> &mut [u8];

    /// Changes the number of bytes.
    fn resize(&mut self, len: usize);
}

impl Resize for Vec<u8> {
    fn bytes(&mut self) -> &mut [u8] {
        self
    }

    fn resize(&mut self, len: usize) {
        self.resize(len, 0);
    }
}

/// The answers of consecutive positions, as the bytes of a receipt hold them.
///
/// ```
/// use valkeybloom_sketches::{Answers, Receipt};
///
/// let mut answers = Answers::with_room(1200, 3).unwrap();
/// [true, true, false].map(|answer| answers.push(answer));
/// let mut key = Vec::new();
/// answers.receipt().append_to(&mut key);
/// assert_eq!(key, b"receipt1 0000000000000001200 000003\n\xc0");
///
/// let receipt = Receipt::read(&key).unwrap();
/// assert_eq!((receipt.first(), receipt.end()), (1200, 1203));
/// assert_eq!(receipt.answer(1201), Some(true));
/// assert_eq!(receipt.answer(1203), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt<'b> {
    first: u64,
    count: usize,
    bits: &'b [u8],
}

/// The refusal to answer for a position: the receipt knows the answers `from` this position up to the one before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The first position with an answer.
    pub from: u64,
    /// The first position after it without an answer.
    pub to: u64,
}

impl Forgotten {
    const BEGIN: &str = "FORGOTTEN answers are known from ";

    /// Reads the text, as a server sends it. Returns `None` if it is another one.
    pub fn read(text: &str) -> Option<Self> {
        let (from, to) = text.strip_prefix(Self::BEGIN)?.split_once(" to ")?;
        Some(Self {
            from: from.parse().ok()?,
            to: to.trim_end().parse().ok()?,
        })
    }
}

impl fmt::Display for Forgotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{}{from} to {to}", Self::BEGIN)
    }
}

impl std::error::Error for Forgotten {}

impl<'b> Receipt<'b> {
    /// The latest answers that every receipt keeps, and the most that can be appended at once.
    pub const MOST_ANSWERS: usize = 100_000;

    /// The bytes of the head.
    pub const HEAD_BYTES: usize = COUNT_AT + COUNT_DIGITS + 1;

    /// Reads where a receipt ends: the first position without an answer. `head` is its head without the line feed. Returns `None`
    /// if it is not one of a receipt.
    pub fn end_in(head: &[u8]) -> Option<u64> {
        let (first, count) = span(head)?;
        Some(first + count)
    }

    /// Reads the bytes of a receipt. Returns `None` if they are not those of a receipt.
    pub fn read(bytes: &'b [u8]) -> Option<Self> {
        let (head, bits) = bytes.split_at_checked(Self::HEAD_BYTES)?;
        let (first, count) = span(head.strip_suffix(b"\n")?)?;
        let count = usize::try_from(count).ok()?;
        let has_its_bits = bits.len() == count.div_ceil(8) && count < Self::MOST_ANSWERS + STEP;
        let is_filled = count % 8 == 0 || bits.last()? << (count % 8) == 0;
        (has_its_bits && is_filled).then_some(Self { first, count, bits })
    }

    /// Returns the first position with an answer.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the first position without an answer, after those that have one.
    pub fn end(&self) -> u64 {
        self.first + self.count as u64
    }

    /// Returns the answer of a position, if it has one.
    pub fn answer(&self, position: u64) -> Option<bool> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        (index < self.count).then(|| self.bits[index / 8] << (index % 8) & 0x80 != 0)
    }

    /// Returns the first position from `position` on whose answer is yet to be found. `held` is the receipt, if there is
    /// one; else position 0 begins one. With `begins`, any position does, even if a receipt is held that ends before it.
    ///
    /// # Errors
    /// [`Forgotten`]: the position is before the answers that are kept, or after them.
    pub fn resume(held: Option<&Self>, position: u64, begins: bool) -> Result<u64, Forgotten> {
        let (from, to) = held.map_or((0, 0), |held| (held.first, held.end()));
        match held {
            Some(_) if (from..=to).contains(&position) => Ok(to),
            None if position == 0 => Ok(0),
            _ if begins && position >= from => Ok(position),
            _ => Err(Forgotten { from, to }),
        }
    }
}

/// Answers that are new to a receipt. Their bytes are those of a receipt that has no other ones.
#[derive(Debug)]
pub struct Answers {
    first: u64,
    count: usize,
    bytes: Vec<u8>,
}

impl Answers {
    /// Makes an empty list of the answers from a position on, with room for `count` of them.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn with_room(first: u64, count: usize) -> Result<Self, TryReserveError> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(Receipt::HEAD_BYTES + count.div_ceil(8))?;
        bytes.resize(Receipt::HEAD_BYTES, 0);
        Ok(Self {
            first,
            count: 0,
            bytes,
        })
    }

    /// Appends an answer.
    pub fn push(&mut self, answer: bool) {
        let shift = self.count % 8;
        if shift == 0 {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(answer) << (7 - shift);
        }
        self.count += 1;
    }

    /// Returns whether there are no answers.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of a receipt with these answers alone.
    pub fn bytes(&mut self) -> &[u8] {
        write_head(&mut self.bytes, self.first, self.count);
        &self.bytes
    }

    /// Returns the answers as those of a receipt.
    pub fn receipt(&self) -> Receipt<'_> {
        Receipt {
            first: self.first,
            count: self.count,
            bits: &self.bytes[Receipt::HEAD_BYTES..],
        }
    }
}

impl Receipt<'_> {
    /// Appends these answers to the receipt in `to` if they follow its last one; else they become the receipt. The oldest
    /// answers are forgotten, 512 at a time, while [`MOST_ANSWERS`](Self::MOST_ANSWERS) are left.
    pub fn append_to(&self, to: &mut impl Resize) {
        let old = Receipt::read(to.bytes()).filter(|old| old.end() == self.first);
        let Some((mut first, before)) = old.map(|old| (old.first, old.count)) else {
            to.resize(Self::HEAD_BYTES + self.bits.len());
            let bytes = to.bytes();
            bytes[Self::HEAD_BYTES..].copy_from_slice(self.bits);
            return write_head(bytes, self.first, self.count);
        };
        let mut count = before + self.count;
        to.resize(Self::HEAD_BYTES + count.div_ceil(8));
        let bytes = to.bytes();
        let (head, bits) = bytes.split_at_mut(Self::HEAD_BYTES);
        let shift = before % 8;
        for (place, byte) in (before / 8..).zip(self.bits) {
            bits[place] |= byte >> shift;
            // The last byte may have all its answers in this one.
            if let Some(next) = bits.get_mut(place + 1) {
                [*next, _] = (u16::from(*byte) << (8 - shift)).to_le_bytes();
            }
        }
        let forgotten = count.saturating_sub(Self::MOST_ANSWERS) / STEP * STEP;
        if forgotten == 0 {
            // The rest of the head stays.
            return write_number(&mut head[COUNT_AT..][..COUNT_DIGITS], count as u64);
        }
        bits.copy_within(forgotten / 8.., 0);
        first += forgotten as u64;
        count -= forgotten;
        write_head(head, first, count);
        to.resize(Self::HEAD_BYTES + count.div_ceil(8));
    }
}

/// Reads the first position and the number of answers from a head without its line feed.
fn span(head: &[u8]) -> Option<(u64, u64)> {
    let digits = head.strip_prefix(VERSION)?;
    let (first, count) = digits.split_at_checked(FIRST_DIGITS)?;
    let count = count
        .strip_prefix(b" ")
        .filter(|count| count.len() == COUNT_DIGITS)?;
    Some((number(first)?, number(count)?))
}

/// Reads digits. There are too few for a number that does not fit.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| 10 * number + u64::from(digit))
    })
}

/// Writes the head of a receipt.
fn write_head(bytes: &mut [u8], first: u64, count: usize) {
    let (version, rest) = bytes.split_at_mut(VERSION.len());
    version.copy_from_slice(VERSION);
    write_number(&mut rest[..FIRST_DIGITS], first);
    rest[FIRST_DIGITS] = b' ';
    write_number(&mut rest[FIRST_DIGITS + 1..][..COUNT_DIGITS], count as u64);
    rest[FIRST_DIGITS + 1 + COUNT_DIGITS] = b'\n';
}

/// Writes a number in as many digits as there is room for.
fn write_number(digits: &mut [u8], mut number: u64) {
    digits.fill(b'0');
    for digit in digits.iter_mut().rev() {
        if number == 0 {
            break;
        }
        *digit += (number % 10) as u8;
        number /= 10;
    }
}
