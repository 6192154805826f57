//! Items of files that are removed from a filter.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Server, int, ok};

use super::{Run, add, numbered, run, url};

fn remove(server: &Server, key: &str, items: &[String]) -> Run {
    let list = server.dir().join("list");
    fs::write(&list, items.join("\n")).expect("the folder can be written to");
    let list = list.to_str().expect("ASCII");
    let words = ["remove", list, "--from", &url(server), "--key", key];
    run(&[&words[..], &["--json"]].concat())
}

fn report(key: &str, removed: u64, absent: u64, refused: u64) -> Value {
    let items = removed + absent + refused;
    json!({ "key": key, "items": items, "removed": removed, "absent": absent, "refused": refused })
}

#[test]
fn items_are_removed_and_absent_ones_counted() {
    let server = Server::start();
    let mut client = server.client();
    for (create, add, exists) in [
        (
            "BF.RESERVE blocked 0.000001 10000 COUNTING",
            "BF.ADD",
            "BF.EXISTS",
        ),
        // So wide that no item is mistaken for another.
        ("CF.RESERVE blocked 10000000", "CF.ADD", "CF.EXISTS"),
    ] {
        assert_eq!(client.cmd("FLUSHALL"), ok());
        assert_eq!(client.cmd(create), ok());
        let items = numbered("item", 0..2500);
        let mut call =
            |name: &str, item: &str| client.call(&[name.as_bytes(), b"blocked", item.as_bytes()]);
        for item in &items[..2000] {
            assert_eq!(call(add, item), int(1), "{add}");
        }
        // More than one command takes.
        let removed = remove(&server, "blocked", &items[500..]).json();
        assert_eq!(removed, report("blocked", 1500, 500, 0), "{create}");
        for (at, item) in items.iter().enumerate() {
            assert_eq!(call(exists, item), int((at < 500).into()), "{item}");
        }
    }
}

/// An item that two tables claim stays: which of them counted it is unknown.
#[test]
fn refused_removals_are_counted_and_fail() {
    let server = Server::start();
    let mut client = server.client();
    // Of a high rate, so that its tables claim many of each other's items. The second is full in the end, and the first has
    // room again.
    assert_eq!(client.cmd("BF.RESERVE blocked 0.9 1000 COUNTING"), ok());
    for round in 0..20 {
        let words = numbered("item", 1000 * round..1000 * round + 1000);
        add(&mut client, "blocked", &words);
        for item in numbered("item", 40 * round..40 * round + 40) {
            client.call(&[b"BF.DEL", b"blocked", item.as_bytes()]);
        }
    }
    let run = remove(&server, "blocked", &numbered("item", 1000..16_000));
    let found: Value = serde_json::from_str(&run.out).expect("it is JSON");
    let count = |name: &str| found[name].as_u64().expect("a number");
    let refused = count("refused");
    assert!(refused > 0, "{found}");
    assert_eq!(count("removed") + count("absent") + refused, 15_000);
    let why = format!(
        "{refused} removals were refused by blocked at 127.0.0.1:{}, which still finds the items",
        server.port()
    );
    assert_eq!(found["error"], why);
    assert_eq!(run.failed(1), why);
}
