//! INFO bf equals the sum over the keyspace once the server frees nothing in the background.

use std::fs;

use crate::harness::{Client, Reply, Server, error, int, ok, wait_in_sync, wait_until};
use crate::support::forged::{Forged, seal};
use crate::support::pieces::{Pieces, pieces, split};
use crate::support::population::Population;
use crate::support::primary::played_primary;
use crate::support::random::Random;
use crate::support::sums::{Sums, is_balanced, is_balanced_after};

/// Steps of a random life. INFO is right after each of them.
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
        client.run(format!("{create} {}", items.join(" ")));
        let payload = client.cmd("DUMP sample").as_bytes().to_vec();
        let pieces = split(&pieces(&mut client, "sample"), 300);
        client.expect("DEL sample", int(1));
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

    /// Returns the next step, in words for a message.
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
        let items = |random: &mut Random, count| {
            let items = (0..count).map(|_| random.below(100_000).to_string());
            items.collect::<Vec<_>>().join(" ")
        };
        let line = match self.random.below(12) {
            0..3 => {
                let capacity = self.random.pick(&[1, 10, 200, 3000, 50_000]);
                let growth = self.random.pick(&["", "NONSCALING ", "EXPANSION 1 "]);
                format!("BF.INSERT {key} {growth}CAPACITY {capacity} ITEMS a b c d")
            }
            3..6 => format!("BF.MADD {key} {}", items(&mut self.random, 60)),
            6 => {
                let capacity = self.random.pick(&[4, 5000]);
                let items = items(&mut self.random, 20);
                format!("CF.INSERT {key} CAPACITY {capacity} ITEMS {items}")
            }
            7 => format!("CMS.INITBYDIM {key} {} 5", 1 + self.random.below(2000)),
            8 => format!("TOPK.RESERVE {key} {}", 1 + self.random.below(300)),
            9 => format!("TOPK.ADD {key} {}", items(&mut self.random, 60)),
            10 => format!("TDIGEST.CREATE {key}"),
            _ => {
                let values = items(&mut self.random, 200);
                self.call(&format!("TDIGEST.ADD {key} {values}"));
                format!("TDIGEST.QUANTILE {key} 0.5")
            }
        };
        self.call(&line);
        line
    }

    fn remove(&mut self, key: &str, other: &str) -> String {
        let line = match self.random.below(9) {
            0..3 => format!("DEL {key} {other}"),
            3..5 => format!("UNLINK {key} {other}"),
            5 => format!("SET {key} string"),
            // An empty set is not stored as a key.
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
        self.call(&line);
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

/// Checks a connection that has to stay in its database.
#[track_caller]
fn is_balanced_here(client: &mut Client, step: &str) {
    let info = client.cmd("CLIENT INFO").text();
    let mut fields = info.split(' ');
    let database = fields.find_map(|field| field.strip_prefix("db="));
    let database = database.expect("the server tells it").to_owned();
    is_balanced_after(client, step);
    client.ok(format!("SELECT {database}"));
}

#[test]
fn info_is_right_after_every_step() {
    let server = Server::with(&[("databases", "4")]);
    for seed in 0..2 {
        let mut life = Life::new(&server, seed);
        for number in 0..600 {
            let step = life.step();
            let step = format!("step {number} of {seed}, {step}");
            is_balanced_here(&mut life.client, &step);
        }
        assert_eq!(life.call("FLUSHALL ASYNC"), ok());
        assert_eq!(Sums::read(&mut life.client), Sums::default());
    }
}

/// Objects of every kind, in every database.
fn populate(server: &Server) -> Population {
    let mut client = server.client();
    let population = Population::new(&mut client);
    for (index, key) in population.keys().enumerate() {
        client.expect(format!("COPY {key} {key} DB {}", 1 + index % 3), int(1));
    }
    is_balanced(&mut client);
    population
}

/// Full resyncs from a file and without one, into the memory of the data before and beside it.
#[test]
fn a_full_resync_replaces_the_sums() {
    let primary = Server::start();
    let mut client = primary.client();
    let population = populate(&primary);
    let expected = Sums::read(&mut client);
    for (without_file, load) in [("no", "disabled"), ("yes", "disabled"), ("yes", "swapdb")] {
        client.ok(format!("CONFIG SET repl-diskless-sync {without_file}"));
        let replica = Server::with(&[("repl-diskless-load", load)]);
        let mut own = replica.client();
        populate(&replica);
        own.ok(format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        wait_in_sync(&primary, &replica);
        let reported = Sums::read(&mut own).counts();
        assert_eq!(reported, expected.counts(), "{without_file} {load}");
        is_balanced(&mut own);
        population.is_unchanged(&mut own);
    }
}

#[test]
fn a_full_resync_that_breaks_off_leaves_the_sums() {
    let source = Server::start();
    populate(&source);
    let mut client = source.client();
    client.ok("SAVE");
    let rdb = fs::read(source.dir().join("dump.rdb")).unwrap();

    let server = Server::with(&[("repl-diskless-load", "swapdb")]);
    let mut client = server.client();
    let population = populate(&server);
    let before = Sums::read(&mut client);
    // It ends within one object or the other.
    for (round, part) in [3, 5, 8].into_iter().enumerate() {
        let port = played_primary(rdb[..rdb.len() * part / 10].to_vec(), None);
        client.ok(format!("REPLICAOF 127.0.0.1 {port}"));
        wait_until("the transfer has failed", || {
            let failed = "Failed trying to load the";
            server.log().matches(failed).count() > round
        });
        client.ok("REPLICAOF NO ONE");
        assert_eq!(Sums::read(&mut client), before, "{part} tenths");
        population.is_unchanged(&mut client);
    }
}
