//! Lookups: of one item in a stack, of many items in one filter after another.
//!
//! Both go in rounds: position number 0 of all, then number 1 where a bit was set, and so on. The lookups of
//! a round do not wait for each other, so their cache misses overlap, and there is no branch between them
//! to mispredict.

use crate::bloom::filter::{Cells, Filter, point, point_of};
use crate::bloom::hash::{BATCH, Batch, Hasher, Probe};
use crate::bloom::machine::memory;
use crate::bloom::machine::words::{self, Task, Words};

/// Whether any filter of a stack claims the item.
#[inline(always)]
pub fn any_contains(stack: &[Filter], probe: Probe) -> bool {
    let Some((newest, older)) = stack.split_last() else {
        return false;
    };
    // Newest first: it is the largest, and holds most of the items.
    newest.contains(probe) || !older.is_empty() && older_contain(older, probe)
}

/// How many filters one item is looked up in together.
const GROUP: usize = 1024;

#[inline(never)]
fn older_contain(older: &[Filter], probe: Probe) -> bool {
    let mut groups = older.rchunks(GROUP);
    match older.last().map(Filter::cells) {
        Some(Cells::BareBits) => groups.any(|group| group_contains::<true>(group, probe)),
        Some(Cells::Counters) => older.iter().any(|filter| filter.contains(probe)),
        Some(Cells::Bits) => groups.any(|group| group_contains::<false>(group, probe)),
        None => false,
    }
}

/// The work of a round is known long before it; each round halves the filters.
#[inline]
fn group_contains<const BARE: bool>(group: &[Filter], probe: Probe) -> bool {
    let mut claims = [0_u64; GROUP / 64];
    for (claims, filters) in claims.iter_mut().zip(group.chunks(64)) {
        for (index, filter) in filters.iter().enumerate() {
            *claims |= filter.bit::<BARE>(point_of::<BARE>(probe, 0)) << index;
        }
    }
    for round in 1.. {
        let point = point_of::<BARE>(probe, round);
        let mut left = 0;
        for (claims, filters) in claims.iter_mut().zip(group.chunks(64)) {
            let mut candidates = std::mem::take(claims);
            while candidates != 0 {
                let index = candidates.trailing_zeros();
                let filter = &filters[index as usize];
                if round >= filter.hashes() {
                    return true;
                }
                *claims |= filter.bit::<BARE>(point) << index;
                candidates &= candidates - 1;
            }
            left |= *claims;
        }
        if left == 0 {
            break;
        }
    }
    false
}

/// Looks each item up in some filters, and passes to `answer`, in order, whether any of them claims it.
#[inline]
pub fn contains_each<'i, 'f, F: Iterator<Item = &'f Filter>>(
    hasher: &Hasher,
    mut items: impl Iterator<Item = &'i [u8]>,
    filters: impl Fn() -> F,
    mut answer: impl FnMut(bool),
) {
    loop {
        let batch = Batch::of(hasher, &mut items);
        if batch.len() == 0 {
            return;
        }
        let all = batch.mask_from(0);
        let mut claimed = 0;
        for filter in filters() {
            claimed |= claims(&batch, filter, all & !claimed);
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

/// Which items of a batch a filter claims, of those whose bit in `candidates` is set.
#[inline]
pub fn claims(batch: &Batch, filter: &Filter, candidates: u64) -> u64 {
    match filter.cells() {
        Cells::BareBits => words::run(Claims::<true> {
            batch,
            filter,
            candidates,
        }),
        Cells::Counters => counted(batch, filter, candidates),
        Cells::Bits => words::run(Claims::<false> {
            batch,
            filter,
            candidates,
        }),
    }
}

/// The same, where cells are counters: one item after another.
fn counted(batch: &Batch, filter: &Filter, mut candidates: u64) -> u64 {
    let mut claims = 0;
    while candidates != 0 {
        let index = candidates.trailing_zeros();
        let claimed = filter.contains(batch.probe(index as usize));
        claims |= u64::from(claimed) << index;
        candidates &= candidates - 1;
    }
    claims
}

struct Claims<'c, const BARE: bool> {
    batch: &'c Batch,
    filter: &'c Filter,
    candidates: u64,
}

impl<const BARE: bool> Task for Claims<'_, BARE> {
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let modulus = self.filter.modulus::<BARE>();
        let bitmap = self.filter.bitmap_as::<BARE>();
        let lanes = u64::MAX >> (BATCH - W::COUNT);
        // `a + i·b`, before round `i`.
        let mut sums = self.batch.a;
        let mut claims = self.candidates;
        for round in 0..self.filter.hashes() {
            let mut candidates = std::mem::take(&mut claims);
            if candidates == 0 {
                break;
            }
            while candidates != 0 {
                let start = candidates.trailing_zeros() as usize / W::COUNT * W::COUNT;
                let wanted = candidates >> start & lanes;
                candidates &= !(lanes << start);
                let sum = W::load(&sums[start..]);
                let step = W::load(&self.batch.b[start..]);
                sum.add(step).store(&mut sums[start..]);
                let point = point::<W, BARE>(round, sum, step);
                claims |= modulus.reduce(point).are_set_in(bitmap, wanted) << start;
            }
        }
        claims
    }
}

/// How many items' positions in a filter are computed together.
pub const ROW: usize = 16;

/// The most hash functions for which a row is computed: enough for rates down to 0.00002.
const ROW_HASHES: usize = 16;

/// The positions of a row of items in one filter of bits.
pub struct Row {
    /// By hash function, then by item.
    positions: [[u64; ROW]; ROW_HASHES],
    /// How many hash functions the filter has.
    hashes: usize,
}

impl Row {
    /// A row without positions yet.
    pub const fn new() -> Self {
        Self {
            positions: [[0; ROW]; ROW_HASHES],
            hashes: 0,
        }
    }

    /// Computes the positions of the items from `first`, a multiple of [`ROW`], in a filter; if it is
    /// large, prefetches their memory.
    #[inline(always)]
    pub fn locate(&mut self, batch: &Batch, first: usize, filter: &Filter) {
        self.hashes = filter.hashes() as usize;
        if self.hashes <= ROW_HASHES {
            let row = self;
            if filter.cells() == Cells::BareBits {
                words::run(Locate::<true> {
                    row,
                    batch,
                    first,
                    filter,
                });
            } else {
                words::run(Locate::<false> {
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
    pub fn positions(&self, index: usize) -> Option<impl Iterator<Item = u64>> {
        let of_each_hash = self.positions.get(..self.hashes)?.iter();
        Some(of_each_hash.map(move |items| items[index]))
    }
}

struct Locate<'l, const BARE: bool> {
    row: &'l mut Row,
    batch: &'l Batch,
    first: usize,
    filter: &'l Filter,
}

impl<const BARE: bool> Task for Locate<'_, BARE> {
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let modulus = self.filter.modulus::<BARE>();
        let end = self.batch.len().min(self.first + ROW);
        for start in (self.first..end).step_by(W::COUNT) {
            let mut sum = W::load(&self.batch.a[start..]);
            let step = W::load(&self.batch.b[start..]);
            let rows = &mut self.row.positions[..self.row.hashes];
            for (round, positions) in (0..).zip(rows) {
                let point = point::<W, BARE>(round, sum, step);
                sum = sum.add(step);
                modulus
                    .reduce(point)
                    .store(&mut positions[start - self.first..]);
            }
        }
        if self.filter.is_large() {
            let bitmap = self.filter.bitmap_as::<BARE>();
            for positions in &self.row.positions[..self.row.hashes] {
                for position in &positions[..end - self.first] {
                    memory::prefetch(bitmap, (position / 8) as usize);
                }
            }
        }
    }
}
