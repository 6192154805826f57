//! The golden vectors of tests/vectors, which docs/vectors.md describes: every form of their bytes makes the same value, and
//! commands make it for a case of each family.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Server, digest, int, ok};
use crate::support::recordings::{hex, word};

/// For each family, the name of a case, the command that creates its object, and the one that adds the items of its only
/// change.
const MADE: [(&str, &str, &str, &str); 5] = [
    (
        "bloom",
        "large rate and batches",
        "BF.INSERT k CAPACITY 1000 ERROR 0.3 EXPANSION 2 SEED",
        "BF.MADD k",
    ),
    (
        "cuckoo",
        "fixed",
        "CF.RESERVE k 8 BUCKETSIZE 2 EXPANSION 0",
        "CF.INSERT k ITEMS",
    ),
    (
        "count-min",
        "one row, collisions",
        "CMS.INITBYDIM k 3 1",
        "CMS.INCRBY k",
    ),
    (
        "top-k",
        "numbered",
        "TOPK.RESERVE k 3 8 7 0.9",
        "TOPK.INCRBY k",
    ),
    (
        "t-digest",
        "few",
        "TDIGEST.CREATE k COMPRESSION 100",
        "TDIGEST.ADD k",
    ),
];

#[test]
fn values_have_the_bytes_of_the_vectors() {
    let server = Server::start();
    let mut client = server.client();
    for (family, made, create, add) in MADE {
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
            client.call_with(create, seed.as_slice());
            let step = case["steps"][0].as_object().unwrap();
            let items = step.iter().find(|(name, _)| *name != "reply").unwrap().1;
            let items = items.as_array().unwrap().iter();
            // An increment is an item and a number.
            let words = items.flat_map(|item| match item {
                Value::Array(pair) => pair.iter().map(word).collect(),
                item => vec![word(item)],
            });
            client.call_with(add, &words.collect::<Vec<_>>());
            assert_eq!(digest(&mut client, "k"), value, "{family}");
        }
        assert!(is_made, "{made}");
    }
}
