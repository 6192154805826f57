//! The positions of items of a batch in one filter, computed side by side: those of a row of items at a time.

use std::iter;

use crate::bloom::filter::Filter;
use crate::hash::Batch;
use crate::machine::memory;
use crate::machine::words::{self, Task, Use, Words};

/// The number of items of a row.
const ROW: usize = 16;

/// The most hash functions for which a row needs no allocation, enough for rates down to 0.00002.
const FEW: usize = 16;

/// The positions of a row of a batch's items in a filter.
pub struct Row<'b> {
    batch: &'b Batch,
    /// The number of the row, if there is one.
    number: Option<usize>,
    /// The filter's number of hash functions.
    hashes: usize,
    /// Positions by hash function, then by item, once there are any.
    few: Option<[[u64; ROW]; FEW]>,
    /// The same for a filter with more than [`FEW`] hash functions.
    many: Vec<[u64; ROW]>,
}

impl<'b> Row<'b> {
    /// Creates a row without positions.
    pub const fn new(batch: &'b Batch) -> Self {
        Self {
            batch,
            number: None,
            hashes: 0,
            few: None,
            many: Vec::new(),
        }
    }

    /// Forgets the positions, because the next item is for another filter.
    pub const fn forget(&mut self) {
        self.number = None;
    }

    /// Returns an item's positions in a filter, and computes them with those of the other items of its row. Returns `None`
    /// if the item is the only one of its batch, or there is no memory for the positions.
    #[inline]
    pub fn positions<'r>(
        &'r mut self,
        item: usize,
        filter: &Filter,
    ) -> Option<impl ExactSizeIterator<Item = u64> + use<'r, 'b>> {
        let (number, column) = (item / ROW, item % ROW);
        if self.number != Some(number) {
            self.locate(number, filter);
        }
        let rounds = if self.hashes <= FEW {
            self.few.as_ref()?.get(..self.hashes)?
        } else {
            self.many.get(..self.hashes)?
        };
        Some(rounds.iter().map(move |items| items[column]))
    }

    /// Computes the positions of a row's items in a filter; if it is large, prefetches their memory.
    #[inline(never)]
    fn locate(&mut self, number: usize, filter: &Filter) {
        self.number = Some(number);
        self.hashes = filter.hashes() as usize;
        if self.batch.len() == 1 {
            return;
        }
        let rounds = if self.hashes <= FEW {
            let few = self.few.get_or_insert([[0; ROW]; FEW]);
            Some(&mut few[..self.hashes])
        } else {
            if self.many.len() < self.hashes {
                let zeros = iter::repeat_n(Some([0; ROW]), self.hashes);
                self.many = memory::collected(zeros).unwrap_or_default();
            }
            self.many.get_mut(..self.hashes)
        };
        if let Some(rounds) = rounds {
            words::run(Locate {
                batch: self.batch,
                first: number * ROW,
                filter,
                rounds,
            });
        }
    }
}

/// The computation of a row.
struct Locate<'l> {
    batch: &'l Batch,
    /// The row's first item.
    first: usize,
    filter: &'l Filter,
    /// Positions by hash function, then by item.
    rounds: &'l mut [[u64; ROW]],
}

impl Task for Locate<'_> {
    const USE: Use = Use::Lookups;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let (modulus, is_large) = (self.filter.modulus(), self.filter.is_large());
        let end = self.batch.len().min(self.first + ROW);
        for start in (self.first..end).step_by(W::COUNT) {
            let mut sum = W::load(&self.batch.a[start..]);
            let step = W::load(&self.batch.b[start..]);
            for (round, positions) in (0..).zip(&mut *self.rounds) {
                let located = modulus.position(round, sum, step);
                sum = sum.add(step);
                let positions = &mut positions[start - self.first..][..W::COUNT];
                located.store(positions);
                if is_large {
                    for position in positions {
                        self.filter.prefetch_at(*position);
                    }
                }
            }
        }
    }
}
