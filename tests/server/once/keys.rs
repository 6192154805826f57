//! The two keys of a command with ONCE: who may use them, where they are, and who learns of their changes.

use crate::cluster::{pair, slot};
use crate::harness::cluster::{alone, id, node};
use crate::harness::{Client, Server, array, bulk, error, int, nil, simple, wait_in_sync};
use crate::support::configured::{MAKERS, made_by};
use crate::support::effects::heard_until_end;
use crate::support::protocols::truths;

#[test]
fn users_need_both_keys() {
    for maker in MAKERS {
        let server = made_by(maker).start();
        let mut client = server.client();
        for (rules, allows) in [
            ("~k ~r", true),
            ("~k", false),
            ("~r", false),
            ("%W~k %RW~r", true),
            ("%W~k %W~r", false),
            ("%W~k %R~r", false),
            ("%R~k %RW~r", false),
        ] {
            client.ok(format!("ACL SETUSER u reset on nopass +@all {rules}"));
            for line in [
                "BF.INSERT k ONCE r 0 ITEMS a",
                "BF.INSERT k CAPACITY 5 once r 7 BEGIN ITEMS ONCE other",
                "BF.INSERT k ERROR 0.5 ONCE r 0 ITEMS other",
            ] {
                let reported = client.cmd(&format!("ACL DRYRUN u {line}")).text();
                let is_refused = reported.contains("has no permissions");
                assert_eq!(
                    reported == "OK",
                    allows,
                    "{maker} {rules}: {line}: {reported}"
                );
                assert_eq!(is_refused, !allows, "{rules}: {line}: {reported}");
            }
        }
        // Items are no keys.
        client.ok("ACL SETUSER u reset on nopass +@all ~k");
        for line in [
            "BF.INSERT k ITEMS a",
            "BF.INSERT k ITEMS ONCE r 0",
            "BF.INSERT k ITEMS once",
        ] {
            client.ok(format!("ACL DRYRUN u {line}"));
        }
        let mut user = server.client();
        user.ok("AUTH u any");
        let refused = user.cmd("BF.INSERT k ONCE r 0 ITEMS a").text();
        assert!(refused.starts_with("NOPERM "), "{refused}");
        client.expect("EXISTS k r", int(0));
    }
}

/// A seed is 32 bytes of any kind, and may begin like the option.
#[test]
fn no_word_hides_the_receipt() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("ACL SETUSER u reset on nopass +@all ~k ~ONCE");
    let mut seed = [b'x'; 32];
    seed[..5].copy_from_slice(b"ONCE\0");
    let mut items = [b'x'; 32];
    items[..6].copy_from_slice(b"ITEMS\0");
    for seed in [seed, items] {
        let words: [&[u8]; 11] = [
            b"ACL",
            b"DRYRUN",
            b"u",
            b"BF.INSERT",
            b"k",
            b"SEED",
            &seed,
            b"ONCE",
            b"r",
            b"0",
            b"ITEMS",
        ];
        let reported = client.call(&[&words[..], &[b"a"]].concat()).text();
        assert!(reported.contains("has no permissions"), "{reported}");
    }
}

#[test]
fn the_server_names_both_keys() {
    let server = Server::start();
    let mut client = server.client3();
    for (line, keys) in [
        ("BF.INSERT k", &["k"][..]),
        ("BF.INSERT k ITEMS once b c", &["k"]),
        ("BF.INSERT k ONCE r 0 ITEMS a", &["k", "r"]),
        (
            "BF.INSERT k NOCREATE ONCE once 0 BEGIN ITEMS once b",
            &["k", "once"],
        ),
    ] {
        let expected = array(keys.iter().map(|key| bulk(*key)));
        client.expect(format!("COMMAND GETKEYS {line}"), expected);
    }
}

#[test]
fn both_keys_are_in_one_slot() {
    let server = node().start();
    alone(&server);
    let mut client = server.client();
    let apart = client.cmd("BF.INSERT k ONCE r 0 ITEMS a").text();
    assert!(apart.starts_with("CROSSSLOT "), "{apart}");
    client.expect("DBSIZE", int(0));
    for line in [
        "BF.INSERT k ONCE {k}:r 0 ITEMS a once b",
        "BF.INSERT {t}k ONCE {t}r 0 ITEMS a ONCE r",
    ] {
        client.expect(line, truths(false, &[true, true, true]));
        client.expect(line, truths(false, &[true, true, true]));
    }
    client.expect(
        "BF.INSERT k ITEMS x ONCE y",
        truths(false, &[true, true, true]),
    );
    client.ok("MULTI");
    let refused = client.cmd("BF.INSERT k ONCE r 0 ITEMS a").text();
    assert!(refused.starts_with("CROSSSLOT "), "{refused}");
}

/// A slot that moves key by key has the filter on one node and the receipt on another for a while.
#[test]
fn nothing_is_added_while_the_keys_are_apart() {
    let (first, second) = pair();
    let (mut near, mut far) = (first.client(), second.client());
    let known = "BF.INSERT k ONCE {k}:r 0 ITEMS a b";
    let new = "BF.INSERT k ONCE {k}:new 0 ITEMS c";
    near.expect(known, truths(false, &[true, true]));
    let slot = slot(b"k");
    far.ok(format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(&first)));
    near.ok(format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(&second)));
    // The receipt of one command exists, that of the other does not.
    near.expect(known, truths(false, &[true, true]));
    is_tried_again(&mut near, new);
    let send = |near: &mut Client, key: &str| {
        near.ok(format!("MIGRATE 127.0.0.1 {} {key} 0 60000", second.port()));
    };
    send(&mut near, "k");
    for line in [known, new] {
        far.ok("ASKING");
        is_tried_again(&mut far, line);
    }
    is_tried_again(&mut near, known);
    let ask = error(&format!("ASK {slot} 127.0.0.1:{}", second.port()));
    near.expect(new, &ask);
    send(&mut near, "{k}:r");
    near.expect(known, &ask);
    far.ok("ASKING");
    far.expect(known, truths(false, &[true, true]));
    far.ok("ASKING");
    is_tried_again(&mut far, new);
    for client in [&mut far, &mut near] {
        client.ok(format!("CLUSTER SETSLOT {slot} NODE {}", id(&second)));
    }
    far.expect("BF.CARD k", int(2));
    far.expect(new, truths(false, &[true]));
    far.expect(known, truths(false, &[true, true]));
    far.expect("BF.CARD k", int(3));
}

#[track_caller]
fn is_tried_again(client: &mut Client, line: &str) {
    let reply = client.cmd(line).text();
    assert!(reply.starts_with("TRYAGAIN "), "{line}: {reply}");
}

/// Returns the events of a command, as channels of keys and their messages. The replica has the same ones.
fn events(client: &mut Client, subscribers: &mut [Client; 2], line: &str) -> Vec<String> {
    client.cmd(line);
    let [ours, theirs] = subscribers;
    let shown = |heard: Vec<(String, String)>| -> Vec<String> {
        let of_keys = heard.into_iter().filter_map(|(channel, event)| {
            let key = channel.strip_prefix("__keyspace@0__:")?.to_owned();
            Some(format!("{key} {event}"))
        });
        of_keys.collect()
    };
    client.expect("PUBLISH __keyend all", int(1));
    let ours = shown(heard_until_end(ours));
    let theirs = shown(heard_until_end(theirs));
    assert_eq!(ours, theirs, "{line}");
    ours
}

#[test]
fn both_keys_have_events() {
    let primary = Server::with(&[("notify-keyspace-events", "KEA")]);
    let replica = Server::replica_of(&primary)
        .config("notify-keyspace-events", "KEA")
        .start();
    wait_in_sync(&primary, &replica);
    let mut client = primary.client();
    let mut subscribers = [&primary, &replica].map(|server| {
        let mut subscriber = server.client();
        subscriber.cmd("PSUBSCRIBE __key*");
        subscriber
    });
    for (line, expected) in [
        (
            "BF.INSERT k ONCE r 0 ITEMS a b",
            &[
                "k bloom.reserve",
                "k bloom.add",
                "r bloom.receipt",
                "r expire",
            ][..],
        ),
        ("BF.INSERT k ONCE r 0 ITEMS a b", &[]),
        (
            "BF.INSERT k ONCE r 1 ITEMS b c",
            &["k bloom.add", "r bloom.receipt"],
        ),
        // No item is new.
        ("BF.INSERT k ONCE r 3 ITEMS a", &["r bloom.receipt"]),
        ("BF.INSERT k ONCE r 9 ITEMS d", &[]),
        (
            "BF.INSERT k ONCE r 9 BEGIN ITEMS d",
            &["k bloom.add", "r bloom.receipt"],
        ),
        ("CONFIG SET bf.bloom-receipt-ttl 100", &[]),
        ("BF.INSERT k ONCE r 9 ITEMS d", &["r expire"]),
        ("CONFIG SET bf.bloom-receipt-ttl 0", &[]),
        (
            "BF.INSERT k ONCE r 10 ITEMS e",
            &["k bloom.add", "r bloom.receipt", "r persist"],
        ),
        (
            "BF.INSERT c COUNTING ONCE q 0 ITEMS a a",
            &["c bloom.reserve", "c bloom.add", "q bloom.receipt"],
        ),
        ("BF.INSERT c ONCE q 0 ITEMS a a", &[]),
    ] {
        assert_eq!(
            events(&mut client, &mut subscribers, line),
            expected,
            "{line}"
        );
    }
}

#[test]
fn watchers_learn_of_each_change() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    // What is restored does not expire.
    client.ok("CONFIG SET bf.bloom-receipt-ttl 0");
    client.run("BF.INSERT k ONCE r 0 ITEMS a");
    for (line, filter_changes, receipt_changes) in [
        ("BF.INSERT k ONCE r 0 ITEMS a", false, false),
        ("BF.INSERT k ONCE r 1 ITEMS a", false, true),
        ("BF.INSERT k ONCE r 2 ITEMS b", true, true),
        ("BF.INSERT k ONCE r 7 ITEMS c", false, false),
    ] {
        // Each line runs once for each watcher, on the same data.
        for (key, changes) in [("k", filter_changes), ("r", receipt_changes)] {
            other.ok(format!("WATCH {key}"));
            let before = [client.cmd("DUMP k"), client.cmd("DUMP r")];
            client.cmd(line);
            other.ok("MULTI");
            other.expect("PING", simple("QUEUED"));
            let done = if changes {
                nil()
            } else {
                array([simple("PONG")])
            };
            other.expect("EXEC", done);
            for (key, dump) in ["k", "r"].into_iter().zip(before) {
                let restored = client.call(&[
                    b"RESTORE",
                    key.as_bytes(),
                    b"0",
                    dump.as_bytes(),
                    b"REPLACE",
                ]);
                assert_eq!(restored, simple("OK"));
            }
        }
        client.cmd(line);
    }
}

#[test]
fn clients_that_track_a_receipt_learn_of_it() {
    let server = Server::start();
    let (mut client, mut other) = (server.client3(), server.client());
    other.run("BF.INSERT k ONCE r 0 ITEMS a");
    client.ok("CLIENT TRACKING ON");
    client.run("GET r");
    other.run("BF.INSERT k ONCE r 0 ITEMS a");
    other.run("BF.INSERT k ONCE r 1 ITEMS a");
    let invalid = [bulk("invalidate"), array([bulk("r")])];
    assert_eq!(client.read_push().as_array(), invalid);
    client.expect("GET r", bulk(super::receipt(0, &[true, false])));
}
