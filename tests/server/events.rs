//! What others learn of each change: events, replicated commands, broken transactions.

use crate::harness::{array, bulk, int, wait_until};
use crate::support::blobs::blobs;
use crate::support::effects::{BLOOM, CUCKOO, OURS, Stage, TABLE, heard};
use crate::support::protocols::with_fixed_seed;

/// Adds an item twice, and then another one with it.
const ADDS: &[u8] =
    b"redis.call('BF.ADD', KEYS[1], ARGV[1]) redis.call('BF.ADD', KEYS[1], ARGV[1]) \
    return redis.call('BF.MADD', KEYS[1], ARGV[1], 'x')";

#[test]
fn everybody_learns_of_each_change_once() {
    let mut stage = Stage::start(&[
        ("bf.bloom-capacity", "50"),
        ("bf.bloom-fp-rate", "0.03"),
        ("bf.bloom-expansion", "3"),
    ]);
    let mut blobs = blobs(&mut stage.client);
    blobs.insert("<adds>", ADDS.to_vec());
    let bloom = BLOOM.replace("<ours>", OURS).replace("<table>", TABLE);
    stage.play(&bloom, &blobs);
    stage.play(CUCKOO, &blobs);
}

/// Writes that free expired periods.
#[test]
fn a_replica_sends_the_same_events_for_windows() {
    let mut stage = Stage::start(&[]);
    for (command, events) in [
        ("BF.ADD k a", 1),
        ("BF.MADD k a b", 1),
        ("BF.INSERT k NOCREATE", 0),
        ("BF.INSERT k NOCREATE ITEMS a", 1),
        // No item is new, and expired periods are freed.
        ("BF.MERGE k w", 0),
        ("BF.MERGE new k w", 1),
    ] {
        stage.client.cmd("FLUSHALL");
        for key in ["k", "w"] {
            let given = format!("BF.INSERT {key} WINDOW 5 PERIODS 2 CAPACITY 10 ITEMS a");
            stage.client.expect(&given, array([int(1)]));
        }
        for key in ["k", "w"] {
            wait_until("the window has passed", || {
                stage.client.cmd(&format!("BF.CARD {key}")) == int(0)
            });
        }
        stage.events("what is given");
        stage.client.run(command);
        // Each has a message for the key, and one for the event.
        assert_eq!(stage.events(command).len(), 2 * events, "{command}");
        stage.is_replicated(command);
    }
}

#[test]
fn events_are_of_the_generic_class_and_name_their_database() {
    let server = with_fixed_seed();
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.cmd("PSUBSCRIBE __key*");
    client.ok("SELECT 5");
    for (classes, expected) in [("Eg", 2), ("g", 0), ("KE$lshzxet", 0), ("", 0)] {
        client.ok(format!("CONFIG SET notify-keyspace-events {classes}"));
        client.expect("BF.ADD k a", int(1));
        let reported = heard(&mut subscriber, &mut client);
        let both = ["bloom.reserve", "bloom.add"]
            .map(|event| (format!("__keyevent@5__:{event}"), "k".to_owned()));
        assert_eq!(reported, both[..expected], "{classes}");
        client.cmd("DEL k");
        heard(&mut subscriber, &mut client);
    }
}

#[test]
fn clients_that_keep_copies_learn_of_changes() {
    let server = with_fixed_seed();
    let (mut client, mut other) = (server.client3(), server.client());
    client.ok("CLIENT TRACKING ON");
    for (key, read, change) in [
        ("k", "BF.EXISTS k a", "BF.ADD k b"),
        ("c", "CF.COUNT c a", "CF.ADD c a"),
    ] {
        client.run(read);
        other.expect(change, int(1));
        let invalid = [bulk("invalidate"), array([bulk(key)])];
        assert_eq!(client.read_push().as_array(), invalid, "{read}");
    }
}
