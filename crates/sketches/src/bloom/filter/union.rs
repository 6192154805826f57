//! Filters of one size, laid over each other.

use std::hash::Hash;

use crate::hash::murmur_64;
use crate::machine::work;
use crate::number::{log2, to_double, to_whole};

use super::cells::Cells;
use super::single::{Filter, Layout};
use super::{bits, counters, rate};

/// How improbable it must be, as a power of two, that counters are no smaller than others by chance.
const CERTAIN_BITS: f64 = 32.0;

/// Bytes of a word, by which filters are sampled.
const WORD: usize = 8;

impl Filter {
    /// What is alike in filters of one size, in which an item has the same cells.
    pub(crate) fn merge_key(&self) -> impl Eq + Hash + use<> {
        (
            self.positions(),
            self.hashes(),
            self.cells(),
            self.geometry().cell_bytes,
        )
    }

    /// Whether another filter of this size has nothing that this one lacks: no bit, and no count.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.can_tell(other) && self.lacking(other).is_none()
    }

    /// Whether this filter holds another one if it lacks nothing of it. Counters that are no smaller only by chance
    /// don't tell: removals would then take counts from what they hold.
    pub(crate) fn can_tell(&self, other: &Self) -> bool {
        if other.cells() != Cells::Counters {
            return true;
        }
        let in_use = other.fill() * to_double(other.positions());
        in_use * -log2(self.fill()) >= CERTAIN_BITS
    }

    /// Returns the offset of the first byte in which another filter of this size has what this one lacks.
    pub(crate) fn lacking(&self, other: &Self) -> Option<usize> {
        let (own, others) = (self.bitmap(), other.bitmap());
        let lacking = match self.cells() {
            Cells::Counters => counters::lacking(own, others),
            Cells::Bits | Cells::BareBits => bits::lacking(own, others),
        };
        work::bytes(2 * lacking.map_or(own.len(), |offset| offset + 1));
        lacking
    }

    /// Whether another filter of this size has what this one lacks in the word at an offset.
    pub(crate) fn lacks_at(&self, other: &Self, offset: usize) -> bool {
        let word = offset..self.bitmap().len().min(offset + WORD);
        let (own, others) = (&self.bitmap()[word.clone()], &other.bitmap()[word]);
        let mut pairs = own.iter().zip(others);
        work::steps(1);
        match self.cells() {
            Cells::Counters => pairs.any(|(own, other)| counters::lacks(*own, *other) != 0),
            Cells::Bits | Cells::BareBits => {
                pairs.any(|(own, other)| bits::lacks(*own, *other) != 0)
            }
        }
    }

    /// Finds the first words in which a cell is in use. Returns how many there are, with their offsets in front.
    pub(crate) fn used_words<const N: usize>(&self) -> (usize, [usize; N]) {
        let (words, _) = self.bitmap().as_chunks::<WORD>();
        let (mut count, mut offsets) = (0, [0; N]);
        let mut passed = 0;
        while count < N
            && let Some(next) = words[passed..].iter().position(|word| *word != [0; WORD])
        {
            offsets[count] = (passed + next) * WORD;
            (count, passed) = (count + 1, passed + next + 1);
        }
        let all = count < N;
        work::bytes(if all { words.len() } else { passed } * WORD);
        (count, offsets)
    }

    /// Returns a hash of the cells, which equal filters have in common.
    pub(crate) fn hash_of_cells(&self) -> u64 {
        work::bytes(self.bitmap().len());
        murmur_64(&[self.bitmap()], 0)
    }

    /// How many items it would have with those of another filter of this size laid over its own, by the bits
    /// that would be set.
    pub(crate) fn items_of_union(&self, other: &Self) -> u64 {
        let (own, others) = (self.bitmap(), other.bitmap());
        work::bytes(own.len() + others.len());
        let in_use = match self.cells() {
            Cells::Counters => counters::saturated(counters::in_use_in_union(own, others)).into(),
            Cells::Bits | Cells::BareBits => bits::ones_of_union(own, others),
        };
        self.items_of(in_use)
    }

    /// Lays another filter of this size over this one. Its number of items stays as it is. Returns how many
    /// it would have, by the cells that are in use now.
    pub(crate) fn absorb(&mut self, other: &Self) -> u64 {
        let kind = self.cells();
        work::bytes(2 * other.bitmap().len());
        let in_use = unite(kind, self.bitmap_mut(), other.bitmap());
        self.now_in_use(in_use)
    }

    /// A copy with another filter of this size laid over it, made in one pass, and what
    /// [`absorb`](Self::absorb) returns; `None` if there is no memory for it.
    pub(crate) fn united(&self, other: &Self) -> Option<(Self, u64)> {
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.blob.len()).ok()?;
        blob.extend_from_slice(&self.blob[..self.header_bytes()]);
        let mut in_use = 0;
        work::bytes(3 * other.bitmap().len());
        // What was copied is still near when the other is laid over it.
        let pieces = self.bitmap().chunks(8192).zip(other.bitmap().chunks(8192));
        for (own, other) in pieces {
            let begin = blob.len();
            blob.extend_from_slice(own);
            in_use += unite(self.cells(), &mut blob[begin..], other);
        }
        let blob = blob.into_boxed_slice();
        let mut union = Self { blob, ..*self };
        let items = union.now_in_use(in_use);
        Some((union, items))
    }

    /// Records how many cells are in use. Returns the number of items that they stand for.
    fn now_in_use(&mut self, now: u64) -> u64 {
        let now = match &mut self.layout {
            Layout::Counters { in_use, .. } => {
                *in_use = counters::saturated(now);
                (*in_use).into()
            }
            _ => now,
        };
        self.items_of(now)
    }

    /// How many items it would have with so many cells in use.
    fn items_of(&self, in_use: u64) -> u64 {
        let positions = to_double(self.positions());
        let fill = (to_double(in_use) / positions).min(1.0);
        let (items, _) = rate::items_of_fill(positions, self.hashes(), fill);
        to_whole(items.round())
    }
}

/// Lays cells over others of this kind. Returns how many are in use then.
fn unite(kind: Cells, cells: &mut [u8], other: &[u8]) -> u64 {
    match kind {
        Cells::Counters => counters::unite(cells, other),
        Cells::Bits | Cells::BareBits => bits::unite(cells, other),
    }
}
