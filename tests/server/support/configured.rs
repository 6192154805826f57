//! Servers with other settings than those under which their objects were made.

use std::fs::OpenOptions;
use std::io::Write as _;

use crate::harness::{Builder, Server};

/// Settings under which all objects would come out other than under a primary's.
pub const OTHER_SETTINGS: [(&str, &str); 16] = [
    ("bf.bloom-capacity", "7"),
    ("bf.bloom-expansion", "0"),
    ("bf.bloom-fp-rate", "0.2"),
    ("bf.bloom-tightening-ratio", "0.9"),
    ("bf.bloom-filter-max-memory-usage", "1"),
    ("bf.bloom-memory-usage-limit", "1"),
    ("bf.bloom-saturate-nonscaling", "no"),
    ("bf.bloom-use-random-seed", "no"),
    ("bf.bloom-new-filters", "redisbloom"),
    ("bf.cf-initial-size", "600"),
    ("bf.cf-bucket-size", "5"),
    ("bf.cf-max-iterations", "1"),
    ("bf.cf-expansion-factor", "0"),
    ("bf.cf-max-expansions", "1"),
    // What fits is counted alike.
    ("bf.cms-overflow", "saturate"),
    ("bf.cms-encoding", "1"),
];

/// The values of `bf.bloom-new-filters`.
pub const MAKERS: [&str; 3] = ["own", "valkey-bloom", "redisbloom"];

/// Returns a server that makes filters of this kind, with the capacity that both peers have by default.
pub fn made_by(maker: &str) -> Builder {
    Server::builder()
        .config("bf.bloom-new-filters", maker)
        .config("bf.bloom-capacity", "100")
}

pub fn other_settings(mut builder: Builder) -> Builder {
    for (name, value) in OTHER_SETTINGS {
        builder = builder.config(name, value);
    }
    builder
}

/// Appends to the config file of a server that is down.
pub fn configure(server: &Server, lines: &str) {
    let file = OpenOptions::new()
        .append(true)
        .open(server.dir().join("server.conf"));
    file.expect("the server has a config file")
        .write_all(lines.as_bytes())
        .expect("the file can be written to");
}
