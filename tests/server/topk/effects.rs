//! The effects of a command on replicas, logs, subscribers and INFO; and the server's own commands on a list.

use std::collections::BTreeSet;

use crate::events::{heard, messages};
use crate::harness::{Client, Server, array, digest, int, nil, ok, wait_in_sync};
use crate::support::aof::{Log, rewrite_aof, with_command_log};
use crate::support::effects::{self, Effect};
use crate::support::random::Random;

/// Commands on the key `k`, and their events. A command that changed something is replicated as it came, unless a
/// refusal cut it short.
const ROWS: &str = "
MADE = TOPK.RESERVE k 2 50 3 0.9
ONE = TOPK.RESERVE k 2 50 3 0.9 / TOPK.ADD k a
# One cell, and a list of one. The owner loses each unit that another item draws.
SURE = TOPK.RESERVE k 1 1 1 1 / TOPK.INCRBY k a 1000
# One cell whose owner nobody can contest.
HELD = TOPK.RESERVE k 1 1 1 0.5 / TOPK.INCRBY k a 2000
# One cell whose owner hardly loses.
RARE = TOPK.RESERVE k 1 1 1 0.5 / TOPK.INCRBY k a 20
TOPK.RESERVE k 5 => topk.reserve
TOPK.RESERVE k 5 50 3 0.9 => topk.reserve
TOPK.RESERVE k 0 => -
TOPK.RESERVE k 4294967295 => -
MADE / TOPK.RESERVE k 5 => -
MADE / TOPK.ADD k a => topk.add
MADE / TOPK.ADD k a b c => topk.add
MADE / TOPK.INCRBY k a 5 b 7 => topk.add
# A count of 0 enters the list, once.
MADE / TOPK.INCRBY k a 0 => topk.add
ONE / TOPK.INCRBY k a 0 => -
ONE / TOPK.INCRBY k a x => -
ONE / TOPK.INCRBY k a 100001 => -
ONE / TOPK.ADD k a => topk.add
SURE / TOPK.ADD k b => topk.add
SURE / TOPK.INCRBY k b 0 => -
HELD / TOPK.ADD k b => -
HELD / TOPK.INCRBY k b 100000 => -
HELD / TOPK.ADD k b a => topk.add
# A draw without a loss moves the number of collisions.
RARE / TOPK.ADD k b => topk.add
TOPK.ADD k a => -
ONE / TOPK.QUERY k a => -
ONE / TOPK.COUNT k a => -
ONE / TOPK.LIST k => -
ONE / TOPK.INFO k => -
";

fn effects() -> impl Iterator<Item = Effect> {
    effects::of(ROWS)
}

fn prepare(client: &mut Client, effect: &Effect) {
    client.cmd("FLUSHALL");
    for command in &effect.given {
        let reply = client.cmd(command);
        assert!(!reply.is_error(), "{command}: {reply:?}");
    }
}

#[test]
fn a_command_sends_the_events_of_its_changes() {
    let server = Server::with(&[("notify-keyspace-events", "KEA")]);
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.cmd("PSUBSCRIBE __key*");
    for effect in effects() {
        prepare(&mut client, &effect);
        heard(&mut subscriber, &mut client);
        client.cmd(&effect.command);
        let events = heard(&mut subscriber, &mut client);
        assert_eq!(events, messages(&effect.events), "{}", effect.command);
    }
}

#[test]
fn a_log_holds_only_changes() {
    let server = with_command_log();
    let mut client = server.client();
    let mut log = Log::of(&server);
    for effect in effects() {
        prepare(&mut client, &effect);
        log.since();
        let before = client.cmd("DEBUG DIGEST");
        client.cmd(&effect.command);
        let changed = client.cmd("DEBUG DIGEST") != before;
        assert_eq!(changed, effect.changes, "{}", effect.command);
        let words = effect.command.split(' ');
        let words = words.map(|word| word.as_bytes().to_vec());
        let expected = effect.changes.then(|| words.collect::<Vec<_>>());
        assert_eq!(log.since(), Vec::from_iter(expected), "{}", effect.command);
    }
}

#[test]
fn a_watch_breaks_only_at_a_change() {
    let server = Server::start();
    let (mut client, mut watcher) = (server.client(), server.client());
    for effect in effects() {
        prepare(&mut client, &effect);
        assert_eq!(watcher.cmd("WATCH k"), ok());
        client.cmd(&effect.command);
        assert_eq!(watcher.cmd("MULTI"), ok());
        watcher.cmd("PING");
        let is_broken = watcher.cmd("EXEC") == nil();
        assert_eq!(is_broken, effect.changes, "{}", effect.command);
    }
}

/// A random life on a primary, with many collisions, and a replica that joins in the middle and becomes a primary.
#[test]
fn replicas_hold_the_same_lists() {
    let primary = Server::start();
    let limited = |builder: crate::harness::Builder| {
        builder
            .config("bf.bloom-filter-max-memory-usage", "1")
            .config("bf.bloom-memory-usage-limit", "1")
    };
    let mut replica = limited(Server::replica_of(&primary))
        .config("propagation-error-behavior", "panic")
        .config("appendonly", "yes")
        .start();
    wait_in_sync(&primary, &replica);
    let mut client = primary.client();
    let mut random = Random(12);
    for (key, options) in [
        "3",
        "2 4 2 0.5",
        "10 20 5 0.95",
        "50 30 3 0.999",
        "5 10 4 1",
        "1 1 1 0.99999",
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(client.cmd(&format!("TOPK.RESERVE k{key} {options}")), ok());
    }
    for step in 0..4000 {
        let key = random.below(6);
        let command = match random.below(10) {
            0 => format!("COPY k{key} copy{key} REPLACE"),
            1 => format!("TOPK.INCRBY k{key} {} 100000 a x b 1", random.below(90)),
            2 => format!(
                "TOPK.INCRBY k{key} {} {}",
                random.below(90),
                random.below(3000)
            ),
            3 => format!("TOPK.INCRBY k{key} {} 0", random.below(90)),
            _ => {
                let below = 1 + random.below(90);
                format!(
                    "TOPK.ADD k{key} {} {}",
                    random.below(below),
                    random.below(90)
                )
            }
        };
        let reply = client.cmd(&command);
        assert!(!reply.is_error(), "{command}: {reply:?}");
        if step == 2000 {
            client.cmd("DEBUG RELOAD");
        }
    }
    wait_in_sync(&primary, &replica);
    let keys = ["k", "copy"].map(|name| (0..6).map(move |number| format!("{name}{number}")));
    let keys: Vec<_> = keys.into_iter().flatten().collect();
    let digests = |server: &Server| {
        let mut client = server.client();
        let digests = keys.iter().map(|key| digest(&mut client, key));
        digests.collect::<Vec<_>>()
    };
    let expected = digests(&primary);
    assert_eq!(expected.iter().collect::<BTreeSet<_>>().len(), keys.len());
    assert_eq!(digests(&replica), expected);
    // A full resync gives the same lists, and so does the replica's log.
    let late = limited(Server::replica_of(&primary)).start();
    wait_in_sync(&primary, &late);
    assert_eq!(digests(&late), expected);
    assert_eq!(replica.client().cmd("REPLICAOF NO ONE"), ok());
    replica.client().cmd("CONFIG REWRITE");
    replica.restart();
    assert_eq!(digests(&replica), expected);
    rewrite_aof(&replica);
    replica.restart();
    assert_eq!(digests(&replica), expected);
    // Both go on with the same chance.
    for server in [&primary, &replica] {
        server
            .client()
            .cmd("CONFIG SET bf.bloom-memory-usage-limit 0");
        server
            .client()
            .cmd("CONFIG SET bf.bloom-filter-max-memory-usage 64mb");
        for number in 0..300 {
            server.client().cmd(&format!("TOPK.ADD k0 {number}"));
        }
    }
    assert_eq!(digests(&primary)[0], digests(&replica)[0]);
    assert_ne!(digests(&primary)[0], expected[0]);
}

/// INFO's sums, and the server's own commands.
#[test]
fn a_list_works_like_any_value() {
    let mut server = Server::start();
    let mut client = server.client();
    let sums = |server: &Server| {
        let info = server.info("bf");
        let field = |name: &str| info[&format!("bf_topk_{name}")].parse::<i64>().unwrap();
        [
            field("num_objects"),
            field("num_items_across_objects"),
            field("num_cells_across_objects"),
            field("total_memory_bytes"),
        ]
    };
    assert_eq!(sums(&server), [0; 4]);
    client.cmd("TOPK.RESERVE k 5 50 4 0.9");
    // TOPK.LIST leaves out an item without a count.
    client.cmd("TOPK.INCRBY k a 5 b 3 c 1 e 0");
    client.cmd("TOPK.RESERVE other 3");
    let [objects, items, cells, bytes] = sums(&server);
    assert_eq!([objects, items, cells], [2, 3, 256]);
    let usage = ["k", "other"].map(|key| client.cmd(&format!("MEMORY USAGE {key}")).as_int());
    let usage: i64 = usage.iter().sum();
    assert!((bytes..bytes + 400).contains(&usage), "{usage} of {bytes}");

    assert_eq!(client.cmd("COPY k copy"), int(1));
    assert_eq!(digest(&mut client, "copy"), digest(&mut client, "k"));
    client.cmd("TOPK.ADD copy d");
    assert_ne!(digest(&mut client, "copy"), digest(&mut client, "k"));
    assert_eq!(client.cmd("TOPK.COUNT k a d"), array([int(5), int(0)]));
    assert_eq!(sums(&server)[..3], [3, 7, 456]);
    assert_eq!(client.cmd("RENAME copy renamed"), ok());
    assert_eq!(client.cmd("MOVE renamed 1"), int(1));
    assert_eq!(client.cmd("UNLINK other"), int(1));
    assert_eq!(client.cmd("EXPIRE k 10000"), int(1));
    let expected = digest(&mut client, "k");
    assert_eq!(client.cmd("DEBUG RELOAD"), ok());
    server.restart_saving();
    let mut client = server.client();
    assert_eq!(digest(&mut client, "k"), expected);
    assert!(client.cmd("TTL k").as_int() > 9000);
    assert_eq!(sums(&server)[..3], [2, 7, 400]);
    assert_eq!(client.cmd("SELECT 1"), ok());
    assert_eq!(client.cmd("TOPK.COUNT renamed d"), array([int(1)]));
    assert_eq!(client.cmd("FLUSHALL ASYNC"), ok());
    assert_eq!(sums(&server), [0; 4]);
}

/// Lists between holes, while the server moves them.
#[test]
fn defragmentation_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for number in 0..3000 {
        let k = [3, 20, 50, 600][number % 4];
        client.cmd(&format!("TOPK.RESERVE k{number} {k} 10 3 0.9"));
        let items = (0..30).map(|item| format!("item-{number}-{item}"));
        client.cmd(&format!(
            "TOPK.ADD k{number} {}",
            items.collect::<Vec<_>>().join(" ")
        ));
    }
    for number in (0..3000).filter(|number| number % 8 < 4) {
        client.cmd(&format!("DEL k{number}"));
    }
    let keys = || (0..3000).filter(|number| number % 8 >= 4);
    let digests = |client: &mut Client| {
        let keys = keys().map(|number| format!("k{number}"));
        keys.map(|key| digest(client, &key)).collect::<Vec<_>>()
    };
    let before = digests(&mut client);
    if crate::defrag::starts_to_defragment(&server) {
        crate::harness::wait_until("allocations were moved", || {
            client.cmd("TOPK.INCRBY k4 item-4-1 0");
            crate::defrag::offered(&server).0 > 1000
        });
        client.cmd("CONFIG SET activedefrag no");
    }
    let after = digests(&mut client);
    assert_eq!(after[1..], before[1..]);
    assert!(!client.cmd("TOPK.ADD k4 item-4-1 another").is_error());
}
