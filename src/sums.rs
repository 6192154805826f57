//! The sections of INFO, and the sums over all values that they show.
//!
//! A value adds its share when it is made, and takes it off when it is freed. So the sums say what is in memory: during
//! a flush in the background or a full resync beside the served data, that is more than the keyspace holds.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use valkeybloom_sketches::work;

use crate::ffi::InfoWriter;
use crate::mover;

/// The maximum number of families.
pub const FAMILIES: usize = 5;

/// The maximum number of sums of a family.
const SUMS: usize = 7;

/// A value's share of its family's sums, in the order of [`InfoSection::sums`], padded with zeros. The first one is its
/// bytes of memory.
pub type Totals = [u64; SUMS];

/// The totals before a value exists, and after it is gone.
pub const NOTHING: Totals = [0; SUMS];

/// The number of the sums of all feeds, which are no family: their bytes, which are also among those of a family; their
/// number; and that of their readers.
pub const FEEDS: usize = FAMILIES;

/// The section of [`FEEDS`].
const FEEDS_INFO: InfoSection = InfoSection {
    section: c"bloom_feed_metrics",
    sums: &[
        c"bloom_feed_memory_bytes",
        c"bloom_num_feeds",
        c"bloom_num_feed_readers",
    ],
};

/// A family's section of INFO. The server puts the module's name before all names.
pub struct InfoSection {
    /// The name of the section.
    pub section: &'static CStr,
    /// The names of the sums over all values, in the order of [`Totals`].
    pub sums: &'static [&'static CStr],
}

/// The sums of each family, and of feeds.
static ALL: [[AtomicU64; SUMS]; FAMILIES + 1] =
    [const { [const { AtomicU64::new(0) }; SUMS] }; FAMILIES + 1];

/// Returns totals that begin with these.
pub fn totals<const N: usize>(first: [u64; N]) -> Totals {
    let mut totals = NOTHING;
    totals[..N].copy_from_slice(&first);
    totals
}

/// Replaces the totals of a value of a family, or of a feed. Any thread may call this.
#[inline]
pub fn change(family: usize, before: &Totals, after: &Totals) {
    for ((sum, before), after) in ALL[family].iter().zip(before).zip(after) {
        if before != after {
            // Sums wrap, because the change may be negative.
            sum.fetch_add(after.wrapping_sub(*before), Relaxed);
        }
    }
}

fn write_section(info: &InfoSection, number: usize, to: &mut InfoWriter) {
    to.section(info.section);
    for (name, sum) in info.sums.iter().zip(&ALL[number]) {
        to.field(name, sum.load(Relaxed));
    }
}

/// Writes the INFO sections of the families that are loaded, in the order of their numbers.
pub fn write_info(
    sections: &[InfoSection],
    is_loaded: impl Fn(usize) -> bool,
    to: &mut InfoWriter,
) {
    for (number, info) in sections.iter().enumerate() {
        if is_loaded(number) {
            write_section(info, number, to);
        }
        if number == 0 {
            if is_loaded(number) {
                write_section(&FEEDS_INFO, FEEDS, to);
            }
            // These count all families; the names are from the time when there was only one.
            to.section(c"bloom_defrag_metrics");
            to.field(c"bloom_defrag_hits", mover::HITS.load(Relaxed));
            to.field(c"bloom_defrag_misses", mover::MISSES.load(Relaxed));
        }
    }
    if cfg!(debug_assertions) {
        // For tests, which assert on work instead of time.
        let work = work::take();
        to.section(c"work");
        to.field(c"work_steps", work.steps);
        to.field(c"work_bytes", work.bytes);
    }
}
