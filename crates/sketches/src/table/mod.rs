//! An exact table of fingerprints that grows and shrinks in small steps.
//!
//! A fingerprint is the first bits of an item's hash. A table of *n* fingerprints of *p* bits claims an item that was never
//! added with a probability of at most *n* / 2ᵖ. With jemalloc it takes *p* − log₂ *n* + 3 to 4 bits for each, and 2 more for
//! a count.
//!
//! ```text
//! fingerprint   0110…01 | 0101110011 | 1101001
//!               shard     bucket       remainder, which is stored
//! ```
//!
//! A table takes any fingerprints, with any counts and periods: only memory refuses. What it holds does not depend on its
//! shards, so any table can be stored, and comes back equal.
//!
//! | file | holds |
//! |---|---|
//! | `set.rs`, `counts.rs`, `lives.rs` | the three tables: fingerprints alone, with counts, or with periods |
//! | `filling.rs`, `entries.rs`, `merge.rs` | making a table of ascending fingerprints; reading one table, or several, in order |
//! | `shards.rs`, `crowds.rs` | which shard holds a fingerprint; shards that have more than their share |
//! | `shard.rs`, `packed.rs` | searching and changing a shard; writing and reading all of it |
//! | `codec.rs`, `periods.rs`, `bits.rs` | fingerprints, counts and periods as bits |
//! | `size.rs`, `refused.rs` | the memory that a table takes; why memory refuses |

mod bits;
mod codec;
mod counts;
mod crowds;
mod entries;
mod filling;
mod lives;
mod merge;
mod packed;
mod periods;
mod refused;
mod set;
mod shard;
mod shards;
mod size;

pub use codec::{Held, Payload};
pub use counts::Counts;
pub use entries::Entries;
pub use filling::Filling;
pub use lives::{Kept, Lives};
pub use merge::{Merge, Merged, Source};
pub use periods::{Period, tag_bits};
pub use refused::Refused;
pub use set::Set;
pub use shards::Room;
pub use size::{expected_bytes, largest_bytes};

use std::ops::Range;

use crate::machine::memory::Relocate;
use crate::machine::words::{self, Task, Use, Words};

use periods::Periods;
use shards::Shards;

/// A table of fingerprints.
#[derive(Debug)]
pub enum Table {
    /// Fingerprints alone.
    Set(Set),
    /// Fingerprints with counts.
    Counts(Counts),
    /// Fingerprints with periods, until which they stay.
    Lives(Lives),
}

impl Table {
    /// The fewest bits of a fingerprint.
    pub const LEAST_BITS: u32 = Shards::LEAST_BITS;
    /// The fingerprints whose memory is prefetched together, so that the processor waits for it once.
    pub const BATCH: usize = Shards::BATCH;

    /// Creates an empty table of fingerprints of this many bits, or returns `None` if allocation fails.
    ///
    /// # Panics
    /// The bits are fewer than [`LEAST_BITS`](Self::LEAST_BITS) or more than [`Payload::most_bits`].
    pub fn new(bits: u32, payload: Payload) -> Option<Self> {
        Some(Self::of(Shards::new(bits, payload)?, 0, Periods::default()))
    }

    /// Creates the table that was filled with ascending fingerprints.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    pub fn filled(filling: Filling) -> Result<Self, Refused> {
        let (shards, fingerprints, periods) = filling.end()?;
        Ok(Self::of(shards, fingerprints, periods))
    }

    fn of(shards: Shards, fingerprints: u64, periods: Periods) -> Self {
        match shards.codec().payload {
            Payload::Nothing => Self::Set(Set(shards)),
            Payload::Count => Self::Counts(Counts {
                shards,
                fingerprints,
            }),
            Payload::Period(_) => Self::Lives(Lives {
                shards,
                fingerprints,
                periods,
                sweep_from: 0,
            }),
        }
    }

    /// Returns all shards.
    #[inline]
    const fn all(&self) -> &Shards {
        match self {
            Self::Set(set) => &set.0,
            Self::Counts(counts) => &counts.shards,
            Self::Lives(lives) => &lives.shards,
        }
    }

    /// Copies the table, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let shards = self.all().try_clone()?;
        Some(match self {
            Self::Set(_) => Self::Set(Set(shards)),
            Self::Counts(counts) => Self::Counts(Counts { shards, ..*counts }),
            Self::Lives(lives) => Self::Lives(Lives {
                shards,
                periods: lives.periods.with_room(0)?,
                ..*lives
            }),
        })
    }

    /// Returns the bits of a fingerprint.
    pub const fn bits(&self) -> u32 {
        self.all().codec().bits
    }

    /// Returns what the table keeps of each fingerprint.
    pub const fn payload(&self) -> Payload {
        self.all().codec().payload
    }

    /// Returns the number of different fingerprints, without those whose periods were dropped.
    pub const fn fingerprints(&self) -> u64 {
        match self {
            Self::Set(set) => set.0.entries(),
            Self::Counts(counts) => counts.fingerprints,
            Self::Lives(lives) => lives.fingerprints,
        }
    }

    /// Returns the number of entries that the fingerprints take.
    pub const fn entries(&self) -> u64 {
        self.all().entries()
    }

    /// Returns the periods that have fingerprints, each with their number, in order.
    pub fn periods(&self) -> &[(Period, u64)] {
        match self {
            Self::Lives(lives) => lives.periods(),
            Self::Set(_) | Self::Counts(_) => &[],
        }
    }

    /// Returns the size of all allocations in bytes.
    pub const fn memory_bytes(&self) -> u64 {
        let periods = match self {
            Self::Lives(lives) => lives.periods.memory_bytes(),
            Self::Set(_) | Self::Counts(_) => 0,
        };
        self.all().memory_bytes() + periods
    }

    /// Returns the number of shards. Each is an allocation.
    pub fn shards(&self) -> usize {
        self.all().count()
    }

    /// Moves the allocations from shard `first` on, counted from 0. Returns the count of the next one if it has to stop.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        match self {
            Self::Set(set) => set.0.relocate(first, by),
            Self::Counts(counts) => counts.shards.relocate(first, by),
            Self::Lives(lives) => {
                let next = lives.shards.relocate(first, by);
                if next.is_none() {
                    lives.periods.relocate(by);
                }
                next
            }
        }
    }

    /// Removes the entries of dropped periods from one more shard, and joins two shards if there are few entries.
    pub fn sweep_next(&mut self) {
        // Without room, no shard is split.
        match self {
            Self::Set(set) => set.0.resize(&|| 0),
            Self::Counts(counts) => counts.shards.resize(&|| 0),
            Self::Lives(lives) => lives.sweep_next(&|| 0),
        }
    }

    /// Prefetches what additions of a few fingerprints read, at most [`BATCH`](Self::BATCH).
    #[inline]
    pub fn prefetch_each(&self, fingerprints: impl Iterator<Item = u64>) {
        self.all().locate_each(fingerprints);
    }

    /// Returns whether a fingerprint is in the table; of those with periods, only if its period is `oldest` or later.
    #[inline]
    pub fn contains(&self, fingerprint: u64, oldest: Period) -> bool {
        match self {
            Self::Set(set) => set.contains(fingerprint),
            Self::Counts(counts) => counts.contains(fingerprint),
            Self::Lives(lives) => lives.contains(fingerprint, oldest),
        }
    }

    /// Writes for each fingerprint whether it is in the table, as [`contains`](Self::contains) says.
    pub fn contains_each(&self, fingerprints: &[u64], oldest: Period, answers: &mut [bool]) {
        let batches = fingerprints.chunks(Self::BATCH);
        let batches = batches.zip(answers.chunks_mut(Self::BATCH));
        for (fingerprints, answers) in batches {
            words::run(Lookups {
                table: self,
                fingerprints,
                oldest,
                answers,
            });
        }
    }

    /// Returns the first part of the table, of `parts` equal ones, to be merged with others' as fingerprints of `bits` bits. The
    /// parts of all tables have the same prefixes if `parts` is a power of two.
    pub fn source(&self, bits: u32, parts: u64) -> Source<'_> {
        let end = (1 << self.bits()) / parts;
        Source::new(self.iter(0..end), self.bits() - bits, bits)
    }

    /// Returns the fingerprints of a range in order, without those whose periods were dropped.
    pub fn iter(&self, range: Range<u64>) -> Entries<'_> {
        self.all().iter(range)
    }
}

/// Lookups of a few fingerprints, at most [`BATCH`](Table::BATCH).
struct Lookups<'l> {
    table: &'l Table,
    fingerprints: &'l [u64],
    oldest: Period,
    answers: &'l mut [bool],
}

impl Task for Lookups<'_> {
    const USE: Use = Use::Passes;
    type Output = ();

    #[inline(always)]
    fn run<W: Words>(self) {
        let fingerprints = self.fingerprints.iter().copied();
        let places = self.table.all().locate_each(fingerprints);
        for ((shard, place, widths), answer) in places.iter().flatten().zip(self.answers) {
            let found = shard.find_here(place, *widths);
            *answer = found.is_there()
                && match self.table {
                    Table::Set(_) | Table::Counts(_) => true,
                    Table::Lives(lives) => lives.is_live(shard, found, *widths, self.oldest),
                };
        }
    }
}
