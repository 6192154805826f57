//! The comparison of two servers, at rest and under writes.

mod churn;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::{Cluster, nodes};
use crate::harness::{Client, Server, array, digest, int, wait_in_sync, wait_until};
use crate::support::pieces::{load_chunks, pieces};
use crate::support::population::Population;
use crate::support::recordings::stand_ins;
use crate::support::sketches;

use super::session::replay;
use super::{Run, Way, add, numbered, run, url};

fn compare(from: &Server, to: &Server, options: &[&str]) -> Run {
    run(&[&["compare", &url(from), &url(to)], options].concat())
}

fn bring(from: &Server, to: &Server) {
    run(&["move", &url(from), &url(to)]).done();
}

/// Returns the object of `--json`, of a run that found differences or not.
#[track_caller]
fn reported(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("no JSON: {}{}", run.out, run.err))
}

/// Returns the keys that are not the same, each with its outcome and the reason.
fn outcomes(reported: &Value) -> Vec<[String; 3]> {
    let keys = reported["keys"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    keys.map(|key| ["key", "outcome", "reason"].map(|name| text(&key[name])))
        .collect()
}

/// Requires that one key differs, and nothing else, and returns the reason.
#[track_caller]
fn only(run: &Run, key: &str, outcome: &str) -> String {
    assert_eq!(run.status, 1, "{}{}", run.out, run.err);
    let [[name, fate, reason]] = &outcomes(&reported(run))[..] else {
        panic!("not one key: {}", run.out)
    };
    assert_eq!((&name[..], &fate[..]), (key, outcome), "{}", run.out);
    reason.clone()
}

/// Returns the number of keys of a type that came to this.
fn count(reported: &Value, kind: &str, outcome: &str) -> u64 {
    let count = &reported["types"][kind][outcome];
    count.as_u64().unwrap_or_else(|| panic!("{reported}"))
}

/// The moment at which keys that differ are looked at again: TYPE comes for them, after a SCAN for each of seven types.
const LOOKS_AGAIN: usize = 7 + 1;

fn changes(server: &Server) -> String {
    server.info("persistence")["rdb_changes_since_last_save"].clone()
}

/// Objects of every kind, those that are half loaded too; nothing is written at either server.
#[test]
fn a_replica_compares_equal() {
    let from = Server::start();
    let mut near = from.client();
    let population = Population::new(&mut near);
    let to = Server::replica_of(&from).start();
    wait_in_sync(&from, &to);
    let before = [&from, &to].map(changes);
    let reported = compare(&from, &to, &["--json"]).json();
    assert_eq!(outcomes(&reported), Vec::<[String; 3]>::new());
    let types = reported["types"].as_object().expect("an object");
    let same: u64 = types
        .keys()
        .map(|kind| count(&reported, kind, "same"))
        .sum();
    assert_eq!(same, population.keys().count() as u64);
    assert_eq!(types.len(), 7, "{reported}");
    assert_eq!([&from, &to].map(changes), before);
    population.is_unchanged(&mut near);
}

/// Periods expire at both servers, whichever frees them.
#[test]
fn a_window_compares_equal_while_its_periods_expire() {
    let from = Server::start();
    let mut near = from.client();
    let to = Server::replica_of(&from).start();
    near.ok("BF.RESERVE k 0.01 100 WINDOW 50 PERIODS 3");
    for item in numbered("item", 0..5) {
        add(&mut near, "k", &[item]);
        wait_in_sync(&from, &to);
        compare(&from, &to, &[]).done();
        wait_until("all periods are over", || {
            super::info(&mut near, "k", "Live periods") == int(0)
        });
        compare(&from, &to, &[]).done();
    }
}

/// In chunks, and as one DUMP each if a server has no chunks; by PTTL, too.
#[test]
fn moved_keys_compare_equal() {
    for (from, _) in stand_ins() {
        let to = Server::start();
        from.client().expect("EXPIRE deep 1000", int(1));
        bring(&from, &to);
        compare(&from, &to, &[]).done();
        for less in ["-bf.scandump", "-dump", "-pexpiretime", "-memory"] {
            let user = format!("ACL SETUSER less reset on >secret ~* +@all {less}");
            for (server, at) in [(&from, 1), (&to, 2)] {
                server.client().ok(&user);
                let less = format!("redis://less:secret@127.0.0.1:{}", server.port());
                let mut words = ["compare", &url(&from), &url(&to)].map(str::to_owned);
                words[at] = less;
                run(&words.each_ref().map(|word| &word[..])).done();
            }
        }
    }
}

/// Servers compress what they dump, or not: the values are equal.
#[test]
fn forms_of_payloads_are_not_differences() {
    let from = Server::start();
    let mut near = from.client();
    sketches::restore_all(&mut near);
    add(&mut near, "seen", &numbered("item", 0..10));
    for item in numbered("item", 0..100) {
        near.call(&[b"CF.ADD", b"cuckoo", item.as_bytes()]);
    }
    let to = Server::with(&[("rdbcompression", "no")]);
    bring(&from, &to);
    let mut far = to.client();
    for key in ["cuckoo", "seen"] {
        let dump = format!("DUMP {key}");
        assert_ne!(near.cmd(&dump), far.cmd(&dump), "{key}");
    }
    compare(&from, &to, &[]).done();
    // One that is not equal is found all the same.
    far.expect("CF.ADD cuckoo other", int(1));
    let reason = only(&compare(&from, &to, &["--json"]), "cuckoo", "different");
    assert_eq!(reason, "its DUMP differs at the target");
}

#[test]
fn each_difference_is_found() {
    replay("compare.txt", &[&Server::start(), &Server::start()]);
}

/// Creates a full Top-K. The same items after other first ones have another number of collisions, so the lists drift.
pub fn create_top_k(client: &mut Client, key: &str, first: &str) {
    client.ok(format!("TOPK.RESERVE {key} 5 8 3 0.9"));
    client.run(format!("TOPK.ADD {key} {first}"));
    for number in 0..300 {
        let item = number % (1 + number % 30);
        client.run(format!("TOPK.ADD {key} {item}"));
    }
}

/// A replica has other nodes than its primary after a full synchronization, and another list if chance has decided
/// otherwise. A value or an item more is a difference.
#[test]
fn drift_of_sketches_is_told_from_differences() {
    let from = Server::start();
    let mut near = from.client();
    near.ok("TDIGEST.CREATE latency");
    let numbers = |start: u32| {
        let numbers = (start..start + 450).map(|number| (number * 7919 % 10_007).to_string());
        numbers.collect::<Vec<_>>().join(" ")
    };
    near.ok(format!("TDIGEST.ADD latency {}", numbers(0)));
    let to = Server::replica_of(&from).start();
    wait_in_sync(&from, &to);
    for start in (450..9000).step_by(450) {
        near.ok(format!("TDIGEST.ADD latency {}", numbers(start)));
    }
    wait_in_sync(&from, &to);
    let mut far = to.client();
    far.ok("REPLICAOF NO ONE");
    for (client, first) in [(&mut near, "1 2"), (&mut far, "2 1")] {
        create_top_k(client, "pages", first);
    }
    for key in ["latency", "pages"] {
        assert_ne!(digest(&mut near, key), digest(&mut far, key), "{key}");
    }
    replay("drift.txt", &[&from, &to]);
}

/// A value of 48 MB that differs in a bit near the end; and counters and cuckoo filters that are too large to be read
/// beside others.
#[test]
fn large_values_are_compared_to_the_last_bit() {
    let [from, to] = [(); 2].map(|()| Server::start());
    let (mut near, mut far) = (from.client(), to.client());
    let bits = "BF.INSERT bits NONSCALING CAPACITY 40000000 ITEMS";
    // With this number of items, two bits are near the end.
    near.expect(format!("{bits} a b c d"), array([(); 4].map(|()| int(1))));
    near.expect(
        "BF.INSERT counts COUNTING CAPACITY 1000000 ITEMS a",
        array([int(1)]),
    );
    near.ok("CF.RESERVE cuckoo 1000000");
    near.expect("CF.ADD cuckoo a", int(1));
    bring(&from, &to);
    let reported = compare(&from, &to, &["--json"]).json();
    assert_eq!(count(&reported, "bloomfltr", "same"), 1);

    // Its bits but for the last byte of the largest offset that is set.
    let chunks = pieces(&mut near, "bits");
    let mut others = chunks.clone();
    let last_set = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0);
    let (chunk, at) = (others.iter_mut().rev())
        .find_map(|(_, chunk)| last_set(chunk).map(|at| (chunk, at)))
        .expect("a bit is set");
    chunk[at] = 0;
    let header = others[0].1.len();
    let bytes = chunks[1..].iter().flat_map(|(_, chunk)| chunk).copied();
    let offset = last_set(&bytes.collect::<Vec<u8>>()).expect("a bit is set");
    assert!(header < 1000 && offset > 20 << 20, "{offset}");
    far.expect("DEL bits", int(1));
    load_chunks(&mut far, "bits", &others);
    // A bit that only the source has, and one that only the target has.
    let differ = format!("its bits differ at the target, from byte {offset}");
    for [from, to] in [[&from, &to], [&to, &from]] {
        let reason = only(&compare(from, to, &["--json"]), "bits", "different");
        assert_eq!(reason, differ);
    }
    far.expect("DEL bits", int(1));
    load_chunks(&mut far, "bits", &chunks);
    compare(&from, &to, &[]).done();

    far.expect("CF.ADD cuckoo b", int(1));
    let reason = only(&compare(&from, &to, &["--json"]), "cuckoo", "different");
    assert_eq!(reason, "its DUMP differs at the target");
    far.expect("CF.DEL cuckoo b", int(1));
    far.expect("BF.DEL counts a", int(1));
    far.expect("BF.ADD counts b", int(1));
    let run = compare(&from, &to, &["--json", "--type", "bloomfltx"]);
    let reason = only(&run, "counts", "different");
    assert_eq!(reason, "its items differ at the target");
}

/// The program's memory does not depend on the sizes of the target's values.
#[test]
fn values_that_are_large_at_the_target_alone_are_not_read_all_at_once() {
    const KEYS: usize = 160;
    let [from, to] = [(); 2].map(|()| Server::start());
    let (mut near, mut far) = (from.client(), to.client());
    for key in 0..KEYS {
        near.ok(format!("BF.RESERVE k{key} 0.01 100"));
        // With another time to live, so that the program need not decode the value.
        far.ok(format!(
            "BF.RESERVE k{key} 0.01 180000 NONSCALING PX 1000000"
        ));
    }
    near.ok("BF.RESERVE large 0.01 100");
    far.ok("BF.RESERVE large 0.01 1000000");
    let bytes = far.cmd("MEMORY USAGE k0").as_int();
    let limit = (32 << 20) / usize::try_from(bytes).expect("it is positive");
    assert!(limit < KEYS, "{bytes}");

    // The most values that are read before the expiry times of the same keys.
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, mut dumps) = (Arc::clone(&most), 0);
    let moment = move |sent: &[u8]| {
        let count = |words: &[u8]| sent.windows(words.len()).filter(|it| *it == words).count();
        assert_eq!(count(b"\r\nDUMP\r\n$5\r\nlarge\r\n"), 0);
        dumps += count(b"\r\nDUMP\r\n");
        if count(b"\r\nPEXPIRETIME\r\n") > 0 {
            dumps = 0;
        }
        seen.fetch_max(dumps, Relaxed);
        false
    };
    let way = Way::at(&to, moment, || {});
    let run = run(&["compare", &url(&from), &way.url(), "--json"]);
    assert_eq!(
        count(&reported(&run), "bloomfltr", "different"),
        KEYS as u64 + 1
    );
    let most = most.load(Relaxed);
    assert!((1..=limit).contains(&most), "{most} of {limit}");
}

#[test]
fn clusters_are_compared_node_by_node() {
    let cluster = Cluster::start(Duration::from_secs(30));
    for node in &cluster.nodes[..3] {
        let mut client = node.client();
        for key in 0..60 {
            client.cmd(&format!("BF.INSERT key{key} CAPACITY 100 ITEMS a {key}"));
        }
    }
    let one = Server::start();
    let others = nodes(2, 2, Duration::from_secs(30));
    bring(&cluster.nodes[1], &one);
    bring(&one, &others[1]);
    for (from, to) in [
        (&cluster.nodes[1], &one),
        (&one, &others[0]),
        (&cluster.nodes[0], &others[1]),
    ] {
        let reported = compare(from, to, &["--json"]).json();
        assert_eq!(count(&reported, "bloomfltr", "same"), 60);
    }
    for (number, node) in others.iter().enumerate() {
        let mut client = node.client();
        let mut keys = (0..60).map(|key| format!("key{key}"));
        let own = keys.find(|key| client.cmd(&format!("BF.CARD {key}")) == int(2));
        let own = own.unwrap_or_else(|| panic!("none on node {number}"));
        client.expect(format!("BF.ADD {own} b"), int(1));
        let run = compare(&cluster.nodes[2], &others[0], &["--json", "--match", &own]);
        only(&run, &own, "different");
    }
}

/// Nor are objects that are half loaded at one server.
#[test]
fn comparisons_that_fail_say_what_they_found() {
    let [from, to] = [(); 2].map(|()| Server::start());
    let (mut near, mut far) = (from.client(), to.client());
    near.expect("BF.ADD plain a", int(1));
    near.expect("CF.ADD cuckoo a", int(1));
    bring(&from, &to);
    let chunks = pieces(&mut near, "plain");
    load_chunks(&mut near, "half", &chunks);
    load_chunks(&mut far, "half", &chunks[..1]);
    let reason = only(&compare(&from, &to, &["--json"]), "half", "refused");
    let loading = "ERR bloom object is still being loaded";
    assert_eq!(reason, format!("127.0.0.1:{}: {loading}", to.port()));

    // The target goes away before the last key: the differences found until then are reported.
    let pid = to.pid();
    let way = Way::before(&to, "TYPE", LOOKS_AGAIN, move || super::kill(pid));
    near.expect("DEL half", int(1));
    let run = super::run(&["compare", &url(&from), &way.url(), "--json"]);
    let found = reported(&run);
    assert_eq!(count(&found, "MBbloomCF", "same"), 1);
    let why = run.failed(1);
    assert!(why.starts_with("could not read from 127.0.0.1:"), "{why}");
    assert!(
        why.ends_with("; when the server is up again, run this again"),
        "{why}"
    );
    assert_eq!(found["error"], *why);
}
