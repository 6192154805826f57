//! The hashes that a filter claimed, to be looked up by the second pass.
//!
//! They are sorted, with the first place of each range of them beside, so one takes little more than its 16 bytes. A filter of
//! cache lines before them has the answer for nearly all other hashes.

use super::layer::{Hash, Layer};

/// The most hashes in a range, on average.
const RANGE: usize = 8;
/// The hashes that are looked up together.
const BATCH: usize = 64;
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

    /// Returns the index of each of these hashes that is in the set, ascending, and its number.
    pub fn find_each(&self, hashes: &[Hash]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut claimed = Vec::with_capacity(BATCH);
        for (batch, start) in hashes.chunks(BATCH).zip((0..).step_by(BATCH)) {
            self.filter.touch(batch);
            claimed.clear();
            let all = (start..).zip(batch);
            claimed.extend(all.filter(|(_, hash)| self.filter.contains(**hash)));
            // A processor loads these side by side as well.
            let firsts = claimed
                .iter()
                .map(|(_, hash)| self.firsts[self.range(**hash)]);
            let last = self.hashes.len().saturating_sub(1);
            let touched = firsts.map(|first| self.hashes.get(first.min(last)));
            std::hint::black_box(touched.flatten().fold(0, |all, hash| all | hash));
            let numbers = claimed
                .iter()
                .map(|&(index, hash)| Some((index, self.find(*hash)?)));
            found.extend(numbers.flatten());
        }
        found
    }

    /// Returns the range of a hash.
    fn range(&self, hash: Hash) -> usize {
        (hash >> self.shift) as usize
    }

    /// Returns the number of a hash.
    fn find(&self, hash: Hash) -> Option<usize> {
        let range = self.range(hash);
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
            let others: Vec<_> = (count..count + 10_000)
                .map(hash)
                .chain([2, Hash::MAX - 1])
                .collect();
            assert_eq!(suspects.find_each(&others), []);
            let numbers: Vec<_> = (0..hashes.len()).map(|number| (number, number)).collect();
            assert_eq!(suspects.find_each(&hashes), numbers);
            let mixed: Vec<_> = others
                .iter()
                .cycle()
                .zip(&hashes)
                .flat_map(|(a, b)| [*a, *b])
                .collect();
            let numbers: Vec<_> = numbers
                .iter()
                .map(|(_, number)| (2 * number + 1, *number))
                .collect();
            assert_eq!(suspects.find_each(&mixed), numbers);
        }
        assert_eq!(Suspects::of_sorted(Vec::new()).find_each(&[5]), []);
    }
}
