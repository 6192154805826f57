//! A shard of a table: the fingerprints of a range in ascending order, without empty slots.
//!
//! A fingerprint's distance from the start of the range is split into a *bucket*, one of at most 1,024, and a
//! *remainder*. An entry is a remainder above a tag of a few bits. The entries of a bucket are a *run*.
//!
//! ```text
//! head     for each group of 32 buckets: how many entries come before it; which buckets have entries, a bit each
//! entries  packed
//! slack
//! ends     which entries end a run, a bit each, from the back
//! ```
//!
//! Counting bits finds the run of a bucket: in its group, as many runs come before it as buckets with entries do. An addition
//! moves the entries after it by the bits of one, and their ends by one bit.

use crate::machine::memory;
use crate::machine::words::{self, Task, Use, Words};

use super::bits::{SPARE, close, get, mask, open, put, select, word};
use super::codec::{BUCKET_BITS, Codec, MANY, Widths};
use super::periods::{Period, period_of};
use super::refused::Refused;

/// The bits of the bucket in the group.
pub const GROUP_BITS: u32 = 5;
pub const GROUPS: usize = 1 << (BUCKET_BITS - GROUP_BITS);

/// The bytes of the numbers of entries before each group, and of the number of all entries.
const NUMBERS: usize = 2 * (GROUPS + 1);
/// The bytes of the head: those numbers, and four bytes of bits for each group.
pub const HEAD: usize = NUMBERS + 4 * GROUPS;
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
    pub(super) bucket: u32,
    remainder: u64,
}

impl Place {
    /// Returns the place of a fingerprint at this distance from the start of the shard's range.
    #[inline]
    pub const fn new(distance: u64, widths: Widths) -> Self {
        Self {
            #[allow(clippy::cast_possible_truncation, reason = "it has ten bits")]
            bucket: (distance >> widths.remainder) as u32,
            remainder: distance & mask(widths.remainder),
        }
    }

    /// Returns the group of the bucket.
    #[inline]
    pub(super) const fn group(&self) -> usize {
        (self.bucket >> GROUP_BITS) as usize
    }

    /// Returns the number of the bucket in its group.
    #[inline]
    pub(super) const fn in_group(&self) -> u32 {
        self.bucket & ((1 << GROUP_BITS) - 1)
    }

    /// Returns the entry with a tag.
    #[inline]
    pub const fn entry(&self, tag: u64, widths: Widths) -> u64 {
        self.remainder << widths.tag | tag
    }
}

/// Where a search ended.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The number of the entry, or the one that it would get.
    index: usize,
    stop: Stop,
}

/// What ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The entry.
    Entry,
    /// A larger entry of the run.
    Larger,
    /// The end of the run.
    RunEnd,
    /// A bucket without a run.
    EmptyBucket,
}

impl Found {
    /// Returns whether the entry is there.
    #[inline]
    pub fn is_there(self) -> bool {
        self.stop == Stop::Entry
    }

    const fn new(index: usize, stop: Stop) -> Self {
        Self { index, stop }
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

/// An insertion of an entry.
struct Insert<'i> {
    shard: &'i mut Shard,
    place: &'i Place,
    widths: Widths,
    entry: u64,
}

impl Task for Insert<'_> {
    const USE: Use = Use::Passes;
    type Output = Option<Found>;

    #[inline(always)]
    fn run<W: Words>(self) -> Option<Found> {
        let Self {
            shard,
            place,
            widths,
            entry,
        } = self;
        let found = shard.find_here(place, widths);
        if found.is_there() || !shard.has_room(widths) {
            return Some(found);
        }
        match found.stop {
            Stop::EmptyBucket => {
                shard.insert_end(found.index, true);
                let group = place.group();
                shard.set_used(group, shard.used(group) | 1 << place.in_group());
            }
            Stop::RunEnd => shard.insert_end(found.index - 1, false),
            Stop::Entry | Stop::Larger => shard.insert_end(found.index, false),
        }
        shard.insert_entry(place, found.index, widths, entry);
        None
    }
}

/// The entries of a shard. The default is no shard: it takes no memory.
#[derive(Debug, Default)]
pub struct Shard {
    /// The head, the entries, the slack, the ends, and `SPARE` bytes.
    pub(super) bytes: Box<[u8]>,
    /// The first period that the tag of an entry may mean.
    pub oldest: u64,
}

impl Shard {
    /// Size of the entry of a shard in the table of shards, in bytes.
    pub const ENTRY_BYTES: usize = memory::stated::<Self>(24);
    /// The most entries.
    pub const MOST: usize = u16::MAX as usize;

    /// Creates an empty shard, or returns `None` if allocation fails.
    pub fn new() -> Option<Self> {
        let bytes = memory::zeroed(allocated_for(0))?;
        Some(Self { bytes, oldest: 0 })
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
    pub(super) fn before(&self, group: usize) -> usize {
        let (number, _) = self.bytes[2 * group..].split_first_chunk().expect("a head");
        u16::from_le_bytes(*number).into()
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "there are at most `MOST` entries"
    )]
    pub(super) fn set_before(&mut self, group: usize, entries: usize) {
        self.bytes[2 * group..][..2].copy_from_slice(&(entries as u16).to_le_bytes());
    }

    /// Returns which buckets of a group have entries: a bit each.
    #[inline]
    pub(super) fn used(&self, group: usize) -> u32 {
        let (used, _) = self.bytes[NUMBERS + 4 * group..]
            .split_first_chunk()
            .expect("a head");
        u32::from_le_bytes(*used)
    }

    #[inline]
    pub(super) fn set_used(&mut self, group: usize, used: u32) {
        self.bytes[NUMBERS + 4 * group..][..4].copy_from_slice(&used.to_le_bytes());
    }

    /// Returns the entry with this number.
    #[inline]
    pub(super) fn entry(&self, index: usize, widths: Widths) -> u64 {
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

    /// Returns which entries from one on end a run: the first one in the highest bit. The last seven bits say nothing.
    #[inline(always)]
    pub(super) fn ends_from(&self, index: usize) -> u64 {
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
        memory::prefetch(&self.bytes, NUMBERS + 4 * place.group());
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

    /// Looks for an entry, within a [`Task`].
    #[inline(always)]
    pub(super) fn find_here(&self, place: &Place, widths: Widths) -> Found {
        let (used, begin) = (self.used(place.group()), self.before(place.group()));
        let runs = (used & ((1 << place.in_group()) - 1)).count_ones();
        let mut index = match runs.checked_sub(1) {
            Some(last) => self.end_of(begin, last) + 1,
            None => begin,
        };
        if used >> place.in_group() & 1 == 0 {
            return Found::new(index, Stop::EmptyBucket);
        }
        let (width, mut bit) = (widths.entry(), first_bit(index, widths));
        let (mut ends, last) = (self.ends_from(index), index + NEAR);
        while index < last {
            let entry = get(&self.bytes, bit, width);
            let other = entry >> widths.tag;
            if other >= place.remainder && !widths.is_digit(entry) {
                let is_it = other == place.remainder;
                return Found::new(index, if is_it { Stop::Entry } else { Stop::Larger });
            }
            index += 1;
            if ends >> 63 == 1 {
                return Found::new(index, Stop::RunEnd);
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
            if widths.is_digit(entry) || entry >> widths.tag < remainder {
                low = middle + 1;
            } else {
                high = at;
            }
        }
        if low == end {
            return Found::new(end, Stop::RunEnd);
        }
        let is_it = self.entry(low, widths) >> widths.tag == remainder;
        Found::new(low, if is_it { Stop::Entry } else { Stop::Larger })
    }

    /// Returns the period of an entry.
    #[inline]
    pub fn period(&self, found: Found, widths: Widths) -> Period {
        let tag = self.entry(found.index, widths) & mask(widths.tag);
        Period(period_of(self.oldest, tag, widths.tag))
    }

    /// Returns the [value](super::Held::value) of an entry's fingerprint.
    #[inline]
    pub fn value(&self, found: Found, codec: Codec, widths: Widths) -> u64 {
        let tag = self.entry(found.index, widths) & mask(widths.tag);
        if codec.may_have_digits(tag) {
            self.count_at(found.index, widths).0
        } else {
            codec.decoded(tag, self.oldest, widths)
        }
    }

    /// Returns the count of an entry with digits, and the number of the entry after them.
    #[cold]
    #[inline(never)]
    pub(super) fn count_at(&self, mut index: usize, widths: Widths) -> (u64, usize) {
        let (mut count, mut shift) = (MANY + 1, 0);
        while !self.ends_run(index) {
            let digit = self.entry(index + 1, widths);
            if !widths.is_digit(digit) {
                break;
            }
            count += digit >> widths.tag << shift;
            shift += widths.remainder;
            index += 1;
        }
        (count, index + 1)
    }

    /// Replaces an entry, or one that comes `after` entries later.
    pub fn replace(&mut self, found: Found, after: usize, widths: Widths, entry: u64) {
        let at = first_bit(found.index + after, widths);
        put(&mut self.bytes, at, widths.entry(), entry);
    }

    /// Inserts an entry, unless it is there or there is no [room](Self::has_room). Then returns where a search for it ended.
    #[inline]
    pub fn insert(&mut self, place: &Place, widths: Widths, tag: u64) -> Option<Found> {
        words::run(Insert {
            shard: self,
            place,
            widths,
            entry: place.entry(tag, widths),
        })
    }

    /// Inserts an entry that belongs to another, `after` entries later. There is [room](Self::has_room).
    pub fn insert_after(&mut self, place: &Place, found: Found, after: usize, widths: Widths) {
        let index = found.index + after;
        let ended = self.ends_run(index - 1);
        self.insert_end(index - usize::from(ended), false);
        self.insert_entry(place, index, widths, 0);
    }

    /// Inserts a bit among the ends.
    #[inline(always)]
    fn insert_end(&mut self, index: usize, ends: bool) {
        let (free, bit) = (self.end_bit(self.entries()), self.end_bit(index));
        close(&mut self.bytes, free, bit + 1, 1, ends);
    }

    /// Inserts an entry, without its end, and counts it.
    #[inline(always)]
    fn insert_entry(&mut self, place: &Place, index: usize, widths: Widths, entry: u64) {
        let (begin, end) = (first_bit(index, widths), first_bit(self.entries(), widths));
        open(&mut self.bytes, begin, end, widths.entry(), entry);
        self.recount(place.group(), 1);
    }

    /// Adds to the number of entries before each later group, modulo 2¹⁶.
    #[inline(always)]
    fn recount(&mut self, group: usize, by: u16) {
        let head = self.bytes.first_chunk_mut::<NUMBERS>().expect("a head");
        let (numbers, _) = head.as_chunks_mut();
        for (number, before) in numbers.iter_mut().enumerate() {
            let by = if number > group { by } else { 0 };
            *before = u16::from_le_bytes(*before).wrapping_add(by).to_le_bytes();
        }
    }

    /// Returns whether there is room for one more entry.
    #[inline(always)]
    pub fn has_room(&self, widths: Widths) -> bool {
        HEAD + bytes_of(self.entries() + 1, widths) + SPARE <= self.bytes.len()
    }

    /// Makes room for one more entry. `admits` returns whether the allocation may grow by a number of bytes.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn grow(
        &mut self,
        widths: Widths,
        admits: impl FnOnce(usize) -> bool,
    ) -> Result<(), Refused> {
        // A shard has that many only if memory for splitting it failed.
        if self.entries() == Self::MOST {
            return Err(Refused::OutOfMemory);
        }
        let allocated = allocated_for(bytes_of(self.entries() + 1, widths));
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
}

/// Returns the first bit of an entry.
#[inline]
const fn first_bit(index: usize, widths: Widths) -> usize {
    8 * HEAD + index * widths.entry() as usize
}

/// Returns the bytes of this many entries and their ends.
#[inline]
pub const fn bytes_of(count: usize, widths: Widths) -> usize {
    (count * widths.entry() as usize).div_ceil(8) + count.div_ceil(8)
}

/// Returns the bytes to allocate for entries and ends of this size: those that jemalloc would give, which has
/// four sizes between a power of two and the next.
pub const fn allocated_for(bytes: usize) -> usize {
    let bytes = HEAD + bytes + SPARE;
    let step = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(if step < 16 { 16 } else { step })
}
