//! Refusals: their texts in both protocols, and that a refused command changes nothing.

use std::fs;

use crate::harness::{Client, Server, array, bulk, error, ok};
use crate::support::forged::{Rdb, file, rdb_version};
use crate::support::protocols::in_both_protocols;
use crate::support::refused::{Refusals, WRONG_TYPE};

/// The id of the type, without its encoding version.
const TYPE_ID: u64 = 0x4c32_12f9_360f_1000;

/// Commands, and the error of each. `k` is a digest, `full` one of 2⁶² values, `none` is not a key, and `text` a string.
const ROWS: &str = "
TDIGEST.CREATE k COMPRESSION x => ERR T-Digest: key already exists
TDIGEST.CREATE text what 0 => WRONGTYPE Operation against a key holding the wrong kind of value
TDIGEST.CREATE new what 100 => ERR T-Digest: wrong keyword
TDIGEST.CREATE new COMPRESSION x => ERR T-Digest: error parsing compression parameter
TDIGEST.CREATE new COMPRESSION 0 => ERR T-Digest: compression parameter needs to be a positive integer
TDIGEST.CREATE new COMPRESSION 357913939 => ERR T-Digest: allocation failed
TDIGEST.CREATE new COMPRESSION 100001 => ERR T-Digest: allocation failed
TDIGEST.CREATE new COMPRESSION 9223372036854775807 => ERR T-Digest: allocation failed
TDIGEST.RESET none => ERR T-Digest: key does not exist
TDIGEST.ADD none x => ERR T-Digest: key does not exist
TDIGEST.ADD k 1 infinity x => ERR T-Digest: val parameter needs to be a finite number
TDIGEST.ADD k 1 x inf => ERR T-Digest: error parsing val parameter
TDIGEST.QUANTILE none x => ERR T-Digest: key does not exist
TDIGEST.QUANTILE k 0.5 x => ERR T-Digest: error parsing quantile
TDIGEST.QUANTILE k 1.1 x => ERR T-Digest: quantile should be in [0,1]
TDIGEST.CDF none x => ERR T-Digest: key does not exist
TDIGEST.CDF k 1 x => ERR T-Digest: error parsing cdf
TDIGEST.RANK none x => ERR T-Digest: key does not exist
TDIGEST.RANK k x => ERR T-Digest: error parsing value
TDIGEST.REVRANK none x => ERR T-Digest: key does not exist
TDIGEST.REVRANK k nan => ERR T-Digest: error parsing value
TDIGEST.BYRANK none x => ERR T-Digest: key does not exist
TDIGEST.BYRANK k 1.5 => ERR T-Digest: error parsing rank
TDIGEST.BYRANK k -1 x => ERR T-Digest: rank needs to be non negative
TDIGEST.BYREVRANK none x => ERR T-Digest: key does not exist
TDIGEST.BYREVRANK k 1e3 => ERR T-Digest: error parsing rank
TDIGEST.BYREVRANK k -2 => ERR T-Digest: rank needs to be non negative
TDIGEST.MIN none => ERR T-Digest: key does not exist
TDIGEST.MAX none => ERR T-Digest: key does not exist
TDIGEST.INFO none => ERR T-Digest: key does not exist
TDIGEST.TRIMMED_MEAN none x y => ERR T-Digest: key does not exist
TDIGEST.TRIMMED_MEAN k x y => ERR T-Digest: error parsing low_cut_percentile
TDIGEST.TRIMMED_MEAN k 2 y => ERR T-Digest: error parsing high_cut_percentile
TDIGEST.TRIMMED_MEAN k -0.1 0.5
=> ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]
TDIGEST.TRIMMED_MEAN k 0.5 0.5
=> ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile
TDIGEST.MERGE text x k => WRONGTYPE Operation against a key holding the wrong kind of value
TDIGEST.MERGE new x k => ERR T-Digest: error parsing numkeys
TDIGEST.MERGE new 0 k => ERR T-Digest: numkeys needs to be a positive integer
TDIGEST.MERGE new 2 k => ERR wrong number of arguments for 'tdigest.merge' command
TDIGEST.MERGE new 1 none what => ERR T-Digest: wrong keyword
TDIGEST.MERGE new 1 none COMPRESSION 0
=> ERR T-Digest: compression parameter needs to be a positive integer
TDIGEST.MERGE new 1 none => ERR T-Digest: key does not exist
TDIGEST.MERGE new 2 none text => ERR T-Digest: key does not exist
TDIGEST.MERGE new 2 text none => WRONGTYPE Operation against a key holding the wrong kind of value
TDIGEST.MERGE new 1 new => ERR T-Digest: key does not exist
TDIGEST.MERGE new 1 none COMPRESSION 357913939 => ERR T-Digest: key does not exist
TDIGEST.MERGE new 1 k COMPRESSION 100001
=> ERR T-Digest: allocation of destination digest failed
TDIGEST.MERGE new 2 full full => ERR T-Digest: overflow detected
TDIGEST.MERGE full 1 full => ERR T-Digest: overflow detected
TDIGEST.MERGE k 2 full full => ERR T-Digest: overflow detected
";

#[test]
fn refused_commands_change_nothing() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.all_ok([
            "TDIGEST.CREATE k",
            "TDIGEST.ADD k 1 2 3",
            "TDIGEST.CREATE full",
            "TDIGEST.ADD full 1",
        ]);
        for _ in 0..62 {
            client.ok("TDIGEST.MERGE full 1 full");
        }
        let state = ["DEBUG DIGEST", "TDIGEST.INFO k", "TDIGEST.INFO full"];
        let mut refused = Refusals::of(client, &state);
        refused.check_rows(ROWS);
        refused.check_others("tdigest.", WRONG_TYPE);
    });
}

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
    let restored = server.client().call(&[b"RESTORE", b"a", b"0", &payload]);
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

/// Limits on memory hold for clients; a log is applied without limits.
#[test]
fn memory_limits_hold_for_a_full_digest() {
    let server = Server::start();
    let mut client = server.client();
    for setting in [
        "bf.bloom-filter-max-memory-usage",
        "bf.bloom-memory-usage-limit",
    ] {
        client.ok("FLUSHALL");
        client.ok("TDIGEST.CREATE k COMPRESSION 500");
        let default = client.cmd(&format!("CONFIG GET {setting}"));
        let default = default.as_array()[1].text();
        client.ok(format!("CONFIG SET {setting} 20000"));
        client.ok("TDIGEST.CREATE small COMPRESSION 200");
        client.expect(
            "TDIGEST.CREATE new COMPRESSION 210",
            error("ERR T-Digest: allocation failed"),
        );
        let refused = client.cmd("TDIGEST.MERGE new 1 k");
        let text = "ERR T-Digest: allocation of destination digest failed";
        assert_eq!(refused, error(text));
        client.ok("TDIGEST.MERGE new 1 k COMPRESSION 200");
        // A digest that is there already takes values.
        client.ok("TDIGEST.ADD k 1 2 3");
        client.ok(format!("CONFIG SET {setting} {default}"));
    }
}
