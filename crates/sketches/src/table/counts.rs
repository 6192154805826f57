//! Counts of fingerprints.

use super::digits::{DIGIT, MANY, digits_of, least};
use super::fingerprints::{Location, Table};
use super::shard::{Found, Refused, Shard};

impl Table {
    /// Returns the count of a fingerprint, 0 if it is not in the table.
    pub fn count_of(&self, fingerprint: u64) -> u64 {
        let (at, shard, found) = self.find(fingerprint);
        if found.is_there() {
            count_at(shard, &at, found)
        } else {
            0
        }
    }

    /// Adds one to the count of a fingerprint. Returns the count before. The table takes at most as many bytes as `most_bytes`
    /// returns, which it calls only before it takes more.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn count_up(
        &mut self,
        fingerprint: u64,
        most_bytes: impl Fn() -> u64,
    ) -> Result<u64, Refused> {
        let (at, shard, found) = self.find(fingerprint);
        if !found.is_there() {
            self.insert(&at, found, 0, &most_bytes)?;
            self.resize(&most_bytes);
            return Ok(0);
        }
        let count = count_at(shard, &at, found);
        let counts = [count, count.saturating_add(1)];
        let [old, new] = counts.map(|count| digits_of(count, at.widths).count());
        self.grow(&at, &most_bytes, |shard, admits| {
            recount(shard, &at, found, counts, admits)
        })?;
        if old < new {
            self.resize(&most_bytes);
        }
        Ok(count)
    }

    /// Raises the count of a fingerprint to this one, if it is smaller. Returns whether it was.
    ///
    /// # Errors
    /// [`Refused`]; then the table must not be used any more.
    pub fn raise(&mut self, fingerprint: u64, to: u64) -> Result<bool, Refused> {
        let count = self.count_of(fingerprint);
        if count >= to {
            return Ok(false);
        }
        if count == 0 {
            self.count_up(fingerprint, || u64::MAX)?;
        }
        let (at, _, found) = self.find(fingerprint);
        self.change(&at, |shard| {
            recount(shard, &at, found, [count.max(1), to], &|_| true)
        })?;
        self.resize(&|| u64::MAX);
        Ok(true)
    }

    /// Takes one off the count of a fingerprint, which goes with the last. Returns the count before.
    pub fn count_down(&mut self, fingerprint: u64) -> u64 {
        let (at, shard, found) = self.find(fingerprint);
        if !found.is_there() {
            return 0;
        }
        let count = count_at(shard, &at, found);
        let done = self.change(&at, |shard| {
            if count == 1 {
                shard.remove(&at.place, found, 0, at.widths);
                return Ok(());
            }
            recount(shard, &at, found, [count, count - 1], &|_| true)
        });
        debug_assert!(done.is_ok(), "a smaller count takes no more entries");
        self.fingerprints -= u64::from(count == 1);
        self.resize(&|| u64::MAX);
        count
    }
}

fn count_at(shard: &Shard, at: &Location, found: Found) -> u64 {
    let mut entries = shard.tags(&at.place, found, at.widths);
    let (_, tag) = entries.next().unwrap_or_default();
    let digits = entries.take_while(|(_, tag)| *tag == DIGIT);
    let shifted = digits
        .zip(0..)
        .map(|((digit, _), place)| digit << (place * at.widths.remainder));
    least(tag) + shifted.sum::<u64>()
}

/// Replaces a count by another. One that takes no more digits is never refused.
fn recount(
    shard: &mut Shard,
    at: &Location,
    found: Found,
    [old, new]: [u64; 2],
    admits: &dyn Fn(usize) -> bool,
) -> Result<(), Refused> {
    let (place, widths) = (&at.place, at.widths);
    let [mut digits, needed] = [old, new].map(|count| digits_of(count, widths).count());
    while digits < needed {
        digits += 1;
        shard.insert_behind(place, found, digits, widths, admits)?;
    }
    while digits > needed {
        shard.remove(place, found, digits, widths);
        digits -= 1;
    }
    let tag = (new - 1).min(MANY);
    shard.replace(place, found, 0, widths, place.remainder(), tag);
    for (behind, digit) in (1..).zip(digits_of(new, widths)) {
        shard.replace(place, found, behind, widths, digit, DIGIT);
    }
    Ok(())
}
