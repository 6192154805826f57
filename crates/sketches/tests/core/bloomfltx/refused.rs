//! Bytes that are not an object with a window or with counters, and the error of each.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::{Dialect, dump, rdb};

use crate::support::{Field, NO_FRACTIONS, Stream, begin, begin_partial};

use super::draft::{Draft, FilterDraft, StackDraft};
use super::read;

#[track_caller]
fn refused_with(name: &str, draft: Draft, error: DecodeError, change: impl FnOnce(&mut Draft)) {
    let mut draft = draft;
    change(&mut draft);
    assert_eq!(
        dump::decode(&draft.dump()).err(),
        Some(error),
        "dump: {name}"
    );
    assert_eq!(begin(&draft.header()).err(), Some(error), "header: {name}");
    assert_eq!(
        read(draft.stream()).err(),
        Some(error),
        "RDB fields: {name}"
    );
}

#[track_caller]
fn refused(what: &'static str, draft: Draft, change: impl FnOnce(&mut Draft)) {
    refused_with(what, draft, DecodeError::Malformed(what), change);
}

#[test]
fn wrong_fields_are_refused() {
    for draft in Draft::all() {
        for options in [4, 8, 1 << 32, u64::MAX] {
            refused("unknown options", draft.clone(), |d| d.options |= options);
        }
        for expansion in [1 << 32, u64::MAX] {
            refused("expansion out of range", draft.clone(), |d| {
                d.expansion = expansion;
            });
        }
        for number in NO_FRACTIONS {
            refused("error rate out of range", draft.clone(), |d| {
                d.error_rate = number;
            });
            refused("tightening ratio out of range", draft.clone(), |d| {
                d.tightening = number;
            });
        }
        for capacity in [0, 1 << 63, u64::MAX] {
            refused("capacity out of range", draft.clone(), |d| {
                d.capacity = capacity;
            });
        }
        for length in [0, 31, 33] {
            refused("seed of another length", draft.clone(), |d| {
                d.seed.resize(length, 0);
            });
        }
        refused("filters of different seeds", draft.clone(), |d| {
            d.seed[0] ^= 1;
        });
        refused("filters of different seeds", draft.clone(), |d| {
            for filter in d
                .stacks
                .iter_mut()
                .flat_map(|stack| &mut stack.filters)
                .skip(1)
            {
                filter.seed[31] ^= 1;
            }
        });
        refused("no filters", draft.clone(), |d| {
            d.stacks[0].filters.clear();
            d.stacks[0].ranges.clear();
        });
    }
}

#[test]
fn wrong_filters_are_refused() {
    for draft in Draft::all() {
        let last = draft.stacks.len() - 1;
        for stack in [0, last] {
            let with = |change: fn(&mut FilterDraft)| {
                move |d: &mut Draft| change(&mut d.stacks[stack].filters[0])
            };
            refused(
                "filter of unknown version",
                draft.clone(),
                with(|f| f.version = 3),
            );
            refused(
                "filter of unknown version",
                draft.clone(),
                with(|f| f.version = 0),
            );
            refused(
                "filter of other cells",
                draft.clone(),
                with(|f| (f.version, f.bitmap_bytes) = (3 - f.version, Some(1))),
            );
            refused(
                "filter of zero bits",
                draft.clone(),
                with(|f| f.bitmap_bytes = Some(0)),
            );
            let error = "filter larger than memory";
            refused(
                error,
                draft.clone(),
                with(|f| f.bitmap_bytes = Some(1 << 60)),
            );
            refused(
                error,
                draft.clone(),
                with(|f| f.bitmap_bytes = Some(u64::MAX)),
            );
            let error = "number of hash functions out of range";
            refused(error, draft.clone(), with(|f| f.hashes = 0));
            refused(error, draft.clone(), with(|f| f.hashes = 1101));
            refused("capacity of zero", draft.clone(), with(|f| f.capacity = 0));
        }
    }
}

#[test]
fn contradictory_fields_are_refused() {
    refused("neither window nor counters", Draft::counting(), |d| {
        d.options = 0;
        for filter in &mut d.stacks[0].filters {
            filter.version = 1;
        }
    });
    // With any content: an item that expires by itself cannot be removed afterwards.
    let error = "window with counters";
    refused(error, Draft::both(), |_| ());
    refused(error, Draft::both(), |d| d.stacks.truncate(1));
    refused(error, Draft::both(), |d| d.stacks.clear());
    refused(error, Draft::both(), |d| d.window = (1, 1_440));
    refused(error, Draft::both(), |d| {
        for stack in &mut d.stacks {
            stack.ranges.clear();
        }
    });
    refused(error, Draft::counting(), |d| d.options = 3);
    refused(error, Draft::windowed(), |d| d.options = 3);
    // Half of what a double holds at least is left to no period.
    refused("error rate out of range", Draft::windowed(), |d| {
        d.error_rate = 5e-324;
    });
    for window in [
        (0, 4),
        (1_000, 0),
        (1, 1_441),
        (1, 65_535),
        (1, u64::MAX),
        (6_405_119_470_038_039, 1_440),
        (1 << 62, 2),
        (u64::MAX, 1),
        (u64::MAX, 1_440),
    ] {
        refused("window out of range", Draft::windowed(), |d| {
            d.window = window;
        });
    }
    refused("no filters", Draft::counting(), |d| d.stacks.clear());
    for (place, period) in [(1, 6), (1, 11), (2, 0), (0, u64::MAX)] {
        refused("periods out of order", Draft::windowed(), |d| {
            d.stacks[place].period = period;
        });
    }
    for draft in [Draft::counting(), Draft::ranged(), Draft::merged()] {
        for (place, _) in draft.stacks.iter().enumerate() {
            refused("periods out of order", draft.clone(), |d| {
                d.stacks[place].period = 1;
            });
        }
    }
    // Only earlier builds wrote several stacks of counters, and no ids in this form.
    refused("periods out of order", Draft::counting(), |d| {
        d.stacks.push(d.stacks[0].clone());
    });
    let error = "filter stacked on one that is not full";
    refused(error, Draft::windowed(), |d| {
        d.stacks[0].filters[0].items = 2;
    });
    refused(error, Draft::windowed(), |d| {
        d.stacks[0].filters[0].items = 4;
    });
    let error = "more items than capacity";
    refused(error, Draft::windowed(), |d| {
        d.stacks[1].filters[0].items = 4;
    });
    for draft in Draft::all() {
        let last = draft.stacks.len() - 1;
        refused("sum out of range", draft, |d| {
            d.stacks[0].filters[1].capacity = 1 << 62;
            let filters = &mut d.stacks[last].filters;
            let place = filters.len() - 1;
            (filters[0].capacity, filters[0].items) =
                (1 << 62, if place > 0 { 1 << 62 } else { 0 });
            filters[place].capacity = 1 << 63;
        });
    }
}

#[test]
fn wrong_ids_are_refused() {
    type Change = fn(&mut StackDraft);
    refused("ids without counters", Draft::windowed(), |d| d.form = 2);
    for flag in [2, u64::MAX] {
        refused("ids flag out of range", Draft::counting(), |d| {
            d.stacks[0].filters[1].took_flag = Some(flag);
        });
    }
    for filter in [0, 1] {
        refused("ids out of order", Draft::counting(), |d| {
            d.stacks[0].filters[filter].took = Some((91, 90));
        });
    }
    let wrong: [(&str, Change); 9] = [
        ("ids out of order", |s| s.ids = (91, 90)),
        ("ranges out of order", |s| s.ranges[0].0 = 1),
        ("ranges out of order", |s| s.ranges[1].0 = 0),
        ("ranges out of order", |s| s.ranges[1].1 = 0),
        ("ranges out of order", |s| s.ranges[1].1 = 2),
        ("ranges out of order", |s| s.ranges[1].1 = u64::MAX),
        ("ranges out of order", |s| s.ranges.swap(0, 1)),
        ("ranges out of order", |s| s.ranges.push((50, 1))),
        ("ranges out of order", |s| s.ranges = vec![(0, 2)]),
    ];
    for draft in [Draft::ranged(), Draft::merged()] {
        for (what, change) in &wrong {
            refused(what, draft.clone(), |d| change(&mut d.stacks[0]));
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for draft in Draft::all() {
        for count in [1 << 16, 1 << 40, u64::MAX] {
            for change in [
                (|d, count| d.count = Some(count)) as fn(&mut Draft, u64),
                |d, count| d.stacks.last_mut().unwrap().count = Some(count),
            ] {
                refused_with("a number", draft.clone(), DecodeError::Truncated, |d| {
                    change(d, count);
                });
            }
        }
        let mut fewer = draft.clone();
        fewer.stacks.last_mut().unwrap().count = Some(0);
        assert!(dump::decode(&fewer.dump()).is_err());
        fewer = draft.clone();
        fewer.behind = &[0];
        let behind = Some(DecodeError::Malformed("bytes behind the object"));
        assert_eq!(dump::decode(&fewer.dump()).err(), behind);
        assert_eq!(begin(&fewer.header()).err(), behind);
        // Cells that are not what the header says, where there are cells.
        let length = Some(DecodeError::Malformed(
            "filter's length is not what its header says",
        ));
        for change in [
            (|f| f.cut = Some(47)) as fn(&mut FilterDraft),
            |f| f.bitmap_bytes = Some(f.cells.len() as u64 * 2),
            |f| f.bitmap_bytes = Some(1 << 40),
        ] {
            let mut draft = draft.clone();
            change(&mut draft.stacks[0].filters[0]);
            assert_eq!(dump::decode(&draft.dump()).err(), length);
            assert_eq!(read(draft.stream()).err(), length);
        }
        for cut in [0, 1, 44] {
            let mut draft = draft.clone();
            draft.stacks[0].filters[0].cut = Some(cut);
            let short = Some(DecodeError::Malformed("filter shorter than its header"));
            assert_eq!(dump::decode(&draft.dump()).err(), short);
            assert_eq!(read(draft.stream()).err(), short);
        }
        let full = draft.bytes(0x82, false);
        let error = DecodeError::Malformed("header holds more than headers");
        assert_eq!(begin(&full).err(), Some(error));
    }
    // Claims of more memory than any machine has take no memory.
    let mut large = Draft::windowed();
    for filter in large.stacks.iter_mut().flat_map(|stack| &mut stack.filters) {
        filter.bitmap_bytes = Some(1 << 50);
    }
    let partial = begin_partial(&large.header()).unwrap();
    assert!(partial.memory_bytes() < 1_000 + 10 * large.header().len() as u64);
}

#[test]
fn other_versions_are_refused() {
    for draft in [Draft::windowed(), Draft::counting()] {
        for form in [0, 4, u64::MAX] {
            let mut draft = draft.clone();
            draft.form = form;
            let unsupported = Some(DecodeError::UnsupportedVersion);
            assert_eq!(dump::decode(&draft.dump()).err(), unsupported);
            assert_eq!(begin(&draft.header()).err(), unsupported);
        }
        for version in [0, 1, 3, 0x81, 0x82, 0xff] {
            assert!(dump::decode(&draft.bytes(version, false)).is_err());
        }
        for version in [0, 1, 2, 3, 0x81, 0xff] {
            assert!(begin(&draft.bytes(version, true)).is_err());
        }
        let plain = rdb::read(Dialect::Bloomfltr, 1, &mut draft.stream());
        assert!(plain.is_err(), "it is no plain one");
        assert!(!dump::decode(&draft.dump()).unwrap().is_plain());
    }
}

#[test]
fn every_truncation_is_refused() {
    for draft in Draft::all() {
        for end in 0..draft.dump().len() {
            let error = dump::decode(&draft.dump()[..end]).err();
            assert_eq!(error, Some(DecodeError::Truncated), "dump of {end} bytes");
        }
        let header = draft.header();
        for end in 0..header.len() {
            let error = begin(&header[..end]).err();
            assert_eq!(error, Some(DecodeError::Truncated), "header of {end} bytes");
        }
        let fields = draft.stream();
        for end in 1..fields.0.len() {
            let cut = Stream(fields.0.iter().take(end).cloned().collect());
            assert_eq!(
                read(cut).err(),
                Some(DecodeError::Truncated),
                "{end} fields"
            );
        }
        for index in 1..fields.0.len() {
            for other in [
                Field::Uint(1),
                Field::Double(0.5),
                Field::Bytes(vec![1; 60]),
            ] {
                if std::mem::discriminant(&other) != std::mem::discriminant(&fields.0[index]) {
                    let mut fields = fields.clone();
                    fields.0[index] = other;
                    assert_eq!(
                        read(fields).err(),
                        Some(DecodeError::Truncated),
                        "field {index}"
                    );
                }
            }
        }
    }
}
