//! Payloads of t-digests that no command makes: some are mended, and others refused.

use std::fs;

use crate::harness::{Client, Server, array, bulk, error, ok};
use crate::support::forged::{Rdb, file, rdb_version};
use crate::support::protocols::in_both_protocols;

/// The id of the type, without its encoding version.
const TYPE_ID: u64 = 0x4c32_12f9_360f_1000;

/// The numbers of a payload: compression, smallest and largest value, capacity, counts and weights.
#[derive(Clone)]
struct Fields {
    doubles: [f64; 3],
    counts: [u64; 4],
    weights: [f64; 2],
    means: Vec<f64>,
    node_weights: Vec<f64>,
}

/// A digest of 1, 2 and 3.
fn valid() -> Fields {
    Fields {
        doubles: [100.0, 1.0, 3.0],
        counts: [610, 3, 0, 1],
        weights: [3.0, 0.0],
        means: vec![1.0, 2.0, 3.0],
        node_weights: vec![1.0; 3],
    }
}

impl Fields {
    fn value(&self) -> Rdb {
        let value = Rdb::of_type(TYPE_ID);
        let value = self.doubles.into_iter().fold(value, Rdb::double);
        let value = self.counts.into_iter().fold(value, Rdb::uint);
        let value = self.weights.into_iter().fold(value, Rdb::double);
        let nodes = self.means.iter().chain(&self.node_weights).copied();
        nodes.fold(value, Rdb::double)
    }
}

/// Means that are not finite are mended, with a line in the log for each load.
#[test]
fn means_that_overflowed_are_mended() {
    const LINE: &str = "mended t-digests whose means were infinite or not numbers: ";
    let mut server = Server::start();
    let mut mended = [valid(), valid()];
    mended[0].means[1] = f64::NAN;
    mended[1].means[2] = f64::INFINITY;
    let [nan, infinite] = mended.map(|fields| fields.value());
    let answers = |server: &Server, key: &str, answer: &str| {
        let mut client = server.client();
        client.expect(
            format!("TDIGEST.QUANTILE {key} 0.5 1"),
            array([bulk(answer), bulk("3")]),
        );
    };
    let payload = nan.clone().payload([9, 0]);
    let restored = server.client().restore("a", &payload);
    assert_eq!(restored, ok());
    answers(&server, "a", "1");
    assert!(server.log_contains(&format!("{LINE}1")));
    server.shutdown();
    let file = file(&[("a", &nan), ("b", &infinite)]);
    fs::write(server.dir().join("dump.rdb"), file).unwrap();
    server.start_again();
    answers(&server, "a", "1");
    answers(&server, "b", "2");
    assert!(server.log_contains(&format!("{LINE}2")));
}

/// Forged payloads that RedisBloom loads, answers nonsense to, or dies of.
#[test]
fn forged_payloads_are_refused() {
    type Forge = fn(&mut Fields);
    let forged: &[(&str, Forge)] = &[
        ("compression 0", |f| f.doubles[0] = 0.0),
        ("compression 0.5", |f| f.doubles[0] = 0.5),
        ("compression -1", |f| f.doubles[0] = -1.0),
        ("compression NaN", |f| f.doubles[0] = f64::NAN),
        ("compression inf", |f| f.doubles[0] = f64::INFINITY),
        ("compression 10^15", |f| f.doubles[0] = 1e15),
        ("min NaN", |f| f.doubles[1] = f64::NAN),
        ("max inf", |f| f.doubles[2] = f64::INFINITY),
        ("larger capacity", |f| f.counts[0] = 611),
        ("smaller capacity", |f| f.counts[0] = 609),
        ("negative capacity", |f| f.counts[0] = u64::MAX),
        ("more nodes than the capacity", |f| f.counts[1] = 611),
        ("negative nodes", |f| f.counts[1] = u64::MAX),
        ("missing nodes", |f| f.counts[1] = 4),
        ("spare nodes", |f| f.counts[1] = 2),
        ("5 unmerged nodes", |f| f.counts[2] = 5),
        ("negative compressions", |f| f.counts[3] = u64::MAX),
        ("too much weight", |f| f.weights[0] = 100.0),
        ("too little weight", |f| f.weights[0] = 1.0),
        ("unmerged weight", |f| f.weights[1] = 7.0),
        ("weight NaN", |f| f.weights[0] = f64::NAN),
        ("negative node", |f| f.node_weights[1] = -1.0),
        ("node of NaN", |f| f.node_weights[1] = f64::NAN),
        ("node of 10^300", |f| f.node_weights[1] = 1e300),
    ];
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        let version = rdb_version(client);
        let restore = |client: &mut Client, value: Rdb| {
            client.call(&[b"RESTORE", b"k", b"0", &value.payload(version), b"REPLACE"])
        };
        let bad = error("ERR Bad data format");
        assert_eq!(restore(client, valid().value()), ok());
        let state = client.cmd("DEBUG DIGEST");
        for (name, forge) in forged {
            let mut fields = valid();
            forge(&mut fields);
            assert_eq!(restore(client, fields.value()), bad, "{name}");
        }
        assert_eq!(restore(client, valid().value().double(1.0)), bad);
        let mut next_version = valid().value();
        next_version.0[9] |= 1;
        assert_eq!(restore(client, next_version), bad);
        client.expect("DEBUG DIGEST", &state);
    });
}
