//! Fingerprints that stay until a period.

use super::bits::mask;
use super::codec::Widths;
use super::periods::{Period, Periods, lag, period_of};
use super::refused::Refused;
use super::shard::{Found, Shard};
use super::shards::{Address, Room, Shards};

/// Fingerprints with their periods, of a window of so many. An entry that has expired takes memory until its shard is swept.
#[derive(Debug)]
pub struct Lives {
    pub(super) shards: Shards,
    pub(super) fingerprints: u64,
    pub(super) periods: Periods,
    /// The fingerprint whose shard is swept next, while others get entries.
    pub(super) next: u64,
    /// The periods of the window.
    pub(super) in_window: u32,
}

/// What became of a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It has this period or a later one already.
    AsLong,
    /// It had an earlier period.
    Longer,
    /// It was not there.
    New,
}

impl Lives {
    /// Returns the number of fingerprints, without those whose periods were [dropped](Self::drop_before).
    pub const fn fingerprints(&self) -> u64 {
        self.fingerprints
    }

    /// Returns the periods that have fingerprints, each with their number, in order.
    pub fn periods(&self) -> &[(Period, u64)] {
        &self.periods.counts
    }

    /// Returns the period before which all were dropped.
    pub const fn dropped(&self) -> Period {
        Period(self.shards.dropped)
    }

    /// Drops the fingerprints of periods before one. Their entries go little by little.
    pub fn drop_before(&mut self, oldest: Period) {
        let gone = self.periods.drop_before(oldest);
        if gone > 0 {
            self.fingerprints -= gone;
            self.shards.dropped = oldest.0;
        }
    }

    /// Returns whether a fingerprint has this period or a later one.
    #[inline]
    pub fn contains(&self, fingerprint: u64, oldest: Period) -> bool {
        let (at, shard, found) = self.shards.find(fingerprint);
        found.is_there() && self.is_live(shard, found, at.widths, oldest)
    }

    /// Returns whether an entry has this period or a later one.
    #[inline]
    pub(super) fn is_live(
        &self,
        shard: &Shard,
        found: Found,
        widths: Widths,
        oldest: Period,
    ) -> bool {
        self.period_at(shard, found, widths) >= oldest.max(self.dropped())
    }

    #[inline]
    fn period_at(&self, shard: &Shard, found: Found, widths: Widths) -> Period {
        let tag = shard.tag(found, widths);
        Period(period_of(shard.base, tag, self.in_window))
    }

    /// Gives a fingerprint a period, unless it has a later one. `current` is the current period, by which the periods before
    /// its window were [dropped](Self::drop_before), and `period` is one of the window that was not dropped, or the next. No
    /// fingerprint may have a later period than that.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn keep(
        &mut self,
        fingerprint: u64,
        period: Period,
        current: Period,
        room: Room,
    ) -> Result<Kept, Refused> {
        debug_assert!(period >= self.dropped() && period.0 <= current.0 + 1);
        let kept = self.set_period(fingerprint, period, current, room);
        self.sweep_next(current, room);
        kept
    }

    fn set_period(
        &mut self,
        fingerprint: u64,
        period: Period,
        current: Period,
        room: Room,
    ) -> Result<Kept, Refused> {
        let address = self.shards.locate(fingerprint).address;
        let base = self.shards.shard(address).base;
        if current.0 < base || current.0 - base > lag(self.in_window) {
            self.sweep(address, current);
        }
        let (at, shard, found) = self.shards.find(fingerprint);
        let before = found
            .is_there()
            .then(|| self.period_at(shard, found, at.widths))
            .filter(|before| *before >= self.dropped());
        if before.is_some_and(|before| before >= period) {
            return Ok(Kept::AsLong);
        }
        let more = self.periods.bytes_for(period);
        let others = self.periods.memory_bytes() + more as u64;
        let shard_room = || room().saturating_sub(others);
        self.shards.check(0, more, &|| {
            room().saturating_sub(self.periods.memory_bytes())
        })?;
        self.periods.make_room(period).ok_or(Refused::OutOfMemory)?;
        let tag = period.0 & mask(at.widths.tag());
        if found.is_there() {
            let entry = at.place.remainder() << at.widths.tag() | tag;
            let replace = |shard: &mut Shard| shard.replace(found, 0, at.widths, entry);
            self.shards.change(at.address, replace);
        } else {
            self.shards.insert(&at, found, tag, &shard_room)?;
        }
        self.fingerprints += u64::from(before.is_none());
        self.periods.enter(period);
        if let Some(before) = before {
            self.periods.leave(before);
        }
        if !found.is_there() {
            self.shards.settle(at.address, fingerprint, &shard_room);
        }
        Ok(before.map_or(Kept::New, |_| Kept::Longer))
    }

    /// Removes entries whose periods were dropped from one more shard, and splits or joins shards if it is time.
    pub fn sweep_next(&mut self, current: Period, room: Room) {
        let others = self.periods.memory_bytes();
        let room = || room().saturating_sub(others);
        if self.shards.entries() == self.fingerprints {
            return self.shards.resize(&room);
        }
        let (first, at) = (self.next, self.shards.locate(self.next).address);
        self.next = self.shards.end_of(at);
        let base = Period(self.shards.shard(at).base);
        if base.first_of_window(self.in_window) < self.dropped() {
            self.sweep(at, current);
        }
        self.shards.settle(at, first, &room);
    }

    /// Removes the entries of a shard whose periods were dropped, and makes `current` its base, or an earlier period if there
    /// are fingerprints of a window before.
    fn sweep(&mut self, at: Address, current: Period) {
        let (codec, widths) = (self.shards.codec(), self.shards.widths_at(at));
        let (in_window, dropped) = (self.in_window, self.shards.dropped);
        self.shards.change(at, |shard| {
            let periods = shard.iter(codec, widths).map(|(_, period)| period);
            let live = periods.filter(|period| *period >= dropped);
            let (count, oldest) = live.fold((0, u64::MAX), |(count, oldest), period| {
                (count + 1, oldest.min(period))
            });
            let latest = oldest.saturating_add(u64::from(in_window) - 1);
            let base = std::mem::replace(&mut shard.base, current.0.min(latest));
            if count < shard.entries() {
                shard.retain(widths, |tag| period_of(base, tag, in_window) >= dropped);
            }
        });
    }
}
