//! The golden vectors of tests/vectors, which docs/vectors.md describes: every form of their bytes makes the same value, and
//! commands make it for a case of each family. And one digest of values of every kind, for all processors.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Client, Reply, Server, array, bulk, digest, int, nil, ok, spaced};
use crate::support::recordings::{hex, word};

/// For each family, the name of a case, the command that creates its object, and the one that adds the items of its only
/// change.
const MADE: &str = "
bloom / large rate and batches / BF.INSERT k CAPACITY 1000 ERROR 0.3 EXPANSION 2 SEED / BF.MADD k
cuckoo / fixed / CF.RESERVE k 8 BUCKETSIZE 2 EXPANSION 0 / CF.INSERT k ITEMS
count-min / one row, collisions / CMS.INITBYDIM k 3 1 / CMS.INCRBY k
top-k / numbered / TOPK.RESERVE k 3 8 7 0.9 / TOPK.INCRBY k
t-digest / few / TDIGEST.CREATE k COMPRESSION 100 / TDIGEST.ADD k
";

#[test]
fn values_have_the_bytes_of_the_vectors() {
    let (_server, mut client) = Server::with_client();
    for line in MADE.trim().lines() {
        let parts: Vec<&str> = line.split(" / ").collect();
        let [family, made, create, add] = parts[..] else {
            panic!("{line}");
        };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
        let text = fs::read_to_string(folder.join(format!("{family}.json"))).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let mut is_made = false;
        for case in file["cases"].as_array().unwrap() {
            client.ok("FLUSHALL");
            assert_eq!(client.restore("k", hex(&case["dump"])), ok());
            let value = digest(&mut client, "k");
            if let Some(load) = case.get("load") {
                assert_eq!(client.call(&[b"BF.LOAD", b"loaded", &hex(load)]), ok());
                assert_eq!(digest(&mut client, "loaded"), value, "{}", case["name"]);
            }
            let load = if family == "bloom" { "BF" } else { "CF" };
            let chunks = case["chunks"].as_array();
            for chunk in chunks.into_iter().flatten() {
                let line = format!("{load}.LOADCHUNK chunks {}", chunk[0]);
                assert_eq!(client.call_with(&line, &[hex(&chunk[1])]), ok());
            }
            if chunks.is_some() {
                assert_eq!(digest(&mut client, "chunks"), value, "{}", case["name"]);
            }
            if case["name"] != made {
                continue;
            }
            is_made = true;
            client.expect("DEL k", int(1));
            let seed = case["create"].get("seed").map(hex);
            let created = client.call_with(create, seed.as_slice());
            // BF.INSERT has an answer for each item.
            let empty = create.starts_with("BF.INSERT").then(|| array([]));
            assert_eq!(created, empty.unwrap_or_else(ok), "{family}");
            let step = case["steps"][0].as_object().unwrap();
            let items = step.iter().find(|(name, _)| *name != "reply").unwrap().1;
            let items = items.as_array().unwrap().iter();
            // An increment is an item and a number.
            let words = items.flat_map(|item| match item {
                Value::Array(pair) => pair.iter().map(word).collect(),
                item => vec![word(item)],
            });
            let reply = client.call_with(add, &words.collect::<Vec<_>>());
            let due = step.get("reply").map_or_else(ok, reply_of);
            assert_eq!(reply, due, "{family}");
            assert_eq!(digest(&mut client, "k"), value, "{family}");
        }
        assert!(is_made, "{made}");
    }
}

/// Returns a reply of the vectors as the server's.
fn reply_of(value: &Value) -> Reply {
    match value {
        Value::Null => nil(),
        Value::Bool(is_new) => int((*is_new).into()),
        Value::Number(number) => int(number.as_i64().expect("a count")),
        Value::String(item) => bulk(item),
        Value::Array(replies) => array(replies.iter().map(reply_of)),
        Value::Object(_) => panic!("no reply of the server's: {value}"),
    }
}

/// Makes objects of every kind but windows, which contain the time. With a public seed, equal commands make equal bits.
fn make_all(client: &mut Client) {
    client.ok("CONFIG SET bf.bloom-use-random-seed no");
    for rate in ["0.5", "0.1", "0.01", "0.001", "0.000001", "0.000000000001"] {
        for capacity in [1, 10, 100, 1000, 10_000, 100_000] {
            client.ok(format!("BF.RESERVE {rate}-{capacity} {rate} {capacity}"));
        }
    }
    client.all_ok([
        "BF.RESERVE stack 0.01 1 EXPANSION 1",
        "BF.RESERVE steep 0.001 10 EXPANSION 4",
        "BF.RESERVE counting 0.01 100 COUNTING",
        "BF.RESERVE scaled 0.01 10 SCALETO 1000",
        "CF.RESERVE cuckoo 100 EXPANSION 1",
        "CMS.INITBYPROB counts 0.003 0.001",
        // Most items collide, and large increments take logarithms and powers.
        "TOPK.RESERVE top 10 8 4 0.9",
        "TOPK.RESERVE slow 5 3 2 0.9999",
        "TDIGEST.CREATE latency COMPRESSION 20",
    ]);
    let ratio = "BF.INSERT ratio CAPACITY 10 TIGHTENING 0.3 ITEMS a";
    client.expect(ratio, array([int(1)]));
    for batch in 1..10 {
        let items = spaced(70 * batch..=70 * batch + 100);
        for key in [
            "0.01-100",
            "0.5-1",
            "0.001-1000",
            "stack",
            "steep",
            "ratio",
            "counting",
            "scaled",
        ] {
            client.run(format!("BF.MADD {key} {items}"));
        }
        client.run(format!("CF.INSERT cuckoo ITEMS {items}"));
        client.run(format!(
            "CMS.INCRBY counts {}",
            spaced(70 * batch..70 * batch + 100)
        ));
        client.run(format!(
            "TOPK.ADD top {}",
            spaced(7 * batch..7 * batch + 100)
        ));
        for item in ["a", "b", "c", "d", "e", "f"] {
            client.run(format!("TOPK.INCRBY slow {item} {}", 11_000 * batch - 1000));
        }
        let values = (0..250).map(|step| f64::from(7 * batch) + 0.37 * f64::from(step));
        client.ok(format!("TDIGEST.ADD latency {}", spaced(values)));
    }
    client.expect("BF.MDEL counting 100 101 102", array([1, 1, 1].map(int)));
    client.ok("TDIGEST.MERGE latency 2 latency latency");
}

#[test]
fn equal_commands_make_equal_values_on_every_processor() {
    let (_server, mut client) = Server::with_client();
    make_all(&mut client);
    let digest = client.cmd("DEBUG DIGEST").text();
    assert_eq!(digest, "ea1d63aebbec946dd8d105ddb47b0f92fa7149cf");
}
