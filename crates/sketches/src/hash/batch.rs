//! Batches of items, hashed side by side.

use crate::machine::words::{self, Task, Use, Words};

use super::hasher::Hasher;
use super::murmur;
use super::probe::Probe;
use super::sip::{OfLength, Seed};

/// The most items in a batch: a mask of them fits a word.
pub const BATCH: usize = 64;

/// An array without items. Copying it takes fewer stores than filling one.
static NO_ITEMS: [&[u8]; BATCH] = [&[]; BATCH];

/// The hashes of up to [`BATCH`] items.
pub struct Batch {
    /// The first hash of each item.
    pub a: [u64; BATCH],
    /// The second hash of each item.
    pub b: [u64; BATCH],
    count: usize,
}

impl Batch {
    const EMPTY: Self = Self {
        a: [0; BATCH],
        b: [0; BATCH],
        count: 0,
    };

    /// Hashes the next items, up to [`BATCH`].
    #[inline]
    pub fn of<'i>(hasher: &Hasher, next: &mut impl Iterator<Item = &'i [u8]>) -> Self {
        let mut items = NO_ITEMS;
        let mut count = 0;
        for (slot, item) in items.iter_mut().zip(next) {
            *slot = item;
            count += 1;
        }
        let mut batch = Self {
            count,
            ..Self::EMPTY
        };
        words::run(Hash {
            hasher,
            items: &items,
            batch: &mut batch,
        });
        batch
    }

    /// Returns a batch of one probe.
    pub fn of_one(probe: Probe) -> Self {
        Self::of_probes(&mut std::iter::once(probe))
    }

    /// Returns a batch of the next probes, up to [`BATCH`].
    pub fn of_probes(probes: &mut impl Iterator<Item = Probe>) -> Self {
        let mut batch = Self::EMPTY;
        for probe in probes.take(BATCH) {
            (batch.a[batch.count], batch.b[batch.count]) = probe.hashes();
            batch.count += 1;
        }
        batch
    }

    pub const fn len(&self) -> usize {
        self.count
    }

    /// Returns a mask of the items from `first` on.
    pub const fn mask_from(&self, first: usize) -> u64 {
        debug_assert!(first < self.count);
        (u64::MAX >> (BATCH - self.count)) & (u64::MAX << first)
    }

    /// Returns the probes of all items.
    #[inline]
    pub fn probes(&self) -> impl Iterator<Item = Probe> {
        let hashes = self.a[..self.count].iter().zip(&self.b[..self.count]);
        hashes.map(|(a, b)| Probe::new(*a, *b))
    }

    #[inline]
    pub const fn probe(&self, index: usize) -> Probe {
        Probe::new(self.a[index], self.b[index])
    }
}

impl Seed {
    /// Hashes items, many side by side, and passes on their probes in order.
    pub fn probe_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        mut take: impl FnMut(Probe),
    ) {
        let hasher = Hasher::Sip(*self);
        let mut items = items.peekable();
        while items.peek().is_some() {
            Batch::of(&hasher, &mut items).probes().for_each(&mut take);
        }
    }
}

struct Hash<'h> {
    hasher: &'h Hasher,
    items: &'h [&'h [u8]; BATCH],
    batch: &'h mut Batch,
}

impl Task for Hash<'_> {
    const USE: Use = Use::Hashing;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let Self {
            hasher,
            items,
            batch,
        } = self;
        match hasher {
            Hasher::Sip(seed) => {
                // Items often have equal lengths.
                let of_first_length = OfLength::<W>::new(seed, items[0].len());
                for start in (0..batch.count).step_by(W::COUNT) {
                    let items = &items[start..start + W::COUNT];
                    let hashes = of_first_length.hash(items);
                    let [a, b] = hashes.unwrap_or_else(|| seed.hash(items));
                    a.store(&mut batch.a[start..]);
                    b.store(&mut batch.b[start..]);
                }
            }
            Hasher::Murmur64 => {
                for start in (0..batch.count).step_by(W::COUNT) {
                    let [a, b]: [W; 2] = murmur::probes_64(&items[start..start + W::COUNT]);
                    a.store(&mut batch.a[start..]);
                    b.store(&mut batch.b[start..]);
                }
            }
            Hasher::Murmur32 => {
                for (index, item) in items[..batch.count].iter().enumerate() {
                    (batch.a[index], batch.b[index]) = murmur::probe_32(item).hashes();
                }
            }
        }
    }
}
