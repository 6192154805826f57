//! Summaries of the filters in a deep stack. They replace lookups in each filter.
//!
//! Filters form groups of [`group_size`]. The first group has no summary, so most objects have none. Each later group
//! gets a summary when the first of its filters has memory for its slots; no slots have to be read then. All filters
//! of a stack of several groups have the same size.
//!
//! A summary is a line of 64 bytes for each bucket:
//!
//! | bytes | a bit for each | set if |
//! |---|---|---|
//! | 0 to 31 | fingerprint | a filter of the group holds it here or in its other bucket, and this is the lower of the two |
//! | 32 to 63 | filter of the group | its bucket is full |
//!
//! Moving a fingerprint to its other bucket, or to an older filter of the group, does not change the first half.

use std::ops::Range;

use crate::machine::memory::{self, Relocate};
use crate::machine::work;

use super::buckets::Buckets;
use super::place::Place;

/// Returns how many filters share a summary. The filters of the first group are searched for each item, which takes
/// longer with larger buckets.
pub(super) const fn group_size(bucket_size: u8) -> usize {
    if bucket_size <= 16 { 256 } else { 32 }
}

const LINE: usize = 64;
const WORDS: usize = LINE / 2 / 8;

/// The summaries of an object of several groups of filters.
#[derive(Debug)]
pub(super) struct Summaries {
    /// The number of buckets of a filter, a power of two, minus 1.
    mask: u64,
    /// Filters per group.
    size: usize,
    /// The lines of each group but the first; empty if no filter of the group has memory.
    groups: Vec<Box<[u8]>>,
}

impl Summaries {
    /// Summarizes filters. Returns `None` if there is only one group, or if allocation fails.
    pub fn of(filters: &[Buckets], bucket_size: u8) -> Option<Box<Self>> {
        let size = group_size(bucket_size);
        let first = filters.first().filter(|_| filters.len() > size)?;
        let mut summaries = Self {
            mask: first.buckets() - 1,
            size,
            groups: Vec::new(),
        };
        for (index, filter) in filters.iter().enumerate().skip(size) {
            if !filter.slots().is_empty() {
                summaries.admit(index)?;
                summaries.learn_all(index, filter, 0..filter.buckets());
            }
        }
        Some(Box::new(summaries))
    }

    /// Returns the most bytes that the summaries of `filters` filters of this size take.
    pub const fn most_bytes(filters: u64, buckets: u64, bucket_size: u8) -> u64 {
        let groups = filters.saturating_sub(1) / group_size(bucket_size) as u64;
        if groups == 0 {
            return 0;
        }
        let each = memory::BLOB_POINTER as u64 + buckets * LINE as u64;
        memory::stated::<Self>(40) as u64 + groups * each
    }

    /// Returns the exact sum of the allocations in bytes, including `self`.
    pub fn memory_bytes(&self) -> u64 {
        let table = size_of::<Self>() + self.groups.capacity() * size_of::<Box<[u8]>>();
        let lines: usize = self.groups.iter().map(|lines| lines.len()).sum();
        (table + lines) as u64
    }

    /// Allocates the summary for a filter that has memory, unless it exists. Returns `None` if allocation fails.
    pub fn admit(&mut self, index: usize) -> Option<()> {
        let group = (index / self.size).checked_sub(1)?;
        if self.groups.len() <= group {
            let more = group + 1 - self.groups.len();
            self.groups.try_reserve_exact(more).ok()?;
            self.groups.resize_with(group + 1, Box::default);
        }
        if self.groups[group].is_empty() {
            let buckets = usize::try_from(self.mask + 1).ok()?;
            self.groups[group] = memory::zeroed(buckets.checked_mul(LINE)?)?;
        }
        Some(())
    }

    /// Returns the index of the byte with a fingerprint's bit in the lines of a group, and the mask of the bit.
    #[inline]
    fn held(&self, place: Place) -> (usize, u8) {
        let lower = (place.first & self.mask).min(place.second & self.mask);
        let byte = memory::index(lower) * LINE + usize::from(place.fingerprint / 8);
        (byte, 1 << (place.fingerprint % 8))
    }

    /// Returns the range of the second half of a bucket's line.
    #[inline]
    fn full(&self, bucket: u64) -> Range<usize> {
        let line = memory::index(bucket & self.mask) * LINE;
        line + LINE / 2..line + LINE
    }

    /// Returns whether a filter with a summary holds the fingerprint.
    #[inline]
    pub fn holds(&self, place: Place) -> bool {
        work::steps(self.groups.len());
        let (byte, bit) = self.held(place);
        let mut groups = self.groups.iter();
        groups.any(|lines| lines.get(byte).is_some_and(|byte| byte & bit != 0))
    }

    /// Returns an upper bound of the filters that hold the fingerprint: the end of the newest group that does, or of
    /// the group without a summary.
    pub fn end_of_holders(&self, place: Place) -> usize {
        work::steps(self.groups.len());
        let (byte, bit) = self.held(place);
        let mut groups = self.groups.iter();
        let newest = groups.rposition(|lines| lines.get(byte).is_some_and(|byte| byte & bit != 0));
        newest.map_or(self.size, |group| (group + 2) * self.size)
    }

    /// Returns the end of those of the first `filters` filters that may have room for the fingerprint: one past the
    /// newest with room, or the end of the group without a summary.
    pub fn end_of_room(&self, place: Place, filters: usize) -> usize {
        for group in (1..filters.div_ceil(self.size)).rev() {
            work::steps(2);
            let start = group * self.size;
            let count = self.size.min(filters - start);
            let lines = self.groups.get(group - 1).filter(|lines| !lines.is_empty());
            let Some(lines) = lines else {
                return start + count;
            };
            let [first, second] = [place.first, place.second].map(|bucket| {
                let (words, _) = lines[self.full(bucket)].as_chunks();
                words
            });
            for word in (0..WORDS).rev() {
                let below = count.saturating_sub(64 * word).min(64);
                let there = u64::MAX.checked_shr(64 - u32::try_from(below).unwrap_or(64));
                let full = u64::from_le_bytes(first[word]) & u64::from_le_bytes(second[word]);
                let room = !full & there.unwrap_or(0);
                if room != 0 {
                    return start + 64 * word + room.ilog2() as usize + 1;
                }
            }
        }
        self.size
    }

    /// Returns the lines of a filter's group.
    fn lines(&mut self, index: usize) -> &mut [u8] {
        &mut self.groups[index / self.size - 1]
    }

    /// Records that a filter took a fingerprint into one of its buckets. The filter was [admitted](Self::admit).
    pub fn learn(&mut self, index: usize, filter: &Buckets, place: Place) {
        self.learn_held(index, place);
        for bucket in [place.first, place.second] {
            self.learn_room(index, filter, bucket);
        }
    }

    /// Records all fingerprints in some buckets of a filter. The filter was [admitted](Self::admit).
    pub fn learn_all(&mut self, index: usize, filter: &Buckets, buckets: Range<u64>) {
        for bucket in buckets {
            let slots = filter.bucket(bucket);
            work::bytes(slots.len());
            for fingerprint in slots.iter().filter(|slot| **slot != 0) {
                self.learn_held(index, Place::in_bucket(bucket, *fingerprint));
            }
            self.learn_room(index, filter, bucket);
        }
    }

    fn learn_held(&mut self, index: usize, place: Place) {
        let (byte, bit) = self.held(place);
        self.lines(index)[byte] |= bit;
    }

    fn learn_room(&mut self, index: usize, filter: &Buckets, bucket: u64) {
        let (byte, bit) = (index % self.size / 8, index % 8);
        let byte = self.full(bucket).start + byte;
        let byte = &mut self.lines(index)[byte];
        *byte = *byte & !(1 << bit) | u8::from(filter.is_bucket_full(bucket)) << bit;
    }

    /// Records that a filter lost a fingerprint.
    pub fn forget(&mut self, index: usize, filters: &[Buckets], place: Place) {
        for bucket in [place.first, place.second] {
            self.learn_room(index, &filters[index], bucket);
        }
        let group = &filters[self.group_of(index, filters)];
        if !group.iter().any(|filter| filter.contains(place)) {
            let (byte, bit) = self.held(place);
            self.lines(index)[byte] &= !bit;
        }
    }

    /// Recomputes the summary of a filter's group.
    pub fn renew(&mut self, index: usize, filters: &[Buckets]) {
        self.lines(index).fill(0);
        for index in self.group_of(index, filters) {
            if !filters[index].slots().is_empty() {
                self.learn_all(index, &filters[index], 0..self.mask + 1);
            }
        }
    }

    /// Copies the summaries, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Box<Self>> {
        let groups = self.groups.iter().map(|lines| {
            work::bytes(lines.len());
            memory::copied(lines)
        });
        let groups = memory::collected(groups)?;
        Some(Box::new(Self { groups, ..*self }))
    }

    /// Returns whether these summaries equal `others`, which may lack groups without fingerprints.
    pub fn matches(&self, others: &Self) -> bool {
        let (own, more) = self.groups.split_at(others.groups.len());
        let same = own.iter().zip(&others.groups).all(|(own, other)| {
            own == other || other.is_empty() && own.iter().all(|byte| *byte == 0)
        });
        same && more.iter().flatten().all(|byte| *byte == 0)
    }

    /// Returns the number of allocations that can be moved.
    pub const fn movable(&self) -> usize {
        self.groups.len()
    }

    /// Moves the lines of a group to other memory.
    pub fn relocate(&mut self, group: usize, by: &mut impl Relocate) {
        self.groups[group] = by.blob(std::mem::take(&mut self.groups[group]));
    }

    /// Returns the numbers of the filters in a filter's group.
    fn group_of(&self, index: usize, filters: &[Buckets]) -> Range<usize> {
        let start = index / self.size * self.size;
        start..filters.len().min(start + self.size)
    }
}
