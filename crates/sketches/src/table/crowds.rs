//! Crowds: shards that have far more entries than their share.
//!
//! Hashes of items are random, so each shard gets about its share. But items that were chosen by whoever knows the seed may have
//! the first bits of their hashes in common, and bytes from outside may hold any fingerprints. So a shard that has four times
//! its share becomes a *crowd*: leaves, each of which is split at the median when it has too many entries. The place of a crowd
//! has no shard. A crowd that has about its share becomes a shard again, for example because the table was split often enough.

use super::leaves::{Leaf, Spot};
use super::refused::Refused;
use super::shard::Shard;
use super::shards::{Address, Room, Shards};

/// The entries up to which a crowd becomes a shard again.
const CALM: usize = 1536;
/// The entries above which a leaf is split.
const LEAF: usize = 1024;
/// The entries of two neighbours up to which they are joined: far fewer than those of a leaf that is split.
const JOINED: usize = 640;

impl Shards {
    /// Makes a crowd of a shard: a leaf of the same range.
    pub(super) fn crowd(&mut self, number: usize, room: Room) -> Result<(), Refused> {
        if self.regular[number].is_none() {
            return Ok(());
        }
        self.check(0, self.leaves.bytes_for_one(), room)?;
        let range = self.range_of(number);
        let at = self.leaves.insert(range.start, range.end);
        let at = at.ok_or(Refused::OutOfMemory)?;
        // The number of entries, and the bytes of the shard, stay.
        self.leaves.get_mut(at).shard = std::mem::take(&mut self.regular[number]);
        Ok(())
    }

    /// Makes a shard of a crowd, if this has few entries.
    pub(super) fn calm(&mut self, number: usize, room: Room) -> Result<(), Refused> {
        let range = self.range_of(number);
        let first = self.leaves.find(range.start);
        let (mut count, mut entries, mut bytes) = (0, 0, 0);
        for leaf in self.leaves.from(first, range.end) {
            count += 1;
            entries += leaf.shard.entries();
            bytes += leaf.shard.memory_bytes();
            if entries > CALM {
                return Ok(());
            }
        }
        let shard = self.built(range.clone())?;
        self.check(bytes, shard.memory_bytes(), room)?;
        for _ in 0..count {
            // The last one, because a search finds a leaf that begins before.
            self.remove_leaf(self.leaves.find(range.end - 1));
        }
        self.replace(number, shard);
        Ok(())
    }

    /// Makes a crowd of a shard that has too many entries. In a crowd, splits the leaf of a fingerprint if it has too many, or
    /// joins it with the next one if both have few, or ends the crowd.
    #[cold]
    pub(super) fn settle_crowd(&mut self, fingerprint: u64, room: Room) -> Result<(), Refused> {
        let (number, _) = self.number_of(fingerprint);
        self.crowd(number, room)?;
        let at = self.leaves.find(fingerprint);
        let (leaf, end) = (self.leaves.get(at), self.range_of(number).end);
        let entries = leaf.shard.entries();
        if entries > LEAF {
            let all = self.iter(leaf.first..leaf.end);
            let half = all.clone().count() / 2;
            return match all.skip(half).map(|(fingerprint, _)| fingerprint).next() {
                Some(middle) if middle > leaf.first => self.split_leaf(at, middle, room),
                // Nearly all entries are about to go.
                _ => self.join_leaves(at, leaf.end, room),
            };
        }
        if let Some(next) = self.leaves.next(at).map(|next| self.leaves.get(next))
            && next.first < end
            && entries + next.shard.entries() <= JOINED
        {
            self.join_leaves(at, next.end, room)?;
        }
        self.calm(number, room)
    }

    /// Splits the leaf of a crowd in which a fingerprint is, so that a leaf begins with it.
    pub(super) fn cut_crowd(&mut self, middle: u64, room: Room) -> Result<(), Refused> {
        let at = self.leaves.find(middle);
        if self.leaves.get(at).first == middle {
            return Ok(());
        }
        self.split_leaf(at, middle, room)
    }

    fn split_leaf(&mut self, at: Spot, middle: u64, room: Room) -> Result<(), Refused> {
        let Leaf { first, end, shard } = self.leaves.get(at);
        let (first, end) = (*first, *end);
        let [low, high] = self.built_halves(shard, first..end, middle)?;
        let bytes = low.memory_bytes() + high.memory_bytes() + self.leaves.bytes_for_one();
        self.check(shard.memory_bytes(), bytes, room)?;
        let after = self.leaves.insert(middle, end);
        self.put(after.ok_or(Refused::OutOfMemory)?, high);
        let at = self.leaves.find(first);
        self.leaves.get_mut(at).end = middle;
        self.put(at, low);
        Ok(())
    }

    /// Joins a leaf with those that follow up to an end, and removes entries that are about to go.
    fn join_leaves(&mut self, at: Spot, end: u64, room: Room) -> Result<(), Refused> {
        let first = self.leaves.get(at).first;
        let joined = self.built(first..end)?;
        let leaves = self.leaves.from(at, end);
        let less = leaves.map(|leaf| leaf.shard.memory_bytes()).sum();
        self.check(less, joined.memory_bytes(), room)?;
        while let Some(next) = self.leaves.next(self.leaves.find(first))
            && self.leaves.get(next).first < end
        {
            let end = self.leaves.get(next).end;
            self.remove_leaf(next);
            let at = self.leaves.find(first);
            self.leaves.get_mut(at).end = end;
        }
        let at = self.leaves.find(first);
        self.put(at, joined);
        Ok(())
    }

    /// Replaces the shard of a leaf.
    fn put(&mut self, at: Spot, shard: Shard) {
        self.change(Address::Leaf(at), |old| *old = shard);
    }

    fn remove_leaf(&mut self, at: Spot) {
        self.put(at, Shard::default());
        self.leaves.remove(at);
    }

    /// Appends a leaf to those of a table that is being made.
    pub(super) fn append_leaf(
        &mut self,
        first: u64,
        end: u64,
        shard: Shard,
    ) -> Result<(), Refused> {
        let at = self.leaves.insert(first, end);
        self.put(at.ok_or(Refused::OutOfMemory)?, shard);
        Ok(())
    }
}
