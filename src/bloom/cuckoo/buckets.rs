//! One filter: an array of buckets, each of some slots of one byte. A slot is empty, 0, or holds a fingerprint.

use crate::bloom::hash::BATCH;
use crate::bloom::machine::memory;
use crate::bloom::machine::words;

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

    const fn empty_slots(&self) -> u64 {
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
            places.each(wanted, |_, place| {
                for bucket in [place.first, place.second] {
                    memory::prefetch(&self.slots, self.start(bucket));
                }
            });
        }
    }

    /// Where a bucket begins. Whatever is allocated fits a `usize`.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "so it is said above")]
    const fn start(&self, bucket: u64) -> usize {
        (bucket & self.mask) as usize * self.bucket_size as usize
    }

    #[inline]
    fn bucket(&self, bucket: u64) -> &[u8] {
        let start = self.start(bucket);
        let end = start + usize::from(self.bucket_size);
        self.slots.get(start..end).unwrap_or_default()
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
        buckets.any(|bucket| self.bucket(bucket).contains(&place.fingerprint))
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
        let buckets = [place.first, place.second].into_iter();
        let slots = buckets.flat_map(|bucket| self.bucket(bucket));
        slots.filter(|slot| **slot == place.fingerprint).count() as u64
    }

    /// Puts the fingerprint into the first empty slot of its first bucket, or else of its second. Returns whether
    /// there was one.
    #[inline]
    pub(super) fn put(&mut self, place: Place) -> Result<bool, NoMemory> {
        if self.is_full() {
            return Ok(false);
        }
        self.allocate()?;
        Ok(self.fill(place.first, place.fingerprint) || self.fill(place.second, place.fingerprint))
    }

    /// Puts a fingerprint into the first empty slot of a bucket, if there is one.
    #[inline]
    fn fill(&mut self, bucket: u64, fingerprint: u8) -> bool {
        let slot = self.bucket_mut(bucket).iter_mut().find(|slot| **slot == 0);
        let Some(slot) = slot else {
            return false;
        };
        *slot = fingerprint;
        self.occupied += 1;
        true
    }

    /// Makes room by moving fingerprints to their other bucket, at most so many one after another, beginning
    /// in the first bucket of `place`, both of whose buckets are full. Returns whether room was found; if not,
    /// nothing has changed.
    pub(super) fn kick(&mut self, place: Place, max_iterations: u16) -> bool {
        if self.is_full() || self.slots.is_empty() {
            return false;
        }
        let size = usize::from(self.bucket_size);
        let (mut bucket, mut fingerprint, mut slot) = (place.first, place.fingerprint, 0);
        for _ in 0..max_iterations {
            std::mem::swap(&mut self.bucket_mut(bucket)[slot], &mut fingerprint);
            bucket = other_bucket(bucket, fingerprint);
            if self.fill(bucket, fingerprint) {
                return true;
            }
            slot = (slot + 1) % size;
        }
        // Each step says where the one before it was.
        for _ in 0..max_iterations {
            slot = (slot + size - 1) % size;
            bucket = other_bucket(bucket, fingerprint);
            std::mem::swap(&mut self.bucket_mut(bucket)[slot], &mut fingerprint);
        }
        false
    }

    /// Empties the first slot with the fingerprint, in the first bucket or else in the second. Returns whether
    /// there was one.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) -> bool {
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

    /// Moves fingerprints, in order, to the first of the older filters with an empty slot for them. Returns
    /// whether any was moved.
    pub(super) fn move_to(&mut self, older: &mut [Self], room: &mut Room) -> bool {
        let before = self.occupied;
        let (mut places, mut indices) = (Places::new(), [0; BATCH]);
        let (mut start, mut to_come) = (0, self.occupied);
        // What is full stays full meanwhile, and nothing is left to do once all are.
        while to_come > 0 && room.slots > 0 {
            start = self.collect(start, &mut places, &mut indices);
            to_come -= places.count() as u64;
            let mut left = places.mask();
            let mut full = older.len();
            places.each(left, |_, place| full = full.min(room.full_for(place)));
            // A filter gets all that those before it left, in order. So each may get a whole batch at once.
            for (number, filter) in older.iter_mut().enumerate().skip(full) {
                if left == 0 {
                    break;
                }
                filter.prefetch_each(&places, left);
                places.each(left, |item, place| {
                    // A filter that has no memory has no room.
                    if filter.put(place) == Ok(true) {
                        left &= !(1 << item);
                        self.slots[indices[item]] = 0;
                        self.occupied -= 1;
                        room.slots -= 1;
                        room.learn(place, number);
                    }
                });
            }
            places.each(left, |_, place| room.learn(place, older.len()));
        }
        self.occupied != before
    }

    /// Collects the next fingerprints from the slot `start` on, and the indices of their slots, until there may be no
    /// room for more. Returns where to go on.
    fn collect(
        &self,
        mut start: usize,
        places: &mut Places,
        indices: &mut [usize; BATCH],
    ) -> usize {
        const WORD: usize = size_of::<u64>();
        const LINE: usize = 8 * WORD;
        places.clear();
        while start < self.slots.len() && places.count() + WORD <= BATCH {
            let slots = &self.slots[start..];
            if start.is_multiple_of(LINE) && slots.first_chunk() == Some(&[0; LINE]) {
                start += LINE;
                continue;
            }
            let mut used = match slots.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => words::begun_with(slots),
            };
            while used != 0 {
                let byte = used.trailing_zeros() / 8;
                let index = start + byte as usize;
                let bucket = index as u64 / u64::from(self.bucket_size);
                indices[places.count()] = index;
                places.push(Place::in_bucket(bucket, self.slots[index]));
                used &= !(0xff << (8 * byte));
            }
            start += WORD;
        }
        start
    }

    /// Writes slots over those from this index on. They must be there.
    pub(super) fn write(&mut self, index: usize, slots: &[u8]) -> Result<(), NoMemory> {
        let occupied = count_occupied(slots);
        if occupied == 0 && self.slots.is_empty() {
            return Ok(());
        }
        self.allocate()?;
        let place = &mut self.slots[index..index + slots.len()];
        self.occupied = self.occupied - count_occupied(place) + occupied;
        place.copy_from_slice(slots);
        Ok(())
    }

    /// A copy in memory of its own.
    pub(super) fn try_clone(&self) -> Result<Self, NoMemory> {
        let mut copy = Self::unallocated(self.mask + 1, self.bucket_size);
        copy.occupied = self.occupied;
        if !self.slots.is_empty() {
            copy.allocate()?;
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

/// The room in older filters during a compaction, in which they only fill.
pub(super) struct Room {
    /// Empty slots of all of them.
    slots: u64,
    /// Of each bucket, how many of the oldest filters have no empty slot in it, as far as was seen. Kept where filters
    /// are many, tens of thousands of a few bytes perhaps, so that none is asked in vain again and again.
    full: Vec<u16>,
}

impl Room {
    /// Filters that are so many are of one size.
    const MANY: usize = 64;

    /// The room in all filters.
    pub(super) fn of(filters: &[Buckets]) -> Self {
        let mut full = Vec::new();
        if let [oldest, .., newest] = filters
            && filters.len() >= Self::MANY
            && oldest.mask == newest.mask
            && let Ok(buckets) = usize::try_from(oldest.buckets())
            && full.try_reserve_exact(buckets).is_ok()
        {
            full.resize(buckets, 0);
        }
        let slots = filters.iter().map(Buckets::empty_slots).sum();
        Self { slots, full }
    }

    /// Takes out the newest filter.
    pub(super) fn without(&mut self, newest: &Buckets) {
        self.slots -= newest.empty_slots();
    }

    /// How many of the oldest filters are known to have no room for a fingerprint.
    fn full_for(&self, place: Place) -> usize {
        let of = |index| self.full.get(index).copied().unwrap_or(0);
        let [first, second] = self.indices(place).map(of);
        first.min(second).into()
    }

    /// Notes that so many of the oldest have none.
    fn learn(&mut self, place: Place, filters: usize) {
        let filters = u16::try_from(filters).unwrap_or(u16::MAX);
        for index in self.indices(place) {
            if let Some(full) = self.full.get_mut(index) {
                *full = filters.max(*full);
            }
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "an index of the table")]
    fn indices(&self, place: Place) -> [usize; 2] {
        let mask = (self.full.len() as u64).saturating_sub(1);
        [place.first, place.second].map(|bucket| (bucket & mask) as usize)
    }
}

/// Slots that are not empty. In sums of a byte the compiler handles many slots at once.
fn count_occupied(slots: &[u8]) -> u64 {
    let of_chunk = |slots: &[u8]| slots.iter().map(|slot| u8::from(*slot != 0)).sum::<u8>();
    slots
        .chunks(255)
        .map(|slots| u64::from(of_chunk(slots)))
        .sum()
}
