//! Filters that are brought from a server to another.

use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::{Cluster, nodes};
use crate::harness::{Reply, Server, array, bulk, digest, int, ok, supported_servers};
use crate::support::population::Population;
use crate::support::recordings::stand_ins;
use crate::support::sketches;

use super::session::replay;
use super::{Way, add, found, kill, left, numbered, run, url};

pub(super) fn bring(from: &Server, to: &Server, options: &[&str]) -> super::Run {
    run(&[&["move", &url(from), &url(to)], options].concat())
}

/// Returns the outcome of each key.
fn outcomes(reported: &Value) -> Vec<(String, String)> {
    let keys = reported["keys"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    keys.map(|key| (text(&key["key"]), text(&key["outcome"])))
        .collect()
}

pub(super) fn count(reported: &Value, outcome: &str) -> usize {
    outcomes(reported)
        .iter()
        .filter(|(_, of)| of == outcome)
        .count()
}

/// From the server of the run to every other, whatever the versions of their files.
#[test]
fn filters_of_redisbloom_and_valkey_bloom_are_moved() {
    for (from, has_all) in stand_ins() {
        for program in supported_servers() {
            let to = Server::builder().program(&program).start();
            let reported = bring(&from, &to, &["--verify", "--json"]).json();
            assert_eq!(count(&reported, "moved"), 8);
            has_all(&to);
            // Once more there is nothing to do.
            let reported = bring(&from, &to, &["--verify", "--json"]).json();
            assert_eq!(count(&reported, "skipped"), 8);
            has_all(&from);
        }
    }
}

/// A client library sends a command again if its reply is lost: the first time, it was executed.
#[test]
fn a_value_that_came_already_is_moved_and_that_of_a_stranger_stays() {
    let [from, to] = [(); 2].map(|()| Server::start());
    let mut near = from.client();
    near.ok("TOPK.RESERVE k 3");
    let payload = near.cmd("DUMP k");
    for (is_own, outcome) in [(true, "moved"), (false, "skipped")] {
        to.client().run("FLUSHALL");
        let (mut other, payload) = (to.client(), payload.clone());
        let way = Way::before(&to, "RESTORE", 1, move || {
            if is_own {
                let Reply::Bulk(payload) = payload else {
                    panic!("{payload:?}");
                };
                let words: [&[u8]; 4] = [b"RESTORE", b"k", b"0", &payload];
                assert_eq!(other.call(&words), ok());
            } else {
                other.ok("TOPK.RESERVE k 4");
            }
        });
        let reported = run(&["move", &url(&from), &way.url(), "--json"]).json();
        assert_eq!(outcomes(&reported), [("k".to_owned(), outcome.to_owned())]);
    }
}

/// Returns a reply of BF.INFO or BF.DEBUG without the sizes of memory.
fn without_sizes(reply: &Reply) -> Reply {
    let lines = reply.as_array().iter().enumerate();
    let lines = lines.filter(|(index, _)| *index != 3);
    array(lines.map(|(_, line)| match line {
        Reply::Bulk(_) => bulk(line.text().rsplit(" capacity").next().unwrap_or_default()),
        line => line.clone(),
    }))
}

/// Objects of every kind, with their times to live. Half loaded ones are not filters yet.
#[test]
fn every_kind_of_filter_is_moved() {
    let from = Server::start();
    let mut near = from.client();
    let population = Population::new(&mut near);
    for program in supported_servers() {
        for by_dump in [true, false] {
            let to = Server::builder().program(&program).start();
            let mut far = to.client();
            if !by_dump {
                far.ok("ACL SETUSER default -restore");
            }
            let reported = bring(&from, &to, &["--json"]);
            assert_eq!(reported.status, 1);
            assert!(reported.err.ends_with(&format!(
                "of {} keys could not be moved\n",
                population.keys().count()
            )));
            let reported: Value = serde_json::from_str(&reported.out).expect("it is JSON");
            for (key, outcome) in outcomes(&reported) {
                let by_dump_alone = sketches::is_one(&key) || key.starts_with("cuckoo");
                if key.starts_with("half") || !by_dump && by_dump_alone {
                    assert_eq!(outcome, "refused");
                    far.expect(format!("EXISTS {key}"), int(0));
                    continue;
                }
                assert_eq!(outcome, "moved", "{key}");
                for ask in [
                    "TYPE",
                    "BF.INFO",
                    "BF.DEBUG",
                    "PEXPIRETIME",
                    "DEBUG DIGEST-VALUE",
                ] {
                    let ask = format!("{ask} {key}");
                    let [mut there, mut here] = [&mut far, &mut near].map(|it| it.cmd(&ask));
                    // How much memory a table takes depends on what it held before.
                    let kind = near.cmd(&format!("TYPE {key}")).text();
                    if kind == "bloomfltx" && ask.starts_with("BF.") {
                        [there, here] = [there, here].map(|reply| without_sizes(&reply));
                    }
                    assert_eq!(there, here, "{ask}");
                }
            }
            assert_eq!(outcomes(&reported).len(), population.keys().count());
            let mut keys = reported["keys"].as_array().expect("a list").iter();
            let row = keys.find(|key| key["key"] == "half-1");
            let reason = row
                .and_then(|row| row["reason"].as_str())
                .expect("a reason");
            let end = "ERR bloom object is still being loaded";
            assert!(reason.ends_with(end), "{reason}");
            assert_eq!(left(&mut far), []);
        }
    }
    population.is_unchanged(&mut near);
}

/// A filter of 64 MiB, and one whose DUMP fits in no RESTORE, by chunks.
#[test]
fn filters_of_any_size_are_moved() {
    let limit = "bf.bloom-filter-max-memory-usage 1gb";
    let [from, to] = [(); 2].map(|()| Server::builder().after_module(limit).start());
    let (mut near, mut far) = (from.client(), to.client());
    near.ok("BF.RESERVE limit 0.01 55872309 NONSCALING");
    let huge = "BF.RESERVE huge 0.01 450000000 NONSCALING PX 1000000";
    near.ok(huge);
    let items = numbered("item", 0..1000);
    for key in ["limit", "huge"] {
        add(&mut near, key, &items);
    }
    assert!(super::info(&mut near, "huge", "Size").as_int() > 512 << 20);
    let reported = bring(&from, &to, &["--verify", "--json"]).json();
    assert_eq!(count(&reported, "moved"), 2);
    for key in ["limit", "huge"] {
        assert_eq!(found(&mut far, key, &items), 1000);
        let expires = format!("PEXPIRETIME {key}");
        near.expect(&expires, far.cmd(&expires));
    }
    far.expect("DBSIZE", int(2));
}

/// A server closes the connection at an argument above its limit, so that no later key would be moved.
#[test]
fn a_value_above_the_targets_limit_of_an_argument_is_refused_alone() {
    let [from, to] = [(); 2].map(|()| Server::with(&[("rdbcompression", "no")]));
    let (mut near, mut far) = (from.client(), to.client());
    near.ok("CF.RESERVE a-cuckoo 2000000");
    near.ok("BF.RESERVE b-bloom 0.01 5000000 NONSCALING");
    near.ok("BF.RESERVE c-large 0.01 20000000 NONSCALING");
    near.ok("BF.RESERVE d-small 0.01 100");
    far.ok("CONFIG SET proto-max-bulk-len 1mb");
    let dump = near.cmd("DUMP a-cuckoo").as_bytes().len();
    let mega = |bytes: usize| {
        format!(
            "{},{:03},{:03}",
            bytes / 1_000_000,
            bytes / 1000 % 1000,
            bytes % 1000
        )
    };
    let most = "and the target takes at most 1,048,576: raise its proto-max-bulk-len";
    let of_dump = format!("its DUMP has {} bytes, {most}", mega(dump));
    let of_chunk = format!("a chunk of it has 4,194,304 bytes, {most}");
    for (options, reasons) in [
        (&["--json", "--dry-run"][..], vec![&of_dump]),
        (&["--json"], vec![&of_dump, &of_chunk, &of_chunk]),
    ] {
        let run = bring(&from, &to, options);
        assert_eq!(run.status, 1, "{}", run.err);
        let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
        let keys = reported["keys"].as_array().expect("a list").iter();
        let refused: Vec<_> = keys.filter_map(|key| key["reason"].as_str()).collect();
        assert_eq!(refused, reasons);
    }
    far.expect("DBSIZE", int(1));
    // If the user may not read the setting, the default counts.
    far.ok("CONFIG SET proto-max-bulk-len 512mb");
    far.ok("ACL SETUSER default -config");
    let reported = bring(&from, &to, &["--verify", "--json"]).json();
    assert_eq!(
        [count(&reported, "moved"), count(&reported, "skipped")],
        [3, 1]
    );
}

/// The target dies while the second of three filters is on its way.
#[test]
fn a_target_that_goes_away_is_finished_by_a_second_run() {
    let from = Server::start();
    let mut near = from.client();
    for key in ["a", "b", "c"] {
        near.ok(format!("BF.RESERVE {key} 0.01 20000000 NONSCALING"));
        add(&mut near, key, &numbered(key, 0..100));
    }
    let mut to = Server::with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let pid = to.pid();
    // Each takes 24 MB.
    let way = Way::new(&to, 36 << 20, move || kill(pid));
    let failed = run(&["move", &url(&from), &way.url()]);
    assert!(
        failed.out.contains("bloomfltr          1 "),
        "{}",
        failed.out
    );
    let why = failed.failed(1);
    assert!(why.starts_with("could not write to 127.0.0.1:"), "{why}");
    let end = "; when the server is up again, run this again";
    assert!(why.ends_with(end), "{why}");
    to.kill();

    to.start_again();
    let mut far = to.client();
    far.expect("EXISTS a b c", int(1));
    let beside = left(&mut far);
    assert!(matches!(beside[..], [(_, 1..=300_000)]), "{beside:?}");
    let reported = bring(&from, &to, &["--verify", "--json"]).json();
    let fates = outcomes(&reported).into_iter().map(|(_, fate)| fate);
    assert_eq!(fates.collect::<Vec<_>>(), ["skipped", "moved", "moved"]);
    for key in ["a", "b", "c"] {
        assert_eq!(digest(&mut far, key), digest(&mut near, key));
    }
    // Temporary keys that the first run left are not taken for filters when the target becomes a source.
    let next = Server::start();
    let reported = bring(&to, &next, &["--json"]).json();
    let counts = ["moved", "skipped"].map(|outcome| count(&reported, outcome));
    assert_eq!(counts, [3, 1]);
}

#[test]
fn the_outcome_of_each_key_is_reported() {
    replay("move.txt", &[&Server::start(), &Server::start()]);
}

/// Existing values are compared on request, and replaced by those of their own type.
#[test]
fn values_of_other_types_are_replaced() {
    replay("other-types.txt", &[&Server::start(), &Server::start()]);
}

/// With PEXPIRETIME to the millisecond, with PTTL nearly so.
#[test]
fn times_to_live_are_compared() {
    replay("expiries.txt", &[&Server::start(), &Server::start()]);
}

/// From a cluster to one server, and to another cluster while its slots move.
#[test]
fn clusters_are_read_and_written_node_by_node() {
    let cluster = Cluster::start(Duration::from_secs(30));
    let primaries = &cluster.nodes[..3];
    for (number, node) in primaries.iter().enumerate() {
        let mut client = node.client();
        let mut made = 0;
        for key in numbered("key", 0..60) {
            let key = key.replace(' ', "");
            let reply = client.cmd(&format!(
                "BF.INSERT {key} CAPACITY 100 ERROR 1e-12 ITEMS a {key}"
            ));
            made += usize::from(!reply.is_error());
        }
        assert!(made > 5, "{made} keys on node {number}");
    }
    let one = Server::start();
    let reported = bring(&cluster.nodes[1], &one, &["--verify", "--json"]).json();
    assert_eq!(count(&reported, "moved"), 60);
    one.client().expect("DBSIZE", int(60));

    let others = nodes(2, 2, Duration::from_secs(30));
    let reported = bring(&one, &others[1], &["--verify", "--json"]).json();
    assert_eq!(count(&reported, "moved"), 60);
    for key in (0..60).map(|number| format!("key{number}")) {
        let on = |node: &Server| node.client().cmd(&format!("BF.MEXISTS {key} a {key} x"));
        let right = array([int(1), int(1), int(0)]);
        let holders = others.iter().filter(|node| on(node) == right);
        assert_eq!(holders.count(), 1, "{key}");
    }
    let counts = others
        .iter()
        .map(|node| node.client().cmd("DBSIZE").as_int());
    assert_eq!(counts.sum::<i64>(), 60);
}
