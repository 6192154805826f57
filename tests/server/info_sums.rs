//! INFO bf equals the sum over the keyspace once the server frees nothing in the background.

use std::fs;

use crate::families::{MADE, WRITES};
use crate::harness::{Client, Server, int, wait_until};
use crate::replication::{Workload, settle};
use crate::support::population::Population;
use crate::support::primary::played_primary;
use crate::support::random::Random;
use crate::support::sums::{Sums, is_balanced, is_balanced_after};

/// Returns a random command that moves, copies or removes values of any family.
fn moving(random: &mut Random) -> String {
    let key = |random: &mut Random| match random.below(5) {
        0 => format!("key-{}", random.below(40)),
        family => format!(
            "{}{}",
            ["cf", "cms", "topk", "tdigest"][family - 1],
            random.below(6)
        ),
    };
    let (one, other, database) = (key(random), key(random), random.below(2));
    match random.below(20) {
        0..3 => format!("DEL {one} {other}"),
        3..6 => format!("UNLINK {one} {other}"),
        6 => format!("SET {one} string"),
        // An empty set is not stored as a key.
        7 => format!("SUNIONSTORE {one} nothing"),
        8 => format!("COPY {one} {other}"),
        9 | 10 => format!("COPY {one} {other} REPLACE"),
        11 => format!("COPY {one} {other} DB {database} REPLACE"),
        // Often over a value, and sometimes over itself.
        12 | 13 => format!("RENAME {one} {other}"),
        14 => format!("MOVE {one} {database}"),
        15 => format!("SELECT {database}"),
        16 => "SWAPDB 0 1".to_owned(),
        17 => format!("FLUSHDB {}", random.pick(&["SYNC", "ASYNC"])),
        18 if random.one_in(4) => format!("FLUSHALL {}", random.pick(&["SYNC", "ASYNC"])),
        18 => "DEBUG RELOAD".to_owned(),
        _ => random.pick(&MADE).to_owned(),
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

/// A random life of values of all families. INFO is right after each step.
#[test]
fn info_is_right_after_every_step() {
    let server = Server::with(&[("databases", "2")]);
    let mut client = server.client();
    for seed in 0..2 {
        let mut random = Random(seed);
        let mut workload = Workload::new(seed);
        workload.run(&mut client, 0);
        client.ok("CONFIG SET bf.bloom-new-filters own");
        client.all_ok(MADE);
        for number in 0..600 {
            let step = match random.below(3) {
                0 => moving(&mut random),
                1 => random.pick(&WRITES)(&mut random),
                _ => String::new(),
            };
            if step.is_empty() {
                workload.step(&mut client);
            } else {
                client.cmd(&step);
            }
            settle(&server);
            is_balanced_here(&mut client, &format!("step {number} of {seed}, {step}"));
        }
        client.ok("FLUSHALL ASYNC");
        assert_eq!(Sums::read(&mut client), Sums::default());
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
        client.follow(port);
        wait_until("the transfer has failed", || {
            let failed = "Failed trying to load the";
            server.log().matches(failed).count() > round
        });
        client.ok("REPLICAOF NO ONE");
        assert_eq!(Sums::read(&mut client), before, "{part} tenths");
        population.is_unchanged(&mut client);
    }
}
