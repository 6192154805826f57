//! Windows, counters, growth and times.

use valkeybloom_protocol::bloom::{InfoField, InfoRequest, Moment, Reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::bloom::{Kind, Window};

use super::{
    ARITY, CANNOT_EXPAND, NO_COUNTS, NO_NUMBERS, UNKNOWN, created, defaults, insert,
    insert_refused, own, reserve_refused, words,
};

const BAD_WINDOW: &str = "ERR bad window";
const BAD_PERIODS: &str = "ERR bad periods";
const BAD_TTL: &str = "ERR bad ttl";
const HALF_WINDOW: &str = "ERR WINDOW and PERIODS have to be given together";
const COUNTING_WINDOW: &str = "ERR WINDOW and COUNTING cannot be combined";

/// Checks the shape that these options give a RESERVE and an INSERT.
#[track_caller]
fn shapes(options: &str, kind: Kind) {
    let line = format!("BF.RESERVE k 0.01 100 {options}");
    let request = Reserve::parse(&words(&line)[..], own(defaults()), Origin::Client).unwrap();
    assert_eq!(created(request.create).kind, kind, "{line}");
    assert_eq!((request.ttl_ms, request.unless_exists), (None, false));
    let line = format!("BF.INSERT k {options} ITEMS a");
    let shape = created(insert(&line).unwrap().create.unwrap());
    assert_eq!(shape.kind, kind, "{line}");
    assert_eq!(shape.params.capacity, defaults().capacity);
}

#[track_caller]
fn shape_refused(options: &str, text: &str) {
    reserve_refused(&format!("BF.RESERVE k 0.01 100 {options}"), text);
    insert_refused(&format!("BF.INSERT k {options}"), text);
}

#[test]
fn windows_and_counters_are_parsed_in_any_case_and_order() {
    for options in ["COUNTING", "counting COUNTING EXPANSION 3"] {
        shapes(options, Kind::Counting);
    }
    let most = i64::MAX as u64;
    for (options, period_ms, periods) in [
        ("WINDOW 60000 PERIODS 5", 60_000, 5),
        ("periods 5 NONSCALING window 60000", 60_000, 5),
        ("Window 1 Periods 1", 1, 1),
        ("WINDOW 2 PERIODS 60000", 2, 60_000),
        // The last of the same option wins.
        ("WINDOW 9 PERIODS 8 WINDOW 7 PERIODS 6", 7, 6),
        ("WINDOW 9223372036854775807 PERIODS 1", most, 1),
        ("WINDOW 4611686018427387903 PERIODS 2", most / 2, 2),
    ] {
        let window = Window::new(period_ms, periods).unwrap();
        shapes(options, Kind::Windowed(window));
    }
}

#[test]
fn impossible_windows_are_refused() {
    for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
        shape_refused(&format!("WINDOW {word} PERIODS 5"), BAD_WINDOW);
        shape_refused(&format!("PERIODS {word} WINDOW 5"), BAD_PERIODS);
    }
    for options in ["WINDOW", "PERIODS 5 WINDOW", "WINDOW PERIODS 5"] {
        shape_refused(options, BAD_WINDOW);
    }
    for options in [
        "PERIODS",
        "WINDOW 5 PERIODS COUNTING",
        "WINDOW 5 PERIODS 60001",
        "WINDOW 5 PERIODS 65535",
        "WINDOW 5 PERIODS 9223372036854775807",
    ] {
        shape_refused(options, BAD_PERIODS);
    }
    shape_refused("WINDOW 0 PERIODS 5", "ERR (window should be larger than 0)");
    shape_refused(
        "WINDOW 5 PERIODS 0",
        "ERR (periods should be larger than 0)",
    );
    for options in [
        "WINDOW 5",
        "PERIODS 5",
        "WINDOW 5 COUNTING",
        "COUNTING PERIODS 5",
    ] {
        shape_refused(options, HALF_WINDOW);
    }
    for options in [
        "WINDOW 9223372036854775807 PERIODS 2",
        "WINDOW 4611686018427387904 PERIODS 2",
        "WINDOW 153722867280913 PERIODS 60000",
    ] {
        shape_refused(options, BAD_WINDOW);
    }
    for options in ["WINDOW 5 PERIODS 5 5", "COUNTING 1", "COUNTERS", "PERIOD 5"] {
        shape_refused(options, UNKNOWN);
    }
}

#[test]
fn windows_do_not_combine_with_counters() {
    for options in [
        "WINDOW 5 PERIODS 5 COUNTING",
        "COUNTING WINDOW 5 PERIODS 5",
        "window 5 Counting PERIODS 5",
        "PERIODS 5 COUNTING NONSCALING WINDOW 5 COUNTING",
        "WINDOW 5 PERIODS 60000 EXPANSION 1 COUNTING",
    ] {
        shape_refused(options, COUNTING_WINDOW);
    }
    // A word that is invalid by itself is refused first, at any position.
    shape_refused("COUNTING WINDOW 5 PERIODS 60001", BAD_PERIODS);
    shape_refused("WINDOW 5 PERIODS 5 COUNTING WINDOW x", BAD_WINDOW);
    shape_refused("WINDOW 5 PERIODS 5 COUNTING 1", UNKNOWN);
    shape_refused("COUNTING WINDOW 9223372036854775807 PERIODS 2", BAD_WINDOW);
    reserve_refused(
        "BF.RESERVE k 0.01 100 WINDOW 5 PERIODS 5 COUNTING EXPANSION 2 NONSCALING",
        CANNOT_EXPAND,
    );
    reserve_refused(
        "BF.RESERVE k 0.01 100 WINDOW 5 PERIODS 5 COUNTING EX 0",
        "ERR (ttl should be larger than 0)",
    );
    insert_refused(
        "BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NOCREATE ITEMS a",
        COUNTING_WINDOW,
    );
    insert_refused(
        "BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NONSCALING VALIDATESCALETO 5",
        COUNTING_WINDOW,
    );
    // The same words after ITEMS are items.
    let request = insert("BF.INSERT k COUNTING ITEMS WINDOW 5 PERIODS 5").unwrap();
    assert_eq!(created(request.create.unwrap()).window(), None);
}

#[test]
fn reserve_takes_a_time_to_live_and_a_condition() {
    let parse = |options: &str| {
        let line = format!("BF.RESERVE k 0.01 100 {options}");
        Reserve::parse(&words(&line)[..], own(defaults()), Origin::Client)
            .map(|request| (request.ttl_ms, request.unless_exists))
            .map_err(|error| error.to_string())
    };
    let most = i64::MAX as u64;
    for (options, ttl_ms, unless_exists) in [
        ("EX 1", Some(1_000), false),
        ("px 1", Some(1), false),
        ("NX", None, true),
        ("nx Ex 60 NX", Some(60_000), true),
        // The last of the same option wins.
        ("EX 60 COUNTING EX 5", Some(5_000), false),
        ("PX 60 px 5", Some(5), false),
        ("PX 9223372036854775807", Some(most), false),
        ("EX 9223372036854775", Some(most / 1000 * 1000), false),
    ] {
        assert_eq!(parse(options), Ok((ttl_ms, unless_exists)), "{options}");
    }
    let refused = |options: &str, text: &str| {
        assert_eq!(parse(options), Err(text.to_owned()), "{options}");
    };
    for option in ["EX", "PX"] {
        refused(option, BAD_TTL);
        refused(&format!("{option} NX"), BAD_TTL);
        refused(&format!("{option} 0"), "ERR (ttl should be larger than 0)");
        for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
            refused(&format!("{option} {word}"), BAD_TTL);
        }
    }
    refused("EX 9223372036854775807", BAD_TTL);
    for options in [
        "EX 60 PX 5",
        "PX 5 EX 60",
        "px 60000 COUNTING ex 60 NX",
        "EX 1 PX 1 EX 2",
    ] {
        refused(options, "ERR EX and PX cannot be combined");
    }
    // A word that is wrong by itself is refused first.
    refused("EX 60 PX 0", "ERR (ttl should be larger than 0)");
    refused("EX 60 PX 5 PX x", BAD_TTL);
    refused("EX 60 PX 5 XX", UNKNOWN);
    for options in ["TTL 5", "ID 5", "AT 5", "XX", "NX 1", "EXAT 5"] {
        refused(options, UNKNOWN);
    }
}

#[test]
fn insert_takes_times() {
    let most = Some(i64::MAX as u64);
    for (options, ttl_ms, at_ms) in [
        ("TTL 5 ITEMS a", Some(5), None),
        ("AT 5 ITEMS a", None, Some(5)),
        ("at 3 TTL 4 ttl 1 NOCREATE ITEMS TTL", Some(1), Some(3)),
        ("TTL 9223372036854775807", most, None),
        ("AT 9223372036854775807", None, most),
        ("AT 0", None, Some(0)),
    ] {
        let line = format!("BF.INSERT k {options}");
        let expected = Moment {
            at_ms,
            ttl_ms,
            ..Moment::default()
        };
        assert_eq!(insert(&line).unwrap().moment, expected, "{line}");
    }
    let saturate = insert("BF.INSERT k saturate ITEMS a").unwrap().moment;
    assert!(saturate.saturate);
    for (option, text) in [("TTL", BAD_TTL), ("AT", UNKNOWN)] {
        insert_refused(&format!("BF.INSERT k {option}"), text);
        insert_refused(&format!("BF.INSERT k {option} ITEMS a"), text);
        for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
            insert_refused(&format!("BF.INSERT k {option} {word} ITEMS a"), text);
        }
    }
    insert_refused("BF.INSERT k TTL 0", "ERR (ttl should be larger than 0)");
    for line in [
        "BF.INSERT k ID 5",
        "BF.INSERT k EX 5",
        "BF.INSERT k PX 5",
        "BF.INSERT k NX",
    ] {
        insert_refused(line, UNKNOWN);
    }
}

#[test]
fn scale_to_says_how_far_a_filter_grows() {
    let parse = |line: &str| {
        let request = Reserve::parse(&words(line)[..], own(defaults()), Origin::Client);
        let request = request.map_err(|error| error.to_string())?;
        let shape = created(request.create);
        Ok::<_, String>((shape.kind, shape.params.capacity, request.grow_to))
    };
    let window = Kind::Windowed(Window::new(5, 3).unwrap());
    for (options, kind, capacity) in [
        ("SCALETO 700", Kind::ScaledTo, 700),
        ("scaleto 7 ScaleTo 70", Kind::ScaledTo, 100),
        ("COUNTING SCALETO 700 EXPANSION 4", Kind::Counting, 700),
        // A fourth for each of three periods, and for one more.
        ("SCALETO 701 PERIODS 3 WINDOW 5", window, 176),
    ] {
        let to = options.split(' ').filter_map(|word| word.parse().ok());
        let to: Vec<u64> = to.collect();
        let parsed = parse(&format!("BF.RESERVE k 0.01 100 {options}")).unwrap();
        assert_eq!((parsed.0, parsed.1), (kind, capacity), "{options}");
        assert!(to.contains(&parsed.2.unwrap()), "{options}");
    }
    // Without a capacity, the default one does not count.
    let insert = insert("BF.INSERT k SCALETO 3 ITEMS SCALETO 9").unwrap();
    let shape = created(insert.create.unwrap());
    assert_eq!((shape.kind, shape.params.capacity), (Kind::ScaledTo, 3));
    assert_eq!((insert.grow_to, insert.scale_to), (Some(3), None));
    for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
        shape_refused(&format!("SCALETO {word}"), "ERR bad scaleto");
    }
    shape_refused("SCALETO", "ERR bad scaleto");
    shape_refused("SCALETO 0", "ERR (scaleto should be larger than 0)");
    for options in ["SCALETO 5 NONSCALING", "EXPANSION 0 SCALETO 5 COUNTING"] {
        shape_refused(
            options,
            "ERR cannot use NONSCALING and SCALETO options together",
        );
    }
}

#[test]
fn info_takes_one_field_or_all_or_none() {
    let info = |line: &[&[u8]]| InfoRequest::parse(line, Error::UNKNOWN_FIELD);
    let parse = |line: &str| info(&words(line));
    assert_eq!(parse("BF.INFO k"), Ok(InfoRequest::Plain));
    assert_eq!(parse("BF.INFO k All"), Ok(InfoRequest::All));
    for (word, field) in [
        ("CAPACITY", InfoField::Capacity),
        ("SIZE", InfoField::Size),
        ("FILTERS", InfoField::Filters),
        ("ITEMS", InfoField::Items),
        ("EXPANSION", InfoField::Expansion),
        ("ERROR", InfoField::Error),
        ("TIGHTENING", InfoField::Tightening),
        ("MAXSCALEDCAPACITY", InfoField::MaxScaledCapacity),
        ("ESTIMATEDERROR", InfoField::EstimatedError),
        ("WINDOW", InfoField::Window),
        ("PERIODS", InfoField::Periods),
        ("LIVEPERIODS", InfoField::LivePeriods),
        ("PERIODITEMS", InfoField::PeriodItems),
        ("FEEDBYTES", InfoField::FeedBytes),
        ("FEEDREADERS", InfoField::FeedReaders),
    ] {
        let mixed = word[..3].to_lowercase() + &word[3..];
        for word in [word.to_owned(), word.to_lowercase(), mixed] {
            assert_eq!(
                parse(&format!("BF.INFO k {word}")),
                Ok(InfoRequest::One(field)),
                "{word}"
            );
        }
    }
    for line in ["BF.INFO", "BF.INFO k SIZE SIZE", "BF.INFO k SIZE "] {
        assert_eq!(parse(line).unwrap_err().to_string(), ARITY, "{line}");
    }
    for word in [
        "",
        "SIZES",
        "SIZ",
        "Number of filters",
        "SIZE\0",
        "WINDOWS",
        "ESTIMATED",
        "*",
    ] {
        let line: [&[u8]; 3] = [b"BF.INFO", b"k", word.as_bytes()];
        let error = info(&line).unwrap_err();
        assert_eq!(error.to_string(), "ERR invalid information value", "{word}");
    }
    let line: [&[u8]; 3] = [b"BF.INFO", b"k", b"\xff"];
    assert_eq!(info(&line), Err(Error::UNKNOWN_FIELD));
}
