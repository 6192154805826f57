//! Counts of fingerprints.
//!
//! The tag of an entry is the count less one, up to 2. A count of three or more is 2 there, and what exceeds three follows in
//! entries of its own: their remainders are its digits, the lowest first.

use super::bits::mask;
use super::fingerprints::{Payload, Table, find};
use super::shard::{Builder, Found, Place, Refused, Shard, Widths};

/// A count for each fingerprint, from 1 on.
#[derive(Debug)]
pub struct Counts;

/// The tag of a count of three or more.
const MANY: u64 = 2;
/// The tag of a digit.
const DIGIT: u64 = 3;

/// Returns the count of a tag without its digits.
const fn least(tag: u64) -> u64 {
    tag + 1
}

/// Returns the digits of a count.
fn digits_of(count: u64, widths: Widths) -> impl Iterator<Item = u64> {
    let mut left = count.saturating_sub(least(MANY));
    std::iter::from_fn(move || {
        let digit = left & mask(widths.remainder);
        let is_digit = left > 0;
        left >>= widths.remainder;
        is_digit.then_some(digit)
    })
}

impl Payload for Counts {
    const TAG: u32 = 2;
    const HAS_DIGITS: bool = true;
    const REMAINDER: u32 = 1;

    fn each(shard: &Shard, widths: Widths, mut each: impl FnMut(u32, u64, u64)) {
        let (mut last, mut shift) = (None, 0);
        shard.for_each(widths, |bucket, remainder, tag| {
            if let (DIGIT, Some((_, _, count))) = (tag, &mut last) {
                *count += remainder << shift;
                shift += widths.remainder;
            } else {
                shift = 0;
                if let Some((bucket, remainder, count)) =
                    last.replace((bucket, remainder, least(tag)))
                {
                    each(bucket, remainder, count);
                }
            }
        });
        if let Some((bucket, remainder, count)) = last {
            each(bucket, remainder, count);
        }
    }

    fn push(to: &mut Builder, bucket: u32, remainder: u64, count: u64) -> Result<(), Refused> {
        to.push(bucket, remainder, (count - 1).min(MANY))?;
        let mut digits = digits_of(count, to.widths());
        digits.try_for_each(|digit| to.push(bucket, digit, DIGIT))
    }
}

impl Table<Counts> {
    /// Returns the count of a fingerprint, 0 if it is not in the table.
    pub fn count(&self, fingerprint: u64) -> u64 {
        let (shard, place, widths) = self.locate(fingerprint);
        let found = find::<Counts>(shard, &place, widths);
        if found.is_there() {
            count_at(shard, &place, found, widths)
        } else {
            0
        }
    }

    /// Adds one to the count of a fingerprint. Returns the count before.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn add(&mut self, fingerprint: u64) -> Result<u64, Refused> {
        let (shard, place, widths) = self.locate_mut(fingerprint);
        let found = find::<Counts>(shard, &place, widths);
        if !found.is_there() {
            shard.insert(&place, found, widths, 0)?;
            self.note(1, 1);
            return Ok(0);
        }
        let count = count_at(shard, &place, found, widths);
        let entries = recount(
            shard,
            &place,
            found,
            widths,
            [count, count.saturating_add(1)],
        )?;
        self.note(entries, 0);
        Ok(count)
    }

    /// Takes one off the count of a fingerprint, which goes with the last. Returns the count before.
    pub fn remove(&mut self, fingerprint: u64) -> u64 {
        let (shard, place, widths) = self.locate_mut(fingerprint);
        let found = find::<Counts>(shard, &place, widths);
        if !found.is_there() {
            return 0;
        }
        let count = count_at(shard, &place, found, widths);
        if count == 1 {
            shard.remove(&place, found, 0, widths);
            self.note(-1, -1);
        } else if let Ok(entries) = recount(shard, &place, found, widths, [count, count - 1]) {
            self.note(entries, 0);
        }
        count
    }
}

fn count_at(shard: &Shard, place: &Place, found: Found, widths: Widths) -> u64 {
    let mut entries = shard.tags(place, found, widths);
    let (_, tag) = entries.next().unwrap_or_default();
    let digits = entries.take_while(|(_, tag)| *tag == DIGIT);
    let shifted = digits
        .zip(0..)
        .map(|((digit, _), place)| digit << (place * widths.remainder));
    least(tag) + shifted.sum::<u64>()
}

/// Replaces a count by one that is at most one larger. Returns how many more entries there are. A smaller count is never
/// refused.
fn recount(
    shard: &mut Shard,
    place: &Place,
    found: Found,
    widths: Widths,
    [old, new]: [u64; 2],
) -> Result<i64, Refused> {
    let [mut digits, needed] = [old, new].map(|count| digits_of(count, widths).count());
    let mut more = 0;
    if digits < needed {
        shard.insert_behind(place, found, needed, widths)?;
        (digits, more) = (needed, 1);
    }
    while digits > needed {
        shard.remove(place, found, digits, widths);
        (digits, more) = (digits - 1, more - 1);
    }
    shard.replace(
        place,
        found,
        0,
        widths,
        place.remainder(),
        (new - 1).min(MANY),
    );
    for (behind, digit) in (1..).zip(digits_of(new, widths)) {
        shard.replace(place, found, behind, widths, digit, DIGIT);
    }
    Ok(more)
}
