//! `bf.cms-overflow`: both rules for counters of four bytes beside the model, on a server, its replica and logs.

use std::fmt::Write as _;

use valkeybloom_sketches::cms::Overflow;
use valkeybloom_testing::count_min::Naive;
use valkeybloom_testing::loader::Dump;

use crate::harness::{Builder, Client, Reply, Server, digest, error, int, ok, wait_in_sync};
use crate::support::aof::{command, on_log_of, wire};
use crate::support::forged::Rdb;
use crate::support::random::Random;

const RULES: [(&str, Overflow); 2] = [
    ("refuse", Overflow::Refuse),
    ("saturate", Overflow::Saturate),
];

fn with_rule(builder: Builder, rule: &str) -> Builder {
    builder.config("bf.cms-overflow", rule)
}

/// Returns the value under a key, as DUMP has it.
fn dump(client: &mut Client, key: &str) -> Dump {
    Dump::of(client.cmd(&format!("DUMP {key}")).as_bytes()).expect("a module's value")
}

/// Returns an increment that is near the edges of counters and counts now and then.
fn increment(random: &mut Random) -> i64 {
    let most = i64::from(u32::MAX);
    let small = i64::try_from(random.below(100)).expect("it is small");
    match random.below(8) {
        0 => 0,
        1 => -small,
        2 => most,
        3 => -most,
        4 => 1 << 31,
        5 => i64::MAX - small,
        _ => small,
    }
}

/// Runs a random command on one of the sketches, and on the model. Returns its line, unless it was refused as a whole.
fn step(
    client: &mut Client,
    naive: &mut [Naive],
    overflow: Overflow,
    random: &mut Random,
) -> Option<String> {
    let key = random.below(naive.len());
    let line = if random.one_in(10) {
        let (other, weight) = (random.below(naive.len()), random.below(3));
        let line = format!("CMS.MERGE {key} 2 {key} {other} WEIGHTS 1 {weight}");
        let weight = i64::try_from(weight).expect("it is small");
        let merged = Naive::merged(&[(&naive[key], 1), (&naive[other], weight)]);
        let reply = client.cmd(&line);
        assert_eq!(reply.is_error(), merged.is_err(), "{line}: {reply:?}");
        naive[key] = merged.ok()?;
        line
    } else {
        let mut line = format!("CMS.INCRBY {key}");
        let mut expected = Vec::new();
        for _ in 0..=random.below(4) {
            let (item, by) = (random.below(6), increment(random));
            write!(line, " {item} {by}").expect("a string takes it");
            expected.push(naive[key].increment(item.to_string().as_bytes(), by, overflow));
        }
        let reply = client.cmd(&line);
        assert_eq!(reply.as_array().len(), expected.len(), "{line}");
        for (reply, expected) in reply.as_array().iter().zip(expected) {
            let expected = expected.map(|estimate| int(estimate.cast_signed()));
            assert_eq!(
                Some(reply).filter(|reply| !reply.is_error()),
                expected.as_ref().ok(),
                "{line}"
            );
        }
        line
    };
    assert_eq!(
        dump(client, &key.to_string()).fields,
        naive[key].fields(0),
        "{line}"
    );
    Some(line)
}

/// The replica and the server's own log get what took effect. A log of RedisBloom has every command as it came, with the
/// pairs that were refused.
#[test]
fn commands_have_the_bytes_of_the_model_everywhere() {
    for (rule, overflow) in RULES {
        let mut server = with_rule(Server::builder(), rule)
            .config("appendonly", "yes")
            .config("aof-use-rdb-preamble", "no")
            .start();
        let replica = with_rule(Server::replica_of(&server), rule).start();
        wait_in_sync(&server, &replica);
        let mut client = server.client();
        let mut naive = vec![Naive::new(3, 2, 4); 3];
        let mut log = Vec::new();
        for key in 0..naive.len() {
            let line = format!("CMS.INITBYDIM {key} 3 2");
            client.ok(&line);
            log.push(command(&line));
        }
        let mut random = Random(812);
        for _ in 0..4000 {
            let line = step(&mut client, &mut naive, overflow, &mut random);
            log.extend(line.map(|line| command(&line)));
        }
        wait_in_sync(&server, &replica);
        let expected = client.cmd("DEBUG DIGEST");
        replica.client().expect("DEBUG DIGEST", &expected);
        server.restart();
        server.client().expect("DEBUG DIGEST", &expected);
        let replayed = on_log_of(with_rule(Server::builder(), rule), b"", &wire(&log));
        replayed.client().expect("DEBUG DIGEST", &expected);
    }
}

/// RedisBloom before 8.12 lets counts wrap, and here they load under either rule. Only encoding version 0 has room for
/// one above 2⁶³ − 1.
#[test]
fn a_larger_count_is_restored() {
    for (rule, _) in RULES {
        for encoding in ["0", "1"] {
            let server = with_rule(Server::builder(), rule)
                .config("bf.cms-encoding", encoding)
                .start();
            let mut client = server.client();
            let value = Rdb::of_type(0x08c4_a4f9_360f_1000)
                .uint(3)
                .uint(2)
                .uint(1 << 63);
            let payload = value.string(&[1; 24]).payload([9, 0]);
            assert_eq!(client.call(&[b"RESTORE", b"k", b"0", &payload]), ok());
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
    let why = "argument must be 'refuse' or 'saturate'";
    let refused = "ERR CONFIG SET failed (possibly related to argument 'bf.cms-overflow')";
    client.expect(
        "CONFIG SET bf.cms-overflow wrap",
        error(&format!("{refused} - {why}")),
    );
}
