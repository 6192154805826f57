//! The fingerprints of a table in ascending order.

use std::iter::Chain;
use std::ops::Range;
use std::slice;

use crate::machine::work;

use super::codec::Held;
use super::packed::Iter;
use super::shards::{Leaf, Shards};

/// The fingerprints that are decoded at once: in a loop of its own, that takes less time.
const BATCH: usize = 32;

impl Shards {
    /// Returns the fingerprints of a range in order, without those that were dropped.
    pub fn iter(&self, range: Range<u64>) -> Entries<'_> {
        let last = (1 << self.codec().bits) - 1;
        let number = self.number_of(range.start.min(last)).0;
        let mut entries = Entries {
            shards: self,
            numbers: self.numbers_from(number),
            leaves: [].iter(),
            crowd_end: 0,
            current: None,
            range,
            batch: [Held::default(); BATCH],
            read: 0,
            decoded: 0,
        };
        if self.is_crowd(number) && entries.range.start <= last {
            // The crowd may have many leaves before.
            let at = self.spot(entries.range.start);
            entries.numbers.next();
            entries.crowd_end = self.range_of(number).end;
            entries.leaves = self.crowds[at.crowd][at.leaf..].iter();
        }
        entries
    }
}

/// Goes through the fingerprints of a table.
#[derive(Clone, Debug)]
pub struct Entries<'t> {
    shards: &'t Shards,
    /// The shards that are still to come.
    numbers: Chain<Range<usize>, Range<usize>>,
    /// The leaves of a crowd that are still to come, and the end of its range.
    leaves: slice::Iter<'t, Leaf>,
    crowd_end: u64,
    /// The shard that is being read.
    current: Option<Iter<'t>>,
    range: Range<u64>,
    /// The fingerprints that were decoded.
    batch: [Held; BATCH],
    /// How many of them were read.
    read: usize,
    /// How many there are.
    decoded: usize,
}

impl Entries<'_> {
    /// Decodes the next fingerprints. Returns whether there are any.
    #[inline(never)]
    fn decode(&mut self) -> bool {
        (self.read, self.decoded) = (0, 0);
        while self.decoded == 0 {
            let Some(current) = &mut self.current else {
                if self.advance() {
                    continue;
                }
                return false;
            };
            while self.decoded < BATCH {
                let Some(held) = current.next() else {
                    self.current = None;
                    break;
                };
                let is_in =
                    self.range.contains(&held.fingerprint) && held.value >= self.shards.dropped;
                self.batch[self.decoded] = held;
                self.decoded += usize::from(is_in);
            }
        }
        true
    }

    /// Goes on to the next shard. Returns whether there is one in the range.
    fn advance(&mut self) -> bool {
        let (shards, codec) = (self.shards, self.shards.codec());
        let (shard, range) = loop {
            if let Some(leaf) = self.leaves.next() {
                let next = self.leaves.as_slice().first();
                let end = next.map_or(self.crowd_end, |next| next.first);
                break (&leaf.shard, leaf.first..end);
            }
            let Some(number) = self.numbers.next() else {
                return false;
            };
            let range = shards.range_of(number);
            if !shards.is_crowd(number) {
                break (&shards.regular[number], range);
            }
            self.crowd_end = range.end;
            self.leaves = shards.crowds[shards.spot(range.start).crowd].iter();
        };
        work::steps(shard.entries());
        if range.start >= self.range.end {
            return false;
        }
        self.current = Some(shard.iter(codec, codec.widths_of(&range), range.start));
        true
    }
}

impl Iterator for Entries<'_> {
    type Item = Held;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.read == self.decoded && !self.decode() {
            return None;
        }
        let next = self.batch[self.read];
        self.read += 1;
        Some(next)
    }
}
