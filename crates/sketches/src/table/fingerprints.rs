//! The fingerprints of a table, by the shards that hold them.

use crate::machine::memory::{self, Relocate, index};

use super::bits::{self, mask};
use super::digits;
use super::periods::{self, Periods, period_of};
use super::shard::{BUCKET_BITS, Builder, Found, Place, Refused, Shard, Widths};

/// The entries of a shard on average above which one is split. A shard has half as many to twice as many then. With more, heads
/// and buckets take fewer bits of an entry, and splits take longer.
pub(super) const SPLIT: u64 = 1024;
/// The entries of a shard on average below which two are joined. It is less than half of [`SPLIT`], so that the first shard is
/// not split and joined in turn.
const JOIN: u64 = 480;

/// What a table keeps of each fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing.
    Nothing,
    /// A count, from 1 on.
    Count,
    /// The period until which it stays, of a window of this many periods.
    Period(u32),
}

impl Payload {
    /// Returns the bits of an entry's tag.
    pub(super) const fn tag_bits(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Count => 2,
            Self::Period(periods) => periods::tag_bits(periods),
        }
    }

    /// Returns the fewest bits of a remainder. The digits of a count need one.
    pub(super) const fn least_remainder(self) -> u32 {
        match self {
            Self::Count => 1,
            Self::Nothing | Self::Period(_) => 0,
        }
    }

    /// Returns the most bits of a fingerprint.
    #[must_use]
    pub const fn most_bits(self) -> u32 {
        let most = bits::MOST + BUCKET_BITS - self.tag_bits();
        if most > Table::MOST_BITS {
            Table::MOST_BITS
        } else {
            most
        }
    }
}

/// A table of fingerprints.
#[derive(Debug)]
pub struct Table {
    pub(super) payload: Payload,
    /// The bits of an entry's tag.
    tag: u32,
    /// The bits of a fingerprint.
    pub(super) bits: u32,
    /// The bits that the fingerprints of a whole shard have in common. Those of a half have one more.
    pub(super) level: u32,
    /// The shards in the order of fingerprints: the whole ones, unused places, and the halves of all others. So a split or a
    /// join moves no other shard.
    pub(super) shards: Vec<Shard>,
    /// The number of whole shards.
    pub(super) wholes: usize,
    entries: u64,
    pub(super) fingerprints: u64,
    /// The bytes of all shards.
    shard_bytes: u64,
    /// The periods of the fingerprints, if these have some.
    pub(super) periods: Periods,
}

/// Where an entry belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Location {
    /// The number of the shard.
    pub shard: usize,
    pub place: Place,
    pub widths: Widths,
}

impl Table {
    /// The fewest bits of a fingerprint.
    pub const LEAST_BITS: u32 = BUCKET_BITS + 2;
    /// The most bits of a fingerprint.
    pub const MOST_BITS: u32 = 60;
    /// The fingerprints whose memory is prefetched together, so that the processor waits for it once.
    pub const BATCH: usize = 32;

    /// Creates an empty table of fingerprints of this many bits, or returns `None` if allocation fails. If the table has 2ⁿ of
    /// them, they should have four more bits than *n*: with fewer, groups may be full of the digits of counts.
    ///
    /// # Panics
    /// The bits are fewer than [`LEAST_BITS`](Self::LEAST_BITS) or more than [`Payload::most_bits`].
    pub fn new(bits: u32, payload: Payload) -> Option<Self> {
        let mut table = Self::with_room(bits, payload, 1)?;
        table.append(Shard::new()?);
        Some(table)
    }

    /// Returns a table to which `shards` shards are [appended](Self::append), or `None` if allocation fails.
    pub(super) fn with_room(bits: u32, payload: Payload, shards: u64) -> Option<Self> {
        assert!((Self::LEAST_BITS..=payload.most_bits()).contains(&bits));
        let level = shards.ilog2();
        Some(Self {
            payload,
            tag: payload.tag_bits(),
            bits,
            level,
            shards: memory::reserved(index(shards))?,
            wholes: index((2 << level) - shards),
            entries: 0,
            fingerprints: 0,
            shard_bytes: 0,
            periods: Periods::default(),
        })
    }

    /// Appends a shard to a table that is being made.
    pub(super) fn append(&mut self, shard: Shard) {
        self.shard_bytes += shard.memory_bytes() as u64;
        self.entries += shard.entries() as u64;
        self.shards.push(shard);
    }

    /// Copies the table, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            shards: memory::collected(self.shards.iter().map(Shard::try_clone))?,
            periods: self.periods.try_clone()?,
            ..*self
        })
    }

    /// Returns the bits of a fingerprint.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns what the table keeps of each fingerprint.
    pub const fn payload(&self) -> Payload {
        self.payload
    }

    /// Returns the number of different fingerprints, without those whose periods were [dropped](Self::drop_before).
    pub const fn fingerprints(&self) -> u64 {
        self.fingerprints
    }

    /// Returns the size of all allocations in bytes.
    pub const fn memory_bytes(&self) -> u64 {
        let shards = self.shards.capacity() * Shard::ENTRY_BYTES;
        self.shard_bytes + shards as u64 + self.periods.memory_bytes()
    }

    /// Returns the number of shards. Each is an allocation.
    pub const fn shards(&self) -> u64 {
        (2 << self.level) - self.wholes as u64
    }

    /// Returns the number of unused places.
    const fn unused(&self) -> usize {
        self.shards.len() - index(self.shards())
    }

    /// Returns the numbers of the shards from one on, in the order of fingerprints.
    pub(super) fn numbers_from(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let first_half = self.wholes + self.unused();
        (first..self.wholes).chain(first.max(first_half)..self.shards.len())
    }

    /// Moves the allocations from the one numbered `first` on. Returns the number of the next one if it has to stop.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        for number in self.numbers_from(first) {
            if number > first && by.should_stop() {
                return Some(number);
            }
            self.shards[number].relocate(|bytes| by.blob(bytes));
        }
        self.shards = by.table(std::mem::take(&mut self.shards));
        self.periods.relocate(by);
        None
    }

    #[inline]
    pub(super) const fn widths(&self, depth: u32) -> Widths {
        Widths {
            remainder: self.bits - depth - BUCKET_BITS,
            tag: self.tag,
            has_digits: matches!(self.payload, Payload::Count),
        }
    }

    /// Returns the bits that the fingerprints of a shard have in common.
    #[inline]
    pub(super) const fn depth(&self, number: usize) -> u32 {
        self.level + (number >= self.wholes) as u32
    }

    /// Returns the number that the first half would have if all shards were halves, perhaps below zero.
    #[inline]
    pub(super) const fn halves_from(&self) -> usize {
        self.shards.len().wrapping_sub(2 << self.level)
    }

    #[inline]
    pub(super) const fn locate(&self, fingerprint: u64) -> Location {
        let mut shard = index(fingerprint >> (self.bits - self.level));
        let depth = self.depth(shard);
        if depth > self.level {
            let half = index(fingerprint >> (self.bits - depth));
            shard = half.wrapping_add(self.halves_from());
        }
        let widths = self.widths(depth);
        let (bucket, remainder) = parts(fingerprint, widths);
        Location {
            shard,
            place: Place::new(bucket, remainder),
            widths,
        }
    }

    /// Looks for a fingerprint.
    #[inline(always)]
    pub(super) fn find(&self, fingerprint: u64) -> (Location, &Shard, Found) {
        let at = self.locate(fingerprint);
        let shard = &self.shards[at.shard];
        shard.prefetch(&at.place);
        (at, shard, shard.find(&at.place, at.widths))
    }

    /// Prefetches what additions of a few fingerprints read, at most [`BATCH`](Self::BATCH).
    #[inline]
    pub fn prefetch_each(&self, fingerprints: impl Iterator<Item = u64>) {
        self.locate_each(fingerprints);
    }

    /// Prefetches what searches for a few fingerprints read. Returns where they belong.
    #[inline(always)]
    fn locate_each(
        &self,
        fingerprints: impl Iterator<Item = u64>,
    ) -> [Option<(Location, &Shard)>; Self::BATCH] {
        let mut places = [None; Self::BATCH];
        for (place, fingerprint) in places.iter_mut().zip(fingerprints) {
            let at = self.locate(fingerprint);
            let shard = &self.shards[at.shard];
            shard.prefetch_head();
            *place = Some((at, shard));
        }
        for (at, shard) in places.iter().flatten() {
            shard.prefetch_group(&at.place, at.widths);
        }
        places
    }

    /// Returns whether a fingerprint is in the table. One with a period is if that is `oldest` or later.
    #[inline]
    pub fn contains(&self, fingerprint: u64, oldest: u64) -> bool {
        let (at, shard, found) = self.find(fingerprint);
        self.is_in(shard, &at, found, oldest)
    }

    #[inline]
    fn is_in(&self, shard: &Shard, at: &Location, found: Found, oldest: u64) -> bool {
        let is_live = |periods| {
            let tag = shard.tag(&at.place, found, at.widths);
            period_of(shard.base, tag, periods) >= oldest.max(self.dropped())
        };
        found.is_there()
            && match self.payload {
                Payload::Nothing | Payload::Count => true,
                Payload::Period(periods) => is_live(periods),
            }
    }

    /// Writes for each fingerprint whether it is in the table, as [`contains`](Self::contains) says.
    pub fn contains_each(&self, fingerprints: &[u64], oldest: u64, answers: &mut [bool]) {
        let batches = fingerprints.chunks(Self::BATCH);
        let batches = batches.zip(answers.chunks_mut(Self::BATCH));
        for (fingerprints, answers) in batches {
            let places = self.locate_each(fingerprints.iter().copied());
            for ((at, shard), answer) in places.iter().flatten().zip(answers) {
                let found = shard.find(&at.place, at.widths);
                *answer = self.is_in(shard, at, found, oldest);
            }
        }
    }

    /// Adds a fingerprint to a table that keeps nothing of it. Returns whether it is new. The table takes at most as many bytes
    /// as `most_bytes` returns, which it calls only before it takes more.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn add(&mut self, fingerprint: u64, most_bytes: impl Fn() -> u64) -> Result<bool, Refused> {
        let (at, _, found) = self.find(fingerprint);
        if !found.is_there() {
            self.insert(&at, found, 0, &most_bytes)?;
            self.resize(&most_bytes);
        }
        Ok(!found.is_there())
    }

    /// Inserts an entry where a search for it ended. Callers [resize](Self::resize) the table when the entry is counted.
    pub(super) fn insert(
        &mut self,
        at: &Location,
        found: Found,
        tag: u64,
        most_bytes: &impl Fn() -> u64,
    ) -> Result<(), Refused> {
        self.grow(at, most_bytes, |shard, admits| {
            shard.insert(&at.place, found, at.widths, tag, admits)
        })?;
        self.fingerprints += 1;
        Ok(())
    }

    /// Changes entries of a group, which may grow while the limit admits it.
    #[inline]
    pub(super) fn grow<T>(
        &mut self,
        at: &Location,
        most_bytes: &impl Fn() -> u64,
        by: impl FnOnce(&mut Shard, &dyn Fn(usize) -> bool) -> T,
    ) -> T {
        let bytes = self.memory_bytes();
        let admits = |more: usize| bytes + more as u64 <= most_bytes();
        self.change(at, |shard| by(shard, &admits))
    }

    /// Changes entries of a group.
    #[inline]
    pub(super) fn change<T>(&mut self, at: &Location, by: impl FnOnce(&mut Shard) -> T) -> T {
        self.change_shard(at.shard, |shard| shard.entries_of(&at.place), by)
    }

    /// Changes a shard. `entries` counts the entries that may become more or fewer.
    #[inline]
    pub(super) fn change_shard<T>(
        &mut self,
        number: usize,
        entries: impl Fn(&Shard) -> usize,
        by: impl FnOnce(&mut Shard) -> T,
    ) -> T {
        let shard = &mut self.shards[number];
        let size = |shard: &Shard| (shard.memory_bytes() as u64, entries(shard) as u64);
        let (less, fewer) = size(shard);
        let done = by(shard);
        let (more, many) = size(shard);
        self.shard_bytes = self.shard_bytes - less + more;
        self.entries = self.entries - fewer + many;
        done
    }

    /// Splits or joins a shard if it is time. Without memory, or if fingerprints are not random, the shards stay as they are.
    pub(super) fn resize(&mut self, most_bytes: &impl Fn() -> u64) {
        let shards = self.shards();
        if self.entries > SPLIT * shards {
            let _ = self.split(most_bytes);
        } else if shards > 1 && self.entries < JOIN * shards {
            let _ = self.join(most_bytes);
        }
    }

    fn split(&mut self, most_bytes: &impl Fn() -> u64) -> Result<(), Refused> {
        if self.wholes == 0 {
            // The halves are whole at the next level.
            let unused = self.unused();
            self.shards.rotate_left(unused);
            self.wholes = index(self.shards());
            self.level += 1;
        }
        let last = self.wholes - 1;
        let [old, new] = [self.level, self.level + 1].map(|depth| self.widths(depth));
        if old.remainder <= self.payload.least_remainder() {
            return Ok(());
        }
        let shard = &self.shards[last];
        let mut builders = [Builder::new(new)?, Builder::new(new)?];
        each(shard, old, |bucket, remainder, payload| {
            let whole = u64::from(bucket) << old.remainder | remainder;
            let builder = &mut builders[index(whole >> (new.remainder + BUCKET_BITS))];
            let (bucket, remainder) = parts(whole, new);
            push(builder, bucket, remainder, payload)
        })?;
        let [low, high] = builders.map(|builder| builder.end(shard.base));
        let (low, high) = (low?, high?);
        let bytes = low.memory_bytes() + high.memory_bytes();
        let more = if self.unused() == 0 {
            1 + self.shards.len() / 8
        } else {
            0
        };
        self.check(&[last], bytes + more * Shard::ENTRY_BYTES, most_bytes)?;
        if more > 0 {
            self.move_shards(more).ok_or(Refused::OutOfMemory)?;
        }
        let first = last + self.unused() - 1;
        self.replace(last, Shard::default());
        self.wholes = last;
        self.replace(first, low);
        self.replace(first + 1, high);
        Ok(())
    }

    fn join(&mut self, most_bytes: &impl Fn() -> u64) -> Result<(), Refused> {
        if self.numbers_from(self.wholes).next().is_none() {
            // The shards are halves of the level before.
            let unused = self.unused();
            self.shards.rotate_right(unused);
            self.wholes = 0;
            self.level -= 1;
        }
        let first = self.wholes + self.unused();
        let halves = [first, first + 1];
        let bases = halves.map(|number| self.shards[number].base);
        if bases[0] != bases[1] {
            // Tags are read from one base.
            for number in halves {
                self.sweep(number, bases[0].max(bases[1]));
            }
        }
        let [old, new] = [self.level + 1, self.level].map(|depth| self.widths(depth));
        let mut builder = Builder::new(new)?;
        for (half, number) in (0..).zip(halves) {
            each(&self.shards[number], old, |bucket, remainder, payload| {
                let whole = half << (BUCKET_BITS + old.remainder)
                    | u64::from(bucket) << old.remainder
                    | remainder;
                let (bucket, remainder) = parts(whole, new);
                push(&mut builder, bucket, remainder, payload)
            })?;
        }
        let shard = builder.end(self.shards[first].base)?;
        self.check(&halves, shard.memory_bytes(), most_bytes)?;
        for number in halves {
            self.replace(number, Shard::default());
        }
        self.replace(self.wholes, shard);
        self.wholes += 1;
        let shards = index(self.shards());
        if shards < self.shards.len() / 2 {
            // Without memory, the places stay.
            let _ = self.move_shards(shards / 8);
        }
        Ok(())
    }

    /// Checks that the table may take more bytes in place of some shards.
    pub(super) fn check(
        &self,
        less: &[usize],
        more: usize,
        most_bytes: &impl Fn() -> u64,
    ) -> Result<(), Refused> {
        let less = less
            .iter()
            .map(|number| self.shards[*number].memory_bytes());
        let less: usize = less.sum();
        if more > less && self.memory_bytes() + (more - less) as u64 > most_bytes() {
            return Err(Refused::MemoryLimit);
        }
        Ok(())
    }

    /// Moves the shards to an allocation with this many unused places, or returns `None` if allocation fails.
    fn move_shards(&mut self, unused: usize) -> Option<()> {
        let mut moved = memory::reserved(index(self.shards()) + unused)?;
        let skipped = self.unused();
        let mut shards = std::mem::take(&mut self.shards).into_iter();
        moved.extend(shards.by_ref().take(self.wholes));
        moved.resize_with(self.wholes + unused, Shard::default);
        moved.extend(shards.skip(skipped));
        self.shards = moved;
        Some(())
    }

    /// Replaces a shard by one with other entries.
    fn replace(&mut self, number: usize, shard: Shard) {
        self.change_shard(number, Shard::entries, |old| *old = shard);
    }

    /// Returns whether there are entries of periods that were dropped.
    pub(super) const fn has_dropped(&self) -> bool {
        matches!(self.payload, Payload::Period(_)) && self.entries > self.fingerprints
    }
}

/// Splits the last bits of a fingerprint into a bucket and a remainder.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a bucket has ten bits")]
pub(super) const fn parts(fingerprint: u64, widths: Widths) -> (u32, u64) {
    let bucket = fingerprint >> widths.remainder & mask(BUCKET_BITS);
    (bucket as u32, fingerprint & mask(widths.remainder))
}

/// Passes the bucket, the remainder and the payload of each fingerprint of a shard, in order, until there is an error. The
/// payload is a count, or else a tag.
pub(super) fn each(
    shard: &Shard,
    widths: Widths,
    mut each: impl FnMut(u32, u64, u64) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let mut done = Ok(());
    let mut each = |bucket, remainder, payload| {
        if done.is_ok() {
            done = each(bucket, remainder, payload);
        }
    };
    if widths.has_digits {
        digits::each(shard, widths, each);
    } else {
        shard.for_each(widths, &mut each);
    }
    done
}

/// Appends a fingerprint to a shard, with its count, or else its tag.
pub(super) fn push(
    to: &mut Builder,
    bucket: u32,
    remainder: u64,
    payload: u64,
) -> Result<(), Refused> {
    if to.widths().has_digits {
        digits::push(to, bucket, remainder, payload)
    } else {
        to.push(bucket, remainder, payload)
    }
}
