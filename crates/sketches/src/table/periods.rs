//! Periods of fingerprints.
//!
//! The tag of an entry is the last bits of the number of its period. A shard knows from which period on its tags are read: its
//! *base* is the current period at the time when it was last swept. Every entry that it got since then has one of the
//! periods of the window at that time, or one of a few later ones, and their last bits all differ. So a tag is read rightly
//! however long ago that was, and a shard is swept only when it gets an entry of a later period.

use crate::machine::memory::{self, Relocate};

use super::bits::mask;
use super::shard::Refused;

/// Returns the number of periods by which a shard may lag behind: a sixteenth of the window. With fewer, shards are swept more
/// often; with more, they keep more entries that have expired.
pub const fn lag(periods: u32) -> u64 {
    periods as u64 / 16
}

/// Returns the bits of a tag: a window has its periods, one that is opened ahead, and those by which a shard lags behind.
pub const fn tag_bits(periods: u32) -> u32 {
    let highest = periods as u64 + lag(periods);
    u64::BITS - highest.leading_zeros()
}

/// The periods of a table's fingerprints.
#[derive(Debug, Default)]
pub struct Periods {
    /// The periods that have fingerprints, each with their number, in order.
    pub counts: Vec<(u64, u64)>,
    /// The period before which all were dropped.
    pub dropped: u64,
    /// The number of the shard that is swept next, while others get entries.
    pub next: usize,
}

impl Periods {
    pub const fn memory_bytes(&self) -> u64 {
        (self.counts.capacity() * size_of::<(u64, u64)>()) as u64
    }

    pub fn try_clone(&self) -> Option<Self> {
        let mut counts = memory::reserved(self.counts.len())?;
        counts.extend_from_slice(&self.counts);
        Some(Self { counts, ..*self })
    }

    pub fn relocate(&mut self, by: &mut impl Relocate) {
        self.counts = by.table(std::mem::take(&mut self.counts));
    }

    /// Takes the periods that have fingerprints, each with their number, in order.
    pub fn take(
        &mut self,
        counts: impl Iterator<Item = (u64, u64)> + Clone,
    ) -> Result<(), Refused> {
        self.counts = memory::reserved(counts.clone().count()).ok_or(Refused::OutOfMemory)?;
        self.counts.extend(counts);
        Ok(())
    }

    /// Returns the place of a period, or of the next one.
    fn place(&self, period: u64) -> Result<usize, usize> {
        self.counts
            .binary_search_by_key(&period, |(other, _)| *other)
    }

    /// Returns whether there is room for a period that may be new.
    pub fn has_room(&self, period: u64) -> bool {
        self.counts.len() < self.counts.capacity() || self.place(period).is_ok()
    }

    /// Counts a fingerprint of a period, for which there is room.
    pub fn enter(&mut self, period: u64) {
        match self.place(period) {
            Ok(place) => self.counts[place].1 += 1,
            Err(place) => self.counts.insert(place, (period, 1)),
        }
    }

    /// Takes a fingerprint off its period.
    pub fn leave(&mut self, period: u64) {
        if let Ok(place) = self.place(period) {
            self.counts[place].1 -= 1;
            if self.counts[place].1 == 0 {
                self.counts.remove(place);
            }
        }
    }
}

/// Returns the period of a tag: of those from the oldest one at the shard's base on, the first with these last bits.
#[inline]
pub const fn period_of(base: u64, tag: u64, periods: u32) -> u64 {
    let oldest = oldest(base, periods);
    oldest.wrapping_add(tag.wrapping_sub(oldest) & mask(tag_bits(periods)))
}

/// Returns the oldest period of a window.
#[inline]
pub const fn oldest(current: u64, periods: u32) -> u64 {
    current.wrapping_add(1).wrapping_sub(periods as u64)
}
