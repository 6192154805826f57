//! What is known of a filter's error rate, and of the items that it claims.

use crate::hash::Probe;
use crate::number::to_double;

use super::asked::{self, Likely};
use super::cells::Cells;
use super::single::{Filter, Layout};
use super::{bits, rate};

/// Up to this size the bits of a filter are counted to estimate its rate: there the number of items tells less.
const COUNTED_BYTES: usize = 1024;

/// Up to this number of items the rates of filters of one size and fill differ by a quarter and more.
const FEW_ITEMS: u64 = 48;

/// How often at most a position that is set is looked for.
const TRIES: u32 = 1000;

impl Filter {
    /// The error rate with this many items in it, each of which was new.
    pub fn rate_at(&self, items: u64) -> f64 {
        let items_per_position = to_double(items) / to_double(self.positions());
        self.rate_of_fill(rate::fill_after(items_per_position, self.hashes()))
    }

    /// The error rate now: by the bits that are set, where they are known or few enough to be counted, else by
    /// the number of items.
    pub fn estimated_rate(&self) -> f64 {
        match self.layout {
            Layout::Counters { in_use, .. } if in_use < u32::MAX => self.rate_of_fill(self.fill()),
            Layout::Bits { .. } | Layout::BareBits { .. } if self.is_small() => {
                self.rate_of_fill(self.fill())
            }
            _ => self.rate_at(self.items),
        }
    }

    /// Whether it holds so few items that the equations tell little of the rate.
    pub fn holds_few(&self) -> bool {
        self.items < FEW_ITEMS && self.is_small()
    }

    /// Whether its bits are few enough to be counted. Those in a lane never are.
    fn is_small(&self) -> bool {
        !self.is_in_lane() && self.blob.len() <= COUNTED_BYTES
    }

    /// Positions of an item that this filter would claim if these are in use, at random, one for each hash function;
    /// `None` where so few are set that none is soon found.
    pub fn claimed_positions(
        &self,
        is_in_use: impl Fn(u64) -> bool,
        random: &mut u64,
    ) -> Option<Vec<u64>> {
        let mut tries = 0..TRIES;
        let mut position = || {
            tries.find_map(|_| {
                let position = asked::below(self.positions(), asked::scrambled(random));
                is_in_use(position).then_some(position)
            })
        };
        (0..self.hashes()).map(|_| position()).collect()
    }

    /// How many of an item's positions are in use before the first that is not: all of them, if the filter claims the item.
    pub(crate) fn leading_in_use(&self, probe: Probe) -> u32 {
        let in_use = |position: &u64| self.is_in_use(*position);
        let leading =
            |positions: &mut dyn Iterator<Item = u64>| positions.take_while(in_use).count();
        let count = match self.cells() {
            Cells::Bits => leading(&mut self.bits_of::<false>(probe)),
            Cells::BareBits => leading(&mut self.bits_of::<true>(probe)),
            Cells::Counters => leading(&mut self.counters_of(probe)),
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The positions of cells that are set, or count.
    fn positions_in_use(&self) -> Vec<u64> {
        let cells_of_byte = 8 / self.cells().bits();
        let bytes = (0..)
            .step_by(usize::try_from(cells_of_byte).unwrap_or(1))
            .zip(self.bitmap());
        // Most bytes of a filter that holds few items are 0.
        let used = bytes.filter(|(_, cells)| **cells != 0);
        let positions = used.flat_map(|(first, _)| first..first + cells_of_byte);
        positions
            .filter(|position| self.is_in_use(*position))
            .collect()
    }

    /// Items of which this filter may claim some, and the share of all items that are such. It claims none of the
    /// others.
    pub fn likely(&self) -> (Likely, f64) {
        let in_use = self.positions_in_use();
        let fill = to_double(in_use.len() as u64) / to_double(self.positions());
        let share = if self.hashes() == 1 {
            fill
        } else {
            fill * fill
        };
        (
            Likely::new(in_use, self.positions(), self.hashes(), self.is_bare()),
            share,
        )
    }

    fn rate_of_fill(&self, fill: f64) -> f64 {
        rate::false_positives(self.is_bare(), self.positions(), self.hashes(), fill)
    }

    /// The share of its cells that are in use.
    pub(super) fn fill(&self) -> f64 {
        let in_use = match self.layout {
            Layout::Counters { in_use, .. } => in_use.into(),
            _ => bits::ones(self.bitmap()),
        };
        (to_double(in_use) / to_double(self.positions())).min(1.0)
    }
}
