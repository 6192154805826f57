//! Listings in Prometheus' text format, for the textfile collector of its node exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use valkeybloom_protocol::names::TYPES;

use crate::failure::visible;
use crate::held::read::Listing;
use crate::held::row::{Details, Row};
use crate::report::double;
use crate::server::Server;

/// The memory of a server, or of a cluster's primaries, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub used: u64,
    /// The setting maxmemory; `None` if a node has no limit.
    pub limit: Option<u64>,
}

/// A metric of each key: its name, its help, and its value.
type Metric = (&'static str, &'static str, fn(&Row) -> Option<f64>);

const METRICS: [Metric; 11] = [
    (
        "valkeybloom_items",
        "Items of a filter or a Top-K, increments of a count-min sketch, observations of a t-digest.",
        |row| row.items.map(double),
    ),
    (
        "valkeybloom_capacity_items",
        "Items that a filter or a Top-K has room for.",
        |row| row.capacity.map(double),
    ),
    (
        "valkeybloom_limit_items",
        "The most items that a Bloom filter takes.",
        |row| row.bloom()?.reach.map(double),
    ),
    ("valkeybloom_bytes", "Memory of a key.", |row| {
        row.bytes.map(double)
    }),
    (
        "valkeybloom_error_rate_requested",
        "Requested error rate.",
        |row| row.rate,
    ),
    (
        "valkeybloom_error_rate_now",
        "Error rate that the server estimates for the present contents.",
        |row| row.rate_now,
    ),
    ("valkeybloom_filters", "Filters of a key.", |row| {
        row.filters.map(double)
    }),
    (
        "valkeybloom_feed_bytes",
        "Memory of the feed of a Bloom filter that is being read.",
        |row| row.bloom()?.feed_bytes.map(double),
    ),
    (
        "valkeybloom_feed_readers",
        "Connections that read the feed of a Bloom filter within the last minute.",
        |row| row.bloom()?.readers.map(double),
    ),
    (
        "valkeybloom_partly_loaded",
        "Whether a copy of the key was not finished, 0 or 1.",
        |row| Some(f64::from(row.details == Details::PartlyLoaded)),
    ),
    (
        "valkeybloom_ttl_seconds",
        "Time to live of a key that expires.",
        |row| Some(double(row.ttl_ms?.try_into().ok()?) / 1000.0),
    ),
];

/// Returns a listing in the text format. Labels name the server, because a collector may read the files of several.
pub fn text(listing: &Listing, of: &Server, memory: Option<Memory>) -> String {
    let server = format!("server=\"{}\"", label(of.address().to_string().as_bytes()));
    let database = format!("db=\"{}\",{server}", of.database());
    let mut text = String::new();
    for (name, help, value) in METRICS {
        let values = listing.rows.iter().filter_map(|row| {
            let (key, kind, value) = (label(&row.key), &row.kind, value(row)?);
            Some((format!("key=\"{key}\",type=\"{kind}\",{database}"), value))
        });
        add(&mut text, name, help, values);
    }
    let mut types: BTreeMap<&str, u64> = TYPES.into_iter().map(|kind| (kind, 0)).collect();
    for row in &listing.rows {
        *types.entry(&row.kind).or_default() += 1;
    }
    let types = types.into_iter();
    let types = types.map(|(kind, keys)| (format!("type=\"{kind}\",{database}"), double(keys)));
    add(&mut text, "valkeybloom_keys", "Keys of a type.", types);
    let unreadable = double(listing.unreadable.keys);
    add(
        &mut text,
        "valkeybloom_unreadable_keys",
        "Keys that could not be read.",
        [(database.clone(), unreadable)],
    );
    if let Some(Memory { used, limit }) = memory {
        add(
            &mut text,
            "valkeybloom_server_memory_used_bytes",
            "Memory of the server, or of a cluster's primaries.",
            [(server.clone(), double(used))],
        );
        if let Some(limit @ 1..) = limit {
            add(
                &mut text,
                "valkeybloom_server_memory_limit_bytes",
                "The setting maxmemory, absent if a node has no limit.",
                [(server, double(limit))],
            );
        }
    }
    text
}

/// Adds a metric with its labels and values.
fn add(text: &mut String, name: &str, help: &str, values: impl IntoIterator<Item = (String, f64)>) {
    // Writing to a String can't fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
}

/// Returns a key as the value of a label. Different keys have different values: a key that is not UTF-8, begins with a
/// quote, or has characters that a terminal would act on, is written in quotes, with escapes.
fn label(key: &[u8]) -> String {
    let text = match str::from_utf8(key) {
        Ok(text) if !text.starts_with('"') && text.split('\n').all(is_visible) => text.to_owned(),
        _ => format!("\"{}\"", key.escape_ascii()),
    };
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

fn is_visible(line: &str) -> bool {
    visible(line) == line
}

/// Replaces a file in one step, so that no reader sees half of it. At the end of a symbolic link it is the file that the
/// link points to, which may be missing. The new file has the old one's permissions. A pipe or a device is written to
/// instead.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    let file = target(file)?;
    let old = file.metadata().ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::write(file, text);
    }
    // The collector reads names that end in `.prom`. A name may be as long as a folder takes, so this one does not have it.
    let name = format!(".valkeybloom-{:016x}.tmp", getrandom::u64()?);
    let temporary = &file.with_file_name(name);
    // Nobody else has this file, in this process or another one.
    let mut new = File::create_new(temporary)?;
    let done = old
        .map_or(Ok(()), |old| new.set_permissions(old.permissions()))
        .and_then(|()| new.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(temporary, file));
    if done.is_err() {
        let _ = fs::remove_file(temporary);
    }
    done
}

/// Returns the file at the end of symbolic links.
fn target(file: &Path) -> io::Result<PathBuf> {
    /// As many as Linux follows.
    const LINKS: usize = 40;
    let mut file = file.to_owned();
    for _ in 0..LINKS {
        if !file.is_symlink() {
            return Ok(file);
        }
        let next = fs::read_link(&file)?;
        file.set_file_name(next);
    }
    // Reading it fails with the system's error.
    file.metadata().map(|_| file)
}
