//! Times in commands: logs and primaries send them, and clients must not.

use std::fs;

use crate::harness::{
    Server, array, bulk, digest, error, int, ok, simple, wait_in_sync, wait_until,
};
use crate::support::aof::{on_log_of, rewrite_aof, wire};
use crate::support::configured::other_settings;
use crate::support::periods::LASTING_WINDOW;
use crate::support::primary::played_primary;
use crate::support::random::Random;
use crate::support::replayed::{Command, Replayed, command};
use crate::support::sums;

/// How objects are made that the tests write to; two keys of each.
const KINDS: [&str; 5] = [
    "CAPACITY 20 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 2 WINDOW 1000 PERIODS 5",
    "CAPACITY 5 ERROR 1e-7 TIGHTENING 0.9 EXPANSION 1 WINDOW 60000 PERIODS 1",
    "CAPACITY 30 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 3 WINDOW 777 PERIODS 40",
    "CAPACITY 500 ERROR 1e-6 TIGHTENING 0.5 NONSCALING WINDOW 86400000 PERIODS 30",
    "CAPACITY 10 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 2 COUNTING",
];

const YEAR_MS: u64 = 31_557_600_000;

/// Returns some years of writes, in which clocks are set, too.
fn history(random: &mut Random, steps: usize) -> Vec<Command> {
    let mut now_ms: u64 = 40 * YEAR_MS;
    let mut commands = Vec::new();
    for (number, kind) in KINDS.iter().enumerate() {
        for twin in ["a", "b"] {
            let at = if kind.contains("WINDOW") {
                format!(" AT {now_ms}")
            } else {
                String::new()
            };
            commands.push(command(&format!("BF.INSERT {twin}{number} {kind}{at}")));
        }
    }
    for _ in 0..steps {
        let some = random.next();
        now_ms = match random.below(60) {
            0 => now_ms + some % (2 * YEAR_MS),
            1 => now_ms.saturating_sub(some % (2 * YEAR_MS)),
            2 => now_ms.saturating_sub(some % 5000),
            3 => now_ms.saturating_sub(some % 100_000),
            4..8 => now_ms + some % 5000,
            8 => now_ms + some % 10_000_000,
            9 if random.one_in(20) => 0,
            _ => now_ms + some % 300,
        };
        let kind = random.below(KINDS.len());
        let counting = kind == 4;
        let key = format!("{}{kind}", random.pick(&["a", "b"]));
        let items: Vec<String> = (0..random.below(6))
            .map(|_| format!("item-{}", random.below(300)))
            .collect();
        let id = match random.below(3) {
            0 if counting => format!(" ID {}", random.below(200)),
            _ => String::new(),
        };
        let at = if counting {
            String::new()
        } else {
            format!(" AT {now_ms}")
        };
        let line = match random.below(20) {
            0..4 if counting => format!("BF.DEL {key} item-{}{id}", random.below(300)),
            4 if random.one_in(10) => format!("BF.MERGE a{kind} b{kind}"),
            5 => format!("BF.INSERT {key} NOCREATE{at}"),
            _ if items.is_empty() => continue,
            choice => {
                let ttl = match choice {
                    6..10 if !counting => format!(" TTL {}", 1 + some % 100_000),
                    _ => String::new(),
                };
                let items = items.join(" ");
                format!("BF.INSERT {key} NOCREATE{at}{ttl}{id} ITEMS {items}")
            }
        };
        commands.push(command(&line));
    }
    commands
}

#[test]
fn a_log_restores_the_objects_as_of_its_times() {
    for seed in 0..4 {
        let history = history(&mut Random(seed), 3000);
        let mut expected = Replayed::default();
        expected.apply_all(&history);
        let builder = other_settings(Server::builder());
        let mut server = on_log_of(builder, &wire(&history[..1000]), &wire(&history[1000..]));
        let mut client = server.client();
        expected.is_held_by(&mut client);
        sums::is_balanced(&mut client);
        // So it is with all that is made of them.
        assert_eq!(client.cmd("DEBUG RELOAD"), ok());
        expected.is_held_by(&mut client);
        rewrite_aof(&server);
        server.kill();
        server.start_again();
        expected.is_held_by(&mut server.client());
    }
}

/// A creation with a window and counters, or with too many periods, is refused from any source, and the commands
/// after it are executed.
#[test]
fn logs_and_primaries_do_not_combine_windows_with_counters() {
    let params = "CAPACITY 20 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 2";
    let lines = [
        format!("BF.INSERT both {params} WINDOW 1000 PERIODS 5 COUNTING AT 5 ITEMS a"),
        format!("BF.INSERT order {params} COUNTING WINDOW 1000 PERIODS 5 AT 5 ITEMS a"),
        format!("BF.INSERT long {params} WINDOW 1000 PERIODS 1441 AT 5 ITEMS a"),
        "BF.RESERVE reserved 0.01 100 WINDOW 1000 PERIODS 5 COUNTING".to_owned(),
    ];
    let refused: Vec<Command> = lines.iter().map(|line| command(line)).collect();
    let seed = "a-seed-of-thirty-two-plain-bytes";
    let made: Vec<Command> = [
        format!("BF.INSERT window {params} SEED {seed} WINDOW 1000 PERIODS 1440 AT 5 ITEMS a"),
        format!("BF.INSERT counted {params} SEED {seed} COUNTING ITEMS a"),
    ]
    .iter()
    .map(|line| command(line))
    .collect();
    let mut expected = Replayed::default();
    expected.apply_all(&made);
    let stream = [refused, made].concat();

    let builder = other_settings(Server::builder());
    let server = on_log_of(builder, &[], &wire(&stream));
    let mut client = server.client();
    expected.is_held_by(&mut client);
    assert_eq!(client.cmd("DBSIZE"), int(2));

    let replica = other_settings(Server::builder()).start();
    let mut stream = stream;
    stream.insert(0, command("SELECT 0"));
    let port = played_primary(empty_rdb(), Some(wire(&stream)));
    let mut client = replica.client();
    assert_eq!(client.cmd(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
    wait_until("all has come", || client.cmd("DBSIZE") == int(2));
    expected.is_held_by(&mut client);
    sums::is_balanced(&mut client);
    // The words that a client would read.
    for server in [&server, &replica] {
        let log = server.log();
        let reported = log.matches("ERR WINDOW and COUNTING cannot be combined");
        assert_eq!(reported.count(), 3, "{log}");
        assert_eq!(log.matches("ERR bad periods").count(), 1, "{log}");
    }
}

/// Returns an RDB without keys.
fn empty_rdb() -> Vec<u8> {
    let server = Server::start();
    assert_eq!(server.client().cmd("SAVE"), ok());
    fs::read(server.dir().join("dump.rdb")).expect("an RDB was saved")
}

#[test]
fn a_primary_sends_the_time() {
    let rdb = empty_rdb();
    for seed in 10..13 {
        let mut history = history(&mut Random(seed), 2000);
        let mut expected = Replayed::default();
        expected.apply_all(&history);
        history.insert(0, command("SELECT 0"));
        history.push(command("SET end here"));
        let replica = other_settings(Server::builder()).start();
        let port = played_primary(rdb.clone(), Some(wire(&history)));
        let mut client = replica.client();
        assert_eq!(client.cmd(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
        wait_until("all has come", || client.cmd("GET end") == bulk("here"));
        expected.is_held_by(&mut client);
        sums::is_balanced(&mut client);
        // As a primary it goes by its own clock: all of this was long ago, or is to come.
        assert_eq!(client.cmd("REPLICAOF NO ONE"), ok());
        let settings = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb \
            bf.bloom-memory-usage-limit 0";
        assert_eq!(client.cmd(settings), ok());
        for twin in ["a0", "b0", "a3"] {
            assert_eq!(client.cmd(&format!("BF.INSERT {twin}")), array([]));
            let live = client.cmd(&format!("BF.INFO {twin} FILTERS"));
            let before = client.cmd(&format!("BF.DEBUG {twin}"));
            assert_eq!(
                live.as_array()[0].as_int(),
                i64::try_from(before.as_array().len()).expect("few") - 1
            );
            assert!(!client.cmd(&format!("BF.ADD {twin} now")).is_error());
            assert_eq!(client.cmd(&format!("BF.EXISTS {twin} now")), int(1));
        }
        sums::is_balanced(&mut client);
    }
}

#[test]
fn clients_cannot_send_the_time() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .config("replica-read-only", "no")
        .start();
    let mut client = server.client();
    let create = format!("BF.INSERT k {LASTING_WINDOW} ITEMS a");
    assert_eq!(client.cmd(&create), array([int(1)]));
    let create = "BF.INSERT counted COUNTING ITEMS a";
    assert_eq!(client.cmd(create), array([int(1)]));
    wait_in_sync(&server, &replica);
    let before = ["k", "counted"].map(|key| digest(&mut client, key));
    let refused = error("ERR unknown argument received");
    let script = "#!lua name=time\nredis.register_function('tell', \
        function(keys, args) return redis.pcall(args[1], keys[1], unpack(args, 2)) end)";
    let load: [&[u8]; 3] = [b"FUNCTION", b"LOAD", script.as_bytes()];
    assert!(!client.call(&load).is_error());
    wait_in_sync(&server, &replica);
    for client in [&mut client, &mut replica.client()] {
        for line in [
            "BF.INSERT k AT 5 ITEMS b",
            "BF.INSERT k NOCREATE AT 5",
            "BF.INSERT counted AT 5 ITEMS b",
            "BF.DEL counted a AT 5",
        ] {
            assert_eq!(client.cmd(line), refused, "{line}");
            // In a transaction, a script and a function as well.
            assert_eq!(client.cmd("MULTI"), ok());
            assert_eq!(client.cmd(line), simple("QUEUED"));
            assert_eq!(client.cmd("EXEC"), array([refused.clone()]));
            let (name, words) = line.split_once(' ').expect("a name");
            let (key, rest) = words.split_once(' ').expect("a key");
            assert_eq!(
                client.cmd(&format!("FCALL tell 1 {key} {name} {rest}")),
                refused
            );
            let mut eval: Vec<&[u8]> = vec![b"EVAL"];
            eval.push(b"return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))");
            eval.extend([&b"1"[..], key.as_bytes(), name.as_bytes()]);
            eval.extend(rest.split(' ').map(str::as_bytes));
            assert_eq!(client.call(&eval), refused, "{line}");
        }
        assert_eq!(["k", "counted"].map(|key| digest(client, key)), before);
    }
}
