//! Changes of a key, as clients that WATCH or track it learn of them.

use crate::harness::{array, bulk, int, nil, ok, simple};
use crate::support::blobs::{blobs, send};
use crate::support::effects;
use crate::support::protocols::with_fixed_seed;

use super::allowed::READS;

/// Returns the commands that prepare a situation, the command, and whether it changes `k`.
fn changes() -> impl Iterator<Item = (Vec<String>, String, bool)> {
    let effects = effects::bloom().chain(effects::cuckoo());
    let own = effects.map(|effect| (effect.given, effect.command, effect.changes));
    // Writes to another key.
    let others = ["BF.ADD other a", "BF.MERGE other k"];
    own.chain(others.map(|line| (vec!["BF.ADD k a".to_owned()], line.to_owned(), false)))
}

#[test]
fn watch_sees_what_changes_a_key() {
    let server = with_fixed_seed();
    let (mut client, mut other) = (server.client(), server.client());
    let blobs = blobs(&mut client);
    for (given, command, changes) in changes() {
        client.cmd("DEL k other");
        for line in &given {
            assert!(!send(&mut client, line, &blobs).is_error(), "{line}");
        }
        assert_eq!(client.cmd("WATCH k"), ok());
        send(&mut other, &command, &blobs);
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
fn tracking_clients_learn_of_every_change_to_a_key() {
    let server = with_fixed_seed();
    let (mut client, mut other) = (server.client3(), server.client());
    let blobs = blobs(&mut other);
    assert_eq!(client.cmd("CLIENT TRACKING ON"), ok());
    let invalid = |key: &str| [bulk("invalidate"), array([bulk(key)])];
    for (given, command, changes) in changes() {
        for key in ["k", "other"] {
            other.cmd(&format!("DEL {key}"));
        }
        for line in &given {
            assert!(!send(&mut other, line, &blobs).is_error(), "{line}");
        }
        // The change of the marker is certain and comes last.
        assert!(!client.cmd("EXISTS k").is_error());
        client.cmd("GET marker");
        send(&mut other, &command, &blobs);
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
