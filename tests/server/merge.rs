//! One filter made of several.

use crate::harness::{
    Client, Reply, Server, array, digest, error, int, ok, wait_in_sync, wait_until,
};
use crate::support::aof::{Log, rewrite_aof, with_command_log};
use crate::support::configured::other_settings;
use crate::support::periods::{LASTING_WINDOW, clock};
use crate::support::pieces::{object, pieces};
use crate::support::sums;

/// Its halves differ: they are the keys of the two hashes, which would be one otherwise.
const SEED: &str = "0123456789abcdefghijklmnopqrstuv";

fn words(from: usize, to: usize) -> String {
    let words: Vec<String> = (from..to).map(|number| number.to_string()).collect();
    words.join(" ")
}

fn insert(client: &mut Client, key: &str, options: &str, from: usize, to: usize) {
    let line = format!(
        "BF.INSERT {key} SEED {SEED} {options} ITEMS {}",
        words(from, to)
    );
    let replies = client.cmd(&line);
    assert!(replies.as_array().iter().all(|reply| !reply.is_error()));
}

fn rate(client: &mut Client, key: &str, field: &str) -> f64 {
    let reported = client.cmd(&format!("BF.INFO {key} {field}"));
    reported.as_array()[0].text().parse().expect("a rate")
}

const KINDS: [&str; 3] = [
    "CAPACITY 100",
    "CAPACITY 100 COUNTING",
    "CAPACITY 50 WINDOW 1000000000000 PERIODS 2",
];

/// Makes filters of a kind, and two that are merged of them.
fn unite(client: &mut Client, number: usize, options: &str) {
    let key = |name: &str| format!("{name}-{number}");
    let (one, two, three, new) = (key("one"), key("two"), key("three"), key("new"));
    insert(client, &one, &format!("{options} ERROR 0.001"), 0, 250);
    insert(client, &two, &format!("{options} ERROR 0.002"), 200, 600);
    insert(client, &three, &format!("{options} ERROR 0.004"), 900, 910);
    if options.contains("WINDOW") {
        insert(client, &one, &format!("{options} TTL 1"), 1000, 1100);
        let longest = format!("{options} TTL 2000000000000");
        insert(client, &two, &longest, 1100, 1200);
    }
    let sources = [&one, &two].map(|key| digest(client, key));
    for line in [
        format!("BF.MERGE {new} {one} {two} {two} {three}"),
        format!("PEXPIRE {three} 900000"),
    ] {
        assert!(!client.cmd(&line).is_error(), "{line}");
    }
    let expires = client.cmd(&format!("PEXPIRETIME {three}"));
    let merge = format!("BF.MERGE {three} {one} {three} {two}");
    assert_eq!(client.cmd(&merge), ok());
    assert_eq!(client.cmd(&format!("PEXPIRETIME {three}")), expires);
    assert_eq!(client.cmd(&format!("PTTL {new}")), int(-1));
    // Sources do not change.
    assert_eq!([&one, &two].map(|key| digest(client, key)), sources);
    for merged in [&new, &three] {
        is_union(client, merged, options);
    }
}

/// It answers for all that [`unite`] added, and no more often for others than it says.
#[track_caller]
fn is_union(client: &mut Client, key: &str, options: &str) {
    let mut all = vec![words(0, 600), words(900, 910)];
    if options.contains("WINDOW") {
        all.push(words(1000, 1200));
        let live = client.cmd(&format!("BF.INFO {key} LIVEPERIODS"));
        assert_eq!(live, array([int(3)]), "{key}");
    }
    let missing = client.cmd(&format!("BF.MISSING {key} {}", all.join(" ")));
    assert_eq!(missing, int(0), "{key}");
    // No more than the rates together, and what is had is within.
    let bound = rate(client, key, "ERROR");
    assert!((0.000_999..0.0071).contains(&bound), "{bound}");
    assert!(rate(client, key, "ESTIMATEDERROR") <= bound);
    let others = client.cmd(&format!("BF.MISSING {key} {}", words(100_000, 110_000)));
    let found = 10_000 - others.as_int();
    assert!(found < 140, "{key}, {options}: {found} of 10000");
    if options.contains("COUNTING") {
        // Items of several sources count that often.
        for (item, least) in [(10, 1), (210, 2), (905, 1)] {
            let counted = client.cmd(&format!("BF.COUNT {key} {item}")).as_int();
            assert!(counted >= least, "{key} {item}: {counted}");
        }
    }
}

#[test]
fn a_union_is_the_same_on_replicas_and_in_logs() {
    let mut server = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
    let replica = other_settings(Server::replica_of(&server)).start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    let late = words(5000, 6000);
    for (number, options) in KINDS.iter().enumerate() {
        unite(&mut client, number, options);
        // It takes more, and grows.
        let new = format!("new-{number}");
        assert!(!client.cmd(&format!("BF.MADD {new} {late}")).is_error());
        // Again and again: the object stays one that can be kept.
        let again = format!("again-{number}");
        for _ in 0..3 {
            let merge = format!("BF.MERGE {again} {new} three-{number}");
            assert_eq!(client.cmd(&merge), ok());
        }
        for key in [new, again] {
            assert_eq!(client.cmd(&format!("BF.MISSING {key} {late}")), int(0));
        }
    }
    let state = |client: &mut Client| -> Vec<(String, String)> {
        let keys = client.cmd("KEYS *");
        let mut keys: Vec<String> = keys.as_array().iter().map(|key| key.text()).collect();
        keys.sort();
        keys.iter()
            .map(|key| (key.clone(), digest(client, key)))
            .collect()
    };
    let before = state(&mut client);
    assert_eq!(before.len(), 5 * KINDS.len());
    wait_in_sync(&server, &replica);
    assert_eq!(state(&mut replica.client()), before);
    sums::is_balanced(&mut client);
    sums::is_balanced(&mut replica.client());
    assert_eq!(client.cmd("DEBUG RELOAD"), ok());
    assert_eq!(state(&mut client), before);
    server.restart();
    assert_eq!(state(&mut server.client()), before);
    rewrite_aof(&server);
    server.restart();
    assert_eq!(state(&mut server.client()), before);
    sums::is_balanced(&mut server.client());
}

#[test]
fn an_expired_source_is_missing() {
    let server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
    ]);
    let mut client = server.client();
    assert_eq!(client.cmd("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
    insert(&mut client, "lasting", "CAPACITY 50", 0, 10);
    insert(&mut client, "brief", "CAPACITY 50", 10, 20);
    assert_eq!(client.cmd("BF.MERGE both lasting brief"), ok());
    assert_eq!(client.cmd("PEXPIRE brief 1"), int(1));
    let mut log = Log::of(&server);
    wait_until("it has expired", || client.cmd("EXISTS brief") == int(0));
    log.since();
    assert_eq!(client.cmd("BF.MERGE lasting brief"), error("ERR not found"));
    assert_eq!(client.cmd("BF.MERGE brief brief"), error("ERR not found"));
    assert!(log.since().is_empty());
    // Merged items stay; a log that is read now still finds the items of that time.
    assert_eq!(
        client.cmd(&format!("BF.MISSING both {}", words(0, 20))),
        int(0)
    );
    let before = digest(&mut client, "both");
    assert_eq!(client.cmd("DEBUG LOADAOF"), ok());
    assert_eq!(digest(&mut client, "both"), before);
    assert_eq!(client.cmd("BF.MERGE brief lasting"), ok());
    assert_eq!(client.cmd("PTTL brief"), int(-1));
}

#[test]
fn limits_hold_for_clients_and_not_for_replicas() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .start();
    let mut client = server.client();
    let refused = error("ERR operation exceeds bloom object memory limit");
    for (number, options) in KINDS.iter().enumerate() {
        let key = |name: &str| format!("{name}-{number}");
        let (one, two, new) = (key("one"), key("two"), key("new"));
        insert(&mut client, &one, options, 0, 90);
        insert(&mut client, &two, &format!("{options} EXPANSION 3"), 0, 400);
        assert_eq!(client.cmd(&format!("BF.MERGE {new} {one} {two}")), ok());
        let size = client.cmd(&format!("BF.INFO {new} SIZE")).as_array()[0].as_int();
        let before = ledger_state(&mut client);
        // A byte less than the result takes is not enough.
        for limit in [size - 1, size - 100, 1] {
            let set = format!("CONFIG SET bf.bloom-memory-usage-limit {limit}");
            assert_eq!(client.cmd(&set), ok());
            for line in [
                format!("BF.MERGE other-{number} {one} {two}"),
                format!("BF.MERGE {one} {two}"),
            ] {
                assert_eq!(
                    client.cmd(&line),
                    refused,
                    "{line} within {limit} of {size}"
                );
            }
        }
        assert_eq!(ledger_state(&mut client), before);
        assert_eq!(client.cmd("CONFIG SET bf.bloom-memory-usage-limit 0"), ok());
        assert_eq!(client.cmd(&format!("BF.MERGE {one} {two}")), ok());
        wait_in_sync(&server, &replica);
        for key in [one, new] {
            let there = digest(&mut replica.client(), &key);
            assert_eq!(there, digest(&mut client, &key), "{key}");
        }
    }
}

fn ledger_state(client: &mut Client) -> (String, String) {
    let digest = client.cmd("DEBUG DIGEST").text();
    (digest, client.cmd("INFO bf").text())
}

#[test]
fn a_merge_frees_expired_periods() {
    let mut server = with_command_log();
    let mut client = server.client();
    assert_eq!(client.cmd("CONFIG SET bf.bloom-use-random-seed no"), ok());
    for key in ["one", "two", "three"] {
        let create = format!("BF.RESERVE {key} 0.01 10000 WINDOW 5 PERIODS 2");
        assert_eq!(client.cmd(&create), ok());
        assert_eq!(client.cmd(&format!("BF.ADD {key} a")), int(1));
    }
    wait_until("the windows have passed", || {
        client.cmd("BF.MISSING one a") == int(1) && client.cmd("BF.MISSING three a") == int(1)
    });
    // Expired periods do not count towards the limit.
    let held = client.cmd("BF.INFO two SIZE").as_array()[0].as_int();
    let limit = format!("CONFIG SET bf.bloom-memory-usage-limit {held}");
    assert_eq!(client.cmd(&limit), ok());
    assert_eq!(client.cmd("BF.MERGE one two three"), ok());
    assert_eq!(client.cmd("BF.MERGE new two three"), ok());
    for key in ["one", "new"] {
        assert_eq!(pieces(&mut client, key).len(), 1, "{key} has filters");
    }
    sums::is_balanced(&mut client);
    let before = ["one", "two", "three", "new"].map(|key| digest(&mut client, key));
    server.kill();
    server.start_again();
    let mut client = server.client();
    let after = ["one", "two", "three", "new"].map(|key| digest(&mut client, key));
    assert_eq!(after, before);
    sums::is_balanced(&mut client);
}

#[test]
fn a_merge_of_periods_goes_period_by_period() {
    let server = Server::start();
    let mut client = server.client();
    // Filters of the same size are united where the rate allows it.
    for key in ["one", "two"] {
        let create = format!("BF.RESERVE {key} 0.01 1000 {LASTING_WINDOW}");
        assert_eq!(client.cmd("CONFIG SET bf.bloom-use-random-seed no"), ok());
        assert_eq!(client.cmd(&create), ok());
    }
    assert_eq!(
        client.cmd("BF.INSERT one TTL 1 ITEMS a b"),
        array([int(1), int(1)])
    );
    assert_eq!(client.cmd("BF.INSERT two TTL 1 ITEMS c"), array([int(1)]));
    assert_eq!(client.cmd("BF.MADD two d e"), array([int(1), int(1)]));
    assert_eq!(client.cmd("BF.MERGE one two"), ok());
    assert_eq!(client.cmd("BF.MISSING one a b c d e"), int(0));
    // In this period, and in the one before it.
    let now = clock(&mut client) / 1_000_000_000_000;
    let lines = client.cmd("BF.DEBUG one");
    let lines: Vec<String> = lines.as_array()[1..].iter().map(Reply::text).collect();
    for period in [now - 1, now] {
        let mark = format!(" period:{period}");
        assert!(lines.iter().any(|line| line.ends_with(&mark)), "{lines:?}");
    }
    let held = object(&pieces(&mut client, "one"));
    let found = |period: u64| {
        let ms = period * 1_000_000_000_000 + 500_000_000_000;
        ["a", "b", "c", "d", "e"].map(|item| held.contains(item.as_bytes(), || ms))
    };
    assert_eq!(found(now), [true; 5]);
    // Items with a longer time to live are found for longer.
    assert_eq!(found(now + 1), [false, false, false, true, true]);
    assert_eq!(found(now + 2), [false; 5]);
}
