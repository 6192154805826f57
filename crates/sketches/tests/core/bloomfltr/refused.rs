//! Bytes that are not a plain object, and the error of each.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::{Dialect, dump, rdb};

use crate::support::{Field, NO_FRACTIONS, Stream, begin_partial};

use super::read;
use crate::plain::Plain as Draft;

/// The error of each form for a draft: `None` if the form cannot express the fault.
struct Refusals {
    dump: Option<DecodeError>,
    header: Option<DecodeError>,
    rdb: Option<DecodeError>,
}

const fn all(what: &'static str) -> Refusals {
    let error = Some(DecodeError::Malformed(what));
    Refusals {
        dump: error,
        header: error,
        rdb: error,
    }
}

/// A length or a count of filters that only the end of the bytes reveals.
const TRUNCATED: Refusals = Refusals {
    dump: Some(DecodeError::Truncated),
    header: Some(DecodeError::Truncated),
    rdb: Some(DecodeError::Truncated),
};

const fn not_in_header(what: &'static str) -> Refusals {
    Refusals {
        header: None,
        ..all(what)
    }
}

const fn not_in_rdb(what: &'static str) -> Refusals {
    Refusals {
        rdb: None,
        ..all(what)
    }
}

#[track_caller]
fn refused(name: &str, expected: &Refusals, change: impl FnOnce(&mut Draft)) {
    let draft = Draft::with(change);
    if expected.dump.is_some() {
        let error = dump::decode(&draft.dump()).err();
        assert_eq!(error, expected.dump, "dump: {name}");
    }
    if expected.header.is_some() {
        let error = begin_partial(&draft.header()).err();
        assert_eq!(error, expected.header, "header: {name}");
    }
    if expected.rdb.is_some() {
        let error = rdb::read(Dialect::Bloomfltr, 1, &mut draft.stream()).err();
        assert_eq!(error, expected.rdb, "RDB fields: {name}");
    }
}

#[test]
fn wrong_numbers_of_filters_are_refused() {
    // In RDB a zero announces chunks.
    let none = Refusals {
        rdb: Some(DecodeError::Truncated),
        ..all("no filters")
    };
    refused("none", &none, |d| d.filters.clear());
    for more in [3, 1 << 16, 1 << 32, 1 << 63, u64::MAX] {
        refused("more than there are", &TRUNCATED, |d| d.count = Some(more));
    }
    let behind = Refusals {
        rdb: Some(DecodeError::Truncated),
        ..all("bytes behind the object")
    };
    refused("fewer than there are", &behind, |d| d.count = Some(1));
    refused(
        "none, and two behind",
        &not_in_rdb("bytes behind the object"),
        |d| {
            d.count = Some(0);
        },
    );
    refused(
        "bytes behind",
        &not_in_rdb("bytes behind the object"),
        |d| {
            d.trailing = vec![0];
        },
    );
}

#[test]
fn wrong_blobs_are_refused() {
    for index in [0, 1] {
        for cut in [0, 1, 9, 13, 44] {
            let short = Refusals {
                header: Some("header holds more than headers".into()),
                ..all("filter shorter than its header")
            };
            refused("cut header", &short, |d| d.filters[index].cut = Some(cut));
        }
        let length = not_in_header("filter's length is not what its header says");
        for cut in [45, 47] {
            refused("cut bitmap", &length, |d| d.filters[index].cut = Some(cut));
        }
        refused("short bitmap", &length, |d| {
            d.filters[index].bitmap_bytes = Some(d.filters[index].bitmap.len() as u64 + 1);
        });
        refused("long bitmap", &length, |d| {
            d.filters[index].bitmap_bytes = Some(d.filters[index].bitmap.len() as u64 - 1);
        });
        for claim in [1 << 32, 1 << 40, (1 << 59) - 1] {
            refused("claim of a large bitmap", &length, |d| {
                d.filters[index].bitmap_bytes = Some(claim);
            });
        }
        for claim in [1 << 60, 1 << 61, 1 << 63, u64::MAX - 44, u64::MAX] {
            refused(
                "claim beyond memory",
                &all("filter larger than memory"),
                |d| {
                    d.filters[index].bitmap_bytes = Some(claim);
                },
            );
        }
        refused("zero bits", &all("filter of zero bits"), |d| {
            d.filters[index].bitmap.clear();
        });
        refused("zero bits are said", &all("filter of zero bits"), |d| {
            d.filters[index].bitmap_bytes = Some(0);
        });
        for version in [0, 3, 255] {
            refused(
                "blob of another version",
                &all("filter of unknown version"),
                |d| {
                    d.filters[index].version = version;
                },
            );
        }
        refused("counters", &all("filter of other cells"), |d| {
            d.filters[index].version = 2;
        });
        for hashes in [0, 1101, 1 << 31, u32::MAX] {
            let error = all("number of hash functions out of range");
            refused("absurd k", &error, |d| d.filters[index].hashes = hashes);
        }
    }
    let truncated = Refusals {
        rdb: None,
        ..TRUNCATED
    };
    for length in [1 << 32, 1 << 63, u64::MAX - 8, u64::MAX] {
        refused("blob longer than the bytes", &truncated, |d| {
            d.filters[1].length = Some(length);
        });
    }
    for length in [0, 44] {
        refused("blob shorter than its header", &truncated, |d| {
            d.filters[0].length = Some(length);
        });
    }
    refused(
        "sum of claims over 63 bits",
        &all("sum out of range"),
        |d| {
            d.filters[0].bitmap_bytes = Some(1 << 59);
            d.filters = vec![d.filters[0].clone(); 17];
        },
    );
}

#[test]
fn wrong_parameters_are_refused() {
    for rate in NO_FRACTIONS {
        refused("error rate", &all("error rate out of range"), |d| {
            d.error_rate = rate;
        });
        refused("ratio", &all("tightening ratio out of range"), |d| {
            d.tightening = rate;
        });
    }
    for expansion in [1 << 32, u64::MAX] {
        let error = Refusals {
            dump: None,
            header: None,
            ..all("expansion out of range")
        };
        refused("expansion over u32", &error, |d| d.expansion = expansion);
    }
    for flag in [2, 3, 255] {
        refused("flag", &all("seed flag out of range"), |d| {
            d.seed_is_random = flag;
        });
    }
    for flag in [256, 1 << 32, u64::MAX] {
        let error = Refusals {
            dump: None,
            header: None,
            ..all("seed flag out of range")
        };
        refused("flag of many bytes", &error, |d| d.seed_is_random = flag);
    }
    refused(
        "unnamed seed",
        &all("fixed seed that is not the fixed one"),
        |d| {
            d.filters[0].seed[31] ^= 1;
            d.filters[1].seed[31] ^= 1;
        },
    );
    for (flag, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        refused("two seeds", &all("filters of different seeds"), |d| {
            d.seed_is_random = flag;
            d.filters[index].seed[0] ^= 0x80;
        });
    }
}

#[test]
fn wrong_counts_of_items_are_refused() {
    for items in [7, 1 << 32, (1 << 63) - 4] {
        refused(
            "more items than capacity",
            &all("more items than capacity"),
            |d| {
                d.filters[1].items = items;
            },
        );
    }
    for items in [0, 2, 4, 1 << 62] {
        let error = not_in_rdb("filter stacked on one that is not full");
        refused("older filter not just full", &error, |d| {
            d.filters[0].items = items;
        });
    }
    for index in [0, 1] {
        refused("capacity 0", &all("capacity of zero"), |d| {
            (d.filters[index].capacity, d.filters[index].items) = (0, 0);
        });
        // Negative numbers, in the signed fields of the dump.
        for capacity in [1 << 63, u64::MAX - 2, u64::MAX] {
            refused("capacity over i64", &all("sum out of range"), |d| {
                d.filters[index].capacity = capacity;
                // An older filter is full, so that only the capacity is wrong.
                d.filters[0].items = d.filters[0].capacity;
            });
        }
    }
    for expansion in [0, 2] {
        refused("capacities over i64", &all("sum out of range"), |d| {
            d.expansion = expansion;
            d.filters[1].capacity = (1 << 63) - 3;
        });
    }
    for items in [(1 << 63) - 3, 1 << 63, u64::MAX - 2, u64::MAX] {
        refused("items over i64", &all("sum out of range"), |d| {
            d.expansion = 0;
            d.filters[1].items = items;
        });
    }
}

#[test]
fn other_versions_are_refused_as_such() {
    let unsupported = Some(DecodeError::UnsupportedVersion);
    for version in 0..=255 {
        let dump = Draft::with(|d| d.version = version).dump();
        let header = Draft::valid().bytes(version, true);
        if version != 1 {
            assert_eq!(dump::decode(&dump).err(), unsupported, "{version}");
            // Version 2 is that of objects with a window or with counters; nothing follows it here.
            let alone = match version {
                2 => Some(DecodeError::Truncated),
                _ => unsupported,
            };
            assert_eq!(dump::decode(&[version]).err(), alone, "{version}");
        }
        if version != 0x81 {
            assert_eq!(begin_partial(&header).err(), unsupported, "{version}");
        }
    }
    // Neither form is taken for the other.
    assert_eq!(dump::decode(&Draft::valid().header()).err(), unsupported);
    assert_eq!(begin_partial(&Draft::valid().dump()).err(), unsupported);
    // Nor bytes that hold bitmaps for a header, where they have its version.
    let full = Draft::valid().bytes(0x81, false);
    let error = DecodeError::Malformed("header holds more than headers");
    assert_eq!(begin_partial(&full).err(), Some(error));
}

#[test]
fn every_truncation_is_refused() {
    let dump = Draft::valid().dump();
    assert!(dump::decode(&dump).is_ok());
    for end in 0..dump.len() {
        let error = dump::decode(&dump[..end]).err();
        assert_eq!(error, Some(DecodeError::Truncated), "dump of {end} bytes");
    }
    let header = Draft::valid().header();
    assert!(begin_partial(&header).is_ok());
    for end in 0..header.len() {
        let error = begin_partial(&header[..end]).err();
        assert_eq!(error, Some(DecodeError::Truncated), "header of {end} bytes");
    }
    let fields = Draft::valid().stream();
    assert!(read(fields.clone()).is_ok());
    for end in 0..fields.0.len() {
        let cut = Stream(fields.0.iter().take(end).cloned().collect());
        let error = read(cut).err();
        assert_eq!(error, Some(DecodeError::Truncated), "{end} fields");
    }
}

#[test]
fn a_field_of_another_kind_is_refused() {
    let fields = Draft::valid().stream();
    for index in 0..fields.0.len() {
        for other in [
            Field::Uint(1),
            Field::Double(0.5),
            Field::Bytes(vec![1; 60]),
        ] {
            let same = std::mem::discriminant(&other) == std::mem::discriminant(&fields.0[index]);
            if !same {
                let mut fields = fields.clone();
                fields.0[index] = other;
                let error = read(fields).err();
                assert_eq!(error, Some(DecodeError::Truncated), "field {index}");
            }
        }
    }
}
