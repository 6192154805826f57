//! Servers that load some of the families.

use std::fs;

use serde_json::Value;

use crate::harness::{Server, int, ok};
use crate::selected::with_families;

use super::moving::{bring, count};
use super::{run, url};

const MADE: [&str; 5] = [
    "BF.RESERVE bloom 0.01 100",
    "CF.RESERVE cuckoo 100",
    "CMS.INITBYDIM cms 10 2",
    "TOPK.RESERVE topk 2",
    "TDIGEST.CREATE tdigest",
];

/// Bloom filters are not needed for the other families.
#[test]
fn servers_without_bloom_filters_are_listed_compared_and_moved() {
    let families = "cuckoo,cms,topk,tdigest";
    let [from, to] = [(); 2].map(|()| with_families(families).start());
    let mut client = from.client();
    for made in &MADE[1..] {
        assert_eq!(client.cmd(made), ok());
    }
    assert_eq!(client.cmd("CF.ADD cuckoo item"), int(1));
    let listed = run(&["list", &url(&from), "--json", "--advice"]).json();
    assert_eq!(listed["keys"].as_array().expect("a list").len(), 4);
    let reported = bring(&from, &to, &["--dry-run", "--json"]).json();
    assert_eq!(count(&reported, "would move"), 4);
    let reported = bring(&from, &to, &["--verify", "--json"]).json();
    assert_eq!(count(&reported, "moved"), 4);
    run(&["compare", &url(&from), &url(&to)]).done();

    let list = to.dir().join("list");
    fs::write(&list, "item").expect("the folder can be written to");
    let list = list.to_str().expect("ASCII");
    let at = url(&to);
    run(&["remove", list, "--from", &at, "--key", "cuckoo"]).done();
    assert_eq!(to.client().cmd("CF.EXISTS cuckoo item"), int(0));
    let why = run(&["build", list, "--to", &at, "--key", "k", "--rate", "0.01"]).failed(1);
    let start = format!(
        "could not find filters at 127.0.0.1:{}: ERR unknown command 'BF.INFO'",
        to.port()
    );
    assert!(why.starts_with(&start), "{why}");
    assert!(
        why.ends_with("; load the module there, or add the command's family to its bf.families"),
        "{why}"
    );
}

#[test]
fn families_that_a_target_lacks_are_named() {
    let from = Server::start();
    let mut client = from.client();
    for made in MADE {
        assert_eq!(client.cmd(made), ok());
    }
    for families in ["bloom", "cuckoo,topk"] {
        for (words, other) in [
            (&["move", "--dry-run"][..], "would move"),
            (&["compare"], "only at source"),
            (&["move"], "moved"),
        ] {
            let to = with_families(families).start();
            let run = run(&[words, &["--json", &url(&from), &url(&to)]].concat());
            let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
            run.failed(1);
            let keys = reported["keys"].as_array().expect("a list");
            assert_eq!(keys.len(), 5, "{words:?}");
            for key in keys {
                let family = key["key"].as_str().expect("a text");
                let kind = key["type"].as_str().expect("a text");
                let (outcome, reason) = if families.split(',').any(|name| name == family) {
                    (other, None)
                } else {
                    let reason =
                        format!("the server there has no {kind}: add {family} to its bf.families");
                    let outcome = match words {
                        ["compare"] => other,
                        _ => "refused",
                    };
                    (outcome, Some(reason))
                };
                assert_eq!(key["outcome"], outcome, "{words:?} {key}");
                assert_eq!(key["reason"].as_str(), reason.as_deref(), "{words:?} {key}");
            }
        }
    }
}
