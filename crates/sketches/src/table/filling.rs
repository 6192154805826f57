//! Tables that are made of fingerprints in ascending order, in one pass.

use std::ops::Range;

use crate::machine::memory::{self, index};

use super::codec::Payload;
use super::periods::{Period, Periods};
use super::refused::Refused;
use super::shard::{Builder, Shard};
use super::shards::{CROWD, SPLIT, Shards};

/// The entries of a leaf that is made, so that it can take more.
const LEAF_FILLED: u64 = 768;

/// A table that is being filled in the order of fingerprints.
#[derive(Debug)]
pub struct Filling {
    shards: Shards,
    /// The number of shards of equal ranges that the table will have.
    count: usize,
    /// The range of the shard that is being filled.
    range: Range<u64>,
    builder: Builder,
    /// The leaf that is being filled, if the shard is a crowd.
    leaf: Option<OpenLeaf>,
    fingerprints: u64,
    /// The fingerprints of each period, from the oldest of the window on to the one after it.
    periods: Vec<u64>,
    /// The period with which the window ends.
    current: Period,
}

/// A leaf whose end is not known yet.
#[derive(Debug, Default)]
struct OpenLeaf {
    first: u64,
    /// Its fingerprints, and what is kept of each.
    held: Vec<(u64, u64)>,
    /// The number of entries that they take, at most.
    entries: u64,
}

impl Filling {
    /// Begins a table of fingerprints that take this many [entries](Payload::entries).
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
        // So a shard has at least a bucket.
        let most = 1 << (bits - Shards::LEAST_BITS);
        let count = entries.div_ceil(SPLIT).clamp(1, most);
        let shards = Shards::with_room(bits, payload, count).ok_or(Refused::OutOfMemory)?;
        let range = 0..shards.range_length(0);
        let widths = shards.codec().widths_of(range.start, range.end);
        Ok(Self {
            builder: Builder::new(shards.codec(), widths),
            shards,
            count: index(count),
            range,
            leaf: None,
            fingerprints: 0,
            periods: Vec::new(),
            current,
        })
    }

    /// Returns the bytes of the table so far.
    pub const fn memory_bytes(&self) -> u64 {
        self.shards.memory_bytes()
    }

    /// Appends a fingerprint, and its count or period.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    ///
    /// # Panics
    /// The fingerprint is too large or not larger than the one before, the count is 0, or the period is neither of the window
    /// nor the next.
    #[inline]
    pub fn push(&mut self, fingerprint: u64, held: u64) -> Result<(), Refused> {
        while fingerprint >= self.range.end {
            self.end_shard()?;
        }
        if let Payload::Period(periods) = self.shards.codec().payload {
            if self.periods.is_empty() {
                let count = periods as usize + 1;
                self.periods = memory::reserved(count).ok_or(Refused::OutOfMemory)?;
                self.periods.resize(count, 0);
            }
            let oldest = self.current.first_of_window(periods);
            self.periods[index(held.wrapping_sub(oldest.0))] += 1;
        }
        self.fingerprints += 1;
        if self.leaf.is_some() || self.builder.count() >= CROWD {
            return self.push_to_crowd(fingerprint, held);
        }
        self.builder.push(fingerprint - self.range.start, held)
    }

    #[cold]
    fn push_to_crowd(&mut self, fingerprint: u64, held: u64) -> Result<(), Refused> {
        if self.leaf.is_none() {
            self.leaf = Some(OpenLeaf {
                first: self.range.start,
                ..OpenLeaf::default()
            });
            let codec = self.shards.codec();
            let widths = codec.widths_of(self.range.start, self.range.end);
            let shard = self.builder.end(self.current.0, widths)?;
            for (distance, held) in shard.iter(codec, widths) {
                self.push_to_leaf(self.range.start + distance, held)?;
            }
        }
        self.push_to_leaf(fingerprint, held)
    }

    fn push_to_leaf(&mut self, fingerprint: u64, held: u64) -> Result<(), Refused> {
        let entries = self.leaf.as_ref().map_or(0, |leaf| leaf.entries);
        if entries >= LEAF_FILLED {
            self.end_leaf(fingerprint)?;
        }
        let leaf = self.leaf.get_or_insert_default();
        let room = leaf.held.try_reserve(1);
        room.map_err(|_| Refused::OutOfMemory)?;
        leaf.held.push((fingerprint, held));
        leaf.entries += self.shards.codec().payload.entries(held);
        Ok(())
    }

    /// Ends a leaf before a fingerprint, with which the next one begins.
    fn end_leaf(&mut self, end: u64) -> Result<(), Refused> {
        let Some(OpenLeaf {
            first,
            held,
            entries,
        }) = &mut self.leaf
        else {
            return Ok(());
        };
        let codec = self.shards.codec();
        let widths = codec.widths_of(*first, end);
        let mut builder = Builder::new(codec, widths);
        for (fingerprint, held) in held.drain(..) {
            builder.push(fingerprint - *first, held)?;
        }
        let shard = builder.end(self.current.0, widths)?;
        self.shards.append_leaf(*first, end, shard)?;
        (*first, *entries) = (end, 0);
        Ok(())
    }

    /// Ends a shard and begins the next.
    fn end_shard(&mut self) -> Result<(), Refused> {
        let number = self.shards.appended();
        assert!(number < self.count, "a fingerprint of the table");
        let next = self.range.end..self.range.end + self.shards.range_length(number + 1);
        let widths = self.shards.codec().widths_of(next.start, next.end);
        let shard = if self.leaf.is_some() {
            self.end_leaf(self.range.end)?;
            self.leaf = None;
            self.builder = Builder::new(self.shards.codec(), widths);
            Shard::default()
        } else {
            self.builder.end(self.current.0, widths)?
        };
        self.shards.append(shard);
        self.range = next;
        Ok(())
    }

    /// Ends the table.
    pub(super) fn end(mut self) -> Result<(Shards, u64, Periods), Refused> {
        while self.shards.appended() < self.count {
            self.end_shard()?;
        }
        let mut periods = Periods::default();
        if let Payload::Period(in_window) = self.shards.codec().payload {
            let oldest = self.current.first_of_window(in_window);
            let all = (0..).zip(&self.periods);
            let counts = all.filter(|(_, count)| **count > 0);
            let counts =
                counts.map(|(number, count)| (Period(oldest.0.wrapping_add(number)), *count));
            periods.take(counts)?;
        }
        Ok((self.shards, self.fingerprints, periods))
    }
}
