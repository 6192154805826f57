//! The shards of a table: which of them holds a fingerprint, and how they are split and joined.
//!
//! The first bits of a fingerprint choose its shard. If there are too many entries for the shards, one of them is split: the
//! fingerprints of a half have one more bit in common. So an addition or a removal splits at most one shard, or joins at most
//! two. Once all shards are split, the halves are the whole shards of the next level.
//!
//! A shard that has four times its share becomes a crowd (`crowds.rs`). Nothing else depends on whether fingerprints are random.

use std::iter::Chain;
use std::ops::Range;

use crate::machine::memory::{self, Relocate, index};

use super::bits::mask;
use super::codec::{BUCKET_BITS, Codec, Held, Payload, Widths};
use super::refused::Refused;
use super::shard::{Found, HEAD, Place, Shard};

/// The entries of a shard on average above which one is split. A shard has half as many to twice as many then. With more, heads
/// and buckets take fewer bits of an entry, and splits take longer.
pub const SPLIT: u64 = 1024;
/// The entries of a shard on average below which two are joined. It is less than half of [`SPLIT`], so that the first shard is
/// not split and joined in turn.
const JOIN: u64 = 480;
/// The entries above which a shard becomes a crowd.
pub const CROWD: usize = 4096;

/// Returns the most bytes that the shards may take. It is called only before they take more.
pub type Room<'r> = &'r dyn Fn() -> u64;

/// The shards of a table.
#[derive(Debug)]
pub struct Shards {
    codec: Codec,
    /// The bits that the fingerprints of a whole shard have in common. Those of a half have one more.
    level: u32,
    /// The shards in the order of fingerprints: the whole ones, unused places, and the halves of all others. So a split or a
    /// join moves no other shard. The place of a crowd has no shard.
    pub(super) regular: Vec<Shard>,
    /// The number of whole shards.
    wholes: usize,
    /// In the order of fingerprints.
    pub(super) crowds: Vec<Crowd>,
    pub(super) entries: u64,
    /// The bytes of all shards, and of the lists of leaves.
    pub(super) shard_bytes: u64,
    /// The period before which all fingerprints were dropped; 0 without periods. Entries of earlier periods are about to go.
    pub dropped: u64,
}

/// A shard for a part of a crowd's range. The part ends where that of the next leaf starts.
#[derive(Debug)]
pub struct Leaf {
    /// The first fingerprint of the part.
    pub first: u64,
    pub shard: Shard,
}

/// The leaves of a crowd, in order; at least one.
pub type Crowd = Vec<Leaf>;

/// The place of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub crowd: usize,
    pub leaf: usize,
}

/// Size of the entry of a crowd in the list of crowds, in bytes.
pub const CROWD_BYTES: usize = memory::stated::<Crowd>(24);

/// The place of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Its number among the shards of equal ranges.
    Regular(usize),
    /// The place of a leaf of a crowd.
    Leaf(Spot),
}

/// Where the entry of a fingerprint belongs.
#[derive(Clone, Copy, Debug)]
pub struct Location {
    pub address: Address,
    pub place: Place,
    pub widths: Widths,
}

impl Shards {
    /// The fewest bits of a fingerprint.
    pub const LEAST_BITS: u32 = BUCKET_BITS + 2;
    /// The fingerprints whose memory is prefetched together, so that the processor waits for it once.
    pub const BATCH: usize = 32;

    /// Creates one empty shard, or returns `None` if allocation fails.
    pub fn new(bits: u32, payload: Payload) -> Option<Self> {
        let mut shards = Self::with_room(bits, payload, 1)?;
        shards.append(Shard::new()?);
        Some(shards)
    }

    /// Returns the shards to which `count` are [appended](Self::append), or `None` if allocation fails.
    pub fn with_room(bits: u32, payload: Payload, count: u64) -> Option<Self> {
        assert!((Self::LEAST_BITS..=payload.most_bits()).contains(&bits));
        let level = count.ilog2();
        Some(Self {
            codec: Codec::new(bits, payload),
            level,
            regular: memory::reserved(index(count))?,
            wholes: index((2 << level) - count),
            crowds: Vec::new(),
            entries: 0,
            shard_bytes: 0,
            dropped: 0,
        })
    }

    /// Appends a shard while the table is being made; the default for a crowd.
    pub fn append(&mut self, shard: Shard) {
        self.shard_bytes += shard.memory_bytes() as u64;
        self.entries += shard.entries() as u64;
        self.regular.push(shard);
    }

    /// Returns the number of places that shards were appended to.
    pub const fn appended(&self) -> usize {
        self.regular.len()
    }

    /// Copies the shards, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            regular: memory::collected(self.regular.iter().map(Shard::try_clone))?,
            crowds: self.cloned_crowds()?,
            shard_bytes: self.shard_bytes - self.spare_bytes(),
            ..*self
        })
    }

    /// Returns how the fingerprints are written.
    pub const fn codec(&self) -> Codec {
        self.codec
    }

    /// Returns the number of entries.
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the size of all allocations in bytes.
    pub const fn memory_bytes(&self) -> u64 {
        let shards = self.regular.capacity() * Shard::ENTRY_BYTES;
        self.shard_bytes + (shards + self.crowds.capacity() * CROWD_BYTES) as u64
    }

    /// Returns the number of shards of equal ranges.
    const fn regular_count(&self) -> usize {
        index(2 << self.level) - self.wholes
    }

    /// Returns the number of shards and leaves. A crowd's place counts, too: it stands for the list of leaves.
    pub fn count(&self) -> usize {
        self.regular_count() + self.crowds.iter().map(Vec::len).sum::<usize>()
    }

    /// Returns the number of unused places.
    const fn unused(&self) -> usize {
        self.regular.len() - self.regular_count()
    }

    /// Returns the numbers of the shards from one on, in the order of fingerprints.
    pub(super) fn numbers_from(&self, first: usize) -> Chain<Range<usize>, Range<usize>> {
        let first_half = self.wholes + self.unused();
        (first..self.wholes).chain(first.max(first_half)..self.regular.len())
    }

    /// Moves the allocations from shard `first` on, counted from 0. Returns the count of the next one if it has to stop.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        let numbers = self.numbers_from(0).enumerate().skip(first);
        for (count, number) in numbers {
            if count > first && by.should_stop() {
                return Some(count);
            }
            self.regular[number].relocate(|bytes| by.blob(bytes));
        }
        let regular = self.regular_count();
        if let Some(next) = self.relocate_crowds(first.checked_sub(regular), by) {
            return Some(regular + next);
        }
        self.regular = by.table(std::mem::take(&mut self.regular));
        None
    }

    /// Returns whether a crowd has the place of this shard.
    #[inline(always)]
    pub(super) fn is_crowd(&self, number: usize) -> bool {
        self.regular[number].is_none()
    }

    /// Returns the bits that the fingerprints of a shard have in common.
    #[inline]
    const fn depth(&self, number: usize) -> u32 {
        self.level + (number >= self.wholes) as u32
    }

    /// Returns the number that the first half would have if all shards were halves, perhaps below zero.
    #[inline]
    const fn halves_from(&self) -> usize {
        self.regular.len().wrapping_sub(2 << self.level)
    }

    /// Returns the number of the shard of a fingerprint, and the bits of its range.
    #[inline(always)]
    pub(super) const fn number_of(&self, fingerprint: u64) -> (usize, u32) {
        let whole = index(fingerprint >> (self.codec.bits - self.level));
        let depth = self.depth(whole);
        if depth == self.level {
            return (whole, self.codec.bits - depth);
        }
        let half = index(fingerprint >> (self.codec.bits - depth));
        (
            half.wrapping_add(self.halves_from()),
            self.codec.bits - depth,
        )
    }

    /// Returns the length of the range of a shard.
    pub const fn range_length(&self, number: usize) -> u64 {
        1 << (self.codec.bits - self.depth(number))
    }

    /// Returns the range of a shard.
    pub(super) fn range_of(&self, number: usize) -> Range<u64> {
        let depth = self.depth(number);
        let before = if depth > self.level {
            self.halves_from()
        } else {
            0
        };
        let (number, bits) = (number.wrapping_sub(before) as u64, self.codec.bits - depth);
        number << bits..(number + 1) << bits
    }

    /// Returns where the entry of a fingerprint belongs.
    #[inline(always)]
    pub fn locate(&self, fingerprint: u64) -> Location {
        let (number, range) = self.number_of(fingerprint);
        let (address, distance, range) = if self.is_crowd(number) {
            let at = self.spot(fingerprint);
            let (first, range) = self.first_and_bits(at);
            (Address::Leaf(at), fingerprint - first, range)
        } else {
            (Address::Regular(number), fingerprint & mask(range), range)
        };
        let widths = self.codec.widths(range);
        Location {
            address,
            place: Place::new(distance, widths),
            widths,
        }
    }

    /// Returns the shard at a place.
    #[inline(always)]
    pub fn shard(&self, address: Address) -> &Shard {
        match address {
            Address::Regular(number) => &self.regular[number],
            Address::Leaf(at) => &self.leaf(at).shard,
        }
    }

    #[inline(always)]
    fn shard_mut(&mut self, address: Address) -> &mut Shard {
        match address {
            Address::Regular(number) => &mut self.regular[number],
            Address::Leaf(at) => &mut self.crowds[at.crowd][at.leaf].shard,
        }
    }

    /// Returns the range of the shard at a place.
    pub fn range_at(&self, address: Address) -> Range<u64> {
        match address {
            Address::Regular(number) => self.range_of(number),
            Address::Leaf(at) => self.range_of_leaf(at),
        }
    }

    /// Looks for a fingerprint. Returns where its entry belongs, the shard, and where in the shard the search ended.
    #[inline(always)]
    pub fn find(&self, fingerprint: u64) -> (Location, &Shard, Found) {
        let at = self.locate(fingerprint);
        let shard = self.shard(at.address);
        shard.prefetch(&at.place, at.widths);
        (at, shard, shard.find(&at.place, at.widths))
    }

    /// Prefetches what searches for a few fingerprints read, at most [`BATCH`](Self::BATCH). Returns where they belong.
    #[inline(always)]
    pub fn locate_each(
        &self,
        fingerprints: impl Iterator<Item = u64>,
    ) -> [Option<(&Shard, Place, Widths)>; Self::BATCH] {
        let mut places = [None; Self::BATCH];
        for (place, fingerprint) in places.iter_mut().zip(fingerprints) {
            let at = self.locate(fingerprint);
            let shard = self.shard(at.address);
            shard.prefetch_head(&at.place);
            *place = Some((shard, at.place, at.widths));
        }
        for (shard, place, widths) in places.iter().flatten() {
            shard.prefetch_group(place, *widths);
        }
        places
    }

    /// Inserts an entry, unless it is there. Then returns where it was found.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    #[inline(always)]
    pub fn insert(
        &mut self,
        at: &Location,
        tag: u64,
        room: Room,
    ) -> Result<Option<Found>, Refused> {
        let shard = self.shard_mut(at.address);
        shard.prefetch(&at.place, at.widths);
        let mut found = shard.insert(&at.place, at.widths, tag);
        if found.is_some_and(|found| !found.is_there()) {
            self.grow(at, room)?;
            found = self.shard_mut(at.address).insert(&at.place, at.widths, tag);
        }
        self.entries += u64::from(found.is_none());
        Ok(found)
    }

    /// Makes room for one more entry of a shard.
    ///
    /// # Errors
    /// [`Refused`]
    #[cold]
    pub fn grow(&mut self, at: &Location, room: Room) -> Result<(), Refused> {
        let bytes = self.memory_bytes();
        let admits = |more: usize| bytes + more as u64 <= room();
        self.change(at.address, |shard| shard.grow(at.widths, admits))
    }

    /// Changes a shard, and the sums of the bytes and entries of all.
    #[inline]
    pub fn change<T>(&mut self, address: Address, by: impl FnOnce(&mut Shard) -> T) -> T {
        let shard = self.shard_mut(address);
        let size = |shard: &Shard| (shard.memory_bytes() as u64, shard.entries() as u64);
        let (old_bytes, old_entries) = size(shard);
        let done = by(shard);
        let (bytes, entries) = size(shard);
        self.shard_bytes = self.shard_bytes - old_bytes + bytes;
        self.entries = self.entries - old_entries + entries;
        done
    }

    /// Checks that there is room for `more` bytes in place of `less`.
    ///
    /// # Errors
    /// [`Refused::MemoryLimit`]
    pub fn check(&self, less: usize, more: usize, room: Room) -> Result<(), Refused> {
        if more > less && self.memory_bytes() + (more - less) as u64 > room() {
            return Err(Refused::MemoryLimit);
        }
        Ok(())
    }

    /// Splits or joins what has become too large or too small when the entries of a fingerprint changed. Without memory, all
    /// stays as it is: a shard may be larger for a while.
    #[inline]
    pub fn settle(&mut self, at: Address, fingerprint: u64, room: Room) {
        let is_crowded = match at {
            Address::Regular(number) => self.regular[number].entries() > CROWD,
            Address::Leaf(_) => true,
        };
        if is_crowded {
            let _ = self.settle_crowd(fingerprint, room);
        }
        self.resize(room);
    }

    /// Splits a shard if there are many entries for the shards, or joins two if there are few.
    #[inline]
    pub fn resize(&mut self, room: Room) {
        let shards = self.regular_count() as u64;
        if self.entries > SPLIT * shards {
            let _ = self.split(room);
        } else if shards > 1 && self.entries < JOIN * shards {
            let _ = self.join(room);
        }
    }

    /// Splits the last whole shard. Its range has at least 7 bits: with fewer, no shard has over [`SPLIT`] entries on average.
    #[cold]
    fn split(&mut self, room: Room) -> Result<(), Refused> {
        // Two shards have one head more than one.
        self.check(0, HEAD, room)?;
        if self.wholes == 0 {
            // The halves are whole at the next level.
            let unused = self.unused();
            self.regular.rotate_left(unused);
            self.wholes = self.regular_count();
            self.level += 1;
        }
        let last = self.wholes - 1;
        let range = self.range_of(last);
        let middle = range.start.midpoint(range.end);
        let is_crowd = self.is_crowd(last);
        let halves = if is_crowd {
            [Shard::default(), Shard::default()]
        } else {
            let held = self.held([Address::Regular(last)])?;
            self.halves(range, middle, &held)?
        };
        let bytes = halves.iter().map(Shard::memory_bytes).sum::<usize>();
        let more = if self.unused() == 0 {
            1 + self.regular.len() / 8
        } else {
            0
        };
        let less = self.regular[last].memory_bytes();
        self.check(less, bytes + more * Shard::ENTRY_BYTES, room)?;
        if more > 0 {
            self.move_shards(more).ok_or(Refused::OutOfMemory)?;
        }
        if is_crowd {
            self.split_crowd(middle, room)?;
        }
        let first = last + self.unused() - 1;
        self.replace(last, Shard::default());
        self.wholes = last;
        for (number, half) in (first..).zip(halves) {
            self.replace(number, half);
            if self.is_crowd(number) {
                let _ = self.end_crowd_if_small(number, room);
            }
        }
        Ok(())
    }

    /// Joins the first two halves.
    #[cold]
    fn join(&mut self, room: Room) -> Result<(), Refused> {
        if self.numbers_from(self.wholes).next().is_none() {
            // The shards are halves of the level before.
            let unused = self.unused();
            self.regular.rotate_right(unused);
            self.wholes = 0;
            self.level -= 1;
        }
        let first = self.wholes + self.unused();
        let halves = [first, first + 1];
        let range = self.range_of(first).start..self.range_of(first + 1).end;
        let are_calm = !halves.iter().any(|half| self.is_crowd(*half));
        let entries = halves.map(|half| self.regular[half].entries());
        let joined = if are_calm && entries[0] + entries[1] <= CROWD {
            self.shard_of(range, &self.held(halves.map(Address::Regular))?)?
        } else {
            self.ensure_crowd(halves[1], room)?;
            let at = self.ensure_crowd(halves[0], room)?;
            self.join_crowds(at, room)?;
            Shard::default()
        };
        let less = halves.map(|half| self.regular[half].memory_bytes());
        self.check(less[0] + less[1], joined.memory_bytes(), room)?;
        for half in halves {
            self.replace(half, Shard::default());
        }
        self.replace(self.wholes, joined);
        self.wholes += 1;
        let shards = self.regular_count();
        if shards < self.regular.len() / 2 {
            // Without memory, the places stay.
            let _ = self.move_shards(shards / 8);
        }
        Ok(())
    }

    /// Moves the shards to an allocation with this many unused places, or returns `None` if allocation fails.
    fn move_shards(&mut self, unused: usize) -> Option<()> {
        let mut moved = memory::reserved(self.regular_count() + unused)?;
        let skipped = self.unused();
        let mut shards = std::mem::take(&mut self.regular).into_iter();
        moved.extend(shards.by_ref().take(self.wholes));
        moved.resize_with(self.wholes + unused, Shard::default);
        moved.extend(shards.skip(skipped));
        self.regular = moved;
        Some(())
    }

    /// Replaces a shard by one with other entries.
    pub(super) fn replace(&mut self, number: usize, shard: Shard) {
        self.change(Address::Regular(number), |old| *old = shard);
    }

    /// Returns the fingerprints of shards that follow one another, without those that were dropped.
    pub(super) fn held(
        &self,
        shards: impl IntoIterator<Item = Address> + Clone,
    ) -> Result<Vec<Held>, Refused> {
        let entries = |at| self.shard(at).entries();
        let all = shards.clone().into_iter().map(entries).sum();
        let mut held = memory::reserved(all).ok_or(Refused::OutOfMemory)?;
        for at in shards {
            let range = self.range_at(at);
            let widths = self.codec.widths_of(&range);
            let all = self.shard(at).iter(self.codec, widths, range.start);
            held.extend(all.filter(|held| held.value >= self.dropped));
        }
        Ok(held)
    }

    /// Makes a shard of the fingerprints of a range.
    pub(super) fn shard_of(&self, range: Range<u64>, held: &[Held]) -> Result<Shard, Refused> {
        let widths = self.codec.widths_of(&range);
        Shard::of(self.codec, widths, self.dropped, range.start, held)
    }

    /// Makes two shards of the fingerprints of a range, the second of those from `middle` on.
    pub(super) fn halves(
        &self,
        range: Range<u64>,
        middle: u64,
        held: &[Held],
    ) -> Result<[Shard; 2], Refused> {
        let (low, high) = held.split_at(held.partition_point(|held| held.fingerprint < middle));
        Ok([
            self.shard_of(range.start..middle, low)?,
            self.shard_of(middle..range.end, high)?,
        ])
    }
}
