//! Fingerprints that are counted.

use super::refused::Refused;
use super::shard::{Found, Shard};
use super::shards::{Location, Room, Shards};

/// Fingerprints with their counts.
#[derive(Debug)]
pub struct Counts {
    pub(super) shards: Shards,
    /// The number of different fingerprints.
    pub(super) fingerprints: u64,
}

impl Counts {
    /// Returns whether a fingerprint has a count.
    #[inline]
    pub fn contains(&self, fingerprint: u64) -> bool {
        let (_, _, found) = self.shards.find(fingerprint);
        found.is_there()
    }

    /// Returns the count of a fingerprint, 0 if it was not counted.
    pub fn count_of(&self, fingerprint: u64) -> u64 {
        let (at, _, found) = self.shards.find(fingerprint);
        if found.is_there() {
            self.count_at(&at, found)
        } else {
            0
        }
    }

    /// Returns the count of a fingerprint that was found.
    fn count_at(&self, at: &Location, found: Found) -> u64 {
        let shard = self.shards.shard(at.address);
        shard.value(found, self.shards.codec(), at.widths)
    }

    /// Adds one to the count of a fingerprint. Returns the count before.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn count_up(&mut self, fingerprint: u64, room: Room) -> Result<u64, Refused> {
        let at = self.shards.locate(fingerprint);
        let count = if let Some(found) = self.shards.insert(&at, 0, room)? {
            let count = self.count_at(&at, found);
            self.replace(&at, found, count, count.saturating_add(1), room)?;
            count
        } else {
            self.fingerprints += 1;
            0
        };
        self.shards.settle(at.address, fingerprint, room);
        Ok(count)
    }

    /// Takes one off the count of a fingerprint. One without a count left is removed. Returns the count before.
    pub fn count_down(&mut self, fingerprint: u64) -> u64 {
        let (at, _, found) = self.shards.find(fingerprint);
        if !found.is_there() {
            return 0;
        }
        let count = self.count_at(&at, found);
        if count == 1 {
            let remove = |shard: &mut Shard| shard.remove(&at.place, found, 0, at.widths);
            self.shards.change(at.address, remove);
            self.fingerprints -= 1;
        } else {
            let fewer = self.replace(&at, found, count, count - 1, &|| u64::MAX);
            debug_assert!(fewer.is_ok(), "a smaller count takes no more entries");
        }
        self.shards.settle(at.address, fingerprint, &|| u64::MAX);
        count
    }

    /// Replaces an old count by a new one. A count that takes no more digits than the old one is never refused.
    ///
    /// ```text
    ///   before  entry: remainder, tag | digit |
    ///   needed  entry: remainder, tag | digit | digit |     one more is inserted, then all three are written
    /// ```
    fn replace(
        &mut self,
        at: &Location,
        found: Found,
        old: u64,
        new: u64,
        room: Room,
    ) -> Result<(), Refused> {
        let (codec, place, widths) = (self.shards.codec(), &at.place, at.widths);
        let digits = |count| codec.digits(count, widths);
        let (before, needed) = (digits(old).count(), digits(new).count());
        // A count that is one larger takes at most one digit more.
        if before < needed && !self.shards.shard(at.address).has_room(widths) {
            self.shards.grow(at, room)?;
        }
        self.shards.change(at.address, |shard| {
            for after in before + 1..=needed {
                shard.insert_after(place, found, after, widths);
            }
            for after in (needed + 1..=before).rev() {
                shard.remove(place, found, after, widths);
            }
            let entry = place.entry(codec.tag(new, widths), widths);
            shard.replace(found, 0, widths, entry);
            for (after, digit) in (1..).zip(digits(new)) {
                shard.replace(found, after, widths, digit);
            }
        });
        Ok(())
    }
}
