//! Rules that objects with a window or with counters can break.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::{Dialect, dump, rdb};

use super::{ALL, Draft as _, Form, WHOLE, refused};
use crate::bloomfltx::draft::{Draft, FilterDraft};
use crate::support::{NO_FRACTIONS, begin, begin_partial};

#[test]
fn every_form_of_every_kind_is_accepted() {
    let mut passed = Draft::windowed();
    passed.stacks.clear();
    for draft in Draft::all().iter().chain([&passed]) {
        for form in ALL {
            assert_eq!(draft.error(*form), None, "{form:?}");
        }
    }
}

#[test]
fn wrong_fields_are_refused() {
    for draft in Draft::all() {
        for options in [4, 8, 1 << 32, u64::MAX] {
            refused(&draft, ALL, "unknown options", |d| d.options |= options);
        }
        for expansion in [1 << 32, u64::MAX] {
            refused(&draft, ALL, "expansion out of range", |d| {
                d.expansion = expansion;
            });
        }
        for number in NO_FRACTIONS {
            refused(&draft, ALL, "error rate out of range", |d| {
                d.error_rate = number;
            });
            refused(&draft, ALL, "tightening ratio out of range", |d| {
                d.tightening = number;
            });
        }
        for capacity in [0, 1 << 63, u64::MAX] {
            refused(&draft, ALL, "capacity out of range", |d| {
                d.capacity = capacity;
            });
        }
        for length in [0, 31, 33] {
            refused(&draft, ALL, "seed of another length", |d| {
                d.seed.resize(length, 0);
            });
        }
        let seeds = "filters of different seeds";
        for byte in [0, 31] {
            refused(&draft, ALL, seeds, |d| d.seed[byte] ^= 1);
            refused(&draft, ALL, seeds, |d| {
                d.stacks[0].filters[1].seed[byte] ^= 1;
            });
        }
        for stack in [0, draft.stacks.len() - 1] {
            refused(&draft, ALL, "no filters", |d| {
                d.stacks[stack].filters.clear();
                d.stacks[stack].ranges.clear();
            });
        }
    }
}

#[test]
fn wrong_filters_are_refused() {
    for draft in Draft::all() {
        let last = draft.stacks.len() - 1;
        for (stack, filter) in [(0, 0), (0, 1), (last, 0)] {
            let refused = |error: &'static str, change: &dyn Fn(&mut FilterDraft)| {
                refused(&draft, ALL, error, |d| {
                    change(&mut d.stacks[stack].filters[filter]);
                });
            };
            for version in [0, 3] {
                refused("filter of unknown version", &|f| f.version = version);
            }
            refused("filter of other cells", &|f| {
                (f.version, f.bitmap_bytes) = (3 - f.version, Some(1));
            });
            refused("filter of zero bits", &|f| f.bitmap_bytes = Some(0));
            for bytes in [1 << 60, u64::MAX] {
                refused("filter larger than memory", &|f| {
                    f.bitmap_bytes = Some(bytes);
                });
            }
            for hashes in [0, 1101] {
                let error = "number of hash functions out of range";
                refused(error, &|f| f.hashes = hashes);
            }
            refused("capacity of zero", &|f| f.capacity = 0);
        }
    }
}

#[test]
fn contradictory_fields_are_refused() {
    refused(
        &Draft::counting(),
        ALL,
        "neither window nor counters",
        |d| {
            d.options = 0;
            for filter in &mut d.stacks[0].filters {
                filter.version = 1;
            }
        },
    );
    // With any content: an item that expires by itself cannot be removed afterwards.
    let changes: [fn(&mut Draft); 5] = [
        |_| (),
        |d| d.stacks.truncate(1),
        |d| d.stacks.clear(),
        |d| d.window = (1, 1_440),
        |d| {
            for stack in &mut d.stacks {
                stack.ranges.clear();
            }
        },
    ];
    let error = "window with counters";
    for change in changes {
        refused(&Draft::both(), ALL, error, change);
    }
    for draft in [Draft::counting(), Draft::windowed()] {
        refused(&draft, ALL, error, |d| d.options = 3);
    }
    // Half of what a double holds at least is left to no period.
    refused(&Draft::windowed(), ALL, "error rate out of range", |d| {
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
        refused(&Draft::windowed(), ALL, "window out of range", |d| {
            d.window = window;
        });
    }
    refused(&Draft::counting(), ALL, "no filters", |d| d.stacks.clear());
}

#[test]
fn wrong_periods_are_refused() {
    let error = "periods out of order";
    // The periods are 7, 8 and 10.
    for (place, period) in [(1, 6), (1, 7), (1, 10), (1, 11), (2, 0), (0, u64::MAX)] {
        refused(&Draft::windowed(), ALL, error, |d| {
            d.stacks[place].period = period;
        });
    }
    for draft in [Draft::counting(), Draft::ranged(), Draft::merged()] {
        for (place, _) in draft.stacks.iter().enumerate() {
            refused(&draft, ALL, error, |d| d.stacks[place].period = 1);
        }
    }
    // Only earlier builds wrote several stacks of counters, and no ids in this form.
    refused(&Draft::counting(), ALL, error, |d| {
        d.stacks.push(d.stacks[0].clone());
    });
}

#[test]
fn wrong_numbers_of_items_are_refused() {
    let windowed = Draft::windowed();
    for items in [2, 4] {
        refused(
            &windowed,
            ALL,
            "filter stacked on one that is not full",
            |d| {
                d.stacks[0].filters[0].items = items;
            },
        );
    }
    for (stack, filter, items) in [(0, 1, 7), (1, 0, 4), (2, 0, 4)] {
        refused(&windowed, ALL, "more items than capacity", |d| {
            d.stacks[stack].filters[filter].items = items;
        });
    }
    let error = "sum out of range";
    refused(&windowed, ALL, error, |d| {
        d.stacks[2].filters[0].capacity = 1 << 63;
    });
    refused(&windowed, ALL, error, |d| {
        (d.expansion, d.stacks[2].filters[0].items) = (0, 1 << 63);
    });
    for draft in Draft::all() {
        refused(&draft, ALL, error, |d| {
            d.stacks[0].filters[1].capacity = u64::MAX;
        });
        let last = draft.stacks.len() - 1;
        refused(&draft, ALL, error, |d| {
            d.stacks[0].filters[1].capacity = 1 << 62;
            let filters = &mut d.stacks[last].filters;
            let place = filters.len() - 1;
            (filters[0].capacity, filters[0].items) =
                (1 << 62, if place > 0 { 1 << 62 } else { 0 });
            filters[place].capacity = 1 << 63;
        });
    }
    for draft in [Draft::counting(), Draft::ranged(), Draft::merged()] {
        refused(&draft, ALL, error, |d| {
            d.stacks[0].filters[0].items = 1 << 63;
        });
        refused(&draft, ALL, error, |d| {
            let filters = &mut d.stacks[0].filters;
            (filters[0].capacity, filters[1].capacity) = (1 << 62, 1 << 62);
        });
    }
}

#[test]
fn wrong_ids_are_refused() {
    refused(&Draft::windowed(), ALL, "ids without counters", |d| {
        d.form = 2;
    });
    for flag in [2, u64::MAX] {
        refused(&Draft::counting(), ALL, "ids flag out of range", |d| {
            d.stacks[0].filters[1].took_flag = Some(flag);
        });
    }
    for filter in [0, 1] {
        refused(&Draft::counting(), ALL, "ids out of order", |d| {
            d.stacks[0].filters[filter].took = Some((91, 90));
        });
    }
    for draft in [Draft::ranged(), Draft::merged()] {
        refused(&draft, ALL, "ids out of order", |d| {
            d.stacks[0].ids = (91, 90);
        });
        // The ranges are valid as (0, 0) and (40, 1).
        for ranges in [
            &[(1, 0), (40, 1)][..],
            &[(0, 0), (0, 1)],
            &[(0, 0), (40, 0)],
            &[(0, 0), (40, 2)],
            &[(0, 0), (40, u64::MAX)],
            &[(40, 1), (0, 0)],
            &[(0, 0), (40, 1), (50, 1)],
            &[(0, 2)],
        ] {
            refused(&draft, ALL, "ranges out of order", |d| {
                d.stacks[0].ranges = ranges.to_vec();
            });
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for draft in Draft::all() {
        for count in [1 << 16, 1 << 40, u64::MAX] {
            refused(&draft, ALL, DecodeError::Truncated, |d| {
                d.count = Some(count);
            });
            refused(&draft, ALL, DecodeError::Truncated, |d| {
                d.stacks.last_mut().unwrap().count = Some(count);
            });
        }
        let mut fewer = draft.clone();
        fewer.stacks.last_mut().unwrap().count = Some(0);
        assert!(fewer.error(Form::Dump).is_some());
        refused(&draft, super::CUT, "bytes behind the object", |d| {
            d.behind = &[0];
        });
        // Cells that are not what the header says, where there are cells.
        let length = "filter's length is not what its header says";
        for filter in [0, 1] {
            refused(&draft, WHOLE, length, |d| {
                d.stacks[0].filters[filter].cut = Some(47);
            });
            for claim in [100, 1 << 40] {
                refused(&draft, WHOLE, length, |d| {
                    d.stacks[0].filters[filter].bitmap_bytes = Some(claim);
                });
            }
            for cut in [0, 1, 44] {
                refused(&draft, WHOLE, "filter shorter than its header", |d| {
                    d.stacks[0].filters[filter].cut = Some(cut);
                });
            }
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
            refused(&draft, super::CUT, DecodeError::UnsupportedVersion, |d| {
                d.form = form;
            });
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
