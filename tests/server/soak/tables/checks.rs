//! What is checked after each step.

use std::collections::BTreeMap;

use valkeybloom_testing::tables::{Kind, Model, item};

use super::life::Life;
use crate::harness::{array, int};
use crate::support::aof::command;

/// The number of items that each object is queried for.
const ASKED: usize = 60;

impl Life<'_> {
    /// Checks that some keys hold what the oracle says, here, on the replicas and in copies.
    #[track_caller]
    pub fn check(&mut self, keys: &[&'static str]) {
        for key in keys {
            let Some(entry) = self.entries.get(key) else {
                continue;
            };
            let expected = entry.model.clone();
            self.check_held(key);
            self.check_answers(key, &expected);
            let in_pieces = self.random.one_in(4);
            self.nodes.check_copies(key, in_pieces);
        }
        let held = keys.iter().filter(|key| self.entries.contains_key(**key));
        let held: Vec<&str> = held.copied().collect();
        self.nodes.check_replicas(&held);
    }

    /// Checks that a key holds what the oracle says.
    #[track_caller]
    pub fn check_held(&mut self, key: &str) {
        let read = self.read(key);
        check_equal(key, &read, &self.entries[key].model);
    }

    pub fn check_all(&mut self) {
        let keys: Vec<&'static str> = self.entries.keys().copied().collect();
        self.check(&keys);
    }

    /// Checks the answers for some items. About half of them were added.
    fn check_answers(&mut self, key: &str, model: &Model) {
        let items = &self.entries[key].items;
        let mut asked: Vec<u32> = Vec::new();
        for number in 0..ASKED {
            let known = (!items.is_empty() && number % 2 == 0).then(|| *self.random.pick(items));
            let stranger = u32::try_from(self.random.next() >> 33).expect("31 bits");
            asked.push(known.unwrap_or(stranger));
        }
        let hashes: Vec<u64> = asked
            .iter()
            .map(|number| model.hash(&item(*number)))
            .collect();
        let now_ms = self.now_ms;
        let client = &mut self.nodes.client;
        let mut ask = command(&format!("BF.MEXISTS {key}"));
        ask.extend(asked.iter().map(|number| item(*number)));
        let found = hashes
            .iter()
            .map(|hash| int(i64::from(model.contains(*hash, now_ms))));
        assert_eq!(client.call_words(&ask), array(found), "{key}: {asked:?}");
        let items = i64::try_from(model.items(now_ms)).expect("few items");
        assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(items), "{key}");
        if model.kind == Kind::Counting {
            for (number, hash) in asked.iter().zip(&hashes).take(10) {
                let count = i64::try_from(model.count(*hash)).expect("fewer additions");
                assert_eq!(
                    client.cmd(&format!("BF.COUNT {key} {number}")),
                    int(count),
                    "{key}"
                );
            }
        }
    }
}

/// Checks that an object holds what it should, and says where it does not.
#[track_caller]
fn check_equal(key: &str, read: &Model, expected: &Model) {
    assert_eq!(read.steps(), expected.steps(), "the tables of {key}");
    assert_eq!(
        read.dropped, expected.dropped,
        "the dropped periods of {key}"
    );
    for (read, expected) in read.tables.iter().zip(&expected.tables) {
        let [mut more, mut lacking] = [&read.entries, &expected.entries].map(BTreeMap::clone);
        more.retain(|at, held| expected.entries.get(at) != Some(held));
        lacking.retain(|at, held| read.entries.get(at) != Some(held));
        let first = |entries: BTreeMap<_, _>| -> Vec<_> { entries.into_iter().take(3).collect() };
        let found = [first(more), first(lacking)];
        assert_eq!(
            found,
            [[]; 2],
            "{key}, {:?}: unexpected and missing",
            read.step
        );
    }
    assert_eq!(read, expected, "{key}");
}
