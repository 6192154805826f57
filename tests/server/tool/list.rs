//! `valkeybloom list`: every key is listed as its server describes it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::nodes;
use crate::harness::{Client, Server, array, int, ok};
use crate::support::recordings::{PROGRAMS, restore};
use crate::support::sketches;

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

/// Makes a key of each family.
fn make_all(client: &mut Client) {
    assert_eq!(client.cmd("BF.RESERVE bloom 0.001 1000"), ok());
    add(client, "bloom", &numbered("item", 0..250));
    assert_eq!(
        client.cmd("BF.RESERVE window 0.01 100 WINDOW 3600000 PERIODS 3"),
        ok()
    );
    assert_eq!(client.cmd("CF.RESERVE cuckoo 1000"), ok());
    assert_eq!(client.cmd("CF.ADD cuckoo item"), int(1));
    assert_eq!(client.cmd("CMS.INITBYDIM counts 2000 5"), ok());
    assert_eq!(
        client.cmd("CMS.INCRBY counts a 7 b 5"),
        array([int(7), int(5)])
    );
    assert_eq!(client.cmd("TOPK.RESERVE top 5 50 3 0.8"), ok());
    assert!(!client.cmd("TOPK.ADD top a b").is_error());
    assert_eq!(client.cmd("TDIGEST.CREATE digest COMPRESSION 200"), ok());
    assert_eq!(client.cmd("TDIGEST.ADD digest 1 2 3"), ok());
    assert_eq!(client.cmd("SET text text"), ok());
}

#[test]
fn all_families_are_listed() {
    let server = Server::start();
    let mut client = server.client();
    make_all(&mut client);
    assert_eq!(client.cmd("EXPIRE cuckoo 10000"), int(1));
    let found = list(&server, &[]);
    let all = keys(&found);
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["bloom", "counts", "cuckoo", "digest", "top", "window"]
    );

    let bloom = &all["bloom"];
    for (name, field) in [
        ("items", "Number of items inserted"),
        ("capacity", "Capacity"),
        ("filters", "Number of filters"),
        ("bytes", "Size"),
        ("can_grow_to", "Max scaled capacity"),
    ] {
        let reply = info(&mut client, "bloom", field).as_int();
        assert_eq!(bloom[name].as_i64(), Some(reply), "{name}");
    }
    let now: f64 = info(&mut client, "bloom", "Estimated error rate")
        .text()
        .parse()
        .unwrap();
    assert_eq!(bloom["error_rate_now"].as_f64(), Some(now));
    assert_eq!(
        (&bloom["error_rate"], &bloom["ttl_ms"]),
        (&0.001.into(), &(-1).into())
    );
    assert_eq!(all["window"]["window_ms"], 3_600_000);
    let left = all["cuckoo"]["ttl_ms"].as_u64().expect("it expires");
    assert!((1..=10_000_000).contains(&left), "{left}");
    assert_eq!(
        (&all["cuckoo"]["items"], &all["cuckoo"]["capacity"]),
        (&1.into(), &1024.into())
    );
    // Two over the width is the error that CMS.INITBYPROB makes this width for.
    let counts = &all["counts"];
    assert_eq!(
        (&counts["items"], &counts["error_rate"]),
        (&12.into(), &0.001.into())
    );
    assert_eq!(counts["capacity"], Value::Null);
    let top = &all["top"];
    assert_eq!(
        (&top["items"], &top["capacity"], &top["full"]),
        (&2.into(), &5.into(), &0.4.into())
    );
    assert_eq!(top["decay"], 0.8);
    let digest = &all["digest"];
    assert_eq!(
        (&digest["items"], &digest["compression"]),
        (&3.into(), &200.into())
    );
    let mut sum = 0;
    for (key, row) in &all {
        let bytes = row["bytes"].as_i64().expect("known");
        if !["bloom", "window"].contains(&&key[..]) {
            assert_eq!(
                client.cmd(&format!("MEMORY USAGE {key}")),
                int(bytes),
                "{key}"
            );
        }
        sum += bytes;
    }
    assert_eq!(found["bytes"].as_i64(), Some(sum));
    assert_eq!(found["types"]["bloomfltx"]["keys"], 1);
}

/// Readers are shown where there are any.
#[test]
fn a_filter_that_is_read_is_listed_with_its_readers() {
    let server = Server::start();
    let mut client = server.client();
    make_all(&mut client);
    let titles = || {
        let table = run(&["list", &url(&server), "--quiet"]).done();
        table.lines().next().expect("a line").to_owned()
    };
    assert!(titles().ends_with("  ttl"), "{}", titles());
    assert!(!client.cmd("BF.READ bloom $").is_error());
    assert!(!server.client().cmd("BF.READ bloom $").is_error());
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

/// A table and CSV have the same rows, sorted by any column.
#[test]
fn tables_are_sorted_by_any_column() {
    let server = Server::start();
    let mut client = server.client();
    make_all(&mut client);
    assert_eq!(client.cmd("EXPIRE cuckoo 10000"), int(1));
    let address = url(&server);
    for (options, first, last) in [
        (&["--sort", "items"][..], "bloom", "window"),
        (&["--sort", "items", "--reverse"], "window", "bloom"),
        (&["--sort", "ttl", "--reverse"], "cuckoo", "window"),
        (&["--type", "TopK-TYPE"], "top", "top"),
        (
            &["--type", "TopK-TYPE", "--type", "MBbloomCF"],
            "cuckoo",
            "top",
        ),
        (&["--reverse"], "window", "bloom"),
        (&["--match", "c*"], "counts", "cuckoo"),
    ] {
        let words = [&["list", &address, "--quiet"], options].concat();
        let table = run(&words).done();
        let lines: Vec<&str> = table.lines().collect();
        let csv = run(&[&words[..], &["--csv"]].concat()).done();
        let rows: Vec<&str> = csv.lines().collect();
        assert!(
            lines[1].starts_with(&format!("{first} ")),
            "{options:?}: {table}"
        );
        assert!(
            rows[1].starts_with(&format!("{first},")),
            "{options:?}: {csv}"
        );
        assert!(
            lines[lines.len() - 2].starts_with(&format!("{last} ")),
            "{options:?}: {table}"
        );
        assert!(
            rows[rows.len() - 1].starts_with(&format!("{last},")),
            "{options:?}: {csv}"
        );
        assert_eq!(rows.len() + 1, lines.len());
        let keys = rows.len() - 1;
        assert!(
            lines[lines.len() - 1].starts_with(&format!("{keys} key")),
            "{table}"
        );
    }
}

#[test]
fn databases_and_clusters_are_listed() {
    let one = Server::start();
    let mut client = one.client();
    assert_eq!(client.cmd("SELECT 3"), ok());
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
        assert_eq!(client.cmd("FLUSHALL"), ok());
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
    assert_eq!(client.cmd("FLUSHALL"), ok());
    let recorded = sketches::restore_all(&mut client);
    let all = keys(&list(&server, &[]));
    assert_eq!(all.len(), recorded.len());
    for sketch in recorded {
        let row = &all[&sketch.key];
        assert_eq!(row["type"], sketch.type_name);
        assert!(row["items"].is_u64() && row["bytes"].is_u64(), "{row}");
    }
}

/// Keys that a user may not read are counted, and the others are listed.
#[test]
fn forbidden_keys_are_counted() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["app:seen", "other:seen", "other:crawl"] {
        add(&mut client, key, &numbered("item", 0..3));
    }
    assert_eq!(client.cmd("ACL SETUSER u on >secret ~app:* +@all"), ok());
    let address = format!("redis://u:secret@127.0.0.1:{}", server.port());
    let line = format!(
        "2 keys could not be read at 127.0.0.1:{}: NOPERM ",
        server.port()
    );
    for (form, listed) in [
        ("--quiet", "\n1 key, "),
        ("--csv", "\napp:seen,"),
        ("--json", "\"unreadable\":2"),
        ("--prometheus", "\nvalkeybloom_unreadable_keys{"),
    ] {
        let run = run(&["list", &address, form]);
        assert!(run.out.contains(listed), "{}", run.out);
        assert!(!run.err.contains("secret"));
        let found = serde_json::from_str::<Value>(&run.out).ok();
        assert_eq!(found.is_some(), form == "--json", "{}", run.out);
        let error = run.failed(1);
        assert!(error.starts_with(&line), "{error}");
        if let Some(found) = found {
            assert_eq!(found["keys"].as_array().map(Vec::len), Some(1));
            assert_eq!(found["error"], error);
        }
    }
}

#[test]
fn names_of_keys_are_printed_safely() {
    let server = Server::start();
    let mut client = server.client();
    for key in [
        &b"a\nb"[..],
        b"\xff\xfe",
        b"\x1b[31mred",
        b"with space",
        b"comma,\"quote\"",
    ] {
        assert_eq!(client.call(&[b"BF.ADD", key, b"item"]), int(1));
    }
    let shown = [
        r#""\x1b[31mred""#,
        r#""\xff\xfe""#,
        r#""a\nb""#,
        r#""with space""#,
        r#"comma,"quote""#,
    ];
    for options in [
        &[][..],
        &["--csv"],
        &["--json"],
        &["--advice"],
        &["--prometheus"],
    ] {
        let out = run(&[&["list", &url(&server), "--quiet"], options].concat()).done();
        assert!(
            !out.contains('\u{1b}') || options == ["--prometheus"],
            "{out}"
        );
        let lines = out.lines().count();
        match options {
            ["--csv"] => assert_eq!(lines, 6, "{out}"),
            [] | ["--advice"] => {
                assert_eq!(lines, 7, "{out}");
                assert!(shown.iter().all(|key| out.contains(key)), "{out}");
            }
            _ => {}
        }
    }
    let found = list(&server, &[]);
    let names = keys(&found);
    assert!(
        shown.iter().all(|key| names.contains_key(*key)),
        "{names:?}"
    );
}

#[test]
fn failed_listings_name_the_reason() {
    let server = Server::start();
    let at = server.port();
    assert_eq!(
        server.client().cmd("ACL SETUSER u on >secret ~* +ping"),
        ok()
    );
    let address = format!("redis://u:secret@127.0.0.1:{at}");
    let why = run(&["list", &address]).failed(1);
    assert!(
        why.starts_with(&format!(
            "could not list the keys of 127.0.0.1:{at}: NOPERM "
        )),
        "{why}"
    );
    let own = url(&server);
    for (words, why) in [
        (
            &["--json", "--csv"][..],
            "--json can't be used with --csv or --prometheus",
        ),
        (
            &["--json", "--prometheus"],
            "--json can't be used with --csv or --prometheus",
        ),
        (&["--csv", "--advice"], "cannot be used with"),
        (&["--sort", "size"], "invalid value 'size'"),
    ] {
        let words = [&["list", &own], words].concat();
        let reported = run(&words);
        assert!(reported.err.contains(why), "{}", reported.err);
        reported.failed(2);
    }
    let missing = server.dir().join("none").join("metrics.prom");
    let why = run(&[
        "list",
        &url(&server),
        "--prometheus",
        missing.to_str().expect("ASCII"),
    ])
    .failed(1);
    assert!(
        why.starts_with(&format!("could not write {}: ", missing.display())),
        "{why}"
    );
}
