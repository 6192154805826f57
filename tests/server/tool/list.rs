//! `valkeybloom list`: every key is listed as its server describes it, whatever happens to it during the run.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::nodes;
use crate::harness::{Client, Server, array, int, ok, wait_until};
use crate::support::recordings::{PROGRAMS, restore};
use crate::support::sketches;
use crate::support::usage::most_resident;

use super::{Way, add, command, info, kill, numbered, run, url};

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

/// The key changes just before it is described.
#[test]
fn keys_that_change_are_listed_as_what_they_are_now() {
    for (change, left) in [
        ("DEL changing", None),
        ("SET changing text", None),
        ("PEXPIRE changing 0", None),
        ("CF.ADD changing item", Some("MBbloomCF")),
        ("BF.RESERVE changing 0.01 100 COUNTING", Some("bloomfltx")),
    ] {
        let server = Server::start();
        let mut client = server.client();
        for key in ["changing", "other"] {
            add(&mut client, key, &numbered("item", 0..3));
        }
        let way = Way::before(&server, "BF.INFO", 1, move || {
            if !change.starts_with("PEXPIRE") {
                assert_eq!(client.cmd("DEL changing"), int(1));
            }
            let reply = client.cmd(change);
            assert!(!reply.is_error(), "{change}: {reply:?}");
        });
        let found = run(&["list", &way.url(), "--json"]).json();
        let all = keys(&found);
        assert_eq!(all["other"]["items"], 3, "{change}");
        let kind = all
            .get("changing")
            .map(|row| row["type"].as_str().expect("a name"));
        assert_eq!(kind, left, "{change}");
        assert_eq!(found["unreadable"], 0, "{change}");
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

/// There are ten thousand keys. A third of them come and go, change their types or expire during the listing.
#[test]
fn a_listing_under_churn_has_every_lasting_key() {
    const KEYS: u32 = 10_000;
    let server = Server::start();
    let mut client = server.client();
    let made = |number: u32| {
        let key = format!("key:{number}").into_bytes();
        let command = ["BF.ADD", "CF.ADD", "TDIGEST.CREATE"][number as usize % 3];
        let mut words = vec![command.into(), key];
        if command != "TDIGEST.CREATE" {
            words.push(b"item".to_vec());
        }
        words
    };
    let all: Vec<Vec<Vec<u8>>> = (0..KEYS).map(made).collect();
    for batch in all.chunks(1000) {
        assert!(client.call_all(batch).iter().all(|reply| !reply.is_error()));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let rounds = Arc::new(AtomicU32::new(0));
    let writer = {
        let (stop, rounds, mut client) = (Arc::clone(&stop), Arc::clone(&rounds), server.client());
        thread::spawn(move || {
            let mut round = 0_u32;
            while !stop.load(Relaxed) {
                // Every third key changes.
                let key = format!("key:{}", round * 3 % KEYS / 3 * 3);
                let change = match round % 4 {
                    0 => format!("SET {key} text"),
                    1 => format!("UNLINK {key}"),
                    2 => format!("PEXPIRE {key} 1"),
                    _ => format!("TOPK.RESERVE {key} 3"),
                };
                client.cmd(&change);
                round = round.wrapping_add(1);
                rounds.store(round, Relaxed);
            }
        })
    };
    wait_until("keys change", || rounds.load(Relaxed) > 100);
    for rate in ["20000", "0"] {
        let found = list(&server, &["--rate", rate]);
        let all = keys(&found);
        assert_eq!(found["unreadable"], 0);
        for number in (0..KEYS).filter(|number| number % 3 != 0) {
            let kind = ["", "MBbloomCF", "TDIS-TYPE"][number as usize % 3];
            let row = all.get(&format!("key:{number}"));
            let row = row.unwrap_or_else(|| panic!("key:{number} is missing"));
            assert_eq!(row["type"], kind, "key:{number}");
        }
    }
    stop.store(true, Relaxed);
    writer.join().expect("the writer ends");
}

/// The server waits in the middle of a listing until its first rows are written.
#[test]
fn rows_are_written_while_others_are_read() {
    let server = Server::start();
    let keys = (0..1000).map(|key| {
        [
            "BF.ADD".into(),
            format!("key:{key}").into_bytes(),
            "i".into(),
        ]
        .to_vec()
    });
    let made = server
        .client()
        .call_all(&keys.collect::<Vec<Vec<Vec<u8>>>>());
    assert!(made.iter().all(|reply| *reply == int(1)));
    for (form, row) in [("--json", "\"key\":\"key:0\""), ("--csv", "key:0,")] {
        let written = Arc::new(AtomicBool::new(false));
        let mut described = 0;
        let is_third_batch = move |sent: &[u8]| {
            described += sent.windows(7).filter(|word| word == b"BF.INFO").count();
            described > 400
        };
        let way = Way::at(&server, is_third_batch, {
            let written = Arc::clone(&written);
            move || wait_until("rows are written", || written.load(Relaxed))
        });
        let mut list = command(&["list", &way.url(), form, "--rate", "0", "--quiet"]);
        let mut list = list
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut out = list.stdout.take().expect("a pipe");
        let mut text = vec![0; 1000];
        out.read_exact(&mut text).expect("there are more rows");
        written.store(true, Relaxed);
        out.read_to_end(&mut text).expect("it ends");
        let text = String::from_utf8(text).expect("it writes UTF-8");
        assert!(text.contains(row), "{text}");
        assert!(list.wait().expect("it is ours").success());
        assert_eq!(
            text.matches("bloomfltr").count(),
            1000 + usize::from(form == "--json")
        );
    }
}

/// Lists these keys as JSON. Returns the number of rows, and the most memory that the program has held.
fn most_held(server: &Server, pattern: &str) -> (usize, u64) {
    let words = ["list", &url(server), "--json", "--rate", "0", "--quiet"];
    let mut list = command(&words);
    list.args(["--match", pattern]).stdout(Stdio::piped());
    let mut list = list.spawn().expect("the program runs");
    let mut out = list.stdout.take().expect("a pipe");
    let (mut text, mut most) = (Vec::new(), None);
    // The program can't end before all of its output but a pipe's capacity is read.
    let mut piece = vec![0; 1 << 16];
    loop {
        most = most_resident(list.id()).max(most);
        let count = out.read(&mut piece).expect("it is readable");
        if count == 0 {
            break;
        }
        text.extend(&piece[..count]);
    }
    assert!(list.wait().expect("it is ours").success());
    let text = String::from_utf8(text).expect("it writes UTF-8");
    (text.matches("\"key\":").count(), most.expect("it ran"))
}

/// A long listing keeps the names of its keys, and no rows.
#[test]
fn a_listing_in_json_keeps_no_rows() {
    const FEW: u32 = 1_000;
    const MANY: u32 = 40_000;
    // A name takes about 120, and a row 400 more.
    const BYTES_OF_KEY: u64 = 256;
    let server = Server::start();
    let mut client = server.client();
    let made = |key: u32| {
        let group = if key < FEW { "few" } else { "more" };
        [
            b"TDIGEST.CREATE".into(),
            format!("key:{group}:{key}").into(),
            b"COMPRESSION".into(),
            b"1".into(),
        ]
        .to_vec()
    };
    let all: Vec<Vec<Vec<u8>>> = (0..MANY).map(made).collect();
    for batch in all.chunks(1_000) {
        assert!(client.call_all(batch).iter().all(|reply| *reply == ok()));
    }
    let (rows, least) = most_held(&server, "key:few:*");
    assert_eq!(rows, FEW as usize);
    let (rows, most) = most_held(&server, "key:*");
    assert_eq!(rows, MANY as usize);
    let each = most.saturating_sub(least) / u64::from(MANY);
    assert!(
        each < BYTES_OF_KEY,
        "{each} bytes a key, from {least} to {most}"
    );
}

/// JSON that has begun ends with the error, and the rows up to then.
#[test]
fn a_listing_that_breaks_off_is_still_one_object() {
    let mut server = Server::start();
    let keys = (0..1000).map(|key| {
        [
            "BF.ADD".into(),
            format!("key:{key}").into_bytes(),
            "i".into(),
        ]
        .to_vec()
    });
    server
        .client()
        .call_all(&keys.collect::<Vec<Vec<Vec<u8>>>>());
    let mut described = 0;
    let is_third_batch = move |sent: &[u8]| {
        described += sent.windows(7).filter(|word| word == b"BF.INFO").count();
        described > 400
    };
    let pid = server.pid();
    let way = Way::at(&server, is_third_batch, move || kill(pid));
    let broken = run(&["list", &way.url(), "--json", "--rate", "0", "--quiet"]);
    let found: Value = serde_json::from_str(&broken.out).expect("one object");
    assert_eq!(found["keys"].as_array().map(Vec::len), Some(400));
    let why = broken.failed(1);
    assert_eq!(found["error"], why);
    server.kill();
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
    // A server without any module has nothing to list.
    let bare = Server::builder().without_module().start();
    assert_eq!(bare.client().cmd("SET k v"), ok());
    assert!(keys(&list(&bare, &[])).is_empty());
}
