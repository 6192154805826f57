//! A shard of a table: entries in the order of their fingerprints, without empty slots.
//!
//! The first bits of a fingerprint choose the shard, the next four a group and six more a bucket of it. An entry is the rest
//! of the fingerprint, its *remainder*, above a tag of a few bits. A bucket's entries are a *run*.
//!
//! ```text
//! head   the number of entries of each group | where each group begins, and where the last one ends
//! group  which buckets have entries: a bit each | which entries end a run: a bit each | the entries
//! ```
//!
//! So the run of a bucket is found by counting bits: it is preceded by as many runs as there are buckets with entries before
//! it.

use crate::machine::memory;
use crate::machine::words::{self, Task, Use, Words};

use super::bits::{SPARE, close, get, mask, open, put, put_word, rank, select, word};

/// The bits of a bucket's number: its group, and the bucket in the group.
pub const BUCKET_BITS: u32 = 10;
/// The bits of the bucket in the group.
const GROUP_BITS: u32 = 6;
pub const GROUPS: usize = 1 << (BUCKET_BITS - GROUP_BITS);
/// The most entries of a group. Groups of random fingerprints have 26 to 128.
const GROUP_MOST: usize = u8::MAX as usize;

/// The bytes before the groups: a byte for the number of entries of each, and two for where it begins.
pub const HEAD: usize = 3 * GROUPS + 2;
/// Groups begin at multiples of this many bytes behind the head, so most additions move no other group.
pub const UNIT: usize = 4;

/// The bits of a shard's entries, at most `bits::MOST`.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    /// Those of a remainder.
    pub remainder: u32,
    /// Those of a tag.
    pub tag: u32,
    /// Whether entries whose tag is all ones belong to the one before them.
    pub has_digits: bool,
}

impl Widths {
    const fn entry(self) -> u32 {
        self.remainder + self.tag
    }

    /// Returns whether an entry belongs to the one before it.
    #[inline]
    const fn is_digit(self, entry: u64) -> bool {
        self.has_digits && entry & mask(self.tag) == mask(self.tag)
    }

    /// Returns the bits of so many entries.
    const fn entries(self, count: usize) -> usize {
        count * self.entry() as usize
    }

    /// Returns the bytes of a group.
    const fn group(self, count: usize) -> usize {
        if count == 0 {
            return 0;
        }
        let bytes = ENDS + count.div_ceil(8) + self.entries(count).div_ceil(8);
        bytes.next_multiple_of(UNIT)
    }
}

/// Where the bits of a group that end runs begin.
pub const ENDS: usize = 8;

/// Where in a shard the entry of a fingerprint belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    group: usize,
    bucket: u32,
    remainder: u64,
}

impl Place {
    /// Returns the place of a bucket and a remainder.
    #[inline]
    pub const fn new(bucket: u32, remainder: u64) -> Self {
        Self {
            group: (bucket >> GROUP_BITS) as usize,
            bucket: bucket & ((1 << GROUP_BITS) - 1),
            remainder,
        }
    }

    /// Returns the remainder.
    pub const fn remainder(&self) -> u64 {
        self.remainder
    }
}

/// Where a search ended.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The number of the entry in its group.
    index: usize,
    what: What,
}

/// What a search ended at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The entry.
    Entry,
    /// A larger entry of the run.
    Larger,
    /// The end of the run.
    End,
    /// An empty bucket.
    Nothing,
}

impl Found {
    /// Returns whether the entry is there.
    #[inline]
    pub fn is_there(self) -> bool {
        self.what == What::Entry
    }
}

/// Why a shard did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Memory allocation failed.
    OutOfMemory,
    /// The table would exceed the limit on memory.
    MemoryLimit,
    /// A group is full: the fingerprints are not random.
    Crowded,
}

/// A search for an entry.
struct Find<'f> {
    shard: &'f Shard,
    place: &'f Place,
    widths: Widths,
}

impl Task for Find<'_> {
    const USE: Use = Use::Passes;
    type Output = Found;

    #[inline(always)]
    fn run<W: Words>(self) -> Found {
        self.shard.find_here(self.place, self.widths)
    }
}

/// The entries of a shard. The default is no shard, and takes no memory.
#[derive(Debug, Default)]
pub struct Shard {
    /// A head, the groups, and `SPARE` bytes or more.
    bytes: Box<[u8]>,
    /// The period from which tags that are periods are read.
    pub base: u64,
}

impl Shard {
    /// Size of the entry of a shard in the table of shards, in bytes.
    pub const ENTRY_BYTES: usize = memory::stated::<Self>(24);

    /// Creates an empty shard, or returns `None` if allocation fails.
    pub fn new() -> Option<Self> {
        let bytes = memory::zeroed(allocated_for(HEAD))?;
        Some(Self { bytes, base: 0 })
    }

    /// Copies the shard, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            bytes: memory::copied(&self.bytes)?,
            ..*self
        })
    }

    /// Returns the size of the allocation in bytes.
    pub const fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Moves the allocation.
    pub fn relocate(&mut self, by: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.bytes = by(std::mem::take(&mut self.bytes));
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        let counts = self.bytes.iter().take(GROUPS);
        counts.map(|count| usize::from(*count)).sum()
    }

    /// Returns the number of entries of a group.
    #[inline]
    pub fn entries_of(&self, place: &Place) -> usize {
        self.count(place.group)
    }

    /// Prefetches what a search probably reads: the head, and where the group would be if the groups were of one size and took
    /// nine tenths of the allocation. So both come at once, although the head says where the group is.
    #[inline]
    pub fn prefetch(&self, place: &Place) {
        self.prefetch_head();
        let middle = HEAD + (self.bytes.len() - HEAD) * 9 * (2 * place.group + 1) / (20 * GROUPS);
        for line in [middle.saturating_sub(64), middle, middle + 64] {
            memory::prefetch(&self.bytes, line);
        }
    }

    /// Prefetches the head.
    #[inline(always)]
    pub fn prefetch_head(&self) {
        memory::prefetch(&self.bytes, 0);
    }

    /// Prefetches what a search reads of a group, where the head says.
    #[inline(always)]
    pub fn prefetch_group(&self, place: &Place, widths: Widths) {
        let (count, at) = (self.count(place.group), self.begin(place.group));
        let before = count * place.bucket as usize / 64;
        memory::prefetch(&self.bytes, at);
        memory::prefetch(
            &self.bytes,
            (Self::first(at, count) + widths.entries(before)) / 8,
        );
    }

    #[inline]
    fn count(&self, group: usize) -> usize {
        self.bytes[group].into()
    }

    /// Returns where a group begins. Behind the last group, there is the end.
    #[inline]
    fn begin(&self, group: usize) -> usize {
        let units = self.bytes[units_of(group)].try_into().expect("two bytes");
        HEAD + UNIT * usize::from(u16::from_le_bytes(units))
    }

    /// Returns the first bit of the entries of a group.
    #[inline]
    const fn first(at: usize, count: usize) -> usize {
        8 * (at + ENDS + count.div_ceil(8))
    }

    /// Looks for an entry, with the instructions of this processor that count bits.
    #[inline]
    pub fn find(&self, place: &Place, widths: Widths) -> Found {
        words::run(Find {
            shard: self,
            place,
            widths,
        })
    }

    #[inline(always)]
    fn find_here(&self, place: &Place, widths: Widths) -> Found {
        let Place {
            group,
            bucket,
            remainder,
        } = *place;
        let (count, at) = (self.count(group), self.begin(group));
        let nothing = |index| Found {
            index,
            what: What::Nothing,
        };
        if count == 0 {
            return nothing(0);
        }
        let used = word(&self.bytes, at);
        let runs = (used & mask(bucket)).count_ones();
        let mut index = match runs.checked_sub(1) {
            Some(last) => select(&self.bytes, at + ENDS, last) + 1,
            None => 0,
        };
        if used >> bucket & 1 == 0 {
            return nothing(index);
        }
        let width = widths.entry();
        let mut bit = Self::first(at, count) + widths.entries(index);
        loop {
            let entry = get(&self.bytes, bit, width);
            let other = entry >> widths.tag;
            if other >= remainder && !widths.is_digit(entry) {
                let what = if other == remainder {
                    What::Entry
                } else {
                    What::Larger
                };
                return Found { index, what };
            }
            let is_last = get(&self.bytes, 8 * (at + ENDS) + index, 1) == 1;
            index += 1;
            if is_last {
                return Found {
                    index,
                    what: What::End,
                };
            }
            bit += width as usize;
        }
    }

    /// Returns the tag of an entry.
    #[inline]
    pub fn tag(&self, place: &Place, found: Found, widths: Widths) -> u64 {
        self.entry(place.group, found.index, widths) & mask(widths.tag)
    }

    /// Returns the tag of an entry and of those that follow it in its run, each with its remainder.
    pub fn tags(
        &self,
        place: &Place,
        found: Found,
        widths: Widths,
    ) -> impl Iterator<Item = (u64, u64)> {
        let mut next = Some(found.index);
        std::iter::from_fn(move || {
            let index = next?;
            next = (!self.ends_run(place.group, index)).then_some(index + 1);
            let entry = self.entry(place.group, index, widths);
            Some((entry >> widths.tag, entry & mask(widths.tag)))
        })
    }

    #[inline]
    fn entry(&self, group: usize, index: usize, widths: Widths) -> u64 {
        let first = Self::first(self.begin(group), self.count(group));
        get(&self.bytes, first + widths.entries(index), widths.entry())
    }

    fn ends_run(&self, group: usize, index: usize) -> bool {
        get(&self.bytes, 8 * (self.begin(group) + ENDS) + index, 1) == 1
    }

    /// Replaces an entry, or one that follows it by `behind`.
    pub fn replace(
        &mut self,
        place: &Place,
        found: Found,
        behind: usize,
        widths: Widths,
        remainder: u64,
        tag: u64,
    ) {
        let first = Self::first(self.begin(place.group), self.count(place.group));
        let at = first + widths.entries(found.index + behind);
        put(
            &mut self.bytes,
            at,
            widths.entry(),
            remainder << widths.tag | tag,
        );
    }

    /// Inserts an entry where a search for it ended. `admits` returns whether the allocation may grow by a number of bytes.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn insert(
        &mut self,
        place: &Place,
        found: Found,
        widths: Widths,
        tag: u64,
        admits: &dyn Fn(usize) -> bool,
    ) -> Result<(), Refused> {
        let is_new = found.what == What::Nothing;
        let end = if found.what == What::End {
            found.index - 1
        } else {
            found.index
        };
        self.insert_at(
            place,
            found.index,
            (end, is_new),
            widths,
            place.remainder << widths.tag | tag,
            admits,
        )
    }

    /// Inserts an entry behind another of its run, by `behind`. `admits` returns whether the allocation may grow by a number of
    /// bytes.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn insert_behind(
        &mut self,
        place: &Place,
        found: Found,
        behind: usize,
        widths: Widths,
        admits: &dyn Fn(usize) -> bool,
    ) -> Result<(), Refused> {
        let index = found.index + behind;
        let end = if self.ends_run(place.group, index - 1) {
            index - 1
        } else {
            index
        };
        self.insert_at(place, index, (end, false), widths, 0, admits)
    }

    /// Inserts an entry, and a bit among those that end runs.
    fn insert_at(
        &mut self,
        place: &Place,
        index: usize,
        (end, is_end): (usize, bool),
        widths: Widths,
        entry: u64,
        admits: &dyn Fn(usize) -> bool,
    ) -> Result<(), Refused> {
        let group = place.group;
        let count = self.count(group);
        if count == GROUP_MOST {
            return Err(Refused::Crowded);
        }
        let sizes = [count, count + 1].map(|count| widths.group(count));
        self.resize(group, sizes, admits)?;
        let at = self.begin(group);
        let bytes = &mut self.bytes;
        let (old, first) = (Self::first(at, count), Self::first(at, count + 1));
        if old != first {
            let entries = old / 8..(old + widths.entries(count)).div_ceil(8);
            bytes.copy_within(entries, first / 8);
            bytes[first / 8 - 1] = 0;
        }
        let begin = first + widths.entries(index);
        open(bytes, begin, first + widths.entries(count), widths.entry());
        put(bytes, begin, widths.entry(), entry);
        let ends = 8 * (at + ENDS);
        open(bytes, ends + end, ends + count, 1);
        put(bytes, ends + end, 1, is_end.into());
        if is_end {
            let used = if count == 0 { 0 } else { word(bytes, at) };
            put_word(bytes, at, used | 1 << place.bucket);
        }
        bytes[group] += 1;
        Ok(())
    }

    /// Removes an entry, or one that follows it by `behind`.
    pub fn remove(&mut self, place: &Place, found: Found, behind: usize, widths: Widths) {
        let count = self.count(place.group);
        self.take(place.group, found.index + behind, widths);
        self.shrink(place.group, count, widths);
    }

    /// Removes the entries whose tags are not to be kept.
    pub fn retain(&mut self, widths: Widths, is_kept: impl Fn(u64) -> bool) {
        for group in 0..GROUPS {
            let (count, at) = (self.count(group), self.begin(group));
            let mut first = Self::first(at, count);
            for index in (0..count).rev() {
                let tag = get(&self.bytes, first + widths.entries(index), widths.tag);
                if !is_kept(tag) {
                    self.take(group, index, widths);
                    first = Self::first(at, self.count(group));
                }
            }
            self.shrink(group, count, widths);
        }
    }

    /// Removes an entry from a group, which keeps its bytes.
    fn take(&mut self, group: usize, index: usize, widths: Widths) {
        let (count, at) = (self.count(group), self.begin(group));
        let is_last = self.ends_run(group, index);
        let is_first = index == 0 || self.ends_run(group, index - 1);
        let bytes = &mut self.bytes;
        let ends = 8 * (at + ENDS);
        let end = if is_last && !is_first {
            index - 1
        } else {
            index
        };
        if is_last && is_first {
            let used = word(bytes, at);
            let bucket = select(bytes, at, rank(bytes, at + ENDS, index));
            put_word(bytes, at, used & !(1 << bucket));
        }
        close(bytes, ends + end, ends + count, 1);
        let (old, first) = (Self::first(at, count), Self::first(at, count - 1));
        close(
            bytes,
            old + widths.entries(index),
            old + widths.entries(count),
            widths.entry(),
        );
        if old != first {
            let entries = old / 8..(old + widths.entries(count - 1)).div_ceil(8);
            bytes.copy_within(entries, first / 8);
        }
        bytes[group] -= 1;
    }

    /// Frees the bytes that a group of `count` entries no longer needs.
    fn shrink(&mut self, group: usize, count: usize, widths: Widths) {
        let sizes = [count, self.count(group)].map(|count| widths.group(count));
        let smaller = self.resize(group, sizes, &|_| true);
        debug_assert!(smaller.is_ok(), "a smaller group needs no memory");
    }

    /// Changes the bytes of a group. Only a larger one may need memory.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    #[inline]
    fn resize(
        &mut self,
        group: usize,
        [old, new]: [usize; 2],
        admits: &dyn Fn(usize) -> bool,
    ) -> Result<(), Refused> {
        if old == new {
            return Ok(());
        }
        let (begin, end) = (self.begin(group), self.begin(GROUPS));
        let (kept, moved) = (begin + old.min(new), begin + old..end);
        let new_end = end - old + new;
        let allocated = allocated_for(new_end);
        let more = allocated.saturating_sub(self.bytes.len());
        if more > 0 && !admits(more) {
            return Err(Refused::MemoryLimit);
        }
        let is_due = more > 0 || 4 * allocated <= 3 * self.bytes.len();
        match is_due.then(|| memory::zeroed(allocated)).flatten() {
            Some(mut bytes) => {
                bytes[..kept].copy_from_slice(&self.bytes[..kept]);
                bytes[begin + new..new_end].copy_from_slice(&self.bytes[moved]);
                self.bytes = bytes;
            }
            None if more > 0 => return Err(Refused::OutOfMemory),
            None => self.bytes.copy_within(moved, begin + new),
        }
        let more = units(new).wrapping_sub(units(old));
        let later = GROUPS + 2 * (group + 1)..HEAD;
        for begin in self.bytes[later].as_chunks_mut().0 {
            *begin = u16::from_le_bytes(*begin).wrapping_add(more).to_le_bytes();
        }
        Ok(())
    }

    /// Passes the bucket, the remainder and the tag of each entry, in order.
    pub fn for_each(&self, widths: Widths, mut each: impl FnMut(u32, u64, u64)) {
        for group in 0..GROUPS {
            let (count, at) = (self.count(group), self.begin(group));
            let first = Self::first(at, count);
            let mut used = if count == 0 { 0 } else { word(&self.bytes, at) };
            for index in 0..count {
                let entry = get(&self.bytes, first + widths.entries(index), widths.entry());
                let bucket = bucket_of(group, used.trailing_zeros());
                each(bucket, entry >> widths.tag, entry & mask(widths.tag));
                if self.bytes[at + ENDS + index / 8] >> (index % 8) & 1 == 1 {
                    used &= used - 1;
                }
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "there are 16 groups")]
const fn bucket_of(group: usize, bucket: u32) -> u32 {
    (group as u32) << GROUP_BITS | bucket
}

/// Returns the bytes of the head that say where a group begins.
#[inline]
const fn units_of(group: usize) -> std::ops::Range<usize> {
    let at = GROUPS + 2 * group;
    at..at + 2
}

/// Returns the number of units in bytes of groups.
fn units(bytes: usize) -> u16 {
    u16::try_from(bytes / UNIT).expect("full groups of the widest entries have 33 KiB")
}

/// Returns how many bytes to allocate for a head and groups: those that jemalloc would give, which has four sizes between a
/// power of two and the next.
pub const fn allocated_for(bytes: usize) -> usize {
    let bytes = bytes + SPARE;
    let step = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(if step < 16 { 16 } else { step })
}

/// Makes a shard of entries that come in order.
#[derive(Debug)]
pub struct Builder {
    widths: Widths,
    /// The groups before this one, behind a head.
    bytes: Vec<u8>,
    group: usize,
    /// The buckets and entries of this group.
    entries: Vec<(u32, u64)>,
}

impl Builder {
    /// Begins a shard.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    pub fn new(widths: Widths) -> Result<Self, Refused> {
        let mut builder = Self {
            widths,
            bytes: Vec::new(),
            group: 0,
            entries: memory::reserved(GROUP_MOST).ok_or(Refused::OutOfMemory)?,
        };
        builder.extend(HEAD)?;
        Ok(builder)
    }

    /// Appends zeros to the bytes.
    fn extend(&mut self, by: usize) -> Result<(), Refused> {
        let room = self.bytes.try_reserve(by);
        room.map_err(|_| Refused::OutOfMemory)?;
        self.bytes.resize(self.bytes.len() + by, 0);
        Ok(())
    }

    /// Returns the bits of the entries.
    pub const fn widths(&self) -> Widths {
        self.widths
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn push(&mut self, bucket: u32, remainder: u64, tag: u64) -> Result<(), Refused> {
        let place = Place::new(bucket, remainder);
        while self.group < place.group {
            self.end_group()?;
        }
        if self.entries.len() == GROUP_MOST {
            return Err(Refused::Crowded);
        }
        self.entries
            .push((place.bucket, remainder << self.widths.tag | tag));
        Ok(())
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "a group has at most 255 entries, and bits are written by the word"
    )]
    fn end_group(&mut self) -> Result<(), Refused> {
        let (count, at) = (self.entries.len(), self.bytes.len());
        let size = self.widths.group(count);
        self.extend(size + SPARE)?;
        let (mut used, mut ends) = (0, [0; GROUP_MOST.div_ceil(8)]);
        // The bits of entries that are not written yet, and their number.
        let (mut bits, mut left, mut to) = (0, 0, Shard::first(at, count) / 8);
        let mut next = self.entries.iter().skip(1);
        for (index, (bucket, entry)) in self.entries.iter().enumerate() {
            used |= 1 << bucket;
            let is_last = next.next().is_none_or(|next| next.0 != *bucket);
            ends[index / 8] |= u8::from(is_last) << (index % 8);
            bits |= u128::from(*entry) << left;
            left += self.widths.entry();
            if left >= u64::BITS {
                put_word(&mut self.bytes, to, bits as u64);
                (bits, left, to) = (bits >> u64::BITS, left - u64::BITS, to + 8);
            }
        }
        if count > 0 {
            put_word(&mut self.bytes, to, bits as u64);
            put_word(&mut self.bytes, at, used);
            let ends = &ends[..count.div_ceil(8)];
            self.bytes[at + ENDS..][..ends.len()].copy_from_slice(ends);
        }
        self.bytes.truncate(at + size);
        self.bytes[self.group] = count as u8;
        self.entries.clear();
        self.group += 1;
        let begin = units(at + size - HEAD).to_le_bytes();
        self.bytes[units_of(self.group)].copy_from_slice(&begin);
        Ok(())
    }

    /// Returns the shard.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    pub fn end(mut self, base: u64) -> Result<Shard, Refused> {
        while self.group < GROUPS {
            self.end_group()?;
        }
        let mut bytes =
            memory::zeroed(allocated_for(self.bytes.len())).ok_or(Refused::OutOfMemory)?;
        bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        Ok(Shard { bytes, base })
    }
}
