//! The fingerprints of a table, by the shards that hold them.

use std::marker::PhantomData;

use crate::machine::memory::{self, Relocate, index};

use super::bits::{self, mask};
use super::shard::{BUCKET_BITS, Builder, Found, Place, Refused, Shard, Widths};

/// The entries of a shard on average above which one is split. A shard has half as many to twice as many then. With more, heads
/// and buckets take fewer bits of an entry, and splits take longer.
const SPLIT: u64 = 1024;
/// The entries of a shard on average below which two are joined. It is less than half of [`SPLIT`], so that the first shard is
/// not split and joined in turn.
const JOIN: u64 = 480;

/// The fingerprints that are looked up together, so that the processor waits for memory once.
const BATCH: usize = 32;

/// What a table keeps of a fingerprint.
pub trait Payload {
    /// The bits of an entry's tag.
    const TAG: u32;
    /// Whether entries whose tag is all ones belong to the one before them.
    const HAS_DIGITS: bool;
    /// The fewest bits of a remainder.
    const REMAINDER: u32;

    /// Passes the bucket, the remainder and the payload of each fingerprint of a shard, in order.
    fn each(shard: &Shard, widths: Widths, each: impl FnMut(u32, u64, u64));

    /// Appends a fingerprint to a shard.
    ///
    /// # Errors
    /// [`Refused`]
    fn push(to: &mut Builder, bucket: u32, remainder: u64, payload: u64) -> Result<(), Refused>;
}

/// Nothing but the fingerprint.
#[derive(Debug)]
pub struct Plain;

impl Payload for Plain {
    const TAG: u32 = 0;
    const HAS_DIGITS: bool = false;
    const REMAINDER: u32 = 0;

    fn each(shard: &Shard, widths: Widths, mut each: impl FnMut(u32, u64, u64)) {
        shard.for_each(widths, |bucket, remainder, _| each(bucket, remainder, 1));
    }

    fn push(to: &mut Builder, bucket: u32, remainder: u64, _: u64) -> Result<(), Refused> {
        to.push(bucket, remainder, 0)
    }
}

/// A table of fingerprints.
#[derive(Debug)]
pub struct Table<P> {
    /// The bits of a fingerprint.
    bits: u32,
    /// The bits that the fingerprints of a whole shard have in common. Those of a half have one more.
    level: u32,
    /// All ones if the shards are in descending order. The order turns with each level, so that shards come and go only at
    /// the ends of their tables.
    turned: u64,
    /// The shards that are whole, by prefix.
    wholes: Vec<Shard>,
    /// The halves of all others, by prefix, the last one first.
    halves: Vec<Shard>,
    entries: u64,
    fingerprints: u64,
    payload: PhantomData<P>,
}

impl<P: Payload> Table<P> {
    /// The fewest bits of a fingerprint.
    pub const LEAST_BITS: u32 = BUCKET_BITS + 2;
    /// The most bits of a fingerprint.
    pub const MOST_BITS: u32 = 60;

    /// Creates an empty table of fingerprints of this many bits, or returns `None` if allocation fails. If the table has 2ⁿ of
    /// them, they should have four more bits than *n*: with fewer, groups may be full of the digits of counts.
    ///
    /// # Panics
    /// The bits are fewer than [`LEAST_BITS`](Self::LEAST_BITS) or more than [`MOST_BITS`](Self::MOST_BITS).
    pub fn new(bits: u32) -> Option<Self> {
        const { assert!(Self::MOST_BITS - BUCKET_BITS + P::TAG <= bits::MOST) };
        assert!((Self::LEAST_BITS..=Self::MOST_BITS).contains(&bits));
        let mut wholes = memory::reserved(1)?;
        wholes.push(Shard::new()?);
        Some(Self {
            bits,
            level: 0,
            turned: 0,
            wholes,
            halves: Vec::new(),
            entries: 0,
            fingerprints: 0,
            payload: PhantomData,
        })
    }

    /// Copies the table, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let copied = |shards: &[Shard]| memory::collected(shards.iter().map(Shard::try_clone));
        Some(Self {
            wholes: copied(&self.wholes)?,
            halves: copied(&self.halves)?,
            ..*self
        })
    }

    /// Returns the bits of a fingerprint.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the number of different fingerprints.
    pub const fn fingerprints(&self) -> u64 {
        self.fingerprints
    }

    /// Returns the size of all allocations in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let shards = self.wholes.iter().chain(&self.halves);
        let bytes: usize = shards.map(Shard::memory_bytes).sum();
        let tables = size_of::<Shard>() * (self.wholes.capacity() + self.halves.capacity());
        (bytes + tables) as u64
    }

    /// Moves the allocations from the one numbered `first` on. Returns the number of the next one if it has to stop.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        let shards = self.wholes.iter_mut().chain(&mut self.halves);
        for (number, shard) in shards.enumerate().skip(first) {
            if number > first && by.should_stop() {
                return Some(number);
            }
            shard.relocate(|bytes| by.blob(bytes));
        }
        self.wholes = by.table(std::mem::take(&mut self.wholes));
        self.halves = by.table(std::mem::take(&mut self.halves));
        None
    }

    const fn widths(&self, depth: u32) -> Widths {
        Widths {
            remainder: self.bits - depth - BUCKET_BITS,
            tag: P::TAG,
        }
    }

    /// Returns the index of the whole shard of a fingerprint, or else that of its half.
    #[inline]
    fn shard_of(&self, fingerprint: u64) -> Result<usize, usize> {
        let turned = (fingerprint ^ self.turned) & mask(self.bits);
        let whole = index(turned >> (self.bits - self.level));
        if whole < self.wholes.len() {
            return Ok(whole);
        }
        let depth = self.level + 1;
        Err(index(mask(depth) - (turned >> (self.bits - depth))))
    }

    #[inline]
    pub(super) fn locate(&self, fingerprint: u64) -> (&Shard, Place, Widths) {
        let (shard, depth) = match self.shard_of(fingerprint) {
            Ok(whole) => (&self.wholes[whole], self.level),
            Err(half) => (&self.halves[half], self.level + 1),
        };
        let widths = self.widths(depth);
        (shard, place(fingerprint, widths), widths)
    }

    #[inline]
    pub(super) fn locate_mut(&mut self, fingerprint: u64) -> (&mut Shard, Place, Widths) {
        let shard = self.shard_of(fingerprint);
        let widths = self.widths(self.level + u32::from(shard.is_err()));
        let shard = match shard {
            Ok(whole) => &mut self.wholes[whole],
            Err(half) => &mut self.halves[half],
        };
        (shard, place(fingerprint, widths), widths)
    }

    /// Returns whether a fingerprint is in the table.
    #[inline]
    pub fn contains(&self, fingerprint: u64) -> bool {
        let (shard, place, widths) = self.locate(fingerprint);
        find::<P>(shard, &place, widths).is_there()
    }

    /// Writes for each fingerprint whether it is in the table.
    pub fn contains_each(&self, fingerprints: &[u64], answers: &mut [bool]) {
        let batches = fingerprints.chunks(BATCH).zip(answers.chunks_mut(BATCH));
        for (fingerprints, answers) in batches {
            let mut places = [None; BATCH];
            for (place, fingerprint) in places.iter_mut().zip(fingerprints) {
                let located = self.locate(*fingerprint);
                located.0.prefetch(&located.1);
                *place = Some(located);
            }
            for ((shard, place, widths), answer) in places.iter().flatten().zip(answers) {
                *answer = shard.find(place, *widths, P::HAS_DIGITS).is_there();
            }
        }
    }

    fn shards(&self) -> u64 {
        (self.wholes.len() + self.halves.len()) as u64
    }

    /// Notes that entries and fingerprints have come or gone. Splits or joins a shard if it is time. Without memory, or if
    /// fingerprints are not random, the shards stay as they are.
    pub(super) fn note(&mut self, entries: i64, fingerprints: i64) {
        self.entries = self.entries.wrapping_add_signed(entries);
        self.fingerprints = self.fingerprints.wrapping_add_signed(fingerprints);
        let shards = self.shards();
        if self.entries > SPLIT * shards {
            let _ = self.split();
        } else if shards > 1 && self.entries < JOIN * shards {
            let _ = self.join();
        }
    }

    /// Begins the next level if all shards are halves, or ends this one if none is.
    fn turn(&mut self) {
        std::mem::swap(&mut self.wholes, &mut self.halves);
        self.turned = !self.turned;
    }

    fn split(&mut self) -> Result<(), Refused> {
        if self.wholes.is_empty() {
            self.turn();
            self.level += 1;
        }
        let Some(shard) = self.wholes.last() else {
            return Ok(());
        };
        let old = self.widths(self.level);
        if old.remainder <= P::REMAINDER {
            return Ok(());
        }
        let new = self.widths(self.level + 1);
        let entries = shard.entries();
        let mut builders = [Builder::new(new)?, Builder::new(new)?];
        let mut done = Ok(());
        P::each(shard, old, |bucket, remainder, payload| {
            let whole = u64::from(bucket) << old.remainder | remainder;
            let builder = &mut builders[index(whole >> (new.remainder + BUCKET_BITS))];
            let (bucket, remainder) = parts(whole, new);
            done = done.and(P::push(builder, bucket, remainder, payload));
        });
        done?;
        let [low, high] = builders.map(Builder::end);
        let ((low, low_entries), (high, high_entries)) = (low?, high?);
        let room = self.halves.try_reserve(2);
        room.map_err(|_| Refused::OutOfMemory)?;
        self.entries = self.entries - entries as u64 + low_entries + high_entries;
        self.wholes.pop();
        self.halves.extend(if self.turned == 0 {
            [high, low]
        } else {
            [low, high]
        });
        Ok(())
    }

    fn join(&mut self) -> Result<(), Refused> {
        if self.halves.is_empty() {
            self.turn();
            self.level -= 1;
        }
        let [.., one, other] = &self.halves[..] else {
            return Ok(());
        };
        let halves = if self.turned == 0 {
            [other, one]
        } else {
            [one, other]
        };
        let (old, new) = (self.widths(self.level + 1), self.widths(self.level));
        let entries = one.entries() + other.entries();
        let mut builder = Builder::new(new)?;
        let mut done = Ok(());
        for (half, shard) in (0..).zip(halves) {
            P::each(shard, old, |bucket, remainder, payload| {
                let whole = half << (BUCKET_BITS + old.remainder)
                    | u64::from(bucket) << old.remainder
                    | remainder;
                let (bucket, remainder) = parts(whole, new);
                done = done.and(P::push(&mut builder, bucket, remainder, payload));
            });
        }
        done?;
        let (shard, new_entries) = builder.end()?;
        let room = self.wholes.try_reserve(1);
        room.map_err(|_| Refused::OutOfMemory)?;
        self.entries = self.entries - entries as u64 + new_entries;
        self.halves.truncate(self.halves.len() - 2);
        self.wholes.push(shard);
        Ok(())
    }

    /// Passes each fingerprint and its payload, in ascending order.
    pub fn for_each(&self, mut each: impl FnMut(u64, u64)) {
        let wholes = || self.wholes.iter().map(|shard| (shard, self.level));
        let halves = || self.halves.iter().map(|shard| (shard, self.level + 1));
        let mut next = 0;
        let mut of_shard = |(shard, depth): (&Shard, u32)| {
            let widths = self.widths(depth);
            P::each(shard, widths, |bucket, remainder, payload| {
                each(
                    next | u64::from(bucket) << widths.remainder | remainder,
                    payload,
                );
            });
            next += 1 << (self.bits - depth);
        };
        if self.turned == 0 {
            wholes().chain(halves().rev()).for_each(&mut of_shard);
        } else {
            halves().chain(wholes().rev()).for_each(&mut of_shard);
        }
    }
}

#[inline]
const fn place(fingerprint: u64, widths: Widths) -> Place {
    let (bucket, remainder) = parts(fingerprint, widths);
    Place::new(bucket, remainder)
}

/// Splits the last bits of a fingerprint into a bucket and a remainder.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a bucket has ten bits")]
const fn parts(fingerprint: u64, widths: Widths) -> (u32, u64) {
    let bucket = fingerprint >> widths.remainder & mask(BUCKET_BITS);
    (bucket as u32, fingerprint & mask(widths.remainder))
}

impl Table<Plain> {
    /// Adds a fingerprint. Returns whether it is new.
    ///
    /// # Errors
    /// [`Refused`]; then nothing has changed.
    pub fn add(&mut self, fingerprint: u64) -> Result<bool, Refused> {
        let (shard, place, widths) = self.locate_mut(fingerprint);
        let found = find::<Plain>(shard, &place, widths);
        if found.is_there() {
            return Ok(false);
        }
        shard.insert(&place, found, widths, 0)?;
        self.note(1, 1);
        Ok(true)
    }
}

/// Looks for an entry in a shard.
#[inline]
pub fn find<P: Payload>(shard: &Shard, place: &Place, widths: Widths) -> Found {
    shard.prefetch(place);
    shard.find(place, widths, P::HAS_DIGITS)
}
