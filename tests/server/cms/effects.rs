//! The effects of a command on replicas, logs, subscribers and INFO; and the server's own commands on a sketch.

use std::collections::BTreeSet;

use crate::events::{heard, messages};
use crate::harness::{Client, Server, array, digest, int, nil, ok, wait_in_sync};
use crate::support::aof::{Log, rewrite_aof, with_command_log};
use crate::support::effects::{self, Effect};
use crate::support::random::Random;
use crate::support::usage::{memory, nothing_is_being_freed};

/// Commands on the key `k`, their events, and what is sent on, if that is not the command as it came.
const ROWS: &str = "
MADE = CMS.INITBYDIM k 10 5
ONE = CMS.INITBYDIM k 10 5 / CMS.INCRBY k a 1
SMALL = CMS.INITBYDIM k 10 5 CELL_SIZE 1 / CMS.INCRBY k a 255
OTHER = CMS.INITBYDIM k 10 5 / CMS.INITBYDIM other 10 5 / CMS.INCRBY other a 1
CMS.INITBYDIM k 10 5 => cms.init
CMS.INITBYDIM k 10 5 CELL_SIZE 8 => cms.init
CMS.INITBYPROB k 0.1 0.1 => cms.init
# RedisBloom 8.8 does not know the option.
CMS.INITBYDIM k 10 5 CELL_SIZE 4 => cms.init | CMS.INITBYDIM k 10 5
CMS.INITBYPROB k 0.1 0.1 CELL_SIZE 4 => cms.init | CMS.INITBYPROB k 0.1 0.1
CMS.INITBYDIM k 0 5 => -
CMS.INITBYDIM k 9223372036854775807 1 => -
MADE / CMS.INITBYDIM k 10 5 => -
MADE / CMS.INCRBY k a 1 => cms.incrby
MADE / CMS.INCRBY k a 0 b 2 => cms.incrby | CMS.INCRBY k b 2
# Only pairs that took effect are sent on.
MADE / CMS.INCRBY k a 1 b -5 c 0 a 2 => cms.incrby | CMS.INCRBY k a 1 a 2
MADE / CMS.INCRBY k a 0 => -
MADE / CMS.INCRBY k a 0 b 0 => -
MADE / CMS.INCRBY k a -1 => -
MADE / CMS.INCRBY k a -1 b 0 => -
MADE / CMS.INCRBY k a 1 a -1 => cms.incrby
MADE / CMS.INCRBY k a x => -
MADE / CMS.INCRBY k a 1 b x => -
ONE / CMS.INCRBY k a -1 => cms.incrby
# A saturated counter stays, but the total grows.
MADE / CMS.INCRBY k a 4294967295 => cms.incrby
MADE / CMS.INCRBY k a 4294967295 / CMS.INCRBY k a 1 => cms.incrby
MADE / CMS.INCRBY k a 4294967295 / CMS.INCRBY k a 0 => -
SMALL / CMS.INCRBY k a 1 => -
SMALL / CMS.INCRBY k a 1 b 1 => cms.incrby | CMS.INCRBY k b 1
CMS.INCRBY k a 1 => -
ONE / CMS.QUERY k a => -
ONE / CMS.INFO k => -
OTHER / CMS.MERGE k 1 other => cms.merge
OTHER / CMS.MERGE k 2 k other WEIGHTS 1 3 => cms.merge
OTHER / CMS.MERGE k 1 k => -
OTHER / CMS.MERGE k 1 other WEIGHTS 0 => -
OTHER / CMS.MERGE k 1 other WEIGHTS -1 => -
OTHER / CMS.MERGE k 1 none => -
OTHER / CMS.MERGE k 1 other / CMS.MERGE k 1 other => -
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
        client.cmd(&effect.command);
        let as_it_came = effect.changes.then(|| effect.command.clone());
        let sent = effect.sent.first().cloned().or(as_it_came);
        let words = |line: String| {
            line.split(' ')
                .map(|word| word.as_bytes().to_vec())
                .collect()
        };
        let expected: Vec<Vec<Vec<u8>>> = sent.into_iter().map(words).collect();
        assert_eq!(log.since(), expected, "{}", effect.command);
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

const KEYS: [&str; 6] = ["k0", "k1", "k2", "k3", "k4", "k5"];

fn digests(server: &Server) -> Vec<String> {
    let mut client = server.client();
    KEYS.map(|key| digest(&mut client, key)).into()
}

/// A random life on a primary with two replicas: one with limits that nothing here keeps, which writes a log and ends at
/// any error, and one that comes late.
#[test]
fn replicas_hold_the_same_sketches() {
    let primary = Server::start();
    let mut replica = Server::replica_of(&primary)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .config("bf.bloom-new-filters", "redisbloom")
        .config("propagation-error-behavior", "panic")
        .config("appendonly", "yes")
        .start();
    wait_in_sync(&primary, &replica);
    let mut client = primary.client();
    let mut random = Random(12);
    for (number, key) in KEYS.iter().enumerate() {
        let create = match number {
            0 => "CMS.INITBYPROB k0 0.02 0.01".to_owned(),
            1..=3 => format!("CMS.INITBYDIM {key} 50 4"),
            4 => format!("CMS.INITBYDIM {key} 30 3 CELL_SIZE 1"),
            _ => format!("CMS.INITBYPROB {key} 0.1 0.3 CELL_SIZE 8"),
        };
        assert_eq!(client.cmd(&create), ok());
    }
    for _ in 0..3000 {
        let key = random.pick(&KEYS);
        let number = |random: &mut Random| match random.below(8) {
            0 => "0".to_owned(),
            1 => "-3".to_owned(),
            2 => "4294967295".to_owned(),
            _ => random.below(20).to_string(),
        };
        let command = match random.below(6) {
            0 => format!("CMS.MERGE k{} 2 k1 k2", 1 + random.below(3)),
            1 => format!(
                "CMS.MERGE {key} 2 {key} {key} WEIGHTS {} {}",
                number(&mut random),
                number(&mut random)
            ),
            2 => {
                let pairs: Vec<_> = (0..30)
                    .map(|_| format!("{} {}", random.below(100), number(&mut random)))
                    .collect();
                format!("CMS.INCRBY {key} {}", pairs.join(" "))
            }
            _ => format!(
                "CMS.INCRBY {key} {} {}",
                random.below(100),
                number(&mut random)
            ),
        };
        client.cmd(&command);
    }
    wait_in_sync(&primary, &replica);
    let expected = digests(&primary);
    assert_eq!(expected.iter().collect::<BTreeSet<_>>().len(), KEYS.len());
    assert_eq!(digests(&replica), expected);
    let late = Server::replica_of(&primary).start();
    wait_in_sync(&primary, &late);
    assert_eq!(digests(&late), expected);
    assert_eq!(replica.client().cmd("REPLICAOF NO ONE"), ok());
    replica.client().cmd("CONFIG REWRITE");
    replica.restart();
    assert_eq!(digests(&replica), expected);
    rewrite_aof(&replica);
    replica.restart();
    assert_eq!(digests(&replica), expected);
}

/// INFO's sums, and the server's own commands.
#[test]
fn a_sketch_works_like_any_value() {
    let mut server = Server::start();
    let mut client = server.client();
    let sums = |server: &Server| {
        let info = server.info("bf");
        let field = |name: &str| info[&format!("bf_cms_{name}")].parse::<i64>().unwrap();
        [
            field("num_objects"),
            field("num_counters_across_objects"),
            field("max_counters_in_object"),
            field("total_memory_bytes"),
        ]
    };
    assert_eq!(sums(&server), [0; 4]);
    client.cmd("CMS.INITBYDIM k 1000 5");
    client.cmd("CMS.INITBYDIM other 10 5 CELL_SIZE 8");
    client.cmd("CMS.INCRBY k a 7");
    let [objects, counters, most, bytes] = sums(&server);
    assert_eq!([objects, counters, most], [2, 5050, 5000]);
    let tables = 5000 * 4 + 50 * 8;
    assert!(bytes > tables && bytes < tables + 400, "{bytes}");
    let usage = client.cmd("MEMORY USAGE k").as_int();
    assert!(usage > 20_000 && usage < 20_300, "{usage}");
    assert_eq!(client.cmd("OBJECT ENCODING k").text(), "raw");

    assert_eq!(client.cmd("COPY k copy"), int(1));
    assert_eq!(digest(&mut client, "copy"), digest(&mut client, "k"));
    client.cmd("CMS.INCRBY copy a 1");
    assert_ne!(digest(&mut client, "copy"), digest(&mut client, "k"));
    assert_eq!(client.cmd("CMS.QUERY k a"), array([int(7)]));
    assert_eq!(sums(&server)[..2], [3, 10_050]);
    assert_eq!(client.cmd("RENAME copy renamed"), ok());
    assert_eq!(client.cmd("MOVE renamed 1"), int(1));
    assert_eq!(client.cmd("UNLINK other"), int(1));
    assert_eq!(client.cmd("EXPIRE k 10000"), int(1));
    // A time to live is part of the digest.
    let expected = digest(&mut client, "k");
    assert_eq!(client.cmd("DEBUG RELOAD"), ok());
    server.restart_saving();
    let mut client = server.client();
    assert_eq!(digest(&mut client, "k"), expected);
    assert!(client.cmd("TTL k").as_int() > 9000);
    assert_eq!(sums(&server)[..3], [2, 10_000, 5000]);
    assert_eq!(client.cmd("SELECT 1"), ok());
    assert_eq!(client.cmd("CMS.QUERY renamed a"), array([int(8)]));
    assert_eq!(client.cmd("FLUSHALL ASYNC"), ok());
    assert_eq!(sums(&server), [0; 4]);
}

/// MEMORY USAGE is what a sketch takes.
#[test]
fn the_memory_is_what_is_reported() {
    let server = Server::start();
    let mut client = server.client();
    client.cmd("CONFIG SET bf.bloom-filter-max-memory-usage 1gb");
    for (options, counters) in [
        ("1000000 5", 20_000_000),
        ("3000000 4 CELL_SIZE 8", 96_000_000),
    ] {
        let before = memory(&server, "used_memory");
        assert_eq!(client.cmd(&format!("CMS.INITBYDIM k {options}")), ok());
        let taken = memory(&server, "used_memory") - before;
        let usage = client.cmd("MEMORY USAGE k").as_int();
        assert!((counters..counters + 300).contains(&usage), "{usage}");
        // The allocator rounds up, by a fifth at the most where blocks are large.
        let most = usage + usage / 5 + 128 * 1024;
        assert!(
            (usage - 128 * 1024..most).contains(&taken),
            "{taken} for {usage}"
        );
        assert_eq!(client.cmd("DEL k"), int(1));
        nothing_is_being_freed(&server);
    }
}

/// Sketches between holes, while the server moves them.
#[test]
fn defragmentation_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for number in 0..4000 {
        let width = [10, 40, 100, 300][number % 4];
        client.cmd(&format!("CMS.INITBYDIM k{number} {width} 3"));
        client.cmd(&format!("CMS.INCRBY k{number} a {number} b 2"));
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
            client.cmd("CMS.INCRBY k1 a 1 a -1");
            crate::defrag::offered(&server).0 > 1000
        });
        client.cmd("CONFIG SET activedefrag no");
    }
    assert_eq!(digests(&mut client), before);
}
