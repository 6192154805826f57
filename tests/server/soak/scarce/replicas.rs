//! Replicas that are cut off, or have less memory than their primary.

use std::process::Command;

use super::known::Known;
use super::{POLICIES, set, stat};
use crate::harness::{Server, error, int, ok, wait_in_sync, wait_until};
use crate::soak::{Budget, Random};
use crate::support::sums;

#[track_caller]
fn signal(server: &Server, name: &str) {
    let pid = server.pid().to_string();
    let status = Command::new("kill").args([name, &pid]).status();
    assert!(status.expect("kill is there").success());
}

#[track_caller]
fn hold_the_same(primary: &Server, replica: &Server, known: &Known) {
    wait_in_sync(primary, replica);
    let digests = [primary, replica].map(|server| {
        let mut client = server.client();
        known.is_there(&mut client);
        sums::is_balanced(&mut client);
        known.digests(&mut client)
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn a_replica_that_is_cut_off_catches_up() {
    let mut random = Random::new("a_replica_that_is_cut_off_catches_up");
    let primary = Server::with(&[
        ("client-output-buffer-limit", "replica 300kb 0 0"),
        ("repl-backlog-size", "16kb"),
    ]);
    let mut client = primary.client();
    let replica = Server::replica_of(&primary)
        .config("bf.bloom-memory-usage-limit", "1")
        .start();
    let mut known = Known::default();
    let mut budget = Budget::rounds(3);
    let mut bytes = 0;
    for _ in budget.by_ref() {
        wait_in_sync(&primary, &replica);
        let full = stat(&primary, "sync_full");
        signal(&replica, "-STOP");
        wait_until("the replica is cut off", || {
            assert_eq!(known.write(&mut client, &mut random, 15_000), None);
            bytes += 15_000 * 20;
            primary.info("replication")["connected_slaves"] == "0"
        });
        signal(&replica, "-CONT");
        // These come while it is getting all again, and may cut it off once more.
        for _ in 0..random.below(20) {
            assert_eq!(known.write(&mut client, &mut random, 15_000), None);
        }
        hold_the_same(&primary, &replica, &known);
        assert!(stat(&primary, "sync_full") > full);
        known = Known::default();
        assert_eq!(client.cmd("FLUSHALL"), ok());
    }
    let full = stat(&primary, "sync_full");
    let rounds = budget.done();
    eprintln!("{rounds} rounds, {full} full resyncs, about {bytes} bytes");
}

#[test]
fn a_replica_with_less_memory_follows() {
    let mut random = Random::new("a_replica_with_less_memory_follows");
    let primary = Server::start();
    let mut client = primary.client();
    let mut known = Known::default();
    assert_eq!(known.write(&mut client, &mut random, 500), None);
    let mut budget = Budget::rounds(3);
    for _ in budget.by_ref() {
        let mut replica = Server::replica_of(&primary)
            .config("bf.bloom-memory-usage-limit", "1")
            .config("bf.bloom-filter-max-memory-usage", "1")
            .config("maxmemory", "1")
            .config("maxmemory-policy", POLICIES[random.below(POLICIES.len())])
            .start();
        hold_the_same(&primary, &replica, &known);
        for _ in 0..100 {
            assert_eq!(known.write(&mut client, &mut random, 100), None);
        }
        hold_the_same(&primary, &replica, &known);
        replica.restart_saving();
        assert_eq!(known.write(&mut client, &mut random, 100), None);
        hold_the_same(&primary, &replica, &known);
        assert_eq!(stat(&replica, "evicted_keys"), 0);

        // As a primary it follows its own settings.
        let mut own = replica.client();
        set(&mut own, "maxmemory-policy noeviction");
        assert_eq!(own.cmd("REPLICAOF NO ONE"), ok());
        let refused = own.cmd("BF.ADD key-0 x").text();
        assert!(refused.starts_with("OOM "), "{refused}");
        known.is_there(&mut own);
        set(&mut own, "maxmemory 0");
        let limit = error("ERR operation exceeds bloom object memory limit");
        assert_eq!(own.cmd("BF.RESERVE new 0.01 10"), limit);
        let items: Vec<String> = (0..3_000_000).step_by(20).map(|i| i.to_string()).collect();
        let key = known.objects.keys().next().expect("there are some");
        let answers = own.cmd(&format!("BF.MADD {key} {}", items.join(" ")));
        assert_eq!(answers.as_array().last(), Some(&limit));
        sums::is_balanced(&mut own);
        assert_eq!(own.cmd(&format!("DEL {key}")), int(1));
    }
    eprintln!("{} replicas, {} items", budget.done(), known.items());
}
