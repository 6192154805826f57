//! Objects with periods or counters, what is asked before a write, and filters that become one.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::thread;

use valkeybloom::bloom::{
    AnyObject, Extended, Fraction, Growth, Limits, Params, Seed, Shape, Time, Window,
};

use crate::foreign::on_log;
use crate::harness::{
    Client, Reply, Server, array, bulk, digest, error, int, nil, ok, simple, wait_in_sync,
    wait_until,
};
use crate::hostile::Random;
use crate::ledger;
use crate::persistence::{pieces, rewrite_aof};

const SEED: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

fn info(client: &mut Client, key: &str, field: &str) -> i64 {
    client.cmd(&format!("BF.INFO {key} {field}")).as_array()[0].as_int()
}

fn written(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// A log whose times go forward and backward over years makes the object that the core makes of them.
#[test]
fn a_log_tells_the_time() {
    for counting in [false, true] {
        let shape = Shape {
            params: Params {
                capacity: 20,
                error_rate: Fraction::new(0.01).unwrap(),
                tightening: Fraction::HALF,
                growth: Growth::from_expansion(2),
            },
            window: Window::new(3_600_000, 4),
            counting,
        };
        let mut random = Random(7);
        let mut now_ms = 1_700_000_000_000_u64;
        let limits = || Limits::Obey;
        let seed = Seed::new(*SEED);
        let mut object = Extended::new(&shape, seed, Time::at(now_ms), Limits::Obey).unwrap();
        let at = now_ms.to_string();
        let mut log = [
            &b"BF.INSERT"[..],
            b"w",
            b"CAPACITY",
            b"20",
            b"ERROR",
            b"0.01",
        ]
        .to_vec();
        log.extend([
            &b"TIGHTENING"[..],
            b"0.5",
            b"EXPANSION",
            b"2",
            b"SEED",
            SEED,
        ]);
        log.extend([
            &b"WINDOW"[..],
            b"3600000",
            b"PERIODS",
            b"4",
            b"AT",
            at.as_bytes(),
        ]);
        if counting {
            log.push(b"COUNTING");
        }
        let mut log = written(&log);
        let mut held: Vec<Vec<u8>> = Vec::new();
        for turn in 0..2000_u32 {
            now_ms = match random.below(100) {
                0 => now_ms + 90_000_000_000,
                1 => now_ms - 60_000_000_000,
                2..10 => now_ms - random.next() % 10_000_000,
                _ => now_ms + random.next() % 1_000_000,
            };
            let at = now_ms.to_string();
            object.tidy(now_ms);
            if counting && random.one_in(3) && !held.is_empty() {
                let item = held.swap_remove(random.below(held.len()));
                object.remove(object.probe(&item), None, now_ms);
                log.extend(written(&[b"BF.DEL", b"w", &item, b"AT", at.as_bytes()]));
                continue;
            }
            let item = format!("item {}", turn % 700).into_bytes();
            let ttl_ms = random.one_in(2).then(|| 1 + random.next() % 14_400_000);
            let time = Time { now_ms, ttl_ms };
            object.add(object.probe(&item), time, None, limits).unwrap();
            let ttl = ttl_ms.unwrap_or_default().to_string();
            let mut words = [&b"BF.INSERT"[..], b"w", b"NOCREATE", b"AT", at.as_bytes()].to_vec();
            if ttl_ms.is_some() {
                words.extend([&b"TTL"[..], ttl.as_bytes()]);
            }
            words.extend([&b"ITEMS"[..], &item]);
            log.extend(written(&words));
            held.push(item);
        }
        let server = on_log(&[], &log);
        let mut client = server.client();
        let object = AnyObject::Extended(Box::new(object));
        for (cursor, bytes) in pieces(&mut client, "w") {
            let from = if cursor == 1 {
                0
            } else {
                cursor - bytes.len() as u64
            };
            let (next, piece) = object.piece(from);
            assert!(
                (next, piece.bytes()) == (cursor, &bytes[..]),
                "counting {counting}: {from}"
            );
        }
    }
}

#[test]
fn clients_do_not_tell_the_time() {
    let server = Server::start();
    let mut client = server.client();
    let refused = error("ERR unknown argument received");
    let create = "BF.INSERT w WINDOW 1000 PERIODS 3 COUNTING";
    assert_eq!(
        client.cmd(&format!("{create} AT 1700000000000 ITEMS a")),
        refused
    );
    assert_eq!(client.cmd("EXISTS w"), int(0));
    assert_eq!(client.cmd(&format!("{create} ITEMS a")), array([int(1)]));
    assert_eq!(client.cmd("BF.INSERT w AT 1700000000000 ITEMS b"), refused);
    assert_eq!(client.cmd("BF.DEL w a AT 1700000000000"), refused);
    let script: [&[u8]; 4] = [
        b"EVAL",
        b"return redis.pcall('BF.INSERT', KEYS[1], 'AT', '5', 'ITEMS', 'b')",
        b"1",
        b"w",
    ];
    assert!(client.call(&script).is_error());
    assert_eq!(client.cmd("BF.CARD w"), int(1));
}

#[test]
fn items_pass_out_of_the_window_and_those_added_again_stay() {
    let server = Server::start();
    let mut client = server.client();
    let create = "BF.RESERVE w 0.000001 100 WINDOW 400 PERIODS 3";
    assert_eq!(client.cmd(create), ok());
    assert_eq!(client.cmd("BF.MADD w gone kept"), array([int(1), int(1)]));
    assert_eq!(client.cmd("BF.ADD w gone"), int(0));
    wait_until("the item has passed", || {
        // In the same period, or in the one before: it is not new.
        assert_eq!(
            client.cmd("BF.INSERT w NOCREATE ITEMS kept"),
            array([int(0)])
        );
        assert_eq!(client.cmd("BF.EXISTS w kept"), int(1));
        client.cmd("BF.EXISTS w gone") == int(0)
    });
    assert_eq!(
        client.cmd("BF.MEXISTS w gone kept"),
        array([int(0), int(1)])
    );
    assert_eq!(client.cmd("BF.MISSING w gone kept gone"), int(1));
    // A short time to live ends sooner than the window, a long one with it.
    assert_eq!(
        client.cmd("BF.RESERVE t 0.000001 100 WINDOW 500 PERIODS 20"),
        ok()
    );
    assert_eq!(client.cmd("BF.INSERT t TTL 1 ITEMS short"), array([int(1)]));
    assert_eq!(
        client.cmd("BF.INSERT t TTL 10000 ITEMS long"),
        array([int(1)])
    );
    wait_until("the short one has passed", || {
        client.cmd("BF.EXISTS t short") == int(0)
    });
    assert_eq!(client.cmd("BF.EXISTS t long"), int(1));
}

#[test]
fn memory_stays_flat_over_a_thousand_rotations() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE w 0.01 100 WINDOW 1 PERIODS 3"), ok());
    assert_eq!(client.cmd("BF.RESERVE one 0.0025 100"), ok());
    let one = info(&mut client, "one", "SIZE");
    let (mut periods, mut item) = (BTreeSet::new(), 0);
    while periods.len() < 1000 {
        item += 1;
        client.cmd(&format!("BF.ADD w {item}"));
        let debug = client.cmd("BF.DEBUG w");
        for line in &debug.as_array()[1..] {
            let text = line.text();
            let (_, period) = text.split_once(" period:").expect("it has one");
            periods.insert(period.to_owned());
        }
        let size = info(&mut client, "w", "SIZE");
        assert!(
            size <= 4 * (one + 200) + 400,
            "{size} bytes after {item} items"
        );
    }
    ledger::is_balanced(&mut client);
}

fn replica_in_step(primary: &Server, replica: &Server, keys: &[&str]) {
    wait_in_sync(primary, replica);
    let (mut from, mut to) = (primary.client(), replica.client());
    for key in keys {
        // Nobody writes meanwhile, and what passes is freed by writes alone.
        assert_eq!(digest(&mut from, key), digest(&mut to, key), "{key}");
    }
}

#[test]
fn a_replica_and_a_log_hold_the_same_whenever_they_hear_of_it() {
    const KEYS: [&str; 4] = ["window", "counting", "both", "ids"];
    let mut server = Server::builder().config("appendonly", "yes").start();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    for create in [
        "BF.RESERVE window 0.01 30 WINDOW 20 PERIODS 3",
        "BF.RESERVE counting 0.01 30 COUNTING EXPANSION 1",
        "BF.RESERVE both 0.01 30 WINDOW 20 PERIODS 3 COUNTING",
        "BF.RESERVE ids 0.01 30 COUNTING",
    ] {
        assert_eq!(client.cmd(create), ok());
    }
    let mut random = Random(11);
    for turn in 0..1500_u64 {
        let item = random.below(400);
        let key = random.pick(&KEYS[..3]);
        let line = match random.below(8) {
            0 => format!("BF.DEL {key} {item}"),
            1 => format!("BF.MDEL {key} {item} {} {item}", item + 1),
            2 => format!("BF.MADD {key} {item} {} {item}", item + 1),
            3 => format!("BF.INSERT {key} TTL {} ITEMS {item}", 1 + random.below(70)),
            4 => format!("BF.INSERT ids ID {turn} ITEMS {item} {}", item + 1),
            5 => format!("BF.DEL ids {item} ID {}", random.below(1500)),
            6 => format!("BF.ADD {key} again"),
            _ => format!("BF.ADD {key} {item}"),
        };
        client.cmd(&line);
        if turn % 250 == 0 {
            replica_in_step(&server, &replica, &KEYS);
        }
    }
    replica_in_step(&server, &replica, &KEYS);
    let before = KEYS.map(|key| digest(&mut client, key));
    wait_until("all has passed", || client.cmd("BF.CARD window") == int(0));
    server.restart();
    let mut client = server.client();
    assert_eq!(KEYS.map(|key| digest(&mut client, key)), before);
    assert_eq!(info(&mut client, "window", "LIVEPERIODS"), 0);
    rewrite_aof(&server);
    server.restart();
    let mut client = server.client();
    assert_eq!(KEYS.map(|key| digest(&mut client, key)), before);
    // What has passed is freed by the next write, even one that adds nothing.
    let size = info(&mut client, "both", "SIZE");
    assert_eq!(client.cmd("BF.DEL both none"), int(0));
    assert!(info(&mut client, "both", "SIZE") < size);
    replica_in_step(&server, &replica, &KEYS);
}

#[test]
fn an_rdb_is_loaded_after_the_window_has_passed() {
    let mut server = Server::start();
    let mut client = server.client();
    assert_eq!(
        client.cmd("BF.RESERVE w 0.01 1000 WINDOW 100 PERIODS 2"),
        ok()
    );
    assert_eq!(client.cmd("BF.MADD w a b"), array([int(1), int(1)]));
    wait_until("both have passed", || client.cmd("BF.CARD w") == int(0));
    let (before, size) = (digest(&mut client, "w"), info(&mut client, "w", "SIZE"));
    server.restart_saving();
    let mut client = server.client();
    assert_eq!(digest(&mut client, "w"), before);
    assert_eq!(info(&mut client, "w", "SIZE"), size);
    assert_eq!(client.cmd("BF.MEXISTS w a b"), array([int(0), int(0)]));
    assert_eq!(client.cmd("BF.INFO w CAPACITY"), array([int(0)]));
    assert_eq!(client.cmd("BF.ADD w a"), int(1));
    assert!(info(&mut client, "w", "SIZE") <= size);
}

/// A multiset tells what has to be found, and what may be removed.
#[test]
fn what_was_counted_is_found_until_it_is_removed() {
    for (create, with_ids) in [
        ("BF.RESERVE c 0.01 50 COUNTING", false),
        ("BF.RESERVE c 0.01 50 COUNTING EXPANSION 1", true),
    ] {
        let mut server = Server::builder().config("appendonly", "yes").start();
        let mut client = server.client();
        assert_eq!(client.cmd(create), ok());
        let mut random = Random(23);
        // Each item with the ids that it was added with.
        let mut held: HashMap<String, Vec<u64>> = HashMap::new();
        let (mut refused, mut asked) = (0, 0);
        for turn in 0..4000_u64 {
            let item = format!("item {}", random.below(300));
            let of_item = held.entry(item.clone()).or_default();
            if of_item.len() >= 10 || !of_item.is_empty() && random.one_in(2) {
                let id = of_item[random.below(of_item.len())];
                let number = id.to_string();
                let mut words = [&b"BF.DEL"[..], b"c", item.as_bytes()].to_vec();
                if with_ids {
                    words.extend([&b"ID"[..], number.as_bytes()]);
                }
                asked += 1;
                match client.call(&words) {
                    Reply::Int(1) => of_item.retain(|own| *own != id),
                    other => {
                        assert_eq!(other, int(0));
                        refused += 1;
                    }
                }
            } else {
                let number = turn.to_string();
                let mut words = [&b"BF.INSERT"[..], b"c"].to_vec();
                if with_ids {
                    words.extend([&b"ID"[..], number.as_bytes()]);
                }
                words.extend([&b"ITEMS"[..], item.as_bytes()]);
                let known = client.call(&words) == array([int(0)]);
                assert!(known || of_item.is_empty(), "{item} was there");
                of_item.push(turn);
            }
            let words: [&[u8]; 3] = [b"BF.COUNT", b"c", item.as_bytes()];
            let count = held[&item].len();
            assert!(client.call(&words).as_int() >= i64::try_from(count.min(15)).unwrap());
            if turn % 800 == 799 {
                match turn / 800 % 2 {
                    0 => assert_eq!(client.cmd("DEBUG RELOAD"), ok()),
                    _ => server.restart(),
                }
                client = server.client();
                for (item, ids) in &held {
                    let words: [&[u8]; 3] = [b"BF.EXISTS", b"c", item.as_bytes()];
                    assert!(ids.is_empty() || client.call(&words) == int(1), "{item}");
                }
            }
        }
        // With an id every removal is certain; without, some are refused for a false positive.
        assert!(
            if with_ids {
                refused == 0
            } else {
                refused * 20 < asked
            },
            "{refused} of {asked}"
        );
    }
}

#[test]
fn what_is_missing_is_counted_once_and_nothing_is_written() {
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.MISSING none a b a"), int(2));
    assert_eq!(client.cmd("EXISTS none"), int(0));
    for create in [
        "plain 0.0001 1000",
        "windowed 0.0001 1000 WINDOW 100000 PERIODS 5",
    ] {
        assert_eq!(client.cmd(&format!("BF.RESERVE {create}")), ok());
    }
    for key in ["plain", "windowed"] {
        let add: Vec<String> = (0..500).map(|i| i.to_string()).collect();
        client.cmd(&format!("BF.MADD {key} {}", add.join(" ")));
        let before = digest(&mut client, key);
        wait_in_sync(&server, &replica);
        let ask: Vec<String> = (400..600).chain(450..650).map(|i| i.to_string()).collect();
        let line = format!("BF.MISSING {key} {}", ask.join(" "));
        assert_eq!(client.cmd(&line), int(150), "{key}");
        assert_eq!(replica.client().cmd(&line), int(150), "{key}");
        assert_eq!(digest(&mut client, key), before);
    }
}

#[test]
fn a_filter_is_made_once_and_for_so_long() {
    let mut server = Server::builder().config("appendonly", "yes").start();
    let made: usize = thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let reply = server.client().cmd("BF.RESERVE k 0.01 100 EX 100 NX");
                    assert!(reply == ok() || reply == nil(), "{reply:?}");
                    usize::from(reply == ok())
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .sum()
    });
    assert_eq!(made, 1);
    let mut client = server.client();
    assert_eq!(
        client.cmd("BF.RESERVE p 0.01 100 PX 250000 WINDOW 5 PERIODS 2"),
        ok()
    );
    assert_eq!(
        client.cmd("BF.RESERVE p 0.01 100 PX 5"),
        error("ERR item exists")
    );
    let ends = ["k", "p"].map(|key| client.cmd(&format!("PEXPIRETIME {key}")));
    for (key, most) in [("k", 100_000), ("p", 250_000)] {
        let left = client.cmd(&format!("PTTL {key}")).as_int();
        assert!((most - 60_000..=most).contains(&left), "{left}");
    }
    let log: Vec<u8> = fs::read_dir(server.dir().join("appendonlydir"))
        .unwrap()
        .flat_map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    let log = String::from_utf8_lossy(&log);
    assert_eq!(log.matches("PEXPIREAT").count(), 2);
    server.restart();
    let mut client = server.client();
    assert_eq!(
        ["k", "p"].map(|key| client.cmd(&format!("PEXPIRETIME {key}"))),
        ends
    );
    assert_eq!(client.cmd("BF.RESERVE soon 0.01 100 PX 1"), ok());
    wait_until("the key has expired", || {
        client.cmd("EXISTS soon") == int(0)
    });
}

#[test]
fn a_merged_filter_answers_for_all() {
    let mut server = Server::builder().config("appendonly", "yes").start();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let seed = String::from_utf8_lossy(SEED);
    for (suffix, options) in [
        ("", ""),
        ("c", " COUNTING"),
        ("w", " WINDOW 1000000 PERIODS 4"),
    ] {
        let key = |name: &str| format!("{name}{suffix}");
        for (name, items) in [("a", 0..300), ("b", 200..900), ("dest", 5000..5010)] {
            let items: Vec<String> = items.map(|i| i.to_string()).collect();
            let line = format!(
                "BF.INSERT {} SEED {seed} CAPACITY 100{options} ITEMS",
                key(name)
            );
            client.cmd(&format!("{line} {}", items.join(" ")));
        }
        let dest = key("dest");
        assert_eq!(client.cmd(&format!("EXPIRE {dest} 1000")), int(1));
        let mut watching = server.client();
        assert_eq!(watching.cmd(&format!("WATCH {dest}")), ok());
        let merge = format!("BF.MERGE {dest} {} {}", key("a"), key("b"));
        assert_eq!(client.cmd(&merge), ok());
        assert_eq!(watching.cmd("MULTI"), ok());
        assert_eq!(watching.cmd("PING"), simple("QUEUED"));
        assert_eq!(watching.cmd("EXEC"), nil());
        let all = |from: i32, to: i32| -> String {
            let items: Vec<String> = (from..to).map(|i| i.to_string()).collect();
            items.join(" ")
        };
        let missing = format!("BF.MISSING {dest} {} {}", all(0, 900), all(5000, 5010));
        assert_eq!(client.cmd(&missing), int(0), "{dest}");
        let others = client.cmd(&format!("BF.MISSING {dest} {}", all(10_000, 20_000)));
        assert!(others.as_int() > 10_000 - 400, "{dest}: {others:?}");
        let rate = client.cmd(&format!("BF.INFO {dest} ERROR"));
        assert_eq!(rate, array([bulk("0.03")]), "{dest}");
        assert!(client.cmd(&format!("PTTL {dest}")).as_int() > 0);
        // It goes on growing, and a source is as it was.
        assert!(
            !client
                .cmd(&format!("BF.MADD {dest} {}", all(30_000, 31_000)))
                .is_error()
        );
        assert_eq!(
            client.cmd(&format!("BF.MISSING {dest} {}", all(30_000, 31_000))),
            int(0)
        );
        assert_eq!(
            client.cmd(&format!("BF.MISSING {} {}", key("a"), all(0, 300))),
            int(0)
        );
    }
    let keys = ["dest", "destc", "destw"];
    replica_in_step(&server, &replica, &keys);
    let before = keys.map(|key| digest(&mut client, key));
    server.restart();
    let mut client = server.client();
    assert_eq!(keys.map(|key| digest(&mut client, key)), before);
    ledger::is_balanced(&mut client);

    // What would be too large is not made.
    assert_eq!(
        client.cmd("CONFIG SET bf.bloom-memory-usage-limit 1000"),
        ok()
    );
    let refused = error("ERR operation exceeds bloom object memory limit");
    assert_eq!(client.cmd("BF.MERGE fresh a b"), refused);
    assert_eq!(client.cmd("EXISTS fresh"), int(0));
    assert_eq!(client.cmd("BF.MERGE dest a"), refused);
    assert_eq!(digest(&mut client, "dest"), before[0]);
}
