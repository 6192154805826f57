//! `RedisBloom`'s grammar of BF.RESERVE and BF.INSERT: what it means on a server that follows it, and whose words a link
//! or a log carries.

use valkeybloom_protocol::bloom::{Defaults, Insert, Maker, Reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::bloom::{Growth, Kind, New, Params};

use super::{defaults, words};

const BOTH: [Origin; 2] = [Origin::Client, Origin::Elsewhere];

fn reserve(line: &str, maker: Maker, origin: Origin) -> Result<Reserve, Error> {
    let params = defaults();
    Reserve::parse(&words(line)[..], Defaults { params, maker }, origin)
}

fn insert(line: &str, maker: Maker, origin: Origin) -> Result<Insert, Error> {
    let params = defaults();
    Insert::parse(&words(line)[..], Defaults { params, maker }, origin)
}

/// Returns an object of `RedisBloom` as text: capacity, rate and expansion, `fixed` if it does not grow, and the recorded
/// factor.
fn text(new: New) -> String {
    let New::RedisBloom { params, factor } = new else {
        return "own".to_owned();
    };
    let Params {
        capacity,
        error_rate,
        growth,
        ..
    } = params;
    let fixed = if growth == Growth::Fixed {
        " fixed"
    } else {
        ""
    };
    format!("{capacity} {}{fixed} {factor}", error_rate.get())
}

/// The defaults are 77 items at 0.07, expanding by 7.
#[test]
fn reserve_takes_redisbloom_s_words() {
    for (line, expected) in [
        ("k 0.01 5", "5 0.01 7"),
        ("k 0.01 5 junk", "5 0.01 7"),
        ("k 0.01 5 EX 3600", "5 0.01 7"),
        ("k 0.01 5 COUNTING WINDOW x NX", "5 0.01 7"),
        ("k 0.01 5 what eXPANSION 3 what", "5 0.01 3"),
        ("k 0.01 5 EXPANSION 3 EXPANSION x", "5 0.01 3"),
        ("k 0.01 5 EXPANSION 0", "5 0.01 fixed 0"),
        ("k 0.01 5 EXPANSION 0 NONSCALING", "5 0.01 fixed 0"),
        ("k 0.01 5 EXPANSION 32768", "5 0.01 32768"),
        ("k 0.01 1073741824 nonscaling", "1073741824 0.01 fixed 7"),
        // The key is searched for options, too.
        ("nonscaling 0.01 5", "5 0.01 fixed 7"),
        (
            "k 1e-320 5",
            "5 0.00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001 7",
        ),
    ] {
        for origin in BOTH {
            let request = reserve(&format!("BF.RESERVE {line}"), Maker::RedisBloom, origin);
            let request = request.expect(line);
            assert_eq!(request.create.map(text).as_deref(), Ok(expected), "{line}");
            assert_eq!((request.ttl_ms, request.unless_exists), (None, false));
        }
    }
}

#[test]
fn insert_takes_the_first_letters_of_options() {
    for (line, expected, items) in [
        ("k ITEMS a b", Some("77 0.07 7"), 3..5),
        ("k i a", Some("77 0.07 7"), 3..4),
        ("k Iwhat ITEMS", Some("77 0.07 7"), 3..4),
        ("k c 500 i a b", Some("500 0.07 7"), 5..7),
        ("k Cxyz 5 Er 0.5 EXp 2 items a", Some("5 0.5 2"), 9..10),
        ("k e 3 i a", Some("77 0.07 3"), 5..6),
        ("k CAPACITY 5 CAPACITY 6 i a", Some("6 0.07 7"), 7..8),
        (
            "k EXPANSION 4 NONSCALING i a",
            Some("77 0.07 fixed 4"),
            6..7,
        ),
        (
            "k NONSCALING EXPANSION 4 i a",
            Some("77 0.07 fixed 4"),
            6..7,
        ),
        ("k n i a", Some("77 0.07 fixed 7"), 4..5),
        ("k noc i a", None, 4..5),
        ("k NOCREATE CAPACITY 5 ERROR 0.1 ITEMS a", None, 8..9),
    ] {
        for origin in BOTH {
            let request = insert(&format!("BF.INSERT {line}"), Maker::RedisBloom, origin);
            let request = request.expect(line);
            let create = request.create.map(|create| create.map(text).expect(line));
            assert_eq!(create.as_deref(), expected, "{line}");
            assert_eq!(request.items, items, "{line}");
        }
    }
}

/// Refused lines, each with its error.
const REFUSED: &str = "
BF.RESERVE k 0.01 => ERR wrong number of arguments
BF.RESERVE k x y => ERR bad error rate
BF.RESERVE k nan 5 => ERR bad error rate
BF.RESERVE k 0x1 5 => ERR bad error rate
BF.RESERVE k 1 x => ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE k -inf 5 => ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE k 0.01 5.0 EXPANSION x => ERR bad capacity
BF.RESERVE k 0.01 0 EXPANSION x => ERR capacity must be in the range [1, 1073741824]
BF.RESERVE k 0.01 1073741825 => ERR capacity must be in the range [1, 1073741824]
BF.RESERVE k 0.01 5 EXPANSION x NONSCALING => ERR bad expansion
BF.RESERVE EXPANSION 0.01 5 => ERR bad expansion
BF.RESERVE k 0.01 5 EXPANSION -1 => ERR expansion must be in the range [0, 32768]
BF.RESERVE k 0.01 5 EXPANSION 32769 => ERR expansion must be in the range [0, 32768]
BF.RESERVE k 0.01 5 EXPANSION 1 NONSCALING => Nonscaling filters cannot expand
BF.RESERVE k 0.01 5 EXPANSION => ERR no expansion
BF.RESERVE k 0.01 5 ITEMS EXPANSION => ERR no expansion
BF.INSERT k => ERR wrong number of arguments
BF.INSERT k NOCREATE => ERR wrong number of arguments
BF.INSERT k 100 => ERR wrong number of arguments
BF.INSERT k 100 i => Unknown argument received
BF.INSERT k ITEMS => ERR wrong number of arguments
BF.INSERT k i => ERR wrong number of arguments
BF.INSERT k CAPACITY => ERR wrong number of arguments
BF.INSERT k ERROR 0 ITEMS => Bad error rate
BF.INSERT k ERROR 1.0 x => Bad error rate
BF.INSERT k CAPACITY 1073741825 i a => Bad capacity
BF.INSERT k CAPACITY ITEMS a => Bad capacity
BF.INSERT k EXPANSION 32769 i a => Bad expansion
BF.INSERT k  i a => Unknown argument received
BF.INSERT k TTL 5 i a => Unknown argument received
BF.INSERT k WINDOW 5 PERIODS 5 i a => Unknown argument received
BF.INSERT k VALIDATESCALETO 5 i a => Unknown argument received
";

#[test]
fn errors_have_redisbloom_s_texts() {
    for line in REFUSED.trim().lines() {
        let (line, text) = line.split_once(" => ").expect("an error");
        let (maker, origin) = (Maker::RedisBloom, Origin::Client);
        let error = if line.starts_with("BF.R") {
            reserve(line, maker, origin).map(|_| ())
        } else {
            insert(line, maker, origin).map(|_| ())
        };
        assert_eq!(error.unwrap_err().to_string(), text, "{line}");
    }
}

/// A server that follows `RedisBloom` parses this module's own words, too, if they come from a primary or a log.
#[test]
fn replicated_words_are_parsed_under_every_setting() {
    let seed = "0123456789abcdef0123456789abcdef";
    let created = format!("BF.INSERT k CAPACITY 5 ERROR 0.01 TIGHTENING 0.5 SEED {seed} ");
    let ours = [
        ("EXPANSION 2", Kind::Plain),
        ("NONSCALING ITEMS a", Kind::Plain),
        ("EXPANSION 2 COUNTING ITEMS a", Kind::Counting),
        ("EXPANSION 2 SCALETO 5 ITEMS a", Kind::ScaledTo),
    ];
    for maker in Maker::ALL {
        for (rest, kind) in ours {
            let line = format!("{created}{rest}");
            let request = insert(&line, maker, Origin::Elsewhere).expect(rest);
            let new = request.create.expect(rest).expect(rest);
            assert!(
                matches!(new, New::Own(shape) if shape.kind == kind),
                "{rest}"
            );
        }
        for (line, at_ms) in [
            ("BF.INSERT k NOCREATE ITEMS a", None),
            ("BF.INSERT k NOCREATE AT 5 TTL 3 ITEMS a", Some(5)),
            ("BF.INSERT k NOCREATE AT 5", Some(5)),
            ("BF.INSERT k NOCREATE SATURATE ITEMS a", None),
        ] {
            let request = insert(line, maker, Origin::Elsewhere).expect(line);
            let ends = line.contains("ITEMS").into();
            assert_eq!(
                (request.moment.at_ms, request.items.len()),
                (at_ms, ends),
                "{line}"
            );
        }
    }
    for maker in [Maker::Own, Maker::ValkeyBloom] {
        let refused = insert("BF.INSERT k c 9 i a b", maker, Origin::Client);
        assert_eq!(refused, Err(Error::UNKNOWN_OPTION));
    }
}
