//! The hashes that a filter claimed, to be looked up by the second pass.
//!
//! Each part of them is a hash table whose entries are ascending, with half as many free slots as hashes. A lookup mostly reads
//! one or two cache lines. A filter before the table has the answer for nearly all other hashes, unless most that come are
//! suspects.

use std::cell::Cell;
use std::mem;

use valkeybloom_sketches::Seed;

use super::hash::{Hash, PARTS, part_of, place_in_part};
use super::layer::{Layer, touch_each};

/// The hashes that are looked up together.
const BATCH: usize = 64;
/// The bits for a hash in the filter before the table.
const FILTER_BITS: usize = 12;
/// The slots after its home within which seven hashes of eight are.
const NEAR: usize = 2;
/// A slot without a hash.
const FREE: Hash = 0;

/// A set of hashes. Each has a number.
pub struct Suspects {
    /// The key of the hashes.
    pub seed: Seed,
    parts: Vec<Part>,
}

/// The hashes with the same highest bits.
pub struct Part {
    table: Table,
    /// None where it would seldom have the answer.
    filter: Option<Layer>,
    /// The number of hashes.
    len: usize,
}

/// A hash table.
struct Table {
    /// The hashes, ascending, each at its home or after it, with no free slot between.
    slots: Vec<Hash>,
    /// The number of slots that are homes.
    homes: usize,
}

/// An item that is a suspect.
pub struct Found {
    /// The index of its hash among those that were looked up.
    pub index: usize,
    /// The number of the suspect.
    pub number: usize,
}

impl Table {
    /// Creates the table of hashes, with one of equal ones, in the memory of other slots.
    fn new(hashes: &[Hash], mut slots: Vec<Hash>) -> Self {
        let homes = hashes.len() + hashes.len() / 2;
        slots.clear();
        slots.resize(homes + NEAR + 1, FREE);
        let mut table = Self { slots, homes };
        for hash in hashes {
            table.insert(*hash);
        }
        table
    }

    /// Inserts a hash before the first larger one at its home or after it, and moves that one on.
    fn insert(&mut self, mut hash: Hash) {
        for slot in place_in_part(hash, self.homes).. {
            if slot == self.slots.len() {
                self.slots.push(FREE);
            }
            let there = &mut self.slots[slot];
            if [hash, FREE].contains(there) {
                *there = hash;
                return;
            }
            // The larger one moves on.
            if *there > hash {
                mem::swap(there, &mut hash);
            }
        }
    }

    /// Reads the cache lines where a hash mostly is.
    fn touch(&self, hash: Hash) -> Hash {
        let home = place_in_part(hash, self.homes);
        self.slots[home] | self.slots[home + NEAR]
    }

    /// Returns the slot of a hash.
    fn find(&self, hash: Hash) -> Option<usize> {
        let home = place_in_part(hash, self.homes);
        let mut slots = (home..).zip(&self.slots[home..]);
        let (slot, found) = slots.find(|(_, found)| **found >= hash || **found == FREE)?;
        (*found == hash).then_some(slot)
    }

    /// Returns the hashes, ascending.
    fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.slots.iter().copied().filter(|slot| *slot != FREE)
    }
}

thread_local! {
    /// Memory to sort in. Freed each time, it would leave gaps between the lists: 244 MB in place of 180 MB with half of 20
    /// million lines duplicates.
    static SORTED: Cell<Vec<Hash>> = const { Cell::new(Vec::new()) };
}

/// Sorts hashes with the same highest bits, and keeps one of equal ones.
pub fn sort(hashes: &mut Vec<Hash>) {
    // Hashes are spread evenly, so a table sorts them in linear time.
    let table = Table::new(hashes, SORTED.take());
    hashes.clear();
    hashes.extend(table.hashes());
    SORTED.set(table.slots);
}

impl Part {
    /// Creates the part of different hashes, with a filter if most hashes that are looked up are not among them.
    pub fn new(hashes: &[Hash], most_are_others: bool) -> Self {
        let filter = most_are_others.then(|| {
            let mut filter = Layer::new(hashes.len(), FILTER_BITS);
            for hash in hashes {
                filter.add(*hash);
            }
            filter
        });
        Self {
            table: Table::new(hashes, Vec::new()),
            filter,
            len: hashes.len(),
        }
    }
}

impl Suspects {
    /// Creates the set of the hashes of all parts.
    pub fn new(seed: Seed, parts: Vec<Part>) -> Self {
        Self { seed, parts }
    }

    /// Returns the number of hashes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Returns the hashes, ascending.
    pub fn hashes(&self) -> impl Iterator<Item = Hash> {
        self.parts.iter().flat_map(|part| part.table.hashes())
    }

    /// Returns the words of a state: the hashes, and the key.
    pub fn to_words(&self) -> impl Iterator<Item = u128> {
        let (seed, _) = self.seed.as_bytes().as_chunks();
        self.hashes()
            .chain(seed.iter().copied().map(u128::from_le_bytes))
    }

    /// Returns what an earlier run saved; `None` if the words are not of suspects.
    pub fn of_words(mut hashes: Vec<u128>) -> Option<Self> {
        let seed = hashes.split_off(hashes.len().checked_sub(2)?);
        let seed: Vec<u8> = seed.into_iter().flat_map(u128::to_le_bytes).collect();
        let seed = Seed::new(seed.try_into().ok()?);
        let all = [FREE].iter().chain(&hashes);
        if !all.is_sorted_by(|one, next| one < next) {
            return None;
        }
        let start = |part| hashes.partition_point(|hash| part_of(*hash) < part);
        let parts = (0..PARTS).map(|part| Part::new(&hashes[start(part)..start(part + 1)], true));
        Some(Self::new(seed, parts.collect()))
    }

    /// Returns a number above that of each hash. The parts have about the same size, so few numbers are not used.
    pub fn end(&self) -> usize {
        let most = self.parts.iter().map(|part| part.table.slots.len()).max();
        PARTS * most.unwrap_or(0)
    }

    /// Finds the hashes that are in the set, in their order.
    pub fn find_each(&self, hashes: &[Hash]) -> Vec<Found> {
        let part = |hash| &self.parts[part_of(hash)];
        let mut found = Vec::new();
        let mut claimed = Vec::with_capacity(BATCH);
        for (batch, start) in hashes.chunks(BATCH).zip((0..).step_by(BATCH)) {
            let all = (start..).zip(batch.iter().copied());
            let filter = |hash| part(hash).filter.as_ref();
            touch_each(
                batch
                    .iter()
                    .filter_map(|hash| Some(filter(*hash)?.touch(*hash))),
            );
            claimed.extend(
                all.filter(|(_, hash)| filter(*hash).is_none_or(|layer| layer.contains(*hash))),
            );
            touch_each(
                claimed
                    .iter()
                    .map(|(_, hash)| part(*hash).table.touch(*hash)),
            );
            found.extend(claimed.drain(..).filter_map(|(index, hash)| {
                let slot = part(hash).table.find(hash)?;
                let number = slot * PARTS + part_of(hash);
                Some(Found { index, number })
            }));
        }
        found
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
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_hash_has_its_number_and_no_other_has_one() {
        for count in [0, 1, 2, 9, 10_000] {
            let seed = Seed::FIXED;
            let hash = |number: usize| {
                let (a, b) = seed.probe(&number.to_le_bytes()).hashes();
                u128::from(a) << 64 | u128::from(b)
            };
            let mut hashes: Vec<Hash> = (0..count).map(hash).collect();
            hashes.extend([1, Hash::MAX - 2, Hash::MAX - 1, Hash::MAX]);
            hashes.sort_unstable();
            let words = [&hashes[..], &[5, 6]].concat();
            let suspects = Suspects::of_words(words.clone()).expect("they ascend");
            assert!(suspects.to_words().eq(words));
            let others = (count..count + 10_000).map(hash);
            let others: Vec<_> = others.chain([2, Hash::MAX - 3]).collect();
            assert!(suspects.find_each(&others).is_empty());
            let found = suspects.find_each(&hashes);
            assert!(found.iter().map(|it| it.index).eq(0..hashes.len()));
            let numbers: Vec<_> = found.iter().map(|it| it.number).collect();
            assert!(numbers.iter().all(|number| *number < suspects.end()));
            let different: HashSet<_> = numbers.iter().collect();
            assert_eq!(different.len(), hashes.len());
            let mixed = others.iter().cycle().zip(&hashes);
            let mixed: Vec<_> = mixed.flat_map(|(other, hash)| [*other, *hash]).collect();
            let found = suspects.find_each(&mixed).into_iter();
            let found = found.map(|it| (it.index, it.number));
            assert!(found.eq((1..).step_by(2).zip(numbers)));
        }
        let empty = Suspects::of_words(vec![5, 6]).expect("there is a key");
        assert!(empty.find_each(&[5]).is_empty());
        assert!(Suspects::of_words(vec![7]).is_none());
    }
}
