//! The fingerprints of several tables in one ascending series.

use crate::machine::memory;

use super::entries::Entries;

/// A table whose fingerprints are merged with others'.
#[derive(Clone, Debug)]
pub struct Source<'t> {
    entries: Entries<'t>,
    /// The bits that are taken off each fingerprint: it becomes one of a shorter table.
    cut: u32,
    /// The bits of that table's fingerprints.
    bits: u32,
    /// The value of the next fingerprint.
    value: u64,
}

/// A fingerprint of a source.
#[derive(Clone, Copy, Debug)]
pub struct Merged {
    /// The fingerprint's bits, followed by zeros: a prefix of a fingerprint comes before it.
    pub key: u64,
    /// The number of the source.
    pub source: usize,
    /// Its [value](super::Held::value).
    pub value: u64,
}

/// The key after all others.
const NONE: u64 = u64::MAX;

impl<'t> Source<'t> {
    /// Returns the source of fingerprints that have `bits` bits once `cut` bits are taken off.
    pub(super) const fn new(entries: Entries<'t>, cut: u32, bits: u32) -> Self {
        Self {
            entries,
            cut,
            bits,
            value: 0,
        }
    }

    /// Returns the next key.
    #[inline]
    fn next(&mut self) -> u64 {
        self.entries.next().map_or(NONE, |held| {
            self.value = held.value;
            held.fingerprint >> self.cut << (u64::BITS - self.bits)
        })
    }
}

/// Goes through the fingerprints of sources in order: first by their bits, then from the source with the fewest bits on.
///
/// A tree has the source with the least key of each pair of sources, of each pair of pairs, and so on.
#[derive(Debug)]
pub struct Merge<'t> {
    sources: Vec<Source<'t>>,
    keys: Vec<u64>,
    /// The root is the node 1, and the nodes after each node *n* are 2*n* and 2*n* + 1. The second half are the sources.
    tree: Vec<usize>,
}

impl<'t> Merge<'t> {
    /// Begins with the first fingerprint of all sources, which come in the order of their bits. Returns `None` if allocation
    /// fails.
    ///
    /// # Panics
    /// The sources are not in order.
    pub fn new(sources: &[Source<'t>]) -> Option<Self> {
        assert!(sources.is_sorted_by_key(|source| source.bits));
        let mut own = memory::reserved(sources.len())?;
        own.extend_from_slice(sources);
        let leaves = sources.len().next_power_of_two();
        let mut merge = Self {
            keys: memory::reserved(leaves)?,
            tree: memory::reserved(2 * leaves)?,
            sources: own,
        };
        let keys = merge.sources.iter_mut().map(Source::next);
        merge.keys.extend(keys);
        merge.keys.resize(leaves, NONE);
        merge.tree.resize(leaves, 0);
        merge.tree.extend(0..leaves);
        for node in (1..leaves).rev() {
            merge.choose(node);
        }
        Some(merge)
    }

    /// Returns the key of the next fingerprint.
    #[inline]
    pub fn next_key(&self) -> Option<u64> {
        let key = self.keys[self.tree[1]];
        (key != NONE).then_some(key)
    }

    /// Chooses the source of a node. Of two with the same key it is the first.
    #[inline]
    fn choose(&mut self, node: usize) {
        let [first, second] = [self.tree[2 * node], self.tree[2 * node + 1]];
        let is_first = self.keys[first] <= self.keys[second];
        self.tree[node] = if is_first { first } else { second };
    }
}

impl Iterator for Merge<'_> {
    type Item = Merged;

    #[inline]
    fn next(&mut self) -> Option<Merged> {
        // A single source has no node but its own.
        let source = self.tree[1];
        let key = self.keys[source];
        if key == NONE {
            return None;
        }
        let value = self.sources[source].value;
        self.keys[source] = self.sources[source].next();
        let mut node = self.keys.len().midpoint(source);
        while node > 0 {
            self.choose(node);
            node /= 2;
        }
        Some(Merged { key, source, value })
    }
}
