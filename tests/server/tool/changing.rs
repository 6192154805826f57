//! Keys that become something else while they are brought to another server.

use serde_json::Value;

use crate::harness::{Client, Server, array, int, simple};

use crate::support::pieces::pieces;
use crate::support::repeated::Repeated;

use super::{Way, add, has_word, left, numbered, run, run_line, url};

/// Returns the outcome of the only key of a run: its type, its outcome, and the reason.
fn reported(run: &super::Run) -> [String; 3] {
    let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
    let [key] = &reported["keys"].as_array().expect("a list")[..] else {
        panic!("{reported}")
    };
    ["type", "outcome", "reason"].map(|name| key[name].as_str().unwrap_or_default().to_owned())
}

const MAKE_BLOOM: &str = "BF.INSERT k CAPACITY 100 ITEMS old";
const MAKE_CUCKOO: &str = "CF.ADD k old";
const TO_STRING: &str = "SET k text";
const TO_COUNTING: &str = "BF.RESERVE k 0.01 100 COUNTING";

/// The key changes just before a command arrives, whatever came before that: with each of the commands that look at
/// it, in turn.
#[test]
fn a_key_that_changes_its_type_arrives_with_the_new_type_or_not_at_all() {
    let makes = [
        (MAKE_BLOOM, true, &["BF.INFO", "DUMP"][..]),
        (MAKE_CUCKOO, true, &["MEMORY", "DUMP"]),
        (MAKE_BLOOM, false, &["BF.SCANDUMP"]),
    ];
    let makes = makes
        .into_iter()
        .flat_map(|make| [(make, TO_STRING), (make, TO_COUNTING)]);
    for ((make, by_dump, moments), change) in makes {
        // Whatever is to be replaced has to be of the same kind.
        let is_bloom = make == MAKE_BLOOM;
        let cases = moments
            .iter()
            .flat_map(|word| [(*word, true), (*word, false)]);
        for (moment, is_free) in cases.filter(|(_, is_free)| *is_free || is_bloom) {
            let [from, to] = [(); 2].map(|()| Server::start());
            let (mut near, mut far) = (from.client(), to.client());
            near.run(make);
            if !is_free {
                let theirs = far.cmd("BF.INSERT k CAPACITY 50 ITEMS theirs");
                assert_eq!(theirs, array([int(1)]));
            }
            if !by_dump {
                far.ok("ACL SETUSER default -restore");
            }
            let mut writer = from.client();
            let way = Way::before(&from, moment, 1, move || {
                writer.cmd("DEL k");
                writer.ok(change);
            });
            let run = run(&["move", &way.url(), &url(&to), "--replace", "--json"]);
            let found = [run.out.clone(), run.err.clone()].concat();
            let case = format!("{make}, then {change}, before {moment}: {found}");
            let [kind, outcome, reason] = reported(&run);
            // The target's value stays unless a filter has come.
            if change == TO_STRING {
                let changed = "it changed while it was moved: its type is string now";
                assert_eq!((run.status, &reason[..]), (1, changed), "{case}");
                assert_eq!(outcome, "refused", "{case}");
                let theirs = far.cmd("BF.EXISTS k theirs");
                assert_eq!(theirs, int(i64::from(!is_free)), "{case}");
            } else {
                assert_eq!((run.status, &kind[..]), (0, "bloomfltx"), "{case}");
                let due = if is_free { "moved" } else { "replaced" };
                assert_eq!(outcome, due, "{case}");
                assert_eq!(far.cmd("TYPE k"), near.cmd("TYPE k"), "{case}");
            }
            assert_eq!(left(&mut far), []);
        }
    }
}

/// A move of one type gets no other type.
/// It is among the first keys that a server evicts.
#[test]
fn a_temporary_key_that_is_gone_concerns_its_key_alone() {
    for (word, is_always) in [
        ("BF.LOADCHUNK", false),
        ("TYPE", false),
        ("BF.INFO", false),
        ("EVAL", false),
        ("TYPE", true),
    ] {
        let [from, to] = [(); 2].map(|()| Server::start());
        let (mut near, mut far) = (from.client(), to.client());
        for key in ["a", "b"] {
            near.run(format!("BF.INSERT {key} CAPACITY 100 ITEMS old"));
        }
        far.ok("ACL SETUSER default -restore");
        let mut evicting = to.client();
        let mut evicted = 0;
        let way = Way::watched(&to, move |sent| {
            if has_word(sent, word) && (is_always || evicted == 0) {
                for (key, _) in left(&mut evicting) {
                    evicting.expect(format!("DEL {key}"), int(1));
                    evicted += 1;
                }
            }
        });
        let run = run(&["move", &url(&from), &way.url(), "--json"]);
        let found: Value = serde_json::from_str(&run.out).expect("it is JSON");
        let keys = found["keys"].as_array().expect("a list");
        let (status, outcome) = if is_always {
            (1, "refused")
        } else {
            (0, "moved")
        };
        assert_eq!((run.status, keys.len()), (status, 2), "{found}");
        for key in keys {
            assert_eq!(key["outcome"], outcome, "{found}");
            let reason = key["reason"].as_str().unwrap_or_default();
            assert_eq!(
                reason.contains("temporary key is gone"),
                is_always,
                "{found}"
            );
        }
        assert_eq!(far.cmd("DBSIZE"), int(if is_always { 0 } else { 2 }));
    }
}

/// The time to live that the old value had would delete the new one at the target.
#[test]
fn a_key_that_is_made_again_has_the_time_to_live_of_its_new_value() {
    for (first, by_dump) in [("DUMP", true), ("BF.SCANDUMP", false)] {
        let [from, to] = [(); 2].map(|()| Server::start());
        let (mut near, mut far) = (from.client(), to.client());
        near.run(MAKE_BLOOM);
        near.expect("PEXPIRE k 600000", int(1));
        if !by_dump {
            far.ok("ACL SETUSER default -restore");
        }
        let mut writer = from.client();
        let way = Way::before(&from, first, 1, move || {
            writer.expect("DEL k", int(1));
            writer.run("BF.INSERT k CAPACITY 100 ITEMS new");
        });
        run(&["move", &way.url(), &url(&to)]).done();
        far.expect("BF.EXISTS k new", int(1));
        far.expect("PTTL k", int(-1));
    }
}

/// RESTORE of such a value deletes the key, and so does an upload.
#[test]
fn a_value_whose_time_is_over_when_it_arrives_is_no_fault() {
    for by_dump in [true, false] {
        let [from, to] = [(); 2].map(|()| Server::start());
        let (mut near, mut far) = (from.client(), to.client());
        near.run(MAKE_BLOOM);
        far.run("BF.INSERT k CAPACITY 50 ITEMS theirs");
        if !by_dump {
            far.ok("ACL SETUSER default -restore");
        }
        let mut writer = from.client();
        let from = Way::before(&from, "PEXPIRETIME", 1, move || {
            writer.expect("PEXPIRE k 1000", int(1));
        });
        let last = if by_dump { "RESTORE" } else { "PEXPIREAT" };
        let at = Way::before(&to, last, 1, move || {
            while near.cmd("EXISTS k") != int(0) {
                std::thread::yield_now();
            }
        });
        let run = run(&["move", &from.url(), &at.url(), "--replace", "--json"]);
        assert_eq!(reported(&run), ["bloomfltr", "replaced", ""], "{}", run.err);
        far.expect("DBSIZE", int(0));
    }
}

#[test]
fn a_key_that_becomes_another_filter_than_requested_is_refused() {
    let [from, to] = [(); 2].map(|()| Server::start());
    from.client().expect(MAKE_BLOOM, array([int(1)]));
    let mut writer = from.client();
    let way = Way::before(&from, "DUMP", 1, move || {
        writer.cmd("DEL k");
        writer.ok(TO_COUNTING);
    });
    let (from, there) = (way.url(), url(&to));
    let run = run_line(&format!("move {from} {there} --type bloomfltr --json"));
    let reason = "it changed while it was moved: its type is bloomfltx now";
    assert_eq!(reported(&run), ["bloomfltr", "refused", reason]);
    to.client().expect("DBSIZE", int(0));
}

/// Another filter of the same parameters takes the key between two chunks.
#[test]
fn no_chunk_of_another_filter_is_moved() {
    let seed = "s".repeat(32);
    let filter_of = |name: &str| {
        let items = (0..250).map(|number| format!(" {name}{number}"));
        format!("BF.INSERT k CAPACITY 100 SEED {seed} ITEMS") + &items.collect::<String>()
    };
    for nth in [2, 3] {
        let [from, to] = [(); 2].map(|()| Server::start());
        from.client().run(filter_of("old"));
        to.client().ok("ACL SETUSER default -restore");
        let (mut writer, new) = (from.client(), filter_of("new"));
        let way = Way::before(&from, "BF.SCANDUMP", nth, move || {
            writer.cmd("DEL k");
            writer.run(&new);
        });
        let run = run(&["move", &way.url(), &url(&to), "--json"]);
        assert_eq!(run.status, 0, "{}", run.err);
        let dumps = [&from, &to].map(|server| pieces(&mut server.client(), "k"));
        assert!(dumps[0].len() == 3 && dumps[0] == dumps[1], "before {nth}");
        // What was copied in vain does not count.
        let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
        let bytes: usize = dumps[0][1..].iter().map(|(_, chunk)| chunk.len()).sum();
        assert_eq!(reported["keys"][0]["bytes"], bytes, "before {nth}");
    }
}

/// Another filter takes the key after the first chunk of every attempt.
#[test]
fn no_bytes_count_of_a_filter_that_never_arrives() {
    let [from, to] = [(); 2].map(|()| Server::start());
    to.client().ok("ACL SETUSER default -restore");
    let make = "BF.RESERVE k 0.01 100000";
    let mut writer = from.client();
    writer.ok(make);
    let chunks = pieces(&mut writer, "k").len();
    assert_eq!(chunks, 2, "a header and its only chunk");
    let mut reads = 0;
    let way = Way::watched(&from, move |sent| {
        reads += usize::from(has_word(sent, "BF.SCANDUMP"));
        // Each attempt reads the header, the chunk, and then the end.
        if has_word(sent, "BF.SCANDUMP") && reads % 3 == 0 {
            writer.cmd("DEL k");
            writer.ok(make);
        }
    });
    let run = run(&["move", &way.url(), &url(&to), "--json"]);
    assert_eq!(run.status, 1, "{}", run.err);
    let reason = "it changes while it is copied: stop its writers, or run this again";
    assert_eq!(reported(&run), ["bloomfltr", "refused", reason]);
    let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
    assert_eq!(reported["keys"][0]["bytes"], 0);
    to.client().expect("DBSIZE", int(0));
}

/// A change after the last look is found by the comparison. A key that is gone from both servers has expired.
#[test]
fn a_key_that_changes_after_it_was_moved_is_found_by_verify() {
    let changed = ["refused", "it changed before it was verified"];
    let gone = ["skipped", "it is gone"];
    for (at_source, at_target, [outcome, reason]) in [
        (TO_STRING, "PING", changed),
        ("DEL k", "PING", changed),
        ("PING", "DEL k", changed),
        ("DEL k", "DEL k", gone),
    ] {
        let [from, to] = [(); 2].map(|()| Server::start());
        from.client().expect(MAKE_BLOOM, array([int(1)]));
        let (mut near, mut far) = (from.client(), to.client());
        // On a small filter's way only the comparison sends this command.
        let way = Way::before(&from, "BF.SCANDUMP", 1, move || {
            near.run(at_source);
            far.run(at_target);
        });
        let run = run(&["move", &way.url(), &url(&to), "--verify", "--json"]);
        assert_eq!(reported(&run), ["bloomfltr", outcome, reason]);
        assert_eq!(run.status == 0, outcome == "skipped", "{}", run.err);
    }
}

/// The key is taken, but by whom can't be read any more.
#[test]
fn a_taken_key_that_goes_away_is_not_said_to_be_there() {
    let [from, to] = [(); 2].map(|()| Server::start());
    from.client().expect(MAKE_BLOOM, array([int(1)]));
    let mut other = to.client();
    let way = Way::watched(&to, move |sent| {
        if has_word(sent, "RESTORE") {
            other.ok(TO_STRING);
        } else if has_word(sent, "DUMP") {
            other.expect("DEL k", int(1));
        }
    });
    let run = run(&["move", &url(&from), &way.url(), "--json"]);
    let [_, outcome, reason] = reported(&run);
    assert_eq!((run.status, &outcome[..]), (1, "refused"), "{reason}");
    assert!(reason.contains("not found"), "{reason}");
}

/// A writer that makes each key something else, over and over.
#[test]
fn only_filters_are_moved_while_a_writer_churns() {
    const KEYS: usize = 200;
    let [from, to] = [(); 2].map(|()| Server::start());
    let (mut near, mut far) = (from.client(), to.client());
    let make = |client: &mut Client, key: usize, round: usize| {
        let key = format!("key{key}");
        client.cmd(&format!("DEL {key}"));
        let made = match round % 4 {
            0 => client.cmd(&format!("BF.INSERT {key} CAPACITY 100 ITEMS item")),
            1 => client.cmd(&format!("SET {key} text")),
            2 => client.cmd(&format!("CF.ADD {key} item")),
            _ => client.cmd(&format!("BF.INSERT {key} CAPACITY 100 COUNTING ITEMS item")),
        };
        assert!(!made.is_error(), "{made:?}");
    };
    for key in 0..KEYS {
        make(&mut near, key, 0);
    }
    let mut client = from.client();
    let writer = Repeated::start(move |step| {
        let step = usize::try_from(step).expect("not many");
        make(&mut client, step % KEYS, step % KEYS + step / KEYS + 1);
    });
    let mut came = 0;
    for _ in 0..5 {
        let run = run(&["move", &url(&from), &url(&to), "--replace", "--json"]);
        let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
        let keys = reported["keys"].as_array().expect("a list");
        assert!(keys.len() <= KEYS);
        for key in keys {
            let name = key["key"].as_str().expect("a name");
            let kind = far.cmd(&format!("TYPE {name}")).text();
            assert_ne!(kind, "string", "{key}");
            if key["outcome"] == "moved" || key["outcome"] == "replaced" {
                assert_eq!(key["type"], kind, "{key}");
                came += 1;
            }
        }
    }
    writer.end();
    assert!(came > 0);
    assert_eq!(left(&mut far), []);
    // Without changes, all filters are moved.
    for key in 0..KEYS {
        make(&mut near, key, 0);
        far.cmd(&format!("DEL key{key}"));
    }
    add(&mut near, "key0", &numbered("item", 0..10));
    run(&["move", &url(&from), &url(&to), "--verify"]).done();
    far.expect("DBSIZE", int(i64::try_from(KEYS).expect("few")));
    far.expect("TYPE key0", simple("bloomfltr"));
}
