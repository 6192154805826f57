//! What changes a key, as those learn that WATCH it or track it.

use crate::cuckoo;
use crate::harness::{array, bulk, int, nil, ok, simple};
use crate::support::blobs::{blobs, send};
use crate::support::protocols::with_fixed_seed;

use super::allowed::READS;

/// Commands that bring a situation about, a command, and whether it changes the key `k`.
const CHANGES: &[(&[&str], &str, bool)] = &[
    (&[], "BF.ADD k a", true),
    (&[], "BF.MADD k a b", true),
    (&[], "BF.INSERT k", true),
    (&[], "BF.INSERT k ITEMS a", true),
    (&[], "BF.RESERVE k 0.01 100", true),
    (&[], "BF.LOAD k <dump>", true),
    (&[], "BF.LOAD k <dump> 100000", true),
    (&[], "BF.LOADCHUNK k 1 <header>", true),
    (&["BF.ADD k a"], "BF.ADD k a", false),
    (&["BF.ADD k a"], "BF.ADD k b", true),
    (&["BF.ADD k a"], "BF.MADD k a a", false),
    (&["BF.ADD k a"], "BF.MADD k a b", true),
    (&["BF.ADD k a"], "BF.INSERT k", false),
    (&["BF.ADD k a"], "BF.INSERT k ITEMS a", false),
    (&["BF.ADD k a"], "BF.INSERT k NOCREATE ITEMS b", true),
    // Growth comes with an item.
    (&["BF.INSERT k CAPACITY 1 ITEMS a"], "BF.ADD k b", true),
    (&["BF.INSERT k CAPACITY 1 ITEMS a"], "BF.ADD k a", false),
    (FULL, "BF.ADD k a", false),
    (FULL, "BF.ADD k c", false),
    (FULL, "BF.MADD k a c b", false),
    (
        &["BF.INSERT k CAPACITY 2 NONSCALING ITEMS a"],
        "BF.MADD k b c",
        true,
    ),
    (&["BF.ADD k a"], "BF.RESERVE k 0.01 100", false),
    (&["BF.ADD k a"], "BF.LOAD k <dump>", false),
    (&["BF.ADD k a"], "BF.LOADCHUNK k 1 <header>", false),
    (&["BF.ADD k a"], "BF.EXISTS k a", false),
    (&["BF.ADD k a"], "BF.INFO k", false),
    (&["BF.ADD k a"], "BF.SCANDUMP k 0", false),
    (&["BF.ADD k a"], "BF.ADD other a", false),
    (&[], "BF.RESERVE k 0.01 0", false),
    (&[], "BF.RESERVE k 0.01 9223372036854775807", false),
    (&[], "BF.INSERT k NOCREATE ITEMS a", false),
    (&[], "BF.LOAD k <cut>", false),
    (&[], "BF.LOADCHUNK k 1 <cutheader>", false),
    (&["BF.LOADCHUNK k 1 <header>"], "BF.LOADCHUNK k 2 x", true),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.LOADCHUNK k <end> <bits>",
        true,
    ),
    (
        &["BF.LOADCHUNK k 1 <header>"],
        "BF.LOADCHUNK k <end> <bits>",
        true,
    ),
    (&["BF.LOADCHUNK k 1 <header>"], "BF.LOADCHUNK k 3 x", false),
    (&["BF.LOADCHUNK k 1 <header>"], "BF.ADD k a", false),
    (&["SET k v"], "BF.ADD k a", false),
    (COUNTED, "BF.ADD k a", true),
    (COUNTED, "BF.DEL k a", true),
    (COUNTED, "BF.DEL k b", false),
    (COUNTED, "BF.DEL k a ID 1", false),
    (COUNTED, "BF.MDEL k b a", true),
    (COUNTED, "BF.MDEL k b c", false),
    (COUNTED, "BF.COUNT k a", false),
    (COUNTED, "BF.MISSING k a b", false),
    (&["BF.ADD k a"], "BF.DEL k a", false),
    (WINDOWED, "BF.ADD k a", true),
    (WINDOWED, "BF.INSERT k TTL 1 ITEMS a", false),
    (WINDOWED, "BF.INSERT k NOCREATE", false),
    (&[], "BF.RESERVE k 0.01 100 PX 100000", true),
    (&["BF.ADD k a"], "BF.RESERVE k 0.01 100 NX", false),
    (&["BF.ADD other a"], "BF.MERGE k other", true),
    (&["BF.ADD k a", "BF.ADD other b"], "BF.MERGE k other", true),
    (&["BF.ADD k a", "BF.ADD other b"], "BF.MERGE other k", false),
    (&["BF.ADD k a"], "BF.MERGE k k", false),
    (&["BF.ADD k a"], "BF.MERGE k none", false),
    (&["BF.ADD k a"], "BF.MERGE k k none", false),
];

/// Those, and the same of cuckoo filters.
fn changes() -> impl Iterator<Item = (&'static [&'static str], &'static str, bool)> {
    CHANGES.iter().copied().chain(cuckoo::changes())
}

const COUNTED: &[&str] = &["BF.INSERT k COUNTING ITEMS a"];
const WINDOWED: &[&str] = &["BF.INSERT k WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a"];

const FULL: &[&str] = &["BF.INSERT k CAPACITY 2 NONSCALING ITEMS a b"];

#[test]
fn watch_sees_what_changes_a_key() {
    let server = with_fixed_seed();
    let (mut client, mut other) = (server.client(), server.client());
    let blobs = blobs(&mut client);
    for (given, command, changes) in changes() {
        assert_eq!(client.cmd("FLUSHALL"), ok());
        for line in given {
            assert!(!send(&mut client, line, &blobs).is_error(), "{line}");
        }
        assert_eq!(client.cmd("WATCH k"), ok());
        send(&mut other, command, &blobs);
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("PING"), simple("QUEUED"));
        let done = if changes {
            nil()
        } else {
            array([simple("PONG")])
        };
        assert_eq!(client.cmd("EXEC"), done, "{given:?} {command}");
    }
}

#[test]
fn tracking_clients_hear_of_what_changes_a_key() {
    let server = with_fixed_seed();
    let (mut client, mut other) = (server.client3(), server.client());
    let blobs = blobs(&mut other);
    assert_eq!(client.cmd("CLIENT TRACKING ON"), ok());
    let invalid = |key: &str| [bulk("invalidate"), array([bulk(key)])];
    for (given, command, changes) in changes() {
        for key in ["k", "other"] {
            other.cmd(&format!("DEL {key}"));
        }
        for line in given {
            assert!(!send(&mut other, line, &blobs).is_error(), "{line}");
        }
        // A change that comes for certain stands behind those that may come.
        assert!(!client.cmd("EXISTS k").is_error());
        client.cmd("GET marker");
        send(&mut other, command, &blobs);
        assert_eq!(other.cmd("SET marker v"), ok());
        if changes {
            assert_eq!(
                client.read_push().as_array(),
                invalid("k"),
                "{given:?} {command}"
            );
        } else {
            // So that the next round finds no trace of this one.
            assert!(!client.cmd("EXISTS k").is_error());
        }
        assert_eq!(
            client.read_push().as_array(),
            invalid("marker"),
            "{given:?} {command}"
        );
        if !changes {
            other.cmd("SET k gone");
            assert_eq!(
                client.read_push().as_array(),
                invalid("k"),
                "{given:?} {command}"
            );
        }
    }
    // Each command that reads makes the server remember the key.
    for line in READS {
        let (name, rest) = line.split_once(' ').unwrap();
        let (family, key) = (&name[..2], &rest[..1]);
        let add = if family == "CF" { "CF.ADDNX" } else { "BF.ADD" };
        other.cmd(&format!("DEL {key}"));
        assert_eq!(other.cmd(&format!("{add} {key} a")), int(1));
        assert!(!client.cmd(line).is_error(), "{line}");
        assert_eq!(other.cmd(&format!("{add} {key} a")), int(0));
        assert_eq!(other.cmd(&format!("{add} {key} new")), int(1));
        assert_eq!(client.read_push().as_array(), invalid(key), "{line}");
    }
}
