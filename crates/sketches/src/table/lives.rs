//! Fingerprints that stay until a period.

use super::bits::mask;
use super::codec::Widths;
use super::periods::{Period, Periods, lag};
use super::refused::Refused;
use super::shard::{Found, Shard};
use super::shards::{Address, Room, Shards};

/// Fingerprints, each with a period. An expired entry takes memory until its shard is swept.
#[derive(Debug)]
pub struct Lives {
    pub(super) shards: Shards,
    /// The number of fingerprints, without those whose periods were [dropped](Self::drop_before).
    pub(super) fingerprints: u64,
    pub(super) periods: Periods,
    /// Where the sweep goes on: the first fingerprint of the next shard to sweep.
    pub(super) sweep_from: u64,
}

/// What [`keep`](Lives::keep) did to a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It had this period or a later one.
    Unchanged,
    /// It had an earlier period.
    Extended,
    /// It was not there.
    New,
}

impl Lives {
    /// Returns the periods that have fingerprints, each with their number, in order.
    pub fn periods(&self) -> &[(Period, u64)] {
        &self.periods.counts
    }

    /// Returns the period before which all fingerprints were dropped.
    pub const fn dropped(&self) -> Period {
        Period(self.shards.dropped)
    }

    /// Drops the fingerprints of periods before one. [Sweeps](Self::sweep_next) remove their entries little by little.
    pub fn drop_before(&mut self, oldest: Period) {
        if oldest > self.dropped() {
            self.fingerprints -= self.periods.drop_before(oldest);
            self.shards.dropped = oldest.0;
        }
    }

    /// Returns whether a fingerprint has the period `oldest` or a later one that was not dropped.
    #[inline]
    pub fn contains(&self, fingerprint: u64, oldest: Period) -> bool {
        let (at, shard, found) = self.shards.find(fingerprint);
        found.is_there() && self.is_live(shard, found, at.widths, oldest)
    }

    /// Returns whether an entry has the period `oldest` or a later one that was not dropped.
    #[inline]
    pub(super) fn is_live(
        &self,
        shard: &Shard,
        found: Found,
        widths: Widths,
        oldest: Period,
    ) -> bool {
        shard.period(found, widths) >= oldest.max(self.dropped())
    }

    /// Gives a fingerprint a period, unless it has a later one. `current` is the current period: those before its window are
    /// [dropped](Self::drop_before). `period` is one of the window that was not dropped, or the next. No fingerprint may have a
    /// later period than that.
    ///
    /// # Errors
    /// [`Refused`]; then the periods before the window are dropped, and no other fingerprint has changed.
    pub fn keep(
        &mut self,
        fingerprint: u64,
        period: Period,
        current: Period,
        room: Room,
    ) -> Result<Kept, Refused> {
        self.drop_before(current.first_of_window(self.shards.codec().payload.periods()));
        debug_assert!(period >= self.dropped() && period.0 <= current.0 + 1);
        let kept = self.set_period(fingerprint, period, room);
        self.sweep_next(room);
        kept
    }

    /// Gives a fingerprint a period, unless it has a later one.
    fn set_period(
        &mut self,
        fingerprint: u64,
        period: Period,
        room: Room,
    ) -> Result<Kept, Refused> {
        let at = self.shards.locate(fingerprint);
        let oldest = self.shards.shard(at.address).oldest;
        if self.shards.dropped - oldest > lag(self.shards.codec().payload.periods()) {
            self.sweep(at.address)?;
        }
        let grown = self.periods_with_room(fingerprint, period, room)?;
        let others = grown.as_ref().unwrap_or(&self.periods).memory_bytes();
        let room: Room = &|| room().saturating_sub(others);
        let tag = period.0 & mask(at.widths.tag);
        let found = self.shards.insert(&at, tag, room)?;
        let before = found.map(|found| self.shards.shard(at.address).period(found, at.widths));
        // The entry of a dropped period may still be there. The fingerprint counts as new.
        let before = before.filter(|before| *before >= self.dropped());
        if before >= Some(period) {
            return Ok(Kept::Unchanged);
        }
        if let Some(found) = found {
            let entry = at.place.entry(tag, at.widths);
            let replace = |shard: &mut Shard| shard.replace(found, 0, at.widths, entry);
            self.shards.change(at.address, replace);
        } else {
            self.shards.settle(at.address, fingerprint, room);
        }
        if let Some(grown) = grown {
            self.periods = grown;
        }
        self.periods.enter(period);
        if let Some(before) = before {
            self.periods.leave(before);
            Ok(Kept::Extended)
        } else {
            self.fingerprints += 1;
            Ok(Kept::New)
        }
    }

    /// Returns a copy of the periods with room for more, if a fingerprint that gets this period needs it.
    fn periods_with_room(
        &self,
        fingerprint: u64,
        period: Period,
        room: Room,
    ) -> Result<Option<Periods>, Refused> {
        if self.periods.has_room(period) || self.contains(fingerprint, period) {
            return Ok(None);
        }
        let grown = self.periods.grown().ok_or(Refused::OutOfMemory)?;
        if self.shards.memory_bytes() + grown.memory_bytes() > room() {
            return Err(Refused::MemoryLimit);
        }
        Ok(Some(grown))
    }

    /// Removes the entries of dropped periods from one more shard, and splits or joins shards if it is time.
    pub fn sweep_next(&mut self, room: Room) {
        let others = self.periods.memory_bytes();
        let room: Room = &|| room().saturating_sub(others);
        if self.shards.entries() == self.fingerprints {
            return self.shards.resize(room);
        }
        let (first, at) = (self.sweep_from, self.shards.locate(self.sweep_from).address);
        self.sweep_from = self.shards.range_at(at).end & mask(self.shards.codec().bits);
        if self.shards.shard(at).oldest < self.shards.dropped {
            // Without memory, the entries stay for a while.
            let _ = self.sweep(at);
        }
        self.shards.settle(at, first, room);
    }

    /// Makes a shard anew, without the entries of dropped periods.
    fn sweep(&mut self, at: Address) -> Result<(), Refused> {
        let held = self.shards.held([at])?;
        let shard = self.shards.shard_of(self.shards.range_at(at), &held)?;
        self.shards.change(at, |old| *old = shard);
        Ok(())
    }
}
