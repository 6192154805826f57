//! Comparisons while keys change.

use serde_json::json;

use crate::harness::{Client, Server, int, ok, wait_in_sync};
use crate::support::recordings::stand_ins;
use crate::support::repeated::Repeated;
use crate::support::sketches;
use crate::tool::{Way, add, numbered, run, url};

use super::{LOOKS_AGAIN, bring, compare, only, reported};

/// Adds items to keys, over and over.
fn writer(mut client: Client, keys: &'static [&'static str]) -> Repeated {
    Repeated::start(move |round| {
        for key in keys {
            client.run(format!("BF.MADD {key} {round} {round}a {round}b {round}c"));
        }
    })
}

const WRITTEN: &[&str] = &["small", "growing", "redisbloom", "large"];

/// Filters that are small and large, of ours and of RedisBloom, growing all the time; the rest is at rest.
#[test]
fn a_replica_under_constant_writes_compares_equal() {
    let from = Server::start();
    let mut near = from.client();
    near.ok("BF.RESERVE small 1e-12 100000");
    near.ok("BF.RESERVE growing 0.01 10 EXPANSION 1");
    near.ok("BF.RESERVE large 0.01 15000000");
    let (source, _) = stand_ins().pop().expect("RedisBloom's");
    run(&["move", &url(&source), &url(&from)]).done();
    let kind = "MBbloom--";
    let deep = near.cmd("TYPE deep").text();
    assert_eq!(deep, kind);
    near.ok("RENAME deep redisbloom");
    for (key, words) in [
        ("counting", "COUNTING"),
        ("window", "WINDOW 3600000 PERIODS 3"),
    ] {
        near.ok(format!("BF.RESERVE {key} 0.01 100 {words}"));
        add(&mut near, key, &numbered("item", 0..10));
    }
    sketches::restore_all(&mut near);
    let to = Server::replica_of(&from).start();
    wait_in_sync(&from, &to);
    // valkey-bloom has no BF.SCANDUMP: its server is played by a user who may not call it.
    let user = "ACL SETUSER plain on >secret ~* +@all -bf.scandump";
    near.ok(user);
    let plain = format!("redis://plain:secret@127.0.0.1:{}", from.port());
    let writer = writer(from.client(), WRITTEN);
    for source in [&url(&from), &plain] {
        for _ in 0..2 {
            writer.goes_on();
            run(&["compare", source, &url(&to)]).done();
        }
    }
    // Then in the other direction.
    run(&["compare", &url(&from), &url(&to), "--type", "bloomfltr"]).done();

    // A missing key is found among the writes.
    to.client().ok("CONFIG SET replica-read-only no");
    let seen = near.cmd("BF.EXISTS small elsewhere");
    assert_eq!(seen, int(0));
    to.client().expect("BF.ADD small elsewhere", int(1));
    writer.goes_on();
    let run = compare(&from, &to, &["--json", "--match", "small"]);
    only(&run, "small", "different");
    writer.end();
}

/// The target has it only after the first look.
#[test]
fn late_writes_compare_equal() {
    for made in [
        "BF.INSERT k CAPACITY 100 ITEMS a",
        "BF.INSERT k CAPACITY 100 COUNTING ITEMS a",
        "CF.ADD k a",
    ] {
        for had in ["", "BF.INSERT k CAPACITY 10 ITEMS z"] {
            let [from, to] = [(); 2].map(|()| Server::start());
            from.client().run(made);
            if !had.is_empty() {
                to.client().run(had);
            }
            let (source, target) = (url(&from), url(&to));
            let way = Way::before(&to, "TYPE", LOOKS_AGAIN, move || {
                run(&["move", &source, &target, "--replace"]);
            });
            // A value is replaced only by one of its own kind.
            let is_cuckoo = made.starts_with("CF") && !had.is_empty();
            let run = run(&["compare", &url(&from), &way.url(), "--json"]);
            assert_eq!(run.status, i32::from(is_cuckoo), "{made} {had} {}", run.out);
        }
    }
}

/// Just before a command arrives, the key goes, or becomes something else.
#[test]
fn keys_deleted_during_a_comparison_are_reported_as_deleted() {
    const TEXT: &str = "SET k text";
    for moment in ["DUMP", "PEXPIRETIME"] {
        for (here, there, expected) in [
            ("DEL k", "DEL k", None),
            (TEXT, TEXT, None),
            ("DEL k", "EXISTS k", Some("only at target")),
            ("EXISTS k", "DEL k", Some("only at source")),
            (TEXT, "EXISTS k", Some("different")),
            ("EXISTS k", TEXT, Some("different")),
        ] {
            let [from, to] = [(); 2].map(|()| Server::start());
            for server in [&from, &to] {
                let made = server.client().cmd("BF.RESERVE k 0.01 100");
                assert_eq!(made, ok());
            }
            let (mut near, mut far) = (from.client(), to.client());
            let way = Way::before(&from, moment, 1, move || {
                near.cmd(here);
                far.cmd(there);
            });
            let run = run(&["compare", &way.url(), &url(&to), "--json"]);
            let case = format!("{here}, {there}, before {moment}: {}{}", run.out, run.err);
            match expected {
                None => {
                    assert_eq!(run.status, 0, "{case}");
                    assert_eq!(reported(&run), json!({"types": {}, "keys": []}), "{case}");
                }
                Some(expected) => {
                    only(&run, "k", expected);
                }
            }
        }
    }
}

/// Each command that arrives at the source finds another value there.
#[test]
fn a_value_that_keeps_changing_is_reported_as_changing() {
    for (make, change) in [
        ("BF.RESERVE k 0.01 100000 COUNTING", "BF.ADD"),
        ("CF.RESERVE k 100000", "CF.ADD"),
        // No DUMP takes these with others.
        ("BF.RESERVE k 0.01 1000000 COUNTING", "BF.ADD"),
        ("CF.RESERVE k 1000000", "CF.ADD"),
    ] {
        let [from, to] = [(); 2].map(|()| Server::start());
        from.client().ok(make);
        bring(&from, &to);
        let (mut writer, mut number) = (from.client(), 0);
        let moment = move |_: &[u8]| {
            number += 1;
            writer.run(format!("{change} k {number}"));
            false
        };
        let way = Way::at(&from, moment, || {});
        let run = run(&["compare", &way.url(), &url(&to), "--json"]);
        let reason = only(&run, "k", "changing");
        let expected = "it changes at the source: stop its writers, and compare again";
        assert_eq!(reason, expected, "{make}");
        assert_eq!(run.failed(1), "1 of 1 keys is not the same");
    }
}
