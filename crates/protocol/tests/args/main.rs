//! The words of commands: which requests they are, and which they are refused as.

mod cms;
mod family;
mod fuzz;
mod numerals;
mod once;
mod redisbloom;
mod tdigest;
mod topk;

use valkeybloom_protocol::bloom::{Defaults, Insert, Maker, Moment, Reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Growth, New, Params, Shape};

use valkeybloom_testing::support::{fraction, of_valkey_bloom, tightening};

/// Returns settings of a server; the lines below have none of these numbers.
fn defaults() -> Params {
    Params {
        capacity: 77,
        error_rate: fraction(0.07),
        tightening: tightening(0.7),
        growth: Growth::from_expansion(7),
    }
}

/// Returns defaults that make filters of this module.
fn own(params: Params) -> Defaults {
    let maker = Maker::Own;
    Defaults { params, maker }
}

/// Returns the object of this module that is to be created.
#[track_caller]
fn created(create: Result<New, Error>) -> Shape {
    match create {
        Ok(New::Own(shape)) => shape,
        other => panic!("not of this module: {other:?}"),
    }
}

/// Returns the words between single spaces; two spaces have an empty word between them.
fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

fn reserve(line: &str) -> Result<Params, Error> {
    let request = Reserve::parse(&words(line)[..], own(defaults()), Origin::Client);
    request.map(|request| created(request.create).params)
}

fn insert(line: &str) -> Result<Insert, Error> {
    Insert::parse(&words(line)[..], own(defaults()), Origin::Client)
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

/// Checks the parameters that an INSERT creates with.
#[track_caller]
fn inserts(line: &str, change: impl FnOnce(&mut Params)) {
    let mut expected = defaults();
    change(&mut expected);
    assert_eq!(
        insert(line).unwrap().create,
        Some(Ok(New::Own(Shape::plain(expected)))),
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
const SEED: &str = "ERR invalid seed";
const FIXED_SCALE_TO: &str = "ERR cannot use NONSCALING and VALIDATESCALETO options together";

/// Words that are not a number. The grammar of numbers is tested in `numerals`.
const NO_NUMBERS: [&str; 7] = ["", "x", "1_0", "0.1x", "1e", "--1", "½"];

/// Words that are not a whole number as the server writes one, that exceed 63 bits, or that are negative.
const NO_COUNTS: [&str; 8] = [
    "00",
    "-0",
    "+1",
    "1.5",
    "1e3",
    "-1",
    "9223372036854775808",
    "18446744073709551616",
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
        // Both spellings of non-scaling may be combined.
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
fn reserve_refuses_invalid_words() {
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

#[test]
fn insert_uses_the_defaults_for_missing_options() {
    let expected = Insert {
        create: Some(Ok(New::Own(Shape::plain(defaults())))),
        seed: None,
        scale_to: None,
        grow_to: None,
        moment: Moment::default(),
        once: None,
        items: 0..0,
    };
    assert_eq!(insert("BF.INSERT k"), Ok(expected));
    inserts("BF.INSERT k ITEMS a", |_| ());
    // An option changes nothing but its own parameter.
    inserts("BF.INSERT k CAPACITY 5", |p| p.capacity = 5);
    inserts("BF.INSERT k ERROR 0.5", |p| p.error_rate = fraction(0.5));
    inserts("BF.INSERT k TIGHTENING 0.25", |p| {
        p.tightening = tightening(0.25);
    });
    // Clients mean our law, whatever the ratio, and so do the defaults.
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
    for line in [
        "BF.INSERT k NONSCALING",
        "BF.INSERT k EXPANSION 3 NONSCALING",
        "BF.INSERT k nonscaling expansion 3",
        "BF.INSERT k EXPANSION 4294967295 NONSCALING ITEMS a",
    ] {
        inserts(line, |p| p.growth = Growth::Fixed);
    }
}

/// The ratio of a command executed elsewhere marks whose law the object follows.
#[test]
fn an_insert_from_elsewhere_marks_the_law_by_its_ratio() {
    let parse = |line: &str| {
        let parsed = Insert::parse(&words(line)[..], own(defaults()), Origin::Elsewhere);
        created(parsed.unwrap().create.unwrap()).params.tightening
    };
    for (ratio, expected) in [
        ("0.5", of_valkey_bloom(0.5)),
        ("0.5000000000000001", tightening(0.5)),
        ("0.3", of_valkey_bloom(0.3)),
        ("0.30000000000000004", tightening(0.3)),
        ("0.75", of_valkey_bloom(0.75)),
        ("0.7500000000000001", tightening(0.75)),
    ] {
        let reported = parse(&format!("BF.INSERT k TIGHTENING {ratio} ITEMS a"));
        assert_eq!(reported, expected, "{ratio}");
    }
    // Only we make objects of tables, whose ratio is always the same.
    for kind in ["COUNTING", "WINDOW 1000 PERIODS 3", "SCALETO 5"] {
        let reported = parse(&format!("BF.INSERT k TIGHTENING 0.5 {kind} ITEMS a"));
        assert_eq!(reported, tightening(0.25), "{kind}");
    }
    // Without a ratio, the default of this server counts.
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
    assert_eq!(request.create, Some(Ok(New::Own(Shape::plain(defaults())))));
}

#[test]
fn insert_with_nocreate_creates_nothing() {
    for line in [
        "BF.INSERT k NOCREATE ITEMS a",
        "BF.INSERT k nocreate NOCREATE ITEMS a",
        "BF.INSERT k NOCREATE EXPANSION 3 ITEMS a",
        "BF.INSERT k NONSCALING NOCREATE ITEMS a",
        "BF.INSERT k TIGHTENING 0.2 NOCREATE ITEMS a",
        // Both peers accept these, and strict clients send them.
        "BF.INSERT k CAPACITY 5 NOCREATE ITEMS a",
        "BF.INSERT k ERROR 0.5 NOCREATE CAPACITY 5 ITEMS a",
    ] {
        let request = insert(line).unwrap();
        assert_eq!(request.create, None, "{line}");
        assert_eq!(request.items.len(), 1, "{line}");
    }
}

#[test]
fn insert_refuses_invalid_words() {
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
        "BF.INSERT k NONSCALING VALIDATESCALETO 9",
        "BF.INSERT k NONSCALING EXPANSION 2 VALIDATESCALETO 9",
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
        Insert::parse(&line[..], own(defaults()), Origin::Client).map(|request| request.seed)
    };
    let mut bytes = [0; 32];
    assert_eq!(parse(&bytes), Ok(Some(Seed::new(bytes))));
    bytes = std::array::from_fn(|index| 0xf0_u8.wrapping_add(index.to_le_bytes()[0]));
    assert_eq!(parse(&bytes), Ok(Some(Seed::new(bytes))));
    for length in [0, 1, 31, 33, 64] {
        assert_eq!(parse(&vec![b's'; length]), Err(Error::SEED), "{length}");
    }
}

#[test]
fn all_words_after_items_are_items() {
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
            request.create.map(|new| created(new).params.capacity == 5),
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
    let request = Insert::parse(&line[..], own(defaults()), Origin::Client).unwrap();
    assert_eq!(request.items, 3..6);
    assert_eq!(request.create, Some(Ok(New::Own(Shape::plain(defaults())))));
}

#[test]
fn an_expansion_overrides_defaults_that_do_not_scale() {
    let fixed = Params {
        growth: Growth::Fixed,
        ..defaults()
    };
    let reserve = |line| {
        let request = Reserve::parse(&words(line)[..], own(fixed), Origin::Client);
        request.map(|request| created(request.create).params.growth)
    };
    assert_eq!(reserve("BF.RESERVE k 0.1 5"), Ok(Growth::Fixed));
    assert_eq!(reserve("BF.RESERVE k 0.1 5 NONSCALING"), Ok(Growth::Fixed));
    let scaling = Ok(Growth::from_expansion(2));
    assert_eq!(reserve("BF.RESERVE k 0.1 5 EXPANSION 2"), scaling);
    let insert = |line| Insert::parse(&words(line)[..], own(fixed), Origin::Client);
    let request = insert("BF.INSERT k EXPANSION 2 VALIDATESCALETO 9").unwrap();
    assert_eq!(request.scale_to, Some(9));
    let error = insert("BF.INSERT k VALIDATESCALETO 9").unwrap_err();
    assert_eq!(error.to_string(), FIXED_SCALE_TO);
}
