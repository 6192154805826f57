//! The plan of docs/moving-in.md, step by step, under load, with a server of this module in the peer's place.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::harness::{Client, Reply, Server, array, digest, int, wait_in_sync, wait_until};

use crate::support::sketches::starts_on;

use super::comparing::create_top_k;
use super::{Run, run};

const PAGE: &str = include_str!("../../../docs/moving-in.md");

/// Keys that are written to all the time.
const KEYS: usize = 6;
/// How many writes begin with each line of the plan.
const WRITES: usize = 300;
/// How many items a write adds.
const BATCH: usize = 20;

fn items(key: usize, batch: usize) -> String {
    let numbers = batch * BATCH..(batch + 1) * BATCH;
    let items = numbers.map(|number| format!("item-{key}-{number}"));
    items.collect::<Vec<_>>().join(" ")
}

/// A client of the leading server, which writes on request.
struct Load {
    orders: Arc<Orders>,
    writer: Option<thread::JoinHandle<()>>,
}

/// What the client is to do, and what it has done.
struct Orders {
    asked: AtomicUsize,
    leader: AtomicU16,
    ended: AtomicBool,
    /// The number of acknowledged batches of each key.
    acknowledged: Mutex<[usize; KEYS]>,
}

impl Orders {
    fn acknowledged(&self) -> MutexGuard<'_, [usize; KEYS]> {
        self.acknowledged.lock().expect("it is whole")
    }
}

/// A Top-K whose random decay went differently at the replica.
const DRIFTED: &str = "drifted";

/// Creates a key of each family of sketches.
fn create_sketches(client: &mut Client) {
    client.ok("CF.RESERVE cuckoo 1000000");
    client.ok("CMS.INITBYDIM counts 100 5");
    client.ok("TOPK.RESERVE top 5 8 3 0.9");
    client.ok("TDIGEST.CREATE latency");
}

/// Adds an item to each of them.
fn add_to_sketches(client: &mut Client, number: usize) {
    for (command, item) in [
        ("CF.ADD cuckoo", number),
        ("CMS.INCRBY counts", number % 300),
        ("TOPK.ADD top", number % (1 + number % 30)),
        ("TDIGEST.ADD latency", number * 7919 % 10_007),
    ] {
        let increment = if command.starts_with("CMS") { " 1" } else { "" };
        let added = client.cmd(&format!("{command} {item}{increment}"));
        let refused = added.is_error() && !added.text().starts_with("READONLY ");
        assert!(!refused, "{command}: {added:?}");
    }
}

impl Load {
    fn on(port: u16, has_sketches: bool) -> Self {
        let orders = Arc::new(Orders {
            asked: AtomicUsize::new(0),
            leader: AtomicU16::new(port),
            ended: AtomicBool::new(false),
            acknowledged: Mutex::default(),
        });
        let given = Arc::clone(&orders);
        let writer = thread::spawn(move || {
            let mut client = Client::connect(port).expect("it is there");
            let (mut of, mut key, mut number) = (port, 0, 0);
            while !given.ended.load(SeqCst) {
                if given.asked.load(SeqCst) <= given.acknowledged().iter().sum() {
                    thread::park();
                    continue;
                }
                let now = given.leader.load(SeqCst);
                if now != of {
                    (client, of) = (Client::connect(now).expect("it is there"), now);
                }
                key = (key + 1) % KEYS;
                number += 1;
                if has_sketches {
                    add_to_sketches(&mut client, number);
                }
                let batch = given.acknowledged()[key];
                let added = client.cmd(&format!("BF.MADD key-{key} {}", items(key, batch)));
                // A server that no longer leads says so.
                if let Reply::Array(answers) = added {
                    assert_eq!(answers.len(), BATCH);
                    given.acknowledged()[key] += 1;
                } else {
                    assert!(added.text().starts_with("READONLY "), "{added:?}");
                }
            }
        });
        let writer = Some(writer);
        Self { orders, writer }
    }

    /// Points the clients to another server.
    fn go_to(&self, port: u16) {
        self.orders.leader.store(port, SeqCst);
    }

    fn sum(&self) -> usize {
        self.orders.acknowledged().iter().sum()
    }

    /// Lets the client write this many more times.
    fn go_on(&self, writes: usize) {
        self.orders.asked.fetch_add(writes, SeqCst);
        if let Some(writer) = &self.writer {
            writer.thread().unpark();
        }
    }

    fn is_done(&self) {
        wait_until("all is written", || {
            self.sum() >= self.orders.asked.load(SeqCst)
        });
    }

    /// Nothing that was acknowledged is denied.
    #[track_caller]
    fn is_held(&self, server: &Server) {
        let mut client = server.client();
        let acknowledged = *self.orders.acknowledged();
        for (key, batches) in acknowledged.into_iter().enumerate() {
            for batch in 0..batches {
                let held = client.cmd(&format!("BF.MEXISTS key-{key} {}", items(key, batch)));
                assert_eq!(held, array((0..BATCH).map(|_| int(1))), "key-{key}");
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.orders.ended.store(true, SeqCst);
        if let Some(writer) = self.writer.take() {
            writer.thread().unpark();
            let ended = writer.join();
            assert!(ended.is_ok() || thread::panicking(), "the writer failed");
        }
    }
}

/// Returns the commands of each step.
fn steps() -> Vec<Vec<&'static str>> {
    let blocks = PAGE.split("```console\n").skip(1);
    let blocks = blocks.map(|block| block.split_once("```").expect("the block ends").0);
    blocks.map(|block| block.lines().collect()).collect()
}

fn keys_of(server: &Server) -> Vec<String> {
    let keys = server.client().cmd("KEYS *");
    let mut keys: Vec<String> = keys.as_array().iter().map(Reply::text).collect();
    keys.sort();
    keys
}

#[track_caller]
fn are_the_same(one: &Server, other: &Server) {
    let keys = keys_of(one);
    assert_eq!(keys_of(other), keys);
    let (mut first, mut second) = (one.client(), other.client());
    for key in keys {
        // The plan compares these within their accuracy: chance decides on a Top-K, and a full synchronization compresses
        // t-digests.
        if key == DRIFTED {
            continue;
        }
        if first.cmd(&format!("TYPE {key}")).text() == "TDIS-TYPE" {
            let info = format!("TDIGEST.RANK {key} 1e9");
            assert_eq!(first.cmd(&info), second.cmd(&info), "{key}");
            continue;
        }
        assert_eq!(digest(&mut first, &key), digest(&mut second, &key), "{key}");
        let dump = format!("DUMP {key}");
        assert_eq!(first.cmd(&dump), second.cmd(&dump), "{key}");
    }
}

impl Run {
    /// Returns whether `compare` found no difference but in keys that were being written to.
    fn names_changes_alone(&self) -> bool {
        let lines = self.out.lines();
        let mut verdicts = lines.take_while(|line| !line.starts_with("type "));
        verdicts.all(|line| line.starts_with("changing ") || line.starts_with("within accuracy "))
    }
}

/// The servers of the plan, under load, and what its lines have done so far.
struct Rehearsal<'s> {
    old: &'s Server,
    new: &'s Server,
    peer: &'s str,
    load: Load,
    leader: &'s Server,
    replica: Option<&'s Server>,
    is_paused: bool,
}

impl<'s> Rehearsal<'s> {
    /// Returns a line of the page with the addresses and the peer of this rehearsal.
    fn named(&self, line: &str) -> String {
        let mut named = line.replace(
            "new-filters redisbloom",
            &format!("new-filters {}", self.peer),
        );
        for (name, server) in [("old", self.old), ("new", self.new)] {
            let port = server.port();
            named = named
                .replace(&format!("{name}:6379"), &format!("127.0.0.1:{port}"))
                .replace(&format!("{name} 6379"), &format!("127.0.0.1 {port}"));
        }
        named
    }

    /// Follows a line of a step.
    fn follow(&mut self, number: usize, line: &str) {
        let line = self.named(line);
        self.load.go_on(WRITES);
        if let Some(words) = line.strip_prefix("$ valkeybloom ") {
            self.run_program(words);
        } else if let Some(command) = line.strip_prefix("old> ") {
            self.send(number, (self.old, self.new), command);
        } else if let Some(command) = line.strip_prefix("new> ") {
            self.send(number, (self.new, self.old), command);
        } else {
            panic!("unknown receiver: {line}");
        }
    }

    fn run_program(&self, words: &str) {
        // The step before says what to wait for.
        if let Some(replica) = self.replica {
            wait_in_sync(self.leader, replica);
        }
        let words: Vec<&str> = words.split(' ').collect();
        let run = run(&words);
        // Only a pause keeps clients from writing to a key all the time.
        let is_changing = run.status == 1 && !self.is_paused && run.names_changes_alone();
        assert!(run.status == 0 || is_changing, "{}{}", run.out, run.err);
    }

    /// Sends a command to the first of both servers.
    fn send(&mut self, number: usize, (server, other): (&'s Server, &'s Server), command: &str) {
        server.client().run(command);
        self.is_paused = match command {
            "CLIENT UNPAUSE" => false,
            _ => self.is_paused || command.starts_with("CLIENT PAUSE"),
        };
        if command == "REPLICAOF NO ONE" {
            self.replica = None;
            if number < 7 {
                self.leader = server;
                self.load.go_to(server.port());
            }
        } else if command.starts_with("REPLICAOF ") {
            self.replica = Some(server);
        } else if command.starts_with("CLIENT PAUSE") {
            // The step says what to wait for.
            wait_in_sync(server, other);
            are_the_same(server, other);
        }
    }

    /// Requires that the servers hold all that was written, and that a replica equals its leader.
    fn check(&self) {
        self.load.is_done();
        if let Some(replica) = self.replica {
            self.leader.client().ok("CLIENT PAUSE 100000 WRITE");
            wait_in_sync(self.leader, replica);
            are_the_same(self.leader, replica);
            self.load.is_held(replica);
            self.leader.client().ok("CLIENT UNPAUSE");
        }
        self.load.is_held(self.leader);
    }

    /// Lets the Top-K of the new server, a replica, drift from that of the old one.
    fn drift(&self) {
        wait_in_sync(self.old, self.new);
        let (mut client, mut follower) = (self.old.client(), self.new.client());
        follower.ok("CONFIG SET replica-read-only no");
        follower.expect(format!("DEL {DRIFTED}"), int(1));
        create_top_k(&mut follower, DRIFTED, "2 1");
        assert_ne!(digest(&mut follower, DRIFTED), digest(&mut client, DRIFTED));
        follower.ok("CONFIG SET replica-read-only yes");
    }
}

/// Starts a server in the peer's place, with keys of the peer's kind.
fn start_old(peer: &str, has_sketches: bool) -> Server {
    let mut old = Server::builder()
        .config("bf.bloom-new-filters", peer)
        .config("bf.bloom-capacity", "100")
        .start();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/redisbloom-8.8-cuckoo/dump.rdb");
    if has_sketches && !starts_on(&mut old, &file) {
        fs::remove_file(old.dir().join("dump.rdb")).expect("it is there");
        old.start_again();
    }
    let mut client = old.client();
    client.ok("BF.RESERVE reserved 0.001 50 EX 100000");
    client.run("BF.MADD reserved a b c");
    if has_sketches {
        create_sketches(&mut client);
        create_top_k(&mut client, DRIFTED, "1 2");
    }
    old
}

fn plan_from(peer: &str, kind: &str) {
    // valkey-bloom has filters alone.
    let has_sketches = peer == "redisbloom";
    let (old, new) = (&start_old(peer, has_sketches), &Server::start());
    let mut rehearsal = Rehearsal {
        old,
        new,
        peer,
        load: Load::on(old.port(), has_sketches),
        leader: old,
        replica: None,
        is_paused: false,
    };
    let steps = steps();
    assert_eq!(steps.len(), 7);
    // A server that went back may lead again, and step down then.
    for (at, number) in [1, 2, 3, 4, 5, 6, 4, 5, 7].into_iter().enumerate() {
        if at == 2 && has_sketches {
            rehearsal.drift();
        }
        for line in &steps[number - 1] {
            rehearsal.follow(number, line);
        }
        rehearsal.check();
    }
    // Keys created on the way have the peer's type.
    let mut client = old.client();
    assert_eq!(client.cmd("TYPE key-0").text(), kind);
    if has_sketches {
        // All of them took part.
        assert!(client.cmd("TDIGEST.RANK latency 1e9").as_array()[0].as_int() > 10_000);
    }
    assert!(rehearsal.load.sum() > 30 * WRITES);
}

#[test]
fn the_plan_from_redisbloom_leads_there_and_back() {
    plan_from("redisbloom", "MBbloom--");
}

#[test]
fn the_plan_from_valkey_bloom_leads_there_and_back() {
    plan_from("valkey-bloom", "bloomfltr");
}
