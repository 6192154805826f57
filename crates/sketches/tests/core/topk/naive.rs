//! RedisBloom's rules written down once more: without an index, and with every draw.

use crate::support::Rng;
use murmur2::murmur2;

use super::draw;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub fingerprint: u32,
    pub count: u32,
    pub item: Option<Vec<u8>>,
}

pub struct Naive {
    width: u32,
    decay: f64,
    pub rows: Vec<Vec<(u32, u32)>>,
    pub heap: Vec<Entry>,
}

impl Naive {
    pub fn new(k: usize, width: u32, depth: usize, decay: f64) -> Self {
        Self {
            width,
            decay,
            rows: vec![vec![(0, 0); width as usize]; depth],
            heap: vec![Entry::default(); k],
        }
    }

    fn places(&self, item: &[u8]) -> Vec<(usize, usize)> {
        let column = |row: usize| murmur2(item, u32::try_from(row).unwrap()) % self.width;
        let rows = 0..self.rows.len();
        rows.map(|row| (row, column(row) as usize)).collect()
    }

    fn find(&self, fingerprint: u32, item: &[u8]) -> Option<usize> {
        self.heap.iter().rposition(|entry| {
            entry.fingerprint == fingerprint && entry.item.as_deref() == Some(item)
        })
    }

    /// Adds an item. Returns what left the list.
    pub fn add(&mut self, item: &[u8], increment: u32, rng: &mut Rng) -> Option<Vec<u8>> {
        let fingerprint = murmur2(item, 1919);
        let floor = self.heap[0].count;
        let mut best = 0;
        for (row, column) in self.places(item) {
            let cell = &mut self.rows[row][column];
            if cell.1 == 0 {
                *cell = (fingerprint, increment);
                best = best.max(increment);
            } else if cell.0 == fingerprint {
                cell.1 = cell.1.wrapping_add(increment);
                best = best.max(cell.1);
            } else {
                for left in (1..=increment).rev() {
                    // Some outcomes don't hang on the number.
                    let chance = self.decay.powf(f64::from(cell.1));
                    let taken = self.decay >= 1.0
                        || chance > 0.0 && f64::from(draw(rng)) / 2_147_483_647.0 < chance;
                    if taken {
                        cell.1 -= 1;
                        if cell.1 == 0 {
                            *cell = (fingerprint, left);
                            best = best.max(left);
                            break;
                        }
                    }
                }
            }
        }
        if best < floor {
            return None;
        }
        if let Some(at) = self.find(fingerprint, item) {
            self.heap[at].count = best;
            self.sink(at);
            return None;
        }
        let new = Entry {
            fingerprint,
            count: best,
            item: Some(item.to_vec()),
        };
        let out = std::mem::replace(&mut self.heap[0], new);
        self.sink(0);
        out.item
    }

    fn child(&self, at: usize) -> Option<usize> {
        let children = [2 * at + 1, 2 * at + 2];
        let children = children
            .into_iter()
            .filter(|child| *child < self.heap.len());
        children.min_by_key(|child| self.heap[*child].count)
    }

    fn sink(&mut self, mut at: usize) {
        let Some(mut child) = self.child(at) else {
            return;
        };
        if self.heap[child].count > self.heap[at].count {
            return;
        }
        let entry = self.heap[at].clone();
        loop {
            self.heap[at] = self.heap[child].clone();
            at = child;
            match self.child(at) {
                Some(next) if self.heap[next].count < entry.count => child = next,
                _ => break,
            }
        }
        self.heap[at] = entry;
    }

    pub fn contains(&self, item: &[u8]) -> bool {
        self.find(murmur2(item, 1919), item).is_some()
    }

    pub fn count(&self, item: &[u8]) -> u32 {
        let fingerprint = murmur2(item, 1919);
        let least = if self.contains(item) {
            self.heap[0].count
        } else {
            0
        };
        let cells = self.places(item).into_iter();
        let cells = cells.map(|(row, column)| self.rows[row][column]);
        let counts = cells.filter(|cell| cell.0 == fingerprint && cell.1 >= least);
        counts.map(|cell| cell.1).max().unwrap_or(0)
    }

    pub fn ranking(&self) -> Vec<(Vec<u8>, u32)> {
        let mut entries: Vec<_> = self.heap.iter().filter(|entry| entry.count > 0).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.count));
        let entries = entries.into_iter();
        entries
            .map(|entry| (entry.item.clone().unwrap(), entry.count))
            .collect()
    }
}
