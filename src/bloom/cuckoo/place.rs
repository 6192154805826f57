//! Where an item may lie: its fingerprint and its two buckets.

use crate::bloom::hash::{BATCH, murmur_64};

/// What a fingerprint is multiplied by to get from one of its buckets to the other.
const STEP: u64 = 0x5bd1_e995;

/// What a filter may know of an item. Made once, and then looked for in every filter.
#[derive(Clone, Copy, Default)]
pub struct Place {
    /// The first bucket, before it is reduced to a filter's number of buckets.
    pub first: u64,
    /// The second bucket, likewise.
    pub second: u64,
    /// 1 to 255.
    pub fingerprint: u8,
}

impl Place {
    /// The place of an item. Stored slots depend on it, so it never changes.
    #[inline]
    pub fn of(item: &[u8]) -> Self {
        let hash = murmur_64(item, 0);
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a remainder of 255 fits a byte"
        )]
        let fingerprint = (hash % 255) as u8 + 1;
        Self::in_bucket(hash, fingerprint)
    }

    /// The place of a fingerprint that lies in this bucket.
    #[inline]
    pub const fn in_bucket(bucket: u64, fingerprint: u8) -> Self {
        Self {
            first: bucket,
            second: other_bucket(bucket, fingerprint),
            fingerprint,
        }
    }
}

/// The other bucket of a fingerprint. The number of buckets is a power of two, so that reducing this is the
/// same as reducing the bucket first.
#[inline]
pub const fn other_bucket(bucket: u64, fingerprint: u8) -> u64 {
    bucket ^ (fingerprint as u64 * STEP)
}

/// The places of items that are looked at together.
pub struct Places {
    places: [Place; BATCH],
    count: usize,
}

impl Places {
    /// Hashes the next items, as many as fit.
    #[inline]
    pub fn of<'i>(items: &mut impl Iterator<Item = &'i [u8]>) -> Self {
        let mut places = [Place::default(); BATCH];
        let mut count = 0;
        for (place, item) in places.iter_mut().zip(items) {
            *place = Place::of(item);
            count += 1;
        }
        Self { places, count }
    }

    /// All of them, in order.
    #[inline]
    pub fn all(&self) -> &[Place] {
        &self.places[..self.count]
    }
}
