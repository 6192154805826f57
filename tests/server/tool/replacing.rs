//! What `build` replaces, and when it refuses to.

use std::fs;

use crate::harness::{Client, Server, int, ok};

use super::{Run, Way, add, left, numbered, run, url};

/// Builds `key` from a list of numbered items.
fn build(server: &Server, to: &str, key: &str, items: u32, options: &str) -> Run {
    let path = server.dir().join("list");
    fs::write(&path, numbered("item", 0..items).join("\n")).expect("the folder can be written to");
    let path = path.to_str().expect("ASCII");
    let options = options.split(' ').filter(|word| !word.is_empty());
    let words = ["build", path, "--to", to, "--key", key];
    run(&words.into_iter().chain(options).collect::<Vec<_>>())
}

fn old(client: &mut Client) {
    assert_eq!(client.cmd("BF.RESERVE seen 0.000001 1000"), ok());
    add(client, "seen", &numbered("old", 0..999));
}

#[test]
fn what_is_there_is_replaced_only_on_request() {
    let server = Server::start();
    let mut client = server.client();
    let (to, at) = (url(&server), format!("at 127.0.0.1:{}", server.port()));
    old(&mut client);
    let rate = "--rate 0.000001";
    let why = build(&server, &to, "seen", 100, rate).failed(1);
    let due = format!(
        "seen {at} exists, with 999 items: replace it with --replace, or add to it with --add"
    );
    assert_eq!(why, due);
    assert_eq!(client.cmd("BF.CARD seen"), int(999));
    let told = build(&server, &to, "seen", 100, "--rate 0.000001 --replace").done();
    assert!(told.ends_with("\nreplaced  999 items\n"), "{told}");
    let told = build(&server, &to, "seen", 50, "--rate 0.01 --replace --json").json();
    assert_eq!(told["replaced"], 100);
    // Without a key, there is nothing to say.
    let told = build(&server, &to, "new", 50, "--rate 0.01 --replace --json").json();
    assert!(told.get("replaced").is_none(), "{told}");

    // A key of another family is replaced only if that is meant, and other values never.
    let sketch = "--as cms --rate 0.1 --replace";
    assert_eq!(
        build(&server, &to, "seen", 9, sketch).failed(1),
        format!(
            "seen {at} is a Bloom filter: build it with --as bloom, or replace it with --change-kind"
        )
    );
    let told = build(
        &server,
        &to,
        "seen",
        9,
        "--as cms --rate 0.1 --change-kind --json",
    )
    .json();
    assert_eq!(told["replaced"], 50);
    assert_eq!(client.cmd("SET text text"), ok());
    for options in ["--rate 0.1 --replace", "--rate 0.1 --change-kind", "--add"] {
        assert_eq!(
            build(&server, &to, "text", 9, options).failed(1),
            format!("text {at} is no filter or sketch but of type string: name another key")
        );
    }
    assert_eq!(client.cmd("GET text").text(), "text");
    assert_eq!(left(&mut client), []);
}

/// Another client is quicker.
#[test]
fn a_key_that_changes_during_the_run_is_left_alone() {
    for (options, word, command, why) in [
        (
            "--rate 0.01",
            "RENAMENX",
            "BF.RESERVE seen 0.01 7",
            "another client has just created it",
        ),
        (
            "--rate 0.01",
            "BF.LOADCHUNK",
            "BF.RESERVE seen 0.01 7",
            "exists, with 0 items: replace it with --replace, or add to it with --add",
        ),
        (
            "--rate 0.01 --change-kind",
            "BF.LOADCHUNK",
            "SET seen 7",
            "is no filter or sketch but of type string: name another key",
        ),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let mut other = server.client();
        let way = Way::before(&server, word, 1, move || {
            assert_eq!(other.cmd(command), ok());
        });
        let found = build(&server, &way.url(), "seen", 9, options).failed(1);
        assert!(found.ends_with(why), "{found}");
        assert_eq!(client.cmd("DBSIZE"), int(1), "{command}");
    }
}

/// A pipe whose writer was killed, or a file that was cut between the two passes.
#[test]
fn far_fewer_items_than_expected_replace_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let to = url(&server);
    old(&mut client);
    let options = "--rate 0.000001 --replace --items 1,000";
    assert_eq!(
        build(&server, &to, "seen", 499, options).failed(1),
        "there are only 499 items, not 1,000: if they are all, add --allow-few"
    );
    let path = server.dir().join("list");
    let way = Way::before(&server, "BF.LOADCHUNK", 1, move || {
        fs::write(&path, "item 0\nitem 1\n").expect("the folder can be written to");
    });
    assert_eq!(
        build(
            &server,
            &way.url(),
            "seen",
            700,
            "--rate 0.01 --replace --allow-few"
        )
        .failed(1),
        "the files changed while they were read: 700 items at first, then 2"
    );
    assert_eq!(client.cmd("BF.CARD seen"), int(999));
    assert_eq!(client.cmd("DBSIZE"), int(1));
    for (items, more) in [(500, ""), (499, " --allow-few")] {
        build(&server, &to, "seen", items, &format!("{options}{more}")).done();
        assert_eq!(client.cmd("BF.CARD seen"), int(items.into()));
    }
}
