//! Objects with counters: an item is found until it is removed as often as it was added, on every server that holds
//! it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::harness::{
    Client, Reply, Server, array, bulk, digest, error, int, ok, wait_in_sync, wait_until,
};
use crate::support::aof::{Log, rewrite_aof, with_command_log};
use crate::support::configured::other_settings;
use crate::support::periods::LASTING_WINDOW;
use crate::support::random::Random;
use crate::support::replayed::{Command, Replayed, command};
use crate::support::sums;

/// The items that clients have added and not removed, and the replies that the server must give.
struct Multiset {
    random: Random,
    /// The count of each item, and the ids of those with ids.
    plain: BTreeMap<u32, u64>,
    with_ids: BTreeMap<(u32, u64), u64>,
    next_id: u64,
}

const ITEMS: usize = 600;
/// The largest exact count: a counter stands still above it.
const MOST: u64 = 14;

impl Multiset {
    fn item(&mut self) -> u32 {
        u32::try_from(self.random.below(ITEMS)).expect("few items")
    }

    /// Returns the next write, and what it must answer.
    fn step(&mut self) -> (Command, Reply) {
        match self.random.below(8) {
            0 => {
                let item = self.item();
                let (line, reply) = (format!("BF.ADD plain {item}"), self.add(item));
                (command(&line), reply)
            }
            1 | 2 => {
                let mut line = "BF.MADD plain".to_owned();
                let mut replies = Vec::new();
                for _ in 0..=self.random.below(12) {
                    let item = self.item();
                    replies.push(self.add(item));
                    write!(line, " {item}").expect("a String takes all");
                }
                (command(&line), array(replies))
            }
            3 => {
                let item = self.item();
                let (line, reply) = (format!("BF.DEL plain {item}"), self.remove(item));
                (command(&line), reply)
            }
            4 | 5 => {
                let mut line = "BF.MDEL plain".to_owned();
                let mut replies = Vec::new();
                for _ in 0..=self.random.below(12) {
                    let item = self.item();
                    replies.push(self.remove(item));
                    write!(line, " {item}").expect("a String takes all");
                }
                (command(&line), array(replies))
            }
            6 => {
                // Most ids are new, some older. An item that is held keeps its id: with others it might be
                // in two filters, and which of them is meant would not be known.
                self.next_id += 1;
                let back = self.random.below(60) as u64;
                let item = self.item();
                let of_item = self.with_ids.range((item, 0)..=(item, u64::MAX));
                let known = of_item.map(|((_, id), _)| *id).next();
                let id = known.unwrap_or_else(|| match self.random.below(4) {
                    0 => self.next_id.saturating_sub(back),
                    _ => self.next_id,
                });
                *self.with_ids.entry((item, id)).or_default() += 1;
                let line = format!("BF.INSERT ids ID {id} ITEMS {item}");
                let is_new = i64::from(known.is_none());
                (command(&line), array([int(is_new)]))
            }
            _ => {
                let held: Vec<(u32, u64)> = self.with_ids.keys().copied().collect();
                if held.is_empty() {
                    return (command("BF.DEL ids none ID 5"), int(0));
                }
                let (item, id) = self.random.pick(&held);
                let count = self.with_ids.get_mut(&(item, id)).expect("it is held");
                *count -= 1;
                if *count == 0 {
                    self.with_ids.remove(&(item, id));
                }
                (command(&format!("BF.DEL ids {item} ID {id}")), int(1))
            }
        }
    }

    fn add(&mut self, item: u32) -> Reply {
        let count = self.plain.entry(item).or_default();
        *count += 1;
        int(i64::from(*count == 1))
    }

    fn remove(&mut self, item: u32) -> Reply {
        match self.plain.get_mut(&item) {
            None => int(0),
            Some(1) => {
                self.plain.remove(&item);
                int(1)
            }
            Some(count) => {
                *count -= 1;
                int(1)
            }
        }
    }

    /// Removes items whose counts are near the limit.
    fn lower(&mut self) -> Vec<(Command, Reply)> {
        let high: Vec<u32> = self
            .plain
            .iter()
            .filter(|(_, count)| **count > MOST / 2)
            .map(|(item, _)| *item)
            .collect();
        let mut commands = Vec::new();
        for item in high {
            while self.plain[&item] > 1 {
                let reply = self.remove(item);
                commands.push((command(&format!("BF.DEL plain {item}")), reply));
            }
        }
        commands
    }

    /// Checks that the answers for every item are right.
    #[track_caller]
    fn answers_match(&self, client: &mut Client) {
        let items = 0..u32::try_from(ITEMS).expect("few items");
        let asked: Vec<Command> = items
            .clone()
            .map(|item| command(&format!("BF.COUNT plain {item}")))
            .chain(
                items
                    .clone()
                    .map(|item| command(&format!("BF.EXISTS ids {item}"))),
            )
            .chain(
                items
                    .clone()
                    .map(|item| command(&format!("BF.COUNT ids {item}"))),
            )
            .collect();
        let replies = client.call_all(&asked);
        let (plain, ids) = replies.split_at(ITEMS);
        let (exists, counts) = ids.split_at(ITEMS);
        for item in items {
            let index = item as usize;
            let count = self.plain.get(&item).copied().unwrap_or_default();
            assert_eq!(plain[index], int(i64::try_from(count).unwrap()), "{item}");
            let of_item = self.with_ids.range((item, 0)..=(item, u64::MAX));
            let count: u64 = of_item.map(|(_, count)| *count).sum();
            assert_eq!(exists[index], int(i64::from(count > 0)), "{item}");
            assert_eq!(counts[index], int(i64::try_from(count).unwrap()), "{item}");
        }
        let missing: Vec<String> = (0..ITEMS).map(|item| item.to_string()).collect();
        let missing = client.cmd(&format!("BF.MISSING plain {}", missing.join(" ")));
        let held = self.plain.len();
        assert_eq!(missing, int(i64::try_from(ITEMS - held).unwrap()));
    }
}

/// Rates so low, and a seed, with which no answer is a false positive: all of them are exact.
const CREATE: [&str; 2] = [
    "BF.RESERVE plain 0.000000000001 50 COUNTING",
    "BF.RESERVE ids 0.000000000001 40 COUNTING EXPANSION 1",
];

#[test]
fn every_server_agrees_with_a_multiset_also_after_restarts() {
    // With a random seed small filters have false positives now and then, whatever their rate, due to double hashing.
    let mut primary = Server::with(&[
        ("appendonly", "yes"),
        ("aof-use-rdb-preamble", "no"),
        ("bf.bloom-use-random-seed", "no"),
    ]);
    let mut replica = other_settings(Server::replica_of(&primary)).start();
    wait_in_sync(&primary, &replica);
    let mut log = Log::of(&primary);
    let mut replayed = Replayed::default();
    let mut set = Multiset {
        random: Random(0x636f_756e_7473),
        plain: BTreeMap::new(),
        with_ids: BTreeMap::new(),
        next_id: 0,
    };
    for line in CREATE {
        assert_eq!(primary.client().cmd(line), ok());
    }
    for round in 0..4 {
        let mut client = primary.client();
        for _ in 0..8 {
            let mut steps: Vec<(Command, Reply)> = (0..100).map(|_| set.step()).collect();
            steps.extend(set.lower());
            let commands: Vec<Command> = steps.iter().map(|(line, _)| line.clone()).collect();
            let replies = client.call_all(&commands);
            for ((line, expected), reply) in steps.iter().zip(&replies) {
                assert_eq!(reply, expected, "{:?}", line.last());
            }
        }
        set.answers_match(&mut client);
        wait_in_sync(&primary, &replica);
        let keys = ["plain", "ids"];
        let before = keys.map(|key| digest(&mut client, key));
        assert_eq!(keys.map(|key| digest(&mut replica.client(), key)), before);
        set.answers_match(&mut replica.client());
        sums::is_balanced(&mut client);
        match round {
            0 => assert_eq!(client.cmd("DEBUG RELOAD"), ok()),
            1 => {
                replayed.apply_all(&log.since());
                replayed.is_held_by(&mut client);
                primary.restart();
            }
            2 => {
                // The replica takes over, and continues where the primary ended.
                let mut taken = replica.client();
                assert_eq!(taken.cmd("REPLICAOF NO ONE"), ok());
                let settings = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb \
                    bf.bloom-memory-usage-limit 0";
                assert_eq!(taken.cmd(settings), ok());
                std::mem::swap(&mut primary, &mut replica);
                let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
                assert_eq!(replica.client().cmd(&follow), ok());
                wait_in_sync(&primary, &replica);
            }
            _ => {}
        }
        let mut client = primary.client();
        assert_eq!(keys.map(|key| digest(&mut client, key)), before, "{round}");
        set.answers_match(&mut client);
    }
}

/// Such a dump is written in chunks.
#[test]
fn objects_larger_than_one_dump_survive_a_rewrite() {
    let mut server = with_command_log();
    let mut client = server.client();
    let set = "CONFIG SET bf.bloom-filter-max-memory-usage 128mb";
    assert_eq!(client.cmd(set), ok());
    let window = LASTING_WINDOW;
    for create in [
        "BF.RESERVE counters 0.01 16000000 NONSCALING COUNTING",
        &format!("BF.RESERVE window 0.01 25000000 NONSCALING {window}"),
    ] {
        assert_eq!(client.cmd(create), ok());
    }
    let items: Vec<String> = (0..2000).map(|item| item.to_string()).collect();
    let items = items.join(" ");
    for add in [
        "BF.MADD counters",
        "BF.MADD counters",
        "BF.MADD window",
        "BF.INSERT window TTL 1 ITEMS",
        "BF.INSERT window TTL 2000000000000 ITEMS",
    ] {
        let replies = client.cmd(&format!("{add} {items}"));
        assert_eq!(replies.as_array().len(), 2000, "{add}");
    }
    for key in ["counters", "window"] {
        let size = client.cmd(&format!("BF.INFO {key} SIZE")).as_array()[0].as_int();
        assert!(size > 64 << 20, "{size}");
    }
    let before = ["counters", "window"].map(|key| digest(&mut client, key));
    rewrite_aof(&server);
    server.kill();
    server.start_again();
    let mut client = server.client();
    assert_eq!(
        ["counters", "window"].map(|key| digest(&mut client, key)),
        before
    );
    assert_eq!(client.cmd("BF.COUNT counters 1999"), int(2));
    assert_eq!(client.cmd(&format!("BF.MISSING window {items}")), int(0));
    let log = std::fs::read(server.dir().join("appendonlydir/appendonly.aof.2.base.aof"));
    let log = log.expect("a rewrite makes the second base file");
    let chunks = log.windows(12).filter(|bytes| *bytes == b"BF.LOADCHUNK");
    assert!(chunks.count() > 30);
    sums::is_balanced(&mut client);
}

#[test]
fn a_full_counter_stays_full() {
    let server = with_command_log();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let create = "BF.RESERVE k 0.000000001 100 COUNTING";
    assert_eq!(client.cmd(create), ok());
    for count in 1..=20 {
        assert_eq!(client.cmd("BF.ADD k often"), int(i64::from(count == 1)));
        assert_eq!(client.cmd("BF.COUNT k often"), int(count.min(15)));
    }
    // The count of additions is lost: the item stays, and nothing was written.
    wait_in_sync(&server, &replica);
    let mut log = Log::of(&server);
    assert!(!log.since().is_empty());
    let before = digest(&mut client, "k");
    for line in ["BF.DEL k often", "BF.DEL k often ID 5"] {
        assert_eq!(client.cmd(line), int(0));
    }
    assert_eq!(client.cmd("BF.MDEL k often x"), array([int(0), int(0)]));
    assert_eq!(client.cmd("BF.COUNT k often"), int(15));
    assert_eq!(digest(&mut client, "k"), before);
    assert!(log.since().is_empty(), "something was replicated");
    assert_eq!(client.cmd("BF.ADD k other"), int(1));
    assert_eq!(client.cmd("BF.MDEL k other other"), array([int(1), int(0)]));
    assert_eq!(
        client.cmd("BF.MEXISTS k often other"),
        array([int(1), int(0)])
    );
}

/// An item with several ids may be in several filters. It counts as one, until it is in none.
#[test]
fn items_with_several_ids_count_once() {
    let mut server = with_command_log();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let seedless = "CONFIG SET bf.bloom-use-random-seed no";
    assert_eq!(client.cmd(seedless), ok());
    let create = "BF.RESERVE k 0.000000001 2 COUNTING EXPANSION 1";
    assert_eq!(client.cmd(create), ok());
    for id in 1..=5 {
        let added = client.cmd(&format!("BF.INSERT k ID {id} ITEMS a b c d e f g"));
        assert_eq!(added, array(vec![int(i64::from(id == 1)); 7]));
        assert_eq!(client.cmd("BF.CARD k"), int(7));
    }
    assert!(client.cmd("BF.INFO k FILTERS").as_array()[0].as_int() > 4);
    for id in 1..=5 {
        for item in ["c", "e", "f"] {
            client.cmd(&format!("BF.DEL k {item} ID {id}"));
            let found = client.cmd("BF.MEXISTS k a b c d e f g");
            let found = found.as_array().iter().map(Reply::as_int).sum();
            assert_eq!(client.cmd("BF.CARD k"), int(found), "{item} {id}");
        }
    }
    let left = client.cmd("BF.CARD k");
    assert_ne!(left, int(7));
    assert_eq!(client.cmd("BF.INFO k ITEMS"), array([left.clone()]));
    assert_eq!(client.cmd("BF.MERGE united k k"), ok());
    assert_eq!(client.cmd("BF.CARD united"), left);
    sums::is_balanced(&mut client);
    wait_in_sync(&server, &replica);
    let before = digest(&mut client, "k");
    let mut behind = replica.client();
    assert_eq!(digest(&mut behind, "k"), before);
    assert_eq!(behind.cmd("BF.CARD k"), left);
    for rewrites in [false, true] {
        if rewrites {
            rewrite_aof(&server);
        }
        server.restart();
        let mut client = server.client();
        assert_eq!(digest(&mut client, "k"), before);
        assert_eq!(client.cmd("BF.CARD k"), left);
    }
}

#[test]
fn removals_are_writes_that_need_no_memory() {
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let create = "BF.INSERT k ERROR 0.000001 COUNTING ITEMS a b c d e";
    assert_eq!(client.cmd(create).as_array().len(), 5);
    wait_in_sync(&server, &replica);
    assert_eq!(client.cmd("CONFIG SET maxmemory 1"), ok());
    let refused = client.cmd("BF.ADD k f").text();
    assert!(refused.starts_with("OOM "), "{refused}");
    assert_eq!(client.cmd("BF.DEL k a"), int(1));
    assert_eq!(client.cmd("BF.MDEL k b x"), array([int(1), int(0)]));
    assert_eq!(client.cmd("BF.COUNT k c"), int(1));
    assert_eq!(client.cmd("BF.MISSING k a b c x x"), int(3));
    assert_eq!(client.cmd("CONFIG SET maxmemory 0"), ok());

    // A script that only reads may count, and not take away; so may a client of a replica.
    let call = "return redis.call(ARGV[1], KEYS[1], ARGV[2])";
    let script = |client: &mut Client, words: [&str; 2]| {
        let [name, item] = words.map(str::as_bytes);
        client.call(&[b"EVAL_RO", call.as_bytes(), b"1", b"k", name, item])
    };
    assert_eq!(script(&mut client, ["BF.COUNT", "c"]), int(1));
    assert_eq!(script(&mut client, ["BF.MISSING", "c"]), int(0));
    wait_in_sync(&server, &replica);
    let mut behind = replica.client();
    assert_eq!(behind.cmd("BF.COUNT k c"), int(1));
    assert_eq!(behind.cmd("BF.MISSING k c a b"), int(2));
    for name in ["BF.DEL", "BF.MDEL"] {
        let reply = script(&mut client, [name, "c"]);
        let text = "ERR Write commands are not allowed from read-only scripts.";
        assert!(
            reply.is_error() && reply.text().starts_with(text),
            "{reply:?}"
        );
        let reply = behind.cmd(&format!("{name} k c")).text();
        assert!(reply.starts_with("READONLY "), "{reply}");
    }
    assert_eq!(client.cmd("BF.COUNT k c"), int(1));
}

#[test]
fn a_removal_replies_in_each_protocol() {
    let server = Server::start();
    crate::support::protocols::in_both_protocols(&server, |client, resp3| {
        let truth = |value| crate::support::protocols::truth(resp3, value);
        let create = "BF.INSERT k ERROR 0.000001 COUNTING ITEMS a b";
        assert_eq!(client.cmd(create).as_array().len(), 2);
        assert_eq!(client.cmd("BF.DEL k a"), truth(true));
        assert_eq!(client.cmd("bf.del k a"), truth(false));
        let replies = client.cmd("bf.mdel k a b b");
        assert_eq!(
            replies,
            crate::support::protocols::truths(resp3, &[false, true, false])
        );
        assert_eq!(client.cmd("BF.DEL none a"), truth(false));
        assert_eq!(client.cmd("BF.COUNT k a"), int(0));
        assert_eq!(client.cmd("BF.MISSING k a b"), int(2));
        assert_eq!(client.cmd("BF.INSERT k ITEMS a"), array([truth(true)]));
        assert_eq!(
            client.cmd("bf.insert k id 5 items a"),
            array([truth(false)])
        );
        assert_eq!(client.cmd("bf.del k a id 5"), truth(true));
        assert_eq!(
            client.cmd("BF.RESERVE k 0.01 100 NX"),
            crate::harness::nil()
        );
        assert_eq!(client.cmd("BF.MERGE j k"), ok());
        // An item is any bytes here, too.
        for item in [&b""[..], b"\0", b"\r\n", b"ID", b"\xff"] {
            assert_eq!(client.call(&[b"BF.ADD", b"k", item]), truth(true));
            assert_eq!(client.call(&[b"BF.COUNT", b"k", item]), int(1));
            assert_eq!(client.call(&[b"BF.DEL", b"k", item]), truth(true));
            assert_eq!(
                client.call(&[b"BF.MDEL", b"k", item]),
                array([truth(false)])
            );
        }
    });
}

/// The answer for every item is right, also for a hundred thousand at once.
#[test]
fn a_hundred_thousand_items_are_counted_as_missing_once() {
    let server = crate::support::protocols::with_fixed_seed();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let mut random = Random(9);
    for options in ["", " COUNTING", " WINDOW 1000000000000 PERIODS 2"] {
        let create = format!("BF.RESERVE k 0.0000000001 30000{options}");
        assert_eq!(client.cmd(&create), ok());
        let held: std::collections::HashSet<usize> =
            (0..30_000).map(|_| random.below(60_000)).collect();
        let items: Vec<String> = held.iter().map(ToString::to_string).collect();
        for items in items.chunks(5000) {
            let add = format!("BF.MADD k {}", items.join(" "));
            assert_eq!(client.cmd(&add).as_array().len(), items.len());
        }
        let asked: Vec<usize> = (0..100_000).map(|_| random.below(90_000)).collect();
        let distinct: std::collections::HashSet<usize> = asked.iter().copied().collect();
        let missing = distinct.difference(&held).count();
        let words: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let ask = format!("BF.MISSING k {}", words.join(" "));
        let expected = int(i64::try_from(missing).unwrap());
        assert_eq!(client.cmd(&ask), expected, "{options}");
        wait_in_sync(&server, &replica);
        assert_eq!(replica.client().cmd(&ask), expected, "{options}");
        // After what was missing was added nothing is.
        let late: Vec<String> = distinct.iter().map(ToString::to_string).collect();
        let add = format!("BF.MADD k {}", late.join(" "));
        let new = client
            .cmd(&add)
            .as_array()
            .iter()
            .filter(|r| **r == int(1))
            .count();
        assert_eq!(new, missing, "what was foretold");
        assert_eq!(client.cmd(&ask), int(0));
        assert_eq!(client.cmd("DEL k"), int(1));
    }
}

#[test]
fn one_of_many_clients_makes_the_filter() {
    let server = Server::start();
    let replies: Vec<Reply> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..16)
            .map(|number| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = server.client();
                    let capacity = 100 + number;
                    let line = format!("BF.RESERVE k 0.01 {capacity} NX PX {}", 500_000 + number);
                    let commands: Vec<Command> = (0..50).map(|_| command(&line)).collect();
                    client.call_all(&commands)
                })
            })
            .collect();
        callers
            .into_iter()
            .flat_map(|caller| caller.join().expect("it was answered"))
            .collect()
    });
    let made = replies.iter().filter(|reply| **reply == ok()).count();
    let found = replies.iter().filter(|reply| **reply == Reply::Nil).count();
    assert_eq!((made, found), (1, 16 * 50 - 1));
    // It has its creator's parameters, and its time to live.
    let mut client = server.client();
    let capacity = client.cmd("BF.INFO k CAPACITY").as_array()[0].as_int();
    let ttl = client.cmd("PTTL k").as_int();
    assert!((100..116).contains(&capacity), "{capacity}");
    assert!(ttl > 0 && ttl <= 500_000 + capacity - 100, "{ttl}");
    // A key that expires is made anew.
    assert_eq!(client.cmd("PEXPIRE k 1"), int(1));
    wait_until("it is made anew", || {
        client.cmd("BF.RESERVE k 0.01 100 NX") == ok()
    });
    assert_eq!(client.cmd("PTTL k"), int(-1));
    assert_eq!(
        client.cmd("BF.RESERVE k 0.01 100"),
        error("ERR item exists")
    );
    assert_eq!(client.cmd("SET k string"), ok());
    let refused = client.cmd("BF.RESERVE k 0.01 100 NX").text();
    assert!(refused.starts_with("WRONGTYPE "), "{refused}");
    assert_eq!(client.cmd("GET k"), bulk("string"));
}
