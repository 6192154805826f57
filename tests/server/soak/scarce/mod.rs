//! Limits of memory, disks and buffers: acknowledged items stay, and the server goes on.

mod buffers;
mod disks;
mod known;
mod replicas;

use std::collections::HashSet;

use super::{Budget, Random};
use crate::harness::{Client, Reply, Server, int, ok};
use crate::support::sums;
use crate::support::usage::memory;

/// Changes a setting of a server.
#[track_caller]
fn set(client: &mut Client, setting: &str) {
    assert_eq!(
        client.cmd(&format!("CONFIG SET {setting}")),
        ok(),
        "{setting}"
    );
}

fn stat(server: &Server, field: &str) -> i64 {
    server.info("stats")[field].parse().expect("a number")
}

const POLICIES: [&str; 8] = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

/// Checks the error that scripts get without memory, and that they change nothing.
#[track_caller]
fn scripts_are_refused(client: &mut Client) {
    let script = |client: &mut Client, body: &str| {
        let eval: [&[u8]; 4] = [b"EVAL", body.as_bytes(), b"1", b"scripted"];
        client.call(&eval)
    };
    for body in [
        "return redis.call('BF.ADD', KEYS[1], 'x')",
        "return redis.pcall('BF.RESERVE', KEYS[1], '0.01', '10')",
        "redis.call('BF.EXISTS', KEYS[1], 'x') return redis.call('BF.MADD', KEYS[1], 'x', 'y')",
    ] {
        let refused = script(client, body).text();
        assert!(refused.contains("OOM command not allowed"), "{refused}");
    }
    let read = "return redis.call('BF.CARD', KEYS[1])";
    assert_eq!(script(client, read), int(0));
    assert_eq!(client.cmd("EXISTS scripted"), int(0));
    let allowed = "#!lua flags=allow-oom\nreturn redis.call('BF.MADD', KEYS[1], 'x', 'y')";
    assert_eq!(script(client, allowed).as_array().len(), 2);
    assert_eq!(client.cmd("BF.CARD scripted"), int(2));
    assert_eq!(client.cmd("DEL scripted"), int(1));

    assert_eq!(client.cmd("MULTI"), ok());
    let refused = client.cmd("BF.ADD queued x").text();
    assert!(refused.starts_with("OOM "), "{refused}");
    let aborted = client.cmd("EXEC").text();
    assert!(aborted.starts_with("EXECABORT "), "{aborted}");
    assert_eq!(client.cmd("EXISTS queued"), int(0));
}

#[test]
fn objects_are_evicted_under_every_policy() {
    let mut random = Random::new("objects_are_evicted_under_every_policy");
    let server = Server::start();
    let mut client = server.client();
    let mut budget = Budget::rounds(POLICIES.len() as u64);
    let (mut evicted_ever, mut refused_ever) = (0, 0);
    for round in budget.by_ref() {
        let policy = POLICIES[usize::try_from(round).expect("a few") % POLICIES.len()];
        assert_eq!(client.cmd("FLUSHALL SYNC"), ok());
        set(&mut client, &format!("maxmemory-policy {policy}"));
        let lazy = random.pick(&["yes", "no"]);
        set(&mut client, &format!("lazyfree-lazy-eviction {lazy}"));
        assert_eq!(client.cmd("CONFIG RESETSTAT"), ok());
        let limit = memory(&server, "used_memory") + (12 << 20);
        set(&mut client, &format!("maxmemory {limit}"));

        let (mut lasting, mut volatile, mut refused) = (HashSet::new(), HashSet::new(), 0);
        for number in 0..200 {
            let key = format!("key-{number}");
            let capacity = random.pick(&[100, 5000, 200_000, 1_000_000]);
            let kind = random.pick(&["", "", " COUNTING", " WINDOW 1000000000000 PERIODS 2"]);
            let create = format!("BF.INSERT {key} CAPACITY {capacity}{kind} ITEMS a b c");
            match client.cmd(&create) {
                Reply::Error(text) => {
                    assert!(text.starts_with("OOM command not allowed"), "{text}");
                    assert_eq!(client.cmd(&format!("EXISTS {key}")), int(0), "{key}");
                    refused += 1;
                }
                answers => {
                    assert_eq!(answers.as_array().len(), 3);
                    // Before it may be evicted.
                    let expires = random.one_in(2)
                        && client.cmd(&format!("PEXPIRE {key} 100000000")) == int(1);
                    let keys = if expires { &mut volatile } else { &mut lasting };
                    keys.insert(key);
                }
            }
            // More for one of those before, which may have gone.
            let key = format!("key-{}", random.below(number + 1));
            let add = format!("BF.INSERT {key} NOCREATE ITEMS d e");
            if let Reply::Error(text) = client.cmd(&add) {
                let expected = text == "ERR not found" || text.starts_with("OOM ");
                assert!(expected, "{text}");
            }
        }
        if policy == "noeviction" {
            assert!(refused > 0);
            set(&mut client, "maxmemory 1");
            scripts_are_refused(&mut client);
        }
        set(&mut client, "maxmemory 0");
        sums::is_balanced(&mut client);
        let keys = client.cmd("KEYS *");
        let keys: HashSet<String> = keys.as_array().iter().map(Reply::text).collect();
        let created = lasting.len() + volatile.len();
        let evicted = usize::try_from(stat(&server, "evicted_keys")).expect("a count");
        assert_eq!(keys.len(), created - evicted, "{policy}");
        volatile.extend(lasting.iter().cloned());
        assert!(keys.is_subset(&volatile), "{policy}");
        if !policy.starts_with("allkeys") {
            assert!(lasting.is_subset(&keys), "{policy}");
        }
        assert_eq!(evicted == 0, policy == "noeviction", "{policy}");
        for key in &keys {
            let answers = client.cmd(&format!("BF.MEXISTS {key} a b c"));
            assert!(answers.as_array().iter().all(|a| *a == int(1)), "{key}");
        }
        evicted_ever += evicted;
        refused_ever += refused;
    }
    let rounds = budget.done();
    eprintln!("{rounds} rounds, {evicted_ever} evicted, {refused_ever} refused");
}
