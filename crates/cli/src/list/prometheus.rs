//! Listings in Prometheus' text format, for the textfile collector of its node exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use valkeybloom_protocol::names::TYPES;

use crate::failure::text_of;
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

/// A metric of each key.
struct Metric {
    name: &'static str,
    help: &'static str,
    value: fn(&Row) -> Option<f64>,
}

const METRICS: [Metric; 11] = [
    Metric {
        name: "valkeybloom_items",
        help: "Items of a filter or a Top-K, increments of a count-min sketch, observations of a t-digest.",
        value: |row| row.items.map(double),
    },
    Metric {
        name: "valkeybloom_capacity_items",
        help: "Items that a filter or a Top-K has room for.",
        value: |row| row.capacity.map(double),
    },
    Metric {
        name: "valkeybloom_limit_items",
        help: "The most items that a Bloom filter takes.",
        value: |row| row.bloom()?.reach.map(double),
    },
    Metric {
        name: "valkeybloom_bytes",
        help: "Memory of a key.",
        value: |row| row.bytes.map(double),
    },
    Metric {
        name: "valkeybloom_error_rate_requested",
        help: "Requested error rate.",
        value: |row| row.rate,
    },
    Metric {
        name: "valkeybloom_error_rate_now",
        help: "Error rate that the server estimates for the present contents.",
        value: |row| row.rate_now,
    },
    Metric {
        name: "valkeybloom_filters",
        help: "Filters of a key.",
        value: |row| row.filters.map(double),
    },
    Metric {
        name: "valkeybloom_feed_bytes",
        help: "Memory of the feed of a Bloom filter that is being read.",
        value: |row| row.bloom()?.feed_bytes.map(double),
    },
    Metric {
        name: "valkeybloom_feed_readers",
        help: "Connections that read the feed of a Bloom filter within the last minute.",
        value: |row| row.bloom()?.readers.map(double),
    },
    Metric {
        name: "valkeybloom_partly_loaded",
        help: "Whether a copy of the key was not finished, 0 or 1.",
        value: |row| Some(f64::from(row.details == Details::PartlyLoaded)),
    },
    Metric {
        name: "valkeybloom_ttl_seconds",
        help: "Time to live of a key that expires.",
        value: |row| Some(double(row.ttl_ms?.try_into().ok()?) / 1000.0),
    },
];

/// Returns a listing in the text format. Labels name the server, because a collector may read the files of several.
pub fn text(listing: &Listing, of: &Server, memory: Option<Memory>) -> String {
    let server = format!("server=\"{}\"", label(of.address().to_string().as_bytes()));
    let database = format!("db=\"{}\",{server}", of.database());
    let mut text = String::new();
    for metric in METRICS {
        let values = listing.rows.iter().filter_map(|row| {
            let (key, kind, value) = (label(&row.key), &row.kind, (metric.value)(row)?);
            Some((format!("key=\"{key}\",type=\"{kind}\",{database}"), value))
        });
        add(&mut text, metric.name, metric.help, values);
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

/// Returns a key as the value of a label. Its text has no line ends.
fn label(key: &[u8]) -> String {
    text_of(key).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Replaces a file in one step, so that no reader sees half of it. At the end of a symbolic link it is the file that the
/// link points to, which may be missing. The new file has the old one's permissions. A pipe or a device is written to
/// instead.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    let old = file.metadata().ok();
    // A link in /dev/fd does not have the path of what it points to.
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return fs::write(file, text);
    }
    let file = target(file)?;
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn an_open_pipe_is_written_to() {
        let (from, to) = io::pipe().expect("a pipe");
        let path = format!("/dev/fd/{}", to.as_raw_fd());
        replace(Path::new(&path), "some text").expect("it takes some bytes");
        drop(to);
        assert_eq!(io::read_to_string(from).expect("it is a text"), "some text");
    }
}
