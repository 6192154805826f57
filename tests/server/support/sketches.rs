//! Values of RedisBloom's sketches, and the commands that would read them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Client, ok};
use crate::support::forged::seal;
use crate::support::recordings::hex;

/// The names of their types.
pub const TYPES: [&str; 3] = ["CMSk-TYPE", "TopK-TYPE", "TDIS-TYPE"];

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

/// The commands that read sketches, each with the words after its key.
pub const COMMANDS: &[(&str, &str)] = &[
    ("CMS.QUERY", "item"),
    ("CMS.INFO", ""),
    ("TOPK.QUERY", "item"),
    ("TOPK.COUNT", "item"),
    ("TOPK.LIST", ""),
    ("TOPK.INFO", ""),
    ("TDIGEST.MIN", ""),
    ("TDIGEST.MAX", ""),
    ("TDIGEST.QUANTILE", "0.5"),
    ("TDIGEST.CDF", "1"),
    ("TDIGEST.TRIMMED_MEAN", "0.1 0.9"),
    ("TDIGEST.RANK", "1"),
    ("TDIGEST.REVRANK", "1"),
    ("TDIGEST.BYRANK", "1"),
    ("TDIGEST.BYREVRANK", "1"),
    ("TDIGEST.INFO", ""),
];

/// A value that RedisBloom 8.8 wrote.
pub struct Sketch {
    pub key: String,
    pub type_name: String,
    /// Its DUMP without compression, and as the server compresses it by default; both without the footer.
    pub plain: Vec<u8>,
    dump: Vec<u8>,
}

impl Sketch {
    /// Returns a payload that RESTORE takes on every server.
    pub fn payload(&self) -> Vec<u8> {
        seal(self.plain.clone(), [9, 0])
    }

    /// Requires that a key holds it, to the byte.
    #[track_caller]
    pub fn is_under(&self, client: &mut Client, key: &str) {
        let dump = client.cmd(&format!("DUMP {key}"));
        let (value, _) = dump
            .as_bytes()
            .split_at(dump.as_bytes().len() - FOOTER_BYTES);
        assert!(value == self.dump, "{key} is another {}", self.key);
    }

    /// Restores it under its key.
    #[track_caller]
    pub fn restore(&self, client: &mut Client) {
        let restore: [&[u8]; 4] = [b"RESTORE", self.key.as_bytes(), b"0", &self.payload()];
        assert_eq!(client.call(&restore), ok(), "{}", self.key);
    }
}

pub fn recorded() -> Vec<Sketch> {
    let path = "tests/data/redisbloom-8.8-cuckoo/sketches.json";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(path).expect("the file is there");
    let all: Value = serde_json::from_str(&text).expect("the file is JSON");
    let all = all.as_object().expect("an object per key").iter();
    let all: Vec<Sketch> = all
        .map(|(key, value)| {
            let value_of = |name: &str| {
                let dump = hex(&value[name]);
                dump[..dump.len() - FOOTER_BYTES].to_vec()
            };
            Sketch {
                key: key.clone(),
                type_name: value["type"].as_str().expect("a name").to_owned(),
                plain: value_of("dump_plain"),
                dump: value_of("dump"),
            }
        })
        .collect();
    assert_eq!(all.len(), 9);
    all
}

pub fn restore_all(client: &mut Client) -> Vec<Sketch> {
    let all = recorded();
    for sketch in &all {
        sketch.restore(client);
    }
    all
}

/// Returns whether a key of a population holds a value of a sketch.
pub fn is_one(key: &str) -> bool {
    ["cms", "topk", "tdigest"]
        .iter()
        .any(|begin| key.starts_with(begin))
}

/// Returns whether a command is served, not always refused.
pub fn is_served(command: &str) -> bool {
    !COMMANDS
        .iter()
        .any(|(name, _)| command.eq_ignore_ascii_case(name))
}
