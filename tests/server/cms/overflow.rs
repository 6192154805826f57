//! `bf.cms-overflow`: both rules for counters of four bytes, on a server, its replicas and logs.

use std::fs;

use valkeybloom_testing::loader::Dump;

use crate::harness::{Client, Reply, Server, array, digest, int, ok, wait_in_sync};
use crate::support::aof::{command, on_log_of, part, wire, with_command_log};
use crate::support::forged::Rdb;
use crate::support::primary::on_link_of;

const RULES: [&str; 2] = ["refuse", "saturate"];

/// Returns the value under a key, as DUMP has it.
fn dump(client: &mut Client, key: &str) -> Dump {
    Dump::of(client.cmd(&format!("DUMP {key}")).as_bytes()).expect("a module's value")
}

/// RedisBloom before 8.12 lets counts wrap, and here they load under either rule. Only encoding version 0 has room for
/// one above 2⁶³ − 1.
#[test]
fn a_larger_count_is_restored() {
    for rule in RULES {
        for encoding in ["0", "1"] {
            let server = Server::with(&[("bf.cms-overflow", rule), ("bf.cms-encoding", encoding)]);
            let mut client = server.client();
            let value = Rdb::of_type(0x08c4_a4f9_360f_1000)
                .uint(3)
                .uint(2)
                .uint(1 << 63);
            let payload = value.string(&[1; 24]).payload([9, 0]);
            assert_eq!(client.restore("k", &payload), ok());
            let count = |client: &mut Client| client.cmd("CMS.INFO k").as_array()[5].as_int();
            assert_eq!(count(&mut client), i64::MIN);
            let before = digest(&mut client, "k");
            let dump = dump(&mut client, "k");
            assert_eq!(dump.check().is_ok(), encoding == "1");
            let by_one = client.cmd("CMS.INCRBY k a 1");
            let [reply] = by_one.as_array() else {
                panic!("{by_one:?}");
            };
            if rule == "refuse" {
                assert!(reply.is_error() && reply.text().ends_with("CMS: INCRBY overflow"));
                assert_eq!(digest(&mut client, "k"), before);
                assert!(!client.cmd("CMS.INCRBY k a -1").as_array()[0].is_error());
                assert_eq!(count(&mut client), i64::MAX);
            } else {
                assert!(matches!(reply, Reply::Int(_)));
                assert_eq!(count(&mut client), i64::MIN + 1);
            }
        }
    }
}

#[test]
fn the_rule_can_change() {
    let (_server, mut client) = Server::with_client();
    client.cmd("CMS.INITBYDIM k 3 2");
    client.cmd("CMS.INCRBY k a 4294967295");
    for (rule, count) in [
        ("saturate", 1 << 32),
        ("refuse", 1 << 32),
        ("Saturate", (1 << 32) + 1),
    ] {
        client.ok(format!("CONFIG SET bf.cms-overflow {rule}"));
        assert!(client.cmd("CMS.INCRBY k a 1").as_array()[0].is_error());
        assert_eq!(client.cmd("CMS.INFO k").as_array()[5], int(count), "{rule}");
    }
}

/// Returns what a server holds under some keys: a digest, the counts of items, and the fields of CMS.INFO.
fn state(server: &Server, keys: &[&str]) -> Vec<(String, Reply, Reply)> {
    let mut client = server.client();
    let state = keys.iter().map(|key| {
        let counts = client.cmd(&format!("CMS.QUERY {key} a b c"));
        let info = client.cmd(&format!("CMS.INFO {key}"));
        (digest(&mut client, key), counts, info)
    });
    state.collect()
}

/// A server counts what its primary and its log have counted, whatever its own rule.
#[test]
fn replicas_and_logs_hold_what_their_primary_counted() {
    const KEYS: [&str; 4] = ["k", "deep", "sum", "small"];
    for rule in RULES {
        let primary = with_command_log();
        let replicas = RULES.map(|rule| {
            let replica = Server::replica_of(&primary);
            replica.config("bf.cms-overflow", rule).start()
        });
        let mut client = primary.client();
        client.ok(format!("CONFIG SET bf.cms-overflow {rule}"));
        for replica in &replicas {
            wait_in_sync(&primary, replica);
        }
        for line in [
            "CMS.INITBYDIM k 1000 3",
            "CMS.INITBYDIM sum 1000 3",
            "CMS.INITBYDIM deep 100 200",
            "CMS.INITBYDIM small 1000 3 CELL_SIZE 1",
            "CMS.INCRBY k a 3000000000 b 5",
            "CMS.INCRBY k a 3000000000",
            "CMS.INCRBY k a 1 b 4294967295 c 4294967295",
            "CMS.INCRBY k b -5 c 1 a -7",
            "CMS.INCRBY deep a 4294967290 b 10",
            "CMS.INCRBY deep a 10 c 3",
            "CMS.INCRBY small a 250 b 250 a 10",
            "CMS.INCRBY small a 10",
            "CMS.MERGE sum 2 k k WEIGHTS 2 -1",
            "CMS.MERGE sum 2 k sum",
            "CMS.INCRBY k c 9223372036854775807",
            "CMS.INCRBY k c 9223372036854775807 b 1",
        ] {
            client.cmd(line);
        }
        let expected = state(&primary, &KEYS);
        let saturated =
            expected[0].1 == array([4_294_967_288, 4_294_967_291, 4_294_967_295].map(int));
        assert_eq!(saturated, rule == "saturate", "{expected:?}");
        for replica in &replicas {
            wait_in_sync(&primary, replica);
            assert_eq!(state(replica, &KEYS), expected, "{rule}");
        }
        let log = fs::read(part(&primary, ".1.incr.aof")).expect("there is a log");
        for own in RULES {
            let builder = Server::builder().config("bf.cms-overflow", own);
            let server = on_log_of(builder, b"", &log);
            assert_eq!(state(&server, &KEYS), expected, "{rule} at {own}");
        }
    }
}

/// RedisBloom before 8.12 sends commands as they came. Some of them failed in part there, and its counters saturate. Words
/// that it refused or ignored are never errors here, because to the server an error would mean that the data differ.
#[test]
fn the_commands_of_redisbloom_are_no_errors() {
    let commands = [
        "CMS.INITBYDIM k 1000 3",
        "CMS.INCRBY k a 3000000000 b 9223372036854775807",
        "CMS.INCRBY k a 3000000000 c 2",
        "CMS.INITBYDIM full 1000 3",
        "CMS.INCRBY full a 4294967295 c 2",
        "CMS.INITBYDIM sum 1000 3",
        "CMS.MERGE sum 3 full full full WEIGHTS 1 1 1",
        "CMS.INITBYDIM small 1000 3 CELL_SIZE 1",
        "CMS.INCRBY small a 250 a 10 a 5",
        "TOPK.RESERVE topk 5",
        "TOPK.INCRBY topk a 3 b x c 1",
        "TDIGEST.CREATE digest",
        "TDIGEST.MERGE merged 1 digest what OVERRIDE OVERRIDE",
    ]
    .map(command);
    for rule in RULES {
        let builder = || {
            Server::builder()
                .config("propagation-error-behavior", "panic")
                .config("bf.cms-overflow", rule)
        };
        let on_log = on_log_of(builder(), b"", &wire(&commands));
        for server in [on_log, on_link_of(builder(), &commands)] {
            let mut client = server.client();
            for (key, counts, total) in [
                ("k", [u32::MAX, u32::MAX, 2], i64::MIN + 6_000_000_001),
                ("full", [u32::MAX, 0, 2], 4_294_967_297),
                ("sum", [u32::MAX, 0, 6], 3 * 4_294_967_297),
                ("small", [255, 0, 0], 255),
            ] {
                let counts = array(counts.map(|count| int(count.into())));
                client.expect(format!("CMS.QUERY {key} a b c"), counts);
                let info = client.cmd(&format!("CMS.INFO {key}"));
                assert_eq!(info.as_array()[5], int(total));
            }
            client.expect("TOPK.COUNT topk a c", array([int(3), int(0)]));
            client.expect("EXISTS merged", int(1));
            assert!(!server.log_contains("== CRITICAL =="));
        }
    }
}
