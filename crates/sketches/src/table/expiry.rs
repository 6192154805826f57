//! How long fingerprints stay.

use crate::machine::memory;

use super::bits::mask;
use super::fingerprints::{Payload, Table};
use super::periods::{Periods, lag, oldest, period_of};
use super::shard::{Refused, Shard};

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

/// Tables whose fingerprints have periods. The numbers of periods must not be smaller than a window has periods.
impl Table {
    fn periods_of_window(&self) -> u32 {
        match self.payload {
            Payload::Period(periods) => periods,
            _ => 0,
        }
    }

    /// Returns the periods that have fingerprints, each with their number, in order.
    pub fn periods(&self) -> &[(u64, u64)] {
        &self.periods.counts
    }

    /// Returns the period before which all were dropped.
    pub const fn dropped(&self) -> u64 {
        self.periods.dropped
    }

    /// Drops the fingerprints of periods before `oldest`. Their entries go little by little.
    pub fn drop_before(&mut self, oldest: u64) {
        let Periods {
            counts, dropped, ..
        } = &mut self.periods;
        let expired = counts.partition_point(|(period, _)| *period < oldest);
        if expired == 0 {
            return;
        }
        let gone = counts.drain(..expired).map(|(_, count)| count);
        self.fingerprints -= gone.sum::<u64>();
        *dropped = oldest;
        if counts.len() < counts.capacity() / 2 {
            memory::fit(counts);
        }
    }

    /// Gives a fingerprint a period, unless it has a later one. `current` is the current period, by which the periods before
    /// its window were [dropped](Self::drop_before), and `period` is one of the window that was not dropped, or the next. No
    /// fingerprint may have a later period than that. The table takes at most as many bytes as `most_bytes` returns, which it
    /// calls only before it takes more.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn keep(
        &mut self,
        fingerprint: u64,
        period: u64,
        current: u64,
        most_bytes: impl Fn() -> u64,
    ) -> Result<Kept, Refused> {
        let periods = self.periods_of_window();
        let number = self.locate(fingerprint).shard;
        let base = self.shards[number].base;
        if current < base || current - base > lag(periods) {
            self.sweep(number, current);
        }
        let (at, shard, found) = self.find(fingerprint);
        let before = found
            .is_there()
            .then(|| period_of(shard.base, shard.tag(&at.place, found, at.widths), periods))
            .filter(|before| *before >= self.dropped());
        if before.is_some_and(|before| before >= period) {
            self.sweep_one(current, &most_bytes);
            return Ok(Kept::AsLong);
        }
        if !self.periods.has_room(period) {
            let counts = &mut self.periods.counts;
            let more = 1 + counts.len() / 8;
            self.check(&[], more * size_of::<(u64, u64)>(), &most_bytes)?;
            let room = self.periods.counts.try_reserve_exact(more);
            room.map_err(|_| Refused::OutOfMemory)?;
        }
        let tag = period & mask(at.widths.tag);
        if found.is_there() {
            let shard = &mut self.shards[number];
            shard.replace(&at.place, found, 0, at.widths, at.place.remainder(), tag);
            self.fingerprints += u64::from(before.is_none());
        } else {
            self.insert(&at, found, tag, &most_bytes)?;
        }
        self.periods.enter(period);
        if let Some(before) = before {
            self.periods.leave(before);
        }
        self.sweep_one(current, &most_bytes);
        Ok(before.map_or(Kept::New, |_| Kept::Longer))
    }

    /// Removes entries whose periods were dropped from one more shard, and joins two if there are few entries.
    pub fn sweep_next(&mut self, current: u64) {
        let bytes = self.memory_bytes();
        self.sweep_one(current, &|| bytes);
    }

    fn sweep_one(&mut self, current: u64, most_bytes: &impl Fn() -> u64) {
        if self.has_dropped() {
            // Splits and joins change the numbers of shards; a shard that is skipped is swept in the next round.
            let number = self.numbers_from(self.periods.next).next();
            if let Some(number) = number
                && oldest(self.shards[number].base, self.periods_of_window()) < self.dropped()
            {
                self.sweep(number, current);
            }
            self.periods.next = number.map_or(0, |number| number + 1);
        }
        self.resize(most_bytes);
    }

    /// Removes the entries of a shard whose periods were dropped, and makes `current` its base, or an earlier period if there
    /// are fingerprints of a window before.
    pub(super) fn sweep(&mut self, number: usize, current: u64) {
        let (periods, dropped) = (self.periods_of_window(), self.dropped());
        let latest = |(first, _): &(u64, u64)| first + u64::from(periods) - 1;
        let latest = self.periods().first().map_or(current, latest);
        let base = current.min(latest);
        let widths = self.widths(self.depth(number));
        self.change_shard(number, Shard::entries, |shard| {
            let old = std::mem::replace(&mut shard.base, base);
            shard.retain(widths, |tag| period_of(old, tag, periods) >= dropped);
        });
    }
}
