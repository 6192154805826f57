//! Tables that are made of fingerprints in ascending order, in one pass.

use std::ops::Range;

use crate::machine::memory::{self, index};

use super::codec::{Held, Payload};
use super::periods::{Period, Periods};
use super::refused::Refused;
use super::shard::Shard;
use super::shards::{CROWD, SPLIT, Shards};

/// The fingerprints of a leaf that is made: fewer than those of one that is split, so that it can take more.
const LEAF_FILLED: usize = 768;

/// A table that is being filled in the order of fingerprints.
#[derive(Debug)]
pub struct Filling {
    shards: Shards,
    /// The number of shards of equal ranges that the table will have.
    count: usize,
    /// What is left of the range of the shard that is being filled.
    range: Range<u64>,
    /// Whether the shard has become a crowd: leaves have the start of its range.
    is_crowd: bool,
    /// The fingerprints of the range so far.
    held: Vec<Held>,
    fingerprints: u64,
    /// The fingerprints of each period, from the oldest of the window on to the one after it.
    periods: Vec<u64>,
}

impl Filling {
    /// Begins a table of fingerprints that take this many [entries](Payload::entries). Its window ends with the period
    /// `current`.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    ///
    /// # Panics
    /// See [`Table::new`](super::Table::new).
    pub fn new(
        bits: u32,
        payload: Payload,
        entries: u64,
        current: Period,
    ) -> Result<Self, Refused> {
        // A range has at least 2¹² fingerprints, however many entries the caller states.
        let most = 1 << (bits - Shards::LEAST_BITS);
        let count = entries.div_ceil(SPLIT).clamp(1, most);
        let shards = Shards::with_room(bits, payload, count).ok_or(Refused::OutOfMemory)?;
        let mut filling = Self {
            range: 0..shards.range_length(0),
            shards,
            count: index(count),
            is_crowd: false,
            held: memory::reserved(CROWD).ok_or(Refused::OutOfMemory)?,
            fingerprints: 0,
            periods: Vec::new(),
        };
        if let Payload::Period(periods) = payload {
            filling.shards.dropped = current.first_of_window(periods).0;
            let count = periods as usize + 1;
            filling.periods = memory::reserved(count).ok_or(Refused::OutOfMemory)?;
            filling.periods.resize(count, 0);
        }
        Ok(filling)
    }

    /// Returns the bytes of the table so far.
    pub const fn memory_bytes(&self) -> u64 {
        self.shards.memory_bytes()
    }

    /// Appends a fingerprint with its [value](Held::value).
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    ///
    /// # Panics
    /// The fingerprint is too large or not larger than the one before, the count is 0, or the period is neither of the window
    /// nor the next.
    #[inline]
    pub fn push(&mut self, fingerprint: u64, value: u64) -> Result<(), Refused> {
        while fingerprint >= self.range.end {
            self.end_shard()?;
        }
        if !self.periods.is_empty() {
            self.periods[index(value.wrapping_sub(self.shards.dropped))] += 1;
        }
        self.fingerprints += 1;
        let most = if self.is_crowd { LEAF_FILLED } else { CROWD };
        if self.held.len() >= most {
            self.end_leaves(fingerprint)?;
        }
        self.held.push(Held { fingerprint, value });
        Ok(())
    }

    /// Makes leaves of the fingerprints before one, with which the next leaf begins.
    #[cold]
    fn end_leaves(&mut self, end: u64) -> Result<(), Refused> {
        let mut rest = &self.held[..];
        while !rest.is_empty() {
            let (leaf, after) = rest.split_at(rest.len().min(LEAF_FILLED));
            let end = after.first().map_or(end, |first| first.fingerprint);
            let range = std::mem::replace(&mut self.range.start, end)..end;
            let shard = self.shards.shard_of(range.clone(), leaf)?;
            if !std::mem::replace(&mut self.is_crowd, true) {
                self.shards.append_crowd()?;
            }
            self.shards.append_leaf(range.start, shard)?;
            rest = after;
        }
        self.held.clear();
        Ok(())
    }

    /// Ends a shard and begins the next.
    #[cold]
    fn end_shard(&mut self) -> Result<(), Refused> {
        let number = self.shards.appended();
        assert!(number < self.count, "a fingerprint of the table");
        let end = self.range.end;
        let shard = if self.is_crowd {
            self.end_leaves(end)?;
            Shard::default()
        } else {
            self.shards.shard_of(self.range.clone(), &self.held)?
        };
        self.shards.append(shard);
        self.held.clear();
        self.is_crowd = false;
        self.range = end..end + self.shards.range_length(number + 1);
        Ok(())
    }

    /// Ends the table.
    pub(super) fn end(mut self) -> Result<(Shards, u64, Periods), Refused> {
        while self.shards.appended() < self.count {
            self.end_shard()?;
        }
        let all = (self.shards.dropped..).zip(&self.periods);
        let counts = all.filter(|(_, count)| **count > 0);
        let mut periods = Periods::default();
        periods.replace(counts.map(|(period, count)| (Period(period), *count)))?;
        Ok((self.shards, self.fingerprints, periods))
    }
}
