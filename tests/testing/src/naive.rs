//! Cuckoo filters of RedisBloom by their published rules: one bucket after another, nothing kept that can be
//! counted.

use murmur2::murmur64a;

#[derive(Clone, Debug, PartialEq)]
pub struct Naive {
    pub filters: Vec<Vec<u8>>,
    pub first_buckets: u64,
    pub items: u64,
    pub deletes: u64,
    pub size: u64,
    pub iterations: u64,
    pub expansion: u64,
}

/// Fingerprint, hash, and the hash of the other bucket.
pub fn hashes(item: &[u8]) -> (u8, u64, u64) {
    let hash = murmur64a(item, 0);
    let fingerprint = u8::try_from(hash % 255 + 1).unwrap();
    (fingerprint, hash, other(hash, fingerprint))
}

fn other(bucket: u64, fingerprint: u8) -> u64 {
    bucket ^ (u64::from(fingerprint) * 0x5bd1_e995)
}

impl Naive {
    pub fn new(capacity: u64, size: u64, iterations: u64, expansion: u64) -> Self {
        let first_buckets = (capacity / size).next_power_of_two();
        Self {
            filters: vec![vec![0; usize::try_from(first_buckets * size).unwrap()]],
            first_buckets,
            items: 0,
            deletes: 0,
            size,
            iterations,
            expansion: if expansion == 0 {
                0
            } else {
                expansion.next_power_of_two()
            },
        }
    }

    fn buckets(&self, filter: usize) -> u64 {
        self.filters[filter].len() as u64 / self.size
    }

    /// Returns the index of a slot.
    fn slot(&self, filter: usize, bucket: u64, slot: u64) -> usize {
        usize::try_from((bucket % self.buckets(filter)) * self.size + slot).unwrap()
    }

    /// Returns the first slot of a bucket that holds this byte.
    fn find(&self, filter: usize, bucket: u64, byte: u8) -> Option<usize> {
        (0..self.size)
            .map(|slot| self.slot(filter, bucket, slot))
            .find(|slot| self.filters[filter][*slot] == byte)
    }

    pub fn count(&self, item: &[u8]) -> u64 {
        let (fingerprint, one, two) = hashes(item);
        let mut count = 0;
        for filter in 0..self.filters.len() {
            for bucket in [one, two] {
                for slot in 0..self.size {
                    let slot = self.slot(filter, bucket, slot);
                    count += u64::from(self.filters[filter][slot] == fingerprint);
                }
            }
        }
        count
    }

    pub fn has(&self, item: &[u8]) -> bool {
        self.count(item) > 0
    }

    /// Adds an item, with at most `most` filters. Returns whether there was room.
    pub fn add(&mut self, item: &[u8], most: usize) -> bool {
        let (fingerprint, one, two) = hashes(item);
        loop {
            for filter in (0..self.filters.len()).rev() {
                for bucket in [one, two] {
                    if let Some(slot) = self.find(filter, bucket, 0) {
                        self.filters[filter][slot] = fingerprint;
                        self.items += 1;
                        return true;
                    }
                }
            }
            if self.kick(fingerprint, one) {
                self.items += 1;
                return true;
            }
            if self.expansion == 0 || self.filters.len() >= most {
                return false;
            }
            let next =
                self.filters.last().unwrap().len() * usize::try_from(self.expansion).unwrap();
            self.filters.push(vec![0; next]);
        }
    }

    fn kick(&mut self, fingerprint: u8, hash: u64) -> bool {
        let newest = self.filters.len() - 1;
        let before = self.filters[newest].clone();
        let (mut x, mut bucket, mut victim) = (fingerprint, hash % self.buckets(newest), 0);
        for _ in 0..self.iterations {
            let slot = self.slot(newest, bucket, victim);
            std::mem::swap(&mut self.filters[newest][slot], &mut x);
            bucket = other(bucket, x) % self.buckets(newest);
            if let Some(slot) = self.find(newest, bucket, 0) {
                self.filters[newest][slot] = x;
                return true;
            }
            victim = (victim + 1) % self.size;
        }
        self.filters[newest] = before;
        false
    }

    pub fn remove(&mut self, item: &[u8]) -> bool {
        let (fingerprint, one, two) = hashes(item);
        for filter in (0..self.filters.len()).rev() {
            for bucket in [one, two] {
                if let Some(slot) = self.find(filter, bucket, fingerprint) {
                    self.filters[filter][slot] = 0;
                    self.items -= 1;
                    self.deletes += 1;
                    if self.filters.len() > 1 && self.deletes * 10 > self.items {
                        self.compact(true);
                    }
                    return true;
                }
            }
        }
        false
    }

    pub fn compact(&mut self, stop: bool) {
        for filter in (1..self.filters.len()).rev() {
            for index in 0..self.filters[filter].len() {
                let fingerprint = self.filters[filter][index];
                if fingerprint == 0 {
                    continue;
                }
                let bucket = index as u64 / self.size;
                let free = (0..filter).find_map(|older| {
                    [bucket, other(bucket, fingerprint)]
                        .into_iter()
                        .find_map(|bucket| Some((older, self.find(older, bucket, 0)?)))
                });
                if let Some((older, slot)) = free {
                    self.filters[older][slot] = fingerprint;
                    self.filters[filter][index] = 0;
                }
            }
            let empty = self.filters[filter].iter().all(|slot| *slot == 0);
            if empty && filter + 1 == self.filters.len() {
                self.filters.pop();
            } else if !empty && stop {
                break;
            }
        }
        self.deletes = 0;
    }
}
