//! The effects of a command on replicas, logs, subscribers and INFO; and the server's own commands on a digest.

use crate::events::{heard, messages};
use crate::harness::{Client, Server, digest, int, nil, ok, wait_in_sync};
use crate::support::aof::{Log, rewrite_aof, with_command_log};
use crate::support::commands;
use crate::support::effects::{self, Effect};
use crate::support::random::Random;
use crate::support::sums;

/// Commands on the key `k`, and their events. A command that changed something is replicated as it came.
const ROWS: &str = "
MADE = TDIGEST.CREATE k
SOME = TDIGEST.CREATE k / TDIGEST.ADD k 1 2 3
BOTH = TDIGEST.CREATE k / TDIGEST.ADD k 1 2 3 / TDIGEST.CREATE other COMPRESSION 50 / TDIGEST.ADD other 4
TDIGEST.CREATE k => tdigest.create
TDIGEST.CREATE k COMPRESSION 50 => tdigest.create
TDIGEST.CREATE k COMPRESSION 0 => -
TDIGEST.CREATE k COMPRESSION 100001 => -
MADE / TDIGEST.CREATE k => -
MADE / TDIGEST.ADD k 1 => tdigest.add
SOME / TDIGEST.ADD k 1 2 => tdigest.add
SOME / TDIGEST.ADD k 1 x => -
SOME / TDIGEST.ADD k 1 inf => -
TDIGEST.ADD k 1 => -
SOME / TDIGEST.RESET k => tdigest.reset
MADE / TDIGEST.RESET k => -
SOME / TDIGEST.RESET k / TDIGEST.RESET k => -
TDIGEST.RESET k => -
BOTH / TDIGEST.MERGE k 1 other => tdigest.merge
BOTH / TDIGEST.MERGE k 2 other k OVERRIDE COMPRESSION 20 => tdigest.merge
BOTH / DEL k / TDIGEST.MERGE k 1 other => tdigest.merge
BOTH / TDIGEST.MERGE k 1 none => -
BOTH / TDIGEST.MERGE k 1 other what => -
SOME / TDIGEST.MIN k => -
SOME / TDIGEST.MAX k => -
SOME / TDIGEST.QUANTILE k 0.5 => -
SOME / TDIGEST.CDF k 2 => -
SOME / TDIGEST.RANK k 2 => -
SOME / TDIGEST.REVRANK k 2 => -
SOME / TDIGEST.BYRANK k 1 => -
SOME / TDIGEST.BYREVRANK k 1 => -
SOME / TDIGEST.TRIMMED_MEAN k 0.1 0.9 => -
SOME / TDIGEST.INFO k => -
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

/// Fills the buffer of a digest in part, so that a compression would show in INFO.
fn partly_merged(client: &mut Client, key: &str) {
    client.cmd(&format!("TDIGEST.CREATE {key} COMPRESSION 10"));
    for number in 0..100 {
        let value = f64::from(number * 37 % 101) / 4.0;
        assert_eq!(client.cmd(&format!("TDIGEST.ADD {key} {value}")), ok());
    }
    let info = client.cmd(&format!("TDIGEST.INFO {key}"));
    let [merged, unmerged] = [5, 7].map(|at| info.as_array()[at].as_int());
    assert!(merged > 0 && unmerged > 0, "{info:?}");
}

/// The state of a digest that is digested is the compressed one, so the counts are compared, too.
#[test]
fn reads_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    partly_merged(&mut client, "k");
    partly_merged(&mut client, "other");
    let state = |client: &mut Client| {
        let info = client.cmd("TDIGEST.INFO k");
        (info, digest(client, "k"), client.cmd("DUMP k"))
    };
    let before = state(&mut client);
    let own = commands::all().filter(|command| command.name().starts_with("tdigest."));
    let writes = ["create", "reset", "add", "merge"].map(|name| format!("tdigest.{name}"));
    let reads = own.filter(|command| !writes.contains(&command.name()));
    let mut lines: Vec<String> = reads.map(|command| command.on("k")).collect();
    assert_eq!(lines.len(), 10);
    let others = [
        "DUMP k",
        "MEMORY USAGE k",
        "DEBUG OBJECT k",
        "OBJECT ENCODING k",
        "TYPE k",
        "COPY k copy",
        "TDIGEST.MERGE new 1 k",
        "TDIGEST.MERGE other 2 k k",
        "SAVE",
    ];
    lines.extend(others.map(str::to_owned));
    for line in lines {
        let reply = client.cmd(&line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        assert_eq!(state(&mut client), before, "{line}");
    }
    // A copy has the unmerged nodes, too.
    assert_eq!(client.cmd("TDIGEST.INFO copy"), before.0);
}

/// As in RedisBloom, a merge replaces its destination, on every node.
#[test]
fn a_merge_ends_the_time_to_live() {
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    for key in ["k", "other"] {
        client.cmd(&format!("TDIGEST.CREATE {key}"));
        client.cmd(&format!("TDIGEST.ADD {key} 1 2 3"));
    }
    for (command, keeps) in [
        ("TDIGEST.MERGE k 1 other", false),
        ("TDIGEST.MERGE k 1 other OVERRIDE", false),
        ("TDIGEST.MERGE k 2 k other COMPRESSION 50", false),
        ("TDIGEST.MERGE other 1 k", true),
        ("TDIGEST.ADD k 7", true),
        ("TDIGEST.RESET k", true),
    ] {
        assert_eq!(client.cmd("PEXPIREAT k 9000000000000"), int(1));
        assert_eq!(client.cmd(command), ok(), "{command}");
        wait_in_sync(&server, &replica);
        let expected = if keeps { 9_000_000_000_000 } else { -1 };
        for mut node in [server.client(), replica.client()] {
            assert_eq!(node.cmd("PEXPIRETIME k"), int(expected), "{command}");
        }
        assert_eq!(digest(&mut replica.client(), "k"), digest(&mut client, "k"));
    }
    sums::is_balanced(&mut client);
}

/// A random life on a primary with reads on both sides, and a replica that becomes a primary.
#[test]
fn replicas_hold_the_same_digests() {
    let primary = Server::start();
    let replica = Server::replica_of(&primary)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .config("appendonly", "yes")
        .start();
    let mut replica = replica;
    wait_in_sync(&primary, &replica);
    let (mut client, mut far) = (primary.client(), replica.client());
    let mut random = Random(12);
    let keys: Vec<String> = (0..4).map(|number| format!("k{number}")).collect();
    for (key, compression) in keys.iter().zip([1, 10, 50, 100]) {
        let made = client.cmd(&format!("TDIGEST.CREATE {key} COMPRESSION {compression}"));
        assert_eq!(made, ok());
    }
    for _ in 0..3000 {
        let [key, other] = [(); 2].map(|()| random.below(4));
        let command = match random.below(40) {
            0 => format!("TDIGEST.MERGE k{key} 2 k{other} k{key} OVERRIDE"),
            1 => format!("TDIGEST.RESET k{key}"),
            2..10 => format!("TDIGEST.QUANTILE k{key} 0.5 0.9"),
            _ => format!(
                "TDIGEST.ADD k{key} {} {}.25",
                random.below(50),
                random.below(9999)
            ),
        };
        let reply = client.cmd(&command);
        assert!(!reply.is_error(), "{command}: {reply:?}");
        far.cmd(&format!("TDIGEST.CDF k{other} 7"));
    }
    wait_in_sync(&primary, &replica);
    let state = |server: &Server| {
        let mut client = server.client();
        let states = keys.iter().map(|key| {
            let info = client.cmd(&format!("TDIGEST.INFO {key}"));
            (info, client.cmd(&format!("DUMP {key}")))
        });
        states.collect::<Vec<_>>()
    };
    assert_eq!(state(&replica), state(&primary));
    // Its log has the same digests, in the compressed form if it was rewritten.
    let digests = |server: &Server| {
        let mut client = server.client();
        let digests = keys.iter().map(|key| digest(&mut client, key));
        digests.collect::<Vec<_>>()
    };
    let expected = digests(&primary);
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
fn a_digest_works_like_any_value() {
    let mut server = Server::start();
    let mut client = server.client();
    let sums = |server: &Server| {
        let info = server.info("bf");
        let field = |name: &str| info[&format!("bf_tdigest_{name}")].parse::<i64>().unwrap();
        [
            field("num_objects"),
            field("num_nodes_across_objects"),
            field("num_observations_across_objects"),
            field("total_memory_bytes"),
        ]
    };
    assert_eq!(sums(&server), [0; 4]);
    client.cmd("TDIGEST.CREATE k");
    client.cmd("TDIGEST.ADD k 1 2 3 4 5");
    client.cmd("TDIGEST.CREATE other COMPRESSION 1");
    let [objects, nodes, observations, bytes] = sums(&server);
    assert_eq!([objects, nodes, observations], [2, 5, 5]);
    // Answers are prepared once, and dropped by the next write.
    client.cmd("TDIGEST.QUANTILE k 0.5");
    assert!(sums(&server)[3] > bytes);
    let usage = ["k", "other"].map(|key| client.cmd(&format!("MEMORY USAGE {key}")).as_int());
    let (usage, with_answers) = (usage.iter().sum::<i64>(), sums(&server)[3]);
    assert!(
        (with_answers..with_answers + 400).contains(&usage),
        "{usage}"
    );
    client.cmd("TDIGEST.ADD k 6");
    assert_eq!(sums(&server), [2, 6, 6, bytes]);

    assert_eq!(client.cmd("COPY k copy"), int(1));
    assert_eq!(digest(&mut client, "copy"), digest(&mut client, "k"));
    client.cmd("TDIGEST.ADD copy 7");
    assert_ne!(digest(&mut client, "copy"), digest(&mut client, "k"));
    assert_eq!(sums(&server)[..3], [3, 13, 13]);
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
    assert_eq!(sums(&server)[..3], [2, 13, 13]);
    assert_eq!(client.cmd("FLUSHALL ASYNC"), ok());
    assert_eq!(sums(&server), [0; 4]);
}

/// Unmerged nodes go along.
#[test]
fn a_digest_stays_the_same_where_it_goes() {
    let server = Server::start();
    let mut client = server.client();
    partly_merged(&mut client, "k");
    client.cmd("TDIGEST.QUANTILE k 0.5");
    let state = |client: &mut Client, key: &str| {
        let info = client.cmd(&format!("TDIGEST.INFO {key}"));
        (info, digest(client, key))
    };
    let before = state(&mut client, "k");
    assert_eq!(client.cmd("COPY k copy"), int(1));
    assert_eq!(client.cmd("COPY k copy DB 1"), int(1));
    assert_eq!(client.cmd("RENAME k renamed"), ok());
    assert_eq!(client.cmd("MOVE renamed 1"), int(1));
    assert_eq!(state(&mut client, "copy"), before);
    assert_eq!(client.cmd("SELECT 1"), ok());
    for key in ["copy", "renamed"] {
        assert_eq!(state(&mut client, key), before, "{key}");
    }
    assert_eq!(client.cmd("SWAPDB 0 1"), ok());
    assert_eq!(state(&mut client, "copy"), before);
}

/// Digests between holes, some with prepared answers, while the server moves them.
#[test]
fn defragmentation_changes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for number in 0..3000 {
        let compression = [10, 50, 100, 200][number % 4];
        client.cmd(&format!(
            "TDIGEST.CREATE k{number} COMPRESSION {compression}"
        ));
        let values = (0..60).map(|value| (value * number % 997).to_string());
        let values: Vec<_> = values.collect();
        client.cmd(&format!("TDIGEST.ADD k{number} {}", values.join(" ")));
        if number % 3 == 0 {
            client.cmd(&format!("TDIGEST.QUANTILE k{number} 0.5"));
        }
    }
    for number in (0..3000).filter(|number| number % 8 < 4) {
        client.cmd(&format!("DEL k{number}"));
    }
    let state = |client: &mut Client| {
        let keys = (0..3000).filter(|number| number % 8 >= 4);
        let states = keys.map(|number| {
            let key = format!("k{number}");
            let answers = format!("TDIGEST.QUANTILE {key} 0 0.1 0.5 0.9 1");
            (digest(client, &key), client.cmd(&answers))
        });
        states.collect::<Vec<_>>()
    };
    let before = state(&mut client);
    if crate::defrag::starts_to_defragment(&server) {
        crate::harness::wait_until("allocations were moved", || {
            client.cmd("TDIGEST.QUANTILE k4 0.5");
            crate::defrag::offered(&server).0 > 1000
        });
        client.cmd("CONFIG SET activedefrag no");
    }
    assert_eq!(state(&mut client), before);
    assert_eq!(client.cmd("TDIGEST.ADD k4 5"), ok());
}
