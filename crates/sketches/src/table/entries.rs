//! The fingerprints of a table in ascending order.

use std::iter::Chain;
use std::ops::Range;

use super::leaves::Spot;
use super::shard;
use super::shards::Shards;

impl Shards {
    /// Returns the fingerprints of a range and what is kept of each, in order, without those that were dropped.
    pub fn iter(&self, range: Range<u64>) -> Entries<'_> {
        let last = (1 << self.codec().bits) - 1;
        let number = self.number_of(range.start.min(last)).0;
        let mut entries = Entries {
            shards: self,
            numbers: self.numbers_from(number),
            leaf: None,
            begin: 0,
            current: None,
            range,
        };
        if self.regular[number].is_none() && entries.range.start <= last {
            // The crowd may have many leaves before.
            entries.numbers.next();
            entries.leaf = Some(self.leaves.find(entries.range.start));
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
    /// The next leaf of a crowd.
    leaf: Option<Spot>,
    /// The first fingerprint of the range of the shard that is being read.
    begin: u64,
    current: Option<shard::Iter<'t>>,
    range: Range<u64>,
}

impl Entries<'_> {
    /// Goes on to the next shard. Returns whether there is one in the range.
    #[inline(never)]
    fn advance(&mut self) -> bool {
        let shards = self.shards;
        if self.leaf.is_none() {
            let Some(number) = self.numbers.next() else {
                return false;
            };
            let (shard, range) = (&shards.regular[number], shards.range_of(number));
            self.begin = range.start;
            if !shard.is_none() {
                let widths = shards.codec().widths_of(range.start, range.end);
                self.current = Some(shard.iter(shards.codec(), widths));
                return self.begin < self.range.end;
            }
            self.leaf = Some(shards.leaves.find(range.start));
        }
        if let Some(at) = self.leaf {
            let leaf = shards.leaves.get(at);
            self.begin = leaf.first;
            self.current = Some(leaf.shard.iter(shards.codec(), leaf.widths(shards.codec())));
            let in_crowd = |next: &Spot| {
                let first = |at| shards.leaves.get(at).first;
                shards.number_of(first(*next)).0 == shards.number_of(leaf.first).0
            };
            self.leaf = shards.leaves.next(at).filter(in_crowd);
        }
        self.begin < self.range.end
    }
}

impl Iterator for Entries<'_> {
    /// A fingerprint; and 0, its count, or the number of its period.
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((distance, held)) = self.current.as_mut().and_then(Iterator::next) {
                let fingerprint = self.begin + distance;
                if fingerprint >= self.range.end {
                    return None;
                }
                if fingerprint >= self.range.start && held >= self.shards.dropped {
                    return Some((fingerprint, held));
                }
            } else if !self.advance() {
                return None;
            }
        }
    }
}
