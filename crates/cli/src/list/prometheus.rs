//! Listings in Prometheus' text format, for the textfile collector of its node exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::failure::text_of;
use crate::held::read::Listing;
use crate::held::row::{Details, Row};
use crate::report::double;

/// The memory of a server, or of a cluster's primaries, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub used: u64,
    /// The setting maxmemory; `None` if a node has no limit.
    pub limit: Option<u64>,
}

struct Metric {
    name: &'static str,
    help: &'static str,
    samples: Samples,
}

/// The samples of a metric.
enum Samples {
    /// A sample for each key that has the value.
    Keys(fn(&Row) -> Option<f64>),
    /// The number of keys of each type.
    Types,
    /// The number of keys that could not be read.
    Unreadable,
    /// A sample of the server's memory. A server without the value lacks the metric.
    Server(fn(&Memory) -> Option<u64>),
}

use Samples::{Keys, Server, Types, Unreadable};

#[rustfmt::skip]
const METRICS: [Metric; 15] = [
    Metric { name: "valkeybloom_items", samples: Keys(|row| row.items.map(double)),
        help: "Items of a filter or a Top-K, increments of a count-min sketch, observations of a t-digest." },
    Metric { name: "valkeybloom_capacity_items", samples: Keys(|row| row.capacity.map(double)),
        help: "Items that a filter or a Top-K has room for." },
    Metric { name: "valkeybloom_limit_items", samples: Keys(|row| row.bloom()?.reach.map(double)),
        help: "The most items that a Bloom filter takes." },
    Metric { name: "valkeybloom_bytes", samples: Keys(|row| row.bytes.map(double)),
        help: "Memory of a key." },
    Metric { name: "valkeybloom_error_rate_requested", samples: Keys(|row| row.rate),
        help: "Requested error rate." },
    Metric { name: "valkeybloom_error_rate_now", samples: Keys(|row| row.rate_now),
        help: "Error rate that the server estimates for the present contents." },
    Metric { name: "valkeybloom_filters", samples: Keys(|row| row.filters.map(double)),
        help: "Filters of a key." },
    Metric { name: "valkeybloom_feed_bytes", samples: Keys(|row| row.bloom()?.feed_bytes.map(double)),
        help: "Memory of the feed of a Bloom filter that is being read." },
    Metric { name: "valkeybloom_feed_readers", samples: Keys(|row| row.bloom()?.readers.map(double)),
        help: "Connections that read the feed of a Bloom filter within the last minute." },
    Metric { name: "valkeybloom_partly_loaded", samples: Keys(|row| Some(f64::from(row.details == Details::PartlyLoaded))),
        help: "Whether a copy of the key was not finished, 0 or 1." },
    Metric { name: "valkeybloom_ttl_seconds", samples: Keys(|row| Some(double(row.ttl_ms?.try_into().ok()?) / 1000.0)),
        help: "Time to live of a key that expires." },
    Metric { name: "valkeybloom_keys", samples: Types,
        help: "Keys of a type." },
    Metric { name: "valkeybloom_unreadable_keys", samples: Unreadable,
        help: "Keys that could not be read." },
    Metric { name: "valkeybloom_server_memory_used_bytes", samples: Server(|memory| Some(memory.used)),
        help: "Memory of the server, or of a cluster's primaries." },
    Metric { name: "valkeybloom_server_memory_limit_bytes", samples: Server(|memory| memory.limit.filter(|limit| *limit > 0)),
        help: "The setting maxmemory, absent if a node has no limit." },
];

/// Returns a listing of keys of these types in the text format. Labels name the server, because a collector may read the files
/// of several.
pub fn text(
    listing: &Listing,
    kinds: &[&str],
    server: &str,
    database: i64,
    memory: Option<Memory>,
) -> String {
    let server = format!("server=\"{}\"", label(server.as_bytes()));
    let database = format!("db=\"{database}\",{server}");
    let mut text = String::new();
    for metric in METRICS {
        let samples: Vec<(String, f64)> = match metric.samples {
            Keys(value) => {
                let samples = listing.rows.iter().filter_map(|row| {
                    let (key, kind, value) = (label(&row.key), &row.kind, value(row)?);
                    Some((format!("key=\"{key}\",type=\"{kind}\",{database}"), value))
                });
                samples.collect()
            }
            Types => {
                let mut types: BTreeMap<_, _> = kinds.iter().map(|kind| (*kind, 0)).collect();
                for row in &listing.rows {
                    *types.entry(&row.kind).or_default() += 1;
                }
                let samples = types.into_iter();
                let samples = samples
                    .map(|(kind, keys)| (format!("type=\"{kind}\",{database}"), double(keys)));
                samples.collect()
            }
            Unreadable => vec![(database.clone(), double(listing.unreadable.keys))],
            Server(value) => match memory.as_ref().and_then(value) {
                Some(value) => vec![(server.clone(), double(value))],
                None => continue,
            },
        };
        let Metric { name, help, .. } = metric;
        // Writing to a String can't fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{{{labels}}} {value}");
        }
    }
    text
}

/// Returns a key as the value of a label. Its text has no line ends.
fn label(key: &[u8]) -> String {
    text_of(key).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::read;
    use crate::held::row::Bloom;
    use valkeybloom_protocol::names::TYPES;
    use valkeybloom_sketches::bloom::Kind;

    fn metrics(rows: &[Row], memory: Option<Memory>) -> String {
        let listing = Listing {
            rows: rows.to_vec(),
            unreadable: read::Unreadable {
                keys: 2,
                reason: None,
            },
        };
        text(&listing, &TYPES[..3], "host:6379", 3, memory)
    }

    /// Returns the samples of a metric, without its name.
    fn samples<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
        let lines = text.lines();
        let lines = lines.filter_map(|line| line.strip_prefix(name));
        lines.filter(|line| line.starts_with('{')).collect()
    }

    #[test]
    fn each_value_that_is_known_is_a_sample() {
        let known = Row {
            key: b"k".to_vec(),
            kind: "bloomfltr".to_owned(),
            items: Some(1),
            capacity: Some(2),
            rate: Some(0.25),
            rate_now: Some(1e-7),
            filters: Some(4),
            bytes: Some(5),
            ttl_ms: Some(6_500),
            details: Details::Bloom(Bloom {
                growth: None,
                reach: Some(7),
                kind: Kind::Plain,
                live_periods: None,
                period_items: None,
                feed_bytes: Some(8),
                readers: Some(9),
            }),
            ..Row::default()
        };
        let unknown = Row {
            key: b"loading".to_vec(),
            kind: "bloomfltr".to_owned(),
            // It does not expire.
            ttl_ms: Some(-1),
            details: Details::PartlyLoaded,
            ..Row::default()
        };
        let text = metrics(&[known, unknown], None);
        let labels =
            |key| format!("{{key=\"{key}\",type=\"bloomfltr\",db=\"3\",server=\"host:6379\"}}");
        for (name, value) in [
            ("items", "1"),
            ("capacity_items", "2"),
            ("limit_items", "7"),
            ("bytes", "5"),
            ("error_rate_requested", "0.25"),
            ("error_rate_now", "0.0000001"),
            ("filters", "4"),
            ("feed_bytes", "8"),
            ("feed_readers", "9"),
            ("ttl_seconds", "6.5"),
        ] {
            let found = samples(&text, &format!("valkeybloom_{name}"));
            assert_eq!(found, [format!("{} {value}", labels("k"))], "{name}");
        }
        let loaded = samples(&text, "valkeybloom_partly_loaded");
        let of_both =
            [("k", 0), ("loading", 1)].map(|(key, value)| format!("{} {value}", labels(key)));
        assert_eq!(loaded, of_both);
        let unreadable = samples(&text, "valkeybloom_unreadable_keys");
        assert_eq!(unreadable, ["{db=\"3\",server=\"host:6379\"} 2"]);
    }

    #[test]
    fn keys_of_every_type_are_counted() {
        let row = Row {
            kind: TYPES[0].to_owned(),
            ..Row::default()
        };
        let text = metrics(&[row.clone(), row], None);
        let counts = samples(&text, "valkeybloom_keys");
        assert_eq!(counts.len(), 3);
        for kind in &TYPES[..3] {
            let keys = if *kind == TYPES[0] { 2 } else { 0 };
            let expected = format!("{{type=\"{kind}\",db=\"3\",server=\"host:6379\"}} {keys}");
            assert!(counts.contains(&&expected[..]), "{expected}");
        }
    }

    #[test]
    fn memory_is_left_out_if_it_is_unknown_or_has_no_limit() {
        let (used, limit) = ("server_memory_used_bytes", "server_memory_limit_bytes");
        let memory = |limit| Some(Memory { used: 7, limit });
        for (memory, named) in [
            (None, &[][..]),
            (memory(None), &[(used, 7)]),
            (memory(Some(0)), &[(used, 7)]),
            (memory(Some(9)), &[(used, 7), (limit, 9)]),
        ] {
            let text = metrics(&[], memory);
            for name in [used, limit] {
                let name = format!("valkeybloom_{name}");
                let known = named.iter().find(|(known, _)| name.ends_with(known));
                let known = known.map(|(_, value)| format!("{{server=\"host:6379\"}} {value}"));
                let has_head = text.contains(&format!("# TYPE {name} gauge\n"));
                assert_eq!(has_head, known.is_some(), "{name} {memory:?}");
                assert_eq!(samples(&text, &name), Vec::from_iter(known));
            }
        }
    }

    /// Text of other programs can't end a label, or its line.
    #[test]
    fn values_of_labels_are_escaped() {
        for (key, expected) in [
            (&b""[..], ""),
            (b"a b", "a b"),
            (b"a\"b", r#"a\"b"#),
            (b"a\\n", r"a\\n"),
            (b"a\nb", r#"\"a\\nb\""#),
            (b"\"\"", r#"\"\\\"\\\"\""#),
        ] {
            assert_eq!(label(key), expected);
        }
    }
}
