//! Rows, and the advice on them.

use super::*;

const NO_LIMITS: Settings = Settings {
    filter_limit: Some(64 << 20),
    object_limit: Some(0),
    cuckoo_filters: Some(32),
};

fn filter(items: u64, capacity: u64, filters: u64, bytes: u64) -> Row {
    let mut row = Row::partly_loaded(b"seen".to_vec(), "bloomfltr");
    row.items = Some(items);
    row.capacity = Some(capacity);
    row.filters = Some(filters);
    row.bytes = Some(bytes);
    row.rate = Some(0.01);
    row.details = Details::Bloom(Bloom {
        growth: Growth::By(2),
        reach: Some(31_000_000),
        reaching: Some(items),
        ..Bloom::default()
    });
    row
}

fn sketch(kind: &str, details: Details) -> Row {
    let mut row = Row::partly_loaded(b"k".to_vec(), kind);
    row.details = details;
    row
}

/// Returns the commands of the advice.
fn commands(row: &Row, settings: Settings) -> Vec<String> {
    let all = of(row, settings, 30).into_iter();
    all.map(|advice| advice.command).collect()
}

#[test]
fn a_filter_that_is_as_reserved_gets_no_advice() {
    let mut row = filter(500_000, 1_000_000, 1, 1_380_575);
    row.rate_now = Some(0.000_1);
    row.idle_seconds = Some(29 * 86_400);
    assert_eq!(of(&row, NO_LIMITS, 30), []);
    // Nor do values of a server that reports little.
    (row.rate, row.rate_now, row.idle_seconds) = (None, None, None);
    assert_eq!(of(&row, Settings::default(), 30), []);
}

#[test]
fn a_deep_stack_is_worth_a_new_filter() {
    // The figures of `valkeybloom size`: 10 filters from 1,000 take 2,417,967 bytes when full, and one for half as
    // many items again, 1,534,500, takes 1.5345 × 1,380,575 bytes.
    let row = filter(1_023_000, 1_023_000, 10, 2_417_967);
    let advice = of(&row, NO_LIMITS, 30);
    assert_eq!(advice.len(), 1);
    assert_eq!(advice[0].command, "BF.RESERVE {seen}:new 0.01 1534500");
    let text = &advice[0].text;
    assert!(text.contains("1 filter instead of 10"), "{text}");
    let bytes: u64 = text
        .split_once("takes ")
        .and_then(|(_, rest)| rest.split_once(" bytes"))
        .and_then(|(bytes, _)| bytes.replace(',', "").parse().ok())
        .expect("the bytes");
    assert!(bytes.abs_diff(2_118_492) < 200, "{text}");
    // Two filters that take hardly more than one are good enough.
    assert_eq!(
        of(&filter(1_500_000, 3_000_000, 2, 2_200_000), NO_LIMITS, 30),
        []
    );
}

#[test]
fn limits_are_told_when_they_are_near() {
    let (filter_limit, object_limit) = (
        "bf.bloom-filter-max-memory-usage",
        "bf.bloom-memory-usage-limit",
    );
    let near = |bloom| {
        let mut row = filter(28_000_000, 31_000_000, 1, 42_796_951);
        row.details = Details::Bloom(bloom);
        row
    };
    let growing = Bloom {
        growth: Growth::By(2),
        reach: Some(31_000_000),
        reaching: Some(28_000_000),
        ..Bloom::default()
    };
    let window = Some((3_600_000, 24));
    let reserve = "BF.RESERVE {seen}:new 0.01 62000000 NONSCALING";
    // The next filter has some 100 MB: 62,000,000 items at a rate of 0.01 / 6.
    for (bloom, limits, command) in [
        (
            growing.clone(),
            Some((64 << 20, 0)),
            format!("CONFIG SET {filter_limit} 134217728"),
        ),
        (growing.clone(), None, String::new()),
        (
            growing.clone(),
            Some((1 << 30, 100 << 20)),
            format!("CONFIG SET {object_limit} 209715200"),
        ),
        (
            growing.clone(),
            Some((64 << 20, 1 << 30)),
            format!("CONFIG SET {filter_limit} 134217728"),
        ),
        (
            growing.clone(),
            Some((64 << 20, 100 << 20)),
            format!("CONFIG SET {filter_limit} 134217728 {object_limit} 209715200"),
        ),
        (
            Bloom {
                reaching: Some(27_000_000),
                ..growing.clone()
            },
            Some((64 << 20, 0)),
            String::new(),
        ),
        (
            Bloom {
                growth: Growth::Fixed,
                ..growing.clone()
            },
            None,
            reserve.to_owned(),
        ),
        // Of a window, the items of the current period count.
        (
            Bloom {
                reaching: Some(7),
                window,
                live_periods: Some(4),
                ..growing.clone()
            },
            Some((64 << 20, 0)),
            String::new(),
        ),
        (
            Bloom {
                window,
                live_periods: Some(1),
                growth: Growth::Fixed,
                ..growing.clone()
            },
            None,
            format!("{reserve} WINDOW 3600000 PERIODS 24"),
        ),
        // There is no room for a period.
        (
            Bloom {
                reaching: Some(0),
                reach: Some(0),
                window,
                live_periods: Some(4),
                ..growing
            },
            Some((64 << 20, 50_000_000)),
            format!("CONFIG SET {object_limit} 100000000"),
        ),
    ] {
        let settings = limits.map_or_else(Settings::default, |(filter, object)| Settings {
            filter_limit: Some(filter),
            object_limit: Some(object),
            ..NO_LIMITS
        });
        let row = near(bloom);
        assert_eq!(
            commands(&row, settings).concat(),
            command,
            "{row:?} {settings:?}"
        );
    }
}

#[test]
fn limits_of_sketches_are_told_when_they_are_near() {
    let mut digest = sketch(
        "TDIS-TYPE",
        Details::TDigest {
            compression: Some(100),
        },
    );
    digest.bytes = Some(950);
    let limited = Settings {
        object_limit: Some(1000),
        ..NO_LIMITS
    };
    assert_eq!(
        commands(&digest, limited),
        ["CONFIG SET bf.bloom-memory-usage-limit 2000"]
    );
    assert_eq!(commands(&digest, NO_LIMITS), [""; 0]);
    let mut cuckoo = sketch("MBbloomCF", Details::Cuckoo { expansion: Some(0) });
    (cuckoo.items, cuckoo.capacity) = (Some(95), Some(100));
    assert_eq!(commands(&cuckoo, NO_LIMITS), ["CF.RESERVE {k}:new 200"]);
    cuckoo.details = Details::Cuckoo { expansion: Some(1) };
    for (filters, due) in [(15, &[][..]), (16, &["CF.RESERVE {k}:new 32768"])] {
        cuckoo.filters = Some(filters);
        (cuckoo.items, cuckoo.capacity) = (Some(filters * 900), Some(filters * 1024));
        assert_eq!(commands(&cuckoo, NO_LIMITS), due);
        assert_eq!(commands(&cuckoo, Settings::default()), [""; 0]);
    }
    cuckoo.filters = Some(1);
    assert_eq!(commands(&cuckoo, NO_LIMITS), [""; 0]);
}

#[test]
fn a_rate_counts_as_exceeded_beyond_the_error_of_the_estimate() {
    let mut row = filter(300, 300, 1, 500);
    row.rate_now = Some(0.019);
    assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
    row.rate_now = Some(0.03);
    assert_eq!(
        commands(&row, NO_LIMITS),
        ["BF.RESERVE {seen}:new 0.01 450"]
    );
    (row.rate, row.rate_now) = (Some(0.000_1), Some(0.000_25));
    assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
}

#[test]
fn a_window_whose_periods_stack_is_reserved_too_small() {
    let mut row = filter(40_000, 45_000, 20, 130_000);
    row.kind = "bloomfltx".to_owned();
    row.details = Details::Bloom(Bloom {
        growth: Growth::By(2),
        window: Some((3_600_000, 24)),
        live_periods: Some(4),
        ..Bloom::default()
    });
    let reserve = "BF.RESERVE {seen}:new 0.01 15000 WINDOW 3600000 PERIODS 24";
    assert_eq!(commands(&row, NO_LIMITS), [reserve]);
    // A filter a period is how it should be.
    row.filters = Some(4);
    assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
}

#[test]
fn sketches_have_advice_of_their_own() {
    let narrow = |width| Details::TopK {
        k: Some(10),
        width: Some(width),
        depth: Some(7),
        decay: Some(0.9),
    };
    let wide = "TOPK.RESERVE {k}:new 10 200 7 0.9";
    assert_eq!(
        commands(&sketch("TopK-TYPE", narrow(49)), NO_LIMITS),
        [wide]
    );
    assert_eq!(
        commands(&sketch("TopK-TYPE", narrow(50)), NO_LIMITS),
        [""; 0]
    );

    let counters = |cell_size| Details::CountMin {
        width: Some(2000),
        depth: Some(7),
        cell_size,
    };
    let mut row = sketch("CMSk-TYPE", counters(4));
    row.items = Some(u64::from(u32::MAX));
    assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
    row.items = Some(1 << 32);
    let larger = "CMS.INITBYDIM {k}:new 2000 7 CELL_SIZE 8";
    assert_eq!(commands(&row, NO_LIMITS), [larger]);
    row.details = counters(8);
    assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
}

#[test]
fn unused_and_unfinished_keys_may_be_deleted() {
    let mut row = filter(1, 100, 1, 200);
    row.key = b"a \"key\"".to_vec();
    row.idle_seconds = Some(30 * 86_400);
    assert_eq!(commands(&row, NO_LIMITS), [r#"UNLINK "a \"key\"""#]);
    let row = Row::partly_loaded(b"k".to_vec(), "bloomfltr");
    assert_eq!(commands(&row, NO_LIMITS), ["UNLINK k"]);
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
