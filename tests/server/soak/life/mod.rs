//! Objects live through whatever a server does to them, and are compared with a model.

mod cuckoo;
mod keys;
mod model;
mod objects;
mod servers;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::thread;

use super::{Budget, Random};
use crate::harness::{Builder, Client, Reply, Server, digest, int, ok, wait_in_sync};
use crate::support::sketches::{self, Sketch};
use crate::support::sums;
use crate::support::usage::nothing_is_being_freed;

use model::{Entry, Held, Object, Questions, check};

const DATABASES: usize = 3;
const KEYS: usize = 10;
/// Items that objects may hold.
const ITEMS: usize = 4000;

/// A server, perhaps a replica of it, and the model of what they hold.
struct Life {
    primary: Server,
    replica: Option<Server>,
    client: Client,
    random: Random,
    databases: Vec<BTreeMap<String, Entry>>,
    database: usize,
    /// The capacity of the primary's objects without an option.
    default_capacity: i64,
    cuckoo_settings: cuckoo::Settings,
    sketches: Vec<Rc<Sketch>>,
    /// Whether a value was renamed. INFO counts it late while the server is freeing something.
    renamed: bool,
    /// The last commands and their replies, printed on a failure.
    trail: VecDeque<String>,
    questions: Questions,
    /// The number of seeds: the fixed one, and random ones.
    seeds: u64,
    /// The number of removals of held items that only a false positive may prevent, and how many of them failed.
    removals: Questions,
    /// The number of removed items, in merged objects too.
    removed: u64,
    /// The number of comparisons of a replica right after a step.
    compared: u64,
    /// The number of steps of each kind.
    taken: BTreeMap<&'static str, u64>,
}

/// Returns a server that keeps all that it has acknowledged when it dies. Its cuckoo filters have other limits than
/// those of the other server.
pub fn settings(capacity: i64) -> Builder {
    Server::builder()
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("auto-aof-rewrite-percentage", "0")
        .config("bf.bloom-capacity", &capacity.to_string())
        .config("bf.cf-initial-size", &capacity.to_string())
        .config("bf.cf-max-expansions", &(capacity / 7).to_string())
}

impl Life {
    fn new(primary: Server, replica: Option<Server>, random: Random) -> Self {
        let mut client = primary.client();
        let mut life = Self {
            cuckoo_settings: cuckoo::Settings::of(&mut client),
            sketches: sketches::recorded().into_iter().map(Rc::new).collect(),
            client,
            primary,
            replica,
            random,
            databases: vec![BTreeMap::new(); DATABASES],
            database: 0,
            default_capacity: 0,
            renamed: false,
            trail: VecDeque::new(),
            questions: Questions::default(),
            seeds: 0,
            removals: Questions::default(),
            removed: 0,
            compared: 0,
            taken: BTreeMap::new(),
        };
        life.connect();
        life
    }

    /// After the server has started, or another has become the primary.
    fn connect(&mut self) {
        self.client = self.primary.client();
        let database = self.database;
        assert_eq!(self.client.cmd(&format!("SELECT {database}")), ok());
        let capacity = self.client.cmd("CONFIG GET bf.bloom-capacity");
        let capacity = capacity.as_array()[1].text().parse();
        self.default_capacity = capacity.expect("a number");
        self.cuckoo_settings = cuckoo::Settings::of(&mut self.client);
    }

    fn note(&mut self, what: &str) {
        let what = what.chars().take(200).collect();
        self.trail.push_back(what);
        if self.trail.len() > 60 {
            self.trail.pop_front();
        }
    }

    fn call(&mut self, line: &str) -> Reply {
        let reply = self.client.cmd(line);
        self.note(&format!("[{}] {line:?}: {reply:?}", self.database));
        reply
    }

    #[track_caller]
    fn is_ok(&mut self, line: &str) {
        assert_eq!(self.call(line), ok(), "{line}");
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        self.databases[self.database].get(key)
    }

    fn put(&mut self, key: &str, entry: Entry) {
        self.databases[self.database].insert(key.to_owned(), entry);
    }

    fn take(&mut self, key: &str) -> Option<Entry> {
        self.databases[self.database].remove(key)
    }

    fn key(&mut self) -> String {
        format!("key-{}", self.random.below(KEYS))
    }

    /// Returns the key of an object that fits, or another key if no object does.
    fn key_of(&mut self, or: String, fits: impl Fn(&Object) -> bool) -> String {
        self.named_key_of(or, |_, object| fits(object))
    }

    fn named_key_of(&mut self, or: String, fits: impl Fn(&str, &Object) -> bool) -> String {
        self.key_holding(or, |key, held| match held {
            Held::Object(object) => fits(key, object),
            _ => false,
        })
    }

    fn key_holding(&mut self, or: String, fits: impl Fn(&str, &Held) -> bool) -> String {
        let entries = self.databases[self.database].iter();
        let fitting = entries.filter(|(key, entry)| fits(key, &entry.held));
        let fitting: Vec<String> = fitting.map(|(key, _)| key.clone()).collect();
        if fitting.is_empty() || self.random.one_in(4) {
            or
        } else {
            self.random.pick(&fitting).clone()
        }
    }

    /// Takes one step, and checks the objects that it touched.
    fn step(&mut self) {
        if self.random.one_in(5) {
            self.database = self.random.below(DATABASES);
            let select = format!("SELECT {}", self.database);
            self.is_ok(&select);
        }
        let (mut key, mut other) = (self.key(), self.key());
        let kind = match self.random.below(130) {
            0..18 => {
                self.add(&key);
                "add"
            }
            18..23 => {
                // More for what items are removed from.
                key = self.key_of(key, |object| object.kind.counts());
                self.add(&key);
                "add"
            }
            23..27 => {
                let holds = |object: &Object| object.kind.counts() && !object.counts.is_empty();
                key = self.key_of(key, holds);
                self.remove(&key);
                "remove"
            }
            27..30 => {
                self.ask_missing(&key);
                "missing"
            }
            30..34 => {
                if let Some(Held::Object(object)) = self.entry(&key).map(|entry| &entry.held) {
                    let (seed, name) = (object.seed, key.clone());
                    let alike =
                        move |held: &str, other: &Object| other.seed == seed && held != name;
                    other = self.named_key_of(other, alike);
                }
                self.merge(&key, &other);
                "merge"
            }
            34..40 => {
                self.reserve(&key);
                "reserve"
            }
            40..48 => {
                self.copy(&key, &other);
                "copy"
            }
            48..54 => {
                self.rename(&key, &other);
                "rename"
            }
            54..58 => {
                self.move_to(&key);
                "move"
            }
            58..66 => {
                self.delete(&key, &other);
                "delete"
            }
            66..72 => {
                self.expire(&key);
                "expire"
            }
            72..77 => {
                self.restore(&key, &other);
                "restore"
            }
            77..81 => {
                self.load(&key, &other);
                "load"
            }
            81..86 => {
                self.load_chunks(&key, &other);
                "chunks"
            }
            86..90 => {
                self.go_on_loading(&key);
                "more chunks"
            }
            90..94 => {
                self.whole_databases();
                "whole databases"
            }
            94..100 => self.whole_server(),
            100..120 => {
                self.cuckoo(&mut key, &other);
                "cuckoo filter"
            }
            120..126 => {
                self.add_to_periods(&mut key);
                "periods"
            }
            _ => {
                self.restore_sketch(&key);
                "sketch"
            }
        };
        *self.taken.entry(kind).or_default() += 1;
        let keys = [key, other];
        self.check_keys(&keys);
        self.are_replicated(&keys);
        self.is_balanced();
    }

    /// Checks that a replica in sync holds the same values under these keys.
    fn are_replicated(&mut self, keys: &[String]) {
        let Some(replica) = &self.replica else {
            return;
        };
        if self.client.cmd("WAIT 1 20") != int(1) {
            return;
        }
        let mut other = replica.client();
        assert_eq!(other.cmd(&format!("SELECT {}", self.database)), ok());
        let mut differ = keys
            .iter()
            .filter(|key| digest(&mut self.client, key) != digest(&mut other, key));
        if differ.next().is_some() {
            // The client that noticed the expiry does not wait for the replica.
            wait_in_sync(&self.primary, replica);
            let mut other = replica.client();
            assert_eq!(other.cmd(&format!("SELECT {}", self.database)), ok());
            for key in keys {
                let own = digest(&mut self.client, key);
                assert_eq!(own, digest(&mut other, key), "{key}");
            }
        }
        self.compared += 1;
    }

    fn is_balanced(&mut self) {
        if self.renamed {
            nothing_is_being_freed(&self.primary);
        }
        sums::is_balanced(&mut self.client);
        let database = self.database;
        assert_eq!(self.client.cmd(&format!("SELECT {database}")), ok());
    }

    fn check_keys(&mut self, keys: &[String]) {
        for key in keys {
            if let Some(entry) = self.databases[self.database].get(key) {
                let reported = check(&mut self.client, key, entry, &mut self.random);
                self.questions.asked += reported.asked;
                self.questions.mistaken += reported.mistaken;
            } else {
                assert_eq!(self.client.cmd(&format!("EXISTS {key}")), int(0), "{key}");
            }
        }
    }

    /// Compares all that the primary holds, or its replica, with the model.
    fn check_all(&mut self, in_replica: bool) {
        let mut client = match &self.replica {
            Some(replica) if in_replica => replica.client(),
            _ => self.primary.client(),
        };
        for (database, entries) in self.databases.iter().enumerate() {
            assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
            let keys = client.cmd("KEYS *");
            let mut keys: Vec<String> = keys.as_array().iter().map(Reply::text).collect();
            keys.sort();
            let expected: Vec<&String> = entries.keys().collect();
            assert_eq!(keys.iter().collect::<Vec<_>>(), expected, "in {database}");
            for (key, entry) in entries {
                let reported = check(&mut client, key, entry, &mut self.random);
                self.questions.asked += reported.asked;
                self.questions.mistaken += reported.mistaken;
            }
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if thread::panicking() {
            for line in &self.trail {
                eprintln!("{line}");
            }
        }
    }
}

fn live(mut life: Life, budget: Budget) {
    for _ in budget {
        life.step();
    }
    life.check_all(false);
    if life.replica.is_some() {
        life.are_the_same();
    }
    life.questions.are_mistaken_seldom();
    life.removals.are_mistaken_seldom();
    let Questions { asked, mistaken } = life.questions;
    eprintln!(
        "{:?}, in all {}; {mistaken} of {asked} answers mistaken; {} items removed, {:?}; {} times compared",
        life.taken,
        life.taken.values().sum::<u64>(),
        life.removed,
        life.removals,
        life.compared
    );
}

#[test]
fn objects_match_the_model() {
    let random = Random::new("objects_match_the_model");
    let life = Life::new(settings(40).start(), None, random);
    live(life, Budget::rounds(1500));
}

#[test]
fn objects_match_the_model_on_two_servers() {
    let random = Random::new("objects_match_the_model_on_two_servers");
    let primary = settings(40).start();
    let follow = format!("127.0.0.1 {}", primary.port());
    let replica = settings(25).start();
    let reply = replica.client().cmd(&format!("REPLICAOF {follow}"));
    assert_eq!(reply, ok());
    let life = Life::new(primary, Some(replica), random);
    live(life, Budget::rounds(400));
}
