//! The expected size of a table, and the largest.

use crate::number::{exp, to_double, to_whole};

use super::codec::{Codec, Payload, Widths};
use super::periods::Periods;
use super::shard::{self, Shard};
use super::shards::{SPLIT, Shards};

/// Returns the expected bytes of a table of `number` random fingerprints. Counts, if it keeps them, are one or two.
pub fn expected_bytes(bits: u32, payload: Payload, number: u64) -> u64 {
    let shards = number.div_ceil(SPLIT).max(1);
    let level = shards.ilog2().min(bits - Shards::LEAST_BITS);
    let halves = 2 * (shards - (1 << shards.ilog2()));
    let wholes = shards - halves;
    let of_shards = [(wholes, level), (halves, level + 1)].map(|(shards, depth)| {
        let entries = to_double(number) / to_double(1 << depth);
        let widths = Codec::new(bits, payload).widths(bits - depth);
        to_double(shards) * of_shard(entries, widths)
    });
    // The table of shards grows by an eighth at a time.
    let spare = if shards < 8 { 1.0 } else { 1.06 };
    let entries = to_double(shards * Shard::ENTRY_BYTES as u64) * spare;
    to_whole((of_shards[0] + of_shards[1] + entries).round()) + of_periods(payload, number)
}

/// Returns the bytes that fewer than one in a million of such tables exceed.
///
/// A shard of *b* bytes is rounded up by at most *b* / 4, and evenly distributed up to there: a standard deviation of at most
/// *b* / √192. The deviation of the sum is that of a shard times the root of their number; five of them are added.
///
/// While entries are added and removed, a shard keeps the allocation for the most that it had of late, up to an eighth more
/// than the mean.
pub fn largest_bytes(bits: u32, payload: Payload, number: u64) -> u64 {
    let number = match payload {
        Payload::Nothing => number,
        Payload::Count | Payload::Period(_) => number.saturating_add(number / 8),
    };
    let bytes = to_double(expected_bytes(bits, payload, number));
    let shards = to_double(number.div_ceil(SPLIT).max(1));
    to_whole(bytes + 5.0 * bytes / (192.0 * shards).sqrt())
}

/// Returns the bytes of the numbers of fingerprints of each period, if all periods have some.
fn of_periods(payload: Payload, number: u64) -> u64 {
    let Payload::Period(periods) = payload else {
        return 0;
    };
    let all = number.min(u64::from(periods) + 1);
    // Room for them grows by an eighth at a time.
    Periods::ENTRY_BYTES * (all + all / 16)
}

/// Returns the expected bytes of a shard with this number of entries.
fn of_shard(entries: f64, widths: Widths) -> f64 {
    // Each entry has a bit among the ends; rounding both up adds half a byte each.
    let bits = 1.0 + f64::from(widths.entry());
    let bytes = entries * bits / 8.0 + 1.0;
    // The numbers of entries in shards vary, so allocations have a few sizes: the mean of a normal distribution's.
    let deviation = entries.sqrt() * bits / 8.0;
    let (mut sum, mut weights) = (0.0, 0.0);
    for step in -12..=12_i32 {
        let by = f64::from(step) / 4.0;
        let weight = exp(-by * by / 2.0);
        let bytes = to_whole((bytes + by * deviation).max(0.0));
        let allocated = shard::allocated_for(usize::try_from(bytes).unwrap_or(0));
        sum += weight * to_double(allocated as u64);
        weights += weight;
    }
    sum / weights
}
