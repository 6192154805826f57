//! The items of lives: numbers, some chosen by their hashes.

use std::sync::OnceLock;

use valkeybloom_testing::tables::{Kind, Model, search};

use super::life::{Life, SEED};
use crate::support::Rng;

/// The first bytes of the hashes of [`crowd`]s.
const FIRST_BYTES: [u8; 19] = [
    0x00, 0x01, 0xff, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c,
    0x9d, 0x9e, 0x9f,
];

/// Items are numbers. Those below are searched for crowds.
pub const SEARCHED: u32 = 4_000_000;

/// Returns all items of the searched ones whose hashes begin with one of [`FIRST_BYTES`], by their hashes.
fn pool() -> &'static [(u64, u32)] {
    static POOL: OnceLock<Vec<(u64, u32)>> = OnceLock::new();
    POOL.get_or_init(|| search(&SEED, SEARCHED, &FIRST_BYTES))
}

/// Returns at most `most` items that share some bits of their hashes.
fn crowd(random: &mut Rng, bits: u32, most: usize) -> Vec<u32> {
    let (pool, free) = (pool(), u64::BITS - bits);
    let prefix = random.pick(pool).0 >> free;
    let first = pool.partition_point(|(hash, _)| hash >> free < prefix);
    let crowd = pool[first..].iter();
    let crowd = crowd.take_while(|(hash, _)| hash >> free == prefix);
    let mut crowd: Vec<u32> = crowd.map(|(_, number)| *number).collect();
    crowd.sort_unstable();
    crowd.truncate(most);
    crowd
}

impl Life<'_> {
    /// Returns a number of items: mostly few.
    pub(super) fn size(&mut self, most: usize) -> usize {
        let most = most >> self.random.below(1 + most.ilog2() as usize);
        1 + self.random.below(most)
    }

    /// Returns items to add: new ones, some of those that are there, or a crowd.
    pub(super) fn choose(&mut self, key: &str, most: usize) -> Vec<u32> {
        let count = self.size(most);
        let crowds = self.profile.crowds;
        if crowds > 0 && self.random.one_in(crowds) {
            return self.crowd(key);
        }
        let known = &self.entries[key].items;
        if !known.is_empty() && self.random.one_in(4) {
            let first = self.random.below(known.len());
            return known[first..].iter().take(count).copied().collect();
        }
        self.new_items(count)
    }

    /// Returns items that share 4 to 20 bits of their hashes: mostly as many as leave some tens of the items that are there.
    pub(super) fn crowd(&mut self, key: &str) -> Vec<u32> {
        let tables = &self.entries[key].model.tables;
        let entries: usize = tables.iter().map(|table| table.entries.len()).sum();
        let likely = 4 + (entries / 1000).max(1).ilog2();
        let bits = match self.random.below(6) {
            0 | 1 => likely,
            2 | 3 => likely - 1,
            4 => likely + 1,
            _ => 4 + u32::try_from(self.random.below(17)).expect("few bits"),
        };
        let most = [
            30, 100, 180, 200, 220, 240, 260, 280, 300, 320, 350, 400, 2000,
        ];
        let most = *self.random.pick(&most);
        crowd(&mut self.random, bits.clamp(4, 20), most)
    }

    pub(super) fn new_items(&mut self, count: usize) -> Vec<u32> {
        let first = self.fresh;
        self.fresh += u32::try_from(count).expect("few items");
        (first..self.fresh).collect()
    }
    /// Fills the only table of an object with made-up fingerprints that share their first bits, with any counts or periods.
    pub(super) fn make_up(&mut self, model: &mut Model) {
        let [oldest, newest] = model.periods_at(self.clock_ms);
        let (kind, table) = (model.kind, &mut model.tables[0]);
        let bits = table.step.bits;
        table.entries.clear();
        for _ in 0..=self.random.below(3) {
            let shared = 4 + u32::try_from(self.random.below(17)).expect("few bits");
            let free = bits.saturating_sub(shared);
            let prefix = self.random.pick(pool()).0 >> (u64::BITS - bits) >> free << free;
            // Not so dense that each takes a few bits.
            let most = 1 << free.saturating_sub(3).min(13);
            for _ in 0..self.random.below(most) {
                let held = match kind {
                    Kind::Scaled => 0,
                    Kind::Counting if self.random.one_in(3) => {
                        1 + (self.random.next() >> self.random.below(62) >> 2)
                    }
                    Kind::Counting => 1,
                    Kind::Window { .. } => oldest + self.random.next() % (newest + 1 - oldest),
                };
                let rest = self.random.next() & ((1 << free) - 1);
                table.entries.insert(prefix | rest, held);
            }
        }
    }
}
