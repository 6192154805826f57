//! Rows, and the advice on them.

use valkeybloom_planner::TDigest;
use valkeybloom_sketches::bloom::Window;

use super::*;

const SETTINGS: Settings = Settings {
    filter_limit: Some(64 << 20),
    object_limit: Some(0),
    cuckoo_filters: Some(32),
};

fn limits(filter: u64, object: u64) -> Settings {
    Settings {
        filter_limit: Some(filter),
        object_limit: Some(object),
        ..SETTINGS
    }
}

fn filter(items: u64, capacity: u64, filters: u64, bytes: u64, bloom: Bloom) -> Row {
    Row {
        key: b"k".to_vec(),
        kind: "bloomfltr".to_owned(),
        items: Some(items),
        capacity: Some(capacity),
        rate: Some(0.01),
        filters: Some(filters),
        bytes: Some(bytes),
        details: Details::Bloom(bloom),
        ..Row::default()
    }
}

fn sketch(items: u64, capacity: u64, details: Details) -> Row {
    Row {
        key: b"k".to_vec(),
        items: Some(items),
        capacity: Some(capacity),
        details,
        ..Row::default()
    }
}

/// Requires that the commands of the advice are these.
#[track_caller]
fn assert_advised(row: &Row, settings: Settings, commands: &[&str]) {
    let all = of(row, settings, 30).into_iter();
    let all: Vec<String> = all.map(|advice| advice.command).collect();
    assert_eq!(all, commands, "{row:?} {settings:?}");
}

fn grows(reaching: u64, reach: u64) -> Bloom {
    Bloom {
        growth: Some(Growth::from_expansion(2)),
        reach: Some(reach),
        reaching: Some(reaching),
        ..Bloom::default()
    }
}

fn fixed(reaching: u64, reach: u64) -> Bloom {
    Bloom {
        growth: Some(Growth::Fixed),
        ..grows(reaching, reach)
    }
}

/// Returns a filter with a window, of which so many periods are live.
fn window(live_periods: u64, bloom: Bloom) -> Bloom {
    Bloom {
        window: Window::new(3_600_000, 24),
        live_periods: Some(live_periods),
        ..bloom
    }
}

#[test]
fn stacks_that_one_filter_could_replace() {
    let new = "BF.RESERVE {k}:new 0.01";
    for (items, filters, bytes, bloom, words) in [
        (500_000, 1, 1_380_575, grows(500_000, 31_000_000), ""),
        // The figures of `valkeybloom size`: 10 filters from 1,000, when full.
        (1_023_000, 10, 2_417_967, grows(0, 31_000_000), "1534500"),
        // Two filters that take hardly more than one are good enough.
        (1_500_000, 2, 2_200_000, grows(0, 31_000_000), ""),
        // A window has a filter for each period.
        (40_000, 4, 130_000, window(4, grows(0, 99)), ""),
        (
            40_000,
            20,
            130_000,
            window(4, grows(0, 99)),
            "15000 WINDOW 3600000 PERIODS 24",
        ),
    ] {
        let row = filter(items, items, filters, bytes, bloom);
        let command = format!("{new} {words}");
        let commands = [&command[..]];
        assert_advised(
            &row,
            SETTINGS,
            if words.is_empty() { &[] } else { &commands },
        );
        // Nothing is advised on values of a server that reports little.
        assert_advised(&Row { rate: None, ..row }, SETTINGS, &[]);
    }
}

#[test]
fn limits_that_end_growth() {
    let set = "CONFIG SET";
    let (of_filter, of_object) = (FILTER_MEMORY, OBJECT_MEMORY);
    let reserve = "BF.RESERVE {k}:new 0.01 62000000 NONSCALING";
    let (near, most) = (28_000_000, 31_000_000);
    // The next filter has some 100 MB: 62,000,000 items at a rate of 0.01 / 6.
    for (bloom, settings, command) in [
        (grows(27_000_000, most), limits(64 << 20, 0), String::new()),
        (
            grows(near, most),
            limits(64 << 20, 0),
            format!("{set} {of_filter} 134217728"),
        ),
        (grows(near, most), Settings::default(), String::new()),
        (
            grows(near, most),
            limits(1 << 30, 100 << 20),
            format!("{set} {of_object} 209715200"),
        ),
        (
            grows(near, most),
            limits(64 << 20, 1 << 30),
            format!("{set} {of_filter} 134217728"),
        ),
        (
            grows(near, most),
            limits(64 << 20, 100 << 20),
            format!("{set} {of_filter} 134217728 {of_object} 209715200"),
        ),
        (fixed(near, most), Settings::default(), reserve.to_owned()),
        // Of a window, the items of the current period count.
        (
            window(4, grows(7, most)),
            limits(64 << 20, 0),
            String::new(),
        ),
        (
            window(1, fixed(near, most)),
            Settings::default(),
            format!("{reserve} WINDOW 3600000 PERIODS 24"),
        ),
        // There is no room for a period.
        (
            window(4, grows(0, 0)),
            limits(64 << 20, 50_000_000),
            format!("{set} {of_object} 100000000"),
        ),
    ] {
        let row = filter(28_000_000, 31_000_000, 1, 42_796_951, bloom);
        let commands = [&command[..]];
        assert_advised(
            &row,
            settings,
            if command.is_empty() { &[] } else { &commands },
        );
    }
}

#[test]
fn a_rate_counts_as_exceeded_beyond_the_error_of_the_estimate() {
    for (rate, now, commands) in [
        (0.01, 0.019, &[][..]),
        (0.01, 0.03, &["BF.RESERVE {k}:new 0.01 450"]),
        (0.000_1, 0.000_25, &[]),
    ] {
        let row = filter(300, 300, 1, 500, grows(300, 31_000_000));
        let (rate, rate_now) = (Some(rate), Some(now));
        assert_advised(
            &Row {
                rate,
                rate_now,
                ..row
            },
            SETTINGS,
            commands,
        );
    }
}

#[test]
fn sketches_have_advice_of_their_own() {
    let cuckoo = |expansion| Details::Cuckoo(Cuckoo { expansion });
    let top_k = |width| {
        let (k, depth, decay) = (10, 7, 0.9);
        Details::TopK(TopK {
            k,
            width,
            depth,
            decay,
        })
    };
    let counts = |cell_size| {
        let (width, depth) = (2000, 7);
        Details::CountMin(CountMin {
            width,
            depth,
            cell_size,
        })
    };
    let most = u64::from(u32::MAX);
    for (items, details, commands) in [
        (94, cuckoo(0), &["CF.RESERVE {k}:new 200"][..]),
        (89, cuckoo(0), &[]),
        (94, cuckoo(1), &[]),
        (0, top_k(49), &["TOPK.RESERVE {k}:new 10 200 7 0.9"]),
        (0, top_k(50), &[]),
        (most, counts(4), &[]),
        (
            most + 1,
            counts(4),
            &["CMS.INITBYDIM {k}:new 2000 7 CELL_SIZE 8"],
        ),
        (most + 1, counts(8), &[]),
    ] {
        assert_advised(&sketch(items, 100, details), SETTINGS, commands);
    }
    for (filters, commands) in [(15, &[][..]), (16, &["CF.RESERVE {k}:new 32768"])] {
        let mut row = sketch(filters * 900, filters * 1024, cuckoo(1));
        row.filters = Some(filters);
        assert_advised(&row, SETTINGS, commands);
        assert_advised(&row, Settings::default(), &[]);
    }
    let mut digest = sketch(1, 1, Details::TDigest(TDigest { compression: 100 }));
    digest.bytes = Some(950);
    let raise = "CONFIG SET bf.bloom-memory-usage-limit 2000";
    assert_advised(&digest, limits(64 << 20, 1000), &[raise]);
    assert_advised(&digest, SETTINGS, &[]);
}

#[test]
fn unused_keys_may_be_deleted() {
    let mut row = filter(1, 100, 1, 200, grows(1, 31_000_000));
    row.key = b"a \"key\"".to_vec();
    for (days, commands) in [(29, &[][..]), (30, &[r#"UNLINK "a \"key\"""#])] {
        row.idle_seconds = Some(days * 86_400);
        assert_advised(&row, SETTINGS, commands);
    }
}

#[test]
fn a_successor_has_the_slot_of_its_key() {
    assert_eq!(new_key(b"seen"), "{seen}:new");
    assert_eq!(new_key(b"{app}:seen"), "{app}:seen:new");
    assert_eq!(new_key(b"a b"), r#""{a b}:new""#);
    for key in ["a{b", "a}b", "a{}b", "}{", "{", "{}"] {
        let name = new_key(key.as_bytes());
        assert_eq!(slot(name.as_bytes()), slot(key.as_bytes()), "{key}");
    }
}
