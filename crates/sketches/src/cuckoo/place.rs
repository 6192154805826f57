//! The place of an item: its fingerprint and its two buckets.

use crate::hash::{BATCH, murmur_64};
use crate::machine::words::{self, MAX_WORDS, Task, Use, Words, each_bit};

/// The factor of a fingerprint in the XOR between its two buckets.
const STEP: u64 = 0x5bd1_e995;

/// The fingerprint of an item and the buckets that may hold it. Computed once for all filters.
#[derive(Clone, Copy)]
pub struct Place {
    /// The first bucket, not yet reduced modulo a filter's number of buckets.
    pub first: u64,
    /// The second bucket, not yet reduced modulo a filter's number of buckets.
    pub second: u64,
    /// The fingerprint, 1 to 255.
    pub fingerprint: u8,
}

impl Place {
    /// Returns the place of an item. Stored slots depend on it, so it never changes.
    #[inline]
    pub fn of(item: &[u8]) -> Self {
        Self::of_hash(murmur_64(&[item], 0))
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "a remainder of 255")]
    const fn of_hash(hash: u64) -> Self {
        Self::in_bucket(hash, (hash % 255) as u8 + 1)
    }

    /// Returns the place of a fingerprint that is in a bucket.
    #[inline]
    pub const fn in_bucket(bucket: u64, fingerprint: u8) -> Self {
        Self {
            first: bucket,
            second: other_bucket(bucket, fingerprint),
            fingerprint,
        }
    }
}

/// Returns the other bucket of a fingerprint. The number of buckets is a power of two, so reducing the result equals
/// reducing the bucket first.
#[inline]
pub const fn other_bucket(bucket: u64, fingerprint: u8) -> u64 {
    bucket ^ (fingerprint as u64 * STEP)
}

/// The places of up to [`BATCH`] items.
pub struct Places {
    hashes: [u64; BATCH],
    count: usize,
}

impl Places {
    /// Creates an empty batch.
    pub const fn new() -> Self {
        Self {
            hashes: [0; BATCH],
            count: 0,
        }
    }

    /// Replaces the places with those of the next items, up to [`BATCH`]. Returns whether there are any.
    #[inline]
    pub fn take<'i>(&mut self, items: &mut impl Iterator<Item = &'i [u8]>) -> bool {
        words::run(Take {
            items,
            places: self,
        });
        self.count > 0
    }

    /// Returns the number of places.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns a mask of all places.
    pub const fn mask(&self) -> u64 {
        u64::MAX >> (BATCH - self.count)
    }

    /// Visits the places whose bits are set, in order.
    #[inline]
    pub fn each(&self, wanted: u64, mut visit: impl FnMut(usize, Place)) {
        each_bit(wanted, |index| {
            visit(index, Place::of_hash(self.hashes[index]));
        });
    }
}

struct Take<'p, I> {
    items: &'p mut I,
    places: &'p mut Places,
}

impl<'i, I: Iterator<Item = &'i [u8]>> Task for Take<'_, I> {
    const USE: Use = Use::Hashing;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let Self { items, places } = self;
        places.count = 0;
        while places.count < BATCH
            && let Some(first) = items.next()
        {
            let start = places.count;
            places.count += 1;
            // The first item fills up an incomplete group.
            let mut together = [first; MAX_WORDS];
            for (slot, item) in together[1..W::COUNT].iter_mut().zip(&mut *items) {
                *slot = item;
                places.count += 1;
            }
            murmur_64(&together[..W::COUNT], W::splat(0)).store(&mut places.hashes[start..]);
        }
    }
}
