//! Values of every family live through what happens to two servers while clients write: restarts, crashes, lost links and
//! failovers. A server holds afterwards what it held before, and what the other one holds.

use std::mem;

use super::{Budget, random};
use crate::families::lives::{MADE, WRITES};
use crate::harness::{Server, wait_in_sync};
use crate::replication::workload::Workload;
use crate::replication::{hold_the_same, is_balanced, settle, state};
use crate::support::Rng;
use crate::support::aof::{log_is_complete, rewrite_aof};
use crate::support::sketches;

/// A server and its replica.
struct Life {
    primary: Server,
    replica: Server,
    /// Whether the replica has crashed.
    is_alone: bool,
    workload: Workload,
    random: Rng,
}

/// An event, and its name.
type Event = (&'static str, fn(&mut Life));

/// Events. They change nothing that the primary holds.
const EVENTS: [Event; 10] = [
    ("a reload", |life| life.primary.client().ok("DEBUG RELOAD")),
    ("a restart", |life| life.primary.restart()),
    ("a log of commands", |life| life.crash_on_new_log("no")),
    ("a log that begins with a file", |life| {
        life.crash_on_new_log("yes");
    }),
    ("a crash while the log is rewritten", |life| {
        life.primary.client().cmd("BGREWRITEAOF");
        life.primary.kill();
        life.primary.start_again();
    }),
    ("a crash of the replica", |life| {
        life.replica.kill();
        life.is_alone = true;
    }),
    ("a lost link", |life| {
        life.primary.client().run("CLIENT KILL TYPE replica");
    }),
    ("a replica that went its own way", |life| {
        let mut own = life.replica.client();
        own.ok("REPLICAOF NO ONE");
        life.workload.run(&mut own, 30);
        settle(&life.replica);
        is_balanced(&life.replica);
    }),
    ("a failover by hand", |life| life.fail_over(true)),
    ("a failover from the dead", |life| life.fail_over(false)),
];

impl Life {
    fn write(&mut self, steps: usize) {
        let mut client = self.primary.client();
        for _ in 0..steps {
            // Writes go on while the log is rewritten.
            if self.random.one_in(steps) {
                client.cmd("BGREWRITEAOF");
            }
            self.workload.run(&mut client, 1);
            // A server that loads a t-digest merges its nodes at other times from then on (docs/operating.md).
            let [cuckoo, cms, topk, _tdigest] = WRITES;
            client.cmd(&self.random.pick(&[cuckoo, cms, topk])(&mut self.random));
        }
    }

    fn crash_on_new_log(&mut self, preamble: &str) {
        let set = format!("CONFIG SET aof-use-rdb-preamble {preamble}");
        self.primary.client().ok(set);
        rewrite_aof(&self.primary);
        self.primary.kill();
        self.primary.start_again();
    }

    fn fail_over(&mut self, is_planned: bool) {
        let promote = |replica: &Server| replica.client().ok("REPLICAOF NO ONE");
        if is_planned {
            promote(&self.replica);
            self.primary.kill();
        } else {
            self.primary.kill();
            promote(&self.replica);
        }
        mem::swap(&mut self.primary, &mut self.replica);
        self.is_alone = true;
    }
}

/// Returns a server that keeps all that it has acknowledged when it crashes. Filters without options have this capacity.
fn server(capacity: u32) -> Server {
    let [capacity, filters] = [capacity, capacity / 7].map(|number| number.to_string());
    Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("auto-aof-rewrite-percentage", "0"),
        ("bf.bloom-filter-max-memory-usage", "16384"),
        ("bf.bloom-memory-usage-limit", "20000"),
        ("bf.bloom-capacity", &capacity),
        ("bf.cf-initial-size", &capacity),
        ("bf.cf-max-expansions", &filters),
    ])
}

#[test]
fn values_live_through_whatever_happens_to_servers() {
    let mut random = random("values_live_through_whatever_happens_to_servers");
    let mut life = Life {
        primary: server(40),
        replica: server(25),
        is_alone: false,
        workload: Workload::new(random.next()),
        random,
    };
    life.replica.client().follow(life.primary.port());
    for _ in Budget::rounds(1) {
        let mut client = life.primary.client();
        client.ok("FLUSHALL ASYNC");
        client.ok("CONFIG SET bf.bloom-new-filters own");
        client.all_ok(MADE);
        sketches::restore_all(&mut client);
        let mut events = EVENTS.to_vec();
        while !events.is_empty() {
            let (name, happen) = events.swap_remove(life.random.below(events.len()));
            eprintln!("{name}");
            life.write(100);
            hold_the_same(&[&life.primary, &life.replica]);
            log_is_complete(&life.primary);
            log_is_complete(&life.replica);
            let before = state(&life.primary);
            happen(&mut life);
            assert_eq!(state(&life.primary), before, "{name}");
            // The other one misses some writes if it is down, and has lost nothing else.
            life.write(10);
            if mem::take(&mut life.is_alone) {
                life.replica.start_again();
                assert_eq!(state(&life.replica), before, "{name}");
            }
            life.replica
                .client()
                .run(format!("REPLICAOF 127.0.0.1 {}", life.primary.port()));
            wait_in_sync(&life.primary, &life.replica);
            hold_the_same(&[&life.primary, &life.replica]);
        }
    }
}
