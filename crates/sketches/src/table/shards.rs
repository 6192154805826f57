//! The shards of a table: which one has a fingerprint, and how they are split, joined and read in order.
//!
//! The first bits of a fingerprint choose its shard. If there are too many entries for the shards, one of these is split: the
//! fingerprints of a half have one more bit in common. So no addition or removal touches more than one shard, or two that are
//! joined. Once all shards of a length are split, the halves are whole.
//!
//! A shard that has four times its share becomes a crowd (`crowds.rs`). Nothing else depends on whether fingerprints are random.

use std::iter::Chain;
use std::ops::Range;

use crate::machine::memory::{self, Relocate, index};

use super::bits::mask;
use super::codec::BUCKET_BITS;
use super::codec::{Codec, Payload, Widths};
use super::leaves::{Leaves, Spot};
use super::refused::Refused;
use super::shard::{Builder, Found, Place, Shard};

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
    /// The leaves of all crowds.
    pub(super) leaves: Leaves,
    pub(super) entries: u64,
    /// The bytes of all shards and leaves.
    pub(super) shard_bytes: u64,
    /// The period before which all were dropped; 0 without periods. Entries of earlier ones are about to go.
    pub dropped: u64,
}

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
            leaves: Leaves::default(),
            entries: 0,
            shard_bytes: 0,
            dropped: 0,
        })
    }

    /// Appends a shard while they are being made: none for a crowd.
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
            leaves: self.leaves.try_clone()?,
            ..*self
        })
    }

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
        self.shard_bytes + (shards + self.leaves.memory_bytes()) as u64
    }

    /// Returns the number of shards of equal ranges.
    const fn regular_count(&self) -> usize {
        index(2 << self.level) - self.wholes
    }

    /// Returns the number of shards and leaves. Each is an allocation.
    pub const fn count(&self) -> usize {
        self.regular_count() + self.leaves.count()
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
        if let Some(next) = self.leaves.relocate(first.saturating_sub(regular), by) {
            return Some(regular + next);
        }
        self.regular = by.table(std::mem::take(&mut self.regular));
        None
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

    #[inline(always)]
    pub fn locate(&self, fingerprint: u64) -> Location {
        let (number, range) = self.number_of(fingerprint);
        let (address, distance, widths) = if self.regular[number].is_none() {
            let at = self.leaves.find(fingerprint);
            let leaf = self.leaves.get(at);
            let distance = fingerprint - leaf.first;
            (Address::Leaf(at), distance, leaf.widths(self.codec))
        } else {
            let distance = fingerprint & mask(range);
            (Address::Regular(number), distance, self.codec.widths(range))
        };
        Location {
            address,
            place: Place::new(distance, widths),
            widths,
        }
    }

    #[inline(always)]
    pub fn shard(&self, address: Address) -> &Shard {
        match address {
            Address::Regular(number) => &self.regular[number],
            Address::Leaf(at) => &self.leaves.get(at).shard,
        }
    }

    /// Returns the bits of the entries of a shard.
    pub fn widths_at(&self, address: Address) -> Widths {
        match address {
            Address::Regular(number) => self.codec.widths(self.codec.bits - self.depth(number)),
            Address::Leaf(at) => self.leaves.get(at).widths(self.codec),
        }
    }

    /// Returns the first fingerprint after the range of a shard; 0 after the last one.
    pub fn end_of(&self, address: Address) -> u64 {
        let end = match address {
            Address::Regular(number) => self.range_of(number).end,
            Address::Leaf(at) => self.leaves.get(at).end,
        };
        end & mask(self.codec.bits)
    }

    /// Looks for a fingerprint.
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

    /// Inserts an entry where a search for it ended.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    #[inline]
    pub fn insert(
        &mut self,
        at: &Location,
        found: Found,
        tag: u64,
        room: Room,
    ) -> Result<(), Refused> {
        self.grow(at.address, room, |shard, admits| {
            shard.insert(&at.place, found, at.widths, tag, admits)
        })
    }

    /// Changes entries of a shard, which may grow by a few entries while there is room.
    ///
    /// # Errors
    /// [`Refused`]
    #[inline]
    pub fn grow(
        &mut self,
        address: Address,
        room: Room,
        by: impl FnOnce(&mut Shard, &dyn Fn(usize) -> bool) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let bytes = self.memory_bytes();
        let admits = |more: usize| bytes + more as u64 <= room();
        self.change(address, |shard| {
            // Only without memory for leaves a shard has so many.
            if shard.entries() > Shard::MOST - 16 {
                return Err(Refused::OutOfMemory);
            }
            by(shard, &admits)
        })
    }

    /// Changes entries of a shard.
    #[inline]
    pub fn change<T>(&mut self, address: Address, by: impl FnOnce(&mut Shard) -> T) -> T {
        let shard = match address {
            Address::Regular(number) => &mut self.regular[number],
            Address::Leaf(at) => &mut self.leaves.get_mut(at).shard,
        };
        let size = |shard: &Shard| (shard.memory_bytes() as u64, shard.entries() as u64);
        let (less, fewer) = size(shard);
        let done = by(shard);
        let (more, many) = size(shard);
        self.shard_bytes = self.shard_bytes - less + more;
        self.entries = self.entries - fewer + many;
        done
    }

    /// Checks that there is room for more bytes in place of others.
    ///
    /// # Errors
    /// [`Refused::MemoryLimit`]
    pub fn check(&self, less: usize, more: usize, room: Room) -> Result<(), Refused> {
        if more > less && self.memory_bytes() + (more - less) as u64 > room() {
            return Err(Refused::MemoryLimit);
        }
        Ok(())
    }

    /// Splits or joins what has become too large or too small by the change of a fingerprint's entries. Without memory, all
    /// stays as it is: a shard may be larger for a while.
    #[inline]
    pub fn settle(&mut self, at: Address, fingerprint: u64, room: Room) {
        let is_crowd = match at {
            Address::Regular(number) => self.regular[number].entries() > CROWD,
            Address::Leaf(_) => true,
        };
        if is_crowd {
            let _ = self.settle_crowd(fingerprint, room);
        }
        self.resize(room);
    }

    /// Splits or joins a shard if it is time.
    pub fn resize(&mut self, room: Room) {
        let shards = self.regular_count() as u64;
        if self.entries > SPLIT * shards {
            let _ = self.split(room);
        } else if shards > 1 && self.entries < JOIN * shards {
            let _ = self.join(room);
        }
    }

    /// Splits the last whole shard.
    fn split(&mut self, room: Room) -> Result<(), Refused> {
        if !self.codec.can_halve(self.codec.bits - self.level) {
            return Ok(());
        }
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
        let halves = if self.regular[last].is_none() {
            self.cut_crowd(middle, room)?;
            [Shard::default(), Shard::default()]
        } else {
            self.built_halves(&self.regular[last], range, middle)?
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
        let first = last + self.unused() - 1;
        self.replace(last, Shard::default());
        self.wholes = last;
        for (number, half) in (first..).zip(halves) {
            self.replace(number, half);
            if self.regular[number].is_none() {
                let _ = self.calm(number, room);
            }
        }
        Ok(())
    }

    /// Joins the first two halves.
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
        let are_calm = halves.iter().all(|half| !self.regular[*half].is_none());
        let entries = halves.map(|half| self.regular[half].entries());
        let joined = if are_calm && entries[0] + entries[1] <= CROWD {
            self.built(range)?
        } else {
            for half in halves {
                self.crowd(half, room)?;
            }
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

    /// Builds a shard of the fingerprints of a range, which may be in several.
    pub(super) fn built(&self, range: Range<u64>) -> Result<Shard, Refused> {
        let base = self.common_base(range.clone());
        let widths = self.codec.widths_of(range.start, range.end);
        let mut builder = Builder::new(self.codec, widths);
        let first = range.start;
        for (fingerprint, held) in self.iter(range) {
            builder.push(fingerprint - first, held)?;
        }
        builder.end(base, widths)
    }

    /// Builds two shards of the fingerprints of one, whose range is cut at `middle`.
    pub(super) fn built_halves(
        &self,
        shard: &Shard,
        range: Range<u64>,
        middle: u64,
    ) -> Result<[Shard; 2], Refused> {
        let all = self.codec.widths_of(range.start, range.end);
        let low = self.codec.widths_of(range.start, middle);
        let high = self.codec.widths_of(middle, range.end);
        let mut builder = Builder::new(self.codec, low);
        let (mut begin, mut cut) = (0, None);
        for (distance, held) in shard.iter(self.codec, all) {
            if held < self.dropped {
                continue;
            }
            if distance >= middle - range.start && cut.is_none() {
                begin = middle - range.start;
                cut = Some(builder.end(shard.base, high)?);
            }
            builder.push(distance - begin, held)?;
        }
        let low = cut.map_or_else(|| builder.end(shard.base, high), Ok)?;
        Ok([low, builder.end(shard.base, high)?])
    }

    /// Returns a period from which the tags of all fingerprints of a range can be read.
    pub(super) fn common_base(&self, range: Range<u64>) -> u64 {
        let Payload::Period(periods) = self.codec.payload else {
            return 0;
        };
        let oldest = self.iter(range).map(|(_, period)| period).min();
        oldest.map_or(0, |oldest| oldest + u64::from(periods) - 1)
    }
}
