//! Values live through whatever a server does to them. A model has what each key showed after its last write: nothing
//! else may change that, on the server, on its replica, and after a restart. What a write makes of a value is the
//! matter of the core's tests and of the random commands.

mod keys;
mod servers;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::thread;

use super::{Budget, random};
use crate::harness::{Builder, Client, Reply, Server, array, digest, int, ok, wait_in_sync};
use crate::support::Rng;
use crate::support::pieces::Pieces;
use crate::support::sketches::{self, Sketch};
use crate::support::sums;

const DATABASES: usize = 3;
const KEYS: usize = 10;

/// What a key shows.
#[derive(Clone, Debug, PartialEq)]
struct State {
    kind: String,
    expires_ms: Reply,
    /// The digest of the value alone.
    digest: u128,
    /// Which items are found. Nothing where that changes as time passes.
    answers: Option<Reply>,
}

/// What the server mixes into the digest of a key that expires: the SHA-1 of `!!expire!!`.
const EXPIRES: u128 = 0xe685_feff_dc39_ea54_c116_ebf8_456a_cf9b;

impl State {
    /// Reads what a key shows, or `None` if there is no such key.
    fn read(client: &mut Client, key: &str) -> Option<Self> {
        let kind = client.cmd(&format!("TYPE {key}")).text();
        if kind == "none" {
            return None;
        }
        let window = client.cmd(&format!("BF.INFO {key} WINDOW"));
        let is_short = window == array([int(words::SHORT_MS)]);
        let family = if kind == "MBbloomCF" { "CF" } else { "BF" };
        let items: Vec<String> = (0..60).map(words::item).collect();
        let ask = format!("{family}.MEXISTS {key} {}", items.join(" "));
        let expires_ms = client.cmd(&format!("PEXPIRETIME {key}"));
        let mixed = if expires_ms == int(-1) { 0 } else { EXPIRES };
        let digest = u128::from_str_radix(&digest(client, key)[..32], 16);
        Some(Self {
            kind,
            expires_ms,
            digest: digest.expect("hexadecimal digits") ^ mixed,
            answers: (!is_short).then(|| client.cmd(&ask)),
        })
    }
}

/// The model of a key.
#[derive(Clone)]
struct Entry {
    state: State,
    /// The chunks that a half loaded object lacks, and what the object shows that they are of.
    lacks: Option<(Pieces, State)>,
}

/// A server, perhaps a replica of it, and the model of what they hold.
struct Life {
    primary: Server,
    replica: Option<Server>,
    client: Client,
    random: Rng,
    databases: Vec<BTreeMap<String, Entry>>,
    database: usize,
    sketches: Vec<Sketch>,
    /// The last commands and their replies, printed on a failure.
    trail: VecDeque<String>,
    /// The commands that changed a value.
    changed_by: BTreeSet<String>,
    /// The number of comparisons of a replica right after a step.
    compared: u64,
    /// The number of steps of each kind.
    taken: BTreeMap<&'static str, u64>,
}

/// Returns a server that keeps all that it has acknowledged when it dies. Its objects without options have other
/// parameters than those of the other server, and its cuckoo filters other limits.
fn settings(capacity: i64) -> Builder {
    Server::builder()
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("auto-aof-rewrite-percentage", "0")
        .config("bf.bloom-capacity", &capacity.to_string())
        .config("bf.cf-initial-size", &capacity.to_string())
        .config("bf.cf-max-expansions", &(capacity / 7).to_string())
}

impl Life {
    fn new(primary: Server, replica: Option<Server>, random: Rng) -> Self {
        Self {
            client: primary.client(),
            primary,
            replica,
            random,
            databases: vec![BTreeMap::new(); DATABASES],
            database: 0,
            sketches: sketches::recorded(),
            trail: VecDeque::new(),
            changed_by: BTreeSet::new(),
            compared: 0,
            taken: BTreeMap::new(),
        }
    }

    /// After the server has started, or another has become the primary.
    fn connect(&mut self) {
        self.client = self.primary.client();
        let database = self.database;
        self.client.ok(format!("SELECT {database}"));
    }

    fn note(&mut self, what: &str) {
        let what = what.chars().take(200).collect();
        self.trail.push_back(what);
        if self.trail.len() > 60 {
            self.trail.pop_front();
        }
    }

    fn call(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call_words(&words)
    }

    fn call_words(&mut self, words: &[&[u8]]) -> Reply {
        let reply = self.client.call(words);
        let said = words.join(&b' ').escape_ascii().to_string();
        let said: String = said.chars().take(100).collect();
        self.note(&format!("[{}] {said}: {reply:?}", self.database));
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

    /// Enters what a key shows now.
    fn adopt(&mut self, key: &str) {
        if let Some(state) = State::read(&mut self.client, key) {
            self.put(key, Entry { state, lacks: None });
        }
    }

    /// Takes one step, and checks the keys that it touched.
    fn step(&mut self) {
        if self.random.one_in(5) {
            self.database = self.random.below(DATABASES);
            let select = format!("SELECT {}", self.database);
            self.is_ok(&select);
        }
        let (key, other) = (self.key(), self.key());
        let kind = match self.random.below(100) {
            0..45 => {
                self.write(&key, &other);
                "write"
            }
            45..52 => {
                self.copy(&key, &other);
                "copy"
            }
            52..57 => {
                self.rename(&key, &other);
                "rename"
            }
            57..61 => {
                self.move_to(&key);
                "move"
            }
            61..67 => {
                self.delete(&key, &other);
                "delete"
            }
            67..72 => {
                self.expire(&key);
                "expire"
            }
            72..77 => {
                self.restore(&key, &other);
                "restore"
            }
            77..80 => {
                self.restore_sketch(&key);
                "sketch"
            }
            80..84 => {
                self.load(&key, &other);
                "load"
            }
            84..90 => {
                self.load_chunks(&key, &other);
                "chunks"
            }
            90..93 => {
                self.go_on_loading(&key);
                "more chunks"
            }
            93..95 => {
                self.whole_databases();
                "whole databases"
            }
            _ => self.whole_server(),
        };
        *self.taken.entry(kind).or_default() += 1;
        let keys = [key.clone(), other];
        self.check_keys(&keys);
        self.are_replicated(&keys);
        sums::is_balanced(&mut self.client);
        let select = format!("SELECT {}", self.database);
        self.client.ok(&select);
    }

    /// Writes a few times to the filter of a key. What is refused changes nothing.
    fn write(&mut self, key: &str, other: &str) {
        for _ in 0..=self.random.below(6) {
            let before = self.entry(key).cloned();
            let kind = before.as_ref().map_or("", |entry| &entry.state.kind);
            let line = words::write(&mut self.random, kind, key, other);
            if line.starts_with("BF.MERGE") && (self.is_deep(key) || self.is_deep(other)) {
                continue;
            }
            let refused = self.call(&line).is_error();
            self.adopt(key);
            let after = self.entry(key).map(|entry| &entry.state);
            if !refused && after != before.as_ref().map(|entry| &entry.state) {
                let name = line.split(' ').next().expect("a name");
                self.changed_by.insert(name.to_owned());
            } else if let Some(before) = before {
                // Any write frees the periods that are over.
                if before.state.answers.is_some() {
                    assert_eq!(after, Some(&before.state), "{line}");
                    self.put(key, before);
                }
            } else {
                assert_eq!(after, None, "{line}");
            }
        }
    }

    /// Returns whether a key holds too many filters to merge it again and again.
    fn is_deep(&mut self, key: &str) -> bool {
        let filters = self.client.cmd(&format!("BF.INFO {key} FILTERS"));
        matches!(filters, Reply::Array(filters) if filters[0].as_int() > 40)
    }

    /// Checks that a replica holds the same values under these keys.
    fn are_replicated(&mut self, keys: &[String]) {
        let Some(replica) = &self.replica else {
            return;
        };
        if self.client.cmd("WAIT 1 20") != int(1) {
            return;
        }
        // The client that noticed an expiry does not wait for the replica.
        wait_in_sync(&self.primary, replica);
        let mut client = replica.client();
        client.ok(format!("SELECT {}", self.database));
        for key in keys {
            self.check(&mut client, self.database, key);
        }
        self.compared += 1;
    }

    fn check_keys(&self, keys: &[String]) {
        let mut client = self.primary.client();
        client.ok(format!("SELECT {}", self.database));
        for key in keys {
            self.check(&mut client, self.database, key);
        }
    }

    #[track_caller]
    fn check(&self, client: &mut Client, database: usize, key: &str) {
        let state = State::read(client, key);
        let entry = self.databases[database].get(key);
        let expected = entry.map(|entry| &entry.state);
        assert_eq!(state.as_ref(), expected, "{key} in {database}");
    }

    /// Compares all that a server holds with the model.
    fn check_all(&self, server: &Server) {
        let mut client = server.client();
        for (database, entries) in self.databases.iter().enumerate() {
            client.ok(format!("SELECT {database}"));
            let keys = client.cmd("KEYS *");
            let mut keys: Vec<String> = keys.as_array().iter().map(Reply::text).collect();
            keys.sort();
            let expected: Vec<&String> = entries.keys().collect();
            assert_eq!(keys.iter().collect::<Vec<_>>(), expected, "in {database}");
            for key in &keys {
                self.check(&mut client, database, key);
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
    life.check_all(&life.primary);
    if life.replica.is_some() {
        life.are_the_same();
    }
    let steps = life.taken.values().sum::<u64>();
    eprintln!(
        "{:?}, in all {steps}; {} times compared; changed by {:?}",
        life.taken, life.compared, life.changed_by
    );
    assert!(life.changed_by.len() > 6, "{:?}", life.changed_by);
}

#[test]
fn values_match_the_model() {
    let random = random("values_match_the_model");
    let life = Life::new(settings(40).start(), None, random);
    live(life, Budget::rounds(1500));
}

#[test]
fn values_match_the_model_on_two_servers() {
    let random = random("values_match_the_model_on_two_servers");
    let primary = settings(40).start();
    let follow = format!("127.0.0.1 {}", primary.port());
    let replica = settings(25).start();
    let reply = replica.client().cmd(&format!("REPLICAOF {follow}"));
    assert_eq!(reply, ok());
    let life = Life::new(primary, Some(replica), random);
    live(life, Budget::rounds(400));
}
