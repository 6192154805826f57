//! The hashes that a filter claimed, to be looked up by the second pass.
//!
//! Each part of them is a hash table whose entries are ascending, with half as many free slots as hashes. A lookup nearly
//! always reads one cache line. A filter before the table has the answer for nearly all other hashes.

use std::iter;

use super::layer::{Hash, Layer, PARTS, part_of, place_in_part, touch_each};

/// The hashes that are looked up together.
const BATCH: usize = 64;
/// The bits for a hash in the filter before the table.
const FILTER_BITS: usize = 12;
/// The capacity for hashes that are pushed beyond the last home.
const LAST_SLOTS: usize = 64;
/// The slots after its home within which a hash nearly always is.
const NEAR: usize = 2;
/// A slot without a hash.
const FREE: Hash = 0;

/// A set of hashes. Each has a number.
pub struct Suspects {
    /// The hashes of each part.
    parts: Vec<Part>,
    /// The number of each part's first slot, and that of all slots.
    firsts: Vec<usize>,
}

/// The hashes with the same highest bits.
pub struct Part {
    /// The hashes, ascending, each at its home or in the next free slot. Free ones are the last.
    slots: Vec<Hash>,
    /// The number of slots that are homes.
    homes: usize,
    /// The number of hashes.
    count: usize,
    filter: Layer,
}

impl Part {
    /// Creates the part of ascending hashes.
    pub fn new(hashes: &[Hash]) -> Self {
        let homes = hashes.len() + hashes.len() / 2;
        let mut part = Self {
            slots: Vec::with_capacity(homes + LAST_SLOTS),
            homes,
            count: hashes.len(),
            filter: Layer::new(hashes.len(), FILTER_BITS),
        };
        for hash in hashes {
            part.filter.add(*hash);
            let place = part.home(*hash).max(part.slots.len());
            part.slots.resize(place, FREE);
            part.slots.push(*hash);
        }
        let end = homes.max(part.slots.len());
        part.slots.resize(end + NEAR + 1, FREE);
        part
    }

    /// Returns the slot where a hash is, or before it if that one was taken.
    fn home(&self, hash: Hash) -> usize {
        place_in_part(hash, self.homes)
    }

    /// Reads the cache lines where a hash nearly always is.
    fn touch(&self, hash: Hash) -> Hash {
        let home = self.home(hash);
        self.slots[home] | self.slots[home + NEAR]
    }

    /// Returns the place of a hash.
    fn find(&self, hash: Hash) -> Option<usize> {
        let home = self.home(hash);
        let mut slots = (home..).zip(&self.slots[home..]);
        let (place, slot) = slots.find(|(_, slot)| **slot >= hash || **slot == FREE)?;
        (*slot == hash).then_some(place)
    }

    fn hashes(&self) -> impl Iterator<Item = Hash> {
        let slots = self.slots.iter().copied();
        slots.filter(|slot| *slot != FREE)
    }
}

impl Suspects {
    /// Creates the set of the hashes of all parts.
    pub fn new(parts: Vec<Part>) -> Self {
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.slots.len();
            end
        });
        let firsts = iter::once(0).chain(ends).collect();
        Self { parts, firsts }
    }

    /// Creates the set of ascending hashes.
    pub fn of_ascending(mut hashes: &[Hash]) -> Self {
        let parts = (0..PARTS).map(|part| {
            let count = hashes.partition_point(|hash| part_of(*hash) <= part);
            let (own, others) = hashes.split_at(count);
            hashes = others;
            Part::new(own)
        });
        Self::new(parts.collect())
    }

    /// Returns the number of hashes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.count).sum()
    }

    /// Returns a number above that of each hash.
    pub fn end(&self) -> usize {
        self.firsts[PARTS]
    }

    /// Returns the hashes, ascending.
    pub fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.parts.iter().flat_map(Part::hashes)
    }

    /// Returns for each of these hashes its number, if it is in the set.
    pub fn find_each(&self, hashes: &[Hash]) -> Vec<Option<usize>> {
        let part = |hash| &self.parts[part_of(hash)];
        let mut numbers = vec![None; hashes.len()];
        let mut claimed = Vec::with_capacity(BATCH);
        for (batch, numbers) in hashes.chunks(BATCH).zip(numbers.chunks_mut(BATCH)) {
            touch_each(batch.iter().map(|hash| part(*hash).filter.touch(*hash)));
            let all = batch.iter().copied().zip(numbers);
            claimed.extend(all.filter(|(hash, _)| part(*hash).filter.contains(*hash)));
            touch_each(claimed.iter().map(|(hash, _)| part(*hash).touch(*hash)));
            for (hash, number) in claimed.drain(..) {
                let place = part(hash).find(hash);
                *number = place.map(|place| self.firsts[part_of(hash)] + place);
            }
        }
        numbers
    }
}

/// A mark for each suspect that was seen.
pub struct Marks(Vec<u64>);

impl Marks {
    pub fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Reads the marks of suspects, which are marked next.
    pub fn touch(&self, numbers: impl Iterator<Item = usize>) {
        touch_each(numbers.map(|number| self.0[number / 64]));
    }

    /// Marks a suspect. Returns whether it was marked before.
    pub fn mark(&mut self, number: usize) -> bool {
        let mask = 1 << (number % 64);
        let word = &mut self.0[number / 64];
        let before = *word & mask != 0;
        *word |= mask;
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hash_has_its_place_and_no_other_has_one() {
        for count in [0, 1, 2, 9, 10_000] {
            let seed = valkeybloom_sketches::Seed::FIXED;
            let hash = |number: usize| {
                let (a, b) = seed.probe(&number.to_le_bytes()).hashes();
                u128::from(a) << 64 | u128::from(b)
            };
            let mut hashes: Vec<Hash> = (0..count).map(hash).collect();
            hashes.extend([1, Hash::MAX - 2, Hash::MAX - 1, Hash::MAX]);
            hashes.sort_unstable();
            let suspects = Suspects::of_ascending(&hashes);
            assert_eq!(suspects.len(), hashes.len());
            assert!(suspects.hashes().eq(hashes.iter().copied()));
            let others: Vec<_> = (count..count + 10_000)
                .map(hash)
                .chain([2, Hash::MAX - 3])
                .collect();
            assert!(suspects.find_each(&others).iter().all(Option::is_none));
            let found = suspects.find_each(&hashes);
            let numbers: Vec<_> = found.iter().copied().flatten().collect();
            assert_eq!(numbers.len(), hashes.len());
            assert!(numbers.is_sorted_by(|one, next| one < next));
            assert!(numbers.iter().all(|number| *number < suspects.end()));
            let others = others.iter().cycle();
            let mixed = others
                .zip(&hashes)
                .flat_map(|(other, hash)| [*other, *hash]);
            let expected = found.into_iter().flat_map(|number| [None, number]);
            let mixed: Vec<_> = mixed.collect();
            assert!(suspects.find_each(&mixed).into_iter().eq(expected));
        }
        assert_eq!(Suspects::of_ascending(&[]).find_each(&[5]), [None]);
    }
}
