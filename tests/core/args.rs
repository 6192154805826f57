//! The words of commands: which requests they are, and which they are refused as.

use valkeybloom::bloom::{Growth, Params, Seed, Shape, Window};
use valkeybloom::internal::{Delete, Error, InfoField, Insert, Origin, Reserve};

use crate::support::{fraction, of_valkey_bloom, tightening};

/// What a server's settings would be; none of these numbers is in the lines below.
fn defaults() -> Params {
    Params {
        capacity: 77,
        error_rate: fraction(0.07),
        tightening: tightening(0.7),
        growth: Growth::from_expansion(7),
    }
}

/// Words between single spaces; two spaces have an empty word between them.
fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn reserve(line: &str) -> Result<Params, Error> {
    Reserve::parse(&words(line)[..], defaults()).map(|request| request.shape.params)
}

fn insert(line: &str) -> Result<Insert, Error> {
    Insert::parse(&words(line)[..], defaults(), Origin::Client)
}

#[track_caller]
fn reserves(line: &str, error_rate: f64, capacity: u64, expansion: u32) {
    let expected = Params {
        capacity,
        error_rate: fraction(error_rate),
        growth: Growth::from_expansion(expansion),
        ..defaults()
    };
    assert_eq!(reserve(line), Ok(expected), "{line}");
}

#[track_caller]
fn reserve_refused(line: &str, text: &str) {
    assert_eq!(reserve(line).unwrap_err().to_string(), text, "{line}");
}

#[track_caller]
fn insert_refused(line: &str, text: &str) {
    assert_eq!(insert(line).unwrap_err().to_string(), text, "{line}");
}

/// The parameters that an INSERT creates with.
#[track_caller]
fn inserts(line: &str, change: impl FnOnce(&mut Params)) {
    let mut expected = defaults();
    change(&mut expected);
    assert_eq!(
        insert(line).unwrap().create,
        Some(Shape::plain(expected)),
        "{line}"
    );
}

const ARITY: &str = "ERR wrong number of arguments";
const BAD_RATE: &str = "ERR bad error rate";
const RATE_RANGE: &str = "ERR (0 < error rate range < 1)";
const BAD_CAPACITY: &str = "ERR bad capacity";
const CAPACITY_RANGE: &str = "ERR (capacity should be larger than 0)";
const BAD_EXPANSION: &str = "ERR bad expansion";
const BAD_RATIO: &str = "ERR bad tightening ratio";
const RATIO_RANGE: &str = "ERR (0 < tightening ratio range < 1)";
const UNKNOWN: &str = "ERR unknown argument received";
const CANNOT_EXPAND: &str = "ERR nonscaling filters cannot expand";
const NOCREATE: &str = "ERR NOCREATE cannot be used with CAPACITY or ERROR";
const SEED: &str = "ERR invalid seed";
const FIXED_SCALE_TO: &str = "ERR cannot use NONSCALING and VALIDATESCALETO options together";

/// Words that are no number at all.
const NO_NUMBERS: [&str; 16] = [
    "", "x", "0.1x", "x0.1", "0x10", "1e", "e5", "-", "+", ".", "--1", "1-", "1,5", "0.1.1", "½",
    "١",
];

/// Words that are no whole number as the server writes one, or that 63 bits don't hold, or negative.
const NO_COUNTS: [&str; 22] = [
    "00",
    "01",
    "-0",
    "-01",
    "+0",
    "00000000000000000001",
    "1.5",
    "1.0",
    "1e3",
    "-1",
    "-100",
    "+1",
    "0x10",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "-9223372036854775808",
    "-9223372036854775809",
    "nan",
    "inf",
    "1_000",
];

#[test]
fn reserve_takes_a_rate_and_a_capacity() {
    reserves("BF.RESERVE k 0.01 100", 0.01, 100, 7);
    reserves("bf.reserve k 0.999 1", 0.999, 1, 7);
    reserves("BF.RESERVE  0.01 100", 0.01, 100, 7);
    reserves(
        "BF.RESERVE k 1e-3 9223372036854775807",
        0.001,
        i64::MAX as u64,
        7,
    );
    reserves("BF.RESERVE k .5 10", 0.5, 10, 7);
    reserves("BF.RESERVE k 5e-324 10", 5e-324, 10, 7);
}

#[test]
fn reserve_takes_options_in_any_case_and_order() {
    for (line, expansion) in [
        ("BF.RESERVE k 0.01 100 EXPANSION 3", 3),
        ("BF.RESERVE k 0.01 100 expansion 3", 3),
        ("BF.RESERVE k 0.01 100 eXpAnSiOn 1", 1),
        ("BF.RESERVE k 0.01 100 EXPANSION 4294967295", u32::MAX),
        ("BF.RESERVE k 0.01 100 EXPANSION 0", 0),
        ("BF.RESERVE k 0.01 100 NONSCALING", 0),
        ("BF.RESERVE k 0.01 100 nonscaling", 0),
        ("BF.RESERVE k 0.01 100 NonScaling NONSCALING", 0),
        // The last of the same option wins.
        ("BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION 4", 4),
        ("BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION 0", 0),
        ("BF.RESERVE k 0.01 100 EXPANSION 0 EXPANSION 3", 3),
        // What is non-scaling anyway may be said in both ways.
        ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION 0", 0),
        ("BF.RESERVE k 0.01 100 EXPANSION 0 NONSCALING", 0),
        (
            "BF.RESERVE k 0.01 100 EXPANSION 3 NONSCALING EXPANSION 0",
            0,
        ),
    ] {
        reserves(line, 0.01, 100, expansion);
    }
}

#[test]
fn reserve_refusals() {
    for line in ["BF.RESERVE", "BF.RESERVE k", "BF.RESERVE k 0.01"] {
        reserve_refused(line, ARITY);
    }
    for word in NO_NUMBERS {
        reserve_refused(&format!("BF.RESERVE k {word} 100"), BAD_RATE);
        reserve_refused(&format!("BF.RESERVE k 0.01 {word}"), BAD_CAPACITY);
        let line = format!("BF.RESERVE k 0.01 100 EXPANSION {word}");
        reserve_refused(&line, BAD_EXPANSION);
    }
    for word in [
        "0", "0.0", "-0", "1", "1.0", "-0.1", "1.5", "100", "nan", "NaN",
    ] {
        reserve_refused(&format!("BF.RESERVE k {word} 100"), RATE_RANGE);
    }
    // Too small for a double, or too near to 1, is what it is rounded to.
    let near = "0.99999999999999999999";
    for word in ["inf", "-inf", "infinity", "1e400", "-1e400", "1e-400", near] {
        reserve_refused(&format!("BF.RESERVE k {word} 100"), RATE_RANGE);
    }
    for word in NO_COUNTS {
        reserve_refused(&format!("BF.RESERVE k 0.01 {word}"), BAD_CAPACITY);
        let line = format!("BF.RESERVE k 0.01 100 EXPANSION {word}");
        reserve_refused(&line, BAD_EXPANSION);
    }
    reserve_refused("BF.RESERVE k 0.01 0", CAPACITY_RANGE);
    for line in [
        "BF.RESERVE k 0.01 100 EXPANSION",
        "BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION",
        "BF.RESERVE k 0.01 100 EXPANSION NONSCALING",
        "BF.RESERVE k 0.01 100 EXPANSION 4294967296",
        "BF.RESERVE k 0.01 100 EXPANSION 9223372036854775807",
    ] {
        reserve_refused(line, BAD_EXPANSION);
    }
    for line in [
        "BF.RESERVE k 0.01 100 EXPANSION 3 NONSCALING",
        "BF.RESERVE k 0.01 100 NONSCALING EXPANSION 3",
        "BF.RESERVE k 0.01 100 nonscaling expansion 1",
        "BF.RESERVE k 0.01 100 EXPANSION 0 NONSCALING EXPANSION 1",
    ] {
        reserve_refused(line, CANNOT_EXPAND);
    }
    for line in [
        "BF.RESERVE k 0.01 100 NONSCALE",
        "BF.RESERVE k 0.01 100 NONSCALINGS",
        "BF.RESERVE k 0.01 100 EXPANSION 3 4",
        "BF.RESERVE k 0.01 100 ",
        "BF.RESERVE k 0.01 100 CAPACITY 100",
        "BF.RESERVE k 0.01 100 TIGHTENING 0.5",
        "BF.RESERVE k 0.01 100 NOCREATE",
        "BF.RESERVE k 0.01 100 ITEMS a",
    ] {
        reserve_refused(line, UNKNOWN);
    }
}

/// A number is the whole word: spaces around it, a NUL behind it, or bytes that are no text.
#[test]
fn numbers_with_anything_beside_them_are_refused() {
    let beside: [[&[u8]; 2]; 6] = [
        [b" ", b""],
        [b"", b" "],
        [b"", b"\0"],
        [b"", b"\n"],
        [b"", b"\xff"],
        [b"\xc3", b""],
    ];
    for [before, behind] in beside {
        let wrong = |number: &[u8]| [before, number, behind].concat();
        let refused = |words: &[&[u8]], text: &str| {
            let error = Reserve::parse(words, defaults()).unwrap_err();
            assert_eq!(error.to_string(), text, "{words:?}");
        };
        refused(&[b"BF.RESERVE", b"k", &wrong(b"0.1"), b"5"], BAD_RATE);
        refused(&[b"BF.RESERVE", b"k", b"0.1", &wrong(b"5")], BAD_CAPACITY);
        let line: [&[u8]; 6] = [
            b"BF.RESERVE",
            b"k",
            b"0.1",
            b"5",
            b"EXPANSION",
            &wrong(b"2"),
        ];
        refused(&line, BAD_EXPANSION);
        let line: [&[u8]; 5] = [b"BF.RESERVE", b"k", b"0.1", b"5", &wrong(b"NONSCALING")];
        refused(&line, UNKNOWN);
        let line: [&[u8]; 4] = [b"BF.INSERT", b"k", b"TIGHTENING", &wrong(b"0.1")];
        let error = Insert::parse(&line[..], defaults(), Origin::Client).unwrap_err();
        assert_eq!(error.to_string(), BAD_RATIO);
    }
}

#[test]
fn insert_takes_the_defaults_where_nothing_is_said() {
    let expected = Insert {
        create: Some(Shape::plain(defaults())),
        seed: None,
        scale_to: None,
        ttl_ms: None,
        id: None,
        at_ms: None,
        items: 0..0,
    };
    assert_eq!(insert("BF.INSERT k"), Ok(expected));
    inserts("BF.INSERT k ITEMS a", |_| ());
    // An option stands for itself alone.
    inserts("BF.INSERT k CAPACITY 5", |p| p.capacity = 5);
    inserts("BF.INSERT k ERROR 0.5", |p| p.error_rate = fraction(0.5));
    inserts("BF.INSERT k TIGHTENING 0.25", |p| {
        p.tightening = tightening(0.25);
    });
    // A client means our law, whatever ratio it gives, and so do the defaults.
    assert!(defaults().tightening.is_ours());
    for ratio in ["0.5", "0.5000000000000001", "5e-1"] {
        inserts(&format!("BF.INSERT k TIGHTENING {ratio}"), |p| {
            p.tightening = tightening(0.5);
        });
    }
    inserts("BF.INSERT k EXPANSION 3", |p| {
        p.growth = Growth::from_expansion(3);
    });
    inserts("BF.INSERT k EXPANSION 0", |p| p.growth = Growth::Fixed);
    inserts("BF.INSERT k NONSCALING", |p| p.growth = Growth::Fixed);
}

/// What was executed elsewhere says by its ratio whose law the object follows.
#[test]
fn an_insert_from_elsewhere_tells_the_law_by_its_ratio() {
    let parse = |line: &str| {
        let parsed = Insert::parse(&words(line)[..], defaults(), Origin::Elsewhere);
        parsed.unwrap().create.unwrap().params.tightening
    };
    for (ratio, expected) in [
        ("0.5", of_valkey_bloom(0.5)),
        ("0.5000000000000001", tightening(0.5)),
        ("0.3", of_valkey_bloom(0.3)),
        ("0.30000000000000004", tightening(0.3)),
        ("0.75", of_valkey_bloom(0.75)),
        ("0.7500000000000001", tightening(0.75)),
    ] {
        let told = parse(&format!("BF.INSERT k TIGHTENING {ratio} ITEMS a"));
        assert_eq!(told, expected, "{ratio}");
    }
    // Only we make objects with periods or counters.
    for kind in ["COUNTING", "WINDOW 1000 PERIODS 3"] {
        let told = parse(&format!("BF.INSERT k TIGHTENING 0.5 {kind} ITEMS a"));
        assert_eq!(told, tightening(0.5), "{kind}");
    }
    // Where none is told, it is the default of this server.
    assert_eq!(parse("BF.INSERT k ITEMS a"), defaults().tightening);
}

#[test]
fn insert_takes_options_in_any_case_and_order() {
    let all = |params: &mut Params| {
        *params = Params {
            capacity: 5,
            error_rate: fraction(0.5),
            tightening: tightening(0.25),
            growth: Growth::from_expansion(3),
        };
    };
    for line in [
        "BF.INSERT k CAPACITY 5 ERROR 0.5 TIGHTENING 0.25 EXPANSION 3 ITEMS a",
        "BF.INSERT k expansion 3 tightening 0.25 error 0.5 capacity 5 items a",
        "BF.INSERT k eXpansion 3 CapacitY 5 tIGHTENING 0.25 ErRoR 0.5",
        // The last of the same option wins.
        "BF.INSERT k CAPACITY 6 CAPACITY 5 ERROR 0.6 ERROR 0.5 TIGHTENING 0.26 TIGHTENING 0.25 \
         EXPANSION 4 EXPANSION 3",
    ] {
        inserts(line, all);
    }
    let seed = "s".repeat(32);
    let line = format!("BF.INSERT k sEED {seed} validatescaleto 9 NoNsCaLiNg");
    insert_refused(&line, FIXED_SCALE_TO);
    let line = format!(
        "BF.INSERT k SEED {} validateScaleTo 8 SEED {seed} VALIDATESCALETO 9",
        "r".repeat(32)
    );
    let request = insert(&line).unwrap();
    assert_eq!(request.seed, Some(Seed::new([b's'; 32])));
    assert_eq!(request.scale_to, Some(9));
    assert_eq!(request.create, Some(Shape::plain(defaults())));
}

#[test]
fn insert_with_nocreate_creates_nothing() {
    for line in [
        "BF.INSERT k NOCREATE ITEMS a",
        "BF.INSERT k nocreate NOCREATE ITEMS a",
        "BF.INSERT k NOCREATE EXPANSION 3 ITEMS a",
        "BF.INSERT k NONSCALING NOCREATE ITEMS a",
        "BF.INSERT k TIGHTENING 0.2 NOCREATE ITEMS a",
    ] {
        let request = insert(line).unwrap();
        assert_eq!(request.create, None, "{line}");
        assert_eq!(request.items.len(), 1, "{line}");
    }
    for line in [
        "BF.INSERT k NOCREATE CAPACITY 5 ITEMS a",
        "BF.INSERT k CAPACITY 5 NOCREATE ITEMS a",
        "BF.INSERT k NOCREATE ERROR 0.5 ITEMS a",
        "BF.INSERT k ERROR 0.5 nocreate",
        "BF.INSERT k ERROR 0.5 NOCREATE CAPACITY 5",
    ] {
        insert_refused(line, NOCREATE);
    }
}

#[test]
fn insert_refusals() {
    for line in [
        "",
        "BF.INSERT",
        "BF.INSERT k ITEMS",
        "BF.INSERT k CAPACITY 5 items",
    ] {
        insert_refused(line, ARITY);
    }
    for (option, text) in [
        ("CAPACITY", BAD_CAPACITY),
        ("ERROR", BAD_RATE),
        ("EXPANSION", BAD_EXPANSION),
        ("TIGHTENING", BAD_RATIO),
        ("VALIDATESCALETO", BAD_CAPACITY),
        ("SEED", SEED),
    ] {
        // Without a value, and with another option for a value.
        insert_refused(&format!("BF.INSERT k {option}"), text);
        insert_refused(&format!("BF.INSERT k {option} ITEMS a"), text);
        insert_refused(&format!("BF.INSERT k ITEM {option}"), UNKNOWN);
        for word in NO_NUMBERS {
            insert_refused(&format!("BF.INSERT k {option} {word} ITEMS a"), text);
        }
    }
    for word in NO_COUNTS {
        for (option, text) in [
            ("CAPACITY", BAD_CAPACITY),
            ("EXPANSION", BAD_EXPANSION),
            ("VALIDATESCALETO", BAD_CAPACITY),
        ] {
            insert_refused(&format!("BF.INSERT k {option} {word} ITEMS a"), text);
        }
    }
    for option in ["CAPACITY", "VALIDATESCALETO"] {
        insert_refused(&format!("BF.INSERT k {option} 0 ITEMS a"), CAPACITY_RANGE);
    }
    for word in ["0", "1", "-0.1", "1.5", "nan", "inf", "-inf", "1e-400"] {
        insert_refused(&format!("BF.INSERT k ERROR {word}"), RATE_RANGE);
        insert_refused(&format!("BF.INSERT k TIGHTENING {word}"), RATIO_RANGE);
    }
    for line in [
        "BF.INSERT k EXPANSION 3 NONSCALING ITEMS a",
        "BF.INSERT k NONSCALING EXPANSION 3 ITEMS a",
    ] {
        insert_refused(line, CANNOT_EXPAND);
    }
    for line in [
        "BF.INSERT k NONSCALING VALIDATESCALETO 9",
        "BF.INSERT k VALIDATESCALETO 9 NONSCALING ITEMS a",
        "BF.INSERT k VALIDATESCALETO 9 EXPANSION 0 ITEMS a",
    ] {
        insert_refused(line, FIXED_SCALE_TO);
    }
    for line in [
        "BF.INSERT k a",
        "BF.INSERT k ",
        "BF.INSERT k ITEM a",
        "BF.INSERT k CAPACITY 5 6",
        "BF.INSERT k WINDOWS",
    ] {
        insert_refused(line, UNKNOWN);
    }
}

#[test]
fn insert_takes_a_seed_of_any_32_bytes() {
    let parse = |seed: &[u8]| {
        let line: [&[u8]; 6] = [b"BF.INSERT", b"k", b"SEED", seed, b"ITEMS", b"a"];
        Insert::parse(&line[..], defaults(), Origin::Client).map(|request| request.seed)
    };
    let mut bytes = [0; 32];
    assert_eq!(parse(&bytes), Ok(Some(Seed::new(bytes))));
    bytes = std::array::from_fn(|index| 0xf0_u8.wrapping_add(index.to_le_bytes()[0]));
    assert_eq!(parse(&bytes), Ok(Some(Seed::new(bytes))));
    for length in [0, 1, 31, 33, 64] {
        assert_eq!(parse(&vec![b's'; length]), Err(Error::Seed), "{length}");
    }
}

#[test]
fn items_are_all_that_stands_behind_the_word() {
    for (line, items) in [
        ("BF.INSERT k ITEMS a", 3..4),
        ("BF.INSERT k ITEMS a b c", 3..6),
        ("BF.INSERT k CAPACITY 5 ITEMS a b", 5..7),
        // An empty item, and ones that are named like options.
        ("BF.INSERT k ITEMS ", 3..4),
        ("BF.INSERT k ITEMS NOCREATE", 3..4),
        ("BF.INSERT k ITEMS CAPACITY 0 ITEMS", 3..6),
        ("BF.INSERT k items items", 3..4),
    ] {
        let request = insert(line).unwrap();
        assert_eq!(request.items, items, "{line}");
        assert_eq!(
            request.create.map(|shape| shape.params.capacity == 5),
            Some(line.contains("CAPACITY 5"))
        );
    }
    // Nothing is read out of the bytes of an item or a key.
    let line: [&[u8]; 6] = [
        b"BF.INSERT",
        b"ITEMS",
        b"ITEMS",
        b"a b",
        b"\0\xff",
        b"NOCREATE\0",
    ];
    let request = Insert::parse(&line[..], defaults(), Origin::Client).unwrap();
    assert_eq!(request.items, 3..6);
    assert_eq!(request.create, Some(Shape::plain(defaults())));
}

#[test]
fn defaults_that_do_not_scale_are_overruled_by_an_expansion() {
    let fixed = Params {
        growth: Growth::Fixed,
        ..defaults()
    };
    let reserve = |line| Reserve::parse(&words(line)[..], fixed).map(|r| r.shape.params.growth);
    assert_eq!(reserve("BF.RESERVE k 0.1 5"), Ok(Growth::Fixed));
    assert_eq!(reserve("BF.RESERVE k 0.1 5 NONSCALING"), Ok(Growth::Fixed));
    let scaling = Ok(Growth::from_expansion(2));
    assert_eq!(reserve("BF.RESERVE k 0.1 5 EXPANSION 2"), scaling);
    let insert = |line| Insert::parse(&words(line)[..], fixed, Origin::Client);
    let request = insert("BF.INSERT k EXPANSION 2 VALIDATESCALETO 9").unwrap();
    assert_eq!(request.scale_to, Some(9));
    let error = insert("BF.INSERT k VALIDATESCALETO 9").unwrap_err();
    assert_eq!(error.to_string(), FIXED_SCALE_TO);
}

const BAD_WINDOW: &str = "ERR bad window";
const BAD_PERIODS: &str = "ERR bad periods";
const BAD_TTL: &str = "ERR bad ttl";
const BAD_ID: &str = "ERR bad id";
const HALF_WINDOW: &str = "ERR WINDOW and PERIODS have to be given together";
const COUNTING_WINDOW: &str = "ERR WINDOW and COUNTING cannot be combined";

/// The shape that these words ask for behind a RESERVE and in an INSERT.
#[track_caller]
fn shapes(options: &str, window: Option<(u64, u64)>, counting: bool) {
    let window = window.map(|(period_ms, periods)| Window::new(period_ms, periods).unwrap());
    let line = format!("BF.RESERVE k 0.01 100 {options}");
    let request = Reserve::parse(&words(&line)[..], defaults()).unwrap();
    assert_eq!(request.shape.window(), window, "{line}");
    assert_eq!(request.shape.is_counting(), counting, "{line}");
    assert_eq!((request.ttl_ms, request.unless_exists), (None, false));
    let line = format!("BF.INSERT k {options} ITEMS a");
    let shape = insert(&line).unwrap().create.unwrap();
    assert_eq!(
        (shape.window(), shape.is_counting()),
        (window, counting),
        "{line}"
    );
    assert_eq!(shape.params.capacity, defaults().capacity);
}

#[track_caller]
fn shape_refused(options: &str, text: &str) {
    reserve_refused(&format!("BF.RESERVE k 0.01 100 {options}"), text);
    insert_refused(&format!("BF.INSERT k {options}"), text);
}

#[test]
fn windows_and_counters_are_asked_for_in_any_case_and_order() {
    for (options, window, counting) in [
        ("COUNTING", None, true),
        ("counting COUNTING EXPANSION 3", None, true),
        ("WINDOW 60000 PERIODS 5", Some((60_000, 5)), false),
        (
            "periods 5 NONSCALING window 60000",
            Some((60_000, 5)),
            false,
        ),
        ("Window 1 Periods 1", Some((1, 1)), false),
        ("WINDOW 2 PERIODS 1440", Some((2, 1_440)), false),
        // The last of the same option wins.
        ("WINDOW 9 PERIODS 8 WINDOW 7 PERIODS 6", Some((7, 6)), false),
        (
            "WINDOW 9223372036854775807 PERIODS 1",
            Some((i64::MAX as u64, 1)),
            false,
        ),
        (
            "WINDOW 4611686018427387903 PERIODS 2",
            Some((i64::MAX as u64 / 2, 2)),
            false,
        ),
    ] {
        shapes(options, window, counting);
    }
}

#[test]
fn windows_that_can_not_be_are_refused() {
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
        "WINDOW 5 PERIODS 1441",
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
        "WINDOW 6405119470038039 PERIODS 1440",
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
        "WINDOW 5 PERIODS 1440 EXPANSION 1 COUNTING",
    ] {
        shape_refused(options, COUNTING_WINDOW);
    }
    // A word that is wrong by itself is refused first, wherever it stands.
    shape_refused("COUNTING WINDOW 5 PERIODS 1441", BAD_PERIODS);
    shape_refused("WINDOW 5 PERIODS 5 COUNTING WINDOW x", BAD_WINDOW);
    shape_refused("WINDOW 5 PERIODS 5 COUNTING 1", UNKNOWN);
    shape_refused("COUNTING WINDOW 9223372036854775807 PERIODS 2", BAD_WINDOW);
    shape_refused(
        "WINDOW 5 PERIODS 5 COUNTING EXPANSION 2 NONSCALING",
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
        "BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NOCREATE CAPACITY 5",
        NOCREATE,
    );
    insert_refused(
        "BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NONSCALING VALIDATESCALETO 5",
        COUNTING_WINDOW,
    );
    // The same words behind ITEMS are items.
    let request = insert("BF.INSERT k COUNTING ITEMS WINDOW 5 PERIODS 5").unwrap();
    assert_eq!(request.create.unwrap().window(), None);
}

#[test]
fn reserve_takes_a_time_to_live_and_a_condition() {
    let parse = |options: &str| {
        let line = format!("BF.RESERVE k 0.01 100 {options}");
        Reserve::parse(&words(&line)[..], defaults())
            .map(|request| (request.ttl_ms, request.unless_exists))
            .map_err(|error| error.to_string())
    };
    for (options, ttl_ms, unless_exists) in [
        ("EX 1", Some(1_000), false),
        ("px 1", Some(1), false),
        ("NX", None, true),
        ("nx Ex 60 NX", Some(60_000), true),
        // The last of the same option wins.
        ("EX 60 COUNTING EX 5", Some(5_000), false),
        ("PX 60 px 5", Some(5), false),
        ("PX 9223372036854775807", Some(i64::MAX as u64), false),
        (
            "EX 9223372036854775",
            Some(9_223_372_036_854_775_000),
            false,
        ),
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
fn insert_takes_times_and_ids() {
    for (line, ttl_ms, id, at_ms) in [
        ("BF.INSERT k TTL 5 ITEMS a", Some(5), None, None),
        ("BF.INSERT k ID 5 ITEMS a", None, Some(5), None),
        ("BF.INSERT k AT 5 ITEMS a", None, None, Some(5)),
        (
            "BF.INSERT k at 3 id 0 TTL 4 ttl 1 ID 2 NOCREATE ITEMS TTL",
            Some(1),
            Some(2),
            Some(3),
        ),
        (
            "BF.INSERT k TTL 9223372036854775807 ID 18446744073709551615 AT 9223372036854775807",
            Some(i64::MAX as u64),
            Some(u64::MAX),
            Some(i64::MAX as u64),
        ),
        ("BF.INSERT k AT 0 ID 0", None, Some(0), Some(0)),
    ] {
        let request = insert(line).unwrap();
        assert_eq!(
            (request.ttl_ms, request.id, request.at_ms),
            (ttl_ms, id, at_ms),
            "{line}"
        );
    }
    for (option, text) in [("TTL", BAD_TTL), ("ID", BAD_ID), ("AT", UNKNOWN)] {
        insert_refused(&format!("BF.INSERT k {option}"), text);
        insert_refused(&format!("BF.INSERT k {option} ITEMS a"), text);
        for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
            let fits = word.parse::<u64>().is_ok_and(|id| id.to_string() == word);
            if option != "ID" || !fits {
                insert_refused(&format!("BF.INSERT k {option} {word} ITEMS a"), text);
            }
        }
    }
    insert_refused("BF.INSERT k TTL 0", "ERR (ttl should be larger than 0)");
    insert_refused("BF.INSERT k ID 18446744073709551616", BAD_ID);
    for line in ["BF.INSERT k EX 5", "BF.INSERT k PX 5", "BF.INSERT k NX"] {
        insert_refused(line, UNKNOWN);
    }
}

#[test]
fn del_takes_an_id() {
    let parse = |line: &str| {
        Delete::parse(&words(line)[..])
            .map(|request| request.id)
            .map_err(|error| error.to_string())
    };
    for (line, id) in [
        ("BF.DEL k item", None),
        ("BF.DEL k ID", None),
        ("BF.DEL ID AT", None),
        ("BF.DEL k item ID 0", Some(0)),
        ("BF.DEL k item id 18446744073709551615", Some(u64::MAX)),
        ("BF.DEL k ID ID 4 Id 3", Some(3)),
    ] {
        assert_eq!(parse(line), Ok(id), "{line}");
    }
    let refused = |line: &str, text: &str| {
        assert_eq!(parse(line), Err(text.to_owned()), "{line}");
    };
    for line in ["", "BF.DEL", "BF.DEL k"] {
        refused(line, ARITY);
    }
    for word in [
        "",
        "x",
        "-1",
        "-0",
        "+1",
        "01",
        "00",
        "1.0",
        "18446744073709551616",
        "½",
    ] {
        refused(&format!("BF.DEL k item ID {word}"), BAD_ID);
    }
    refused("BF.DEL k item ID", BAD_ID);
    for line in [
        "BF.DEL k item AT",
        "BF.DEL k item AT 5",
        "BF.DEL k item ID 5 AT 5",
        "BF.DEL k item other",
        "BF.DEL k item ID 5 6",
        "BF.DEL k item TTL 5",
    ] {
        refused(line, UNKNOWN);
    }
}

#[test]
fn info_takes_one_field_or_none() {
    let parse = |line: &str| InfoField::parse(&words(line)[..]);
    assert_eq!(parse("BF.INFO k"), Ok(None));
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
    ] {
        for word in [word.to_owned(), word.to_lowercase(), mixed(word)] {
            assert_eq!(
                parse(&format!("BF.INFO k {word}")),
                Ok(Some(field)),
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
        let error = InfoField::parse(&line[..]).unwrap_err();
        assert_eq!(error.to_string(), "ERR invalid information value", "{word}");
    }
    let line: [&[u8]; 3] = [b"BF.INFO", b"k", b"\xff"];
    assert_eq!(InfoField::parse(&line[..]), Err(Error::UnknownField));
}

/// Every other letter small.
fn mixed(word: &str) -> String {
    let letters = word.chars().enumerate();
    letters
        .map(|(index, letter)| {
            if index % 2 == 0 {
                letter
            } else {
                letter.to_ascii_lowercase()
            }
        })
        .collect()
}
