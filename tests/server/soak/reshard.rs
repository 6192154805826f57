//! A cluster is rebuilt while clients write: slots change hands, primaries die.

use std::array;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::{Budget, random};
use crate::cluster::{Router, is_sound, migrate_keys, slot};
use crate::harness::cluster::{Cluster, SHARDS, id, is_primary};
use crate::harness::{Client, Reply, Server, int, ok, wait_until};
use crate::support::Rng;
use crate::support::pieces::{pieces_by, split};

const WRITERS: usize = 2;
/// Keys of each writer, three of them in a slot.
const KEYS: usize = 12;

/// The progress of the writers, for others to wait for.
#[derive(Default)]
struct Progress {
    /// Commands that were answered.
    steps: AtomicU64,
    /// Answered commands that a replica had then.
    replicated: AtomicU64,
    /// Redirections by ASK.
    asked: AtomicU64,
    stop: AtomicBool,
}

/// Awaits that a number of the progress rises by this much.
#[track_caller]
fn await_more(number: &AtomicU64, count: u64) {
    let end = number.load(Ordering::Relaxed) + count;
    wait_until("the writers have gone on", || {
        number.load(Ordering::Relaxed) >= end
    });
}

impl Progress {
    /// Awaits `steps` more answers.
    #[track_caller]
    fn go_on(&self, steps: u64) {
        await_more(&self.steps, steps);
    }
}

/// Ends the writers also where the test fails, so that it can end.
struct Stop<'a>(&'a Progress);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// The replies for a key to its only writer.
#[derive(Default)]
struct Written {
    items: Vec<String>,
    /// Items that were acknowledged in a way that must last.
    lasting: Vec<String>,
    /// The number of items sent.
    sent: usize,
    /// The number of items reported as new.
    new: i64,
    /// The number of items reported as removed.
    removed: i64,
}

struct Writer<'a> {
    router: Router,
    random: Rng,
    progress: &'a Progress,
    /// Whether only items that a replica has must last.
    waits: bool,
    keys: BTreeMap<String, Written>,
}

fn key(writer: usize, number: usize) -> String {
    format!("{{{writer}-{}}}{number}", number / 3)
}

/// Returns the options of a key's object, by the last digit of its name.
fn kind(key: &str) -> &'static [&'static str] {
    match key.as_bytes().last().map(|digit| digit % 3) {
        Some(0) => &["COUNTING"],
        // None of its periods ends while a test runs.
        Some(1) => &["WINDOW", "1000000000000", "PERIODS", "2"],
        _ => &[],
    }
}

impl Writer<'_> {
    fn run(&mut self) {
        while !self.progress.stop.load(Ordering::Relaxed) {
            let asked = self.router.asked;
            let at = self.random.below(KEYS);
            let name = self.keys.keys().nth(at).expect("so many").clone();
            match self.random.below(10) {
                0..6 => self.add(&name),
                6..8 => self.ask(&name),
                8 => self.remove(&name),
                _ => self.copy(&name),
            }
            let asked = self.router.asked - asked;
            self.progress.asked.fetch_add(asked, Ordering::Relaxed);
            self.progress.steps.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn add(&mut self, name: &str) {
        let written = self.keys.get_mut(name).expect("its own key");
        let first = written.sent;
        let items: Vec<String> = (first..=first + self.random.below(20))
            .map(|item| format!("{name} {item}"))
            .collect();
        // Small enough to grow again and again.
        let start = ["BF.INSERT", name, "CAPACITY", "50"];
        let start = start.iter().chain(kind(name)).chain(&["ITEMS"]);
        let mut args: Vec<&[u8]> = start.map(|word| word.as_bytes()).collect();
        args.extend(items.iter().map(String::as_bytes));
        let (reply, port) = self.router.call(&args);
        written.new += reply.as_array().iter().map(Reply::as_int).sum::<i64>();
        assert_eq!(reply.as_array().len(), items.len(), "{reply:?}");
        let lasts = !self.waits || self.router.is_replicated(port);
        if lasts {
            written.lasting.extend(items.iter().cloned());
            self.progress.replicated.fetch_add(1, Ordering::Relaxed);
        }
        written.sent += items.len();
        written.items.extend(items);
    }

    /// Removes an item that is there. A removal sent again after a primary died may happen twice.
    fn remove(&mut self, name: &str) {
        let written = self.keys.get_mut(name).expect("its own key");
        if self.waits || written.items.is_empty() || !kind(name).contains(&"COUNTING") {
            return;
        }
        let item = self.random.pick(&written.items).clone();
        let delete: [&[u8]; 3] = [b"BF.DEL", name.as_bytes(), item.as_bytes()];
        // Another filter may claim it, too.
        if self.router.call(&delete).0 == int(1) {
            written.removed += 1;
            written.items.retain(|other| *other != item);
            written.lasting.retain(|other| *other != item);
        }
    }

    /// Queries an item that is there: it must be found at every moment.
    fn ask(&mut self, name: &str) {
        let lasting = &self.keys[name].lasting;
        if !lasting.is_empty() {
            let item = self.random.pick(lasting).as_bytes();
            let ask: [&[u8]; 3] = [b"BF.EXISTS", name.as_bytes(), item];
            assert_eq!(self.router.call(&ask).0, int(1), "{name}");
        }
    }

    /// Copies a key in chunks to another slot, each of the two wherever it is just then.
    fn copy(&mut self, name: &str) {
        // A primary that dies may take some chunks with it.
        if self.waits || self.keys[name].items.is_empty() {
            return;
        }
        let pieces = pieces_by(|words| self.router.call(words).0, name.as_bytes());
        let copy = format!("copy-of-{name}").replace(['{', '}'], "");
        let copy = copy.as_bytes();
        self.router.call(&[b"DEL", copy]);
        let longest = 1 + self.random.below(300);
        let pieces = split(&pieces, pieces[1].1.len().max(longest) / 8 + 1);
        for (cursor, bytes) in &pieces {
            let cursor = cursor.to_string();
            let load: [&[u8]; 4] = [b"BF.LOADCHUNK", copy, cursor.as_bytes(), bytes];
            assert_eq!(self.router.call(&load).0, ok());
        }
        let items = self.router.cmd(&format!("BF.CARD {name}"));
        assert_eq!(self.router.call(&[b"BF.CARD", copy]).0, items, "{name}");
        let item = self.random.pick(&self.keys[name].items).as_bytes();
        let ask: [&[u8]; 3] = [b"BF.EXISTS", copy, item];
        assert_eq!(self.router.call(&ask).0, int(1), "{name}");
    }

    /// Checks that all lasting items are there, and that only added ones are counted.
    fn verify(&mut self) {
        for (name, written) in &self.keys {
            for items in written.lasting.chunks(500) {
                let mut ask: Vec<&[u8]> = vec![b"BF.MISSING", name.as_bytes()];
                ask.extend(items.iter().map(String::as_bytes));
                assert_eq!(self.router.call(&ask).0, int(0), "{name}");
            }
            let card = self.router.cmd(&format!("BF.CARD {name}")).as_int();
            if self.waits {
                // Something may have been added by a command whose reply did not come.
                let sent = i64::try_from(written.sent).expect("not many");
                assert!(card <= sent, "{name}: {card} of {sent}");
            } else {
                // A removed item may still be claimed, and count for one.
                let Written { new, removed, .. } = written;
                let range = new - removed..=*new;
                assert!(range.contains(&card), "{name}: {card}, not {range:?}");
            }
        }
    }
}

/// Changes a cluster while writers write, in each round, and then compares it with the replies that they got.
fn while_writing(
    name: &str,
    node_timeout: Duration,
    waits: bool,
    change: impl Fn(&mut Cluster, &mut Rng, &Progress),
) {
    let mut random = random(name);
    let mut cluster = Cluster::start(node_timeout);
    for _ in Budget::rounds(1) {
        let progress = Progress::default();
        let mut writers: [Writer; WRITERS] = array::from_fn(|number| Writer {
            router: Router::of(&cluster),
            random: Rng::new(random.next()),
            progress: &progress,
            waits,
            keys: (0..KEYS)
                .map(|at| (key(number, at), Written::default()))
                .collect(),
        });
        thread::scope(|scope| {
            let stop = Stop(&progress);
            for writer in &mut writers {
                scope.spawn(|| writer.run());
            }
            progress.go_on(100);
            change(&mut cluster, &mut random, &progress);
            progress.go_on(100);
            drop(stop);
        });
        for writer in &mut writers {
            writer.verify();
            assert!(writer.router.moved > 0);
        }
        is_sound(&cluster);
        for (primary, _) in cluster.in_sync() {
            primary.client().ok("FLUSHALL");
        }
    }
}

/// Returns the primary that has a slot, and another one.
fn ends<'a>(cluster: &'a Cluster, random: &mut Rng, slot: usize) -> (&'a Server, &'a Server) {
    let mut owner = None;
    wait_until("a primary has the slot", || {
        owner = (0..SHARDS).find(|shard| {
            let node = &cluster.nodes[cluster.primary(*shard)];
            has(&mut node.client(), slot)
        });
        owner.is_some()
    });
    let owner = owner.expect("it was found");
    let target = (owner + 1 + random.below(SHARDS - 1)) % SHARDS;
    let node = |shard| &cluster.nodes[cluster.primary(shard)];
    (node(owner), node(target))
}

/// Returns whether a node owns a slot.
fn has(client: &mut Client, slot: usize) -> bool {
    let nodes = client.cmd("CLUSTER NODES").text();
    let own = nodes.lines().find(|line| line.contains("myself"));
    let ranges = own.expect("a node knows itself").split(' ').skip(8);
    ranges.filter(|range| !range.starts_with('[')).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().expect("the number of a slot");
        (number(first)..=number(last)).contains(&slot)
    })
}

fn slot_of_a_key(random: &mut Rng) -> usize {
    slot(key(random.below(WRITERS), random.below(KEYS)).as_bytes())
}

/// Moves a slot key by key, as cluster tools do.
fn move_by_keys(cluster: &Cluster, random: &mut Rng, progress: &Progress) {
    let slot = slot_of_a_key(random);
    let (from, to) = ends(cluster, random, slot);
    let (mut near, mut far) = (from.client(), to.client());
    far.ok(format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
    near.ok(format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
    progress.go_on(20);
    while migrate_keys(&mut near, to, slot, 1) > 0 {
        progress.go_on(20);
    }
    await_more(&progress.asked, 1);
    for client in [&mut far, &mut near] {
        client.ok(format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
    }
}

/// Moves a slot as a whole, which Valkey can from 9 on.
fn move_at_one_go(cluster: &Cluster, random: &mut Rng, progress: &Progress) {
    let slot = slot_of_a_key(random);
    let (from, to) = ends(cluster, random, slot);
    let (mut near, mut far) = (from.client(), to.client());
    let node = id(to);
    let migrate = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {node}");
    let version = from.version();
    let reply = near.cmd(&migrate);
    if !version.valkey || version.major < 9 {
        let refused = reply.text();
        assert!(refused.starts_with("ERR unknown subcommand"), "{refused}");
        return;
    }
    assert_eq!(reply, ok());
    wait_until("the slot has moved", || {
        let jobs = near.cmd("CLUSTER GETSLOTMIGRATIONS");
        jobs.as_array().iter().all(|job| {
            let fields = job.as_array().chunks_exact(2);
            let state = fields.clone().find(|pair| pair[0].text() == "state");
            let state = state.expect("a job has a state")[1].text();
            assert!(!["failed", "cancelled"].contains(&&*state), "{job:?}");
            state == "success"
        })
    });
    wait_until("the other has the slot", || has(&mut far, slot));
    let count = format!("CLUSTER COUNTKEYSINSLOT {slot}");
    wait_until("the keys are gone", || near.cmd(&count) == int(0));
    progress.go_on(20);
}

#[test]
fn slots_move_while_clients_write() {
    let timeout = Duration::from_secs(30);
    while_writing("reshard", timeout, false, |cluster, random, progress| {
        for _ in 0..3 {
            move_by_keys(cluster, random, progress);
            move_at_one_go(cluster, random, progress);
        }
    });
}

#[test]
fn a_replica_takes_over_by_hand() {
    let timeout = Duration::from_secs(30);
    // The primary waits for its replica: all that was acknowledged lasts.
    while_writing("by hand", timeout, false, |cluster, random, progress| {
        for _ in 0..2 {
            let (_, replica) = cluster.in_sync()[random.below(SHARDS)];
            replica.client().ok("CLUSTER FAILOVER");
            wait_until("the replica is the primary", || is_primary(replica));
            progress.go_on(200);
        }
    });
}

#[test]
fn a_replica_takes_over_from_the_dead() {
    let timeout = Duration::from_secs(3);
    while_writing("failover", timeout, true, |cluster, random, progress| {
        await_more(&progress.replicated, 100);
        let primary = cluster.primary(random.below(SHARDS));
        cluster.nodes[primary].kill();
        let replica = &cluster.nodes[(primary + SHARDS) % (2 * SHARDS)];
        wait_until("the replica is the primary", || is_primary(replica));
        // Some of these are in the shard.
        progress.go_on(200);
        cluster.nodes[primary].start_again();
        cluster.in_sync();
        await_more(&progress.replicated, 100);
    });
}
