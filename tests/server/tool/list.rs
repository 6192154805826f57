//! `valkeybloom list`: every key is listed as its server describes it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::nodes;
use crate::harness::{Server, int};
use crate::support::protocols::with_fixed_seed;
use crate::support::recordings::{PROGRAMS, restore};
use crate::support::sketches;

use super::session::replay;
use super::{add, info, numbered, run, url};

/// Returns the keys of a listing in JSON, by name.
pub(super) fn keys(found: &Value) -> BTreeMap<String, Value> {
    let keys = found["keys"].as_array().expect("a list").iter();
    keys.map(|key| (key["key"].as_str().expect("a text").to_owned(), key.clone()))
        .collect()
}

pub(super) fn list(server: &Server, options: &[&str]) -> Value {
    run(&[&["list", &url(server), "--json"], options].concat()).json()
}

/// In every form, sorted by any column; and keys that a user may not read are counted.
#[test]
fn all_families_are_listed() {
    let server = with_fixed_seed();
    let mut client = server.client();
    replay("list.txt", &[&server]);
    let found = list(&server, &[]);
    let mut sum = 0;
    for (key, row) in keys(&found) {
        let bytes = row["bytes"].as_i64().expect("known");
        let is_bloom = ["bloom", "window"].contains(&&key[..]);
        let used = client.cmd(&format!("MEMORY USAGE {key}"));
        assert!(is_bloom || used == int(bytes), "{key}");
        sum += bytes;
    }
    assert_eq!(found["bytes"].as_i64(), Some(sum));
}

/// Readers are shown where there are any.
#[test]
fn a_filter_that_is_read_is_listed_with_its_readers() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("BF.ADD bloom item", int(1));
    let window = "BF.RESERVE window 0.01 100 WINDOW 3600000 PERIODS 3";
    client.ok(window);
    let titles = || {
        let table = run(&["list", &url(&server), "--quiet"]).done();
        table.lines().next().expect("a line").to_owned()
    };
    assert!(titles().ends_with("  ttl"), "{}", titles());
    client.run("BF.READ bloom $");
    server.client().run("BF.READ bloom $");
    assert!(titles().ends_with("  ttl  readers"), "{}", titles());
    let all = keys(&list(&server, &[]));
    let bytes = info(&mut client, "bloom", "Feed bytes").as_int();
    let bloom = &all["bloom"];
    assert_eq!(
        (&bloom["readers"], &bloom["feed_bytes"]),
        (&2.into(), &bytes.into())
    );
    let window = &all["window"];
    assert_eq!(
        (&window["readers"], window.get("feed_bytes")),
        (&Value::Null, None)
    );
    let sorted = run(&["list", &url(&server), "--csv", "--sort", "readers"]).done();
    let first = sorted.lines().nth(1).expect("a row");
    assert!(
        first.starts_with("bloom,") && first.ends_with(",2"),
        "{first}"
    );
}

#[test]
fn databases_and_clusters_are_listed() {
    let one = Server::start();
    let mut client = one.client();
    client.ok("SELECT 3");
    add(&mut client, "seen", &numbered("item", 0..3));
    assert!(keys(&list(&one, &[])).is_empty());
    let found = run(&["list", &(url(&one) + "3"), "--json"]).json();
    assert_eq!(keys(&found)["seen"]["items"], 3);

    let cluster = nodes(2, 2, Duration::from_secs(30));
    for name in numbered("key", 0..20) {
        let key = name.replace(' ', ":");
        let words: [&[u8]; 3] = [b"BF.ADD", key.as_bytes(), b"item"];
        let made = cluster
            .iter()
            .filter(|node| !node.client().call(&words).is_error());
        assert_eq!(made.count(), 1);
    }
    let found = list(&cluster[0], &["--advice"]);
    assert_eq!(keys(&found).len(), 20);
    assert_eq!(found["unreadable"], 0);
}

/// Values of RedisBloom and valkey-bloom are listed with what those modules said of them.
#[test]
fn values_of_the_peers_are_listed() {
    let server = Server::start();
    let mut client = server.client();
    for program in PROGRAMS {
        client.ok("FLUSHALL");
        let recorded = program.objects();
        for object in &recorded {
            restore(&mut client, object);
        }
        let all = keys(&list(&server, &[]));
        assert_eq!(all.len(), recorded.len());
        for object in recorded {
            let row = &all[&object.key];
            assert_eq!(row["type"], object.type_name());
            assert_eq!(row["items"].as_i64(), Some(object.card()), "{}", object.key);
            let own = info(&mut client, &object.key, "Number of filters").as_int();
            assert_eq!(row["filters"].as_i64(), Some(own));
        }
    }
    client.ok("FLUSHALL");
    let recorded = sketches::restore_all(&mut client);
    let all = keys(&list(&server, &[]));
    assert_eq!(all.len(), recorded.len());
    for sketch in recorded {
        let row = &all[&sketch.key];
        assert_eq!(row["type"], sketch.type_name);
        assert!(row["items"].is_u64() && row["bytes"].is_u64(), "{row}");
    }
}

#[test]
fn names_of_keys_are_printed_safely() {
    let server = with_fixed_seed();
    let mut client = server.client();
    for key in [
        &b"a\nb"[..],
        b"\xff\xfe",
        b"\x1b[31mred",
        b"with space",
        b"comma,\"quote\"",
        b"",
        b"\"\"",
    ] {
        assert_eq!(client.call(&[b"BF.ADD", key, b"item"]), int(1));
    }
    replay("list-names.txt", &[&server]);
}
