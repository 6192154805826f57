//! Lookups of one item or a batch in interleaved filters, in all of them at once.

use crate::bloom::filter::Interleaved;
use crate::hash::{BATCH, Batch, Probe};
use crate::machine::words::{self, Task, Use, Words, each_bit};
use crate::machine::work;

use super::lookup::locate_round;
use super::patience::Tally;

/// The number of positions of one item that are looked up at once. Most items need no more, and waiting for memory costs
/// more than lookups in vain.
const WIDTH: u32 = 8;

/// Narrows the lanes of each group of filters to those that claim an item.
pub fn narrow(all: &[&Interleaved], lanes: &mut [u32], probe: Probe) {
    let (mut first, mut left) = (0, true);
    while left {
        left = false;
        // The number of bits that the positions are reduced by.
        let (mut bits, mut positions) = (0, [0; WIDTH as usize]);
        for (filters, lanes) in all.iter().zip(&mut *lanes) {
            let hashes = filters.geometry().hashes;
            if *lanes == 0 || first >= hashes {
                continue;
            }
            let modulus = filters.modulus();
            if modulus.cells() != bits {
                bits = modulus.cells();
                let next = [0, 1, 2, 3, 4, 5, 6, 7];
                positions = next.map(|next| modulus.position_of(probe, first + next));
            }
            let wanted = &positions[..WIDTH.min(hashes - first) as usize];
            work::steps(wanted.len());
            *lanes = wanted
                .iter()
                .fold(*lanes, |lanes, at| lanes & filters.at(*at));
            left |= *lanes != 0;
        }
        first += WIDTH;
    }
}

/// A mask of lanes for each item of a batch.
pub type LanesOfBatch = [u32; BATCH];

/// The most groups of filters in which a batch is looked up together.
pub const TOGETHER: usize = 8;

/// Narrows the lanes of each group of filters, [`TOGETHER`] at most, to those that claim an item, for each item of a batch.
/// Filters of the same size are searched together.
pub fn narrow_batch(
    all: &[&Interleaved],
    lanes: &mut [LanesOfBatch],
    batch: &Batch,
    tally: &mut impl Tally,
) {
    debug_assert!(all.len() <= TOGETHER);
    let mut start = 0;
    for alike in all.chunk_by(|one, other| one.geometry() == other.geometry()) {
        let lanes = &mut lanes[start..start + alike.len()];
        words::run(NarrowBatch {
            alike,
            lanes,
            batch,
            tally,
        });
        start += alike.len();
    }
}

/// The most positions of each item of a batch that are looked up at once.
const MOST_ROUNDS: usize = 4;

struct NarrowBatch<'n, T> {
    alike: &'n [&'n Interleaved],
    lanes: &'n mut [LanesOfBatch],
    batch: &'n Batch,
    tally: &'n mut T,
}

impl<T: Tally> Task for NarrowBatch<'_, T> {
    const USE: Use = Use::Lookups;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let Some(first) = self.alike.first() else {
            return;
        };
        let (modulus, hashes) = (first.modulus(), first.geometry().hashes);
        // For each group, the mask of items that a lane may still claim.
        let mut left = [0_u64; TOGETHER];
        for (left, lanes) in left.iter_mut().zip(&*self.lanes) {
            for (item, lanes) in lanes[..self.batch.len()].iter().enumerate() {
                *left |= u64::from(*lanes != 0) << item;
            }
        }
        let mut positions = [[0; BATCH]; MOST_ROUNDS];
        // With half of the bits set, all rounds at once but the last are expected to leave more than one lane.
        let lanes = self.alike.iter().map(|filters| filters.lanes()).max();
        let at_once = lanes.map_or(1, |lanes| (lanes - 1).ilog2());
        for first in (0..hashes).step_by(at_once as usize) {
            let all_left = left.iter().fold(0, |all, left| all | left);
            if all_left == 0 {
                break;
            }
            let rounds = first..hashes.min(first + at_once);
            for (round, positions) in rounds.clone().zip(&mut positions) {
                locate_round::<W>(self.batch, all_left, modulus, round, positions);
                for (filters, left) in self.alike.iter().zip(left) {
                    each_bit(left, |item| filters.prefetch_at(positions[item]));
                }
            }
            for (_, positions) in rounds.zip(&positions) {
                let lanes = self.lanes.iter_mut().zip(&mut left);
                for (filters, (lanes, left)) in self.alike.iter().zip(lanes) {
                    work::steps(left.count_ones() as usize);
                    each_bit(*left, |item| {
                        lanes[item] &= filters.at(positions[item]);
                        if self.tally.count_in_lanes(item, lanes[item]) {
                            lanes[item] = 0;
                        }
                        *left &= !(u64::from(lanes[item] == 0) << item);
                    });
                }
            }
        }
    }
}
