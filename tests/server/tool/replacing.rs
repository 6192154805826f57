//! What `build` replaces, and when it refuses to.

use std::fs;

use crate::harness::{Server, int, ok};
use crate::support::protocols::with_fixed_seed;

use super::session::replay;
use super::{Run, Way, add, found, info, left, lines, numbered, run_line, url};

/// Builds `key` from a list of numbered items.
fn build(server: &Server, to: &str, key: &str, items: u32, options: &str) -> Run {
    let path = lines(server, "list", &numbered("item", 0..items));
    run_line(&format!("build {path} --to {to} --key {key} {options}"))
}

/// A list that came out short must not cost the filter that is there, and another kind has to be meant.
#[test]
fn what_is_there_is_replaced_only_on_request() {
    let server = with_fixed_seed();
    replay("replacing.txt", &[&server]);
    assert_eq!(left(&mut server.client()), []);
}

/// Another client is quicker.
#[test]
fn a_key_that_changes_during_the_run_is_left_alone() {
    for (options, (word, nth), command, why) in [
        (
            "--rate 0.01",
            // The first two create temporary keys.
            ("EVAL", 3),
            "BF.RESERVE seen 0.01 7",
            "another client has just created it",
        ),
        (
            "--rate 0.01",
            ("EVAL", 1),
            "BF.RESERVE seen 0.01 7",
            "exists, with 0 items: replace it with --replace, or add to it with --add",
        ),
        (
            "--rate 0.01 --change-kind",
            ("EVAL", 1),
            "SET seen 7",
            "is no filter or sketch but of type string: name another key",
        ),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let mut other = server.client();
        let way = Way::before(&server, word, nth, move || {
            other.ok(command);
        });
        let found = build(&server, &way.url(), "seen", 9, options).failed(1);
        assert!(found.ends_with(why), "{found}");
        assert_eq!(client.cmd("DBSIZE"), int(1), "{command}");
    }
}

/// Another client replaces the key between its type and its description, just before the filter gets its name.
#[test]
fn a_key_that_changes_while_it_is_read_is_left_alone() {
    for (command, kind, why) in [
        (
            "TOPK.RESERVE seen 3",
            "TopK-TYPE",
            "is a Top-K: build it with --as topk, or replace it with --change-kind",
        ),
        (
            "SET seen 7",
            "string",
            "it changes while it is read: run this again",
        ),
    ] {
        let server = Server::start();
        let mut client = server.client();
        client.ok("BF.RESERVE seen 0.01 7");
        let mut other = server.client();
        // The first names no key, and the second describes the filter before the files are read.
        let way = Way::before(&server, "BF.INFO", 3, move || {
            other.expect("DEL seen", int(1));
            other.ok(command);
        });
        let options = "--rate 0.01 --replace";
        let found = build(&server, &way.url(), "seen", 9, options).failed(1);
        assert!(found.ends_with(why), "{found}");
        assert_eq!(client.cmd("TYPE seen").text(), kind);
    }
}

/// A file is cut between the two passes.
#[test]
fn files_that_change_replace_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.expect("BF.ADD seen old", int(1));
    let path = server.dir().join("list");
    let way = Way::before(&server, "BF.LOADCHUNK", 1, move || {
        fs::write(&path, "item 0\nitem 1\n").expect("the folder can be written to");
    });
    let options = "--rate 0.01 --replace --allow-few";
    assert_eq!(
        build(&server, &way.url(), "seen", 700, options).failed(1),
        "the files changed while they were read: 700 items at first, then 2"
    );
    client.expect("BF.CARD seen", int(1));
    client.expect("DBSIZE", int(1));
}

/// Whatever BF.RESERVE can make.
#[test]
fn counters_and_windows_are_built_as_reserved() {
    let server = Server::start();
    let mut client = server.client();
    let (to, items) = (url(&server), numbered("item", 0..300));
    let window = "WINDOW 100000000000 PERIODS 3";
    for (options, reserve, words) in [
        ("--counting", "COUNTING", ""),
        ("--counting --nonscaling", "NONSCALING COUNTING", ""),
        ("--window 100000000s --periods 3", window, "Window Periods"),
    ] {
        let options = format!("--rate 0.001 {options}");
        build(&server, &to, "key", 300, &options).done();
        let reserved = client.cmd(&format!("BF.RESERVE due 0.001 300 {reserve}"));
        assert_eq!(reserved, ok());
        add(&mut client, "due", &items);
        let fields = ["Size", "Number of filters", "Capacity", "Expansion rate"];
        for field in fields.into_iter().chain(words.split_whitespace()) {
            let [due, is] = ["due", "key"].map(|key| info(&mut client, key, field));
            assert_eq!(is, due, "{options} {field}");
        }
        assert_eq!(found(&mut client, "key", &items), 300);
        let deletes = client.call(&[b"BF.DEL", b"key", b"item 7"]) == int(1);
        assert_eq!(deletes, words.is_empty());
        client.expect("DEL due key", int(2));
    }
}
