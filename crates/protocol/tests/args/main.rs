//! The words of commands: which requests they are, and which they are refused as.
//!
//! Most tests are tables: each row has a line of words, an arrow, and the request that the words are, or their error.

mod cms;
mod family;
mod fuzz;
mod numerals;
mod once;
mod redisbloom;
mod tdigest;
mod topk;
mod transfer;

use valkeybloom_protocol::bloom::{Defaults, Insert, Maker, Reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Growth, Kind, New, Params};

use valkeybloom_testing::support::{fraction, tightening};

/// Words that are not a number. The grammar of numbers is tested in `numerals`.
const NO_NUMBERS: [&str; 7] = ["", "x", "1_0", "0.1x", "1e", "--1", "½"];

/// Numbers that are not whole, not written as the server writes them, or exceed 63 bits.
#[rustfmt::skip]
const NO_INTEGERS: [&str; 7] = [
    "00", "-0", "+1", "1.5", "1e3", "9223372036854775808", "18446744073709551616",
];

/// Numbers that overflow, are rounded to zero, or are none of the server's.
const NO_DOUBLES: [&str; 4] = ["nan", "1e400", "1e-400", "infin"];

/// Returns the words between single spaces; two spaces have an empty word between them.
fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// Returns the lines that a row stands for: its own, or one for each word that fits the name in it.
fn lines(row: &str) -> Vec<String> {
    let named: [(&str, &[&[&str]]); 4] = [
        ("<no number>", &[&NO_NUMBERS]),
        ("<no integer>", &[&NO_NUMBERS, &NO_INTEGERS]),
        ("<no count>", &[&NO_NUMBERS, &NO_INTEGERS, &["-1"]]),
        ("<no double>", &[&NO_NUMBERS, &NO_DOUBLES]),
    ];
    let Some((name, words)) = named.into_iter().find(|(name, _)| row.contains(name)) else {
        return vec![row.to_owned()];
    };
    let words = words.iter().copied().flatten();
    words.map(|word| row.replace(name, word)).collect()
}

/// Requires that the lines of each row are what stands after its arrow.
#[track_caller]
fn are(table: &str, parse: impl Fn(&[&[u8]]) -> Result<String, Error>) {
    for row in table.trim_matches('\n').lines() {
        let (line, expected) = row.split_once(" => ").expect("an arrow");
        for line in lines(line) {
            let parsed = parse(&words(&line)).unwrap_or_else(|error| error.to_string());
            assert_eq!(parsed, expected, "{line}");
        }
    }
}

/// Returns settings of a server; the lines of the tables have none of these numbers.
fn defaults(maker: Maker) -> Defaults {
    let params = Params {
        capacity: 77,
        error_rate: fraction(0.07),
        tightening: tightening(0.7),
        growth: Growth::from_expansion(7),
    };
    Defaults { params, maker }
}

/// Returns an object as text: its capacity, rate and expansion, and for `RedisBloom`'s the recorded expansion, for others
/// the ratio and what they do besides.
fn text_of(new: &New) -> String {
    let (params, rest) = match new {
        New::RedisBloom { params, factor } => (params, format!("RedisBloom {factor}")),
        New::Own(shape) => {
            let params = &shape.params;
            let law = if params.tightening.is_ours() {
                ""
            } else {
                "valkey-bloom "
            };
            let kind = match shape.kind {
                Kind::Plain => String::new(),
                Kind::Counting => " counting".to_owned(),
                Kind::ScaledTo => " scaled".to_owned(),
                Kind::Windowed(it) => format!(" {} periods of {} ms", it.periods(), it.period_ms()),
            };
            (
                params,
                format!("{law}{}{kind}", params.tightening.ratio().get()),
            )
        }
    };
    let growth = match params.growth {
        Growth::Fixed => "fixed".to_owned(),
        Growth::By(factor) => format!("x{factor}"),
    };
    let (capacity, rate) = (params.capacity, params.error_rate.get());
    format!("{capacity} {rate:?} {growth} {rest}")
}

/// Returns the object that a RESERVE makes, and what else it says.
fn reserve_by(words: &[&[u8]], defaults: Defaults, origin: Origin) -> Result<String, Error> {
    let request = Reserve::parse(words, defaults, origin)?;
    let parts = [
        Some(text_of(&request.create?)),
        request.grow_to.map(|items| format!("to {items}")),
        request.ttl_ms.map(|ttl| format!("ttl {ttl}")),
        request.unless_exists.then(|| "nx".to_owned()),
    ];
    Ok(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Returns the object that an INSERT makes, what else it says, and the places of its items.
fn insert_by(words: &[&[u8]], defaults: Defaults, origin: Origin) -> Result<String, Error> {
    let request = Insert::parse(words, defaults, origin)?;
    let (moment, once) = (request.moment, request.once);
    let new = match request.create {
        Some(new) => text_of(&new?),
        None => "nothing".to_owned(),
    };
    let seed = |seed: Seed| format!("seed {}", seed.as_bytes().escape_ascii());
    let parts = [
        Some(new),
        request.grow_to.map(|items| format!("to {items}")),
        request
            .scale_to
            .map(|items| format!("validated to {items}")),
        moment.at_ms.map(|at| format!("at {at}")),
        moment.ttl_ms.map(|ttl| format!("ttl {ttl}")),
        moment.saturate.then(|| "saturate".to_owned()),
        request.seed.map(seed),
        once.map(|once| format!("once {} at {}", once.receipt, once.position)),
        once.filter(|once| once.begins).map(|_| "begins".to_owned()),
        Some(format!("items {:?}", request.items)),
    ];
    Ok(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn reserve(words: &[&[u8]]) -> Result<String, Error> {
    reserve_by(words, defaults(Maker::Own), Origin::Client)
}

fn insert(words: &[&[u8]]) -> Result<String, Error> {
    insert_by(words, defaults(Maker::Own), Origin::Client)
}

/// A line that begins with the name of one of two commands.
fn either(words: &[&[u8]]) -> Result<String, Error> {
    match words {
        [b"BF.RESERVE", ..] => reserve(words),
        _ => insert(words),
    }
}

#[test]
fn reserve_takes_a_rate_a_capacity_and_options() {
    are(
        "
BF.RESERVE k 0.01 100 => 100 0.01 x7 0.7
bf.reserve k 0.999 1 => 1 0.999 x7 0.7
BF.RESERVE  0.01 100 => 100 0.01 x7 0.7
BF.RESERVE k 1e-3 9223372036854775807 => 9223372036854775807 0.001 x7 0.7
BF.RESERVE k .5 10 => 10 0.5 x7 0.7
BF.RESERVE k 5e-324 10 => 10 5e-324 x7 0.7
BF.RESERVE k 0.01 100 EXPANSION 3 => 100 0.01 x3 0.7
BF.RESERVE k 0.01 100 expansion 3 => 100 0.01 x3 0.7
BF.RESERVE k 0.01 100 eXpAnSiOn 1 => 100 0.01 x1 0.7
BF.RESERVE k 0.01 100 EXPANSION 4294967295 => 100 0.01 x4294967295 0.7
BF.RESERVE k 0.01 100 EXPANSION 0 => 100 0.01 fixed 0.7
BF.RESERVE k 0.01 100 NONSCALING => 100 0.01 fixed 0.7
BF.RESERVE k 0.01 100 nonscaling => 100 0.01 fixed 0.7
BF.RESERVE k 0.01 100 NonScaling NONSCALING => 100 0.01 fixed 0.7",
        reserve,
    );
    // The last of the same option wins, and both spellings of non-scaling may be combined.
    are(
        "
BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION 4 => 100 0.01 x4 0.7
BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION 0 => 100 0.01 fixed 0.7
BF.RESERVE k 0.01 100 EXPANSION 0 EXPANSION 3 => 100 0.01 x3 0.7
BF.RESERVE k 0.01 100 NONSCALING EXPANSION 0 => 100 0.01 fixed 0.7
BF.RESERVE k 0.01 100 EXPANSION 0 NONSCALING => 100 0.01 fixed 0.7
BF.RESERVE k 0.01 100 EXPANSION 3 NONSCALING EXPANSION 0 => 100 0.01 fixed 0.7",
        reserve,
    );
}

#[test]
fn reserve_refuses_invalid_words() {
    are(
        "
BF.RESERVE => ERR wrong number of arguments
BF.RESERVE k => ERR wrong number of arguments
BF.RESERVE k 0.01 => ERR wrong number of arguments
BF.RESERVE k <no number> 100 => ERR bad error rate
BF.RESERVE k 0.01 <no count> => ERR bad capacity
BF.RESERVE k 0.01 0 => ERR (capacity should be larger than 0)
BF.RESERVE k 0.01 100 EXPANSION <no count> => ERR bad expansion
BF.RESERVE k 0.01 100 EXPANSION => ERR bad expansion
BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION => ERR bad expansion
BF.RESERVE k 0.01 100 EXPANSION NONSCALING => ERR bad expansion
BF.RESERVE k 0.01 100 EXPANSION 4294967296 => ERR bad expansion
BF.RESERVE k 0.01 100 EXPANSION 9223372036854775807 => ERR bad expansion
BF.RESERVE k 0.01 100 EXPANSION 3 NONSCALING => ERR nonscaling filters cannot expand
BF.RESERVE k 0.01 100 NONSCALING EXPANSION 3 => ERR nonscaling filters cannot expand
BF.RESERVE k 0.01 100 nonscaling expansion 1 => ERR nonscaling filters cannot expand
BF.RESERVE k 0.01 100 EXPANSION 0 NONSCALING EXPANSION 1 => ERR nonscaling filters cannot expand
BF.RESERVE k 0.01 100 NONSCALE => ERR unknown argument received
BF.RESERVE k 0.01 100 NONSCALINGS => ERR unknown argument received
BF.RESERVE k 0.01 100 EXPANSION 3 4 => ERR unknown argument received
BF.RESERVE k 0.01 100  => ERR unknown argument received
BF.RESERVE k 0.01 100 CAPACITY 100 => ERR unknown argument received
BF.RESERVE k 0.01 100 TIGHTENING 0.5 => ERR unknown argument received
BF.RESERVE k 0.01 100 NOCREATE => ERR unknown argument received
BF.RESERVE k 0.01 100 ITEMS a => ERR unknown argument received",
        reserve,
    );
    // A rate that is too small for a double, or too near to 1, is what it is rounded to.
    let rates = "0 0.0 -0 1 1.0 -0.1 1.5 100 nan NaN inf -inf infinity 1e400 -1e400 1e-400 0.99999999999999999999";
    for rate in rates.split(' ') {
        let row = format!("BF.RESERVE k {rate} 100 => ERR (0 < error rate range < 1)");
        are(&row, reserve);
    }
}

/// An option changes nothing but its own parameter. Clients mean our law, whatever the ratio, and so do the defaults.
#[test]
fn insert_takes_options() {
    are(
        "
BF.INSERT k => 77 0.07 x7 0.7, items 0..0
BF.INSERT k ITEMS a => 77 0.07 x7 0.7, items 3..4
BF.INSERT k CAPACITY 5 => 5 0.07 x7 0.7, items 0..0
BF.INSERT k ERROR 0.5 => 77 0.5 x7 0.7, items 0..0
BF.INSERT k TIGHTENING 0.25 => 77 0.07 x7 0.25, items 0..0
BF.INSERT k TIGHTENING 0.5 => 77 0.07 x7 0.5, items 0..0
BF.INSERT k TIGHTENING 0.5000000000000001 => 77 0.07 x7 0.5, items 0..0
BF.INSERT k TIGHTENING 5e-1 => 77 0.07 x7 0.5, items 0..0
BF.INSERT k EXPANSION 3 => 77 0.07 x3 0.7, items 0..0
BF.INSERT k EXPANSION 0 => 77 0.07 fixed 0.7, items 0..0
BF.INSERT k NONSCALING => 77 0.07 fixed 0.7, items 0..0
BF.INSERT k EXPANSION 3 NONSCALING => 77 0.07 fixed 0.7, items 0..0
BF.INSERT k nonscaling expansion 3 => 77 0.07 fixed 0.7, items 0..0
BF.INSERT k EXPANSION 4294967295 NONSCALING ITEMS a => 77 0.07 fixed 0.7, items 6..7",
        insert,
    );
    // In any case and order; the last of the same option wins.
    are(
        "
BF.INSERT k CAPACITY 5 ERROR 0.5 TIGHTENING 0.25 EXPANSION 3 ITEMS a => 5 0.5 x3 0.25, items 11..12
BF.INSERT k expansion 3 tightening 0.25 error 0.5 capacity 5 items a => 5 0.5 x3 0.25, items 11..12
BF.INSERT k eXpansion 3 CapacitY 5 tIGHTENING 0.25 ErRoR 0.5 => 5 0.5 x3 0.25, items 0..0
BF.INSERT k CAPACITY 6 CAPACITY 5 ERROR 0.6 ERROR 0.5 => 5 0.5 x7 0.7, items 0..0
BF.INSERT k TIGHTENING 0.26 TIGHTENING 0.25 EXPANSION 4 EXPANSION 3 => 77 0.07 x3 0.25, items 0..0
BF.INSERT k validateScaleTo 8 VALIDATESCALETO 9 => 77 0.07 x7 0.7, validated to 9, items 0..0",
        insert,
    );
    // NOCREATE stands beside any option: both peers accept that, and strict clients send it.
    are(
        "
BF.INSERT k NOCREATE ITEMS a => nothing, items 4..5
BF.INSERT k nocreate NOCREATE ITEMS a => nothing, items 5..6
BF.INSERT k NOCREATE EXPANSION 3 ITEMS a => nothing, items 6..7
BF.INSERT k NONSCALING NOCREATE ITEMS a => nothing, items 5..6
BF.INSERT k TIGHTENING 0.2 NOCREATE ITEMS a => nothing, items 6..7
BF.INSERT k CAPACITY 5 NOCREATE ITEMS a => nothing, items 6..7
BF.INSERT k ERROR 0.5 NOCREATE CAPACITY 5 ITEMS a => nothing, items 8..9",
        insert,
    );
}

/// Also an empty item, and items and keys that are named like options.
#[test]
fn all_words_after_items_are_items() {
    are(
        "
BF.INSERT k ITEMS a b c => 77 0.07 x7 0.7, items 3..6
BF.INSERT k CAPACITY 5 ITEMS a b => 5 0.07 x7 0.7, items 5..7
BF.INSERT k ITEMS  => 77 0.07 x7 0.7, items 3..4
BF.INSERT k ITEMS NOCREATE => 77 0.07 x7 0.7, items 3..4
BF.INSERT k ITEMS CAPACITY 0 ITEMS => 77 0.07 x7 0.7, items 3..6
BF.INSERT k items items => 77 0.07 x7 0.7, items 3..4
BF.INSERT ITEMS ITEMS NOCREATE\0 => 77 0.07 x7 0.7, items 3..4",
        insert,
    );
    let bytes: [&[u8]; 5] = [b"BF.INSERT", b"k", b"ITEMS", b"a b", b"\0\xff"];
    assert_eq!(insert(&bytes), Ok("77 0.07 x7 0.7, items 3..5".to_owned()));
}

/// The ratio of a command executed elsewhere marks whose law the object follows. Only we make objects of tables, whose
/// ratio is always the same. Without a ratio, the default of this server counts.
#[test]
fn an_insert_from_elsewhere_marks_the_law_by_its_ratio() {
    are(
        "
BF.INSERT k TIGHTENING 0.5 ITEMS a => 77 0.07 x7 valkey-bloom 0.5, items 5..6
BF.INSERT k TIGHTENING 0.5000000000000001 ITEMS a => 77 0.07 x7 0.5, items 5..6
BF.INSERT k TIGHTENING 0.3 ITEMS a => 77 0.07 x7 valkey-bloom 0.3, items 5..6
BF.INSERT k TIGHTENING 0.30000000000000004 ITEMS a => 77 0.07 x7 0.3, items 5..6
BF.INSERT k TIGHTENING 0.75 ITEMS a => 77 0.07 x7 valkey-bloom 0.75, items 5..6
BF.INSERT k TIGHTENING 0.7500000000000001 ITEMS a => 77 0.07 x7 0.75, items 5..6
BF.INSERT k TIGHTENING 0.5 COUNTING ITEMS a => 77 0.07 x7 0.25 counting, items 6..7
BF.INSERT k TIGHTENING 0.5 WINDOW 1000 PERIODS 3 ITEMS a => 77 0.07 x7 0.25 3 periods of 1000 ms, items 9..10
BF.INSERT k TIGHTENING 0.5 SCALETO 5 ITEMS a => 5 0.07 x7 0.25 scaled, to 5, items 7..8
BF.INSERT k ITEMS a => 77 0.07 x7 0.7, items 3..4",
        |words| insert_by(words, defaults(Maker::Own), Origin::Elsewhere),
    );
}

#[test]
fn insert_refuses_invalid_words() {
    are(
        "
 => ERR wrong number of arguments
BF.INSERT => ERR wrong number of arguments
BF.INSERT k ITEMS => ERR wrong number of arguments
BF.INSERT k CAPACITY 5 items => ERR wrong number of arguments
BF.INSERT k CAPACITY <no count> ITEMS a => ERR bad capacity
BF.INSERT k EXPANSION <no count> ITEMS a => ERR bad expansion
BF.INSERT k VALIDATESCALETO <no count> ITEMS a => ERR bad capacity
BF.INSERT k CAPACITY 0 ITEMS a => ERR (capacity should be larger than 0)
BF.INSERT k VALIDATESCALETO 0 ITEMS a => ERR (capacity should be larger than 0)
BF.INSERT k NONSCALING VALIDATESCALETO 9 => ERR cannot use NONSCALING and VALIDATESCALETO options together
BF.INSERT k NONSCALING EXPANSION 2 VALIDATESCALETO 9 => ERR cannot use NONSCALING and VALIDATESCALETO options together
BF.INSERT k validatescaleto 9 NoNsCaLiNg ITEMS a => ERR cannot use NONSCALING and VALIDATESCALETO options together
BF.INSERT k VALIDATESCALETO 9 EXPANSION 0 ITEMS a => ERR cannot use NONSCALING and VALIDATESCALETO options together
BF.INSERT k a => ERR unknown argument received
BF.INSERT k  => ERR unknown argument received
BF.INSERT k ITEM a => ERR unknown argument received
BF.INSERT k CAPACITY 5 6 => ERR unknown argument received
BF.INSERT k WINDOWS => ERR unknown argument received",
        insert,
    );
    for (option, text) in [
        ("CAPACITY", "ERR bad capacity"),
        ("ERROR", "ERR bad error rate"),
        ("EXPANSION", "ERR bad expansion"),
        ("TIGHTENING", "ERR bad tightening ratio"),
        ("VALIDATESCALETO", "ERR bad capacity"),
        ("SEED", "ERR invalid seed"),
    ] {
        // Without a value, with another option for a value, and with no number.
        for value in ["", " ITEMS a", " <no number> ITEMS a"] {
            are(&format!("BF.INSERT k {option}{value} => {text}"), insert);
        }
        let row = format!("BF.INSERT k ITEM {option} => ERR unknown argument received");
        are(&row, insert);
    }
    for word in ["0", "1", "-0.1", "1.5", "nan", "inf", "-inf", "1e-400"] {
        for (option, name) in [("ERROR", "error rate"), ("TIGHTENING", "tightening ratio")] {
            let row = format!("BF.INSERT k {option} {word} => ERR (0 < {name} range < 1)");
            are(&row, insert);
        }
    }
}

#[test]
fn insert_takes_a_seed_of_any_32_bytes() {
    let parse = |seed: &[u8]| {
        let line: [&[u8]; 6] = [b"BF.INSERT", b"k", b"sEED", seed, b"ITEMS", b"a"];
        Insert::parse(&line[..], defaults(Maker::Own), Origin::Client).map(|it| it.seed)
    };
    for bytes in [
        [0; 32],
        std::array::from_fn(|index| 0xf0_u8.wrapping_add(index.to_le_bytes()[0])),
    ] {
        assert_eq!(parse(&bytes), Ok(Some(Seed::new(bytes))));
    }
    for length in [0, 1, 31, 33, 64] {
        assert_eq!(parse(&vec![b's'; length]), Err(Error::SEED), "{length}");
    }
    let (first, last) = ("r".repeat(32), "s".repeat(32));
    let row =
        format!("BF.INSERT k SEED {first} SEED {last} => 77 0.07 x7 0.7, seed {last}, items 0..0");
    are(&row, insert);
}

#[test]
fn an_expansion_overrides_defaults_that_do_not_scale() {
    let mut fixed = defaults(Maker::Own);
    fixed.params.growth = Growth::Fixed;
    are(
        "
BF.RESERVE k 0.1 5 => 5 0.1 fixed 0.7
BF.RESERVE k 0.1 5 NONSCALING => 5 0.1 fixed 0.7
BF.RESERVE k 0.1 5 EXPANSION 2 => 5 0.1 x2 0.7",
        |words| reserve_by(words, fixed, Origin::Client),
    );
    are(
        "
BF.INSERT k EXPANSION 2 VALIDATESCALETO 9 => 77 0.07 x2 0.7, validated to 9, items 0..0
BF.INSERT k VALIDATESCALETO 9 => ERR cannot use NONSCALING and VALIDATESCALETO options together",
        |words| insert_by(words, fixed, Origin::Client),
    );
}
