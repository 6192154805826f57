//! Crowds: shards that have far more entries than their share.
//!
//! Hashes of items are random, so each shard gets about its share. But whoever knows the seed can choose items whose hashes
//! have the first bits in common, and bytes from outside may hold any fingerprints. So a shard that has four times its share
//! becomes a *crowd*: a list of leaves. A leaf that has too many entries is split at the median. The place of a crowd has no
//! shard. A crowd that has about its share, for example because the table was split often enough, becomes a shard again.

use std::ops::Range;

use crate::machine::memory::{self, Relocate};

use super::codec::{Held, bits_of};
use super::refused::Refused;
use super::shard::Shard;
use super::shards::{Address, CROWD_BYTES, Crowd, Leaf, Room, Shards, Spot};

/// The entries up to which a crowd becomes a shard again: one and a half times the average at which shards are split, and far
/// fewer than the 4,096 above which a shard becomes a crowd, so that it does not become a crowd again soon.
const CALM_ENTRIES: usize = 1536;
/// The entries above which a leaf is split.
const LEAF_ENTRIES: usize = 1024;
/// The most entries that two neighbours may have to be joined: far fewer than those of a leaf that is split.
const JOINED_ENTRIES: usize = 640;

/// Size of the entry of a leaf in its crowd, in bytes.
const LEAF_BYTES: usize = memory::stated::<Leaf>(32);

impl Shards {
    /// Returns the place of the leaf to which a fingerprint of a crowd belongs.
    #[cold]
    #[inline(never)]
    pub(super) fn spot(&self, fingerprint: u64) -> Spot {
        // A crowd starts at or before each of its fingerprints, and its first leaf starts where it does. So at least one crowd
        // and one leaf are counted, and the last of them has the fingerprint.
        let starts = |crowd: &Crowd| crowd[0].first <= fingerprint;
        let crowd = self.crowds.partition_point(starts) - 1;
        let leaves = &self.crowds[crowd];
        let leaf = leaves.partition_point(|leaf| leaf.first <= fingerprint) - 1;
        Spot { crowd, leaf }
    }

    /// Returns the leaf at a place.
    pub(super) fn leaf(&self, at: Spot) -> &Leaf {
        &self.crowds[at.crowd][at.leaf]
    }

    /// Returns the range of a leaf.
    pub(super) fn range_of_leaf(&self, at: Spot) -> Range<u64> {
        let first = self.leaf(at).first;
        let end = match self.crowds[at.crowd].get(at.leaf + 1) {
            Some(next) => next.first,
            None => self.range_of(self.number_of(first).0).end,
        };
        first..end
    }

    /// Returns the first fingerprint of a leaf's range, and the bits of the range.
    #[cold]
    #[inline(never)]
    pub(super) fn first_and_bits(&self, at: Spot) -> (u64, u32) {
        let range = self.range_of_leaf(at);
        (range.start, bits_of(&range))
    }

    /// Makes a crowd of one leaf of a shard, unless it is a crowd. Returns the number of the crowd.
    pub(super) fn ensure_crowd(&mut self, number: usize, room: Room) -> Result<usize, Refused> {
        let first = self.range_of(number).start;
        let at = self.crowds.partition_point(|crowd| crowd[0].first < first);
        if self.is_crowd(number) {
            return Ok(at);
        }
        let mut leaves = memory::reserved(1).ok_or(Refused::OutOfMemory)?;
        let shard = Shard::default();
        leaves.push(Leaf { first, shard });
        self.insert_crowd(at, leaves, room)?;
        // The number of entries, and the bytes of the shard, stay.
        self.crowds[at][0].shard = std::mem::take(&mut self.regular[number]);
        Ok(at)
    }

    /// Makes a shard of a crowd, if this has few entries.
    pub(super) fn end_crowd_if_small(&mut self, number: usize, room: Room) -> Result<(), Refused> {
        let range = self.range_of(number);
        let at = self.spot(range.start).crowd;
        let mut entries = 0;
        for leaf in &self.crowds[at] {
            entries += leaf.shard.entries();
            if entries > CALM_ENTRIES {
                return Ok(());
            }
        }
        let spots = (0..self.crowds[at].len()).map(|leaf| Spot { crowd: at, leaf });
        let shard = self.shard_of(range, &self.held(spots.clone().map(Address::Leaf))?)?;
        let leaves = self.crowds[at].iter();
        let bytes = leaves.map(|leaf| leaf.shard.memory_bytes()).sum();
        self.check(bytes, shard.memory_bytes(), room)?;
        for leaf in spots {
            self.replace_leaf(leaf, Shard::default());
        }
        self.remove_crowd(at);
        self.replace(number, shard);
        Ok(())
    }

    /// Makes a crowd of a shard that has too many entries. In a crowd, splits the leaf of a fingerprint if it has too many, or
    /// joins it with the next one if both have few, or ends the crowd.
    #[cold]
    pub(super) fn settle_crowd(&mut self, fingerprint: u64, room: Room) -> Result<(), Refused> {
        let (number, _) = self.number_of(fingerprint);
        self.ensure_crowd(number, room)?;
        let at = self.spot(fingerprint);
        let entries = self.leaf(at).shard.entries();
        if entries > LEAF_ENTRIES {
            let (range, held) = (self.range_of_leaf(at), self.held([Address::Leaf(at)])?);
            return match held.get(held.len() / 2) {
                Some(middle) if middle.fingerprint > range.start => {
                    self.split_leaf(at, &held, middle.fingerprint, room)
                }
                // Nearly all entries of the leaf are of dropped periods, so it is made anew without them.
                _ => {
                    let shard = self.shard_of(range, &held)?;
                    self.replace_leaf(at, shard);
                    Ok(())
                }
            };
        }
        if let Some(next) = self.crowds[at.crowd].get(at.leaf + 1)
            && entries + next.shard.entries() <= JOINED_ENTRIES
        {
            self.join_leaves(at, room)?;
        }
        self.end_crowd_if_small(number, room)
    }

    /// Splits a crowd in two. The second starts with `middle`.
    pub(super) fn split_crowd(&mut self, middle: u64, room: Room) -> Result<(), Refused> {
        let mut at = self.spot(middle);
        if self.leaf(at).first != middle {
            let held = self.held([Address::Leaf(at)])?;
            self.split_leaf(at, &held, middle, room)?;
            at.leaf += 1;
        }
        let count = self.crowds[at.crowd].len() - at.leaf;
        let later = memory::reserved(count).ok_or(Refused::OutOfMemory)?;
        self.insert_crowd(at.crowd + 1, later, room)?;
        // The later crowd has no leaves yet, so no error may occur from here on.
        let [earlier, later] = &mut self.crowds[at.crowd..at.crowd + 2] else {
            unreachable!()
        };
        later.extend(earlier.drain(at.leaf..));
        Ok(())
    }

    /// Appends the leaves of the next crowd to those of one.
    pub(super) fn join_crowds(&mut self, at: usize, room: Room) -> Result<(), Refused> {
        self.reserve(at, self.crowds[at + 1].len(), room)?;
        let mut later = self.remove_crowd(at + 1);
        self.crowds[at].append(&mut later);
        Ok(())
    }

    /// Splits a leaf, which has these fingerprints, so that another starts with `middle`.
    fn split_leaf(
        &mut self,
        at: Spot,
        held: &[Held],
        middle: u64,
        room: Room,
    ) -> Result<(), Refused> {
        let [low, high] = self.halves(self.range_of_leaf(at), middle, held)?;
        let bytes = low.memory_bytes() + high.memory_bytes();
        self.reserve(at.crowd, 1, room)?;
        self.check(self.leaf(at).shard.memory_bytes(), bytes, room)?;
        self.replace_leaf(at, low);
        let leaf = at.leaf + 1;
        self.insert_leaf(Spot { leaf, ..at }, middle, high);
        Ok(())
    }

    /// Joins a leaf with the next one.
    fn join_leaves(&mut self, at: Spot, room: Room) -> Result<(), Refused> {
        let leaf = at.leaf + 1;
        let next = Spot { leaf, ..at };
        let (one, other) = (&self.leaf(at).shard, &self.leaf(next).shard);
        let range = self.range_of_leaf(at).start..self.range_of_leaf(next).end;
        let joined = self.shard_of(range, &self.held([at, next].map(Address::Leaf))?)?;
        let bytes = one.memory_bytes() + other.memory_bytes();
        self.check(bytes, joined.memory_bytes(), room)?;
        self.replace_leaf(next, Shard::default());
        self.crowds[next.crowd].remove(next.leaf);
        self.replace_leaf(at, joined);
        Ok(())
    }

    /// Replaces the shard of a leaf.
    fn replace_leaf(&mut self, at: Spot, shard: Shard) {
        self.change(Address::Leaf(at), |old| *old = shard);
    }

    /// Inserts a leaf, for which there is [room](Self::reserve).
    fn insert_leaf(&mut self, at: Spot, first: u64, with: Shard) {
        let shard = Shard::default();
        self.crowds[at.crowd].insert(at.leaf, Leaf { first, shard });
        self.replace_leaf(at, with);
    }

    /// Makes room for more leaves.
    fn reserve(&mut self, crowd: usize, more: usize, room: Room) -> Result<(), Refused> {
        let (length, capacity) = (self.crowds[crowd].len(), self.crowds[crowd].capacity());
        if length + more > capacity {
            let more = more + length / 4;
            self.check(0, (length + more - capacity) * LEAF_BYTES, room)?;
            let reserved = self.crowds[crowd].try_reserve_exact(more);
            reserved.map_err(|_| Refused::OutOfMemory)?;
            self.shard_bytes += ((self.crowds[crowd].capacity() - capacity) * LEAF_BYTES) as u64;
        }
        Ok(())
    }

    /// Inserts a crowd, for which it makes room.
    fn insert_crowd(&mut self, at: usize, crowd: Crowd, room: Room) -> Result<(), Refused> {
        let more = if self.crowds.len() == self.crowds.capacity() {
            1 + self.crowds.len() / 4
        } else {
            0
        };
        let bytes = crowd.capacity() * LEAF_BYTES;
        self.check(0, bytes + more * CROWD_BYTES, room)?;
        let reserved = self.crowds.try_reserve_exact(more);
        reserved.map_err(|_| Refused::OutOfMemory)?;
        self.shard_bytes += bytes as u64;
        self.crowds.insert(at, crowd);
        Ok(())
    }

    /// Removes a crowd, whose leaves have no shards or go elsewhere.
    fn remove_crowd(&mut self, at: usize) -> Crowd {
        let crowd = self.crowds.remove(at);
        self.shard_bytes -= (crowd.capacity() * LEAF_BYTES) as u64;
        if self.crowds.len() <= self.crowds.capacity() / 2 {
            memory::fit(&mut self.crowds);
        }
        crowd
    }

    /// Appends a crowd without leaves to a table that is being made. If its first leaf can't be made, the whole table is
    /// dropped, so nothing reads a crowd without leaves.
    pub(super) fn append_crowd(&mut self) -> Result<(), Refused> {
        self.insert_crowd(self.crowds.len(), Crowd::new(), &|| u64::MAX)
    }

    /// Appends a leaf to the last crowd of a table that is being made.
    pub(super) fn append_leaf(&mut self, first: u64, shard: Shard) -> Result<(), Refused> {
        let crowd = self.crowds.len() - 1;
        let leaf = self.crowds[crowd].len();
        self.reserve(crowd, 1, &|| u64::MAX)?;
        self.insert_leaf(Spot { crowd, leaf }, first, shard);
        Ok(())
    }

    /// Copies all crowds, or returns `None` if allocation fails.
    pub(super) fn cloned_crowds(&self) -> Option<Vec<Crowd>> {
        let leaf = |leaf: &Leaf| {
            let shard = leaf.shard.try_clone()?;
            Some(Leaf { shard, ..*leaf })
        };
        let crowds = self.crowds.iter();
        memory::collected(crowds.map(|crowd| memory::collected(crowd.iter().map(leaf))))
    }

    /// Returns the bytes of the unused capacity of the lists of leaves.
    pub(super) fn spare_bytes(&self) -> u64 {
        let crowds = self.crowds.iter();
        let spare = crowds.map(|crowd| crowd.capacity() - crowd.len());
        (spare.sum::<usize>() * LEAF_BYTES) as u64
    }

    /// Moves the allocations from leaf number `first` on, or all. Returns the number of the next one if it has to stop.
    pub(super) fn relocate_crowds(
        &mut self,
        first: Option<usize>,
        by: &mut impl Relocate,
    ) -> Option<usize> {
        let leaves = self.crowds.iter_mut().flatten().enumerate();
        for (number, leaf) in leaves.skip(first.unwrap_or(0)) {
            if first != Some(number) && by.should_stop() {
                return Some(number);
            }
            leaf.shard.relocate(|bytes| by.blob(bytes));
        }
        for crowd in &mut self.crowds {
            *crowd = by.table(std::mem::take(crowd));
        }
        self.crowds = by.table(std::mem::take(&mut self.crowds));
        None
    }
}
