//! `bf.cms-overflow`: both rules for counters of four bytes beside the model, on a server, its replica and logs.

use valkeybloom_testing::loader::Dump;

use crate::harness::{Client, Reply, Server, digest, int, ok};
use crate::support::forged::Rdb;

/// Returns the value under a key, as DUMP has it.
fn dump(client: &mut Client, key: &str) -> Dump {
    Dump::of(client.cmd(&format!("DUMP {key}")).as_bytes()).expect("a module's value")
}

/// RedisBloom before 8.12 lets counts wrap, and here they load under either rule. Only encoding version 0 has room for
/// one above 2⁶³ − 1.
#[test]
fn a_larger_count_is_restored() {
    for rule in ["refuse", "saturate"] {
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
    let server = Server::start();
    let mut client = server.client();
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
