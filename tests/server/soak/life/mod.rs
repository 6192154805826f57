//! Objects live through whatever a server does to them, and a model of them tells what they must be.

mod cuckoo;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::thread;

use super::{Budget, Random, clock, dump_of};
use crate::carried::{self, Sketch};
use crate::harness::{
    Builder, Client, Reply, Server, digest, error, int, nil, ok, wait_in_sync, wait_until,
};
use crate::ledger;
use crate::naive::Naive;
use crate::persistence::{Pieces, pieces, split};

const DATABASES: usize = 3;
const KEYS: usize = 10;
/// Items that objects may hold.
const ITEMS: usize = 4000;

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const STILL_LOADING: &str = "ERR bloom object is still being loaded";
const BUSY: &str = "BUSYKEY Target key name already exists.";
const UNCOUNTED: &str = "ERR filter was not made with COUNTING";
const RATES: &str = "ERR error rates of the filters add up to 1 or more";
const FULL: &str = "ERR non scaling filter is full";

/// What an object can do beside holding items.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    /// Items can be removed.
    Counting,
    /// Items are added and removed with ids.
    Ids,
    /// Items pass, but not while a test runs.
    Window,
    /// Items pass.
    Short,
}

/// The windows of those kinds: length of a period in milliseconds, and number of periods.
const WINDOW: (u64, u64) = (1_000_000_000_000, 3);
const SHORT: (u64, u64) = (1000, 4);

impl Kind {
    fn window(self) -> Option<(u64, u64)> {
        match self {
            Self::Window => Some(WINDOW),
            Self::Short => Some(SHORT),
            _ => None,
        }
    }

    fn counts(self) -> bool {
        matches!(self, Self::Counting | Self::Ids)
    }

    /// How a creation asks for it.
    fn words(self) -> String {
        match self.window() {
            Some((ms, periods)) => format!(" WINDOW {ms} PERIODS {periods}"),
            None if self.counts() => " COUNTING".to_owned(),
            None => String::new(),
        }
    }
}

fn now_ms() -> u64 {
    u64::try_from(clock().as_millis()).expect("not that late")
}

/// What an object must be.
#[derive(Clone, Debug)]
struct Object {
    kind: Kind,
    /// Objects of the same one have the same hash functions.
    seed: u64,
    /// Whether it was merged, so that its filters are not foretold, and its rate may be higher.
    merged: bool,
    /// Of an item that was added to counters, the ids of each addition.
    counts: BTreeMap<usize, Vec<u64>>,
    next_id: u64,
    /// When items were last added that pass.
    added_ms: HashMap<usize, u64>,
    /// What BF.DEBUG tells of filters that are not foretold: it changes with a write, and by nothing else.
    told: Option<Reply>,
    capacity: i64,
    /// 0 for one that does not scale.
    expansion: i64,
    error_rate: f64,
    tightening: f64,
    /// All that it may no longer deny.
    items: HashSet<usize>,
    /// How many items it called new.
    cardinality: i64,
}

impl Object {
    /// Whether its filters are not foretold.
    fn is_loose(&self) -> bool {
        self.kind != Kind::Plain || self.merged
    }

    /// What it may not deny, of a question that is answered now.
    fn is_certain(&self, number: usize) -> bool {
        let Some(added) = self.added_ms.get(&number) else {
            return self.kind != Kind::Short && self.items.contains(&number);
        };
        now_ms() - added <= SHORT.0 * (SHORT.1 - 1)
    }

    /// How many filters it has, and their capacities summed.
    fn scale(&self) -> (i64, i64) {
        let (mut filters, mut last, mut sum) = (1, self.capacity, self.capacity);
        while sum < self.cardinality {
            last *= self.expansion;
            sum += last;
            filters += 1;
        }
        (filters, sum)
    }

    /// The fields of BF.INFO that are told here, as it gives them.
    fn is_told(&self, info: &[Reply]) -> bool {
        let rate = |index: usize| info[index].text().parse::<f64>().ok();
        let expansion = match self.expansion {
            0 => nil(),
            factor => int(factor),
        };
        if self.is_loose() {
            let rows = info.chunks_exact(2);
            let row = |name: &str| rows.clone().find(|row| row[0].text() == name);
            let window = |name: &str| row(name).map(|row| row[1].as_int().cast_unsigned());
            let rated = if self.merged {
                rate(11) >= Some(self.error_rate)
            } else {
                rate(11) == Some(self.error_rate)
            };
            return rated
                && (self.kind == Kind::Short || info[7] == int(self.cardinality))
                && info[9] == expansion
                && window("Window") == self.kind.window().map(|(ms, _)| ms)
                && window("Periods") == self.kind.window().map(|(_, periods)| periods);
        }
        let (filters, capacity) = self.scale();
        info[1] == int(capacity)
            && info[5] == int(filters)
            && info[7] == int(self.cardinality)
            && info[9] == expansion
            && rate(11) == Some(self.error_rate)
            && (self.expansion == 0 || rate(13) == Some(self.tightening))
    }
}

#[derive(Clone)]
enum Held {
    Text,
    Object(Object),
    /// One of which these chunks have not come.
    Half(Object, Pieces),
    Cuckoo(Naive),
    Sketch(Rc<Sketch>),
}

#[derive(Clone)]
struct Entry {
    held: Held,
    expires_ms: i64,
}

impl Entry {
    fn lasting(held: Held) -> Self {
        let expires_ms = -1;
        Self { held, expires_ms }
    }

    /// What every BF command that writes to it is answered, but for the loading of chunks.
    fn refusal(&self) -> Option<&'static str> {
        match self.held {
            Held::Text | Held::Cuckoo(_) | Held::Sketch(_) => Some(WRONG_TYPE),
            Held::Object(_) => None,
            Held::Half(..) => Some(STILL_LOADING),
        }
    }

    /// What the loading of an object under its key is answered.
    fn refusal_to_load(&self) -> &'static str {
        match self.refusal() {
            Some(WRONG_TYPE) => WRONG_TYPE,
            _ => BUSY,
        }
    }
}

fn item(number: usize) -> String {
    format!("item-{number}\r\n\0")
}

/// Questions about items that nobody added, and how many were answered with yes.
#[derive(Clone, Copy, Debug, Default)]
struct Questions {
    asked: u64,
    mistaken: u64,
}

impl Questions {
    /// Far above the rates of all objects, and far below that of one that says yes to all.
    #[track_caller]
    fn are_mistaken_seldom(self) {
        let Self { asked, mistaken } = self;
        assert!(mistaken <= asked / 10 + 50, "{mistaken} of {asked}");
    }
}

/// How many items that nobody added are asked for.
const OTHERS: u64 = 30;

/// Compares a key with the model of it.
#[track_caller]
fn check(client: &mut Client, key: &str, entry: &Entry, random: &mut Random) -> Questions {
    let expires = client.cmd(&format!("PEXPIRETIME {key}"));
    assert_eq!(expires, int(entry.expires_ms), "{key}");
    let cardinality = client.cmd(&format!("BF.CARD {key}"));
    if let Held::Cuckoo(filter) = &entry.held {
        cuckoo::check(client, key, filter, random);
    } else {
        let refused = client.cmd(&format!("CF.COUNT {key} x"));
        assert_eq!(refused, error(WRONG_TYPE), "{key}");
    }
    if let Held::Sketch(sketch) = &entry.held {
        sketch.is_under(client, key);
    }
    let Held::Object(object) = &entry.held else {
        let refusal = entry.refusal().expect("it is no object");
        assert_eq!(cardinality, error(refusal), "{key}");
        return Questions::default();
    };
    if object.kind != Kind::Short {
        assert_eq!(cardinality, int(object.cardinality), "{key}");
        if let Some(told) = &object.told {
            assert_eq!(client.cmd(&format!("BF.DEBUG {key}")), *told, "{key}");
        }
    }
    let info = client.cmd(&format!("BF.INFO {key}"));
    assert!(object.is_told(info.as_array()), "{key}: {info:?}");
    let mut line = format!("BF.MEXISTS {key}");
    for number in &object.items {
        line += " ";
        line += &item(*number);
    }
    for _ in 0..OTHERS {
        line += " other-";
        line += &random.next().to_string();
    }
    let answers = client.cmd(&line);
    let (own, others) = answers.as_array().split_at(object.items.len());
    let own = own.iter().zip(&object.items);
    let denied = own.filter(|(answer, number)| **answer != int(1) && object.is_certain(**number));
    assert_eq!(denied.count(), 0, "items of {key} are denied");
    if let Some((number, ids)) = object.counts.iter().next() {
        let count = client.cmd(&format!("BF.COUNT {key} {}", item(*number)));
        let least = i64::try_from(ids.len().min(15)).expect("a few");
        assert!(count.as_int() >= least, "{key}: {count:?} of {ids:?}");
    }
    let mistaken = others.iter().filter(|answer| **answer == int(1)).count();
    Questions {
        asked: OTHERS,
        mistaken: mistaken as u64,
    }
}

/// A server, perhaps a replica of it, and the model of what they hold.
struct Life {
    primary: Server,
    replica: Option<Server>,
    client: Client,
    random: Random,
    databases: Vec<BTreeMap<String, Entry>>,
    database: usize,
    /// What the primary makes an object for where nothing is said.
    default_capacity: i64,
    cuckoo_settings: cuckoo::Settings,
    sketches: Vec<Rc<Sketch>>,
    /// Whether a value was given another key. INFO is late with such a one while the server is
    /// freeing something.
    renamed: bool,
    /// The last commands and their replies, for a failure to tell.
    trail: VecDeque<String>,
    questions: Questions,
    /// How many seeds there have been: one that all know, and random ones.
    seeds: u64,
    /// How often what was held was asked to be removed where only a false positive may prevent it, and how
    /// often it was not removed.
    removals: Questions,
    /// How many items were removed, of merged objects too.
    removed: u64,
    /// How often a replica was compared right after a step.
    compared: u64,
    /// How often each kind of step was taken.
    taken: BTreeMap<&'static str, u64>,
}

/// A server of which what it has acknowledged outlives it. Cuckoo filters of the other have other limits, too.
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
            sketches: carried::recorded().into_iter().map(Rc::new).collect(),
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

    /// A key of an object that fits, or another where there is none.
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

    /// One step, and what it says of the objects that it touched.
    fn step(&mut self) {
        if self.random.one_in(5) {
            self.database = self.random.below(DATABASES);
            let select = format!("SELECT {}", self.database);
            self.is_ok(&select);
        }
        let (mut key, mut other) = (self.key(), self.key());
        let kind = match self.random.below(124) {
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

    /// Where a replica has all that was written, it holds the same under these keys.
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
            // What expires is not waited for by the client that noticed it.
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
            wait_until("nothing is being freed", || {
                let info = self.client.cmd("INFO memory").text();
                info.contains("lazyfree_pending_objects:0\r")
            });
        }
        ledger::is_balanced(&mut self.client);
        let database = self.database;
        assert_eq!(self.client.cmd(&format!("SELECT {database}")), ok());
    }

    fn check_keys(&mut self, keys: &[String]) {
        for key in keys {
            if let Some(entry) = self.databases[self.database].get(key) {
                let told = check(&mut self.client, key, entry, &mut self.random);
                self.questions.asked += told.asked;
                self.questions.mistaken += told.mistaken;
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
                let told = check(&mut client, key, entry, &mut self.random);
                self.questions.asked += told.asked;
                self.questions.mistaken += told.mistaken;
            }
        }
    }

    /// Options of a creation, and the object that they make.
    fn options(&mut self) -> (String, Object) {
        let expansion = *self.random.pick(&[0, 1, 2, 4]);
        // A stack of hundreds of filters takes its time, and has tests of its own.
        let capacity = match expansion {
            1 => *self.random.pick(&[200, 5000]),
            _ => *self.random.pick(&[1, 10, 200, 5000]),
        };
        let (rate, error_rate) = *self.random.pick(&[("0.01", 0.01), ("1e-3", 0.001)]);
        let (ratio, tightening) = *self.random.pick(&[("0.5", 0.5), ("0.8", 0.8)]);
        let growth = match expansion {
            0 => "NONSCALING".to_owned(),
            factor => format!("EXPANSION {factor}"),
        };
        let kinds = [
            Kind::Plain,
            Kind::Plain,
            Kind::Counting,
            Kind::Ids,
            Kind::Window,
            Kind::Short,
        ];
        let kind = *self.random.pick(&kinds);
        let object = Object {
            kind,
            capacity,
            expansion,
            error_rate,
            tightening,
            ..self.default_object()
        };
        let growth = growth + &kind.words();
        let options = format!("CAPACITY {capacity} ERROR {rate} TIGHTENING {ratio} {growth}");
        (options, object)
    }

    fn default_object(&mut self) -> Object {
        self.seeds += 1;
        Object {
            kind: Kind::Plain,
            seed: self.seeds,
            merged: false,
            counts: BTreeMap::new(),
            next_id: 1,
            added_ms: HashMap::new(),
            told: None,
            capacity: self.default_capacity,
            expansion: 2,
            error_rate: 0.01,
            tightening: 0.5,
            items: HashSet::new(),
            cardinality: 0,
        }
    }

    fn add(&mut self, key: &str) {
        let mut count = *self.random.pick(&[0, 1, 4, 60, 300]);
        let mut fresh = Some(self.default_object());
        let kind = match self.entry(key).map(|entry| &entry.held) {
            Some(Held::Object(object)) => Some((object.kind, object.next_id)),
            _ => None,
        };
        let mut id = 0;
        let command = match (kind, self.random.below(5)) {
            (Some((Kind::Ids, next)), _) => {
                // Rising as a log's, and now and then a late one.
                let late = if self.random.one_in(4) { 3 } else { 0 };
                id = next.saturating_sub(late);
                count = count.max(1);
                format!("BF.INSERT {key} NOCREATE ID {id}")
            }
            (Some((Kind::Window, _)), 3) => {
                let ttl = *self.random.pick(&[1, WINDOW.0, WINDOW.0 * WINDOW.1]);
                format!("BF.INSERT {key} NOCREATE TTL {ttl}")
            }
            (_, 0) => {
                count = 1;
                format!("BF.ADD {key}")
            }
            (_, 1 | 2) => {
                count = count.max(1);
                format!("BF.MADD {key}")
            }
            (_, 3) => {
                fresh = None;
                format!("BF.INSERT {key} NOCREATE")
            }
            _ => {
                let (mut options, mut object) = self.options();
                if self.random.one_in(2) {
                    options += " SEED 0123456789abcdef0123456789abcdef";
                    object.seed = 0;
                }
                if object.kind == Kind::Ids {
                    id = object.next_id;
                    options = format!("{options} ID {id}");
                }
                let command = format!("BF.INSERT {key} {options}");
                if kind.is_none() {
                    fresh = Some(object);
                    command
                } else {
                    format!("BF.INSERT {key}")
                }
            }
        };
        let items: Vec<usize> = (0..count).map(|_| self.random.below(ITEMS)).collect();
        let mut line = command;
        if line.starts_with("BF.INSERT") && count > 0 {
            line += " ITEMS";
        }
        for number in &items {
            line += " ";
            line += &item(*number);
        }
        let before_ms = now_ms();
        let reply = self.call(&line);
        if let Some(refusal) = self.entry(key).and_then(Entry::refusal) {
            return assert_eq!(reply, error(refusal));
        }
        let mut entry = match (self.entry(key), fresh) {
            (Some(entry), _) => entry.clone(),
            (None, Some(object)) => Entry::lasting(Held::Object(object)),
            (None, None) => return assert_eq!(reply, error("ERR not found")),
        };
        if let Held::Object(object) = &mut entry.held {
            let answers = match reply {
                Reply::Array(answers) => answers,
                answer => vec![answer],
            };
            self.took(object, &items, &answers, id, before_ms);
            self.is_written(key, object);
        }
        self.put(key, entry);
    }

    /// Takes what is told of filters that are not foretold, after a write.
    fn is_written(&mut self, key: &str, object: &mut Object) {
        if object.is_loose() && object.kind != Kind::Short {
            object.cardinality = self.call(&format!("BF.CARD {key}")).as_int();
            object.told = Some(self.client.cmd(&format!("BF.DEBUG {key}")));
        }
    }

    /// What the answers to a write that began then make of an object.
    fn took(
        &mut self,
        object: &mut Object,
        items: &[usize],
        answers: &[Reply],
        id: u64,
        before_ms: u64,
    ) {
        object.next_id = object.next_id.max(id + 1);
        for (index, (number, answer)) in items.iter().zip(answers).enumerate() {
            let known = object.is_certain(*number);
            if answer.is_error() {
                assert_eq!(*answer, error(FULL));
                assert_eq!(object.expansion, 0);
                if !object.is_loose() {
                    assert_eq!(object.cardinality, object.capacity);
                }
                // An id, or another period, may ask for room of its own.
                assert!(
                    !known || ![Kind::Plain, Kind::Counting].contains(&object.kind),
                    "a known item is refused"
                );
                return assert_eq!(answers.len(), index + 1);
            }
            // An item that has passed may still be there.
            let unknown = !known && !object.items.contains(number) && object.kind != Kind::Ids;
            self.questions.asked += u64::from(unknown);
            if *answer == int(1) {
                assert!(!known, "item {number} was denied");
                object.cardinality += 1;
            } else {
                assert_eq!(*answer, int(0));
                self.questions.mistaken += u64::from(unknown);
            }
            object.items.insert(*number);
            if object.kind.counts() {
                object.counts.entry(*number).or_default().push(id);
            }
            if object.kind == Kind::Short {
                object.added_ms.insert(*number, before_ms);
            }
        }
        assert_eq!(answers.len(), items.len());
    }

    /// Removes some of what is held.
    fn remove(&mut self, key: &str) {
        let Some(mut entry) = self.entry(key).cloned() else {
            return assert_eq!(self.call(&format!("BF.DEL {key} x")), int(0));
        };
        let refusal = entry.refusal();
        let Held::Object(object) = &mut entry.held else {
            let reply = self.call(&format!("BF.MDEL {key} x y"));
            return assert_eq!(reply, error(refusal.expect("it is no object")));
        };
        if !object.kind.counts() {
            return assert_eq!(self.call(&format!("BF.DEL {key} x ID 5")), error(UNCOUNTED));
        }
        let held: Vec<usize> = object.counts.keys().copied().collect();
        if held.is_empty() {
            return;
        }
        let count = 1 + self.random.below(20);
        let items: BTreeSet<usize> = (0..count).map(|_| *self.random.pick(&held)).collect();
        let alone = object
            .told
            .as_ref()
            .is_some_and(|told| told.as_array().len() == 2);
        let answers = if object.kind == Kind::Ids {
            let mut answers = Vec::new();
            for number in &items {
                let id = *self.random.pick(&object.counts[number]);
                let ids = object.counts.get_mut(number).expect("it is held");
                let reply = self.call(&format!("BF.DEL {key} {} ID {id}", item(*number)));
                if reply == int(1) {
                    let at = ids.iter().position(|of| *of == id);
                    // The last one goes below.
                    let last = ids.len() - 1;
                    ids.swap(at.expect("it was picked"), last);
                }
                answers.push(reply);
            }
            answers
        } else {
            let words: Vec<String> = items.iter().map(|number| item(*number)).collect();
            let reply = self.call(&format!("BF.MDEL {key} {}", words.join(" ")));
            reply.as_array().to_vec()
        };
        assert_eq!(answers.len(), items.len());
        for (number, answer) in items.iter().zip(&answers) {
            // What was counted 15 times stays.
            let stays = *answer == int(0)
                && self
                    .call(&format!("BF.COUNT {key} {}", item(*number)))
                    .as_int()
                    >= 15;
            // Merged, an item may be in two filters, and so it may with several ids.
            let several = object.counts[number]
                .iter()
                .any(|id| *id != object.counts[number][0]);
            if !object.merged && !several && !stays {
                assert!(!alone || *answer == int(1), "{number} is not removed");
                self.removals.asked += 1;
                self.removals.mistaken += u64::from(*answer == int(0));
            }
            if *answer == int(1) {
                self.removed += 1;
                let ids = object.counts.get_mut(number).expect("it is held");
                ids.pop();
                if ids.is_empty() {
                    object.counts.remove(number);
                    object.items.remove(number);
                }
            } else {
                assert_eq!(*answer, int(0));
            }
        }
        self.is_written(key, object);
        self.put(key, entry);
    }

    /// Asks how many of some items are missing.
    fn ask_missing(&mut self, key: &str) {
        let items: BTreeSet<usize> = (0..40).map(|_| self.random.below(ITEMS)).collect();
        let words: Vec<String> = items.iter().map(|number| item(*number)).collect();
        // Twice: each counts once.
        let words = words.join(" ");
        let reply = self.call(&format!("BF.MISSING {key} {words} {words}"));
        let all = i64::try_from(items.len()).expect("a few");
        match self.entry(key).map(|entry| (entry.refusal(), &entry.held)) {
            None => assert_eq!(reply, int(all)),
            Some((Some(refusal), _)) => assert_eq!(reply, error(refusal)),
            Some((None, Held::Object(object))) => {
                let certain = items.iter().filter(|number| object.is_certain(**number));
                let known = items.iter().filter(|number| object.items.contains(*number));
                let most = items.len() - certain.count();
                let unknown = items.len() - known.count();
                let told = usize::try_from(reply.as_int()).expect("a count");
                assert!(told <= most, "{told} of {most}");
                if object.kind != Kind::Ids {
                    self.questions.asked += unknown as u64;
                    self.questions.mistaken += unknown.saturating_sub(told) as u64;
                }
            }
            Some(_) => unreachable!("an object refuses nothing"),
        }
    }

    /// Makes one of two objects.
    fn merge(&mut self, key: &str, other: &str) {
        let held = |entry: Option<&Entry>| match entry.map(|entry| (entry.refusal(), &entry.held)) {
            None => Err("ERR not found"),
            Some((Some(refusal), _)) => Err(refusal),
            Some((None, Held::Object(object))) => Ok(object.clone()),
            Some(_) => unreachable!("an object refuses nothing"),
        };
        let (to, from) = (held(self.entry(key)), held(self.entry(other)));
        let many = |object: &Result<Object, _>| {
            let told = object.as_ref().ok().and_then(|object| object.told.as_ref());
            told.is_some_and(|told| told.as_array().len() > 40)
        };
        if key == other || many(&to) || many(&from) {
            return;
        }
        let reply = self.call(&format!("BF.MERGE {key} {other}"));
        let (first, second) = match (to, from) {
            (Err(refusal), _) if refusal != "ERR not found" => {
                return assert_eq!(reply, error(refusal));
            }
            (_, Err(refusal)) => return assert_eq!(reply, error(refusal)),
            (Ok(first), Ok(second)) => (first, Some(second)),
            (Err(_), Ok(only)) => (only, None),
        };
        let mut merged = first;
        let mut rates = merged.error_rate;
        if let Some(second) = second {
            rates += second.error_rate;
            let kinds = |object: &Object| (object.kind.window(), object.kind.counts());
            let mut refusals = Vec::new();
            if kinds(&merged) != kinds(&second) {
                refusals.push("ERR filters are of different kinds");
            }
            if merged.seed != second.seed {
                refusals.push("ERR filters have different seeds");
            }
            if !refusals.is_empty() {
                let right = refusals.iter().any(|refusal| reply == error(refusal));
                return assert!(right, "{reply:?}");
            }
            // What is in one of them alone is removed without an id, or with that of one of them.
            if merged.kind != second.kind {
                merged.kind = Kind::Counting;
            }
            merged.items.extend(second.items);
            for (number, ids) in second.counts {
                // A union counts an item as often as either did.
                let own = merged.counts.entry(number).or_default();
                if ids.len() > own.len() {
                    *own = ids;
                }
            }
            for (number, at) in second.added_ms {
                let last = merged.added_ms.entry(number).or_default();
                *last = at.max(*last);
            }
            merged.next_id = merged.next_id.max(second.next_id);
        }
        if reply == error(RATES) {
            return assert!(rates > 0.05, "{rates}");
        }
        assert_eq!(reply, ok());
        merged.merged = true;
        let info = self.call(&format!("BF.INFO {key}"));
        let rate = info.as_array()[11].text().parse().expect("a rate");
        assert!(rate >= merged.error_rate, "{rate}");
        merged.error_rate = rate;
        self.is_written(key, &mut merged);
        let expires_ms = self.entry(key).map_or(-1, |entry| entry.expires_ms);
        let held = Held::Object(merged);
        self.put(key, Entry { held, expires_ms });
    }

    fn reserve(&mut self, key: &str) {
        let (mut object, line) = if self.random.one_in(4) {
            let reserve = format!("BF.RESERVE {key} 0.01 60");
            (self.default_object(), reserve)
        } else {
            let (options, object) = self.options();
            let words: Vec<&str> = options.split(' ').collect();
            let growth = words[6..].join(" ");
            let line = format!("BF.RESERVE {key} {} {} {growth}", words[3], words[1]);
            (object, line)
        };
        if line.ends_with(" 60") {
            object.capacity = 60;
        }
        object.tightening = 0.5;
        let reply = self.call(&line);
        if let Some(entry) = self.entry(key) {
            let refusal = entry.refusal().unwrap_or("ERR item exists");
            assert_eq!(reply, error(refusal));
        } else {
            assert_eq!(reply, ok());
            self.put(key, Entry::lasting(Held::Object(object)));
        }
    }

    fn copy(&mut self, key: &str, other: &str) {
        let database = self.random.below(DATABASES);
        let replace = self.random.one_in(2);
        let word = if replace { " REPLACE" } else { "" };
        let reply = self.call(&format!("COPY {key} {other} DB {database}{word}"));
        if database == self.database && key == other {
            return assert!(reply.is_error(), "{reply:?}");
        }
        let free = replace || !self.databases[database].contains_key(other);
        match self.entry(key).cloned() {
            Some(entry) if free => {
                assert_eq!(reply, int(1));
                self.databases[database].insert(other.to_owned(), entry);
            }
            _ => assert_eq!(reply, int(0)),
        }
    }

    fn rename(&mut self, key: &str, other: &str) {
        if self.random.one_in(3) {
            let reply = self.call(&format!("RENAMENX {key} {other}"));
            match (self.entry(key), self.entry(other)) {
                (None, _) => return assert!(reply.is_error(), "{reply:?}"),
                (_, Some(_)) => return assert_eq!(reply, int(0)),
                _ => assert_eq!(reply, int(1)),
            }
        } else {
            let reply = self.call(&format!("RENAME {key} {other}"));
            if self.entry(key).is_none() {
                return assert!(reply.is_error(), "{reply:?}");
            }
            assert_eq!(reply, ok());
        }
        self.renamed = true;
        if let Some(entry) = self.take(key) {
            self.put(other, entry);
        }
    }

    fn move_to(&mut self, key: &str) {
        let database = self.random.below(DATABASES);
        let reply = self.call(&format!("MOVE {key} {database}"));
        if database == self.database {
            return assert!(reply.is_error(), "{reply:?}");
        }
        if self.entry(key).is_none() || self.databases[database].contains_key(key) {
            return assert_eq!(reply, int(0));
        }
        assert_eq!(reply, int(1));
        self.renamed = true;
        if let Some(entry) = self.take(key) {
            self.databases[database].insert(key.to_owned(), entry);
        }
    }

    fn delete(&mut self, key: &str, other: &str) {
        if self.random.one_in(4) {
            let set = format!("SET {key} text");
            self.is_ok(&set);
            return self.put(key, Entry::lasting(Held::Text));
        }
        let command = self.random.pick(&["DEL", "UNLINK"]);
        let reply = self.call(&format!("{command} {key} {other}"));
        let gone = [self.take(key), self.take(other)];
        let gone = gone.iter().flatten().count();
        assert_eq!(reply, int(i64::try_from(gone).expect("at most 2")));
    }

    fn expire(&mut self, key: &str) {
        let Some(mut entry) = self.entry(key).cloned() else {
            return assert_eq!(self.call(&format!("PEXPIRE {key} 1")), int(0));
        };
        match self.random.below(3) {
            0 => {
                self.call(&format!("PERSIST {key}"));
                entry.expires_ms = -1;
            }
            1 => {
                assert_eq!(self.call(&format!("PEXPIRE {key} 100000000")), int(1));
                let expires = self.call(&format!("PEXPIRETIME {key}"));
                entry.expires_ms = expires.as_int();
            }
            _ => {
                assert_eq!(self.call(&format!("PEXPIRE {key} 1")), int(1));
                self.take(key);
                return wait_until("the key has expired", || {
                    self.client.cmd(&format!("EXISTS {key}")) == int(0)
                });
            }
        }
        self.put(key, entry);
    }

    fn restore(&mut self, key: &str, other: &str) {
        let payload = self.call(&format!("DUMP {key}"));
        match self.entry(key).cloned() {
            Some(entry) => self.restore_payload(other, payload.as_bytes(), entry.held),
            None => assert_eq!(payload, nil()),
        }
    }

    /// A value of a sketch, as RedisBloom wrote it.
    fn restore_sketch(&mut self, key: &str) {
        let sketch = Rc::clone(self.random.pick(&self.sketches));
        self.restore_payload(key, &sketch.payload(), Held::Sketch(sketch));
    }

    fn restore_payload(&mut self, other: &str, payload: &[u8], held: Held) {
        let replace = self.random.one_in(2);
        let ttl = *self.random.pick(&["0", "100000000"]);
        let mut restore: Vec<&[u8]> = vec![b"RESTORE", other.as_bytes(), ttl.as_bytes()];
        restore.push(payload);
        if replace {
            restore.push(b"REPLACE");
        }
        let reply = self.client.call(&restore);
        self.note(&format!("RESTORE {other} {ttl} {replace}: {reply:?}"));
        if !replace && self.entry(other).is_some() {
            return assert_eq!(reply, error(BUSY));
        }
        assert_eq!(reply, ok());
        self.loaded(other, held, ttl);
    }

    fn loaded(&mut self, key: &str, held: Held, ttl: &str) {
        let mut entry = Entry::lasting(held);
        if ttl != "0" {
            let expires = self.call(&format!("PEXPIRETIME {key}"));
            entry.expires_ms = expires.as_int();
            assert!(entry.expires_ms > 0);
        }
        self.put(key, entry);
    }

    /// The chunks of an object, or `None` where BF.SCANDUMP rightly refuses.
    fn chunks(&mut self, key: &str) -> Option<(Object, Pieces)> {
        let reply = self.call(&format!("BF.SCANDUMP {key} 0"));
        let entry = self.entry(key);
        if let Some(Held::Object(object)) = entry.map(|entry| &entry.held) {
            let object = object.clone();
            return Some((object, pieces(&mut self.client, key)));
        }
        let refusal = entry.map_or(Some("ERR not found"), Entry::refusal);
        assert_eq!(reply, error(refusal.expect("it is no object")));
        None
    }

    fn load(&mut self, key: &str, other: &str) {
        let Some((object, chunks)) = self.chunks(key) else {
            return;
        };
        let dump = dump_of(&chunks);
        let ttl = *self.random.pick(&["0", "100000000"]);
        let load: [&[u8]; 4] = [b"BF.LOAD", other.as_bytes(), &dump, ttl.as_bytes()];
        let reply = self.client.call(&load);
        self.note(&format!("BF.LOAD {other} {ttl}: {reply:?}"));
        if let Some(entry) = self.entry(other) {
            assert_eq!(reply, error(entry.refusal().unwrap_or(BUSY)));
        } else {
            assert_eq!(reply, ok());
            self.loaded(other, Held::Object(object), ttl);
        }
    }

    fn load_chunks(&mut self, key: &str, other: &str) {
        let Some((object, chunks)) = self.chunks(key) else {
            return;
        };
        let bytes: usize = chunks[1..].iter().map(|(_, chunk)| chunk.len()).sum();
        let least = bytes / 30 + 1;
        let chunks = split(&chunks, least + self.random.below(bytes.max(1)));
        let reply = self.load_chunk(other, &chunks[0]);
        if let Some(entry) = self.entry(other) {
            return assert_eq!(reply, error(entry.refusal_to_load()));
        }
        assert_eq!(reply, ok());
        if bytes == 0 {
            // All periods have passed, and the header is the whole of it.
            return self.put(other, Entry::lasting(Held::Object(object)));
        }
        let half = Held::Half(object, chunks[1..].to_vec());
        self.put(other, Entry::lasting(half));
        self.go_on_loading(other);
    }

    fn load_chunk(&mut self, key: &str, (cursor, chunk): &(u64, Vec<u8>)) -> Reply {
        let cursor = cursor.to_string();
        let load: [&[u8]; 4] = [b"BF.LOADCHUNK", key.as_bytes(), cursor.as_bytes(), chunk];
        let reply = self.client.call(&load);
        let length = chunk.len();
        self.note(&format!(
            "BF.LOADCHUNK {key} {cursor} ({length}): {reply:?}"
        ));
        reply
    }

    /// Loads all chunks that an object lacks, or some.
    fn go_on_loading(&mut self, key: &str) {
        let Some(mut entry) = self.entry(key).cloned() else {
            let reply = self.load_chunk(key, &(3, vec![1, 2]));
            return assert_eq!(reply, error("ERR received bad data"));
        };
        let Held::Half(object, chunks) = &mut entry.held else {
            return;
        };
        if chunks.len() > 1 {
            // Out of turn.
            let reply = self.load_chunk(key, &chunks[1]);
            assert_eq!(reply, error("ERR received bad data"));
        }
        let all = self.random.one_in(2);
        let count = if all {
            chunks.len()
        } else {
            self.random.below(chunks.len() + 1)
        };
        for chunk in chunks.drain(..count) {
            assert_eq!(self.load_chunk(key, &chunk), ok());
        }
        if chunks.is_empty() {
            entry.held = Held::Object(object.clone());
        }
        self.put(key, entry);
    }

    fn whole_databases(&mut self) {
        match self.random.below(8) {
            0..4 => {
                let (one, two) = (self.random.below(DATABASES), self.random.below(DATABASES));
                self.is_ok(&format!("SWAPDB {one} {two}"));
                self.databases.swap(one, two);
            }
            4..7 => {
                let mode = *self.random.pick(&["SYNC", "ASYNC"]);
                self.is_ok(&format!("FLUSHDB {mode}"));
                self.databases[self.database].clear();
            }
            _ => {
                let mode = *self.random.pick(&["SYNC", "ASYNC"]);
                self.is_ok(&format!("FLUSHALL {mode}"));
                self.databases = vec![BTreeMap::new(); DATABASES];
            }
        }
    }

    fn whole_server(&mut self) -> &'static str {
        let kind = match self.random.below(6) {
            0 => {
                self.is_ok("DEBUG RELOAD");
                "reload"
            }
            1 | 2 => {
                let preamble = *self.random.pick(&["yes", "no"]);
                self.is_ok(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
                let reply = self.call("BGREWRITEAOF");
                let under_way = reply.is_error();
                assert!(!under_way || reply.text().contains("already in progress"));
                if self.random.one_in(2) {
                    log_is_complete(&self.primary);
                }
                return "rewrite";
            }
            _ if self.replica.is_some() => self.two_servers(),
            3 => {
                // It is the log that counts: of a rewrite under way there may be nothing.
                self.primary.kill();
                self.primary.start_again();
                self.connect();
                "kill"
            }
            _ => {
                self.primary.restart();
                self.connect();
                "restart"
            }
        };
        self.note(kind);
        self.check_all(false);
        kind
    }
}

/// Awaits that the AOF holds all: none is being rewritten, nor begun after a full resync.
#[track_caller]
fn log_is_complete(server: &Server) {
    wait_until("the AOF is written", || {
        let info = server.info("persistence");
        info["aof_enabled"] == "1"
            && info["aof_rewrite_in_progress"] == "0"
            && info["aof_rewrite_scheduled"] == "0"
    });
}

/// What takes a replica.
impl Life {
    fn replica(&self) -> &Server {
        self.replica.as_ref().expect("there is a replica")
    }

    fn attach(&self) {
        let follow = format!("REPLICAOF 127.0.0.1 {}", self.primary.port());
        let reply = self.replica().client().cmd(&follow);
        assert!(!reply.is_error(), "{reply:?}");
    }

    fn two_servers(&mut self) -> &'static str {
        match self.random.below(8) {
            0 => {
                assert!(self.call("CLIENT KILL TYPE replica").as_int() < 2);
                "cut"
            }
            1 => {
                // It goes its own way for a while, of which nothing is to remain.
                let mut own = self.replica().client();
                self.are_the_same();
                assert_eq!(own.cmd("REPLICAOF NO ONE"), ok());
                for number in 0..KEYS {
                    own.cmd(&format!("BF.MADD key-{number} own-1 own-2 own-3"));
                    own.cmd(&format!("RENAME key-{number} own-{number}"));
                }
                ledger::is_balanced(&mut own);
                self.attach();
                self.are_the_same();
                "own way"
            }
            2 => {
                self.are_the_same();
                log_is_complete(self.replica());
                if let Some(replica) = &mut self.replica {
                    replica.kill();
                    replica.start_again();
                }
                // It has kept all, before it hears of the primary again.
                self.check_all(true);
                self.attach();
                "replica killed"
            }
            3 => {
                log_is_complete(&self.primary);
                self.primary.kill();
                self.primary.start_again();
                self.connect();
                self.attach();
                "primary killed"
            }
            4 | 5 => {
                self.are_the_same();
                "sync"
            }
            _ => {
                self.fail_over();
                "failover"
            }
        }
    }

    /// Awaits that the replica is in sync, and compares.
    fn are_the_same(&mut self) {
        wait_in_sync(&self.primary, self.replica());
        let (mut one, mut two) = (self.primary.client(), self.replica().client());
        for (database, entries) in self.databases.iter().enumerate() {
            for client in [&mut one, &mut two] {
                assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
            }
            for key in entries.keys() {
                assert_eq!(digest(&mut one, key), digest(&mut two, key), "{key}");
            }
        }
        self.check_all(true);
        wait_until("nothing is being freed", || {
            let info = two.cmd("INFO memory").text();
            info.contains("lazyfree_pending_objects:0\r")
        });
        ledger::is_balanced(&mut two);
    }

    fn fail_over(&mut self) {
        // A write that changes something, so that there is something to wait for.
        let key = self.key();
        self.add(&key);
        wait_until("the replica has all", || {
            self.client.cmd("WAIT 1 1000") == int(1)
        });
        log_is_complete(&self.primary);
        log_is_complete(self.replica());
        let mut next = self.replica.take().expect("there is a replica");
        let promote = || assert_eq!(next.client().cmd("REPLICAOF NO ONE"), ok());
        if self.random.one_in(2) {
            promote();
            self.primary.kill();
        } else {
            self.primary.kill();
            promote();
        }
        std::mem::swap(&mut self.primary, &mut next);
        self.connect();
        self.renamed = true;
        self.note("failover");
        self.check_all(false);
        // The old one misses some steps.
        for _ in 0..self.random.below(6) {
            let (key, other) = (self.key(), self.key());
            self.add(&key);
            self.rename(&key, &other);
            self.check_keys(&[key, other]);
        }
        next.start_again();
        self.replica = Some(next);
        self.attach();
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
fn objects_are_what_they_must_be() {
    let random = Random::new("objects_are_what_they_must_be");
    let life = Life::new(settings(40).start(), None, random);
    live(life, Budget::rounds(1500));
}

#[test]
fn objects_are_what_they_must_be_on_two_servers() {
    let random = Random::new("objects_are_what_they_must_be_on_two_servers");
    let primary = settings(40).start();
    let follow = format!("127.0.0.1 {}", primary.port());
    let replica = settings(25).start();
    let reply = replica.client().cmd(&format!("REPLICAOF {follow}"));
    assert_eq!(reply, ok());
    let life = Life::new(primary, Some(replica), random);
    live(life, Budget::rounds(400));
}
