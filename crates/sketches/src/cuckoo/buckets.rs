//! One filter: an array of buckets, each of some slots of one byte. A slot is empty, 0, or holds a fingerprint.

use crate::machine::{memory, work};

use super::place::{Place, Places, other_bucket};

/// From this size on memory is prefetched: smaller filters stay in the processor's caches.
const LARGE_BYTES: usize = 1 << 20;

/// There is no memory for a filter's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// One filter.
#[derive(Debug)]
pub struct Buckets {
    /// Slot *j* of bucket *b* is at *b*·*s* + *j*, for *s* slots a bucket. None at all, while all are empty and
    /// nobody has needed memory for them.
    slots: Box<[u8]>,
    /// The number of buckets, a power of two, less 1.
    mask: u64,
    /// Slots that are not empty.
    occupied: u64,
    bucket_size: u8,
}

impl Buckets {
    /// So many empty buckets, a power of two, which take no memory yet.
    pub(super) fn unallocated(buckets: u64, bucket_size: u8) -> Self {
        debug_assert!(buckets.is_power_of_two());
        Self {
            slots: Box::default(),
            mask: buckets - 1,
            occupied: 0,
            bucket_size,
        }
    }

    /// The buckets that these slots are; none, if they are all empty. Returns `None` if they are not as many.
    pub(super) fn from_slots(slots: Box<[u8]>, buckets: u64, bucket_size: u8) -> Option<Self> {
        let mut filter = Self::unallocated(buckets, bucket_size);
        (slots.is_empty() || slots.len() as u64 == filter.size()).then(|| {
            filter.occupied = count_occupied(&slots);
            filter.slots = slots;
            filter
        })
    }

    /// Number of slots, which is the size in bytes whether or not they take memory.
    pub const fn size(&self) -> u64 {
        (self.mask + 1) * self.bucket_size as u64
    }

    /// Number of buckets.
    pub const fn buckets(&self) -> u64 {
        self.mask + 1
    }

    /// Slots that hold a fingerprint.
    pub const fn occupied(&self) -> u64 {
        self.occupied
    }

    pub(super) const fn empty_slots(&self) -> u64 {
        self.size() - self.occupied
    }

    const fn is_full(&self) -> bool {
        self.empty_slots() == 0
    }

    /// The slots; none, if they are all empty and take no memory.
    pub fn slots(&self) -> &[u8] {
        &self.slots
    }

    /// Takes memory for the slots, unless they have it.
    #[inline]
    pub(super) fn allocate(&mut self) -> Result<(), NoMemory> {
        if self.slots.is_empty() {
            let size = usize::try_from(self.size()).map_err(|_| NoMemory)?;
            self.slots = memory::zeroed(size).ok_or(NoMemory)?;
        }
        Ok(())
    }

    /// Asks for the memory of both buckets of the places whose bits are set.
    #[inline]
    pub(super) fn prefetch_each(&self, places: &Places, wanted: u64) {
        if self.slots.len() >= LARGE_BYTES {
            places.each(wanted, |_, place| self.prefetch(place));
        }
    }

    /// Asks for the memory of both buckets of a place.
    #[inline]
    pub(super) fn prefetch(&self, place: Place) {
        for bucket in [place.first, place.second] {
            for line in (0..self.bucket_size.into()).step_by(64) {
                memory::prefetch(&self.slots, self.start(bucket) + line);
            }
        }
    }

    /// Where a bucket begins. Whatever is allocated fits a `usize`.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "so it is said above")]
    const fn start(&self, bucket: u64) -> usize {
        (bucket & self.mask) as usize * self.bucket_size as usize
    }

    /// The slots of a bucket; none, if they take no memory.
    #[inline]
    pub(super) fn bucket(&self, bucket: u64) -> &[u8] {
        let start = self.start(bucket);
        let end = start + usize::from(self.bucket_size);
        self.slots.get(start..end).unwrap_or_default()
    }

    /// Whether a bucket has no empty slot.
    #[inline]
    pub(super) fn is_bucket_full(&self, bucket: u64) -> bool {
        match self.bucket_size {
            1 => self.is_full_of::<1>(bucket),
            2 => self.is_full_of::<2>(bucket),
            4 => self.is_full_of::<4>(bucket),
            _ => !self.slots.is_empty() && !self.bucket(bucket).contains(&0),
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "as in `start`")]
    fn is_full_of<const SIZE: usize>(&self, bucket: u64) -> bool {
        let (buckets, _) = self.slots.as_chunks::<SIZE>();
        let bucket = buckets.get((bucket & self.mask) as usize);
        bucket.is_some_and(|slots| slots.iter().all(|slot| *slot != 0))
    }

    #[inline]
    fn bucket_mut(&mut self, bucket: u64) -> &mut [u8] {
        let start = self.start(bucket);
        let end = start + usize::from(self.bucket_size);
        self.slots.get_mut(start..end).unwrap_or_default()
    }

    /// Whether one of the two buckets holds the fingerprint.
    #[inline]
    pub(super) fn contains(&self, place: Place) -> bool {
        work::steps(2);
        match self.bucket_size {
            1 => self.either_holds::<1>(place),
            2 => self.either_holds::<2>(place),
            4 => self.either_holds::<4>(place),
            _ => self.one_holds(place),
        }
    }

    /// Of which of these places, those whose bits are set, it is so.
    #[inline]
    pub(super) fn contains_each(&self, places: &Places, wanted: u64) -> u64 {
        if self.occupied == 0 {
            return 0;
        }
        work::steps(2 * wanted.count_ones() as usize);
        let mut found = 0;
        let mut report = |index, holds| found |= u64::from(holds) << index;
        // Each bucket size has a loop of its own.
        match self.bucket_size {
            1 => places.each(wanted, |i, place| report(i, self.either_holds::<1>(place))),
            2 => places.each(wanted, |i, place| report(i, self.either_holds::<2>(place))),
            4 => places.each(wanted, |i, place| report(i, self.either_holds::<4>(place))),
            _ => places.each(wanted, |i, place| report(i, self.one_holds(place))),
        }
        found
    }

    #[inline]
    fn one_holds(&self, place: Place) -> bool {
        let mut buckets = [place.first, place.second].into_iter();
        // Without a branch for each slot the compiler compares many at once.
        let holds = |held: u8, slot: &u8| held | u8::from(*slot == place.fingerprint);
        buckets.any(|bucket| self.bucket(bucket).iter().fold(0, holds) != 0)
    }

    /// The same for buckets of a fixed size: without a branch between them, neither waits for the other.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "as in `start`")]
    fn either_holds<const SIZE: usize>(&self, place: Place) -> bool {
        let (buckets, _) = self.slots.as_chunks::<SIZE>();
        let holds = |bucket: u64| {
            let bucket = buckets.get((bucket & self.mask) as usize);
            let slots = bucket.unwrap_or(&[0; SIZE]).iter();
            slots.fold(0, |held, slot| held | u8::from(*slot == place.fingerprint))
        };
        holds(place.first) | holds(place.second) != 0
    }

    /// Slots with the fingerprint in the first bucket, and those in the second; all of them twice where the two
    /// are one.
    pub(super) fn count(&self, place: Place) -> u64 {
        work::steps(2);
        let of = |bucket| {
            let slots = self.bucket(bucket).iter();
            slots
                .map(|slot| u64::from(*slot == place.fingerprint))
                .sum::<u64>()
        };
        of(place.first) + of(place.second)
    }

    /// Puts the fingerprint into the first empty slot of its first bucket, or else of its second. Returns whether
    /// there was one.
    #[inline]
    pub(super) fn put(&mut self, place: Place) -> Result<bool, NoMemory> {
        if self.is_full() {
            return Ok(false);
        }
        self.allocate()?;
        work::steps(2);
        Ok(self.fill(place.first, place.fingerprint) || self.fill(place.second, place.fingerprint))
    }

    /// Puts a fingerprint into the first empty slot of a bucket, if there is one.
    #[inline]
    fn fill(&mut self, bucket: u64, fingerprint: u8) -> bool {
        // Quicker than slot by slot in a large bucket that is full.
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

    /// Makes room by moving fingerprints to their other bucket, at most so many one after another, beginning
    /// in the first bucket of `place`, both of whose buckets are full. Returns the fingerprint that found room, in
    /// its bucket; without room, nothing has changed.
    pub(super) fn kick(&mut self, place: Place, max_iterations: u16) -> Option<Place> {
        if self.is_full() || self.slots.is_empty() {
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
        // Each step says where the one before it was.
        for _ in 0..max_iterations {
            slot = (slot + size - 1) % size;
            bucket = other_bucket(bucket, fingerprint);
            std::mem::swap(&mut self.bucket_mut(bucket)[slot], &mut fingerprint);
        }
        None
    }

    /// Empties the first slot with the fingerprint, in the first bucket or else in the second. Returns whether
    /// there was one.
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

    /// Writes slots over those from this index on. They must be there. Returns whether a fingerprint was lost.
    pub(super) fn write(&mut self, index: usize, slots: &[u8]) -> Result<bool, NoMemory> {
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

    /// A copy in memory of its own.
    pub(super) fn try_clone(&self) -> Result<Self, NoMemory> {
        let mut copy = Self::unallocated(self.mask + 1, self.bucket_size);
        copy.occupied = self.occupied;
        if !self.slots.is_empty() {
            copy.allocate()?;
            work::bytes(self.slots.len());
            copy.slots.copy_from_slice(&self.slots);
        }
        Ok(copy)
    }

    /// Has the slots moved to other memory.
    pub(super) fn relocate(&mut self, to: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.slots = to(std::mem::take(&mut self.slots));
    }

    /// Whether what is known of the slots is so.
    pub(super) fn is_valid(&self) -> bool {
        let all = self.slots.is_empty() || self.slots.len() as u64 == self.size();
        all && self.occupied == count_occupied(&self.slots)
    }
}

/// Slots that are not empty. In sums of a byte the compiler handles many slots at once.
fn count_occupied(slots: &[u8]) -> u64 {
    work::bytes(slots.len());
    let of_chunk = |slots: &[u8]| slots.iter().map(|slot| u8::from(*slot != 0)).sum::<u8>();
    slots
        .chunks(255)
        .map(|slots| u64::from(of_chunk(slots)))
        .sum()
}
