//! Values that a server does not take: `move` and `compare` name them.

use std::fs;

use serde_json::Value;

use crate::harness::{Plugin, Server, int, ok};
use crate::sketches::beyond_limits;
use crate::support::forged::file;

use super::moving::{bring, count};
use super::{run, url};

/// Nobody learns of these only after the switch.
#[test]
fn values_that_the_target_cannot_read_are_listed() {
    let family = Plugin::build("family.c");
    let from = Server::builder()
        .without_module()
        .before_module(&family.line())
        .start();
    let to = Server::start();
    let mut near = from.client();
    let keys = ["cuckoo", "quantiles", "sketch", "top"];
    for (key, number) in keys.iter().zip([0, 3, 1, 2]) {
        assert_eq!(near.cmd(&format!("FAMILY.MAKE {key} {number}")), ok());
    }
    assert_eq!(near.cmd("SET text text"), ok());
    let reported = bring(&from, &to, &[]);
    let lines = keys.map(|key| format!("refused {key}: the server there can't read it\n"));
    assert!(reported.err.contains(&lines.concat()), "{}", reported.err);
    assert!(
        reported
            .out
            .contains("MBbloomCF          0         0         0         1 "),
        "{}",
        reported.out
    );
    assert_eq!(reported.failed(1), "4 of 4 keys could not be moved");
    let reported = bring(&from, &to, &["--json"]);
    assert_eq!(reported.status, 1);
    let reported: Value = serde_json::from_str(&reported.out).expect("it is JSON");
    assert_eq!(count(&reported, "refused"), 4);
    // A move of one type reports that type only.
    bring(&from, &to, &["--type", "MBbloom--"]).done();
    assert_eq!(to.client().cmd("DBSIZE"), int(0));
}

/// Sketches beyond the limits for clients, and what other programs lack. Those are played by modules that read no
/// value.
#[test]
fn values_that_a_target_does_not_take_are_named() {
    let [family, chunkless] = ["family.c", "chunkless.c"].map(Plugin::build);
    let mut from = Server::start();
    let values = beyond_limits(&mut from.client());
    let values: Vec<_> = values.iter().map(|(key, value)| (*key, value)).collect();
    from.shutdown();
    fs::write(from.dir().join("dump.rdb"), file(&values)).expect("the folder can be written to");
    from.start_again();
    let mut near = from.client();
    for command in [
        "BF.RESERVE own 0.01 10",
        "BF.RESERVE window 0.01 10 WINDOW 60000 PERIODS 2",
        "CF.RESERVE cuckoo 100",
        "CMS.INITBYDIM wide 2 2 CELL_SIZE 8",
        "CONFIG SET bf.bloom-new-filters redisbloom",
        "BF.RESERVE theirs 0.01 10",
    ] {
        assert_eq!(near.cmd(command), ok(), "{command}");
    }
    let played = |by: &Plugin| Server::builder().without_module().before_module(&by.line());
    let beyond = |what: &str, limit: u32| {
        format!(
            "it has {what}, and the server there takes at most {limit} from clients: replicate it, or load it from a file"
        )
    };
    let unreadable = "the server there can't read it";
    let lacks = |program: &str, kind: &str| format!("{program} has no {kind}");
    let own = [
        ("cells", beyond("100 rows", 32)),
        ("none", beyond("a compression of 400000000", 100_000)),
        ("rows", beyond("1500 rows", 256)),
        ("two", beyond("a compression of 200000", 100_000)),
    ];
    let wide = "RedisBloom before 8.12 has no counters of size 8";
    let redisbloom = [
        ("own", lacks("RedisBloom", "bloomfltr")),
        ("wide", wide.to_owned()),
        ("window", lacks("RedisBloom", "bloomfltx")),
    ];
    let valkey_bloom = [
        ("cells", lacks("valkey-bloom", "TopK-TYPE")),
        ("cuckoo", lacks("valkey-bloom", "MBbloomCF")),
        ("none", lacks("valkey-bloom", "TDIS-TYPE")),
        ("rows", lacks("valkey-bloom", "CMSk-TYPE")),
        ("theirs", lacks("valkey-bloom", "MBbloom--")),
        ("two", lacks("valkey-bloom", "TDIS-TYPE")),
        ("wide", lacks("valkey-bloom", "CMSk-TYPE")),
        ("window", lacks("valkey-bloom", "bloomfltx")),
    ];
    for (target, expected, rest) in [
        (Server::builder(), &own[..], None),
        (played(&family), &redisbloom, Some(unreadable)),
        (played(&chunkless), &valkey_bloom, Some(unreadable)),
    ] {
        let to = target.start();
        for (words, fine) in [
            (&["move", "--dry-run"][..], ("would move", None)),
            (&["compare"], ("only at source", None)),
            (
                &["move"],
                rest.map_or(("moved", None), |rest| ("refused", Some(rest))),
            ),
        ] {
            let (here, there) = (url(&from), url(&to));
            let run = run(&[words, &["--json", &here, &there]].concat());
            let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
            run.failed(1);
            let keys = reported["keys"].as_array().expect("a list");
            assert_eq!(keys.len(), 9, "{words:?}");
            for key in keys {
                let obstacle = expected.iter().find(|(name, _)| key["key"] == *name);
                let (outcome, reason) = match obstacle {
                    Some((_, reason)) if words == ["compare"] => (fine.0, Some(&reason[..])),
                    Some((_, reason)) => ("refused", Some(&reason[..])),
                    None => fine,
                };
                assert_eq!(key["outcome"], outcome, "{words:?} {key}");
                assert_eq!(key["reason"].as_str(), reason, "{words:?} {key}");
            }
        }
    }
}
