//! The effects of a command on replicas, subscribers and INFO; and the server's own commands on a filter.

use std::collections::BTreeSet;

use crate::events::{heard, messages};
use crate::harness::{Client, Server, digest, int, ok, wait_in_sync};
use crate::support::effects;
use crate::support::random::Random;

use super::{field, items, load};

#[test]
fn a_command_sends_the_events_of_its_changes() {
    let server = Server::with(&[("notify-keyspace-events", "KEA")]);
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.cmd("PSUBSCRIBE __key*");
    for effect in effects::cuckoo() {
        client.cmd("FLUSHALL");
        for command in &effect.given {
            let reply = client.cmd(command);
            assert!(!reply.is_error(), "{command}: {reply:?}");
        }
        heard(&mut subscriber, &mut client);
        client.cmd(&effect.command);
        let events = heard(&mut subscriber, &mut client);
        assert_eq!(events, messages(&effect.events), "{}", effect.command);
    }
}

/// The commands that an AOF has of each row.
#[test]
fn a_log_holds_only_changes() {
    let server = Server::with(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let mut client = server.client();
    let log = || {
        let folder = server.dir().join("appendonlydir");
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path());
        let file = files
            .into_iter()
            .find(|path| path.to_string_lossy().ends_with("incr.aof"));
        String::from_utf8_lossy(&std::fs::read(file.unwrap()).unwrap()).into_owned()
    };
    for effect in effects::cuckoo() {
        client.cmd("FLUSHALL");
        for command in &effect.given {
            client.cmd(command);
        }
        let start = log().len();
        client.cmd(&effect.command);
        client.cmd("SET end end");
        let log = log();
        let words = log[start..]
            .split("\r\n")
            .filter(|word| !word.starts_with('$'));
        let mut commands: Vec<Vec<&str>> = Vec::new();
        for word in words {
            if word.starts_with('*') {
                commands.push(Vec::new());
            } else if !word.is_empty() && !word.starts_with('#') {
                commands.last_mut().unwrap().push(word);
            }
        }
        let commands: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
        let commands = commands.iter().filter(|command| command.starts_with("CF."));
        let sent: Vec<&String> = commands.collect();
        assert_eq!(
            sent,
            effect.sent.iter().collect::<Vec<_>>(),
            "{}",
            effect.command
        );
    }
}

/// A random life on a primary, and a replica with other settings that joins in the middle and leaves.
#[test]
fn replicas_hold_the_same_filters() {
    let primary = Server::start();
    let other_settings = |builder: crate::harness::Builder| {
        builder
            .config("bf.cf-initial-size", "600")
            .config("bf.cf-bucket-size", "5")
            .config("bf.cf-max-iterations", "1")
            .config("bf.cf-expansion-factor", "0")
            .config("bf.cf-max-expansions", "1")
            .config("bf.bloom-filter-max-memory-usage", "1")
            .config("bf.bloom-memory-usage-limit", "1")
    };
    let mut replica = other_settings(Server::replica_of(&primary))
        .config("appendonly", "yes")
        .start();
    wait_in_sync(&primary, &replica);
    let mut client = primary.client();
    let mut random = Random(9);
    for step in 0..3000 {
        let key = random.below(6);
        let item = random.below(400);
        let command = match random.below(12) {
            0 => format!(
                "CF.RESERVE k{key} {} EXPANSION {}",
                4 + random.below(100),
                key % 4
            ),
            1..=4 => format!("CF.ADD k{key} {item}"),
            5 => format!("CF.ADDNX k{key} {item}"),
            6 => format!(
                "CF.INSERT k{key} CAPACITY 64 ITEMS {}",
                items(&item.to_string(), 30)
            ),
            7 => format!("CF.INSERTNX k{key} ITEMS {}", items(&item.to_string(), 10)),
            8 | 9 => format!("CF.DEL k{key} {item}"),
            10 => format!("CF.COMPACT k{key}"),
            _ if step % 40 == 0 => format!("DEL k{key}"),
            _ => format!("CF.DEL k{key} {item}-3"),
        };
        client.cmd(&command);
        if step == 2000 {
            let pieces = super::chunks(&mut client, "k1");
            load(&mut client, "loaded", &pieces);
        }
    }
    // Keys that RedisBloom takes for options.
    client.cmd("CF.RESERVE EXPANSION 64");
    client.cmd("CF.ADD bucketsize a");
    wait_in_sync(&primary, &replica);
    let keys = [
        "k0",
        "k1",
        "k2",
        "k3",
        "k4",
        "k5",
        "loaded",
        "EXPANSION",
        "bucketsize",
    ];
    let digests = |server: &Server| {
        let mut client = server.client();
        keys.map(|key| digest(&mut client, key))
    };
    let expected = digests(&primary);
    assert_eq!(expected.iter().collect::<BTreeSet<_>>().len(), keys.len());
    assert_eq!(digests(&replica), expected);
    // A full resync gives the same filters, and so does the replica's log.
    let late = other_settings(Server::replica_of(&primary)).start();
    wait_in_sync(&primary, &late);
    assert_eq!(digests(&late), expected);
    assert_eq!(replica.client().cmd("REPLICAOF NO ONE"), ok());
    replica.client().cmd("CONFIG REWRITE");
    replica.restart();
    assert_eq!(digests(&replica), expected);
    let mut writer = replica.client();
    assert_eq!(writer.cmd("CF.EXISTS k0 x").as_int().min(0), 0);
}

/// INFO's sums, and the server's own commands.
#[test]
fn a_filter_works_like_any_value() {
    let server = Server::start();
    let mut client = server.client();
    let sums = |server: &Server| {
        let info = server.info("bf");
        let field = |name: &str| info[&format!("bf_cuckoo_{name}")].parse::<i64>().unwrap();
        [
            field("num_objects"),
            field("num_filters_across_objects"),
            field("num_items_across_objects"),
            field("num_slots_across_objects"),
            field("max_filters_in_object"),
            field("total_memory_bytes"),
        ]
    };
    assert_eq!(sums(&server), [0; 6]);
    client.cmd(&format!(
        "CF.INSERT k CAPACITY 64 ITEMS {}",
        items("i", 100)
    ));
    client.cmd("CF.ADD other a");
    let filters = field(&mut client, "k", "Number of filters");
    let [objects, all, in_all, slots, deepest, bytes] = sums(&server);
    assert_eq!([objects, all, in_all], [2, filters + 1, 101]);
    assert_eq!([slots, deepest], [64 * filters + 1024, filters]);
    assert!(bytes > slots && bytes < slots + 1000);
    assert_eq!(server.info("bf")["bf_bloom_num_objects"], "0");
    let usage = client.cmd("MEMORY USAGE k").as_int();
    assert!(
        usage > 64 * filters && usage < 64 * filters + 1000,
        "{usage}"
    );

    assert_eq!(client.cmd("COPY k copy"), int(1));
    assert_eq!(digest(&mut client, "copy"), digest(&mut client, "k"));
    client.cmd("CF.ADD copy more");
    assert_ne!(digest(&mut client, "copy"), digest(&mut client, "k"));
    assert_eq!(sums(&server)[..3], [3, 2 * filters + 1, 202]);
    assert_eq!(client.cmd("RENAME copy renamed"), ok());
    assert_eq!(client.cmd("CF.DEL renamed more"), int(1));
    assert_eq!(sums(&server)[..3], [3, 2 * filters + 1, 201]);
    assert_eq!(client.cmd("DEL other"), int(1));
    assert_eq!(client.cmd("SWAPDB 0 1"), ok());
    assert_eq!(sums(&server)[..3], [2, 2 * filters, 200]);
    client.cmd("FLUSHALL ASYNC");
    assert_eq!(sums(&server), [0; 6]);
    // A header alone.
    client.cmd("CF.INSERT k ITEMS a");
    let header = super::chunks(&mut client, "k").swap_remove(0);
    load(&mut client, "claimed", &[header]);
    assert_eq!(sums(&server)[..4], [2, 2, 2, 2048]);
    assert_eq!(client.cmd("CF.EXISTS claimed a"), int(0));
    client.cmd("DEBUG RELOAD");
    assert_eq!(sums(&server)[..4], [2, 2, 2, 2048]);
}

/// Items that come and go, in many filters between holes, while the server moves them.
#[test]
fn defragmentation_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for number in 0..4000 {
        let capacity = [100, 200, 400, 900][number % 4];
        client.send(&format!(
            "CF.INSERT k{number} CAPACITY {capacity} ITEMS {}",
            items("i", 150)
        ));
        if number % 100 == 99 {
            (0..100).for_each(|_| assert!(!client.read().is_error()));
        }
    }
    for number in (0..4000).step_by(2) {
        client.cmd(&format!("DEL k{number}"));
    }
    let digests = |client: &mut Client| {
        let keys = (1..4000).step_by(2).map(|number| format!("k{number}"));
        keys.map(|key| digest(client, &key)).collect::<Vec<_>>()
    };
    let before = digests(&mut client);
    if crate::defrag::starts_to_defragment(&server) {
        crate::harness::wait_until("allocations were moved", || {
            client.cmd("CF.ADD k1 again");
            client.cmd("CF.DEL k1 again");
            crate::defrag::offered(&server).0 > 1000
        });
        client.cmd("CONFIG SET activedefrag no");
    }
    let after = digests(&mut client);
    assert_eq!(after[1..], before[1..]);
    assert_eq!(
        client.cmd(&format!("CF.MEXISTS k3999 {}", items("i", 150))),
        crate::support::protocols::truths(false, &[true; 150])
    );
}
