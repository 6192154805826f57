//! Counts as entries of a shard.
//!
//! The tag of an entry is the count less one, up to 2. A count of three or more is 2 there, and what exceeds three follows in
//! entries of its own: their remainders are its digits, the lowest first.

use super::bits::mask;
use super::shard::{Builder, Refused, Shard, Widths};

/// The tag of a count of three or more.
pub const MANY: u64 = 2;
/// The tag of a digit.
pub const DIGIT: u64 = 3;

/// Returns the count of a tag without its digits.
pub const fn least(tag: u64) -> u64 {
    tag + 1
}

/// Returns the digits of a count.
pub fn digits_of(count: u64, widths: Widths) -> impl Iterator<Item = u64> {
    let mut left = count.saturating_sub(least(MANY));
    std::iter::from_fn(move || {
        let digit = left & mask(widths.remainder);
        let is_digit = left > 0;
        left >>= widths.remainder;
        is_digit.then_some(digit)
    })
}

/// Passes the bucket, the remainder and the count of each fingerprint of a shard, in order.
pub fn each(shard: &Shard, widths: Widths, mut each: impl FnMut(u32, u64, u64)) {
    let (mut last, mut shift) = (None, 0);
    shard.for_each(widths, |bucket, remainder, tag| {
        if let (DIGIT, Some((_, _, count))) = (tag, &mut last) {
            *count += remainder << shift;
            shift += widths.remainder;
        } else {
            shift = 0;
            let next = (bucket, remainder, least(tag));
            if let Some((bucket, remainder, count)) = last.replace(next) {
                each(bucket, remainder, count);
            }
        }
    });
    if let Some((bucket, remainder, count)) = last {
        each(bucket, remainder, count);
    }
}

/// Appends a fingerprint to a shard.
pub fn push(to: &mut Builder, bucket: u32, remainder: u64, count: u64) -> Result<(), Refused> {
    to.push(bucket, remainder, (count - 1).min(MANY))?;
    let mut digits = digits_of(count, to.widths());
    digits.try_for_each(|digit| to.push(bucket, digit, DIGIT))
}
