//! A shard of a table: the fingerprints of a range in ascending order, without empty slots.
//!
//! A fingerprint's distance from the begin of the range is split into a *bucket*, of which there are at most 1,024, and a
//! *remainder*. An entry is a remainder above a tag of a few bits. The entries of a bucket are a *run*.
//!
//! ```text
//! head     for each 64 buckets, a group: how many entries come before; and which buckets have entries: a bit each
//! entries  packed
//! slack
//! ends     which entries end a run: a bit each, from the back
//! ```
//!
//! So counting bits finds the run of a bucket: as many runs of its group come before it as there are buckets with entries
//! before it. An addition moves the entries after it by the bits of one, and their ends by one bit.

use crate::machine::memory;
use crate::machine::words::{self, Task, Use, Words};

use super::bits::{SPARE, close, get, mask, open, put, put_word, select, word};
use super::codec::{BUCKET_BITS, Codec, Widths};
use super::refused::Refused;

/// The bits of the bucket in the group.
const GROUP_BITS: u32 = 6;
const GROUPS: usize = 1 << (BUCKET_BITS - GROUP_BITS);

/// The bytes of the numbers of entries before each group, and of the number of all entries.
const NUMBERS: usize = 2 * (GROUPS + 1);
/// The bytes of the head: those numbers, and a word of bits for each group.
const HEAD: usize = NUMBERS + 8 * GROUPS;
/// The share that the ends take of the bytes of entries of each width and their ends, in 65,536ths.
const SHARES: [usize; 64] = {
    let (mut shares, mut width) = ([0; 64], 0);
    while width < 64 {
        shares[width] = 65_536 / (width + 1);
        width += 1;
    }
    shares
};
/// The entries of a run that a search reads one by one. Runs of random fingerprints are nearly always shorter.
const NEAR: usize = 12;

/// Where in a shard the entry of a fingerprint belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    bucket: u32,
    remainder: u64,
}

impl Place {
    /// Returns the place of a fingerprint by its distance from the begin of the shard's range.
    #[inline]
    pub const fn new(distance: u64, widths: Widths) -> Self {
        Self {
            #[allow(clippy::cast_possible_truncation, reason = "it has ten bits")]
            bucket: (distance >> widths.remainder()) as u32,
            remainder: distance & mask(widths.remainder()),
        }
    }

    /// Returns the group of the bucket.
    #[inline]
    const fn group(&self) -> usize {
        (self.bucket >> GROUP_BITS) as usize
    }

    /// Returns the number of the bucket in its group.
    #[inline]
    const fn in_group(&self) -> u32 {
        self.bucket & ((1 << GROUP_BITS) - 1)
    }

    /// Returns the remainder.
    pub const fn remainder(&self) -> u64 {
        self.remainder
    }
}

/// Where a search ended.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The number of the entry.
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

    const fn new(index: usize, what: What) -> Self {
        Self { index, what }
    }
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

/// An insertion of an entry where a search for it ended, for which there is room.
struct Insert<'i> {
    shard: &'i mut Shard,
    place: &'i Place,
    found: Found,
    widths: Widths,
    entry: u64,
}

impl Task for Insert<'_> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let Self {
            shard,
            place,
            found: Found { index, what },
            widths,
            entry,
        } = self;
        let group = place.group();
        match what {
            What::Nothing => {
                shard.insert_end(index, true);
                shard.set_used(group, shard.used(group) | 1 << place.in_group());
            }
            What::End => shard.insert_end(index - 1, false),
            What::Entry | What::Larger => shard.insert_end(index, false),
        }
        shard.insert_entry(group, index, widths, entry);
    }
}

/// The entries of a shard. The default is no shard, and takes no memory.
#[derive(Debug, Default)]
pub struct Shard {
    /// The head, the entries, the slack, the ends, and `SPARE` bytes.
    bytes: Box<[u8]>,
    /// The period from which tags that are periods are read.
    pub base: u64,
}

impl Shard {
    /// Size of the entry of a shard in the table of shards, in bytes.
    pub const ENTRY_BYTES: usize = memory::stated::<Self>(24);
    /// The most entries.
    pub const MOST: usize = u16::MAX as usize;

    /// Creates an empty shard, or returns `None` if allocation fails.
    pub fn new() -> Option<Self> {
        let bytes = memory::zeroed(allocated_for(0))?;
        Some(Self { bytes, base: 0 })
    }

    /// Returns whether this is no shard.
    #[inline]
    pub const fn is_none(&self) -> bool {
        self.bytes.is_empty()
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
    #[inline]
    pub fn entries(&self) -> usize {
        if self.is_none() {
            0
        } else {
            self.before(GROUPS)
        }
    }

    /// Returns the number of entries before a group.
    #[inline]
    fn before(&self, group: usize) -> usize {
        let (number, _) = self.bytes[2 * group..].split_first_chunk().expect("a head");
        u16::from_le_bytes(*number).into()
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "there are at most `MOST` entries"
    )]
    fn set_before(&mut self, group: usize, entries: usize) {
        self.bytes[2 * group..][..2].copy_from_slice(&(entries as u16).to_le_bytes());
    }

    /// Returns which buckets of a group have entries.
    #[inline]
    fn used(&self, group: usize) -> u64 {
        word(&self.bytes, NUMBERS + 8 * group)
    }

    fn set_used(&mut self, group: usize, used: u64) {
        put_word(&mut self.bytes, NUMBERS + 8 * group, used);
    }

    #[inline]
    fn entry(&self, index: usize, widths: Widths) -> u64 {
        get(&self.bytes, first_bit(index, widths), widths.entry())
    }

    /// Returns the bit that says whether an entry ends a run.
    #[inline]
    const fn end_bit(&self, index: usize) -> usize {
        8 * (self.bytes.len() - SPARE) - 1 - index
    }

    #[inline]
    fn ends_run(&self, index: usize) -> bool {
        let bit = self.end_bit(index);
        self.bytes[bit / 8] >> (bit % 8) & 1 == 1
    }

    fn set_ends_run(&mut self, index: usize, ends: bool) {
        let bit = self.end_bit(index);
        put(&mut self.bytes, bit, 1, ends.into());
    }

    /// Returns which entries from one on end a run: the first one in the highest bit. The last seven bits say nothing.
    #[inline(always)]
    fn ends_from(&self, index: usize) -> u64 {
        let bit = self.end_bit(index);
        word(&self.bytes, bit / 8 - 7) << (7 - bit % 8)
    }

    /// Returns the end of a run: of those that end at an entry or later, the one with a rank, counted from 0.
    #[inline(always)]
    fn end_of(&self, mut index: usize, mut rank: u32) -> usize {
        loop {
            let ends = self.ends_from(index) & !mask(7);
            let count = ends.count_ones();
            if rank < count {
                return index + 63 - select(ends, count - 1 - rank);
            }
            rank -= count;
            index += 57;
        }
    }

    /// Prefetches what a search probably reads: the head, and where the entry would be if the entries were spread evenly and
    /// the slack were a sixteenth of the allocation. So all come at once, although the head says where the entry is.
    #[inline]
    pub fn prefetch(&self, place: &Place, widths: Widths) {
        self.prefetch_head(place);
        let bytes = (self.bytes.len() - HEAD) * 15 / 16;
        let bucket = place.bucket as usize;
        let middle = (bytes * (2 * bucket + 1)) >> (BUCKET_BITS + 1);
        let ends = (middle * SHARES[widths.entry() as usize]) >> 16;
        memory::prefetch(&self.bytes, self.bytes.len() - SPARE - ends);
        memory::prefetch(&self.bytes, HEAD + middle - ends);
    }

    /// Prefetches the part of the head that a search reads.
    #[inline(always)]
    pub fn prefetch_head(&self, place: &Place) {
        memory::prefetch(&self.bytes, 0);
        memory::prefetch(&self.bytes, NUMBERS + 8 * place.group());
    }

    /// Prefetches what a search reads of a group, where the head says.
    #[inline(always)]
    pub fn prefetch_group(&self, place: &Place, widths: Widths) {
        let [begin, end] = [place.group(), place.group() + 1].map(|group| self.before(group));
        let index = begin + (((end - begin) * place.in_group() as usize) >> GROUP_BITS);
        memory::prefetch(&self.bytes, first_bit(index, widths) / 8);
        memory::prefetch(&self.bytes, self.end_bit(begin) / 8);
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
        let (used, begin) = (self.used(place.group()), self.before(place.group()));
        let runs = (used & mask(place.in_group())).count_ones();
        let mut index = match runs.checked_sub(1) {
            Some(last) => self.end_of(begin, last) + 1,
            None => begin,
        };
        if used >> place.in_group() & 1 == 0 {
            return Found::new(index, What::Nothing);
        }
        let (width, mut bit) = (widths.entry(), first_bit(index, widths));
        let (mut ends, last) = (self.ends_from(index), index + NEAR);
        while index < last {
            let entry = get(&self.bytes, bit, width);
            let other = entry >> widths.tag();
            if other >= place.remainder && !widths.is_digit(entry) {
                let is_it = other == place.remainder;
                return Found::new(index, if is_it { What::Entry } else { What::Larger });
            }
            index += 1;
            if ends >> 63 == 1 {
                return Found::new(index, What::End);
            }
            ends <<= 1;
            bit += width as usize;
        }
        self.find_far(index, place.remainder, widths)
    }

    /// Looks for an entry in the rest of a run, from an entry on.
    #[inline(never)]
    fn find_far(&self, first: usize, remainder: u64, widths: Widths) -> Found {
        let end = self.end_of(first, 0) + 1;
        // The entry with this remainder, or the first with a larger one, is from `low` to `high`.
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low.midpoint(high);
            let mut at = middle;
            while at > low && widths.is_digit(self.entry(at, widths)) {
                at -= 1;
            }
            let entry = self.entry(at, widths);
            if widths.is_digit(entry) || entry >> widths.tag() < remainder {
                low = middle + 1;
            } else {
                high = at;
            }
        }
        if low == end {
            return Found::new(end, What::End);
        }
        let is_it = self.entry(low, widths) >> widths.tag() == remainder;
        Found::new(low, if is_it { What::Entry } else { What::Larger })
    }

    /// Returns the tag of an entry.
    #[inline]
    pub fn tag(&self, found: Found, widths: Widths) -> u64 {
        self.entry(found.index, widths) & mask(widths.tag())
    }

    /// Returns what is kept of an entry.
    #[inline]
    pub fn held(&self, found: Found, codec: Codec, widths: Widths) -> u64 {
        let mut index = found.index;
        let tag = self.entry(index, widths) & mask(widths.tag());
        codec.decoded(tag, self.base, widths, || {
            let next = (!self.ends_run(index)).then(|| self.entry(index + 1, widths));
            index += 1;
            next
        })
    }

    /// Replaces an entry, or one that comes `after` entries later.
    pub fn replace(&mut self, found: Found, after: usize, widths: Widths, entry: u64) {
        let at = first_bit(found.index + after, widths);
        put(&mut self.bytes, at, widths.entry(), entry);
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
        self.make_room(widths, admits)?;
        words::run(Insert {
            shard: self,
            place,
            found,
            widths,
            entry: place.remainder << widths.tag() | tag,
        });
        Ok(())
    }

    /// Inserts an entry that belongs to another, `after` entries later.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn insert_after(
        &mut self,
        place: &Place,
        found: Found,
        after: usize,
        widths: Widths,
        admits: &dyn Fn(usize) -> bool,
    ) -> Result<(), Refused> {
        let index = found.index + after;
        self.make_room(widths, admits)?;
        let ended = self.ends_run(index - 1);
        self.insert_end(index - usize::from(ended), false);
        self.insert_entry(place.group(), index, widths, 0);
        Ok(())
    }

    /// Inserts a bit among the ends.
    #[inline(always)]
    fn insert_end(&mut self, index: usize, ends: bool) {
        let (free, bit) = (self.end_bit(self.entries()), self.end_bit(index));
        close(&mut self.bytes, free, bit + 1, 1, ends);
    }

    #[inline(always)]
    fn insert_entry(&mut self, group: usize, index: usize, widths: Widths, entry: u64) {
        let (begin, end) = (first_bit(index, widths), first_bit(self.entries(), widths));
        open(&mut self.bytes, begin, end, widths.entry(), entry);
        self.recount(group, 1);
    }

    /// Adds to the number of entries before each later group.
    #[inline(always)]
    fn recount(&mut self, group: usize, by: u16) {
        let head = self.bytes.first_chunk_mut::<NUMBERS>().expect("a head");
        let (numbers, _) = head.as_chunks_mut();
        for (number, before) in numbers.iter_mut().enumerate() {
            let by = if number > group { by } else { 0 };
            *before = u16::from_le_bytes(*before).wrapping_add(by).to_le_bytes();
        }
    }

    /// Makes room for one more entry.
    #[inline]
    fn make_room(&mut self, widths: Widths, admits: &dyn Fn(usize) -> bool) -> Result<(), Refused> {
        let count = self.entries() + 1;
        if bytes_of(count, widths) + HEAD + SPARE <= self.bytes.len() {
            return Ok(());
        }
        let allocated = allocated_for(bytes_of(count, widths));
        if !admits(allocated - self.bytes.len()) {
            return Err(Refused::MemoryLimit);
        }
        self.move_to(allocated, widths).ok_or(Refused::OutOfMemory)
    }

    /// Moves the entries to an allocation of another size, or returns `None` if allocation fails.
    fn move_to(&mut self, allocated: usize, widths: Widths) -> Option<()> {
        let count = self.entries();
        let mut bytes = memory::zeroed(allocated)?;
        let entries = ..first_bit(count, widths).div_ceil(8);
        bytes[entries].copy_from_slice(&self.bytes[entries]);
        let ends = |bytes: usize| bytes - SPARE - count.div_ceil(8)..bytes - SPARE;
        bytes[ends(allocated)].copy_from_slice(&self.bytes[ends(self.bytes.len())]);
        self.bytes = bytes;
        Some(())
    }

    /// Frees memory that fewer entries do not need. Without memory for a smaller allocation, the shard keeps this one.
    fn shrink(&mut self, widths: Widths) {
        let allocated = allocated_for(bytes_of(self.entries(), widths));
        if 4 * allocated <= 3 * self.bytes.len() {
            let _ = self.move_to(allocated, widths);
        }
    }

    /// Removes an entry, or one that comes `after` entries later.
    pub fn remove(&mut self, place: &Place, found: Found, after: usize, widths: Widths) {
        let (count, index) = (self.entries(), found.index + after);
        let is_last = self.ends_run(index);
        let is_first = index == self.before(place.group()) || self.ends_run(index - 1);
        if is_first && is_last {
            self.set_used(
                place.group(),
                self.used(place.group()) & !(1 << place.in_group()),
            );
        }
        let end = index - usize::from(is_last && !is_first);
        let [last, bit] = [count - 1, end].map(|index| self.end_bit(index));
        open(&mut self.bytes, last, bit, 1, 0);
        let [begin, end] = [index, count].map(|index| first_bit(index, widths));
        close(&mut self.bytes, begin, end, widths.entry(), false);
        self.recount(place.group(), u16::MAX);
        self.shrink(widths);
    }

    /// Removes the entries whose tags are not to be kept.
    pub fn retain(&mut self, widths: Widths, is_kept: impl Fn(u64) -> bool) {
        let (mut from, mut to) = (0, 0);
        for group in 0..GROUPS {
            let (mut left, mut used) = (self.used(group), 0);
            self.set_before(group, to);
            while left != 0 {
                let begin = to;
                loop {
                    let entry = self.entry(from, widths);
                    let is_last = self.ends_run(from);
                    if is_kept(entry & mask(widths.tag())) {
                        put(
                            &mut self.bytes,
                            first_bit(to, widths),
                            widths.entry(),
                            entry,
                        );
                        self.set_ends_run(to, false);
                        to += 1;
                    }
                    from += 1;
                    if is_last {
                        break;
                    }
                }
                if to > begin {
                    self.set_ends_run(to - 1, true);
                    used |= left & left.wrapping_neg();
                }
                left &= left - 1;
            }
            self.set_used(group, used);
        }
        self.set_before(GROUPS, to);
        self.shrink(widths);
    }

    /// Returns the fingerprints of the shard, by their distances from the begin of its range, in order.
    pub fn iter(&self, codec: Codec, widths: Widths) -> Iter<'_> {
        Iter {
            shard: self,
            codec,
            widths,
            index: 0,
            count: self.entries(),
            ends: 0,
            group: 0,
            used: if self.is_none() { 0 } else { self.used(0) },
        }
    }
}

/// Goes through the fingerprints of a shard.
#[derive(Clone, Debug)]
pub struct Iter<'s> {
    shard: &'s Shard,
    codec: Codec,
    widths: Widths,
    /// The number of the next entry.
    index: usize,
    /// The number of all entries.
    count: usize,
    /// Which of the next entries end their runs, up to a multiple of 32: the first one in the highest bit.
    ends: u64,
    group: usize,
    /// The buckets of the group whose entries are still to come.
    used: u64,
}

impl Iter<'_> {
    /// Returns the next entry, and whether it ends its run.
    #[inline(always)]
    fn next_entry(&mut self) -> (u64, bool) {
        let entry = self.shard.entry(self.index, self.widths);
        if self.index.is_multiple_of(32) {
            self.ends = self.shard.ends_from(self.index);
        }
        let is_last = self.ends >> 63 == 1;
        self.ends <<= 1;
        self.index += 1;
        (entry, is_last)
    }

    /// Returns the count of an entry with digits, and whether its last digit ends the run.
    #[cold]
    fn count(&mut self, tag: u64, mut is_last: bool) -> (u64, bool) {
        let (codec, widths, shard) = (self.codec, self.widths, self.shard);
        let count = codec.decoded(tag, shard.base, widths, || {
            let next = (!is_last).then(|| shard.entry(self.index, widths))?;
            if widths.is_digit(next) {
                is_last = self.next_entry().1;
            }
            Some(next)
        });
        (count, is_last)
    }
}

impl Iterator for Iter<'_> {
    /// A distance, and what is kept of the fingerprint.
    type Item = (u64, u64);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.count {
            return None;
        }
        while self.used == 0 {
            self.group += 1;
            self.used = self.shard.used(self.group);
        }
        let widths = self.widths;
        let bucket = (self.group << GROUP_BITS) as u64 | u64::from(self.used.trailing_zeros());
        let (entry, mut is_last) = self.next_entry();
        let tag = entry & mask(widths.tag());
        let held = if self.codec.has_digits(tag) {
            let (count, ends) = self.count(tag, is_last);
            is_last = ends;
            count
        } else {
            self.codec.decoded(tag, self.shard.base, widths, || None)
        };
        if is_last {
            self.used &= self.used - 1;
        }
        Some((bucket << widths.remainder() | entry >> widths.tag(), held))
    }
}

/// Returns the first bit of an entry.
#[inline]
const fn first_bit(index: usize, widths: Widths) -> usize {
    8 * HEAD + index * widths.entry() as usize
}

/// Returns the bytes of this many entries and their ends.
#[inline]
const fn bytes_of(count: usize, widths: Widths) -> usize {
    (count * widths.entry() as usize).div_ceil(8) + count.div_ceil(8)
}

/// Returns how many bytes to allocate for a shard whose entries and ends take so many: those that jemalloc would give, which has
/// four sizes between a power of two and the next.
pub const fn allocated_for(bytes: usize) -> usize {
    let bytes = HEAD + bytes + SPARE;
    let step = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(if step < 16 { 16 } else { step })
}

/// Makes shards of fingerprints that come in order.
#[derive(Debug)]
pub struct Builder {
    codec: Codec,
    widths: Widths,
    /// The number of entries.
    count: usize,
    /// Of each group, the number of entries before it, and the buckets that have some.
    groups: [(usize, u64); GROUPS],
    /// The group and the bucket of the last entry.
    bucket: u64,
    entries: Vec<u8>,
    /// Bits that are not among the entries yet, and their number, which is less than 64.
    rest: u64,
    rest_bits: u32,
    ends: Vec<u64>,
}

impl Builder {
    pub const fn new(codec: Codec, widths: Widths) -> Self {
        Self {
            codec,
            widths,
            count: 0,
            groups: [(0, 0); GROUPS],
            bucket: u64::MAX,
            entries: Vec::new(),
            rest: 0,
            rest_bits: 0,
            ends: Vec::new(),
        }
    }

    /// Returns the number of entries since the begin of the shard.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Appends a fingerprint by its distance from the begin of the shard's range, which is larger than those before.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    #[inline(always)]
    pub fn push(&mut self, distance: u64, held: u64) -> Result<(), Refused> {
        let widths = self.widths;
        let (bucket, remainder) = (
            distance >> widths.remainder(),
            distance & mask(widths.remainder()),
        );
        if bucket != self.bucket {
            self.end_run();
            self.bucket = bucket;
            let (before, used) = &mut self.groups[memory::index(bucket >> GROUP_BITS)];
            if *used == 0 {
                *before = self.count;
            }
            *used |= 1 << (bucket & mask(GROUP_BITS));
        }
        let tag = self.codec.tag(held, widths);
        self.push_entry(remainder << widths.tag() | tag)?;
        if self.codec.has_digits(tag) {
            for digit in self.codec.digits(held, widths) {
                self.push_entry(digit)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn push_entry(&mut self, entry: u64) -> Result<(), Refused> {
        if self.count.is_multiple_of(64) {
            let room = self.ends.try_reserve(1);
            room.map_err(|_| Refused::OutOfMemory)?;
            self.ends.push(0);
        }
        self.count += 1;
        let width = self.widths.entry();
        self.rest |= entry << self.rest_bits;
        self.rest_bits += width;
        if self.rest_bits >= u64::BITS {
            self.flush()?;
            self.rest_bits -= u64::BITS;
            self.rest = entry >> (width - self.rest_bits);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Refused> {
        let room = self.entries.try_reserve(8);
        room.map_err(|_| Refused::OutOfMemory)?;
        self.entries.extend_from_slice(&self.rest.to_le_bytes());
        Ok(())
    }

    #[inline(always)]
    fn end_run(&mut self) {
        if let Some(last) = self.count.checked_sub(1) {
            self.ends[last / 64] |= 1 << (63 - last % 64);
        }
    }

    /// Returns the shard, and begins another, whose entries have these widths.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]; then the entries are lost.
    pub fn end(&mut self, base: u64, next: Widths) -> Result<Shard, Refused> {
        let widths = std::mem::replace(&mut self.widths, next);
        self.end_run();
        self.flush()?;
        let allocated = allocated_for(bytes_of(self.count, widths));
        let bytes = memory::zeroed(allocated).ok_or(Refused::OutOfMemory)?;
        let mut shard = Shard { bytes, base };
        let mut before = self.count;
        shard.set_before(GROUPS, before);
        for (group, (first, used)) in self.groups.iter().enumerate().rev() {
            if *used != 0 {
                before = *first;
            }
            shard.set_before(group, before);
            shard.set_used(group, *used);
        }
        for (at, ends) in (1..).zip(&self.ends) {
            put_word(&mut shard.bytes, allocated - SPARE - 8 * at, *ends);
        }
        let entries = (self.count * widths.entry() as usize).div_ceil(8);
        shard.bytes[HEAD..][..entries].copy_from_slice(&self.entries[..entries]);
        self.count = 0;
        self.groups = [(0, 0); GROUPS];
        self.bucket = u64::MAX;
        self.entries.clear();
        self.ends.clear();
        (self.rest, self.rest_bits) = (0, 0);
        Ok(shard)
    }
}
