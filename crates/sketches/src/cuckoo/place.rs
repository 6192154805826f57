//! Where an item may lie: its fingerprint and its two buckets.

use crate::hash::{BATCH, murmur_64};
use crate::machine::words::{self, MAX_WORDS, Task, Use, Words, each_bit};

/// What a fingerprint is multiplied by to get from one of its buckets to the other.
const STEP: u64 = 0x5bd1_e995;

/// What a filter may know of an item. Made once, and then looked for in every filter.
#[derive(Clone, Copy)]
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
        let hash = murmur_64(&[item], 0);
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
    first: [u64; BATCH],
    second: [u64; BATCH],
    fingerprints: [u64; BATCH],
    count: usize,
}

impl Places {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            first: [0; BATCH],
            second: [0; BATCH],
            fingerprints: [0; BATCH],
            count: 0,
        }
    }

    /// Becomes those of the next items, as many as fit. Returns whether there are any.
    #[inline]
    pub fn take<'i>(&mut self, items: &mut impl Iterator<Item = &'i [u8]>) -> bool {
        words::run(Take {
            items,
            places: self,
        });
        self.count > 0
    }

    /// How many.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// A word with a bit for each.
    pub const fn mask(&self) -> u64 {
        u64::MAX >> (BATCH - self.count)
    }

    /// One of them.
    #[inline(always)]
    pub fn place(&self, index: usize) -> Place {
        Place {
            first: self.first[index],
            second: self.second[index],
            fingerprint: self.fingerprints[index].to_le_bytes()[0],
        }
    }

    /// Visits those whose bits are set, in order.
    #[inline(always)]
    pub fn each(&self, wanted: u64, mut visit: impl FnMut(usize, Place)) {
        each_bit(wanted, |index| visit(index, self.place(index)));
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
            // It stands in where there are no more.
            let mut together = [first; MAX_WORDS];
            for (slot, item) in together[1..W::COUNT].iter_mut().zip(&mut *items) {
                *slot = item;
                places.count += 1;
            }
            let first = murmur_64(&together[..W::COUNT], W::splat(0));
            let fingerprints = fingerprints(first);
            let second = first.xor(fingerprints.mul(W::splat(STEP)));
            first.store(&mut places.first[start..]);
            second.store(&mut places.second[start..]);
            fingerprints.store(&mut places.fingerprints[start..]);
        }
    }
}

/// The fingerprints of hashes, as in [`Place::of`]. Modulo 255 a number is the sum of its bytes, so that wide words
/// need no division.
#[inline(always)]
fn fingerprints<W: Words>(hashes: W) -> W {
    let (byte, bytes) = (W::splat(0xff), W::splat(0x00ff_00ff_00ff_00ff));
    let pairs = hashes.and(bytes).add(hashes.rotate::<56>().and(bytes));
    // The sum of all, at most 2040, is on top of the product.
    let sum = pairs.mul(W::splat(0x0001_0001_0001_0001)).rotate::<16>();
    let sum = sum.and(byte).add(sum.rotate::<56>().and(byte));
    sum.sub_if_more(byte).add(W::splat(1))
}
