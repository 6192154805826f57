//! The first pass: a filter that grows, and the hashes of the items that it claims.
//!
//! A hash belongs to one of [`PARTS`] parts by its highest bits. Threads collect hashes for each part, and add them with the
//! part locked, so of equal items only one is new, whatever the order of threads. A part's filter is a stack of layers of
//! cache lines. The first is small, the next ones are made for the items that the rest of the input seems to have, so nobody
//! has to guess a number.
//!
//! A list of claimed hashes is sorted, and equal ones are dropped, each time it has doubled since it was last sorted. So in a
//! list that is not tiny a suspect takes at most 32 bytes, however often it comes.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use super::hash::{Hash, PARTS, part_of};
use super::layer::{Layer, touch_each};
use super::suspects;

/// The hashes that a thread collects for a part before it locks it.
const COLLECTED: usize = 128;
/// The bits for an item of the input: some 0.4 % of others are claimed.
pub const ITEM_BITS: usize = 12;
/// The room of the first layer of a part.
const FIRST_ROOM: usize = 256;
/// The room that any layer of a part may have, however few items came before it: 400 kB.
const MOST_ROOM: usize = 1 << 18;
/// The most room of a layer for each item before it. An estimate that is too large costs no more memory than that.
const MOST_GROWTH: usize = 16;
/// The least room of a list of claimed hashes.
const LEAST_CLAIMED: usize = 16;

#[derive(Default)]
struct Part {
    /// Only the last one has room.
    layers: Vec<Layer>,
    /// The number of hashes so far.
    seen: usize,
    /// The number of those that were new.
    items: usize,
    /// The hashes that were claimed.
    claimed: Vec<Hash>,
}

impl Part {
    /// Adds hashes to a part that should get `expected` in all.
    fn add(&mut self, hashes: &[Hash], expected: usize, item_bits: usize) {
        for layer in &self.layers {
            touch_each(hashes.iter().map(|hash| layer.touch(*hash)));
        }
        for hash in hashes {
            if self.layers.last().is_none_or(Layer::is_full) {
                let room = self.next_room(expected);
                self.layers.push(Layer::new(room, item_bits));
            }
            self.seen += 1;
            let (newest, older) = self.layers.split_last_mut().expect("there is a layer");
            if !older.iter().any(|layer| layer.contains(*hash)) && newest.add(*hash) {
                self.items += 1;
            } else {
                self.claim(*hash);
            }
        }
    }

    /// Returns the room of the next layer: the expected rest times the share that was new so far, and a sixteenth more.
    fn next_room(&self, expected: usize) -> usize {
        let rest = expected.saturating_sub(self.seen) as u128;
        let room = rest * self.items as u128 / self.seen.max(1) as u128;
        let room = usize::try_from(room + room / 16).unwrap_or(usize::MAX);
        let most = self.items.saturating_mul(MOST_GROWTH).max(MOST_ROOM);
        room.clamp(FIRST_ROOM.max(self.items / 16), most)
    }

    fn claim(&mut self, hash: Hash) {
        if self.claimed.len() == self.claimed.capacity() {
            suspects::sort(&mut self.claimed);
            // Exactly twice, so that a list has no room that it does not need.
            let sorted = self.claimed.len();
            self.claimed.reserve_exact(sorted.max(LEAST_CLAIMED));
        }
        self.claimed.push(hash);
    }
}

/// The items so far, and the hashes that were claimed.
pub struct Claims {
    parts: Vec<Mutex<Part>>,
    /// The number of hashes that are expected in all.
    expected: AtomicUsize,
    item_bits: usize,
}

impl Claims {
    pub fn new(item_bits: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            expected: AtomicUsize::new(0),
            item_bits,
        }
    }

    /// Estimates the number of all hashes of an input of `total` bytes. The first `read` bytes had `hashes` of them. A thread
    /// may store an older estimate last, which only sizes a layer.
    pub fn expect(&self, hashes: u64, read: u64, total: u64) {
        let all = u128::from(hashes) * u128::from(total) / u128::from(read.max(1));
        let all = usize::try_from(all).unwrap_or(usize::MAX);
        self.expected.store(all, Relaxed);
    }

    /// Returns a collector for a thread.
    pub fn collector(&self) -> Collector<'_> {
        Collector {
            claims: self,
            hashes: vec![Vec::new(); PARTS],
        }
    }

    /// Returns the claimed hashes of each part, which several threads sort.
    pub fn into_parts(mut self, threads: usize) -> Vec<suspects::Part> {
        let size = PARTS.div_ceil(threads);
        thread::scope(|scope| {
            let sort = |parts| scope.spawn(|| <[_]>::iter_mut(parts).map(suspects_of).collect());
            let threads: Vec<_> = self.parts.chunks_mut(size).map(sort).collect();
            let parts = threads.into_iter().map(ScopedJoinHandle::join);
            let parts: Result<Vec<Vec<_>>, _> = parts.collect();
            parts
                .expect("no thread panics")
                .into_iter()
                .flatten()
                .collect()
        })
    }

    fn add(&self, part: usize, hashes: &[Hash]) {
        let expected = self.expected.load(Relaxed) / PARTS;
        lock(&self.parts[part]).add(hashes, expected, self.item_bits);
    }
}

/// Returns the claimed hashes of a part, whose memory is freed.
fn suspects_of(part: &mut Mutex<Part>) -> suspects::Part {
    let mut part = mem::take(part.get_mut().unwrap_or_else(PoisonError::into_inner));
    part.layers = Vec::new();
    suspects::sort(&mut part.claimed);
    // The hashes that were not new, and of each suspect about one that was.
    let of_suspects = part.seen - part.items + part.claimed.len();
    suspects::Part::new(&part.claimed, of_suspects < part.seen / 2)
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hashes that a thread has not added yet. Dropping it adds them.
pub struct Collector<'c> {
    claims: &'c Claims,
    hashes: Vec<Vec<Hash>>,
}

impl Collector<'_> {
    pub fn add(&mut self, hash: Hash) {
        let part = part_of(hash);
        let hashes = &mut self.hashes[part];
        hashes.push(hash);
        if hashes.len() == COLLECTED {
            self.claims.add(part, hashes);
            hashes.clear();
        }
    }
}

impl Drop for Collector<'_> {
    fn drop(&mut self) {
        for (part, hashes) in self.hashes.iter().enumerate() {
            self.claims.add(part, hashes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use valkeybloom_sketches::Seed;

    use super::super::suspects::{Marks, Suspects};
    use super::*;

    /// Returns hashes of which some are equal, the same ones for a seed.
    fn hashes(count: u64, different: u64, seed: u8) -> Vec<Hash> {
        let seed = Seed::new([seed; 32]);
        let number = |index: u64| seed.probe(&index.to_le_bytes()).hashes().0 % different;
        let hash = |index| {
            let (a, b) = seed.probe(&number(index).to_be_bytes()).hashes();
            u128::from(a) << 64 | u128::from(b)
        };
        (0..count).map(hash).collect()
    }

    #[test]
    fn whatever_the_filter_claims_the_first_of_equal_items_are_kept() {
        for (count, different) in [
            (0, 1),
            (1, 1),
            (20_000, 1),
            (60_000, 20_000),
            (60_000, 1 << 60),
        ] {
            let hashes = hashes(count, different, 1);
            let mut seen = HashSet::new();
            let expected: Vec<_> = hashes.iter().filter(|hash| seen.insert(**hash)).collect();
            // With fewer bits, more hashes are claimed, nearly all of them with none.
            for (item_bits, all) in [(0, 0), (1, 500_000), (4, 120_000), (12, 90_000)] {
                let claims = Claims::new(item_bits);
                claims.expect(all, 1, 1);
                std::thread::scope(|scope| {
                    for part in hashes.chunks(hashes.len().div_ceil(3).max(1)) {
                        let mut collector = claims.collector();
                        scope.spawn(move || part.iter().for_each(|hash| collector.add(*hash)));
                    }
                });
                let suspects = Suspects::new(Seed::FIXED, claims.into_parts(2));
                let mut marks = Marks::new(suspects.end());
                let mut dropped = suspects.find_each(&hashes);
                dropped.retain(|it| marks.mark(it.number));
                let mut dropped = dropped.into_iter().peekable();
                let all = hashes.iter().enumerate();
                let kept =
                    all.filter(|(index, _)| dropped.next_if(|it| it.index == *index).is_none());
                let kept: Vec<_> = kept.map(|(_, hash)| hash).collect();
                assert!(kept == expected, "{count} {different} {item_bits}");
            }
        }
    }

    #[test]
    fn few_are_suspects_and_the_memory_is_what_items_take() {
        let items = 1_000_000;
        let hashes = hashes(items, 1 << 60, 2);
        let claims = Claims::new(ITEM_BITS);
        let mut collector = claims.collector();
        for (index, hash) in hashes.iter().enumerate() {
            claims.expect(index as u64 + 1, 10 * (index as u64 + 1), 10 * items);
            collector.add(*hash);
        }
        drop(collector);
        let bytes: usize = claims
            .parts
            .iter()
            .map(|part| {
                let part = lock(part);
                let words: usize = part.layers.iter().map(|layer| layer.words.len()).sum();
                8 * words + part.claimed.capacity() * size_of::<Hash>()
            })
            .sum();
        assert!(bytes < 2 * hashes.len(), "{bytes}");
        let suspects = Suspects::new(Seed::FIXED, claims.into_parts(1));
        let suspects = suspects.hashes().count();
        assert!(suspects < hashes.len() / 80, "{suspects}");
    }
}
