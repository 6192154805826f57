//! The first pass: a filter that grows, and the hashes of the items that it claims.
//!
//! A hash belongs to one of [`PARTS`] parts by its highest bits. Threads collect hashes for each part, and add them with the
//! part locked, so of equal items only one is new, whatever the order of threads. A part's filter is a stack of layers of
//! cache lines. The first is small, the next ones are made for the items that the rest of the input seems to have, so nobody
//! has to guess a number.
//!
//! Claimed hashes are sorted, and equal ones dropped, when a list has doubled since then. So each suspect takes up to 32
//! bytes here, however many duplicates there are.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::layer::{Hash, Layer, PARTS};
use super::suspects::Suspects;

/// The hashes that a thread collects for a part before it locks it.
const COLLECTED: usize = 128;
/// The bits for an item of the input: some 0.7 % of others are claimed.
pub const ITEM_BITS: usize = 12;
/// The room of the first layer of a part.
const FIRST_ROOM: usize = 1024;
/// The most room of a layer, for each item before it: a wrong estimate costs no more memory.
const MOST_ROOM: usize = 16;
/// The least room of a list of claimed hashes.
const LEAST_CLAIMED: usize = 16;
/// The unit of [`more`].
const UNIT: u64 = 1 << 16;

/// Returns how many items will come for each one so far, in [`UNIT`]s, by the part of the input that was read. While that is
/// little, the rest may be of another kind, and half of it is expected.
pub fn more(read: u64, total: u64) -> u64 {
    let read = read.max(1);
    let parts = if read < total / 4 { 2 } else { 1 };
    let more = u128::from(total.saturating_sub(read)) * u128::from(UNIT) / u128::from(read);
    u64::try_from(more / parts + more / 64).unwrap_or(u64::MAX)
}

#[derive(Default)]
struct Part {
    /// Only the last one has room.
    layers: Vec<Layer>,
    /// The number of items that were new.
    items: usize,
    /// The hashes that were claimed. The first `sorted` ones are sorted and different.
    claimed: Vec<Hash>,
    sorted: usize,
}

impl Part {
    fn add(&mut self, hashes: &[Hash], more: u64, item_bits: usize) {
        self.layers.iter().for_each(|layer| layer.touch(hashes));
        for hash in hashes {
            if self.layers.last().is_none_or(|layer| layer.room == 0) {
                self.layers
                    .push(Layer::new(self.next_room(more), item_bits));
            }
            let (newest, older) = self.layers.split_last_mut().expect("there is a layer");
            if !older.iter().any(|layer| layer.contains(*hash)) && newest.add(*hash) {
                self.items += 1;
            } else {
                self.claim(*hash);
            }
        }
    }

    /// Returns the room of the next layer.
    fn next_room(&self, more: u64) -> usize {
        let room = self.items as u128 * u128::from(more) / u128::from(UNIT);
        let most = self.items.saturating_mul(MOST_ROOM).max(FIRST_ROOM);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let least = if self.items == 0 {
            FIRST_ROOM
        } else {
            self.items / 16
        };
        room.clamp(least, most)
    }

    fn claim(&mut self, hash: Hash) {
        if self.claimed.len() == self.claimed.capacity() {
            self.sort();
            // Exactly twice, so that a list has no room that it does not need.
            self.claimed.reserve_exact(self.sorted.max(LEAST_CLAIMED));
        }
        self.claimed.push(hash);
    }

    fn sort(&mut self) {
        self.claimed.sort_unstable();
        self.claimed.dedup();
        self.sorted = self.claimed.len();
    }
}

/// The items so far, and the hashes that were claimed.
pub struct Claims {
    parts: Vec<Mutex<Part>>,
    /// The number of items that are expected for each one so far, as [`more`] returns it.
    more: AtomicU64,
    item_bits: usize,
}

impl Claims {
    pub fn new(item_bits: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            more: AtomicU64::new(0),
            item_bits,
        }
    }

    /// Sets how many items will come for each one so far, as [`more`] returns it.
    pub fn expect(&self, more: u64) {
        self.more.store(more, Relaxed);
    }

    /// Returns a collector for a thread.
    pub fn collector(&self) -> Collector<'_> {
        Collector {
            claims: self,
            hashes: vec![Vec::new(); PARTS],
        }
    }

    /// Returns the claimed hashes.
    pub fn into_suspects(self) -> Suspects {
        let parts = self.parts.into_iter().map(|part| {
            let mut part = part.into_inner().unwrap_or_else(PoisonError::into_inner);
            part.layers = Vec::new();
            part.sort();
            part.claimed.shrink_to_fit();
            part.claimed
        });
        // The filters are freed before the hashes are copied.
        Suspects::new(parts.collect())
    }

    fn add(&self, part: usize, hashes: &[Hash]) {
        let more = self.more.load(Relaxed);
        lock(&self.parts[part]).add(hashes, more, self.item_bits);
    }
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The hashes that a thread has not added yet.
pub struct Collector<'c> {
    claims: &'c Claims,
    hashes: Vec<Vec<Hash>>,
}

impl Collector<'_> {
    pub fn add(&mut self, hash: Hash) {
        let part = (hash >> (128 - PARTS.trailing_zeros())) as usize;
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

    use super::super::suspects::Marks;
    use super::*;

    /// Returns hashes of which some are equal, the same ones for a seed.
    fn hashes(count: u64, different: u64, seed: u8) -> Vec<Hash> {
        let seed = valkeybloom_sketches::Seed::new([seed; 32]);
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
            for (item_bits, more) in [
                (0, 0),
                (1, 7 * UNIT),
                (4, UNIT),
                (12, UNIT / 2),
                (12, u64::MAX),
            ] {
                let claims = Claims::new(item_bits);
                claims.expect(more);
                std::thread::scope(|scope| {
                    for part in hashes.chunks(hashes.len().div_ceil(3).max(1)) {
                        let mut collector = claims.collector();
                        scope.spawn(move || part.iter().for_each(|hash| collector.add(*hash)));
                    }
                });
                let suspects = claims.into_suspects();
                let mut marks = Marks::new(suspects.len());
                let is_first = |hash: &&Hash| {
                    suspects
                        .find(**hash)
                        .is_none_or(|number| !marks.mark(number))
                };
                let found: Vec<_> = hashes.iter().filter(is_first).collect();
                assert!(found == expected, "{count} {different} {item_bits}");
            }
        }
    }

    #[test]
    fn few_are_suspects_and_the_memory_is_what_items_take() {
        let items = 1_000_000;
        let hashes = hashes(items, 1 << 60, 2);
        let claims = Claims::new(ITEM_BITS);
        // As for a file whose size is known: half at first, then all.
        let mut collector = claims.collector();
        for (index, hash) in hashes.iter().enumerate() {
            claims.expect(more(index as u64 + 1, items));
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
        let suspects = claims.into_suspects().len();
        assert!(suspects < hashes.len() / 80, "{suspects}");
    }
}
