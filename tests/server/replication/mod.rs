//! Replicas and logs make the same objects, whatever their own settings.

pub mod workload;

use std::collections::BTreeMap;

use crate::harness::{Reply, Server, digest, error, int, spaced, wait_in_sync, wait_until};
use crate::support::Rng;
use crate::support::aof::{command, on_log_of, rewrite_aof, wire};
use crate::support::configured::{OTHER_SETTINGS, configure, other_settings};
use crate::support::population::Population;
use crate::support::sums;
use crate::support::usage::nothing_is_being_freed;

use workload::Workload;

/// Settings of the primary: objects that grow soon, and limits that are reached.
const SETTINGS: [(&str, &str); 4] = [
    ("bf.bloom-capacity", "40"),
    ("bf.bloom-filter-max-memory-usage", "4kb"),
    ("bf.bloom-memory-usage-limit", "12kb"),
    ("bf.bloom-saturate-nonscaling", "yes"),
];

/// Every key of the first two databases, with its digest and the time at which it expires.
pub fn state(server: &Server) -> BTreeMap<(u8, Vec<u8>), [Reply; 2]> {
    let mut client = server.client();
    let mut state = BTreeMap::new();
    for database in 0..2 {
        client.ok(format!("SELECT {database}"));
        for key in client.cmd("KEYS *").as_array() {
            let key = key.as_bytes();
            let digest = client.call(&[b"DEBUG", b"DIGEST-VALUE", key]);
            let expires_ms = client.call(&[b"PEXPIRETIME", key]);
            state.insert((database, key.to_vec()), [digest, expires_ms]);
        }
    }
    state
}

/// Awaits that no key is left that expires while a test looks at it.
pub fn settle(server: &Server) {
    let mut client = server.client();
    wait_until("the short times are over", || {
        (0..2).all(|database| {
            client.cmd(&format!("SELECT {database}"));
            let keys = client.cmd("KEYS *");
            keys.as_array().iter().all(|key| {
                let ttl = client.call(&[b"PTTL", key.as_bytes()]).as_int();
                ttl == -1 || ttl > 60_000
            }) && keys.as_array().len() == usize::try_from(client.cmd("DBSIZE").as_int()).unwrap()
        })
    });
}

/// Checks that replicas hold what their primary does, and that INFO has the sums of it.
#[track_caller]
pub fn hold_the_same(servers: &[&Server]) {
    let [primary, replicas @ ..] = servers else {
        panic!("no primary");
    };
    settle(primary);
    for replica in replicas {
        wait_in_sync(primary, replica);
    }
    let expected = state(primary);
    assert!(expected.len() > 10, "{expected:?}");
    for replica in replicas {
        let state = state(replica);
        for (key, value) in &expected {
            assert_eq!(state.get(key), Some(value), "{key:?}");
        }
        assert_eq!(state.len(), expected.len());
        is_balanced(replica);
    }
    is_balanced(primary);
}

/// INFO leaves out what was renamed while the server frees something else, see info.rs.
#[track_caller]
pub fn is_balanced(server: &Server) {
    nothing_is_being_freed(server);
    sums::is_balanced(&mut server.client());
}

#[test]
fn replicas_with_other_settings_hold_the_same_objects() {
    let primary = Server::with(&SETTINGS);
    let replica = other_settings(Server::replica_of(&primary)).start();
    let behind = other_settings(Server::replica_of(&replica))
        .config("bf.bloom-capacity", "3")
        .start();
    wait_in_sync(&primary, &replica);
    wait_in_sync(&replica, &behind);
    let full_syncs = |server: &Server| server.info("stats")["sync_full"].clone();
    let before = [&primary, &replica].map(full_syncs);
    let mut workload = Workload::new(0x7265_706c_6963_6131);
    for _ in 0..4 {
        workload.run(&mut primary.client(), 1500);
        settle(&primary);
        wait_in_sync(&primary, &replica);
        wait_in_sync(&replica, &behind);
        hold_the_same(&[&primary, &replica, &behind]);
    }
    let after = [&primary, &replica].map(full_syncs);
    assert_eq!(after, before, "all came over the wire");
}

/// A full filter that does not grow refuses on every node, whatever the setting there, unless the words of its primary
/// say `SATURATE`.
#[test]
fn a_full_filter_refuses_what_a_primary_sends() {
    for saturates in ["no", "yes"] {
        let mut sent = Vec::new();
        let mut push = |line: &str| sent.push(command(line));
        for (key, shape, at) in [
            ("plain", "2", ""),
            ("counted", "2 COUNTING", ""),
            // For one period, and for one more.
            (
                "lately",
                "1 WINDOW 1000000000000 PERIODS 1",
                " AT 1700000000000",
            ),
        ] {
            for key in [key.to_owned(), format!("{key}:more")] {
                push(&format!(
                    "BF.INSERT {key} ERROR 1e-12 NONSCALING CAPACITY {shape}{at} ITEMS a b"
                ));
                push(&format!("BF.INSERT {key} NOCREATE{at} ITEMS c d"));
            }
            push(&format!(
                "BF.INSERT {key}:more NOCREATE{at} SATURATE ITEMS c d"
            ));
        }
        let builder = Server::builder().config("bf.bloom-saturate-nonscaling", saturates);
        let node = on_log_of(builder, &wire(&sent), &[]);
        assert!(!node.info("errorstats").contains_key("errorstat_ERR"));
        assert!(!node.log_contains("CRITICAL"));
        let mut client = node.client();
        for key in ["plain", "counted", "lately"] {
            client.expect(format!("BF.CARD {key}"), int(2));
            client.expect(format!("BF.CARD {key}:more"), int(4));
        }
    }
}

/// valkey-bloom sends additions as they came, and its limits on memory may be others.
#[test]
fn no_capacity_of_a_primary_is_validated() {
    let beyond = "VALIDATESCALETO 1000000000 ITEMS a";
    let sent = [
        "BF.INSERT k CAPACITY 100 ITEMS b".to_owned(),
        format!("BF.INSERT k CAPACITY 100 {beyond}"),
        format!("BF.INSERT new {beyond}"),
    ];
    let log = wire(&sent.each_ref().map(|line| command(line)));
    let node = on_log_of(Server::builder(), &log, &[]);
    assert!(!node.log_contains("CRITICAL"));
    let mut client = node.client();
    client.expect("BF.CARD k", int(2));
    client.expect("BF.CARD new", int(1));
    let text = "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
    client.expect(&sent[1], error(text));
}

#[test]
fn a_log_is_replayed_whatever_the_settings() {
    let mut server = SETTINGS
        .iter()
        .fold(Server::builder(), |b, (name, value)| b.config(name, value))
        .config("appendonly", "yes")
        .config("aof-use-rdb-preamble", "no")
        .start();
    let mut workload = Workload::new(0x6c6f_6773);
    workload.run(&mut server.client(), 2500);
    settle(&server);
    for rewritten in [false, true] {
        if rewritten {
            rewrite_aof(&server);
            workload.run(&mut server.client(), 500);
            settle(&server);
        }
        let before = state(&server);
        server.shutdown();
        let lines = OTHER_SETTINGS.map(|(name, value)| format!("{name} {value}\n"));
        configure(&server, &lines.concat());
        server.start_again();
        assert_eq!(state(&server), before);
        is_balanced(&server);
    }
}

/// The ways of a full resync: the primary writes a file first or not, and the replica writes a file, empties itself,
/// or loads beside its data.
const WAYS: [(&str, &str); 4] = [
    ("no", "disabled"),
    ("yes", "disabled"),
    ("yes", "swapdb"),
    ("yes", "on-empty-db"),
];

#[test]
fn a_full_resync_brings_the_same_objects() {
    let primary = Server::with(&SETTINGS);
    let mut client = primary.client();
    Workload::new(0x6675_6c6c).run(&mut client, 1500);
    settle(&primary);
    for (without_file, load) in WAYS {
        client.ok(format!("CONFIG SET repl-diskless-sync {without_file}"));
        let replica = other_settings(Server::builder())
            .config("repl-diskless-load", load)
            .start();
        // Its own data is dropped; one of its keys is also the primary's.
        let mut own = replica.client();
        own.ok("CONFIG SET bf.bloom-memory-usage-limit 0");
        own.ok("CONFIG SET bf.bloom-filter-max-memory-usage 64mb");
        Workload::new(0x006f_776e).run(&mut own, 500);
        assert_eq!(own.cmd("BF.MADD own a b c").as_array().len(), 3);
        own.follow(primary.port());
        hold_the_same(&[&primary, &replica]);

        // Another resync with data of the same history: the replica missed more than the primary kept. A replica that
        // loads beside its data keeps serving.
        let full = primary.info("stats")["sync_full"].clone();
        client.ok("CONFIG SET repl-backlog-size 16384");
        client.send("MULTI");
        client.send("CLIENT KILL TYPE replica");
        let value = "v".repeat(100_000);
        for _ in 0..4 {
            client.send(&format!("SET padding {value}"));
        }
        client.send("DEL padding");
        client.send("EXEC");
        for _ in 0..8 {
            assert!(!client.read().is_error());
        }
        wait_until("the primary has begun a full resync", || {
            primary.info("stats")["sync_full"] != full
        });
        hold_the_same(&[&primary, &replica]);
        client.expect("BF.ADD key-new item", int(1));
        hold_the_same(&[&primary, &replica]);
        client.expect("DEL key-new", int(1));
    }
}

#[test]
fn a_promoted_replica_goes_on() {
    for (without_file, load) in WAYS {
        let primary = Server::with(&[("repl-diskless-sync", without_file)]);
        let mut client = primary.client();
        // Some objects come by a full resync, some by commands.
        let population = Population::new(&mut client);
        let replica = other_settings(Server::replica_of(&primary))
            .config("repl-diskless-load", load)
            .start();
        wait_in_sync(&primary, &replica);
        let copy = |key: &str| format!("{key}-copy");
        for key in population.keys() {
            client.expect(format!("COPY {key} {}", copy(key)), int(1));
        }
        wait_in_sync(&primary, &replica);
        drop(primary);

        let mut client = replica.client();
        let refused = client.cmd("BF.ADD new item").text();
        assert!(refused.starts_with("READONLY "), "{refused}");
        client.ok("REPLICAOF NO ONE");
        // Its own settings count now: BF.INFO reports how far objects can still grow.
        let settings = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb \
            bf.bloom-memory-usage-limit 0";
        let limit = error("ERR operation exceeds bloom object memory limit");
        client.expect("BF.ADD new item", &limit);
        client.ok(settings);
        population.is_unchanged(&mut client);
        population.is_copied(&mut client, copy);
        population.finish_loading(&mut client, str::to_owned);
        population.finish_loading(&mut client, copy);
        sums::is_balanced(&mut client);
    }
}

/// The C library works out logarithms in another way without these instructions, and then their last digits
/// differ. Nothing that decides a size may follow from them.
#[test]
fn a_replica_on_another_processor_has_the_same_bits() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .launched_by(&["env", "GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-AVX2"])
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    // By the classic formula, a byte longer with these instructions than without.
    let mut shapes = vec!["0.057771945 19068649 NONSCALING".to_owned()];
    let mut random = Rng::new(11);
    for index in 0..150_u32 {
        let capacity = 1 + random.next() % [50, 2000, 100_000][index as usize % 3];
        // Six digits, as people write them, from a half to some millionths.
        let digits = 100_000 + random.next() % 400_000;
        let rate = f64::from(u32::try_from(digits).unwrap()) / 1e6 / f64::from(1 << (index % 17));
        let growth = match index % 4 {
            0 => "NONSCALING".to_owned(),
            factor => format!("EXPANSION {factor}"),
        };
        shapes.push(format!("{rate} {capacity} {growth}"));
    }
    for maker in ["own", "valkey-bloom", "redisbloom"] {
        client.ok(format!("CONFIG SET bf.bloom-new-filters {maker}"));
        client.ok("FLUSHALL");
        for (key, shape) in shapes.iter().enumerate() {
            client.ok(format!("BF.RESERVE {key} {shape}"));
            // So that small ones are stacked.
            for round in 0..8 {
                let items = spaced((0..70).map(|n| format!("{round}-{n}")));
                client.cmd(&format!("BF.MADD {key} {items}"));
            }
        }
        wait_in_sync(&server, &replica);
        let mut there = replica.client();
        for (key, shape) in shapes.iter().enumerate() {
            let key = key.to_string();
            let digests = [digest(&mut client, &key), digest(&mut there, &key)];
            assert_eq!(digests[0], digests[1], "{maker}: {shape}");
        }
    }
}
