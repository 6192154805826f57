//! A life: random steps, and the oracle of what they make.

use std::collections::{BTreeMap, VecDeque};
use std::sync::OnceLock;
use std::thread;

use valkeybloom_testing::tables::{self, Kind, Model, Moment, Stop, item, search};

use super::nodes::Nodes;
use super::{Profile, Step};
use crate::harness::{Reply, array, int, ok};
use crate::soak::clock;
use crate::support::Rng;
use crate::support::aof::{Command, command};
use crate::support::pieces::pieces;
use crate::support::protocols::field;

/// The seed of all filters, so that they can be merged, and items be chosen by their hashes.
const SEED: [u8; 32] = *b"0123456789abcdefABCDEFGHIJKLMNOP";

/// The first bytes of the hashes of [`crowd`]s.
const FIRST_BYTES: [u8; 19] = [
    0x00, 0x01, 0xff, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c,
    0x9d, 0x9e, 0x9f,
];

/// Items are numbers. Those below are searched for crowds.
const SEARCHED: u32 = 4_000_000;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

const OVER: &str = "ERR operation exceeds bloom object memory limit";
const FULL: &str = "ERR non scaling filter is full";
const TOO_EXACT: &str = "ERR false positive degrades to 0 on scale out";
const TOO_FAR: &str = "ERR provided SCALETO causes false positive to degrade to 0";
const RATES: &str = "ERR error rates of the filters add up to 1 or more";

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

/// An object: what it holds, and the items that were added to it.
#[derive(Clone)]
pub struct Entry {
    pub model: Model,
    pub items: Vec<u32>,
}

pub struct Life<'n> {
    pub nodes: &'n mut Nodes,
    profile: Profile,
    pub random: Rng,
    pub entries: BTreeMap<&'static str, Entry>,
    /// The kind of all objects, as words.
    kind: String,
    pub now_ms: u64,
    /// The time of writes. Only a primary can choose it.
    clock_ms: u64,
    period_ms: u64,
    periods: u64,
    saturate: bool,
    /// Whether a low limit is set.
    is_limited: bool,
    fresh: u32,
    pub taken: u64,
    pub refused: u64,
    trail: VecDeque<String>,
}

impl<'n> Life<'n> {
    pub fn new(nodes: &'n mut Nodes, profile: Profile, mut random: Rng) -> Self {
        let now_ms = u64::try_from(clock().as_millis()).expect("a time");
        let kind = *random.pick(profile.kinds);
        let periods = *random.pick(profile.periods);
        // The current period neither has just begun nor is about to end.
        let mut period_ms = 3_600_000 << random.below(14);
        while !(2..7).contains(&(now_ms % period_ms * 10 / period_ms)) {
            period_ms += period_ms / 50;
        }
        let kind = match kind {
            "WINDOW" => format!("WINDOW {period_ms} PERIODS {periods}"),
            "SCALETO" => format!("SCALETO {}", random.pick(&[1, 1000, 300_000])),
            kind => kind.to_owned(),
        };
        nodes.begin(profile.linked > 0 && random.one_in(profile.linked));
        Self {
            nodes,
            profile,
            random,
            entries: BTreeMap::new(),
            kind,
            now_ms,
            clock_ms: now_ms,
            period_ms,
            periods,
            saturate: false,
            is_limited: false,
            fresh: SEARCHED,
            taken: 0,
            refused: 0,
            trail: VecDeque::new(),
        }
    }

    pub fn live(&mut self) {
        self.set_saturate(false);
        for step in self.profile.first {
            self.step(*step);
        }
        let steps = self.profile.steps;
        let weights: usize = steps.iter().map(|(weight, _)| weight).sum();
        for _ in 0..self.profile.length {
            let mut at = self.random.below(weights);
            let chosen = steps.iter().find(|(weight, _)| {
                let is_chosen = at < *weight;
                at = at.wrapping_sub(*weight);
                is_chosen
            });
            self.step(chosen.expect("below the sum").1);
        }
        self.check_all();
        self.nodes.check_logs();
    }

    pub fn note(&mut self, what: String) {
        self.trail.push_back(what);
        if self.trail.len() > 40 {
            self.trail.pop_front();
        }
    }

    fn step(&mut self, step: Step) {
        self.taken += 1;
        let known: Vec<&str> = self.entries.keys().copied().collect();
        let key = match step {
            Step::Create => {
                let free = KEYS.into_iter().find(|key| !known.contains(key));
                let any = *self.random.pick(&KEYS);
                free.filter(|_| self.random.one_in(2)).unwrap_or(any)
            }
            _ => *self.random.pick(&known),
        };
        let is_linked = self.nodes.is_linked();
        match step {
            Step::Create => self.create(key),
            Step::Add | Step::Fill | Step::Crowd => self.add(key, step),
            Step::Forge => self.forge(key),
            Step::Repeat if !is_linked => self.repeat(key),
            Step::Remove => self.remove(key, false),
            Step::Drain => self.remove(key, true),
            Step::Merge => self.merge(),
            Step::Limit if !is_linked => self.limit(key),
            Step::Saturate => {
                let saturate = !self.saturate;
                self.set_saturate(saturate);
            }
            Step::Clock => self.move_clock(),
            Step::CopyKey => self.copy(key),
            Step::Reload if !is_linked => self.reload(key),
            Step::Join => self.nodes.join(),
            Step::Save => self.nodes.check_saved(&known),
            Step::Log => {
                let rewrite = *self.random.pick(&[None, Some(true), Some(false)]);
                self.nodes.restart(&known, rewrite);
                let saturate = self.saturate;
                self.set_saturate(saturate);
            }
            Step::Repeat | Step::Limit | Step::Reload => return,
        }
        if matches!(step, Step::Join | Step::Save | Step::Log) {
            self.note(format!("{step:?}"));
            self.check_all();
        }
    }

    /// Creates an object, in place of one that there may be.
    fn create(&mut self, key: &'static str) {
        let create = loop {
            let capacity = self.random.pick(self.profile.capacities);
            let rate = self.random.pick(self.profile.rates);
            let growth = *self.random.pick(self.profile.growths);
            // What scales to a number scales.
            let is_scaled = self.kind.starts_with("SCALETO");
            let growth = Some(growth).filter(|growth| !is_scaled || *growth != "NONSCALING");
            let shape = format!("CAPACITY {capacity} ERROR {rate} {}", self.kind);
            let mut create = command(&format!("BF.INSERT {key} {shape}"));
            create.extend(growth.iter().flat_map(|growth| command(growth)));
            create.retain(|word| !word.is_empty());
            create.extend([b"SEED".to_vec(), SEED.to_vec()]);
            let reply = self.nodes.rehearse(&[], &create);
            if reply == array([]) {
                self.note(format!("{key}: {shape} {growth:?}"));
                break create;
            }
            // The periods of a window leave too few bits for fingerprints.
            assert!(
                [TOO_EXACT, TOO_FAR].contains(&&*reply.text()),
                "{shape}: {reply:?}"
            );
        };
        self.nodes.write(&[command(&format!("DEL {key}")), create]);
        let model = self.read(key);
        assert_eq!(model.items(0), 0);
        assert_eq!((model.tables.len(), model.dropped), (1, 0));
        let items = Vec::new();
        self.entries.insert(key, Entry { model, items });
        self.check(&[key]);
    }

    /// Returns what a key holds, as its pieces say.
    pub fn read(&mut self, key: &str) -> Model {
        let pieces = pieces(&mut self.nodes.client, key);
        let model = tables::read(&pieces);
        assert!(model.pieces() == pieces, "the pieces of {key} differ");
        model
    }

    /// Returns a number of items: mostly few.
    fn size(&mut self, most: usize) -> usize {
        let most = most >> self.random.below(1 + most.ilog2() as usize);
        1 + self.random.below(most)
    }

    /// Returns items to add: new ones, some of those that are there, or a crowd.
    fn choose(&mut self, key: &str, most: usize) -> Vec<u32> {
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
    fn crowd(&mut self, key: &str) -> Vec<u32> {
        let tables = &self.entries[key].model.tables;
        let entries: usize = tables.iter().map(|table| table.entries.len()).sum();
        let likely = 4 + (entries / 1000).max(1).ilog2();
        let bits = match self.random.below(6) {
            0..3 => likely,
            3 => likely - 1,
            4 => likely + 1,
            _ => 4 + u32::try_from(self.random.below(17)).expect("few bits"),
        };
        let most = [
            30, 100, 180, 200, 220, 240, 260, 280, 300, 320, 350, 400, 2000,
        ];
        let most = *self.random.pick(&most);
        crowd(&mut self.random, bits.clamp(4, 20), most)
    }

    /// Loads an object of made-up fingerprints that share their first bits, with any counts or periods.
    fn forge(&mut self, key: &'static str) {
        let mut model = self.entries[key].model.clone();
        let now_ms = self.clock_ms;
        model.tidy(now_ms);
        let [oldest, newest] = model.periods_at(now_ms);
        model.tables.truncate(1);
        let table = &mut model.tables[0];
        table.entries.clear();
        let bits = table.step.bits;
        for _ in 0..=self.random.below(3) {
            let shared = 4 + u32::try_from(self.random.below(17)).expect("few bits");
            let free = bits.saturating_sub(shared);
            let prefix = self.random.pick(pool()).0 >> (u64::BITS - bits) >> free << free;
            // Not so dense that each takes a few bits.
            let most = usize::try_from(1_u64 << free.saturating_sub(3).min(13)).expect("few");
            for _ in 0..self.random.below(most) {
                let held = match model.kind {
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

    fn new_items(&mut self, count: usize) -> Vec<u32> {
        let first = self.fresh;
        self.fresh += u32::try_from(count).expect("few items");
        (first..self.fresh).collect()
    }

    fn add(&mut self, key: &'static str, step: Step) {
        let most = self.profile.most;
        let items = match step {
            Step::Fill => {
                let count = most * 3 / 4 + self.random.below(most / 4);
                self.new_items(count)
            }
            Step::Crowd => self.crowd(key),
            _ => self.choose(key, most),
        };
        self.add_items(key, &items);
        self.check(&[key]);
    }

    /// Adds items by some commands. Returns whether all were admitted.
    fn add_items(&mut self, key: &'static str, items: &[u32]) -> bool {
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
                if let Some(Reply::Error(text)) = answer
                    && text == OVER
                {
                    assert!(self.is_limited, "{number} is refused without a limit");
                    refused += 1;
                    break;
                }
                let added = entry.model.add(hash, now, self.saturate, &steps);
                if let Some(answer) = answer {
                    let expected = match added {
                        Ok(added) => int(i64::from(added == tables::Added::New)),
                        Err(Stop::Full) => crate::harness::error(FULL),
                        Err(Stop::NeedsTable) => crate::harness::error(TOO_EXACT),
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
    fn repeat(&mut self, key: &'static str) {
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
                assert_eq!(added, Ok(tables::Added::Again));
            }
        }
        self.check(&[key]);
    }

    /// Removes items that were added and some that were not, in any order; or nearly all.
    fn remove(&mut self, key: &'static str, nearly_all: bool) {
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
            let left = match other % 4 {
                0 | 1 => entry.items.len() * 53 / 100,
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

    fn merge(&mut self) {
        let to = *self.random.pick(&KEYS);
        let mut sources: Vec<&'static str> = self.entries.keys().copied().collect();
        sources.retain(|key| *key != to && !self.random.one_in(3));
        if sources.is_empty() {
            return;
        }
        let line = format!("BF.MERGE {to} {}", sources.join(" "));
        let mut reply = ok();
        if self.nodes.is_linked() {
            // A primary sends what it has done itself.
            let keys: Vec<&str> = self.entries.keys().copied().collect();
            reply = self.nodes.rehearse(&keys, &command(&line));
        }
        if reply == ok() {
            let written = self.nodes.write(&[command(&line)]).remove(0);
            reply = written.unwrap_or(reply);
        }
        self.note(format!("{line}: {reply:?}"));
        if reply == ok() {
            let existed = self.entries.get(to).is_some();
            let merged = self.read(to);
            let all = existed.then_some(to).into_iter().chain(sources);
            let all: Vec<&Entry> = all.map(|key| &self.entries[key]).collect();
            let models: Vec<&Model> = all.iter().map(|entry| &entry.model).collect();
            merged.check_union(&models);
            let items = all.iter().flat_map(|entry| entry.items.iter().copied());
            let entry = Entry {
                items: items.collect(),
                model: merged,
            };
            self.entries.insert(to, entry);
        } else if reply.text() == OVER {
            assert!(self.is_limited, "{line} is refused without a limit");
            self.refused += 1;
        } else {
            assert_eq!(reply.text(), RATES, "{line}");
        }
        self.check(&[to]);
    }

    /// Sets a limit that admits little more than an object takes, and writes to it.
    fn limit(&mut self, key: &'static str) {
        if self.random.one_in(2) {
            self.fill_up(key);
        }
        let size = field(&mut self.nodes.client, key, "SIZE");
        let more = 8 * i64::try_from(self.random.below(60)).expect("a small number");
        let more = more * *self.random.pick(&[1, 1, 1, 20]);
        let (name, none) = *self.random.pick(&[
            ("memory-usage-limit", 0),
            ("memory-usage-limit", 0),
            ("filter-max-memory-usage", 64 << 20),
        ]);
        let limit = format!("CONFIG SET bf.bloom-{name}");
        self.nodes.client.ok(format!("{limit} {}", size + more));
        self.note(format!("{limit} {more} more than {key} takes"));
        self.is_limited = true;
        for _ in 0..=self.random.below(4) {
            match self.random.below(8) {
                0 => self.remove(key, false),
                1 => self.merge(),
                _ => {
                    let most = *self.random.pick(&[1, 10, 1000]);
                    let items = self.choose(key, most);
                    self.add_items(key, &items);
                    self.check(&[key]);
                }
            }
        }
        self.nodes.client.ok(format!("{limit} {none}"));
        self.is_limited = false;
    }

    /// Adds items until the newest table is full, if that takes few.
    fn fill_up(&mut self, key: &'static str) {
        for _ in 0..5 {
            let newest = self.entries[key].model.tables.last().expect("never empty");
            let room = newest.step.most.saturating_sub(newest.entries.len() as u64);
            if (1..5000).contains(&room) {
                let items = self.new_items(usize::try_from(room).expect("few items"));
                self.add_items(key, &items);
            }
        }
        self.check(&[key]);
    }

    fn set_saturate(&mut self, saturate: bool) {
        self.saturate = saturate;
        let value = if saturate { "yes" } else { "no" };
        let set = format!("CONFIG SET bf.bloom-saturate-nonscaling {value}");
        self.nodes.client.ok(&set);
        self.note(set);
    }

    /// Moves the time of writes, mostly forward by a few periods.
    fn move_clock(&mut self) {
        if !self.nodes.is_linked() {
            return;
        }
        let periods = self
            .random
            .below(usize::try_from(self.periods).expect("few") + 3) as u64;
        let periods = if self.random.one_in(2) { 1 } else { periods };
        let by = periods * self.period_ms + self.random.next() % self.period_ms;
        self.clock_ms = match self.random.below(8) {
            0 => self.clock_ms.saturating_sub(by),
            1 => self.now_ms,
            _ => self.clock_ms + by,
        };
        self.note(format!("it is {}", self.clock_ms));
    }

    fn copy(&mut self, key: &'static str) {
        let to = *self.random.pick(&KEYS);
        if to != key {
            self.note(format!("{to}: copy of {key}"));
            self.nodes
                .write(&[command(&format!("COPY {key} {to} REPLACE"))]);
            let entry = self.entries[key].clone();
            self.entries.insert(to, entry);
            self.check(&[key, to]);
        }
    }

    /// Replaces an object by what its dump, or the dump of its pieces, makes.
    fn reload(&mut self, key: &'static str) {
        self.note(format!("{key}: reloaded"));
        if self.random.one_in(2) {
            let dump = self.nodes.client.cmd(&format!("DUMP {key}"));
            self.nodes.client.expect(format!("DEL {key}"), int(1));
            let restored = self.nodes.client.restore(key, dump.as_bytes());
            assert_eq!(restored, ok(), "RESTORE of {key}");
        } else {
            let pieces = pieces(&mut self.nodes.client, key);
            self.nodes.client.expect(format!("DEL {key}"), int(1));
            crate::support::pieces::load_chunks(&mut self.nodes.client, key, &pieces);
        }
        self.check(&[key]);
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            for line in &self.trail {
                eprintln!("{line}");
            }
        }
    }
}

/// Returns whether an object has periods.
pub const fn has_window(model: &Model) -> bool {
    matches!(model.kind, Kind::Window { .. })
}
