//! Values of RedisBloom's sketches: count-min sketches, top-k lists and t-digests.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Client, Server, ok};
use crate::support::forged::seal;
use crate::support::recordings::hex;

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

/// A value that RedisBloom 8.8 wrote.
pub struct Sketch {
    pub key: String,
    pub type_name: String,
    /// A payload that RESTORE takes on every server.
    pub payload: Vec<u8>,
}

impl Sketch {
    /// Restores it under a key.
    #[track_caller]
    pub fn restore(&self, client: &mut Client, key: &str) {
        assert_eq!(client.restore(key, &self.payload), ok(), "{}", self.key);
    }
}

/// Returns the recorded values of all families.
pub fn recorded() -> Vec<Sketch> {
    let path = "tests/data/redisbloom-8.8-cuckoo/sketches.json";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(path).expect("the file is there");
    let all: Value = serde_json::from_str(&text).expect("the file is JSON");
    let all = all.as_object().expect("an object per key").iter();
    let all = all.map(|(key, value)| {
        let mut plain = hex(&value["dump_plain"]);
        plain.truncate(plain.len() - FOOTER_BYTES);
        Sketch {
            key: key.clone(),
            type_name: value["type"].as_str().expect("a name").to_owned(),
            payload: seal(plain, [9, 0]),
        }
    });
    all.collect()
}

/// Restores the recorded values under their keys.
#[track_caller]
pub fn restore_all(client: &mut Client) -> Vec<Sketch> {
    let all = recorded();
    for sketch in &all {
        sketch.restore(client, &sketch.key);
    }
    all
}

/// Returns whether a key of a population holds a sketch.
pub fn is_one(key: &str) -> bool {
    ["cms", "topk", "tdigest"]
        .iter()
        .any(|begin| key.starts_with(begin))
}

/// Replaces the RDB version of the payloads in a log, which older servers refuse, by this one.
pub fn reseal(log: &mut [Vec<Vec<u8>>], version: [u8; 2]) {
    for words in log.iter_mut().filter(|words| words[0] == b"RESTORE") {
        let value = words[3].len() - FOOTER_BYTES;
        words[3] = seal(words[3][..value].to_vec(), version);
    }
}

/// Starts a server on a file with the RDB version of RedisBloom 8.8's server, which is newer than most servers know.
/// Returns false if this server refuses the version.
#[track_caller]
pub fn starts_on(server: &mut Server, file: &Path) -> bool {
    let version = server.version();
    server.shutdown();
    fs::copy(file, server.dir().join("dump.rdb")).expect("it can be copied");
    if version.valkey && version.major >= 9 {
        server.start_again();
        return true;
    }
    refuses_version(&server.try_start_again().unwrap_err());
    false
}

/// Requires that a log has a server's own refusal of a file with a version that it does not know.
#[track_caller]
pub fn refuses_version(log: &str) {
    let refusals = ["Wrong signature", "Can't handle RDB format version 80"];
    assert!(refusals.iter().any(|text| log.contains(text)), "{log}");
}
