//! Replicas and logs, while clients write and periods pass all the time.

use crate::harness::{Client, Server, digest, int, wait_in_sync, wait_until};
use crate::support::aof::Log;
use crate::support::configured::other_settings;
use crate::support::random::Random;
use crate::support::replayed::{Command, Replayed, command};
use crate::support::sums;

/// Clients that write, to objects whose periods expire all the time.
struct Clients {
    random: Random,
}

const LIVE: [(&str, &str); 6] = [
    ("w0", "WINDOW 3 PERIODS 4 CAPACITY 20"),
    ("w1", "WINDOW 20 PERIODS 2 CAPACITY 5 EXPANSION 1"),
    ("w2", "WINDOW 1 PERIODS 6 CAPACITY 100 NONSCALING"),
    ("w3", "WINDOW 5 PERIODS 3 CAPACITY 10"),
    // Filters that are interleaved.
    ("w4", "WINDOW 4 PERIODS 16 CAPACITY 3000"),
    ("c", "COUNTING CAPACITY 10 ERROR 0.0001"),
];

impl Clients {
    fn next(&mut self) -> Command {
        let random = &mut self.random;
        let (key, kind) = random.pick(&LIVE);
        let counting = kind.contains("COUNTING");
        let items: Vec<String> = (0..=random.below(5))
            .map(|_| random.below(400).to_string())
            .collect();
        let items = items.join(" ");
        let item = random.below(400);
        let ttl = match random.below(3) {
            0 if kind.contains("WINDOW") => " TTL 5",
            _ => "",
        };
        let id = match random.below(3) {
            0 if counting => format!(" ID {}", random.below(100)),
            _ => String::new(),
        };
        command(&match random.below(30) {
            0 => format!("DEL {key}"),
            1 => format!("BF.INSERT {key} {kind}"),
            2 => format!("BF.RESERVE {key} 0.01 50 WINDOW 2 PERIODS 2 NX"),
            3..6 => format!("BF.ADD {key} {item}"),
            6..10 => format!("BF.MADD {key} {items}"),
            10..14 if counting => format!("BF.DEL {key} {item}{id}"),
            14..18 if counting => format!("BF.MDEL {key} {items}"),
            18 => format!("BF.MERGE {key} {}", random.pick(&LIVE).0),
            19 => format!("BF.INSERT {key} NOCREATE"),
            _ => format!("BF.INSERT {key} {kind} ERROR 0.001{ttl}{id} ITEMS {items}"),
        })
    }
}

#[track_caller]
fn digests(client: &mut Client) -> Vec<String> {
    LIVE.iter().map(|(key, _)| digest(client, key)).collect()
}

#[test]
fn replicas_and_logs_hold_the_same_while_periods_expire() {
    let mut primary = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "no"),
        ("aof-use-rdb-preamble", "no"),
        ("auto-aof-rewrite-percentage", "0"),
    ]);
    let replica = other_settings(Server::replica_of(&primary)).start();
    wait_in_sync(&primary, &replica);
    let mut log = Log::of(&primary);
    let mut replayed = Replayed::default();
    let mut clients = Clients {
        random: Random(0x0077_696e_646f_7773),
    };
    for round in 0..6 {
        let mut client = primary.client();
        for _ in 0..60 {
            let commands: Vec<Command> = (0..10).map(|_| clients.next()).collect();
            client.call_all(&commands);
        }
        for (key, kind) in LIVE {
            // So that each key is there to be compared.
            client.cmd(&format!("BF.INSERT {key} {kind} ERROR 0.001 ITEMS {round}"));
        }
        wait_in_sync(&primary, &replica);
        let before = digests(&mut client);
        assert_eq!(digests(&mut replica.client()), before, "round {round}");
        sums::is_balanced(&mut client);
        sums::is_balanced(&mut replica.client());
        // Wherever a filter's bits are.
        for line in &client.cmd("BF.DEBUG w4").as_array()[1..] {
            let line = line.text();
            let field = |name: &str| {
                let value = line.split(' ').find_map(|field| field.strip_prefix(name));
                value.and_then(|value| value.parse::<u64>().ok())
            };
            assert!(field("bits:").is_some_and(|bits| bits > 0), "{line}");
            assert_eq!(
                field("bytes:").map(|bytes| bytes * 8),
                field("bits:"),
                "{line}"
            );
        }

        let written = log.since();
        assert!(written.len() > 100, "{}", written.len());
        replayed.apply_all(&written);
        replayed.is_held_by(&mut client);

        if round % 2 == 1 {
            // A log restores the same objects, whenever it is read.
            primary.shutdown();
            let started = std::time::SystemTime::now();
            wait_until("the windows have passed meanwhile", || {
                started
                    .elapsed()
                    .is_ok_and(|passed| passed.as_millis() > 100)
            });
            primary.start_again();
            let mut client = primary.client();
            assert_eq!(digests(&mut client), before, "after a restart");
            // All that was added has passed, but where a client made an object of another kind.
            let windowed = LIVE.iter().filter(|(key, _)| {
                let window = client.cmd(&format!("BF.INFO {key} WINDOW"));
                !window.is_error()
            });
            let windowed: Vec<&str> = windowed.map(|(key, _)| *key).collect();
            assert!(!windowed.is_empty());
            for key in windowed {
                assert_eq!(client.cmd(&format!("BF.EXISTS {key} {round}")), int(0));
            }
            wait_in_sync(&primary, &replica);
        }
    }
}
