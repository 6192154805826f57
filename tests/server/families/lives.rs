//! Values of every family but Bloom filters: on replicas and in logs, and as copies.

use std::collections::BTreeSet;

use valkeybloom_testing::loader::Dump;

use crate::harness::{Reply, Server, digest, wait_in_sync};
use crate::support::Rng;
use crate::support::aof::rewrite_aof;
use crate::support::configured::other_settings;
use crate::support::cuckoo::items;
use crate::support::sums;

/// The values of a random life; cuckoo filters are made as they are needed.
pub const MADE: [&str; 17] = [
    "CMS.INITBYPROB cms0 0.02 0.01",
    "CMS.INITBYDIM cms1 50 4",
    "CMS.INITBYDIM cms2 50 4",
    "CMS.INITBYDIM cms3 50 4",
    "CMS.INITBYDIM cms4 30 3 CELL_SIZE 1",
    "CMS.INITBYPROB cms5 0.1 0.3 CELL_SIZE 8",
    "TOPK.RESERVE topk0 3",
    "TOPK.RESERVE topk1 2 4 2 0.5",
    "TOPK.RESERVE topk2 10 20 5 0.95",
    "TOPK.RESERVE topk3 50 30 3 0.999",
    "TOPK.RESERVE topk4 5 10 4 1",
    "TOPK.RESERVE topk5 1 1 1 0.99999",
    "TDIGEST.CREATE tdigest0 COMPRESSION 1",
    "TDIGEST.CREATE tdigest1 COMPRESSION 10",
    "TDIGEST.CREATE tdigest2 COMPRESSION 50",
    // Keys that RedisBloom takes for options.
    "CF.RESERVE EXPANSION 64",
    "CF.RESERVE bucketsize 8",
];

/// Random commands of each family.
pub const WRITES: [fn(&mut Rng) -> String; 4] = [cuckoo, cms, topk, tdigest];

fn cuckoo(random: &mut Rng) -> String {
    let (key, item) = (random.below(6), random.below(400));
    let several = |count| items(&item.to_string(), count);
    match random.below(20) {
        0 => format!("CF.RESERVE cf{key} {} EXPANSION {}", 4 + item, key % 4),
        1..7 => format!("CF.ADD cf{key} {item}"),
        7 | 8 => format!("CF.ADDNX cf{key} {item}"),
        9 | 10 => format!("CF.INSERT cf{key} CAPACITY 64 ITEMS {}", several(30)),
        11 | 12 => format!("CF.INSERTNX cf{key} ITEMS {}", several(10)),
        13..16 => format!("CF.DEL cf{key} {item}"),
        16 => format!("CF.COMPACT cf{key}"),
        17 if random.one_in(10) => format!("DEL cf{key}"),
        _ => format!("CF.DEL cf{key} {item}-3"),
    }
}

fn cms(random: &mut Rng) -> String {
    let number = |random: &mut Rng| match random.below(8) {
        0 => "0".to_owned(),
        1 => "-3".to_owned(),
        2 => "4294967295".to_owned(),
        _ => random.below(20).to_string(),
    };
    let (key, [one, other]) = (random.below(6), [(); 2].map(|()| number(random)));
    match random.below(6) {
        0 => format!("CMS.MERGE cms{} 2 cms1 cms2", 1 + key % 3),
        1 => format!("CMS.MERGE cms{key} 2 cms{key} cms{key} WEIGHTS {one} {other}"),
        _ => {
            let pairs = (0..30).map(|_| format!(" {} {}", random.below(100), number(random)));
            format!("CMS.INCRBY cms{key}{}", pairs.collect::<String>())
        }
    }
}

fn topk(random: &mut Rng) -> String {
    let (key, item) = (random.below(6), random.below(90));
    match random.below(10) {
        0 => format!("COPY topk{key} copy{key} REPLACE"),
        // The pairs before the wrong one are added.
        1 => format!("TOPK.INCRBY topk{key} {item} 100000 a x b 1"),
        2 => format!("TOPK.INCRBY topk{key} {item} {}", random.below(3000)),
        3 => format!("TOPK.INCRBY topk{key} {item} 0"),
        _ => format!("TOPK.ADD topk{key} {} {item}", random.below(1 + item)),
    }
}

fn tdigest(random: &mut Rng) -> String {
    let [key, other] = [(); 2].map(|()| random.below(3));
    let value = random.below(9999);
    match random.below(40) {
        0 => format!("TDIGEST.MERGE tdigest{key} 2 tdigest{other} tdigest{key} OVERRIDE"),
        1 => format!("TDIGEST.RESET tdigest{key}"),
        2..10 => format!("TDIGEST.QUANTILE tdigest{key} 0.5 0.9"),
        _ => format!("TDIGEST.ADD tdigest{key} {} {value}.25", random.below(50)),
    }
}

/// Returns a digest of all values, and what shows whether t-digests were compressed.
fn state(server: &Server) -> (String, [Reply; 3]) {
    let mut client = server.client();
    let keys = [0, 1, 2].map(|number| format!("tdigest{number}"));
    let infos = keys.map(|key| client.cmd(&format!("TDIGEST.INFO {key}")));
    (client.cmd("DEBUG DIGEST").text(), infos)
}

/// A random life on a primary with two replicas: one with other settings that is read, writes a log, ends at any error,
/// and becomes a primary; and one that comes late.
#[test]
fn replicas_and_logs_hold_the_same_values() {
    let primary = Server::start();
    let mut replica = other_settings(Server::replica_of(&primary))
        .config("propagation-error-behavior", "panic")
        .config("appendonly", "yes")
        .start();
    wait_in_sync(&primary, &replica);
    let (mut client, mut far) = (primary.client(), replica.client());
    client.all_ok(MADE);
    let mut random = Rng::new(12);
    for step in 0..3000 {
        for family in WRITES {
            client.cmd(&family(&mut random));
        }
        far.cmd(&format!("TDIGEST.CDF tdigest{} 7", step % 3));
        if step == 1500 {
            client.cmd("DEBUG RELOAD");
        }
        if step % 10 == 0 {
            sums::is_balanced(&mut client);
        }
    }
    wait_in_sync(&primary, &replica);
    let expected = state(&primary);
    assert_eq!(state(&replica), expected);
    let keys = client.cmd("KEYS *");
    let keys = keys.as_array().iter().map(Reply::text);
    let digests: BTreeSet<_> = keys
        .map(|key| {
            // RedisBloom 8.12 loads all of it.
            let dump = Dump::of(client.cmd(&format!("DUMP {key}")).as_bytes());
            assert_eq!(dump.expect("a module's value").check(), Ok(()), "{key}");
            digest(&mut client, &key)
        })
        .collect();
    assert!(digests.len() > 25, "{digests:?}");

    let late = other_settings(Server::replica_of(&primary)).start();
    wait_in_sync(&primary, &late);
    assert_eq!(state(&late).0, expected.0);
    replica.client().ok("REPLICAOF NO ONE");
    replica.client().cmd("CONFIG REWRITE");
    for rewrites in [false, true] {
        if rewrites {
            rewrite_aof(&replica);
        }
        replica.restart();
        assert_eq!(state(&replica).0, expected.0);
    }
    // Both go on with the same chance.
    let limits = "bf.bloom-memory-usage-limit 0 bf.bloom-filter-max-memory-usage 64mb";
    for server in [&primary, &replica] {
        let mut client = server.client();
        client.ok(format!("CONFIG SET {limits}"));
        (0..300).for_each(|number| drop(client.cmd(&format!("TOPK.ADD topk0 {number}"))));
        sums::is_balanced(&mut client);
    }
    assert_ne!(state(&primary).0, expected.0);
    assert_eq!(state(&primary).0, state(&replica).0);
}
