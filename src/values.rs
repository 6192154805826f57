//! The server's operations on a value of any family: save, load, copy, move, free.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::family::Family;
use crate::feeds::FeedSlot;
use crate::ffi::{
    AofWriter, Defrag, Digest, FORMS_MAX, Form, NativeType, RdbReader, RdbWriter, TypeHandle,
    bytes_given_for, server,
};
use crate::meter;
use crate::mover::{self, Mover};
use crate::settings;
use crate::sums::{self, FAMILIES, NOTHING, Totals};

/// The bytes that the main thread frees in a tenth of a millisecond, at 0.05 ns for each. An eviction must not free less
/// in the background, because it would see no memory come back, and evict more keys than needed.
const FREED_AT_ONCE_BYTES: u64 = 2 << 20;

/// The bytes that are freed in the time of freeing one small allocation, about 50 ns.
const ALLOCATION_BYTES: u64 = 1 << 10;

/// A change of a value's bytes is measured anew if it exceeds this fraction of them. Between two measurements the
/// allocator's share stays as it was.
const STALE: f32 = 1.0 / 64.0;

/// The assumed overhead of the allocator for each allocation, in bytes. It counts in the weight of a value.
const BLOCK_BYTES: u64 = 32;

/// A value of a key, counted in its family's sums.
pub struct Stored<V: Family> {
    value: V,
    measured: Measured,
    /// What readers of the value get. Its own bytes are not among those of the value.
    feed: FeedSlot,
}

/// The bytes that the allocator gave for a value beyond [`Family::memory_bytes`], when they were last measured, and the
/// value's weight at that time. Both share one word, because a further word would move a plain filter into the allocator's
/// next size class. Only the main thread writes here; a read that makes a cache has no exclusive access.
struct Measured(AtomicU64);

impl Measured {
    /// The number of low bits for the spare bytes. The others hold the weight without its lowest bits.
    const SPARE_BITS: u32 = 40;
    const MOST_SPARE: u64 = (1 << Self::SPARE_BITS) - 1;

    fn set(&self, spare_bytes: u64, weight: f32) {
        let weight = u64::from(weight.to_bits()) >> (Self::SPARE_BITS - 32);
        let spare_bytes = spare_bytes.min(Self::MOST_SPARE);
        self.0
            .store(weight << Self::SPARE_BITS | spare_bytes, Relaxed);
    }

    #[inline]
    fn spare_bytes(&self) -> u64 {
        self.0.load(Relaxed) & Self::MOST_SPARE
    }

    fn weight(&self) -> f32 {
        let weight = self.0.load(Relaxed) & !Self::MOST_SPARE;
        f32::from_bits((weight >> 32) as u32)
    }
}

impl<V: Family> Stored<V> {
    /// The bytes of this structure that planned sizes count: those of the value, and one word. The rest is spare.
    pub const PLANNED_BYTES: u64 = (size_of::<V>() + size_of::<u64>()) as u64;

    /// Counts a value.
    pub fn new(value: V) -> Self {
        let mut stored = Self {
            value,
            measured: Measured(AtomicU64::new(0)),
            feed: FeedSlot::new(),
        };
        stored.measure();
        sums::change(V::NUMBER, &NOTHING, &stored.totals());
        stored
    }

    /// Returns the value.
    #[inline]
    pub fn value(&self) -> &V {
        &self.value
    }

    /// Returns the value's feed.
    #[inline]
    pub fn feed(&self) -> &FeedSlot {
        &self.feed
    }

    /// Changes the value, and updates the sums. `change` appends the items that were new to the value's feed, or ends it.
    #[inline]
    pub fn update<R>(&mut self, change: impl FnOnce(&mut V, &FeedSlot) -> R) -> R {
        let before = self.value.totals();
        let result = change(&mut self.value, &self.feed);
        let after = self.value.totals();
        sums::change(V::NUMBER, &before, &after);
        if after[0] != before[0] {
            self.remeasure();
        }
        self.value.assert_stored();
        result
    }

    /// Adapts to a change of the value's bytes: limits the feed to what they leave to it, and measures the spare bytes again
    /// if they are stale.
    #[cold]
    fn remeasure(&mut self) {
        if self.feed.may_be_open() {
            self.feed.update(|feed| feed.fit(self.value.feed_bytes()));
        }
        if self.is_stale() {
            let before = self.totals();
            self.measure();
            sums::change(V::NUMBER, &before, &self.totals());
        }
    }

    /// Reads the value, and updates the sums: a read may make a cache within the value.
    pub fn caching<R>(&self, read: impl FnOnce(&V) -> R) -> R {
        let before = self.value.totals();
        let result = read(&self.value);
        let mut after = self.value.totals();
        let cache_bytes = after[0].saturating_sub(before[0]);
        if cache_bytes > 0 {
            let spare_bytes = bytes_given_for(cache_bytes).saturating_sub(cache_bytes);
            let already_spare = self.measured.spare_bytes();
            // The change that drops the cache makes the weight differ again.
            self.measured.set(already_spare + spare_bytes, self.weigh());
            after[0] += self.measured.spare_bytes() - already_spare;
        }
        sums::change(V::NUMBER, &before, &after);
        result
    }

    /// Returns the value's share of the sums.
    #[inline]
    fn totals(&self) -> Totals {
        let mut totals = self.value.totals();
        totals[0] += self.measured.spare_bytes();
        totals
    }

    /// Returns the bytes of the value, with an allowance for each allocation.
    #[allow(
        clippy::cast_precision_loss,
        reason = "weights are compared to within a hundredth"
    )]
    fn weigh(&self) -> f32 {
        let blocks = self.value.allocations().saturating_mul(BLOCK_BYTES);
        self.value.memory_bytes().saturating_add(blocks) as f32
    }

    fn is_stale(&self) -> bool {
        let weight = self.measured.weight();
        (self.weigh() - weight).abs() > weight * STALE
    }

    #[cold]
    fn measure(&mut self) {
        let own = bytes_given_for(size_of::<Self>() as u64).saturating_sub(Self::PLANNED_BYTES);
        let spare_bytes = own + meter::spare_bytes(&mut self.value);
        self.measured.set(spare_bytes, self.weigh());
    }
}

impl<V: Family> Drop for Stored<V> {
    fn drop(&mut self) {
        sums::change(V::NUMBER, &self.totals(), &NOTHING);
    }
}

impl<V: Family> NativeType for Stored<V> {
    const FORMS: &'static [Form] = V::FORMS;

    fn handles() -> &'static [TypeHandle] {
        static ALL: [[TypeHandle; FORMS_MAX]; FAMILIES] =
            [const { [const { TypeHandle::new() }; FORMS_MAX] }; FAMILIES];
        &ALL[V::NUMBER][..V::FORMS.len()]
    }

    fn form(&self) -> usize {
        self.value.form()
    }

    fn load(from: &mut RdbReader, form: usize, version: i32) -> Result<Self, String> {
        let value = V::load(from, form, version).and_then(|value| match value.beyond_limits() {
            Some(what) if server::loads_for_client() => Err(what.into()),
            _ => Ok(value),
        });
        value.map(Self::new).map_err(|error| error.to_string())
    }

    /// Writes the fields of the value. Any thread may call this while no other thread
    /// changes the value.
    fn save(&self, to: &mut RdbWriter) {
        self.value.write(to);
    }

    fn rewrite(&self, to: &mut AofWriter) {
        self.value.rewrite(to);
    }

    fn memory_bytes(&self) -> u64 {
        self.totals()[0] + self.feed.share().map_or(0, |share| share.bytes)
    }

    fn digest(&self, to: &mut Digest) {
        self.value.digest(to);
        to.end_sequence();
    }

    fn frees_in_background(&self) -> bool {
        let bytes = self.value.memory_bytes();
        let work = self.value.allocations().saturating_mul(ALLOCATION_BYTES);
        bytes > settings::LARGE.unsigned() && bytes.saturating_add(work) > FREED_AT_ONCE_BYTES
    }

    fn copy(&self) -> Option<Self> {
        self.value.try_clone().map(Self::new)
    }

    fn defrag(mut value: Box<Self>, by: &Defrag) -> (Box<Self>, bool) {
        if !settings::DEFRAG.is_on() {
            return (value, true);
        }
        let begin = by.cursor();
        if begin == 0 {
            let moved;
            (value, moved) = by.relocate(value);
            mover::count_moved(moved);
        }
        // A list that is moved loses its spare room.
        let next = value.update(|value, _| value.relocate(begin, &mut Mover(by)));
        if let Some(next) = next {
            by.set_cursor(next);
        }
        (value, next.is_none())
    }
}
