//! The hashes that a filter claimed, to be looked up by the second pass.
//!
//! They are sorted, with the first place of each range of them beside, so one takes little more than its 16 bytes. A filter of
//! cache lines before them has the answer for nearly all other hashes.

use super::layer::{Hash, Layer};

/// The number of hashes in a range, about.
const RANGE: usize = 8;
/// The bits for a hash in the filter before them.
const FILTER_BITS: usize = 12;

/// A set of hashes. Each has a number.
pub struct Suspects {
    /// Ascending.
    hashes: Vec<Hash>,
    /// The number of the first hash of each range of equal highest bits, and the end of the last one.
    firsts: Vec<usize>,
    shift: u32,
    filter: Layer,
}

impl Suspects {
    /// Creates the set of sorted lists, each above the one before.
    pub fn new(mut lists: Vec<Vec<Hash>>) -> Self {
        let count = lists.iter().map(Vec::len).sum();
        let mut hashes = Vec::with_capacity(count);
        lists.drain(..).for_each(|list| hashes.extend(list));
        Self::of_sorted(hashes)
    }

    /// Creates the set of sorted hashes.
    pub fn of_sorted(hashes: Vec<Hash>) -> Self {
        let bits = (hashes.len() / RANGE).max(1).ilog2() + 1;
        let shift = 128 - bits;
        let mut filter = Layer::new(hashes.len(), FILTER_BITS);
        let mut firsts = Vec::with_capacity((1 << bits) + 1);
        for (number, hash) in hashes.iter().enumerate() {
            filter.add(*hash);
            let range = (hash >> shift) as usize;
            while firsts.len() <= range {
                firsts.push(number);
            }
        }
        firsts.resize((1 << bits) + 1, hashes.len());
        Self {
            hashes,
            firsts,
            shift,
            filter,
        }
    }

    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn hashes(&self) -> &[Hash] {
        &self.hashes
    }

    /// Reads what lookups of these hashes read first.
    pub fn touch(&self, hashes: &[Hash]) {
        self.filter.touch(hashes);
    }

    /// Returns the number of a hash.
    pub fn find(&self, hash: Hash) -> Option<usize> {
        if !self.filter.contains(hash) {
            return None;
        }
        let range = (hash >> self.shift) as usize;
        let first = self.firsts[range];
        let range = &self.hashes[first..self.firsts[range + 1]];
        range
            .iter()
            .position(|other| *other == hash)
            .map(|at| first + at)
    }
}

/// A mark for each suspect: whether it has come before.
pub struct Marks(Vec<u64>);

impl Marks {
    pub fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
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
            hashes.extend([0, 1, Hash::MAX]);
            hashes.sort_unstable();
            let suspects = Suspects::of_sorted(hashes.clone());
            for (number, hash) in hashes.iter().enumerate() {
                assert_eq!(suspects.find(*hash), Some(number));
            }
            for other in (count..count + 10_000).map(hash).chain([2, Hash::MAX - 1]) {
                assert_eq!(suspects.find(other), None);
            }
        }
        assert_eq!(Suspects::of_sorted(Vec::new()).find(5), None);
    }
}
