//! Lookups: of one item in many filters, of many items in one filter, and of many in several.
//!
//! All go in rounds: position number 0 of all, then number 1 where a bit was set, and so on. The lookups of
//! a round do not wait for each other, so their cache misses overlap, and there is no branch between them
//! to mispredict.

use crate::bloom::filter::{Cells, Filter, Interleaved, Modulus, point, point_of};
use crate::hash::{BATCH, Batch, Hasher, Probe};
use crate::machine::memory;
use crate::machine::words::{self, Task, Use, Words};
use crate::machine::work;

use super::patience::{Patience, Tally, ToTheEnd};

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

/// Whether any of these filters, which lie apart, claims the item.
#[inline]
pub fn any_apart_contains<'f>(mut filters: impl Iterator<Item = &'f Filter>, probe: Probe) -> bool {
    while let Some(first) = filters.next() {
        let mut group = [first; 64];
        let count = fill(&mut group, &mut filters);
        let group = &group[..count];
        let found = match first.cells() {
            Cells::BareBits => apart_contain::<true>(group, probe),
            Cells::Counters => group.iter().any(|filter| filter.contains(probe)),
            Cells::Bits => apart_contain::<false>(group, probe),
        };
        if found {
            return true;
        }
    }
    false
}

/// Up to 64 filters, of which each may miss the caches: several positions at once make for fewer rounds that wait.
/// The first two leave a fourth of the filters, and of so few four more take no longer.
fn apart_contain<const BARE: bool>(group: &[&Filter], probe: Probe) -> bool {
    let mut left = u64::MAX >> (64 - group.len());
    let (mut round, mut width) = (0, 2);
    // What few are left are looked up in ahead of their turn by the processor.
    while left.count_ones() > 2 || round == 0 {
        let mut located = Located::<BARE>::new(probe, round);
        let mut candidates = left;
        while candidates != 0 {
            let filter = group[candidates.trailing_zeros() as usize];
            candidates &= candidates - 1;
            if filter.is_large() {
                for position in &located.within(filter)[..width as usize] {
                    filter.prefetch_at::<BARE>(*position);
                }
            }
        }
        let mut candidates = std::mem::take(&mut left);
        while candidates != 0 {
            let index = candidates.trailing_zeros();
            candidates &= candidates - 1;
            work::steps(width as usize);
            let filter = group[index as usize];
            let set = if round + width <= filter.hashes() {
                let positions = &located.within(filter)[..width as usize];
                let bits = positions.iter().map(|at| filter.bit_at::<BARE>(*at));
                bits.fold(1, |set, bit| set & bit)
            } else if filter.contains(probe) {
                return true;
            } else {
                0
            };
            left |= set << index;
        }
        round += width;
        width = 4;
    }
    while left != 0 {
        if group[left.trailing_zeros() as usize].contains(probe) {
            return true;
        }
        left &= left - 1;
    }
    false
}

/// Four of an item's positions, which are the same in filters with as many cells.
struct Located<const BARE: bool> {
    points: [u64; 4],
    positions: [u64; 4],
    /// For how many cells the positions are.
    cells: u64,
}

impl<const BARE: bool> Located<BARE> {
    #[inline(always)]
    fn new(probe: Probe, first: u32) -> Self {
        Self {
            points: [0, 1, 2, 3].map(|next| point_of::<BARE>(probe, first + next)),
            positions: [0; 4],
            cells: 0,
        }
    }

    #[inline(always)]
    fn within(&mut self, filter: &Filter) -> &[u64; 4] {
        let modulus = filter.modulus::<BARE, 1>();
        if modulus.cells() != self.cells {
            self.cells = modulus.cells();
            self.positions = self.points.map(|point| modulus.reduce(point));
        }
        &self.positions
    }
}

/// Puts the next ones behind the first. Returns how many there are now.
#[inline]
fn fill<'f>(group: &mut [&'f Filter], next: &mut impl Iterator<Item = &'f Filter>) -> usize {
    let mut count = 1;
    for (slot, filter) in group[1..].iter_mut().zip(next) {
        *slot = filter;
        count += 1;
    }
    count
}

/// The work of a round is known long before it; each round halves the filters.
#[inline]
fn group_contains<const BARE: bool>(group: &[Filter], probe: Probe) -> bool {
    let mut claims = [0_u64; GROUP / 64];
    work::steps(group.len());
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
            work::steps(1 + candidates.count_ones() as usize);
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

/// Looks each item up, a batch at a time, by `claims`, which is given the bits of all items and returns those of the
/// claimed ones. Passes to `answer`, in order, what an item is hashed to, and whether it is claimed.
#[inline]
pub fn contains_each<'i>(
    hasher: &Hasher,
    mut items: impl Iterator<Item = &'i [u8]>,
    claims: impl Fn(&Batch, u64) -> u64,
    mut answer: impl FnMut(Probe, bool),
) {
    loop {
        let batch = Batch::of(hasher, &mut items);
        if batch.len() == 0 {
            return;
        }
        let claimed = claims(&batch, batch.mask_from(0));
        for (index, probe) in batch.probes().enumerate() {
            answer(probe, claimed >> index & 1 == 1);
        }
        if batch.len() < BATCH {
            return;
        }
    }
}

/// How many filters a batch is looked up in together.
const BATCH_GROUP: usize = 8;

/// Which items of a batch any of these filters, newest first, claims, of those whose bit in `candidates` is set.
#[inline]
pub fn claims_of_any<'f>(
    batch: &Batch,
    mut filters: impl Iterator<Item = &'f Filter>,
    candidates: u64,
) -> u64 {
    // The newest one alone: it holds most of the items, and often there is no other.
    let Some(newest) = filters.next() else {
        return 0;
    };
    let mut claimed = claims(batch, newest, candidates);
    while claimed != candidates
        && let Some(first) = filters.next()
    {
        let mut group = [first; BATCH_GROUP];
        let count = fill(&mut group, &mut filters);
        claimed |= claims_of_group(batch, &group[..count], candidates & !claimed);
    }
    claimed
}

#[inline(never)]
fn claims_of_group(batch: &Batch, group: &[&Filter], candidates: u64) -> u64 {
    let [first, others @ ..] = group else {
        return 0;
    };
    // Together pays where lookups miss the caches, or positions are the same. Else what one filter claims is
    // better not looked up in the next.
    let alike = |other: &&Filter| other.bitmap().len() == first.bitmap().len();
    if others.is_empty() || !first.is_large() && !others.iter().all(alike) {
        return group.iter().fold(0, |claimed, filter| {
            claimed | claims(batch, filter, candidates & !claimed)
        });
    }
    match first.cells() {
        Cells::BareBits => words::run(ClaimsOfGroup::<true, 1> {
            batch,
            group,
            candidates,
        }),
        Cells::Counters => words::run(ClaimsOfGroup::<false, 4> {
            batch,
            group,
            candidates,
        }),
        Cells::Bits => words::run(ClaimsOfGroup::<false, 1> {
            batch,
            group,
            candidates,
        }),
    }
}

/// Which items of a batch any of these filters claims, of those whose bit in `candidates` is set, and which were looked
/// for long enough.
#[inline(never)]
pub fn claims_patiently<'f>(
    batch: &Batch,
    filters: impl Iterator<Item = &'f Filter>,
    candidates: u64,
    patience: &mut Patience,
) -> u64 {
    let mut claimed = 0;
    for filter in filters {
        let left = candidates & !claimed;
        if left == 0 {
            break;
        }
        claimed |= claims_counted(batch, filter, left, patience);
    }
    claimed
}

/// Which items of a batch a filter claims, of those whose bit in `candidates` is set.
#[inline]
pub fn claims(batch: &Batch, filter: &Filter, candidates: u64) -> u64 {
    claims_counted(batch, filter, candidates, &mut ToTheEnd)
}

/// Which items of a batch a filter claims, of those whose bit in `candidates` is set, and which were looked for long
/// enough.
#[inline(always)]
pub fn claims_counted<T: Tally>(
    batch: &Batch,
    filter: &Filter,
    candidates: u64,
    tally: &mut T,
) -> u64 {
    match filter.cells() {
        Cells::BareBits => words::run(Claims::<true, 1, T> {
            batch,
            filter,
            candidates,
            tally,
        }),
        Cells::Counters => words::run(Claims::<false, 4, T> {
            batch,
            filter,
            candidates,
            tally,
        }),
        Cells::Bits => words::run(Claims::<false, 1, T> {
            batch,
            filter,
            candidates,
            tally,
        }),
    }
}

struct Claims<'c, const BARE: bool, const CELL_BITS: u64, T> {
    batch: &'c Batch,
    filter: &'c Filter,
    candidates: u64,
    tally: &'c mut T,
}

impl<const BARE: bool, const CELL_BITS: u64, T: Tally> Task for Claims<'_, BARE, CELL_BITS, T> {
    const USE: Use = Use::Lookups;
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let modulus = self.filter.modulus::<BARE, CELL_BITS>();
        let cells = self.filter.bitmap_as::<BARE>();
        let mut left = Left {
            sums: self.batch.a,
            steps: None,
            kept: [0; MAX_PACKINGS],
            packings: 0,
        };
        let (mut claims, mut exhausted) = (self.candidates, 0);
        for round in 0..self.filter.hashes() {
            let asked = std::mem::take(&mut claims);
            if asked == 0 {
                break;
            }
            work::steps(asked.count_ones() as usize);
            let steps = left.steps.as_ref().unwrap_or(&self.batch.b);
            for (start, wanted) in words::groups::<W>(asked) {
                let sum = W::load(&left.sums[start..]);
                let step = W::load(&steps[start..]);
                sum.add(step).store(&mut left.sums[start..]);
                let position = modulus.reduce(point::<W, BARE>(round, sum, step));
                claims |= position.are_used_in::<CELL_BITS>(cells, wanted) << start;
            }
            exhausted |= self.tally.count(claims);
            claims &= !exhausted;
            let (before, now) = (asked.count_ones(), claims.count_ones());
            // One word at a time is asked for claims alone, gaps or not; and items are counted in their places.
            if !T::COUNTS && W::COUNT > 1 && now as usize > W::COUNT && 4 * now <= 3 * before {
                claims = left.pack::<W>(claims, &self.batch.b);
            }
        }
        left.unpack::<W>(claims) | exhausted
    }
}

/// At each packing a fourth is gone at least, and more than four are left.
const MAX_PACKINGS: usize = 8;

/// The items of a batch that are not ruled out yet. The others leave gaps, which cost as much as items, so what is
/// left is packed.
struct Left {
    /// `a + i·b`, before round `i`.
    sums: [u64; BATCH],
    /// `b`, once packed.
    steps: Option<[u64; BATCH]>,
    /// Which were left, at each packing.
    kept: [u64; MAX_PACKINGS],
    packings: usize,
}

impl Left {
    /// Packs what these claims are of. Returns the claims as they are now.
    #[inline(always)]
    fn pack<W: Words>(&mut self, claims: u64, steps: &[u64; BATCH]) -> u64 {
        self.kept[self.packings] = claims;
        self.packings += 1;
        let steps = self.steps.get_or_insert(*steps);
        let mut end = 0;
        for (start, kept) in words::groups::<W>(claims) {
            W::load(&self.sums[start..]).pack(kept, &mut self.sums[end..]);
            W::load(&steps[start..]).pack(kept, &mut steps[end..]);
            end += kept.count_ones() as usize;
        }
        u64::MAX >> (BATCH - end)
    }

    /// The claims as they were before the first packing.
    #[inline(always)]
    fn unpack<W: Words>(&self, mut claims: u64) -> u64 {
        for kept in self.kept[..self.packings].iter().rev() {
            // Most items are claimed nowhere, and some processors spread slowly.
            if claims == 0 {
                break;
            }
            claims = W::spread(claims, *kept);
        }
        claims
    }
}

/// The same in several filters, a round in all of them before the next.
struct ClaimsOfGroup<'c, const BARE: bool, const CELL_BITS: u64> {
    batch: &'c Batch,
    group: &'c [&'c Filter],
    candidates: u64,
}

impl<const BARE: bool, const CELL_BITS: u64> Task for ClaimsOfGroup<'_, BARE, CELL_BITS> {
    const USE: Use = Use::Lookups;
    type Output = u64;

    #[inline(always)]
    fn run<W: Words>(self) -> u64 {
        let mut claims = [0; BATCH_GROUP];
        claims[..self.group.len()].fill(self.candidates);
        let mut claimed = 0;
        // By filter. Those of filters with as many cells are the same, and are kept where the first has its own.
        let mut positions = [[0; BATCH]; BATCH_GROUP];
        let mut place = [0; BATCH_GROUP];
        for round in 0.. {
            let mut left = 0;
            // At the last place, for how many cells and for which items there are positions.
            let (mut last, mut of, mut known) = (0, 0, 0_u64);
            for (index, filter) in self.group.iter().enumerate() {
                claims[index] &= !claimed;
                if round >= filter.hashes() {
                    claimed |= std::mem::take(&mut claims[index]);
                }
                left |= claims[index];
                work::steps(1 + claims[index].count_ones() as usize);
                let modulus = filter.modulus::<BARE, CELL_BITS>();
                if modulus.cells() != of {
                    (last, of, known) = (index, modulus.cells(), 0);
                }
                place[index] = last;
                let positions = &mut positions[last];
                let lanes = u64::MAX >> (BATCH - W::COUNT);
                for (start, _) in words::groups::<W>(claims[index] & !known) {
                    known |= lanes << start;
                    let step = W::load(&self.batch.b[start..]);
                    let sum = W::load(&self.batch.a[start..]);
                    let sum = sum.add(step.mul(W::splat(round.into())));
                    let point = point::<W, BARE>(round, sum, step);
                    modulus.reduce(point).store(&mut positions[start..]);
                }
                if filter.is_large() {
                    let cells = filter.bitmap_as::<BARE>();
                    words::each_bit(claims[index], |item| {
                        memory::prefetch(cells, words::byte_of::<CELL_BITS>(positions[item]));
                    });
                }
            }
            if left & !claimed == 0 {
                break;
            }
            for (index, filter) in self.group.iter().enumerate() {
                let candidates = std::mem::take(&mut claims[index]) & !claimed;
                let cells = filter.bitmap_as::<BARE>();
                for (start, wanted) in words::groups::<W>(candidates) {
                    let position = W::load(&positions[place[index]][start..]);
                    claims[index] |= position.are_used_in::<CELL_BITS>(cells, wanted) << start;
                }
            }
        }
        claimed
    }
}

/// How many items' positions in a filter are computed together.
pub const ROW: usize = 16;

/// The most hash functions for which a row is computed: enough for rates down to 0.00002.
const ROW_HASHES: usize = 16;

/// The positions of a row of items in one filter.
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
        match filter.cells() {
            Cells::BareBits => self.locate_as::<true, 1>(batch, first, filter),
            Cells::Counters => self.locate_as::<false, 4>(batch, first, filter),
            Cells::Bits => self.locate_as::<false, 1>(batch, first, filter),
        }
    }

    #[inline(always)]
    fn locate_as<const BARE: bool, const CELL_BITS: u64>(
        &mut self,
        batch: &Batch,
        first: usize,
        filter: &Filter,
    ) {
        let modulus = filter.modulus::<BARE, CELL_BITS>();
        let (cells, is_large) = (filter.bitmap_as::<BARE>(), filter.is_large());
        let near = |position| {
            if is_large {
                memory::prefetch(cells, words::byte_of::<CELL_BITS>(position));
            }
        };
        self.locate_by::<BARE>(batch, first, modulus, filter.hashes(), near);
    }

    /// The same in interleaved filters.
    pub fn locate_in_lanes(&mut self, batch: &Batch, first: usize, filters: &Interleaved) {
        let hashes = filters.geometry().hashes;
        let near = |position| filters.prefetch_at(position);
        self.locate_by::<false>(batch, first, filters.modulus(), hashes, near);
    }

    #[inline(always)]
    fn locate_by<const BARE: bool>(
        &mut self,
        batch: &Batch,
        first: usize,
        modulus: Modulus,
        hashes: u32,
        near: impl Fn(u64),
    ) {
        self.hashes = hashes as usize;
        if self.hashes <= ROW_HASHES {
            words::run(Locate::<BARE, _> {
                row: self,
                batch,
                first,
                modulus,
                near,
            });
        }
    }

    /// The positions of an item of the row, if the filter's hash functions are not too many.
    #[inline]
    pub fn positions(&self, index: usize) -> Option<impl Iterator<Item = u64>> {
        let of_each_hash = self.positions.get(..self.hashes)?.iter();
        Some(of_each_hash.map(move |items| items[index]))
    }
}

struct Locate<'l, const BARE: bool, N> {
    row: &'l mut Row,
    batch: &'l Batch,
    first: usize,
    modulus: Modulus,
    /// Brings near what is at a position.
    near: N,
}

impl<const BARE: bool, N: Fn(u64)> Task for Locate<'_, BARE, N> {
    const USE: Use = Use::Lookups;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let end = self.batch.len().min(self.first + ROW);
        for start in (self.first..end).step_by(W::COUNT) {
            let mut sum = W::load(&self.batch.a[start..]);
            let step = W::load(&self.batch.b[start..]);
            let rows = &mut self.row.positions[..self.row.hashes];
            for (round, positions) in (0..).zip(rows) {
                let point = point::<W, BARE>(round, sum, step);
                sum = sum.add(step);
                let positions = &mut positions[start - self.first..][..W::COUNT];
                self.modulus.reduce(point).store(positions);
                for position in positions {
                    (self.near)(*position);
                }
            }
        }
    }
}
