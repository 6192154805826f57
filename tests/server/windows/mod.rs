//! Objects with periods: their items expire, on a clock of milliseconds in real servers, and by times in a log or
//! from a primary.

mod freed;
mod live;
mod times;

use crate::harness::{
    Client, Reply, Server, array, boolean, bulk, digest, error, int, ok, simple, wait_in_sync,
    wait_until,
};
use crate::support::aof::{Log, rewrite_aof, with_command_log};
use crate::support::periods::clock;
use crate::support::pieces::pieces;
use crate::support::sums;

fn info(client: &mut Client, key: &str, field: &str) -> i64 {
    client.cmd(&format!("BF.INFO {key} {field}")).as_array()[0].as_int()
}

#[test]
fn items_expire_unless_they_are_added_again() {
    let server = Server::start();
    let mut client = server.client();
    for (key, options) in [
        ("four", "WINDOW 300 PERIODS 4"),
        ("two", "WINDOW 600 PERIODS 2 NONSCALING"),
    ] {
        let create = format!("BF.RESERVE {key} 0.000001 100 {options}");
        assert_eq!(client.cmd(&create), ok());
        let both = array([int(1), int(1)]);
        assert_eq!(client.cmd(&format!("BF.MADD {key} passing kept")), both);
        wait_until("what was added once has passed", || {
            // In one transaction, so that no time passes in between.
            assert_eq!(client.cmd("MULTI"), ok());
            for line in [
                format!("BF.ADD {key} kept"),
                format!("BF.MEXISTS {key} kept passing"),
                format!("BF.MISSING {key} kept passing passing"),
                format!("BF.CARD {key}"),
            ] {
                assert_eq!(client.cmd(&line), simple("QUEUED"));
            }
            let replies = client.cmd("EXEC");
            let [_, found, missing, card] = replies.as_array() else {
                panic!("four replies: {replies:?}");
            };
            let [kept, passing] = found.as_array() else {
                panic!("two answers: {found:?}");
            };
            assert_eq!(*kept, int(1));
            // It may pass between the two.
            assert!((1 - passing.as_int()..=1).contains(&missing.as_int()));
            assert!(card.as_int() >= 1);
            *passing == int(0)
        });
        assert_eq!(client.cmd(&format!("BF.ADD {key} passing")), int(1));

        // Nothing is left in the end; an object that is not written to is held until it is.
        wait_until("all has passed", || {
            client.cmd(&format!("BF.MISSING {key} kept passing")) == int(2)
        });
        wait_until("no filter answers", || {
            info(&mut client, key, "FILTERS") == 0
        });
        for (field, nothing) in [("ITEMS", 0), ("CAPACITY", 0), ("LIVEPERIODS", 0)] {
            assert_eq!(info(&mut client, key, field), nothing, "{field}");
        }
        assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(0));
        let lines = client.cmd(&format!("BF.DEBUG {key}"));
        assert_eq!(lines, array([bulk("size:0")]));
        let held = info(&mut client, key, "SIZE");
        sums::is_balanced(&mut client);
        assert_eq!(client.cmd(&format!("BF.INSERT {key} NOCREATE")), array([]));
        assert!(info(&mut client, key, "SIZE") < held, "{held}");
        sums::is_balanced(&mut client);
    }
}

#[test]
fn a_write_that_changes_nothing_frees_expired_periods() {
    let server = with_command_log();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let mut log = Log::of(&server);
    let lines = [
        ("BF.INSERT k", array([])),
        ("BF.INSERT k NOCREATE", array([])),
        ("BF.INSERT k CAPACITY 5", array([])),
    ];
    for (number, (line, reply)) in lines.iter().enumerate() {
        let line = line.replace(" k", &format!(" k{number}"));
        let key = format!("k{number}");
        let create = format!("BF.INSERT {key} WINDOW 20 PERIODS 1 CAPACITY 10 ITEMS a b c");
        assert_eq!(client.cmd(&create).as_array().len(), 3);
        wait_until("all has passed", || {
            client.cmd(&format!("BF.MISSING {key} a b c")) == int(3)
        });
        let held = info(&mut client, &key, "SIZE");
        log.since();
        for _ in 0..2 {
            assert_eq!(client.cmd(&line), *reply, "{line}");
            assert!(info(&mut client, &key, "SIZE") < held);
        }
        // The first is logged, since time has passed; the second changed nothing.
        let reported = log.since();
        assert_eq!(reported.len(), 1, "{line}: {reported:?}");
        let words = [
            b"BF.INSERT".to_vec(),
            key.clone().into_bytes(),
            b"NOCREATE".to_vec(),
            b"AT".to_vec(),
        ];
        assert_eq!(reported[0][..4], words);
        assert_eq!(reported[0].len(), 5);
        wait_in_sync(&server, &replica);
        let there = digest(&mut replica.client(), &key);
        assert_eq!(there, digest(&mut client, &key), "{line}");
    }
    sums::is_balanced(&mut replica.client());
}

#[test]
fn a_file_is_loaded_after_its_windows_have_expired() {
    let mut server = Server::start();
    let mut client = server.client();
    for (key, options) in [("scaling", ""), ("fixed", "NONSCALING ")] {
        let create = format!("BF.INSERT {key} {options}WINDOW 10 PERIODS 3 CAPACITY 50 ITEMS a b");
        assert_eq!(client.cmd(&create).as_array().len(), 2);
    }
    let before = ["scaling", "fixed"].map(|key| digest(&mut client, key));
    server.shutdown_save();
    server.start_again();
    let mut client = server.client();
    for (key, before) in ["scaling", "fixed"].iter().zip(before) {
        assert_eq!(digest(&mut client, key), before);
        wait_until("the window has passed", || {
            client.cmd(&format!("BF.MISSING {key} a b")) == int(2)
        });
        assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(0));
        assert_eq!(info(&mut client, key, "LIVEPERIODS"), 0);
        // It is held still, and INFO says so.
        sums::is_balanced(&mut client);
        let reported = &server.info("bf")["bf_bloom_num_items_across_objects"];
        assert_ne!(reported, "0");
        let held = info(&mut client, key, "SIZE");
        let same = client.cmd(&format!("BF.INSERT {key} NOCREATE"));
        assert_eq!(same, array([]));
        assert!(info(&mut client, key, "SIZE") < held);
        assert_eq!(client.cmd(&format!("BF.ADD {key} a")), int(1));
        sums::is_balanced(&mut client);
    }
}

/// An object without any filter can be stored and loaded.
#[test]
fn an_object_without_filters_is_kept() {
    let mut server = with_command_log();
    let mut client = server.client();
    let create = "BF.INSERT k WINDOW 5 PERIODS 1 CAPACITY 50 ITEMS a";
    assert_eq!(client.cmd(create), array([int(1)]));
    wait_until("nothing is held", || {
        client.cmd("BF.INSERT k NOCREATE");
        pieces(&mut client, "k").len() == 1
    });
    let before = digest(&mut client, "k");
    let same = |client: &mut Client, key: &str| {
        assert_eq!(digest(client, key), before, "{key}");
        assert_eq!(client.cmd(&format!("BF.EXISTS {key} a")), int(0));
    };
    assert_eq!(client.cmd("COPY k copied"), int(1));
    same(&mut client, "copied");
    let dump = client.cmd("DUMP k");
    let restore: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", dump.as_bytes()];
    assert_eq!(client.call(&restore), ok());
    same(&mut client, "restored");
    assert_eq!(client.cmd("DEBUG RELOAD"), ok());
    same(&mut client, "k");
    rewrite_aof(&server);
    server.kill();
    server.start_again();
    let mut client = server.client();
    same(&mut client, "k");
    sums::is_balanced(&mut client);
    assert_eq!(client.cmd("BF.ADD k a"), int(1));
    let header = &pieces(&mut client, "restored")[0].1;
    let load: [&[u8]; 4] = [b"BF.LOADCHUNK", b"chunked", b"1", header];
    assert_eq!(client.call(&load), ok());
    same(&mut client, "chunked");
    let behind: [&[u8]; 4] = [b"BF.LOADCHUNK", b"chunked", b"2", b"x"];
    assert_eq!(client.call(&behind), error("ERR received bad data"));
    assert_eq!(
        client.call(&load),
        error("BUSYKEY Target key name already exists.")
    );
    // The header with counters besides: its options follow the form.
    let mut both = header.clone();
    assert_eq!(std::mem::replace(&mut both[9], 3), 1);
    let load: [&[u8]; 4] = [b"BF.LOADCHUNK", b"both", b"1", &both];
    assert_eq!(client.call(&load), error("ERR received bad data"));
    // Without filters it is the dump, but for its first byte.
    both[0] = 2;
    let load: [&[u8]; 3] = [b"BF.LOAD", b"both", &both];
    let refused = error("ERR bloom object decoding failed");
    assert_eq!(client.call(&load), refused);
    both[9] = 1;
    let load: [&[u8]; 3] = [b"BF.LOAD", b"both", &both];
    assert_eq!(client.call(&load), ok());
    same(&mut client, "both");
    sums::is_balanced(&mut client);
    assert_eq!(client.cmd("BF.ADD chunked a"), int(1));
}

#[test]
fn info_reports_the_window() {
    let server = Server::start();
    let mut client = server.client3();
    let create = "BF.INSERT k WINDOW 1000000000000 PERIODS 2 CAPACITY 10 TTL 1 ITEMS a b";
    assert_eq!(client.cmd(create).as_array().len(), 2);
    assert_eq!(client.cmd("BF.ADD k a"), boolean(false));
    let Reply::Map(rows) = client.cmd("BF.INFO k") else {
        panic!("no map");
    };
    let titles: Vec<String> = rows.iter().map(|(title, _)| title.text()).collect();
    let expected = [
        "Capacity",
        "Size",
        "Number of filters",
        "Number of items inserted",
        "Expansion rate",
        "Error rate",
        "Tightening ratio",
        "Max scaled capacity",
        "Estimated error rate",
        "Window",
        "Periods",
        "Live periods",
        "Items in current period",
    ];
    assert_eq!(titles, expected);
    let value = |title: &str| {
        let row = rows.iter().find(|(reported, _)| reported.text() == title);
        row.expect("it is reported").1.clone()
    };
    assert_eq!(value("Capacity"), int(20));
    assert_eq!(value("Number of filters"), int(2));
    assert_eq!(value("Number of items inserted"), int(3));
    assert_eq!(value("Window"), int(1_000_000_000_000));
    assert_eq!(value("Periods"), int(2));
    assert_eq!(value("Live periods"), int(2));
    assert_eq!(value("Items in current period"), int(1));
    let debug = client.cmd("BF.DEBUG k");
    let lines: Vec<String> = debug.as_array().iter().map(Reply::text).collect();
    assert_eq!(lines[0], "size:3");
    let periods = lines[1..].iter().map(|line| -> u64 {
        let (_, period) = line.rsplit_once(" period:").expect("a period");
        period.parse().expect("a number")
    });
    let now = clock(&mut client) / 1_000_000_000_000;
    assert_eq!(periods.collect::<Vec<_>>(), [now - 1, now]);
}
