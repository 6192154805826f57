//! A single filter: an array of buckets of one-byte slots. A slot holds a fingerprint, or 0 if it is empty.

use std::ops::Range;

use crate::machine::{memory, work};

use super::place::{Place, Places, other_bucket};
use super::shape::Refusal;

/// Filters of at least this size are prefetched. Smaller ones stay in the processor's caches.
const LARGE_BYTES: usize = 1 << 20;

/// A filter of an object.
#[derive(Debug)]
pub struct Buckets {
    /// Slot *j* of bucket *b* is at *b*·*s* + *j*, for *s* slots per bucket. The array is empty while all slots are,
    /// until they need memory.
    slots: Box<[u8]>,
    /// The number of buckets, a power of two, minus 1.
    mask: u64,
    /// Number of slots that hold a fingerprint.
    occupied: u64,
    bucket_size: u8,
}

impl Buckets {
    /// Creates empty buckets that take no memory yet. Their number is a power of two.
    pub(super) fn unallocated(buckets: u64, bucket_size: u8) -> Self {
        debug_assert!(buckets.is_power_of_two());
        Self {
            slots: Box::default(),
            mask: buckets - 1,
            occupied: 0,
            bucket_size,
        }
    }

    /// Creates the filter of these slots, or of empty ones without memory if `slots` is empty. Returns `None` if the
    /// number of slots is wrong.
    pub(super) fn from_slots(slots: Box<[u8]>, buckets: u64, bucket_size: u8) -> Option<Self> {
        let mut filter = Self::unallocated(buckets, bucket_size);
        (slots.is_empty() || slots.len() as u64 == filter.size()).then(|| {
            filter.occupied = count_occupied(&slots);
            filter.slots = slots;
            filter
        })
    }

    /// Returns the number of slots: the size in bytes, whether or not they take memory.
    pub const fn size(&self) -> u64 {
        (self.mask + 1) * self.bucket_size as u64
    }

    /// Returns the number of buckets.
    pub const fn buckets(&self) -> u64 {
        self.mask + 1
    }

    /// Returns the number of slots that hold a fingerprint.
    pub const fn occupied(&self) -> u64 {
        self.occupied
    }

    pub(super) const fn empty_slots(&self) -> u64 {
        self.size() - self.occupied
    }

    /// Returns the slots, or no slots if all are empty and take no memory.
    pub fn slots(&self) -> &[u8] {
        &self.slots
    }

    /// Allocates the slots, unless they have memory.
    #[inline]
    pub(super) fn allocate(&mut self) -> Result<(), Refusal> {
        if self.slots.is_empty() {
            let size = usize::try_from(self.size()).map_err(|_| Refusal::OutOfMemory)?;
            self.slots = memory::zeroed(size).ok_or(Refusal::OutOfMemory)?;
        }
        Ok(())
    }

    /// Prefetches both buckets of the places whose bits are set, if the filter is large.
    #[inline]
    pub(super) fn prefetch_each(&self, places: &Places, wanted: u64) {
        if self.slots.len() >= LARGE_BYTES {
            places.each(wanted, |_, place| self.prefetch(place));
        }
    }

    /// Prefetches both buckets of a place.
    #[inline]
    pub(super) fn prefetch(&self, place: Place) {
        for bucket in [place.first, place.second] {
            for line in self.range(bucket).step_by(64) {
                memory::prefetch(&self.slots, line);
            }
        }
    }

    /// Returns the range of a bucket's slots.
    #[inline]
    fn range(&self, bucket: u64) -> Range<usize> {
        let size = usize::from(self.bucket_size);
        let start = memory::index(bucket & self.mask) * size;
        start..start + size
    }

    /// Returns the slots of a bucket, or no slots if they take no memory.
    #[inline]
    pub(super) fn bucket(&self, bucket: u64) -> &[u8] {
        self.slots.get(self.range(bucket)).unwrap_or_default()
    }

    #[inline]
    fn bucket_mut(&mut self, bucket: u64) -> &mut [u8] {
        let range = self.range(bucket);
        self.slots.get_mut(range).unwrap_or_default()
    }

    /// Returns whether a bucket has no empty slot.
    #[inline]
    pub(super) fn is_bucket_full(&self, bucket: u64) -> bool {
        !self.slots.is_empty() && !self.bucket(bucket).contains(&0)
    }

    /// Returns whether one of the two buckets holds the fingerprint.
    #[inline]
    pub(super) fn contains(&self, place: Place) -> bool {
        match self.bucket_size {
            1 => self.either_holds::<1>(place),
            2 => self.either_holds::<2>(place),
            4 => self.either_holds::<4>(place),
            _ => {
                work::steps(2);
                let mut buckets = [place.first, place.second].into_iter();
                buckets.any(|bucket| holds(self.bucket(bucket), place.fingerprint))
            }
        }
    }

    /// Returns the mask of the `wanted` places whose fingerprints are in one of their buckets.
    #[inline]
    pub(super) fn contains_each(&self, places: &Places, wanted: u64) -> u64 {
        if self.occupied == 0 {
            return 0;
        }
        let mut found = 0;
        let mut report = |index, holds| found |= u64::from(holds) << index;
        // Each of the usual bucket sizes has a loop of its own.
        match self.bucket_size {
            1 => places.each(wanted, |i, place| report(i, self.either_holds::<1>(place))),
            2 => places.each(wanted, |i, place| report(i, self.either_holds::<2>(place))),
            4 => places.each(wanted, |i, place| report(i, self.either_holds::<4>(place))),
            _ => places.each(wanted, |i, place| report(i, self.contains(place))),
        }
        found
    }

    /// Returns whether one of two buckets of a fixed size holds the fingerprint. Without a branch between the two,
    /// both are loaded in parallel.
    #[inline]
    fn either_holds<const SIZE: usize>(&self, place: Place) -> bool {
        work::steps(2);
        let (buckets, _) = self.slots.as_chunks::<SIZE>();
        let in_bucket = |bucket: u64| {
            let slots = buckets.get(memory::index(bucket & self.mask));
            holds(slots.unwrap_or(&[0; SIZE]), place.fingerprint)
        };
        in_bucket(place.first) | in_bucket(place.second)
    }

    /// Returns the number of slots with the fingerprint in both buckets. If the two are the same bucket, each slot
    /// counts twice.
    pub(super) fn count(&self, place: Place) -> u64 {
        work::steps(2);
        let buckets = [place.first, place.second].map(|bucket| self.bucket(bucket));
        let slots = buckets.into_iter().flatten();
        slots.filter(|slot| **slot == place.fingerprint).count() as u64
    }

    /// Puts the fingerprint into the first empty slot of its first bucket, or else of its second. Returns whether
    /// there was an empty slot.
    #[inline]
    pub(super) fn put(&mut self, place: Place) -> Result<bool, Refusal> {
        if self.empty_slots() == 0 {
            return Ok(false);
        }
        self.allocate()?;
        work::steps(2);
        Ok(self.fill(place.first, place.fingerprint) || self.fill(place.second, place.fingerprint))
    }

    /// Puts a fingerprint into the first empty slot of a bucket. Returns whether there was an empty slot.
    #[inline]
    fn fill(&mut self, bucket: u64, fingerprint: u8) -> bool {
        // In a large bucket that is full, this is faster than a search slot by slot.
        if self.bucket_size >= 16 && self.is_bucket_full(bucket) {
            return false;
        }
        let slot = self.bucket_mut(bucket).iter_mut().find(|slot| **slot == 0);
        let Some(slot) = slot else {
            return false;
        };
        *slot = fingerprint;
        self.occupied += 1;
        true
    }

    /// Makes room for a fingerprint by moving others to their other bucket: at most `max_iterations`, starting in the
    /// first bucket of `place`. Both buckets of `place` are full. Returns the last fingerprint moved, in its new
    /// bucket, or `None` if no room was found and nothing changed.
    pub(super) fn kick(&mut self, place: Place, max_iterations: u16) -> Option<Place> {
        if self.empty_slots() == 0 || self.slots.is_empty() {
            return None;
        }
        let size = usize::from(self.bucket_size);
        let (mut bucket, mut fingerprint, mut slot) = (place.first, place.fingerprint, 0);
        for _ in 0..max_iterations {
            work::steps(1);
            std::mem::swap(&mut self.bucket_mut(bucket)[slot], &mut fingerprint);
            bucket = other_bucket(bucket, fingerprint);
            if self.fill(bucket, fingerprint) {
                return Some(Place::in_bucket(bucket, fingerprint));
            }
            slot = (slot + 1) % size;
        }
        // Undoes the moves: each step gives the bucket of the step before.
        for _ in 0..max_iterations {
            slot = (slot + size - 1) % size;
            bucket = other_bucket(bucket, fingerprint);
            std::mem::swap(&mut self.bucket_mut(bucket)[slot], &mut fingerprint);
        }
        None
    }

    /// Empties the first slot with the fingerprint, in the first bucket or else in the second. Returns whether there
    /// was such a slot.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) -> bool {
        work::steps(2);
        for bucket in [place.first, place.second] {
            let mut slots = self.bucket_mut(bucket).iter_mut();
            if let Some(slot) = slots.find(|slot| **slot == place.fingerprint) {
                *slot = 0;
                self.occupied -= 1;
                return true;
            }
        }
        false
    }

    /// Empties a slot that holds a fingerprint.
    pub(super) fn empty(&mut self, index: usize) {
        self.slots[index] = 0;
        self.occupied -= 1;
    }

    /// Overwrites slots, starting at an index. All of them must exist. Returns whether a fingerprint was lost.
    pub(super) fn write(&mut self, index: usize, slots: &[u8]) -> Result<bool, Refusal> {
        let occupied = count_occupied(slots);
        if occupied == 0 && self.slots.is_empty() {
            return Ok(false);
        }
        self.allocate()?;
        let place = &mut self.slots[index..index + slots.len()];
        self.occupied = self.occupied - count_occupied(place) + occupied;
        let mut both = place.iter().zip(slots);
        let lost = both.any(|(old, new)| *old != 0 && old != new);
        place.copy_from_slice(slots);
        Ok(lost)
    }

    /// Copies the filter, or returns `None` if allocation fails.
    pub(super) fn try_clone(&self) -> Option<Self> {
        work::bytes(self.slots.len());
        let slots = memory::copied(&self.slots)?;
        Some(Self { slots, ..*self })
    }

    /// Moves the slots to other memory.
    pub(super) fn relocate(&mut self, to: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.slots = to(std::mem::take(&mut self.slots));
    }

    /// Returns whether the derived numbers match the slots.
    pub(super) fn is_valid(&self) -> bool {
        let all = self.slots.is_empty() || self.slots.len() as u64 == self.size();
        all && self.occupied == count_occupied(&self.slots)
    }
}

/// Returns whether a slot holds a fingerprint. Without a branch per slot, the compiler vectorizes the comparison.
#[inline]
fn holds(slots: &[u8], fingerprint: u8) -> bool {
    let held = |held: u8, slot: &u8| held | u8::from(*slot == fingerprint);
    slots.iter().fold(0, held) != 0
}

/// Counts the slots that are not empty. Sums that fit a byte let the compiler vectorize the count.
fn count_occupied(slots: &[u8]) -> u64 {
    work::bytes(slots.len());
    let of_chunk = |slots: &[u8]| slots.iter().map(|slot| u8::from(*slot != 0)).sum::<u8>();
    let chunks = slots.chunks(255);
    chunks.map(|slots| u64::from(of_chunk(slots))).sum()
}
