//! Items of files that are removed from a filter.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Server, int, ok};

use super::{Run, numbered, run, url};

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

/// An item that was added fifteen times stays.
#[test]
fn refused_removals_are_counted_and_fail() {
    let server = Server::start();
    let mut client = server.client();
    let items = ["often", "once"].map(String::from);
    let reserved = client.cmd("BF.RESERVE blocked 0.000001 1000 COUNTING");
    assert_eq!(reserved, ok());
    let words = [&["BF.MADD", "blocked", "once"][..], &["often"; 15]].concat();
    client.cmd(&words.join(" "));
    let run = remove(&server, "blocked", &items);
    let mut expected = report("blocked", 1, 0, 1);
    let why = format!(
        "1 removals were refused by blocked at 127.0.0.1:{}, which still finds the items",
        server.port()
    );
    expected["error"] = why.clone().into();
    let found: Value = serde_json::from_str(&run.out).expect("it is JSON");
    assert_eq!(found, expected);
    assert_eq!(run.failed(1), why);
}
