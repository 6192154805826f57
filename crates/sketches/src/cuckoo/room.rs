//! Compaction: moves fingerprints of a filter to older filters.

use crate::hash::BATCH;
use crate::machine::{memory, words, work};

use super::buckets::Buckets;
use super::place::Place;

/// The room in the filters older than the one being emptied. They only gain fingerprints.
pub(super) struct Room {
    /// Number of empty slots of all older filters.
    slots: u64,
    /// For each bucket of the largest older filter, a lower bound of how many of the oldest filters are full there. In
    /// smaller filters several of these buckets are the same.
    full: Counts,
    /// Whether `full` was computed for every bucket.
    is_learned: bool,
}

/// A lookup of a bucket at a random address takes as long as reading about this many bytes in sequence.
const LOOKUP_BYTES: u64 = 64;

impl Room {
    /// Returns the room in all filters.
    pub fn of(filters: &[Buckets]) -> Self {
        let slots = filters.iter().map(Buckets::empty_slots).sum();
        Self {
            slots,
            full: Counts::default(),
            is_learned: false,
        }
    }

    /// Excludes filter `newest`. The room is then that of `older`.
    pub fn exclude(&mut self, newest: &Buckets, older: &[Buckets]) {
        self.slots -= newest.empty_slots();
        let Some(largest) = older.last() else { return };
        if older.len() == 1 && self.slots > largest.size() / 16 {
            // Nearly every fingerprint finds room at the first attempt.
            self.full = Counts::default();
            return;
        }
        if self.full.buckets != largest.buckets() {
            self.full = Counts::new(largest.buckets(), older.len());
            self.is_learned = false;
        }
        // One pass over the older filters is faster than a lookup there for each of many fingerprints.
        if !self.is_learned && newest.occupied() > newest.size() / LOOKUP_BYTES {
            self.is_learned = true;
            self.full.set_each(|bucket| {
                let full = older.iter();
                let full = full.take_while(|filter| filter.is_bucket_full(bucket));
                full.count() as u64
            });
            let bytes = older.iter().map(|filter| filter.slots().len());
            work::bytes(bytes.sum());
        }
    }

    /// Returns how many of the oldest filters are known to have no room for a fingerprint.
    #[inline]
    fn full_for(&self, place: Place) -> usize {
        let [first, second] = [place.first, place.second].map(|bucket| self.full.get(bucket));
        memory::index(first.min(second))
    }

    /// Records that the oldest `filters` filters have no room for a fingerprint.
    fn learn(&mut self, place: Place, filters: usize) {
        for bucket in [place.first, place.second] {
            self.full.raise(bucket, filters as u64);
        }
    }

    /// Moves the fingerprints of the newest filter, in order, each to the first older filter with an empty slot for
    /// it. Returns whether any was moved.
    pub fn fill_from(&mut self, newest: &mut Buckets, older: &mut [Buckets]) -> bool {
        let before = newest.occupied();
        let mut movable = Movable {
            fingerprints: [(0, Place::in_bucket(0, 0)); BATCH],
            count: 0,
            next: 0,
            left: before,
        };
        // The loop also ends once all older filters are full.
        while movable.left > 0 && self.slots > 0 {
            self.collect(&mut movable, newest, older);
            for &(index, place) in &movable.fingerprints[..movable.count] {
                let start = self.full_for(place).min(older.len());
                let mut not_full = older[start..].iter_mut();
                let taker = not_full.position(|filter| {
                    work::steps(1);
                    // A filter whose slots can't be allocated has no room.
                    filter.put(place) == Ok(true)
                });
                if taker != Some(0) {
                    self.learn(place, taker.map_or(older.len(), |taker| start + taker));
                }
                if taker.is_some() {
                    newest.empty(index);
                    self.slots -= 1;
                }
            }
        }
        newest.occupied() != before
    }

    /// Collects the next fingerprints for which an older filter may have room, and prefetches their buckets there.
    fn collect(&self, movable: &mut Movable, newest: &Buckets, older: &[Buckets]) {
        const WORD: usize = size_of::<u64>();
        const LINE: usize = 8 * WORD;
        let first = movable.next;
        movable.count = 0;
        // Divides by multiplying: exact for all indices, which are below 2^32.
        let reciprocal = (1_u64 << 63).div_ceil(newest.size() / newest.buckets());
        while movable.left > 0 && movable.count + WORD <= BATCH {
            let slots = &newest.slots()[movable.next..];
            if movable.next.is_multiple_of(LINE) && slots.first_chunk() == Some(&[0; LINE]) {
                movable.next += LINE;
                continue;
            }
            let mut used = match slots.first_chunk() {
                Some(word) => u64::from_le_bytes(*word),
                None => words::begun_with(slots),
            };
            while used != 0 {
                let byte = used.trailing_zeros() / 8;
                let index = movable.next + byte as usize;
                let bucket = (u128::from(reciprocal) * index as u128) >> 63;
                #[allow(clippy::cast_possible_truncation, reason = "less than the index")]
                let place = Place::in_bucket(bucket as u64, newest.slots()[index]);
                if let Some(filter) = older.get(self.full_for(place)) {
                    filter.prefetch(place);
                    movable.fingerprints[movable.count] = (index, place);
                    movable.count += 1;
                }
                movable.left -= 1;
                used &= !(0xff << (8 * byte));
            }
            movable.next += WORD;
        }
        work::bytes(movable.next - first);
    }
}

/// Some fingerprints of the newest filter that may move, and where to go on.
struct Movable {
    /// The fingerprints, each with the index of its slot.
    fingerprints: [(usize, Place); BATCH],
    /// Number of fingerprints that may move.
    count: usize,
    /// The slot to read next.
    next: usize,
    /// Number of fingerprints from that slot on.
    left: u64,
}

/// A small number for each bucket, packed into words. All numbers stay 0 if they can't be allocated.
#[derive(Default)]
struct Counts {
    words: Vec<u64>,
    /// The number of buckets, a power of two, or 0 without any numbers.
    buckets: u64,
    /// Bits per number: a power of two, so that no number crosses a word.
    bits: u32,
}

impl Counts {
    /// Creates numbers from 0 to `most`, all 0, for `buckets` buckets, a power of two.
    fn new(buckets: u64, most: usize) -> Self {
        let bits = (usize::BITS - most.leading_zeros()).next_power_of_two();
        let count = memory::index((buckets * u64::from(bits)).div_ceil(64));
        let mut words = memory::reserved(count).unwrap_or_default();
        words.resize(count.min(words.capacity()), 0);
        Self {
            words,
            buckets,
            bits,
        }
    }

    /// Returns the index of a bucket's word, and the position of its number there.
    #[inline]
    const fn locate(&self, bucket: u64) -> (usize, u64) {
        let bit = (bucket & self.buckets.wrapping_sub(1)) * self.bits as u64;
        (memory::index(bit / 64), bit % 64)
    }

    /// Returns the number of a bucket.
    #[inline]
    fn get(&self, bucket: u64) -> u64 {
        let (word, position) = self.locate(bucket);
        let word = self.words.get(word).copied().unwrap_or(0);
        word >> position & ((1 << self.bits) - 1)
    }

    /// Sets the number of each bucket.
    fn set_each(&mut self, number: impl Fn(u64) -> u64) {
        let mut buckets = 0..self.buckets;
        for word in &mut self.words {
            let positions = (0..64).step_by(self.bits as usize);
            let numbers = positions.zip(&mut buckets);
            *word = numbers.fold(0, |all, (at, bucket)| all | number(bucket) << at);
        }
    }

    /// Raises the number of a bucket, if it is less.
    fn raise(&mut self, bucket: u64, to: u64) {
        let more = to.saturating_sub(self.get(bucket));
        let (word, position) = self.locate(bucket);
        if let Some(word) = self.words.get_mut(word) {
            *word += more << position;
        }
    }
}
