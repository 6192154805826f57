//! Additions and removals, and what the oracle makes of them.

use valkeybloom_sketches::bloom::Added;
use valkeybloom_testing::tables::{Moment, Stop, item};

use super::items::SEARCHED;
use super::life::{Entry, FULL, Life, TOO_EXACT};
use crate::harness::{Reply, array, error, int, ok};
use crate::support::aof::{Command, command};

impl Life<'_> {
    /// Loads an object of made-up fingerprints.
    pub(super) fn forge(&mut self, key: &'static str) {
        let mut model = self.entries[key].model.clone();
        model.tidy(self.clock_ms);
        model.tables.truncate(1);
        self.make_up(&mut model);
        let table = &model.tables[0];
        self.note(format!("{key}: loads {} made-up ones", table.entries.len()));
        let load = model.pieces().into_iter().map(|(cursor, piece)| {
            let cursor = cursor.to_string().into_bytes();
            vec![b"BF.LOADCHUNK".to_vec(), key.into(), cursor, piece]
        });
        let load: Vec<Command> = [command(&format!("DEL {key}"))]
            .into_iter()
            .chain(load)
            .collect();
        let replies = self.nodes.write(&load);
        assert!(
            replies[1..].iter().flatten().all(|reply| *reply == ok()),
            "{replies:?}"
        );
        let items = Vec::new();
        self.entries.insert(key, Entry { model, items });
        self.check(&[key]);
    }

    pub(super) fn add(&mut self, key: &'static str, step: &str) {
        let most = self.profile.most;
        let items = match step {
            "Fill" => {
                let count = most * 3 / 4 + self.random.below(most / 4);
                self.new_items(count)
            }
            "Crowd" => self.crowd(key),
            _ => self.choose(key, most),
        };
        self.add_items(key, &items);
        self.check(&[key]);
    }

    /// Adds items by some commands. Returns whether all were admitted.
    pub(super) fn add_items(&mut self, key: &'static str, items: &[u32]) -> bool {
        let is_window = self.kind.starts_with("WINDOW");
        let ttl_ms = (is_window && self.random.one_in(3)).then(|| {
            let periods = self
                .random
                .below(usize::try_from(self.periods).expect("few"));
            1 + periods as u64 * self.period_ms + self.random.next() % self.period_ms
        });
        let mut start = if items.len() == 1 && ttl_ms.is_none() && !self.nodes.is_linked() {
            command(&format!("BF.ADD {key}"))
        } else if ttl_ms.is_some() || self.random.one_in(4) {
            command(&format!("BF.INSERT {key} NOCREATE"))
        } else {
            command(&format!("BF.MADD {key}"))
        };
        if is_window && self.nodes.is_linked() {
            start = command(&format!("BF.INSERT {key} NOCREATE AT {}", self.clock_ms));
        }
        if let Some(ttl_ms) = ttl_ms {
            start.extend(command(&format!("TTL {ttl_ms}")));
        }
        if start[0] == b"BF.INSERT" {
            start.push(b"ITEMS".to_vec());
        }
        self.note(format!(
            "{key}: adds {} items from {} on, TTL {ttl_ms:?}, by {}",
            items.len(),
            items[0],
            start.join(&b' ').escape_ascii()
        ));
        let most = *self.random.pick(&[100, 1000, 5000]);
        let batches: Vec<&[u32]> = items.chunks(most).collect();
        let named = |batch: &&[u32]| {
            let items = batch.iter().map(|number| item(*number));
            start.iter().cloned().chain(items).collect()
        };
        let commands: Vec<Command> = batches.iter().map(named).collect();
        let replies = self.nodes.write(&commands);
        let moment = Moment {
            now_ms: self.clock_ms,
            ttl_ms,
        };
        self.follow(key, &batches, moment, &replies)
    }

    /// Adds to the oracle what was added to an object, and checks the replies. Returns whether all was admitted.
    fn follow(
        &mut self,
        key: &'static str,
        batches: &[&[u32]],
        moment: Moment,
        replies: &[Option<Reply>],
    ) -> bool {
        // What the law of growth says of new tables is taken from the object.
        let steps = self.read(key).steps();
        let entry = self.entries.get_mut(key).expect("it is there");
        let mut refused = 0;
        for (batch, reply) in batches.iter().zip(replies) {
            entry.model.tidy(moment.now_ms);
            let now = entry.model.now(moment);
            let one = [reply.clone().unwrap_or(Reply::Nil)];
            let answers = match reply {
                Some(Reply::Array(answers)) => Some(&answers[..]),
                Some(_) => Some(&one[..]),
                None => None,
            };
            for (at, number) in batch.iter().enumerate() {
                let hash = entry.model.hash(&item(*number));
                let answer = answers.map(|answers| &answers[at]);
                let added = entry.model.add(hash, now, self.saturate, &steps);
                if let Some(answer) = answer {
                    let expected = match added {
                        Ok(added) => int(i64::from(added == Added::New)),
                        Err(Stop::Full) => error(FULL),
                        Err(Stop::NeedsTable) => error(TOO_EXACT),
                    };
                    assert_eq!(*answer, expected, "{number}, number {at} of {batch:?}");
                }
                if added.is_err() {
                    refused += 1;
                    break;
                }
                entry.items.push(*number);
            }
        }
        self.refused += refused;
        refused == 0
    }

    /// Adds a few items thousands of times, in a script.
    pub(super) fn repeat(&mut self, key: &'static str) {
        if self.kind != "COUNTING" {
            return;
        }
        let most = *self.random.pick(&[10, 100, 300, 1000]);
        let items = self.choose(key, most);
        if !self.add_items(key, &items) {
            return self.check(&[key]);
        }
        // Some come to thousands.
        let times = (1 << self.random.below(15)).min(1_000_000 / items.len());
        self.note(format!("{key}: adds them {times} times"));
        let script = "for i = 1, ARGV[1] do redis.call('BF.MADD', KEYS[1], unpack(ARGV, 2)) end";
        let mut eval = vec![b"EVAL".to_vec(), script.into(), b"1".to_vec(), key.into()];
        eval.push(times.to_string().into_bytes());
        eval.extend(items.iter().map(|number| item(*number)));
        let reply = self.nodes.write(&[eval]);
        assert_eq!(reply, [Some(Reply::Nil)]);
        let entry = self.entries.get_mut(key).expect("it is there");
        let now = entry.model.now(Moment::default());
        for number in &items {
            let hash = entry.model.hash(&item(*number));
            for _ in 0..times {
                let added = entry.model.add(hash, now, false, &[]);
                assert_eq!(added, Ok(Added::Again));
            }
        }
        self.check(&[key]);
    }

    /// Removes items that were added and some that were not, in any order; or nearly all.
    pub(super) fn remove(&mut self, key: &'static str, nearly_all: bool) {
        if self.kind != "COUNTING" {
            return;
        }
        let (count, other) = (self.size(self.profile.most), self.random.below(1000));
        let entry = self.entries.get_mut(key).expect("it is there");
        if entry.items.is_empty() {
            return;
        }
        let mut gone: Vec<u32> = if nearly_all {
            // The chosen ones stay, so that what is left is crowded.
            let left = match other % 5 {
                0 => 0,
                1 | 2 => entry.items.len() * 53 / 100,
                _ => entry.items.len() / (2 + other % 60),
            };
            let is_chosen = |number: &u32| *number < SEARCHED;
            let (mut stay, fill): (Vec<u32>, _) = entry.items.iter().partition(|n| is_chosen(n));
            let (_, gone): (&[u32], &[u32]) = fill.split_at(left.min(fill.len()));
            stay.extend(&fill[..left.min(fill.len())]);
            let gone = gone.to_vec();
            entry.items = stay;
            gone
        } else {
            let first = other % entry.items.len();
            let end = entry.items.len().min(first + count);
            entry.items.drain(first..end).collect()
        };
        gone.extend([1, 2, 3]);
        self.note(format!("{key}: removes {} items", gone.len()));
        let batches: Vec<&[u32]> = gone.chunks(1000).collect();
        let named = |batch: &&[u32]| {
            let items = batch.iter().map(|number| item(*number));
            command(&format!("BF.MDEL {key}"))
                .into_iter()
                .chain(items)
                .collect()
        };
        let commands: Vec<Command> = batches.iter().map(named).collect();
        let replies = self.nodes.write(&commands);
        let model = &mut self.entries.get_mut(key).expect("it is there").model;
        for (batch, reply) in batches.iter().zip(replies) {
            let removed = batch.iter().map(|number| {
                let hash = model.hash(&item(*number));
                int(i64::from(model.remove(hash)))
            });
            let expected = array(removed);
            assert!(reply.is_none_or(|reply| reply == expected));
        }
        self.check(&[key]);
    }
}
