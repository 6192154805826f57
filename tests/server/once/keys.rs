//! The two keys of a command with ONCE: who may use them, where they are, and who learns of their changes.

use crate::cluster::{pair, slot};
use crate::harness::cluster::{alone, id, node};
use crate::harness::{Client, Server, array, bulk, error, int};
use crate::support::blobs::Blobs;
use crate::support::configured::{MAKERS, made_by};
use crate::support::effects::{OURS, Stage};
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
    let (_server, mut client) = Server::with_client();
    client.ok("ACL SETUSER u reset on nopass +@all ~k ~ONCE");
    let mut seed = [b'x'; 32];
    seed[..5].copy_from_slice(b"ONCE\0");
    let mut items = [b'x'; 32];
    items[..6].copy_from_slice(b"ITEMS\0");
    for seed in [seed, items] {
        let more: [&[u8]; 6] = [&seed, b"ONCE", b"r", b"0", b"ITEMS", b"a"];
        let reported = client.call_with("ACL DRYRUN u BF.INSERT k SEED", &more);
        let reported = reported.text();
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

/// What others learn of the two keys. A receipt is sent as what is new, and a repetition sends nothing.
const EFFECTS: &str = r"
KNOWN = BF.RESERVE k 0.001 1000
BEGUN = KNOWN / BF.INSERT k ONCE r 0 ITEMS a b a
COUNTED = BF.INSERT k COUNTING ONCE r 0 ITEMS a a
BF.INSERT k CAPACITY 9 ERROR 0.1 ONCE r 0 ITEMS a
=> bloom.reserve bloom.add r:bloom.receipt r:expire | MULTI ; BF.INSERT k CAPACITY 9 ERROR 0.1 <ours> EXPANSION 2 ITEMS a ; <answered>0 000001\n\x80 ; PEXPIREAT r <time> ; EXEC
KNOWN / BF.INSERT k ONCE r 0 ITEMS a b a
=> bloom.add r:bloom.receipt r:expire | MULTI ; BF.MADD k a b ; <answered>0 000003\n\xc0 ; PEXPIREAT r <time> ; EXEC
BEGUN / BF.INSERT k ONCE r 0 ITEMS a b a => -
BEGUN / BF.INSERT k ONCE r 1 ITEMS b a c a
=> bloom.add r:bloom.receipt | MULTI ; BF.MADD k c ; <answered>3 000002\n\x80 ; EXEC
# No item is new.
BEGUN / BF.INSERT k ONCE r 3 ITEMS a => r:bloom.receipt | <answered>3 000001\n\x00
BEGUN / BF.INSERT k ONCE r 9 ITEMS d => -
BEGUN / BF.INSERT k ONCE r 9 BEGIN ITEMS d
=> bloom.add r:bloom.receipt | MULTI ; BF.MADD k d ; <answered>9 000001\n\x80 ; EXEC
COUNTED / BF.INSERT k ONCE r 0 ITEMS a a => -
COUNTED / BF.INSERT k ONCE r 1 ITEMS a a
=> bloom.add r:bloom.receipt | MULTI ; BF.INSERT k NOCREATE ITEMS a ; <answered>2 000001\n\x00 ; EXEC
BEGUN / CONFIG SET bf.bloom-receipt-ttl 100 / BF.INSERT k ONCE r 0 ITEMS a => r:expire | PEXPIREAT r <time>
BEGUN / CONFIG SET bf.bloom-receipt-ttl 0 / BF.INSERT k ONCE r 3 ITEMS e
=> bloom.add r:bloom.receipt r:persist | MULTI ; BF.MADD k e ; <answered>3 000001\n\x80 ; PERSIST r ; EXEC
";

#[test]
fn everybody_learns_of_each_change_of_either_key() {
    let answered = format!("BF.INSERT k ONCE r ANSWERED receipt1 {}", "0".repeat(18));
    let table = EFFECTS
        .replace("<answered>", &answered)
        .replace("<ours>", OURS);
    Stage::start(&[]).play(&table, &Blobs::new());
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
