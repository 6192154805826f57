//! A life: random steps, and the oracle of what they make.

use std::collections::{BTreeMap, VecDeque};
use std::{iter, thread};

use valkeybloom_testing::tables::{self, Model};

use super::Profile;
use super::items::SEARCHED;
use super::nodes::Nodes;
use crate::harness::{array, int, ok};
use crate::soak::clock;
use crate::support::Rng;
use crate::support::aof::command;
use crate::support::pieces::{load_chunks, pieces};

/// The seed of all filters, so that they can be merged, and items be chosen by their hashes.
pub const SEED: [u8; 32] = *b"0123456789abcdefABCDEFGHIJKLMNOP";

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

pub const FULL: &str = "ERR non scaling filter is full";
pub const TOO_EXACT: &str = "ERR false positive degrades to 0 on scale out";
const TOO_FAR: &str = "ERR provided SCALETO causes false positive to degrade to 0";
const RATES: &str = "ERR error rates of the filters add up to 1 or more";

/// An object: what it holds, and the items that were added to it.
#[derive(Clone)]
pub struct Entry {
    pub model: Model,
    pub items: Vec<u32>,
}

pub struct Life<'n> {
    pub nodes: &'n mut Nodes,
    pub profile: Profile,
    pub random: Rng,
    pub entries: BTreeMap<&'static str, Entry>,
    /// The kind of all objects, as words.
    pub kind: String,
    pub now_ms: u64,
    /// The time of writes. Only a primary can choose it.
    pub clock_ms: u64,
    pub period_ms: u64,
    pub periods: u64,
    pub saturate: bool,
    pub fresh: u32,
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
            fresh: SEARCHED,
            taken: 0,
            refused: 0,
            trail: VecDeque::new(),
        }
    }

    pub fn live(&mut self) {
        self.set_saturate(false);
        for step in self.profile.first.split(' ') {
            self.step(step);
        }
        let steps = self.profile.steps.split(", ").flat_map(|step| {
            let (weight, step) = step.split_once(' ').expect("a weight and a step");
            iter::repeat_n(step, weight.parse().expect("a number"))
        });
        let steps: Vec<&str> = steps.collect();
        for _ in 0..self.profile.length {
            let step = *self.random.pick(&steps);
            self.step(step);
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

    /// Takes a step, on any key. Over a link, a step that needs a client does nothing.
    fn step(&mut self, step: &str) {
        self.taken += 1;
        let known: Vec<&str> = self.entries.keys().copied().collect();
        let is_linked = self.nodes.is_linked();
        if step == "Create" {
            let free = KEYS.into_iter().find(|key| !known.contains(key));
            let any = *self.random.pick(&KEYS);
            let key = free.filter(|_| self.random.one_in(2)).unwrap_or(any);
            return self.create(key);
        }
        let key = *self.random.pick(&known);
        match step {
            // "Fill": many new items. "Crowd": items that share the first bits of their hashes.
            "Add" | "Fill" | "Crowd" => return self.add(key, step),
            // An object of made-up fingerprints is loaded.
            "Forge" => return self.forge(key),
            // Items are added again and again.
            "Repeat" if !is_linked => return self.repeat(key),
            "Remove" => return self.remove(key, false),
            // All but a few items are removed.
            "Drain" => return self.remove(key, true),
            "Merge" => return self.merge(),
            "Saturate" => return self.set_saturate(!self.saturate),
            "Clock" => return self.move_clock(),
            "CopyKey" => return self.copy(key),
            "Reload" if !is_linked => return self.reload(key),
            "Repeat" | "Reload" => return,
            // A replica joins.
            "Join" => self.nodes.join(),
            // Another server starts on a saved file.
            "Save" => self.nodes.check_saved(&known),
            // The server starts again from its log.
            "Log" => {
                let rewrite = *self.random.pick(&[None, Some(true), Some(false)]);
                self.nodes.restart(&known, rewrite);
                self.set_saturate(self.saturate);
            }
            _ => panic!("no step is called {step}"),
        }
        self.note(step.to_owned());
        self.check_all();
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
            let existed = self.entries.contains_key(to);
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
        } else {
            assert_eq!(reply.text(), RATES, "{line}");
        }
        self.check(&[to]);
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
            load_chunks(&mut self.nodes.client, key, &pieces);
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
