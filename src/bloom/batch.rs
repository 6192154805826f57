//! Many items at once: hashed side by side, looked up in rounds.

use super::filter::Filter;
use super::machine::{self, Task, Words};
use super::probe::{Probe, Seed, point};
use super::redisbloom;

/// The most items of a batch: a bit of a word each.
pub(super) const BATCH: usize = 64;

/// How the items of an object are hashed.
#[derive(Clone, Copy)]
pub(super) enum Hasher<'h> {
    /// SipHash with this seed.
    Sip(&'h Seed),
    /// MurmurHash, of 64 bits or of 32, as RedisBloom does.
    Murmur {
        /// Whether of 64.
        wide: bool,
    },
}

impl Hasher<'_> {
    #[inline]
    pub(super) fn probe(self, item: &[u8]) -> Probe {
        match self {
            Self::Sip(seed) => seed.probe(item),
            Self::Murmur { wide } => redisbloom::probe(wide, item),
        }
    }
}

/// Items that were hashed together.
pub(super) struct Batch {
    a: [u64; BATCH],
    b: [u64; BATCH],
    count: usize,
}

impl Batch {
    /// Hashes the next items, as many as there is room for.
    #[inline]
    pub(super) fn of<'i>(hasher: Hasher, next: &mut impl Iterator<Item = &'i [u8]>) -> Self {
        let mut items = [[].as_slice(); BATCH];
        let mut count = 0;
        for (slot, item) in items.iter_mut().zip(next) {
            *slot = item;
            count += 1;
        }
        let mut batch = Self {
            a: [0; BATCH],
            b: [0; BATCH],
            count,
        };
        match hasher {
            Hasher::Sip(seed) => machine::run(Hash {
                seed,
                items: &items,
                batch: &mut batch,
            }),
            Hasher::Murmur { .. } => {
                for (index, item) in items[..count].iter().enumerate() {
                    (batch.a[index], batch.b[index]) = hasher.probe(item).hashes();
                }
            }
        }
        batch
    }

    /// Number of items.
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// A word with a bit for each item from this one on.
    pub(super) const fn from(&self, first: usize) -> u64 {
        debug_assert!(first < self.count);
        (u64::MAX >> (BATCH - self.count)) & (u64::MAX << first)
    }

    /// One of the items.
    #[inline]
    pub(super) const fn probe(&self, index: usize) -> Probe {
        Probe::new(self.a[index], self.b[index])
    }

    /// Which of the items a filter claims, of those whose bit in `asked` is set.
    #[inline]
    pub(super) fn claimed_by(&self, filter: &Filter, asked: u64) -> u64 {
        let batch = self;
        if filter.is_plain() {
            machine::run(Claims::<true> {
                batch,
                filter,
                asked,
            })
        } else if filter.counts() {
            self.counted_by(filter, asked)
        } else {
            machine::run(Claims::<false> {
                batch,
                filter,
                asked,
            })
        }
    }

    /// The same, where cells are counters: one item after another.
    fn counted_by(&self, filter: &Filter, mut asked: u64) -> u64 {
        let mut claims = 0;
        while asked != 0 {
            let index = asked.trailing_zeros();
            let claimed = filter.contains(self.probe(index as usize));
            claims |= u64::from(claimed) << index;
            asked &= asked - 1;
        }
        claims
    }
}

/// Asks some filters for each item in turn, and tells `answer` whether any of them claims it.
#[inline]
pub(super) fn claims_each<'i, 'f, F: Iterator<Item = &'f Filter>>(
    hasher: Hasher,
    mut items: impl Iterator<Item = &'i [u8]>,
    filters: impl Fn() -> F,
    mut answer: impl FnMut(bool),
) {
    loop {
        let batch = Batch::of(hasher, &mut items);
        if batch.len() == 0 {
            return;
        }
        let all = batch.from(0);
        let mut claimed = 0;
        for filter in filters() {
            claimed |= batch.claimed_by(filter, all & !claimed);
            if claimed == all {
                break;
            }
        }
        for index in 0..batch.len() {
            answer(claimed >> index & 1 == 1);
        }
        if batch.len() < BATCH {
            return;
        }
    }
}

struct Hash<'h> {
    seed: &'h Seed,
    items: &'h [&'h [u8]; BATCH],
    batch: &'h mut Batch,
}

impl Task for Hash<'_> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let Self { seed, items, batch } = self;
        for start in (0..batch.count).step_by(W::COUNT) {
            let [a, b] = seed.hash::<W>(&items[start..start + W::COUNT]);
            a.store(&mut batch.a[start..]);
            b.store(&mut batch.b[start..]);
        }
    }
}

/// It goes in rounds: bit number 0 of every item, then number 1 of those where it was set, and so
/// on. The lookups of a round do not wait for each other, so that their cache misses overlap, and
/// there is no branch between them to be guessed wrong.
struct Claims<'c, const PLAIN: bool> {
    batch: &'c Batch,
    filter: &'c Filter,
    asked: u64,
}

impl<const PLAIN: bool> Task for Claims<'_, PLAIN> {
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let (modulus, bitmap) = (self.filter.modulus(), self.filter.bitmap());
        let lanes = u64::MAX >> (BATCH - W::COUNT);
        // `a + i·b`, before round `i`.
        let mut sums = self.batch.a;
        let mut claims = self.asked;
        for round in 0..self.filter.hashes() {
            let mut asked = std::mem::take(&mut claims);
            if asked == 0 {
                break;
            }
            while asked != 0 {
                let start = asked.trailing_zeros() as usize / W::COUNT * W::COUNT;
                let wanted = asked >> start & lanes;
                asked &= !(lanes << start);
                let sum = W::load(&sums[start..]);
                let step = W::load(&self.batch.b[start..]);
                sum.add(step).store(&mut sums[start..]);
                let point = point::<W, PLAIN>(round, sum, step);
                claims |= modulus.reduce(point).are_set_in(bitmap, wanted) << start;
            }
        }
        claims
    }
}

/// How many items' positions in a filter are worked out together.
pub(super) const ROW: usize = 16;

/// The most hash functions for which they are: enough for rates down to 0.00002.
const MAX_HASHES: usize = 16;

/// The positions of a row of items in one filter.
pub(super) struct Row {
    /// By hash function, then by item.
    positions: [[u64; ROW]; MAX_HASHES],
    /// How many hash functions the filter has.
    hashes: usize,
}

impl Row {
    pub(super) const fn new() -> Self {
        Self {
            positions: [[0; ROW]; MAX_HASHES],
            hashes: 0,
        }
    }

    /// Works out the positions of the items from `first`, a multiple of [`ROW`], in a filter; if it
    /// is large, their memory is sent for.
    #[inline]
    pub(super) fn locate(&mut self, batch: &Batch, first: usize, filter: &Filter) {
        self.hashes = filter.hashes() as usize;
        if self.hashes <= MAX_HASHES {
            let row = self;
            if filter.is_plain() {
                machine::run(Locate::<true> {
                    row,
                    batch,
                    first,
                    filter,
                });
            } else {
                machine::run(Locate::<false> {
                    row,
                    batch,
                    first,
                    filter,
                });
            }
        }
    }

    /// The positions of an item of the row, if the filter's hash functions are not too many.
    #[inline]
    pub(super) fn positions(&self, index: usize) -> Option<impl Iterator<Item = u64>> {
        let of_each_hash = self.positions.get(..self.hashes)?.iter();
        Some(of_each_hash.map(move |items| items[index]))
    }
}

struct Locate<'l, const PLAIN: bool> {
    row: &'l mut Row,
    batch: &'l Batch,
    first: usize,
    filter: &'l Filter,
}

impl<const PLAIN: bool> Task for Locate<'_, PLAIN> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let modulus = self.filter.modulus();
        let end = self.batch.count.min(self.first + ROW);
        for start in (self.first..end).step_by(W::COUNT) {
            let mut sum = W::load(&self.batch.a[start..]);
            let step = W::load(&self.batch.b[start..]);
            let rows = &mut self.row.positions[..self.row.hashes];
            for (round, positions) in (0..).zip(rows) {
                let point = point::<W, PLAIN>(round, sum, step);
                sum = sum.add(step);
                modulus
                    .reduce(point)
                    .store(&mut positions[start - self.first..]);
            }
        }
        if self.filter.is_large() {
            for positions in &self.row.positions[..self.row.hashes] {
                for position in &positions[..end - self.first] {
                    self.filter.prefetch(*position);
                }
            }
        }
    }
}
