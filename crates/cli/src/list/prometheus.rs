//! Listings in Prometheus' text format, for the textfile collector of its node exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use valkeybloom_protocol::names::TYPES;

use super::read::Listing;
use super::row::{Details, Row, Ttl};
use crate::report::double;

/// The memory of a server, or of a cluster's primaries, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    pub used: u64,
    /// The setting maxmemory; 0 for no limit.
    pub max: u64,
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
        "valkeybloom_period_items",
        "Items of a Bloom filter, with a window those of the current period.",
        |row| match &row.details {
            Details::Bloom(bloom) => bloom.reaching.map(double),
            _ => None,
        },
    ),
    (
        "valkeybloom_limit_items",
        "The most items that a Bloom filter takes, with a window in a period.",
        |row| match &row.details {
            Details::Bloom(bloom) => bloom.reach.map(double),
            _ => None,
        },
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
        "valkeybloom_periods",
        "Periods of a filter with a window that hold items, 1 for other filters.",
        |row| {
            row.filters?;
            match &row.details {
                Details::Bloom(bloom) => {
                    Some(bloom.live_periods.map_or(1.0, |live| double(live.max(1))))
                }
                _ => Some(1.0),
            }
        },
    ),
    (
        "valkeybloom_partly_loaded",
        "Whether a copy of the key was not finished, 0 or 1.",
        |row| {
            Some(if row.details == Details::PartlyLoaded {
                1.0
            } else {
                0.0
            })
        },
    ),
    (
        "valkeybloom_ttl_seconds",
        "Time to live of a key that expires.",
        |row| match row.ttl? {
            #[allow(clippy::cast_precision_loss, reason = "times are far below 2⁵³ ms")]
            Ttl::Ms(ms) => Some(ms as f64 / 1000.0),
            Ttl::Never => None,
        },
    ),
];

/// Where a listing comes from. Labels name it, because a collector may read the files of several servers.
pub struct Source<'s> {
    pub address: &'s str,
    pub database: i64,
}

/// Returns a listing in the text format.
pub fn text(listing: &Listing, source: &Source<'_>, memory: Option<Memory>) -> String {
    let server = format!("server=\"{}\"", label(source.address.as_bytes()));
    let of_database = format!("db=\"{}\",{server}", source.database);
    let mut text = String::new();
    for (name, help, value) in METRICS {
        head(&mut text, name, help);
        for row in &listing.rows {
            if let Some(value) = value(row) {
                let (key, kind) = (label(&row.key), &row.kind);
                line(
                    &mut text,
                    name,
                    &format!("{{key=\"{key}\",type=\"{kind}\",{of_database}}}"),
                    value,
                );
            }
        }
    }
    let mut types: BTreeMap<&str, u64> = TYPES.into_iter().map(|kind| (kind, 0)).collect();
    for row in &listing.rows {
        *types.entry(&row.kind).or_default() += 1;
    }
    head(&mut text, "valkeybloom_keys", "Keys of a type.");
    for (kind, keys) in types {
        let labels = format!("{{type=\"{kind}\",{of_database}}}");
        line(&mut text, "valkeybloom_keys", &labels, double(keys));
    }
    let name = "valkeybloom_unreadable_keys";
    head(&mut text, name, "Keys that could not be read.");
    line(
        &mut text,
        name,
        &format!("{{{of_database}}}"),
        double(listing.unreadable.keys),
    );
    let server = format!("{{{server}}}");
    if let Some(Memory { used, max }) = memory {
        let name = "valkeybloom_server_memory_used_bytes";
        head(
            &mut text,
            name,
            "Memory of the server, or of a cluster's primaries.",
        );
        line(&mut text, name, &server, double(used));
        if max > 0 {
            let name = "valkeybloom_server_memory_limit_bytes";
            head(
                &mut text,
                name,
                "The setting maxmemory, absent if there is no limit.",
            );
            line(&mut text, name, &server, double(max));
        }
    }
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn line(text: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(text, "{name}{labels} {value}");
}

/// Returns a key as the value of a label. Different keys have different values: a key that is not UTF-8 or begins with
/// a quote is written in quotes, with escapes.
fn label(key: &[u8]) -> String {
    let text = match str::from_utf8(key) {
        Ok(text) if !text.starts_with('"') => text.to_owned(),
        _ => format!("\"{}\"", key.escape_ascii()),
    };
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

/// Replaces a file in one step, so that no reader sees half of it.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    // The collector reads names that end in `.prom`.
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&name);
    let done = fs::write(temporary, text).and_then(|()| fs::rename(temporary, file));
    if done.is_err() {
        let _ = fs::remove_file(temporary);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list::read::Unreadable;

    #[test]
    fn labels_are_escaped_and_distinct() {
        for (key, escaped) in [
            (&b"seen"[..], "seen"),
            (b"a \"b\"", r#"a \"b\""#),
            (b"back\\slash\n", r"back\\slash\n"),
            (b"\xff", r#"\"\\xff\""#),
            // A key with the text that the key above is written with.
            (b"\"\\xff\"", r#"\"\\\"\\\\xff\\\"\""#),
            ("größe".as_bytes(), "größe"),
        ] {
            assert_eq!(label(key), escaped);
        }
    }

    #[test]
    fn unknown_values_have_no_line() {
        let mut row = Row::partly_loaded(b"k".to_vec(), "bloomfltr");
        row.ttl = Some(Ttl::Ms(1500));
        let listing = Listing {
            rows: vec![row],
            unreadable: Unreadable {
                keys: 3,
                reason: None,
            },
        };
        let memory = Memory { used: 7, max: 0 };
        let source = Source {
            address: "s:1",
            database: 2,
        };
        let text = text(&listing, &source, Some(memory));
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let of_key = "{key=\"k\",type=\"bloomfltr\",db=\"2\",server=\"s:1\"}";
        assert_eq!(lines[0], format!("valkeybloom_partly_loaded{of_key} 1"));
        assert_eq!(lines[1], format!("valkeybloom_ttl_seconds{of_key} 1.5"));
        assert!(lines.contains(&"valkeybloom_keys{type=\"bloomfltr\",db=\"2\",server=\"s:1\"} 1"));
        assert!(lines.contains(&"valkeybloom_keys{type=\"TDIS-TYPE\",db=\"2\",server=\"s:1\"} 0"));
        assert!(lines.contains(&"valkeybloom_unreadable_keys{db=\"2\",server=\"s:1\"} 3"));
        assert_eq!(
            lines[lines.len() - 1],
            "valkeybloom_server_memory_used_bytes{server=\"s:1\"} 7"
        );
        assert_eq!(lines.len(), 2 + TYPES.len() + 2);
    }
}
