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

use super::bits::{SPARE, close, get, mask, open, put, put_word, select, word};

/// The bits of a bucket's number: its group, and the bucket in the group.
pub const BUCKET_BITS: u32 = 10;
/// The bits of the bucket in the group.
const GROUP_BITS: u32 = 6;
const GROUPS: usize = 1 << (BUCKET_BITS - GROUP_BITS);
/// The most entries of a group. Groups of random fingerprints have 26 to 128.
const GROUP_MOST: usize = u8::MAX as usize;

/// The bytes before the groups: a byte for the number of entries of each, and two for where it begins.
const HEAD: usize = 3 * GROUPS + 2;
/// Groups begin at multiples of this many bytes behind the head, so most additions move no other group.
const UNIT: usize = 4;

/// The bits of a shard's entries, at most `bits::MOST`.
#[derive(Clone, Copy, Debug)]
pub struct Widths {
    /// Those of a remainder.
    pub remainder: u32,
    /// Those of a tag.
    pub tag: u32,
}

impl Widths {
    const fn entry(self) -> u32 {
        self.remainder + self.tag
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
const ENDS: usize = 8;

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
    /// A group is full: the fingerprints are not random.
    Crowded,
}

/// The entries of a shard. The bytes are a head, the groups, and `SPARE` bytes or more.
#[derive(Debug)]
pub struct Shard(Box<[u8]>);

impl Shard {
    /// Creates an empty shard, or returns `None` if allocation fails.
    pub fn new() -> Option<Self> {
        memory::zeroed(allocated_for(HEAD)).map(Self)
    }

    /// Copies the shard, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        memory::copied(&self.0).map(Self)
    }

    /// Returns the size of the allocation in bytes.
    pub const fn memory_bytes(&self) -> usize {
        self.0.len()
    }

    /// Moves the allocation.
    pub fn relocate(&mut self, by: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.0 = by(std::mem::take(&mut self.0));
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        (0..GROUPS).map(|group| self.count(group)).sum()
    }

    /// Prefetches what a search probably reads: the head, and where the group would be if the groups were of one size and took
    /// nine tenths of the allocation. So both come at once, although the head says where the group is.
    #[inline]
    pub fn prefetch(&self, place: &Place) {
        memory::prefetch(&self.0, 0);
        let middle = HEAD + (self.0.len() - HEAD) * 9 * (2 * place.group + 1) / (20 * GROUPS);
        for line in [middle.saturating_sub(64), middle, middle + 64] {
            memory::prefetch(&self.0, line);
        }
    }

    #[inline]
    fn count(&self, group: usize) -> usize {
        self.0[group].into()
    }

    /// Returns where a group begins. Behind the last group, there is the end.
    #[inline]
    fn begin(&self, group: usize) -> usize {
        let units = self.0[units_of(group)].try_into().expect("two bytes");
        HEAD + UNIT * usize::from(u16::from_le_bytes(units))
    }

    /// Returns the first bit of the entries of a group.
    #[inline]
    const fn first(at: usize, count: usize) -> usize {
        8 * (at + ENDS + count.div_ceil(8))
    }

    /// Looks for an entry. If `has_digits` is set, entries whose tag is all ones belong to the one before them.
    #[inline]
    pub fn find(&self, place: &Place, widths: Widths, has_digits: bool) -> Found {
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
        let used = word(&self.0, at);
        let runs = (used & mask(bucket)).count_ones();
        let mut index = match runs.checked_sub(1) {
            Some(last) => select(&self.0, at + ENDS, last) + 1,
            None => 0,
        };
        if used >> bucket & 1 == 0 {
            return nothing(index);
        }
        let width = widths.entry();
        let mut bit = Self::first(at, count) + widths.entries(index);
        loop {
            let entry = get(&self.0, bit, width);
            let other = entry >> widths.tag;
            let is_digit = has_digits && entry & mask(widths.tag) == mask(widths.tag);
            if other >= remainder && !is_digit {
                let what = if other == remainder {
                    What::Entry
                } else {
                    What::Larger
                };
                return Found { index, what };
            }
            let is_last = get(&self.0, 8 * (at + ENDS) + index, 1) == 1;
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

    fn entry(&self, group: usize, index: usize, widths: Widths) -> u64 {
        let first = Self::first(self.begin(group), self.count(group));
        get(&self.0, first + widths.entries(index), widths.entry())
    }

    fn ends_run(&self, group: usize, index: usize) -> bool {
        get(&self.0, 8 * (self.begin(group) + ENDS) + index, 1) == 1
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
            &mut self.0,
            at,
            widths.entry(),
            remainder << widths.tag | tag,
        );
    }

    /// Inserts an entry where a search for it ended.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn insert(
        &mut self,
        place: &Place,
        found: Found,
        widths: Widths,
        tag: u64,
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
        )
    }

    /// Inserts an entry behind another of its run, by `behind`.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn insert_behind(
        &mut self,
        place: &Place,
        found: Found,
        behind: usize,
        widths: Widths,
    ) -> Result<(), Refused> {
        let index = found.index + behind;
        let end = if self.ends_run(place.group, index - 1) {
            index - 1
        } else {
            index
        };
        self.insert_at(place, index, (end, false), widths, 0)
    }

    /// Inserts an entry, and a bit among those that end runs.
    fn insert_at(
        &mut self,
        place: &Place,
        index: usize,
        (end, is_end): (usize, bool),
        widths: Widths,
        entry: u64,
    ) -> Result<(), Refused> {
        let group = place.group;
        let count = self.count(group);
        if count == GROUP_MOST {
            return Err(Refused::Crowded);
        }
        self.resize(group, widths.group(count), widths.group(count + 1))
            .ok_or(Refused::OutOfMemory)?;
        let at = self.begin(group);
        let bytes = &mut self.0;
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
        let (group, index) = (place.group, found.index + behind);
        let (count, at) = (self.count(group), self.begin(group));
        let is_last = self.ends_run(group, index);
        let is_first = index == 0 || self.ends_run(group, index - 1);
        let bytes = &mut self.0;
        let ends = 8 * (at + ENDS);
        let end = if is_last && !is_first {
            index - 1
        } else {
            index
        };
        close(bytes, ends + end, ends + count, 1);
        if is_last && is_first {
            let used = word(bytes, at) & !(1 << place.bucket);
            put_word(bytes, at, used);
        }
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
        self.resize(group, widths.group(count), widths.group(count - 1));
    }

    /// Changes the bytes of a group. Returns `None` and changes nothing if allocation fails, which only a larger group may
    /// need.
    fn resize(&mut self, group: usize, old: usize, new: usize) -> Option<()> {
        if old == new {
            return Some(());
        }
        let (begin, end) = (self.begin(group), self.begin(GROUPS));
        let (kept, moved) = (begin + old.min(new), begin + old..end);
        let new_end = end - old + new;
        let allocated = allocated_for(new_end);
        let is_due = allocated > self.0.len() || 4 * allocated <= 3 * self.0.len();
        match is_due.then(|| memory::zeroed(allocated)).flatten() {
            Some(mut bytes) => {
                bytes[..kept].copy_from_slice(&self.0[..kept]);
                bytes[begin + new..new_end].copy_from_slice(&self.0[moved]);
                self.0 = bytes;
            }
            None if new_end + SPARE > self.0.len() => return None,
            None => self.0.copy_within(moved, begin + new),
        }
        for later in group + 1..=GROUPS {
            let begin = self.begin(later) - old + new;
            put_begin(&mut self.0, later, begin);
        }
        Some(())
    }

    /// Passes the bucket, the remainder and the tag of each entry, in order.
    pub fn for_each(&self, widths: Widths, mut each: impl FnMut(u32, u64, u64)) {
        for group in 0..GROUPS {
            let (count, at) = (self.count(group), self.begin(group));
            let first = Self::first(at, count);
            let mut used = if count == 0 { 0 } else { word(&self.0, at) };
            for index in 0..count {
                let entry = get(&self.0, first + widths.entries(index), widths.entry());
                let bucket = bucket_of(group, used.trailing_zeros());
                each(bucket, entry >> widths.tag, entry & mask(widths.tag));
                if get(&self.0, 8 * (at + ENDS) + index, 1) == 1 {
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

fn put_begin(bytes: &mut [u8], group: usize, begin: usize) {
    let units = u16::try_from((begin - HEAD) / UNIT)
        .expect("full groups of the widest entries have 33 KiB");
    bytes[units_of(group)].copy_from_slice(&units.to_le_bytes());
}

/// Returns how many bytes to allocate for a head and groups: those that jemalloc would give, which has four sizes between a
/// power of two and the next.
const fn allocated_for(bytes: usize) -> usize {
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
    /// The number of all entries.
    count: u64,
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
            count: 0,
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
        self.count += 1;
        Ok(())
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "a group has at most 255 entries"
    )]
    fn end_group(&mut self) -> Result<(), Refused> {
        let (count, at) = (self.entries.len(), self.bytes.len());
        let size = self.widths.group(count);
        self.extend(size + SPARE)?;
        let mut used = 0;
        for (index, (bucket, entry)) in self.entries.iter().enumerate() {
            used |= 1 << bucket;
            let next = self.entries.get(index + 1);
            let is_last = next.is_none_or(|next| next.0 != *bucket);
            put(&mut self.bytes, 8 * (at + ENDS) + index, 1, is_last.into());
            let bit = Shard::first(at, count) + self.widths.entries(index);
            put(&mut self.bytes, bit, self.widths.entry(), *entry);
        }
        if count > 0 {
            put_word(&mut self.bytes, at, used);
        }
        self.bytes.truncate(at + size);
        self.bytes[self.group] = count as u8;
        self.entries.clear();
        self.group += 1;
        put_begin(&mut self.bytes, self.group, at + size);
        Ok(())
    }

    /// Returns the shard and the number of its entries.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    pub fn end(mut self) -> Result<(Shard, u64), Refused> {
        while self.group < GROUPS {
            self.end_group()?;
        }
        let mut bytes =
            memory::zeroed(allocated_for(self.bytes.len())).ok_or(Refused::OutOfMemory)?;
        bytes[..self.bytes.len()].copy_from_slice(&self.bytes);
        Ok((Shard(bytes), self.count))
    }
}
