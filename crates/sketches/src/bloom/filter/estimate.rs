//! Estimates of a filter's error rate.

use crate::number::{next_random, to_double};

use super::single::Filter;
use super::{bits, rate};

/// The most bytes of a filter whose bits are counted to estimate its rate: there the number of items is less accurate.
const COUNTED_BYTES: usize = 1024;

/// Below this number of items, the rates of filters of the same size and fill differ by a quarter or more.
const FEW_ITEMS: u64 = 48;

/// The most bytes of a filter that are sampled to estimate its fill. They are all in use if the filter is larger.
const SAMPLED_BYTES: usize = 1 << 15;

/// The most random positions that are tried for one item.
const TRIES: u32 = 1000;

impl Filter {
    /// Returns the error rate that the filter has with `items` that were all new.
    pub fn rate_at(&self, items: u64) -> f64 {
        let items_per_position = to_double(items) / to_double(self.positions());
        self.rate_of_fill(rate::fill_after(items_per_position, self.hashes()))
    }

    /// Estimates the error rate, from the set bits if their number is known or they are few enough to be counted, else
    /// from the number of items.
    pub fn estimated_rate(&self) -> f64 {
        if self.is_small() {
            return self.rate_of_fill(self.fill());
        }
        self.rate_at(self.items)
    }

    /// Estimates the error rate from the bits, whatever the number of items says,.
    pub fn rate_of_bits(&self) -> f64 {
        let fill = match self.bitmap().first_chunk::<SAMPLED_BYTES>() {
            Some(sample) => to_double(bits::ones(sample)) / to_double(8 * SAMPLED_BYTES as u64),
            None => self.fill(),
        };
        self.rate_of_fill(fill)
    }

    /// Returns whether the filter holds so few items that filters of its size and fill differ in their rates by a quarter
    /// or more.
    pub fn holds_few(&self) -> bool {
        self.items < FEW_ITEMS && self.is_small()
    }

    /// Returns whether the bits are few enough to be counted.
    fn is_small(&self) -> bool {
        self.blob.len() <= COUNTED_BYTES
    }

    /// Returns random positions in use, one for each hash function: those of a synthetic item that the filter claims.
    /// Returns `None` if `TRIES` random positions are not enough.
    pub fn claimed_positions(
        &self,
        is_in_use: impl Fn(u64) -> bool,
        random: &mut u64,
    ) -> Option<Vec<u64>> {
        let mut tries = 0..TRIES;
        let mut position = || {
            tries.find_map(|_| {
                let position = below(self.positions(), next_random(random));
                is_in_use(position).then_some(position)
            })
        };
        (0..self.hashes()).map(|_| position()).collect()
    }

    fn rate_of_fill(&self, fill: f64) -> f64 {
        rate::false_positives(self.is_bare(), self.positions(), self.hashes(), fill)
    }

    /// Returns the share of the bits that are set.
    pub(super) fn fill(&self) -> f64 {
        (to_double(bits::ones(self.bitmap())) / to_double(self.positions())).min(1.0)
    }
}

/// Returns a number below `bound`, given a random one.
#[allow(clippy::cast_possible_truncation, reason = "the high half fits")]
const fn below(bound: u64, random: u64) -> u64 {
    ((bound as u128 * random as u128) >> 64) as u64
}
