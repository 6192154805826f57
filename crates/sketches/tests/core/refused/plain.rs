//! Rules that plain objects can break.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::dump;

use super::{ALL, CUT, FIELDS, Form, HEADER, WHOLE};
use crate::plain::Plain;
use crate::support::{NO_FRACTIONS, begin_partial};

const TRUNCATED: DecodeError = DecodeError::Truncated;

#[track_caller]
fn refused(forms: &[Form], error: impl Into<DecodeError>, change: impl FnOnce(&mut Plain)) {
    super::refused(&Plain::valid(), forms, error, change);
}

#[test]
fn wrong_numbers_of_filters_are_refused() {
    refused(CUT, "no filters", |d| d.filters.clear());
    // In RDB a zero announces chunks.
    refused(FIELDS, TRUNCATED, |d| d.filters.clear());
    for more in [3, 1 << 16, 1 << 32, 1 << 63, u64::MAX] {
        refused(ALL, TRUNCATED, |d| d.count = Some(more));
    }
    let behind = "bytes after the object";
    refused(CUT, behind, |d| d.count = Some(1));
    refused(FIELDS, TRUNCATED, |d| d.count = Some(1));
    refused(CUT, behind, |d| d.count = Some(0));
    refused(CUT, behind, |d| d.trailing = vec![0]);
}

#[test]
fn wrong_blobs_are_refused() {
    for index in [0, 1] {
        for cut in [0, 1, 9, 13, 44] {
            let short = "filter shorter than its header";
            refused(WHOLE, short, |d| d.filters[index].cut = Some(cut));
            refused(HEADER, short, |d| d.filters[index].cut = Some(cut));
        }
        let length = "filter's length is not what its header says";
        for cut in [45, 47] {
            refused(WHOLE, length, |d| d.filters[index].cut = Some(cut));
        }
        let bytes = Plain::valid().filters[index].bitmap.len() as u64;
        for claim in [bytes + 1, bytes - 1, 1 << 32, 1 << 40, (1 << 59) - 1] {
            refused(WHOLE, length, |d| {
                d.filters[index].bitmap_bytes = Some(claim);
            });
        }
        let large = "filter larger than memory";
        for claim in [1 << 60, 1 << 61, 1 << 63, u64::MAX - 44, u64::MAX] {
            refused(ALL, large, |d| d.filters[index].bitmap_bytes = Some(claim));
        }
        let zero = "filter of zero bits";
        refused(ALL, zero, |d| d.filters[index].bitmap.clear());
        refused(ALL, zero, |d| d.filters[index].bitmap_bytes = Some(0));
        for version in [0, 2, 255] {
            let error = "filter of unknown version";
            refused(ALL, error, |d| d.filters[index].version = version);
        }
        for hashes in [0, 1101, 1 << 31, u32::MAX] {
            let error = "number of hash functions out of range";
            refused(ALL, error, |d| d.filters[index].hashes = hashes);
        }
    }
    for length in [1 << 32, 1 << 63, u64::MAX - 8, u64::MAX] {
        refused(CUT, TRUNCATED, |d| d.filters[1].length = Some(length));
    }
    for length in [0, 44] {
        let short = "filter shorter than its header";
        refused(CUT, short, |d| d.filters[0].length = Some(length));
    }
    refused(ALL, "sum out of range", |d| {
        d.filters[0].bitmap_bytes = Some(1 << 59);
        d.filters = vec![d.filters[0].clone(); 17];
    });
}

#[test]
fn wrong_parameters_are_refused() {
    for rate in NO_FRACTIONS {
        refused(ALL, "error rate out of range", |d| d.error_rate = rate);
        refused(ALL, "tightening ratio out of range", |d| {
            d.tightening = rate;
        });
    }
    for expansion in [1 << 32, u64::MAX] {
        refused(FIELDS, "expansion out of range", |d| {
            d.expansion = expansion;
        });
    }
    for flag in [2, 3, 255] {
        refused(ALL, "seed flag out of range", |d| d.seed_is_random = flag);
    }
    for flag in [256, 1 << 32, u64::MAX] {
        refused(FIELDS, "seed flag out of range", |d| {
            d.seed_is_random = flag;
        });
    }
    refused(ALL, "fixed seed that is not the fixed one", |d| {
        d.filters[0].seed[31] ^= 1;
        d.filters[1].seed[31] ^= 1;
    });
    for (flag, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        refused(ALL, "filters of different seeds", |d| {
            d.seed_is_random = flag;
            d.filters[index].seed[0] ^= 0x80;
        });
    }
}

#[test]
fn wrong_counts_of_items_are_refused() {
    for items in [7, 1 << 32, (1 << 63) - 4] {
        refused(ALL, "more items than capacity", |d| {
            d.filters[1].items = items;
        });
    }
    // In RDB the older filters have no number of items.
    for items in [0, 2, 4, 1 << 62] {
        refused(CUT, "filter stacked on one that is not full", |d| {
            d.filters[0].items = items;
        });
    }
    for index in [0, 1] {
        refused(ALL, "capacity of zero", |d| {
            (d.filters[index].capacity, d.filters[index].items) = (0, 0);
        });
        // Negative numbers, in the signed fields of the dump.
        for capacity in [1 << 63, u64::MAX - 2, u64::MAX] {
            refused(ALL, "sum out of range", |d| {
                d.filters[index].capacity = capacity;
                // An older filter is full, so that only the capacity is wrong.
                d.filters[0].items = d.filters[0].capacity;
            });
        }
    }
    for expansion in [0, 2] {
        refused(ALL, "sum out of range", |d| {
            d.expansion = expansion;
            d.filters[1].capacity = (1 << 63) - 3;
        });
    }
    for items in [(1 << 63) - 3, 1 << 63, u64::MAX - 2, u64::MAX] {
        refused(ALL, "sum out of range", |d| {
            d.expansion = 0;
            d.filters[1].items = items;
        });
    }
}

#[test]
fn other_versions_are_refused_as_such() {
    let unsupported = Some(DecodeError::UnsupportedVersion);
    for version in 0..=255 {
        let dump = Plain::with(|d| d.version = version).dump();
        let header = Plain::valid().bytes(version, true);
        if version != 1 {
            assert_eq!(dump::decode(&dump).err(), unsupported, "{version}");
            // Version 2 is that of objects with a window or with counters; nothing follows it here.
            let alone = match version {
                2 => Some(TRUNCATED),
                _ => unsupported,
            };
            assert_eq!(dump::decode(&[version]).err(), alone, "{version}");
        }
        if version != 0x81 {
            assert_eq!(begin_partial(&header).err(), unsupported, "{version}");
        }
    }
    // Neither form is taken for the other.
    assert_eq!(dump::decode(&Plain::valid().header()).err(), unsupported);
    assert_eq!(begin_partial(&Plain::valid().dump()).err(), unsupported);
    // Nor bytes that hold bitmaps for a header, where they have its version.
    let full = Plain::valid().bytes(0x81, false);
    let error = DecodeError::Malformed("header holds more than headers");
    assert_eq!(begin_partial(&full).err(), Some(error));
}
