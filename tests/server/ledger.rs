//! INFO bf equals the sum over the keyspace, at every moment.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::{fs, iter};

use crate::carried;
use crate::cuckoo;
use crate::forged::{Forged, seal};
use crate::harness::{Client, Reply, Server, error, int, ok, simple, wait_in_sync, wait_until};
use crate::pieces::{Pieces, load_chunks, object, pieces, split};
use crate::population::Population;
use crate::protocols::with_fixed_seed;
use crate::random::Random;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    bytes: i64,
    objects: i64,
    filters: i64,
    items: i64,
    capacity: i64,
    half_loaded: i64,
    /// Of the object that has the most: no sum, but as exact.
    max_filters: i64,
    carried: i64,
    carried_bytes: i64,
    /// Of cuckoo filters.
    cuckoo: Cuckoos,
    cuckoo_bytes: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cuckoos {
    objects: i64,
    filters: i64,
    items: i64,
    slots: i64,
    /// Of the object that has the most.
    max_filters: i64,
}

impl Cuckoos {
    /// Adds an object as CF.INFO tells of it.
    fn add(&mut self, info: &Reply) {
        let field = |index: usize| info.as_array()[2 * index + 1].as_int();
        let (size, filters, items) = (field(0), field(2), field(3));
        self.objects += 1;
        self.filters += filters;
        // RedisBloom's overhead is in the size.
        let slots = size - 40 - 16 * filters;
        // A header may claim more items than there are slots.
        self.items += items.min(slots);
        self.slots += slots;
        self.max_filters = self.max_filters.max(filters);
    }
}

impl Sums {
    /// What INFO tells.
    #[track_caller]
    fn told(client: &mut Client) -> Self {
        Self::of(&client.cmd("INFO bf").text())
    }

    #[track_caller]
    fn of(info: &str) -> Self {
        let field = |name: &str| {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.strip_prefix(':'));
            let value = value.unwrap_or_else(|| panic!("no {name} in {info:?}"));
            value.parse::<i64>().expect("a number, not below 0")
        };
        Self {
            bytes: field("bf_bloom_total_memory_bytes"),
            objects: field("bf_bloom_num_objects"),
            filters: field("bf_bloom_num_filters_across_objects"),
            items: field("bf_bloom_num_items_across_objects"),
            capacity: field("bf_bloom_capacity_across_objects"),
            half_loaded: field("bf_bloom_num_half_loaded_objects"),
            max_filters: field("bf_bloom_max_filters_in_object"),
            carried: field("bf_carried_num_values"),
            carried_bytes: field("bf_carried_memory_bytes"),
            cuckoo: Cuckoos {
                objects: field("bf_cuckoo_num_objects"),
                filters: field("bf_cuckoo_num_filters_across_objects"),
                items: field("bf_cuckoo_num_items_across_objects"),
                slots: field("bf_cuckoo_num_slots_across_objects"),
                max_filters: field("bf_cuckoo_max_filters_in_object"),
            },
            cuckoo_bytes: field("bf_cuckoo_total_memory_bytes"),
        }
    }

    /// All but the bytes: what is half loaded has other spare room in another server.
    fn counts(self) -> Self {
        Self {
            bytes: 0,
            carried_bytes: 0,
            cuckoo_bytes: 0,
            ..self
        }
    }
}

/// What MEMORY USAGE counts for a key beyond its value, at the most.
const PER_KEY_MAX: i64 = 200;

/// Compares INFO with the sum over BF.INFO of all keys of all databases. The connection is in the
/// first database then.
#[track_caller]
pub fn is_balanced(client: &mut Client) {
    is_balanced_after(client, "what was done");
}

#[track_caller]
fn is_balanced_after(client: &mut Client, step: &str) {
    let told = Sums::told(client);
    let mut sums = Sums::default();
    // BF.INFO does not tell the size of what is half loaded, MEMORY USAGE does but for the key.
    let mut half_bytes = 0;
    let keyspace = client.cmd("INFO keyspace").text();
    let databases = keyspace.lines().filter_map(|line| {
        let (name, _) = line.split_once(':')?;
        name.strip_prefix("db")?.parse::<u32>().ok()
    });
    for database in databases {
        assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
        let keys = client.cmd("KEYS *");
        let keys = keys.as_array();
        for key in keys {
            client.send_args(&[b"BF.INFO", key.as_bytes()]);
            client.send_args(&[b"CF.INFO", key.as_bytes()]);
            client.send_args(&[b"MEMORY", b"USAGE", key.as_bytes()]);
            client.send_args(&[b"TYPE", key.as_bytes()]);
        }
        let mut windowed = Vec::new();
        for key in keys {
            let [info, cuckoo_info, usage, kind] = [(); 4].map(|()| client.read());
            match info {
                _ if carried::TYPES.contains(&kind.text().as_str()) => {
                    sums.carried += 1;
                    sums.carried_bytes += usage.as_int();
                }
                _ if kind == simple(cuckoo::TYPE) => {
                    sums.cuckoo.add(&cuckoo_info);
                    sums.cuckoo_bytes += usage.as_int();
                }
                Reply::Array(fields) => {
                    sums.objects += 1;
                    sums.bytes += fields[3].as_int();
                    // BF.INFO tells what answers. What has passed and is not freed yet is held, too.
                    if fields.contains(&simple("Window")) {
                        windowed.push(key.as_bytes().to_vec());
                        continue;
                    }
                    sums.capacity += fields[1].as_int();
                    sums.filters += fields[5].as_int();
                    sums.max_filters = sums.max_filters.max(fields[5].as_int());
                    sums.items += fields[7].as_int();
                }
                Reply::Error(text) if text == "ERR bloom object is still being loaded" => {
                    sums.objects += 1;
                    sums.half_loaded += 1;
                    half_bytes += usage.as_int();
                }
                other => assert!(other.text().starts_with("WRONGTYPE "), "{other:?}"),
            }
        }
        for key in windowed {
            let held = object(&pieces(client, &String::from_utf8_lossy(&key)));
            let (filters, items, capacity) = held.totals();
            let signed = |number: u64| i64::try_from(number).expect("a number of this size");
            sums.filters += signed(filters);
            sums.max_filters = sums.max_filters.max(signed(filters));
            sums.items += signed(items);
            sums.capacity += signed(capacity);
        }
    }
    assert_eq!(client.cmd("SELECT 0"), ok());
    let beyond = half_bytes - (told.bytes - sums.bytes);
    assert!(
        (0..=sums.half_loaded * PER_KEY_MAX).contains(&beyond),
        "after {step}: {told:?} told, {sums:?} and {half_bytes} bytes of what is half loaded are there"
    );
    sums.bytes = told.bytes;
    for (usage, told_bytes, values) in [
        (&mut sums.carried_bytes, told.carried_bytes, sums.carried),
        (
            &mut sums.cuckoo_bytes,
            told.cuckoo_bytes,
            sums.cuckoo.objects,
        ),
    ] {
        let beyond = *usage - told_bytes;
        assert!(
            (0..=values * PER_KEY_MAX).contains(&beyond),
            "after {step}: {usage} bytes of {values} values, {told:?} told"
        );
        *usage = told_bytes;
    }
    assert_eq!(told, sums, "after {step}: told, and there");
}

/// Steps of a random life, each of which leaves INFO right at once.
struct Life {
    client: Client,
    random: Random,
    /// A dump, a payload of RESTORE, and the pieces, of an object of some filters.
    dump: Vec<u8>,
    payload: Vec<u8>,
    pieces: Pieces,
}

const DATABASES: usize = 4;

impl Life {
    fn new(server: &Server, seed: u64) -> Self {
        let mut client = server.client();
        let create = "BF.INSERT sample CAPACITY 20 EXPANSION 1 ITEMS";
        let items: Vec<String> = (0..200).map(|i| i.to_string()).collect();
        let created = client.cmd(&format!("{create} {}", items.join(" ")));
        assert!(!created.is_error());
        let payload = client.cmd("DUMP sample").as_bytes().to_vec();
        let pieces = split(&pieces(&mut client, "sample"), 300);
        assert_eq!(client.cmd("DEL sample"), int(1));
        Self {
            client,
            random: Random(seed),
            dump: Forged::new().dump(),
            payload,
            pieces,
        }
    }

    fn key(&mut self) -> String {
        format!("key-{}", self.random.below(10))
    }

    fn call(&mut self, line: &str) -> Reply {
        self.client.cmd(line)
    }

    /// A write to a key, which tells the module where a value is that was given another key.
    fn touch(&mut self, key: &str) {
        self.call(&format!("BF.ADD {key} touched"));
    }

    /// The next step, in words for a message.
    fn step(&mut self) -> String {
        let (key, other) = (self.key(), self.key());
        let database = self.random.below(DATABASES);
        if self.random.one_in(4) {
            self.call(&format!("SELECT {database}"));
        }
        match self.random.below(10) {
            0..3 => self.write(&key),
            3 | 4 => self.remove(&key, &other),
            5 | 6 => self.copy_or_move(&key, &other, database),
            7 | 8 => self.load(&key),
            _ if self.random.one_in(2) => self.databases(database),
            _ => self.together(&key, &other),
        }
    }

    fn write(&mut self, key: &str) -> String {
        let line = if self.random.one_in(2) {
            let capacity = self.random.pick(&[1, 10, 200, 3000, 50_000]);
            let growth = self.random.pick(&["", "NONSCALING ", "EXPANSION 1 "]);
            format!("BF.INSERT {key} {growth}CAPACITY {capacity} ITEMS a b c d")
        } else {
            let items = (0..60).map(|_| self.random.below(100_000).to_string());
            let items: Vec<String> = items.collect();
            format!("BF.MADD {key} {}", items.join(" "))
        };
        self.call(&line);
        line
    }

    fn remove(&mut self, key: &str, other: &str) -> String {
        let line = match self.random.below(9) {
            0..3 => format!("DEL {key} {other}"),
            3..5 => format!("UNLINK {key} {other}"),
            5 => format!("SET {key} string"),
            // The empty set that it stores is no key.
            6 => format!("SUNIONSTORE {key} nothing"),
            _ => {
                let active = self.random.below(2);
                self.call(&format!("DEBUG SET-ACTIVE-EXPIRE {active}"));
                self.call(&format!("PEXPIRE {key} 1"));
                wait_until("the key has expired", || {
                    self.client.cmd(&format!("EXISTS {key}")) == int(0)
                });
                "DEBUG SET-ACTIVE-EXPIRE 1".to_owned()
            }
        };
        self.call(&line);
        line
    }

    fn copy_or_move(&mut self, key: &str, other: &str, database: usize) -> String {
        let line = match self.random.below(4) {
            0 => {
                let replace = self.random.pick(&["", " REPLACE"]);
                format!("COPY {key} {other}{replace}")
            }
            1 => format!("COPY {key} {other} DB {database} REPLACE"),
            // Often over an object, and sometimes over itself.
            2 => format!("RENAME {key} {other}"),
            _ => format!("MOVE {key} {database}"),
        };
        let reply = self.call(&line);
        if line.starts_with("RENAME") && reply == ok() {
            self.touch(other);
        }
        if line.starts_with("MOVE") && reply == int(1) {
            self.call(&format!("SELECT {database}"));
            self.touch(key);
        }
        line
    }

    fn load(&mut self, key: &str) -> String {
        let name = key.as_bytes();
        match self.random.below(8) {
            0 | 1 => {
                let ttl = self.random.pick(&["0", "100000"]).as_bytes();
                let args: [&[u8]; 5] = [b"RESTORE", name, ttl, &self.payload, b"REPLACE"];
                assert_eq!(self.client.call(&args), ok());
                format!("RESTORE {key}")
            }
            2 => {
                let (value, footer) = self.payload.split_at(self.payload.len() - 10);
                let cut = seal(value[..value.len() - 20].to_vec(), [footer[0], footer[1]]);
                let args: [&[u8]; 5] = [b"RESTORE", name, b"0", &cut, b"REPLACE"];
                let reply = self.client.call(&args);
                assert_eq!(reply, error("ERR Bad data format"));
                "a RESTORE that fails".to_owned()
            }
            3 => {
                let load: [&[u8]; 3] = [b"BF.LOAD", name, &self.dump];
                self.client.call(&load);
                format!("BF.LOAD {key}")
            }
            4 => {
                let cut = &self.dump[..self.dump.len() - 5];
                let load: [&[u8]; 3] = [b"BF.LOAD", name, cut];
                assert!(self.client.call(&load).is_error());
                "a BF.LOAD that fails".to_owned()
            }
            _ => {
                let count = self.random.below(self.pieces.len() * 2).max(1);
                for (cursor, bytes) in self.pieces.iter().take(count) {
                    let cursor = cursor.to_string();
                    let args: [&[u8]; 4] = [b"BF.LOADCHUNK", name, cursor.as_bytes(), bytes];
                    if self.client.call(&args) != ok() {
                        break;
                    }
                    is_balanced_here(&mut self.client, "a chunk");
                }
                format!("{count} chunks to {key}")
            }
        }
    }

    fn databases(&mut self, database: usize) -> String {
        let mode = self.random.pick(&["SYNC", "ASYNC"]);
        let line = match self.random.below(10) {
            0..4 => format!("SWAPDB {database} {}", self.random.below(DATABASES)),
            4..7 => format!("FLUSHDB {mode}"),
            7 => format!("FLUSHALL {mode}"),
            _ => "DEBUG RELOAD".to_owned(),
        };
        assert_eq!(self.call(&line), ok());
        line
    }

    fn together(&mut self, key: &str, other: &str) -> String {
        if self.random.one_in(2) {
            for line in [
                "MULTI".to_owned(),
                format!("BF.ADD {key} item"),
                format!("UNLINK {other}"),
                format!("BF.RESERVE {other} 0.01 100"),
                format!("COPY {other} {key} REPLACE"),
                "EXEC".to_owned(),
            ] {
                self.call(&line);
            }
            return "a transaction".to_owned();
        }
        let script = "redis.call('DEL', KEYS[1]) redis.call('BF.ADD', KEYS[1], 'x') \
            redis.call('UNLINK', KEYS[2]) redis.call('BF.RESERVE', KEYS[2], 0.1, 9)";
        let (one, two) = (key.as_bytes(), other.as_bytes());
        let eval: [&[u8]; 5] = [b"EVAL", script.as_bytes(), b"2", one, two];
        self.client.call(&eval);
        "a script".to_owned()
    }
}

/// The same for a connection that is to stay in its database.
#[track_caller]
fn is_balanced_here(client: &mut Client, step: &str) {
    let info = client.cmd("CLIENT INFO").text();
    let mut fields = info.split(' ');
    let database = fields.find_map(|field| field.strip_prefix("db="));
    let database = database.expect("the server tells it").to_owned();
    is_balanced_after(client, step);
    assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
}

#[test]
fn info_is_right_after_every_step() {
    let server = Server::with(&[("databases", "4")]);
    for seed in 0..2 {
        let mut life = Life::new(&server, seed);
        for number in 0..600 {
            let step = life.step();
            is_balanced_here(
                &mut life.client,
                &format!("step {number} of {seed}, {step}"),
            );
        }
        assert_eq!(life.call("FLUSHALL ASYNC"), ok());
        assert_eq!(Sums::told(&mut life.client), Sums::default());
    }
}

#[test]
fn the_deepest_stack_is_told_however_it_goes() {
    let server = with_fixed_seed();
    let mut client = server.client();
    let mut next = |line: &str, deepest: i64| {
        assert!(!client.cmd(line).is_error(), "{line}");
        nothing_is_being_freed(&server);
        assert_eq!(Sums::told(&mut client).max_filters, deepest, "{line}");
    };
    // With this seed and rate none of the items is taken for another.
    next("BF.RESERVE one 1e-9 1 EXPANSION 1", 1);
    next("BF.MADD one 1 2 3 4 5 6", 6);
    next(
        "BF.INSERT other ERROR 1e-9 CAPACITY 2 EXPANSION 1 ITEMS 1 2 3",
        6,
    );
    next("COPY one same", 6);
    next("DEL one", 6);
    next("RENAME same one", 6);
    next("UNLINK one", 2);
    next("BF.MADD other 4 5 6 7 8", 4);
    next("COPY other other DB 3", 4);
    next("SWAPDB 0 1", 4);
    next("FLUSHDB ASYNC", 4);
    next("DEBUG RELOAD", 4);
    next("SWAPDB 1 2", 4);
    next("SELECT 3", 4);
    next("BF.MADD other 9 10", 5);
    next("FLUSHDB", 4);
    next("FLUSHALL ASYNC", 0);
}

#[test]
fn an_expired_key_counts_until_it_is_deleted() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
    assert_eq!(client.cmd("BF.ADD lasting item"), int(1));
    assert_eq!(client.cmd("BF.ADD brief item"), int(1));
    assert_eq!(client.cmd("PEXPIRE brief 1"), int(1));
    wait_until("the time is over", || {
        client.cmd("KEYS *").as_array().len() == 1
    });
    assert_eq!(client.cmd("DBSIZE"), int(2));
    assert_eq!(Sums::told(&mut client).objects, 2);
    assert_eq!(client.cmd("BF.EXISTS brief item"), int(0));
    assert_eq!(client.cmd("DBSIZE"), int(1));
    is_balanced(&mut client);
}

#[test]
fn a_value_that_gets_another_key_is_counted() {
    let server = Server::start();
    let mut client = server.client();
    let population = Population::new(&mut client);
    let before = Sums::told(&mut client);
    for key in population.keys() {
        assert_eq!(client.cmd(&format!("RENAME {key} {key}-renamed")), ok());
    }
    nothing_is_being_freed(&server);
    assert_eq!(Sums::told(&mut client), before);
    is_balanced(&mut client);
    for key in population.keys() {
        assert_eq!(client.cmd(&format!("MOVE {key}-renamed 2")), int(1));
    }
    assert_eq!(Sums::told(&mut client), before);
    is_balanced(&mut client);
    assert_eq!(client.cmd("SWAPDB 0 2"), ok());
    assert_eq!(Sums::told(&mut client), before);
    assert_eq!(client.cmd("FLUSHALL SYNC"), ok());
    assert_eq!(Sums::told(&mut client), Sums::default());
}

/// INFO at a moment at which the server is freeing something in the background.
#[track_caller]
fn told_while_freeing(client: &mut Client) -> Sums {
    let fill = "for i = 1, 300000, 5000 do local items = {} \
        for j = i, i + 4999 do items[j - i + 1] = 'item number ' .. j end \
        redis.call('SADD', KEYS[1], unpack(items)) end";
    let eval: [&[u8]; 4] = [b"EVAL", fill.as_bytes(), b"1", b"a large set"];
    assert_eq!(client.call(&eval), Reply::Nil);
    for line in ["MULTI", "UNLINK KEY", "INFO memory", "INFO bf"] {
        let words = line.split(' ').map(|word| match word {
            "KEY" => b"a large set".as_slice(),
            word => word.as_bytes(),
        });
        client.call(&words.collect::<Vec<_>>());
    }
    let replies = client.cmd("EXEC");
    let replies = replies.as_array();
    let memory = replies[1].text();
    assert!(memory.contains("lazyfree_pending_objects:"), "{memory}");
    assert!(!memory.contains("lazyfree_pending_objects:0"), "{memory}");
    Sums::of(&replies[2].text())
}

#[test]
fn a_write_to_a_renamed_value_counts_it_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let items: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    let create = format!("BF.INSERT ready CAPACITY 20 ITEMS {}", items.join(" "));
    assert!(!client.cmd(&create).is_error());
    let pieces = split(&pieces(&mut client, "ready"), 64);
    let (last, first) = pieces.split_last().expect("some pieces");
    let (next, first) = first.split_last().expect("some pieces");
    load_chunks(&mut client, "half", first);
    for key in ["ready", "half"] {
        assert_eq!(client.cmd(&format!("RENAME {key} {key}-renamed")), ok());
    }
    assert_eq!(client.cmd("BF.ADD ready-renamed 0"), int(0));
    load_chunks(&mut client, "half-renamed", std::slice::from_ref(next));
    assert_eq!(told_while_freeing(&mut client).objects, 2, "half loaded");
    load_chunks(&mut client, "half-renamed", std::slice::from_ref(last));
    let told = told_while_freeing(&mut client);
    assert_eq!(told.objects, 2, "loaded to its end");
    assert_eq!(Sums::told(&mut client), told);
    is_balanced(&mut client);
}

pub fn nothing_is_being_freed(server: &Server) {
    wait_until("nothing is being freed", || {
        server.info("memory")["lazyfree_pending_objects"] == "0"
    });
}

/// The data of a server in every database: objects of all kinds, some of them renamed.
fn populate(server: &Server) -> Population {
    let mut client = server.client();
    let population = Population::new(&mut client);
    for (index, key) in population.keys().enumerate() {
        let reply = client.cmd(&format!("COPY {key} {key} DB {}", 1 + index % 3));
        assert_eq!(reply, int(1));
    }
    is_balanced(&mut client);
    population
}

#[test]
fn a_replica_counts_what_it_has() {
    let primary = Server::start();
    let mut client = primary.client();
    for (without_file, load) in [("no", "disabled"), ("yes", "disabled"), ("yes", "swapdb")] {
        let population = populate(&primary);
        let expected = Sums::told(&mut client);
        let set = format!("CONFIG SET repl-diskless-sync {without_file}");
        assert_eq!(client.cmd(&set), ok());
        let replica = Server::with(&[("repl-diskless-load", load)]);
        let mut own = replica.client();
        populate(&replica);
        for key in ["fixed", "half-1", "saturated"] {
            assert_eq!(own.cmd(&format!("RENAME {key} {key}-own")), ok());
        }
        let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
        assert_eq!(own.cmd(&follow), ok());
        wait_in_sync(&primary, &replica);
        nothing_is_being_freed(&replica);
        let told = Sums::told(&mut own);
        assert_eq!(told.counts(), expected.counts(), "{without_file} {load}");
        is_balanced(&mut own);
        population.is_unchanged(&mut own);

        assert_eq!(client.cmd("BF.MADD empty a b c").as_array().len(), 3);
        assert_eq!(client.cmd("COPY empty copied DB 3"), int(1));
        assert_eq!(client.cmd("UNLINK empty"), int(1));
        assert_eq!(client.cmd("COPY one-filter copied DB 2"), int(1));
        wait_in_sync(&primary, &replica);
        is_balanced(&mut own);
        assert_eq!(client.cmd("FLUSHALL ASYNC"), ok());
        wait_in_sync(&primary, &replica);
        assert_eq!(Sums::told(&mut own), Sums::default());
    }
}

/// Not every server says which database the data is for that a full resync loads beside the old.
#[test]
fn a_database_is_flushed_alone_after_a_full_resync() {
    let primary = Server::with(&[("databases", "4")]);
    let mut client = primary.client();
    populate(&primary);
    let replica = Server::with(&[("databases", "4"), ("repl-diskless-load", "swapdb")]);
    let mut own = replica.client();
    populate(&replica);
    let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    assert_eq!(own.cmd(&follow), ok());
    wait_in_sync(&primary, &replica);
    is_balanced_after(&mut own, "the resync");
    for line in [
        "BF.ADD one-filter another",
        "COPY one-filter copied DB 2",
        "RENAME five-filters renamed",
        "BF.ADD renamed another",
        "UNLINK twenty-filters",
        "SWAPDB 0 1",
        "FLUSHDB ASYNC",
        "SWAPDB 2 3",
        "SELECT 2",
        "FLUSHDB SYNC",
        "FLUSHDB",
        "BF.ADD new item",
        "SWAPDB 2 3",
        "SELECT 1",
    ] {
        assert!(!client.cmd(line).is_error(), "{line}");
        wait_in_sync(&primary, &replica);
        nothing_is_being_freed(&replica);
        is_balanced_after(&mut own, line);
    }
    // Even while nobody has freed what was flushed.
    assert_eq!(own.cmd("REPLICAOF NO ONE"), ok());
    let left = Sums::told(&mut own);
    assert!(left.objects > 10, "{left:?}");
    for line in ["MULTI", "SELECT 1", "FLUSHDB ASYNC", "INFO bf", "SELECT 0"] {
        own.cmd(line);
    }
    let replies = own.cmd("EXEC");
    let told = Sums::of(&replies.as_array()[2].text());
    assert_eq!(Sums::told(&mut own), told);
    is_balanced_after(&mut own, "FLUSHDB of a database of many objects");
    assert_eq!(own.cmd("FLUSHALL ASYNC"), ok());
    assert_eq!(Sums::told(&mut own), Sums::default());
}

/// Plays a primary that sends so much of an RDB file and breaks off; or, with commands to send after
/// it, all of it, these, and nothing more. Gives its port.
pub fn played_primary(rdb: Vec<u8>, then: Option<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let first = listener.accept();
        // A replica tries again; it finds nobody then.
        drop(listener);
        if let Ok((stream, _)) = first {
            let _ = resync(&stream, &rdb, then.as_deref());
        }
    });
    port
}

fn resync(mut stream: &TcpStream, rdb: &[u8], then: Option<&[u8]>) -> std::io::Result<()> {
    let mut commands = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        commands.read_line(&mut line)?;
        let Some(count) = line.strip_prefix('*').and_then(|n| n.trim().parse().ok()) else {
            return Ok(());
        };
        let mut words: Vec<Vec<u8>> = Vec::new();
        for _ in 0..count {
            let mut line = String::new();
            commands.read_line(&mut line)?;
            let length: usize = line[1..].trim().parse().expect("a length");
            let mut word = vec![0; length + 2];
            commands.read_exact(&mut word)?;
            word.truncate(length);
            words.push(word);
        }
        match words[0].as_slice() {
            b"PING" => stream.write_all(b"+PONG\r\n")?,
            b"PSYNC" => {
                let (history, end) = ("a".repeat(40), "b".repeat(40));
                let start = format!("+FULLRESYNC {history} 0\r\n$EOF:{end}\r\n");
                stream.write_all(start.as_bytes())?;
                stream.write_all(rdb)?;
                if then.is_none() {
                    return Ok(());
                }
                stream.write_all(end.as_bytes())?;
            }
            // The file has been loaded.
            b"REPLCONF" if words[1] == b"ACK" => {
                stream.write_all(then.unwrap_or_default())?;
                // Until the replica goes away.
                return commands.read_to_end(&mut Vec::new()).map(|_| ());
            }
            _ => stream.write_all(b"+OK\r\n")?,
        }
    }
}

#[test]
fn a_full_resync_that_breaks_off_leaves_the_sums() {
    let source = Server::start();
    populate(&source);
    let mut client = source.client();
    assert_eq!(client.cmd("SAVE"), ok());
    let rdb = fs::read(source.dir().join("dump.rdb")).unwrap();

    let server = Server::with(&[("repl-diskless-load", "swapdb")]);
    let mut client = server.client();
    let population = populate(&server);
    assert_eq!(client.cmd("RENAME fixed fixed-2"), ok());
    assert_eq!(client.cmd("RENAME fixed-2 fixed"), ok());
    let before = Sums::told(&mut client);
    // It ends within one object or the other.
    for (round, part) in [3, 5, 8].into_iter().enumerate() {
        let port = played_primary(rdb[..rdb.len() * part / 10].to_vec(), None);
        let follow = format!("REPLICAOF 127.0.0.1 {port}");
        assert_eq!(client.cmd(&follow), ok());
        wait_until("the transfer has failed", || {
            let failed = "Failed trying to load the";
            server.log().matches(failed).count() > round
        });
        assert_eq!(client.cmd("REPLICAOF NO ONE"), ok());
        nothing_is_being_freed(&server);
        assert_eq!(Sums::told(&mut client), before, "{part} tenths");
        is_balanced(&mut client);
        population.is_unchanged(&mut client);
    }
    // And a whole one after them.
    let follow = format!("REPLICAOF 127.0.0.1 {}", source.port());
    assert_eq!(client.cmd(&follow), ok());
    wait_in_sync(&source, &server);
    is_balanced(&mut client);
    let told = Sums::told(&mut source.client());
    assert_eq!(Sums::told(&mut client).counts(), told.counts());
}

#[test]
fn many_databases_are_summed() {
    let server = Server::with(&[("databases", "100")]);
    let mut client = server.client();
    for database in iter::once(0).chain((1..100).step_by(7)) {
        assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
        assert_eq!(client.cmd("BF.ADD k item"), int(1));
    }
    is_balanced(&mut client);
    assert_eq!(client.cmd("SWAPDB 99 50"), ok());
    assert_eq!(client.cmd("SWAPDB 2 50"), ok());
    is_balanced(&mut client);
    assert_eq!(client.cmd("SELECT 2"), ok());
    assert_eq!(client.cmd("FLUSHDB ASYNC"), ok());
    is_balanced(&mut client);
}
