//! Periods of fingerprints.
//!
//! The tag of an entry is the last bits of the number of its period. A shard keeps the first period that its tags may mean: the
//! oldest one that was not dropped when the shard was made. Every entry that it got since then has a period of the window at
//! that time, or one of a few later ones, and their last bits all differ. So a tag means one period, however old the shard is,
//! and a shard is made anew only when it gets an entry of a much later period.

use crate::machine::memory::{self, Relocate};

use super::bits::mask;
use super::refused::Refused;

/// The number of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub u64);

impl Period {
    /// Returns the first period of the window of this many periods that ends with this one.
    #[inline]
    #[must_use]
    pub const fn first_of_window(self, periods: u32) -> Self {
        Self((self.0 + 1).saturating_sub(periods as u64))
    }
}

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

/// Returns the period of a tag of `bits` bits: the first one from `oldest` on with these last bits.
#[inline]
pub const fn period_of(oldest: u64, tag: u64, bits: u32) -> u64 {
    oldest.wrapping_add(tag.wrapping_sub(oldest) & mask(bits))
}

/// The periods of a table's fingerprints.
#[derive(Debug, Default)]
pub struct Periods {
    /// The periods that have fingerprints, each with their number, in order.
    pub counts: Vec<(Period, u64)>,
}

impl Periods {
    /// Size of a period with its number of fingerprints, in bytes.
    pub const ENTRY_BYTES: u64 = memory::stated::<(Period, u64)>(16) as u64;

    pub const fn memory_bytes(&self) -> u64 {
        self.counts.capacity() as u64 * Self::ENTRY_BYTES
    }

    /// Copies the periods, with room for more, or returns `None` if allocation fails.
    pub fn with_room(&self, more: usize) -> Option<Self> {
        let mut counts = memory::reserved(self.counts.len() + more)?;
        counts.extend_from_slice(&self.counts);
        Some(Self { counts })
    }

    pub fn relocate(&mut self, by: &mut impl Relocate) {
        self.counts = by.table(std::mem::take(&mut self.counts));
    }

    /// Replaces all periods by these, each with the number of its fingerprints, in order.
    pub fn replace(
        &mut self,
        counts: impl Iterator<Item = (Period, u64)> + Clone,
    ) -> Result<(), Refused> {
        self.counts = memory::reserved(counts.clone().count()).ok_or(Refused::OutOfMemory)?;
        self.counts.extend(counts);
        Ok(())
    }

    /// Returns the place of a period, or of the next one.
    fn place(&self, period: Period) -> Result<usize, usize> {
        self.counts
            .binary_search_by_key(&period, |(other, _)| *other)
    }

    /// Returns whether a period that may be new has room.
    pub fn has_room(&self, period: Period) -> bool {
        self.counts.len() < self.counts.capacity() || self.place(period).is_ok()
    }

    /// Copies the periods, with room for an eighth more, or returns `None` if allocation fails.
    pub fn grown(&self) -> Option<Self> {
        self.with_room(1 + self.counts.len() / 8)
    }

    /// Counts a fingerprint of a period, for which there is room.
    pub fn enter(&mut self, period: Period) {
        match self.place(period) {
            Ok(place) => self.counts[place].1 += 1,
            Err(place) => self.counts.insert(place, (period, 1)),
        }
    }

    /// Takes a fingerprint off its period.
    pub fn leave(&mut self, period: Period) {
        if let Ok(place) = self.place(period) {
            self.counts[place].1 -= 1;
            if self.counts[place].1 == 0 {
                self.counts.remove(place);
            }
        }
    }

    /// Removes the periods before one. Returns how many fingerprints they had.
    pub fn drop_before(&mut self, oldest: Period) -> u64 {
        let expired = self.counts.partition_point(|(period, _)| *period < oldest);
        let gone = self.counts.drain(..expired).map(|(_, count)| count).sum();
        if self.counts.len() < self.counts.capacity() / 2 {
            memory::fit(&mut self.counts);
        }
        gone
    }
}
