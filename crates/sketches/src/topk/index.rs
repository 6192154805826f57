//! The slots of a list by their items: a hash table with linear probing. It is computed and never stored.
//!
//! Fingerprints that collide are easy to make, so the hash has a secret seed.

use crate::hash::Seed;
use crate::machine::memory;
use crate::machine::work;

use super::pairs::{self, PAIR_BYTES};
use super::slots::Slots;

/// The most entries of a list with the same item. Old versions of `RedisBloom` listed an item more than once. Each
/// search for the item visits all of them, so this bounds the time.
pub const COPIES_MAX: usize = 64;

/// The slots of a list by their items.
#[derive(Debug)]
pub struct Index {
    seed: Seed,
    /// Pairs of half of an item's hash and the slot plus 1, or 0 if the bucket is empty. Their number is a power of
    /// two, and at least one is empty.
    buckets: Box<[u8]>,
    /// Whether two slots have the same item.
    has_copies: bool,
}

/// The hash and the slot of a bucket in use.
type Bucket = (u32, u32);

impl Index {
    /// Creates an index for up to `slots` slots, or returns `None` if allocation fails.
    pub fn new(slots: u32, seed: Seed) -> Option<Self> {
        let bytes = usize::try_from(Self::bytes_of(slots)).ok()?;
        Some(Self {
            seed,
            buckets: memory::zeroed(bytes)?,
            has_copies: false,
        })
    }

    /// Returns the size of the buckets for up to `slots` slots in bytes. At most two thirds are in use, unless there
    /// are more than 2³¹ slots.
    pub fn bytes_of(slots: u32) -> u64 {
        let buckets = (u64::from(slots) * 3 / 2 + 1).next_power_of_two();
        buckets.min(1 << 32) * PAIR_BYTES as u64
    }

    #[inline]
    fn hash(&self, item: &[u8]) -> u32 {
        let [hash, _] = self.seed.hash::<u64>(&[item]);
        pairs::split(hash).0
    }

    #[inline]
    fn mask(&self) -> usize {
        pairs::count(&self.buckets) - 1
    }

    #[inline]
    fn bucket(&self, at: usize) -> Option<Bucket> {
        let (hash, next_slot) = pairs::get(&self.buckets, at);
        Some((hash, next_slot.checked_sub(1)?))
    }

    fn set(&mut self, at: usize, bucket: Option<Bucket>) {
        let bucket = bucket.map_or((0, 0), |(hash, slot)| (hash, slot + 1));
        pairs::set(&mut self.buckets, at, bucket);
    }

    /// Returns the buckets in use from a hash's own one on, up to the next empty one.
    #[inline]
    fn probe(&self, hash: u32) -> impl Iterator<Item = (usize, Bucket)> {
        let (mask, mut at) = (self.mask(), hash as usize & self.mask());
        std::iter::from_fn(move || {
            work::steps(1);
            let found = (at, self.bucket(at)?);
            at = (at + 1) & mask;
            Some(found)
        })
    }

    /// Returns the slots of an item.
    #[inline]
    fn matches(&self, item: &[u8], slots: &Slots) -> impl Iterator<Item = u32> {
        let hash = self.hash(item);
        let equal = self.probe(hash).filter(move |(_, bucket)| bucket.0 == hash);
        let equal = equal.map(|(_, (_, slot))| slot);
        equal.filter(move |slot| slots.holds(*slot, item))
    }

    /// Returns the slot of an item; of several, the one whose entry is last in the heap.
    #[inline]
    pub fn find(&self, item: &[u8], slots: &Slots) -> Option<u32> {
        let mut matches = self.matches(item, slots);
        if self.has_copies {
            matches.max_by_key(|slot| slots.get(*slot).at)
        } else {
            matches.next()
        }
    }

    /// Enters a slot whose item is in no other one.
    pub fn insert(&mut self, slot: u32, slots: &Slots) {
        let hash = self.hash(&slots.get(slot).item);
        let mask = self.mask();
        let last = self.probe(hash).last();
        let at = last.map_or(hash as usize & mask, |(at, _)| (at + 1) & mask);
        self.set(at, Some((hash, slot)));
    }

    /// Enters a slot. Returns `None` if there are [`COPIES_MAX`] of its item.
    pub fn insert_copy(&mut self, slot: u32, slots: &Slots) -> Option<()> {
        let copies = self.matches(&slots.get(slot).item, slots).count();
        self.has_copies |= copies > 0;
        (copies < COPIES_MAX).then(|| self.insert(slot, slots))
    }

    /// Removes a slot, whose item is still in it, if it was entered.
    pub fn remove(&mut self, slot: u32, slots: &Slots) {
        let hash = self.hash(&slots.get(slot).item);
        let found = self.probe(hash).find(|(_, bucket)| bucket.1 == slot);
        let Some((mut hole, _)) = found else {
            return;
        };
        // Buckets move back into the hole, unless they would end up in front of their own place.
        let mask = self.mask();
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some((hash, slot)) = self.bucket(at) else {
                break;
            };
            let own = hash as usize & mask;
            if at.wrapping_sub(own) & mask >= at.wrapping_sub(hole) & mask {
                self.set(hole, Some((hash, slot)));
                hole = at;
            }
        }
        self.set(hole, None);
    }

    /// Returns the size of the buckets in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.buckets.len() as u64
    }

    /// Copies the index, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            buckets: memory::copied(&self.buckets)?,
            ..*self
        })
    }

    /// Moves the buckets.
    pub fn relocate(&mut self, place: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.buckets = place(std::mem::take(&mut self.buckets));
    }
}
