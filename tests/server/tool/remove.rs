//! Items of files that are removed from a filter.

use serde_json::Value;

use crate::harness::{Server, int};
use crate::support::protocols::with_fixed_seed;

use super::session::replay;
use super::way::Way;
use super::{add, lines, numbered, run_line, url};

/// More than one command takes, of both kinds of filters that items can be removed from.
#[test]
fn items_are_removed_and_absent_ones_counted() {
    replay("remove.txt", &[&with_fixed_seed()]);
}

/// An item that two tables claim stays: which of them counted it is unknown.
#[test]
fn refused_removals_are_counted_and_fail() {
    let server = Server::start();
    let mut client = server.client();
    // Of a high rate, so that its tables claim many of each other's items. The second is full in the end, and the first has
    // room again.
    client.ok("BF.RESERVE blocked 0.9 1000 COUNTING");
    for round in 0..20 {
        let words = numbered("item", 1000 * round..1000 * round + 1000);
        add(&mut client, "blocked", &words);
        for item in numbered("item", 40 * round..40 * round + 40) {
            client.call(&[b"BF.DEL", b"blocked", item.as_bytes()]);
        }
    }
    let list = lines(&server, "list", &numbered("item", 1000..16_000));
    let line = format!("remove {list} --from {} --key blocked --json", url(&server));
    let run = run_line(&line);
    let found: Value = serde_json::from_str(&run.out).expect("it is JSON");
    let count = |name: &str| found[name].as_u64().expect("a number");
    let refused = count("refused");
    assert!(refused > 0, "{found}");
    assert_eq!(count("removed") + count("absent") + refused, 15_000);
    let error = found["error"].as_str().expect("a text");
    let (number, rest) = error.split_once(' ').expect("words");
    assert_eq!(number.replace(',', ""), refused.to_string());
    let port = server.port();
    let end = format!("refused by blocked at 127.0.0.1:{port}, which still finds the items");
    assert!(rest.ends_with(&end), "{error}");
    assert_eq!(run.failed(1), error);
}

/// BF.MDEL finds no item in a missing key.
#[test]
fn a_filter_that_is_gone_during_the_run_is_an_error() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("BF.RESERVE blocked 0.01 10000 COUNTING");
    let words = numbered("item", 0..3000);
    add(&mut client, "blocked", &words);
    let list = lines(&server, "list", &words);
    let way = Way::before(&server, "EVAL", 2, move || {
        client.expect("DEL blocked", int(1));
    });
    let line = format!("remove {list} --from {} --key blocked", way.url());
    let failed = run_line(&line).failed(1);
    assert!(failed.starts_with("blocked does not exist at "), "{failed}");
}
