//! Keyspace notifications.

use crate::harness::{Client, Server, array, bulk, int, ok, simple, wait_in_sync, wait_until};
use crate::support::blobs::{blobs, send};
use crate::support::configured::other_settings;
use crate::support::effects::{self, Effect};
use crate::support::protocols::with_fixed_seed;

const RESERVE: &str = "bloom.reserve";
const ADD: &str = "bloom.add";

/// Returns the channels and messages for these events of `k`, the one for the key first.
pub fn messages(events: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let both = events.iter().flat_map(|event| {
        let event = event.as_ref();
        [
            ("__keyspace@0__:k".to_owned(), event.to_owned()),
            (format!("__keyevent@0__:{event}"), "k".to_owned()),
        ]
    });
    both.collect()
}

/// Returns the messages that a subscriber got since the last call.
pub fn heard(subscriber: &mut Client, client: &mut Client) -> Vec<(String, String)> {
    assert_eq!(client.cmd("PUBLISH __keyend all"), int(1));
    heard_until_end(subscriber)
}

/// Returns the messages that a subscriber gets until one to `__keyend`.
fn heard_until_end(subscriber: &mut Client) -> Vec<(String, String)> {
    let mut heard = Vec::new();
    loop {
        let message = subscriber.read();
        let parts = message.as_array();
        assert_eq!(parts[0], bulk("pmessage"));
        let (channel, text) = (parts[2].text(), parts[3].text());
        if channel == "__keyend" {
            return heard;
        }
        heard.push((channel, text));
    }
}

#[test]
fn every_change_sends_its_events_once() {
    let server = with_fixed_seed();
    let (mut client, mut subscriber) = (server.client(), server.client());
    let blobs = blobs(&mut client);
    assert_eq!(client.cmd("CONFIG SET notify-keyspace-events KEAg"), ok());
    let done = subscriber.cmd("PSUBSCRIBE __key*");
    assert_eq!(done, array([bulk("psubscribe"), bulk("__key*"), int(1)]));
    for effect in effects::bloom() {
        let Effect { given, command, .. } = &effect;
        client.cmd("DEL k");
        for line in given {
            assert!(!send(&mut client, line, &blobs).is_error(), "{line}");
        }
        heard(&mut subscriber, &mut client);
        send(&mut client, command, &blobs);
        let events = heard(&mut subscriber, &mut client);
        assert_eq!(events, messages(&effect.events), "{given:?} {command}");
    }

    // As many commands as there are in a transaction or a script.
    client.cmd("DEL k");
    heard(&mut subscriber, &mut client);
    assert_eq!(client.cmd("MULTI"), ok());
    for command in ["BF.ADD k a", "BF.ADD k a", "BF.MADD k a b", "BF.CARD k"] {
        assert_eq!(client.cmd(command), simple("QUEUED"));
    }
    assert_eq!(client.cmd("EXEC").as_array().len(), 4);
    let reported = heard(&mut subscriber, &mut client);
    assert_eq!(reported, messages(&[RESERVE, ADD, ADD]));
    let script = b"redis.call('BF.ADD', KEYS[1], 'a') return redis.call('BF.ADD', KEYS[1], 'c')";
    assert_eq!(client.call(&[b"EVAL", script, b"1", b"k"]), int(1));
    assert_eq!(heard(&mut subscriber, &mut client), messages(&[ADD]));
}

/// A primary, a replica, and the events of each.
struct Pair {
    client: Client,
    subscribers: [Client; 2],
    _servers: [Server; 2],
}

impl Pair {
    fn new() -> Self {
        let primary = with_fixed_seed();
        let replica = other_settings(Server::replica_of(&primary)).start();
        wait_in_sync(&primary, &replica);
        let subscribers = [&primary, &replica].map(|server| {
            // With `n`, the server's own event of a new key.
            let set = "CONFIG SET notify-keyspace-events EAn";
            assert_eq!(server.client().cmd(set), ok());
            let mut subscriber = server.client();
            subscriber.cmd("PSUBSCRIBE __key*");
            subscriber
        });
        Self {
            client: primary.client(),
            subscribers,
            _servers: [primary, replica],
        }
    }

    /// Returns the events since the last call, and their keys, which are the same on both.
    #[track_caller]
    fn events(&mut self, what: &str) -> Vec<(String, String)> {
        // A message goes to replicas in its order among the writes.
        assert_eq!(self.client.cmd("PUBLISH __keyend all"), int(1));
        let [reported, by_replica] = self.subscribers.each_mut().map(heard_until_end);
        assert_eq!(reported, by_replica, "{what}");
        reported
    }
}

#[test]
fn a_replica_sends_the_same_events_in_the_same_order() {
    let mut pair = Pair::new();
    let blobs = blobs(&mut pair.client);
    for effect in effects::bloom() {
        let Effect { given, command, .. } = &effect;
        pair.client.cmd("DEL k");
        for line in given {
            assert!(!send(&mut pair.client, line, &blobs).is_error(), "{line}");
        }
        pair.events(command);
        send(&mut pair.client, command, &blobs);
        let mut reported = pair.events(&format!("{given:?} {command}"));
        reported.retain(|(event, _)| event != "__keyevent@0__:new");
        let channel = |event: &String| (format!("__keyevent@0__:{event}"), "k".to_owned());
        let expected: Vec<_> = effect.events.iter().map(channel).collect();
        assert_eq!(reported, expected, "{given:?} {command}");
    }

    // As many commands as there are in a transaction or a script.
    pair.client.cmd("DEL k");
    for command in [
        "MULTI",
        "BF.RESERVE k 0.01 100 COUNTING EX 100",
        "BF.MADD k a b c",
        "BF.MDEL k a b",
        "BF.DEL k c",
        "EXEC",
    ] {
        assert!(!pair.client.cmd(command).is_error(), "{command}");
    }
    let script: [&[u8]; 4] = [
        b"EVAL",
        b"redis.call('BF.MADD', KEYS[1], 'a', 'b') return redis.call('BF.MDEL', KEYS[1], 'a', 'b')",
        b"1",
        b"k",
    ];
    assert_eq!(pair.client.call(&script), array([int(1), int(1)]));
    let reported = pair.events("several commands");
    let of_bloom = reported
        .iter()
        .filter(|(event, _)| event.contains("bloom."));
    assert_eq!(of_bloom.count(), 6, "{reported:?}");
}

/// Writes that free expired periods.
#[test]
fn a_replica_sends_the_same_events_for_windows() {
    let mut pair = Pair::new();
    for (command, events) in [
        ("BF.ADD k a", 1),
        ("BF.MADD k a b", 1),
        ("BF.INSERT k NOCREATE", 0),
        ("BF.INSERT k NOCREATE ITEMS a", 1),
        // No item is new, and expired periods are freed.
        ("BF.MERGE k w", 0),
        // The server's event of a new key, and ours.
        ("BF.MERGE new k w", 2),
    ] {
        pair.client.cmd("DEL k w new");
        for key in ["k", "w"] {
            let given = format!("BF.INSERT {key} WINDOW 5 PERIODS 2 CAPACITY 10 ITEMS a");
            assert_eq!(pair.client.cmd(&given), array([int(1)]));
        }
        for key in ["k", "w"] {
            wait_until("the window has passed", || {
                pair.client.cmd(&format!("BF.CARD {key}")) == int(0)
            });
        }
        pair.events("what is given");
        assert!(!pair.client.cmd(command).is_error(), "{command}");
        assert_eq!(pair.events(command).len(), events, "{command}");
    }
}

#[test]
fn events_are_of_the_generic_class() {
    let server = with_fixed_seed();
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.cmd("PSUBSCRIBE __key*");
    let both = messages(&[RESERVE, ADD]);
    for (classes, expected) in [
        ("KEg", both.clone()),
        ("Kg", vec![both[0].clone(), both[2].clone()]),
        ("Eg", vec![both[1].clone(), both[3].clone()]),
        ("g", vec![]),
        ("KE$lshzxet", vec![]),
        ("", vec![]),
    ] {
        let set = client.cmd(&format!("CONFIG SET notify-keyspace-events {classes}"));
        assert_eq!(set, ok());
        assert_eq!(client.cmd("BF.ADD k a"), int(1));
        assert_eq!(heard(&mut subscriber, &mut client), expected, "{classes}");
        client.cmd("DEL k");
        heard(&mut subscriber, &mut client);
    }
}

#[test]
fn an_event_names_its_database() {
    let server = with_fixed_seed();
    let (mut client, mut subscriber) = (server.client(), server.client());
    assert_eq!(client.cmd("CONFIG SET notify-keyspace-events KEAg"), ok());
    subscriber.cmd("PSUBSCRIBE __key*");
    assert_eq!(client.cmd("SELECT 5"), ok());
    assert_eq!(client.cmd("BF.ADD k a"), int(1));
    let reported = heard(&mut subscriber, &mut client);
    let expected = messages(&[RESERVE, ADD]);
    let elsewhere = expected
        .into_iter()
        .map(|(channel, text)| (channel.replace("@0__", "@5__"), text));
    assert_eq!(reported, elsewhere.collect::<Vec<_>>());
}
