//! The settings of cuckoo filters.

use crate::harness::{Client, Reply, Server, array, bulk, error, int, wait_in_sync, wait_until};
use crate::support::aof::{command, on_log_of, wire};
use crate::support::forged::file;
use crate::support::primary::played_primary;

use super::field;

const NAMES: [(&str, &str); 5] = [
    ("bf.cf-initial-size", "1024"),
    ("bf.cf-bucket-size", "2"),
    ("bf.cf-max-iterations", "20"),
    ("bf.cf-expansion-factor", "1"),
    ("bf.cf-max-expansions", "32"),
];

fn get(client: &mut Client, name: &str) -> Reply {
    client.cmd(&format!("CONFIG GET {name}"))
}

#[test]
fn defaults_shape_new_filters() {
    let server = Server::start();
    let mut client = server.client();
    for (name, default) in NAMES {
        assert_eq!(get(&mut client, name), array([bulk(name), bulk(default)]));
    }
    for (name, value) in [
        ("cf-initial-size", "300"),
        ("cf-bucket-size", "4"),
        ("cf-max-iterations", "7"),
        ("cf-expansion-factor", "5"),
    ] {
        client.ok(format!("CONFIG SET bf.{name} {value}"));
    }
    client.cmd("CF.ADD added a");
    client.cmd("CF.INSERT inserted CAPACITY 64 ITEMS a");
    client.cmd("CF.RESERVE reserved 64 BUCKETSIZE 2");
    for (key, buckets, size) in [("added", 128, 4), ("inserted", 16, 4), ("reserved", 32, 2)] {
        let own = [
            "Number of buckets",
            "Bucket size",
            "Max iterations",
            "Expansion rate",
        ]
        .map(|name| field(&mut client, key, name));
        assert_eq!(own, [buckets, size, 7, 8], "{key}");
    }
    // RESERVE's range does not depend on the settings.
    client.ok("CF.RESERVE wide 510 BUCKETSIZE 255");
}

#[test]
fn adds_stop_at_the_largest_number_of_filters() {
    let server = Server::start();
    let mut client = server.client();
    client.cmd("CONFIG SET bf.cf-max-expansions 3");
    client.cmd("CF.RESERVE k 4");
    let reply =
        client.cmd("CF.INSERT k ITEMS foo foo foo foo foo foo foo foo foo foo foo foo foo foo");
    let numbers: Vec<i64> = reply.as_array().iter().map(Reply::as_int).collect();
    assert_eq!(numbers, [vec![1; 12], vec![-1; 2]].concat());
    let refused = error("Maximum expansions reached");
    client.expect("CF.ADD k b", &refused);
    client.expect("CF.ADDNX k foo", &refused);
    client.cmd("CF.DEL k foo");
    client.expect("CF.ADD k foo", &refused);
    client.cmd("CONFIG SET bf.cf-max-expansions 4");
    assert_eq!(client.cmd("CF.ADD k foo").as_int(), 1);
    client.cmd("CONFIG SET bf.cf-max-expansions 1");
    client.expect("CF.ADD new a", &refused);
    assert_eq!(client.cmd("EXISTS new").as_int(), 0);
}

/// RedisBloom 8.10 creates a filter, refuses the items, and replicates the command, so its limit has been reached there. A
/// filter that exists takes what comes.
#[test]
fn a_refused_creation_of_a_primary_leaves_an_empty_filter() {
    let lines = [
        "CF.ADD a x",
        "CF.ADDNX b x",
        "CF.INSERT c CAPACITY 64 ITEMS x y",
        "CF.INSERTNX EXPANSION ITEMS x",
        "CF.RESERVE there 64",
        "CF.ADD there x",
        "SET end x",
    ];
    let log = wire(&lines.map(command));
    let with_most = |most: &str| {
        Server::builder()
            .config("bf.cf-max-expansions", most)
            .config("propagation-error-behavior", "panic")
    };
    for (most, added) in [("1", 0), ("2", 1)] {
        let logged = on_log_of(with_most(most), b"", &log);
        let replica = with_most(most).start();
        // The stream may reach it as it came, so its limit is the same.
        let behind = Server::replica_of(&replica)
            .config("bf.cf-max-expansions", most)
            .start();
        wait_in_sync(&replica, &behind);
        let mut client = replica.client();
        let port = played_primary(file(&[]), Some(log.clone()));
        client.ok(format!("REPLICAOF 127.0.0.1 {port}"));
        wait_until("all has come", || {
            behind.client().cmd("EXISTS end") == int(1)
        });
        for server in [&logged, &replica, &behind] {
            let mut client = server.client();
            for (key, buckets, items) in [
                ("a", 512, added),
                ("b", 512, added),
                ("c", 32, 2 * added),
                ("EXPANSION", 512, added),
                ("there", 32, 1),
            ] {
                let shape = ["Number of buckets", "Number of items inserted"];
                let shape = shape.map(|name| field(&mut client, key, name));
                assert_eq!(shape, [buckets, items], "{most} {key}");
            }
            client.expect("CF.EXISTS a x", int(added));
            assert!(!server.log_contains("== CRITICAL =="));
        }
    }
}

#[test]
fn values_out_of_range_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    for (name, values, range) in [
        (
            "cf-initial-size",
            ["1", "1073741825"],
            "between 2 and 1073741824 inclusive",
        ),
        (
            "cf-bucket-size",
            ["0", "256"],
            "between 1 and 255 inclusive",
        ),
        (
            "cf-max-iterations",
            ["0", "65536"],
            "between 1 and 65535 inclusive",
        ),
        (
            "cf-expansion-factor",
            ["-1", "32769"],
            "between 0 and 32768 inclusive",
        ),
        (
            "cf-max-expansions",
            ["0", "65537"],
            "between 1 and 65536 inclusive",
        ),
    ] {
        for value in values {
            let reply = client.cmd(&format!("CONFIG SET bf.{name} {value}")).text();
            assert!(reply.starts_with("ERR CONFIG SET failed"), "{reply}");
            assert!(reply.contains(range), "{reply}");
        }
    }
    // Two buckets have to fit.
    let twice = "cf-initial-size must be at least twice cf-bucket-size";
    for (first, second) in [
        ("bf.cf-initial-size 100", "bf.cf-bucket-size 51"),
        ("bf.cf-bucket-size 50", "bf.cf-initial-size 99"),
    ] {
        client.ok(format!("CONFIG SET {first}"));
        let reply = client.cmd(&format!("CONFIG SET {second}")).text();
        assert!(reply.contains(twice), "{reply}");
    }
    assert_eq!(
        get(&mut client, "bf.cf-bucket-size").as_array()[1],
        bulk("50")
    );
}

#[test]
fn files_and_arguments_set_the_settings() {
    let mut server = Server::builder()
        .before_module("bf.cf-initial-size 2")
        .after_module("bf.cf-bucket-size 1")
        .module_args(&["CF_MAX_EXPANSIONS", "7", "cf-max-iterations", "9"])
        .start();
    for _ in 0..2 {
        let mut client = server.client();
        for (name, value) in [
            ("bf.cf-initial-size", "2"),
            ("bf.cf-bucket-size", "1"),
            ("bf.cf-max-expansions", "7"),
            ("bf.cf-max-iterations", "9"),
            ("bf.cf-expansion-factor", "1"),
        ] {
            assert_eq!(get(&mut client, name), array([bulk(name), bulk(value)]));
        }
        client.ok("CONFIG REWRITE");
        server.restart();
    }
    for (arguments, what) in [
        (["CF_MAX_EXPANSIONS", "0"], "between 1 and 65536"),
        (["cf-bucket-size", "600"], "between 1 and 255"),
        (["cf-initial-size", "3"], "at least twice"),
    ] {
        let log = Server::builder().module_args(&arguments).try_start().err();
        let log = log.expect("a refusal");
        assert!(log.contains(what), "{log}");
    }
}
