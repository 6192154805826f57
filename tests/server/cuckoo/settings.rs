//! The settings of cuckoo filters.

use crate::harness::{Reply, Server, error, int, wait_in_sync};
use crate::support::aof::{command, on_log_of, wire};
use crate::support::forged::file;
use crate::support::primary::receive;

use super::field;

#[test]
fn defaults_shape_new_filters() {
    let (_server, mut client) = Server::with_client();
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
    let (_server, mut client) = Server::with_client();
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
    ];
    let log = lines.map(command);
    let with_most = |most: &str| {
        Server::builder()
            .config("bf.cf-max-expansions", most)
            .config("propagation-error-behavior", "panic")
    };
    for (most, added) in [("1", 0), ("2", 1)] {
        let logged = on_log_of(with_most(most), b"", &wire(&log));
        let replica = with_most(most).start();
        // The stream may reach it as it came, so its limit is the same.
        let behind = Server::replica_of(&replica)
            .config("bf.cf-max-expansions", most)
            .start();
        wait_in_sync(&replica, &behind);
        receive(&mut replica.client(), file(&[]), &log);
        wait_in_sync(&replica, &behind);
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

/// Two buckets have to fit.
#[test]
fn the_size_is_at_least_that_of_two_buckets() {
    const TWICE: &str = "cf-initial-size must be at least twice cf-bucket-size";
    let (_server, mut client) = Server::with_client();
    for (first, second) in [
        ("bf.cf-initial-size 100", "bf.cf-bucket-size 51"),
        ("bf.cf-bucket-size 50", "bf.cf-initial-size 99"),
    ] {
        client.ok(format!("CONFIG SET {first}"));
        let reply = client.cmd(&format!("CONFIG SET {second}")).text();
        assert!(reply.contains(TWICE), "{reply}");
    }
    let lines = ["bf.cf-initial-size 2", "bf.cf-bucket-size 1"];
    let server = Server::builder()
        .before_module(lines[0])
        .after_module(lines[1])
        .start();
    server.client().run("CF.ADD k a");
    let log = Server::builder()
        .module_args(&["cf-initial-size", "3"])
        .try_start()
        .err();
    let log = log.expect("a refusal");
    assert!(log.contains("at least twice"), "{log}");
}
