//! Cuckoo filters: why there is no plan, and how far their pictures go.

use valkeybloom_planner::{Cuckoo, FaultKind, Limits, Request};

fn filter(items: u64, start: impl Into<Option<u64>>, expansion: u64) -> Cuckoo {
    Cuckoo {
        items,
        start: start.into(),
        bucket_size: 2,
        max_iterations: 20,
        expansion,
    }
}

#[test]
fn each_fault_says_what_helps() {
    const LARGEST: u64 = 1 << 30;
    const INVALID: FaultKind = FaultKind::Invalid;
    const IMPOSSIBLE: FaultKind = FaultKind::Impossible;
    let start = "the number of items to start with is not within 4 to 1073741824";
    let fewer = "a filter that does not grow is full before";
    let larger = "65,535 filters, the most, are too small: start larger";
    let slower = "filters of 4 GiB end growth: start with 1073741824 and expansion 1";
    let none = "no cuckoo filter with that bucket size has as many slots";
    for (request, kind, field, text) in [
        (filter(2 * LARGEST, None, 1), INVALID, "items", start),
        (filter(2 * LARGEST, None, 0), INVALID, "items", start),
        (filter(5, 4, 0), IMPOSSIBLE, "items", fewer),
        (filter(300, 1024, 0), IMPOSSIBLE, "items", fewer),
        (filter(LARGEST, None, 0), IMPOSSIBLE, "items", fewer),
        (filter(1_000_000, 4, 1), IMPOSSIBLE, "start", larger),
        (filter(10 << 30, 1000, 2), IMPOSSIBLE, "start", slower),
        (filter(10 << 30, LARGEST, 2), IMPOSSIBLE, "start", slower),
        (filter(1 << 50, LARGEST, 1), IMPOSSIBLE, "items", none),
        (filter(1 << 50, 4, 2), IMPOSSIBLE, "items", none),
        (filter(1 << 50, 4, 1), IMPOSSIBLE, "items", none),
        (filter(10, LARGEST + 1, 1), INVALID, "start", start),
        (filter(10, 3, 1), INVALID, "start", start),
    ] {
        let fault = request.plan(&Limits::default()).expect_err(text);
        assert_eq!((fault.kind, fault.field, &*fault.text), (kind, field, text));
        assert!(request.pictures(&Limits::default()).is_empty());
    }
    for advised in [
        filter(2 * LARGEST, LARGEST, 1),
        filter(1, 4, 1),
        filter(1_000_000, 100, 1),
        filter(10 << 30, LARGEST, 1),
    ] {
        advised.plan(&Limits::default()).expect("it helps");
    }
}

/// The command has all options, whatever the settings of the server, and a capacity that the bucket size divides. A filter that
/// does not grow has slots to spare.
#[test]
fn the_command_makes_the_planned_filter() {
    for (items, bucket_size, expansion, capacity, slots) in [
        (1, 2, 1, 4, 4),
        (1024, 2, 1, 1024, 1024),
        (1025, 2, 1, 1026, 2048),
        (1000, 255, 1, 1020, 1020),
        (1 << 30, 3, 1, 1 << 30, 3 << 29),
        (1, 2, 0, 4, 4),
        (1000, 2, 0, 3704, 4096),
        (1000, 16, 0, 1152, 2048),
        (1 << 30, 255, 0, 1 << 30, 255 << 23),
    ] {
        let request = Cuckoo {
            bucket_size,
            ..filter(items, None, expansion)
        };
        let planned = request.plan(&Limits::default()).expect("a plan");
        let options = format!("BUCKETSIZE {bucket_size} MAXITERATIONS 20 EXPANSION {expansion}");
        let command = format!("CF.RESERVE key {capacity} {options}");
        assert_eq!(planned.report.json["command"], command);
        assert_eq!(planned.report.json["slots"], slots);
        assert_eq!(planned.report.json["filters_at_least"], 1);
    }
}

/// A filter of 65,535 smallest ones has 262,140 slots.
#[test]
fn pictures_go_beyond_the_plan() {
    for (items, start, expansion, end) in [
        (100_000, 4, 1, 200_000.0),
        (200_000, 4, 1, 262_140.0),
        (1000, 4, 2, 2000.0),
    ] {
        let request = filter(items, start, expansion);
        let pictures = request.pictures(&Limits::default());
        assert_eq!(pictures.len(), 2);
        for picture in pictures {
            let points = &picture.curves[0].points;
            let &(last, _) = points.last().expect("a curve");
            assert!((last - end).abs() < 1.0 && points.len() <= 400, "{last}");
        }
    }
}
