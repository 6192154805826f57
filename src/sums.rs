//! The sections of INFO, and the sums over all values that they show.
//!
//! A value adds its share when it is made, and takes it off when it is freed. So the sums say what is in memory: during
//! a flush in the background or a full resync beside the served data, that is more than the keyspace holds.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use valkeybloom_sketches::work;

use crate::ffi::InfoWriter;
use crate::mover;

/// The number of families.
pub const FAMILIES: usize = 5;

/// The maximum number of sums of a family.
const SUMS: usize = 7;

/// A value's share of its family's sums, in the order of the names in its [`InfoSection`], padded with zeros. The first one is
/// its bytes of memory.
pub type Totals = [u64; SUMS];

/// The totals before a value exists, and after it is gone.
pub const NOTHING: Totals = [0; SUMS];

/// A family's section of INFO. The server puts the module's name before all names.
pub struct InfoSection {
    section: &'static CStr,
    /// The names of the sums over all values, in the order of [`Totals`].
    sums: &'static [&'static CStr],
}

impl InfoSection {
    /// Creates the section of this name, with the names of its sums.
    pub const fn new(section: &'static CStr, sums: &'static [&'static CStr]) -> Self {
        assert!(sums.len() <= SUMS, "`SUMS` is too small");
        Self { section, sums }
    }
}

/// The section of the sums of all feeds. Their bytes are also among those of a family.
const FEEDS_INFO: InfoSection = InfoSection::new(
    c"bloom_feed_metrics",
    &[
        c"bloom_feed_memory_bytes",
        c"bloom_num_feeds",
        c"bloom_num_feed_readers",
    ],
);

type Sums = [AtomicU64; SUMS];

/// The sums of each family.
static OF_FAMILIES: [Sums; FAMILIES] = [const { [const { AtomicU64::new(0) }; SUMS] }; FAMILIES];

/// The sums of all feeds.
static OF_FEEDS: Sums = [const { AtomicU64::new(0) }; SUMS];

/// Returns totals that begin with these.
pub fn totals<const N: usize>(first: [u64; N]) -> Totals {
    const { assert!(N <= SUMS, "`SUMS` is too small") }
    let mut totals = NOTHING;
    totals[..N].copy_from_slice(&first);
    totals
}

/// Replaces the totals of a value of a family. Any thread may call this.
#[inline]
pub fn change(family: usize, before: &Totals, after: &Totals) {
    replace(&OF_FAMILIES[family], before, after);
}

/// Replaces the totals of a feed: its bytes, 1, and the number of its readers. Any thread may call this.
pub fn change_feeds(before: &Totals, after: &Totals) {
    replace(&OF_FEEDS, before, after);
}

#[inline]
fn replace(sums: &Sums, before: &Totals, after: &Totals) {
    for ((sum, before), after) in sums.iter().zip(before).zip(after) {
        if before != after {
            // Sums wrap, because the change may be negative.
            sum.fetch_add(after.wrapping_sub(*before), Relaxed);
        }
    }
}

fn write_section(info: &InfoSection, sums: &Sums, to: &mut InfoWriter) {
    to.section(info.section);
    for (name, sum) in info.sums.iter().zip(sums) {
        to.field(name, sum.load(Relaxed));
    }
}

/// Writes the INFO sections of the families that are loaded, in the order of their numbers.
pub fn write_info(
    sections: &[InfoSection; FAMILIES],
    is_loaded: impl Fn(usize) -> bool,
    to: &mut InfoWriter,
) {
    let [bloom, others @ ..] = sections;
    if is_loaded(0) {
        write_section(bloom, &OF_FAMILIES[0], to);
        write_section(&FEEDS_INFO, &OF_FEEDS, to);
    }
    // These count all families; the names are from the time when there was only one.
    to.section(c"bloom_defrag_metrics");
    to.field(c"bloom_defrag_hits", mover::HITS.load(Relaxed));
    to.field(c"bloom_defrag_misses", mover::MISSES.load(Relaxed));
    for (number, info) in (1..).zip(others) {
        if is_loaded(number) {
            write_section(info, &OF_FAMILIES[number], to);
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
