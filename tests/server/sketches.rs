//! Sketches of all families: values that RedisBloom wrote, the sums of INFO over a value's life, and other modules.

use std::fs;

use crate::harness::{Client, Plugin, Server, array, bulk, error, int, nil, ok, simple};
use crate::support::aof::{command, on_log, rewrite_aof, wire};
use crate::support::forged::{Rdb, file};
use crate::support::primary::receive;
use crate::support::sketches::recorded;

/// A family whose types or commands another module has registered is left to that module; all others are served.
#[test]
fn another_module_keeps_its_family() {
    let plugin = Plugin::build("sketches.c");
    let server = Server::builder().before_module(&plugin.line()).start();
    let mut client = server.client();
    client.expect("CMS.INFO k", simple("served"));
    let unknown = client.cmd("CMS.QUERY k a").text();
    assert!(unknown.starts_with("ERR unknown command"), "{unknown}");
    let reported = "left to another module: the server has the command \"cms.info\"";
    assert!(server.log_contains(reported));
    for sketch in recorded() {
        if sketch.type_name != "CMSk-TYPE" {
            sketch.restore(&mut client, &sketch.key);
        }
    }
    let info = server.info("bf");
    let counts = ["topk", "tdigest"].map(|family| &info[&format!("bf_{family}_num_objects")][..]);
    assert_eq!(counts, ["3", "3"]);
    client.expect("BF.ADD k a", int(1));
    client.ok("TDIGEST.CREATE digest");
}

#[test]
fn another_module_with_a_type_alone_keeps_its_family() {
    let plugin = Plugin::build("sketches.c");
    let line = format!("{} CMSk-TYPE", plugin.line());
    let server = Server::builder().before_module(&line).start();
    let mut client = server.client();
    let unknown = client.cmd("CMS.INFO k").text();
    assert!(unknown.starts_with("ERR unknown command"), "{unknown}");
    let reported = "left to another module: the server refused the type \"CMSk-TYPE\"";
    assert!(server.log_contains(reported));
    client.ok("TDIGEST.CREATE digest");
}

/// A module that has a later command has the family alone: it could not use values of this module's type.
#[test]
fn another_module_with_one_command_keeps_its_whole_family() {
    let plugin = Plugin::build("sketches.c");
    let line = format!("{} tdigest.add", plugin.line());
    let server = Server::builder().before_module(&line).start();
    let mut client = server.client();
    client.expect("TDIGEST.ADD k 1", simple("served"));
    let unknown = client.cmd("TDIGEST.CREATE k").text();
    assert!(unknown.starts_with("ERR unknown command"), "{unknown}");
    let reported = "left to another module: the server has the command \"tdigest.add\"";
    assert!(server.log_contains(reported));
    for sketch in recorded() {
        if sketch.type_name == "TDIS-TYPE" {
            let restored = client.restore(&sketch.key, &sketch.payload);
            assert_eq!(restored, error("ERR Bad data format"));
        } else {
            sketch.restore(&mut client, &sketch.key);
        }
    }
    client.ok("TOPK.RESERVE list 1");
}

/// Returns sketches that no client can make, by their keys.
pub fn beyond_limits(client: &mut Client) -> Vec<(&'static str, Rdb)> {
    let mut begin = |command: &str| {
        client.ok(command);
        let dump = client.cmd("DUMP small");
        client.expect("DEL small", int(1));
        Rdb(dump.as_bytes()[..10].to_vec())
    };
    let rows = begin("CMS.INITBYDIM small 1 1").uint(2).uint(1500).uint(0);
    let cells = begin("TOPK.RESERVE small 1").uint(1).uint(2).uint(100);
    let digest = begin("TDIGEST.CREATE small");
    let numbers = |compression, capacity: i64, nodes, min, max| {
        let value = digest.clone().double(compression).double(min).double(max);
        let value = value.uint(capacity.cast_unsigned()).uint(nodes);
        value.uint(0).uint(1)
    };
    let two = [2.0, 0.0, 1.0, 5.0, 1.0, 1.0].into_iter();
    let two = two.fold(numbers(200_000.0, 1_200_010, 2, 1.0, 5.0), Rdb::double);
    let none = numbers(4e8, -1_894_967_286, 0, f64::MAX, f64::MIN);
    vec![
        ("rows", rows.string(&[0; 12_000])),
        (
            "cells",
            cells
                .double(0.9)
                .string(&[0; 1600])
                .string(&[0; 24])
                .string(&[0]),
        ),
        ("two", two),
        ("none", none.double(0.0).double(0.0)),
    ]
}

pub fn answer_beyond_limits(client: &mut Client) {
    client.replies([
        ("CMS.INCRBY rows item 5", array([int(5)])),
        ("CMS.QUERY rows item other", array([int(5), int(0)])),
        ("TOPK.INCRBY cells item 5", array([nil()])),
        ("TOPK.COUNT cells item", array([int(5)])),
        ("TDIGEST.ADD two 3", ok()),
        ("TDIGEST.QUANTILE two 0.5", array([bulk("3")])),
        ("TDIGEST.MAX none", bulk("nan")),
        (
            "TDIGEST.ADD none 1",
            error("ERR T-Digest: overflow detected"),
        ),
    ]);
}

/// Limits are for clients. What comes in a file or from a primary is as large as it is there.
#[test]
fn sketches_beyond_the_limits_come_from_files_and_primaries_alone() {
    let mut server = Server::start();
    let values = beyond_limits(&mut server.client());
    let values: Vec<_> = values.iter().map(|(key, value)| (*key, value)).collect();
    for (key, value) in &values {
        let payload = (*value).clone().payload([9, 0]);
        let restored = server.client().restore(key, &payload);
        assert_eq!(restored, error("ERR Bad data format"), "{key}");
    }
    server.shutdown();
    fs::write(server.dir().join("dump.rdb"), file(&values)).unwrap();
    server.start_again();
    answer_beyond_limits(&mut server.client());
    server.restart_saving();
    server
        .client()
        .expect("CMS.QUERY rows item", array([int(5)]));

    let created = [
        "DEL rows cells two none",
        "CMS.INITBYDIM rows 2 1500",
        "TOPK.RESERVE cells 1 2 100 0.9",
        "TDIGEST.CREATE none COMPRESSION 400000000",
    ];
    let mut then = created.map(command).to_vec();
    let mut restore = command("RESTORE two 0");
    restore.push(values[2].1.clone().payload([9, 0]));
    then.push(restore);
    let mut logged = on_log(b"", &wire(&then));
    answer_beyond_limits(&mut logged.client());
    rewrite_aof(&logged);
    logged.restart();
    logged
        .client()
        .expect("CMS.QUERY rows item", array([int(5)]));
    logged.client().expect("EXISTS rows cells two none", int(4));

    let replica = Server::start();
    let mut client = replica.client();
    receive(&mut client, file(&values), &then);
    answer_beyond_limits(&mut client);
}
