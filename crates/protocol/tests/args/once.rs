//! ONCE of BF.INSERT, in both grammars, and the form that is replicated.

use valkeybloom_protocol::bloom::{Answered, Defaults, Insert, Maker, Once};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::{Forgotten, Receipt};

use super::{defaults, words};

fn under(maker: Maker) -> Defaults {
    let params = defaults();
    Defaults { params, maker }
}

#[test]
fn every_grammar_takes_a_receipt() {
    for (line, receipt, position, begins, items) in [
        ("BF.INSERT k ONCE r 0 ITEMS a", 3, 0, false, 6..7),
        (
            "BF.INSERT k once r 1200 begin items a b",
            3,
            1200,
            true,
            7..9,
        ),
        (
            "BF.INSERT k CAPACITY 5 ONCE r 7 ERROR 0.5 ITEMS once r",
            5,
            7,
            false,
            10..12,
        ),
        // The receipt may have any name but the filter's.
        (
            "BF.INSERT k NOCREATE ONCE ITEMS 3 BEGIN ITEMS a",
            4,
            3,
            true,
            8..9,
        ),
        ("BF.INSERT k ONCE BEGIN 3 ITEMS BEGIN", 3, 3, false, 6..7),
        ("BF.INSERT k ONCE ONCE 3 ITEMS a", 3, 3, false, 6..7),
        ("BF.INSERT k ONCE  3 ITEMS a", 3, 3, false, 6..7),
        (
            "BF.INSERT k ONCE r 9223372036854775807 ITEMS a",
            3,
            i64::MAX as u64,
            false,
            6..7,
        ),
    ] {
        let once = Once {
            receipt,
            position,
            begins,
        };
        for maker in Maker::ALL {
            for origin in [Origin::Client, Origin::Elsewhere] {
                let request = Insert::parse(&words(line)[..], under(maker), origin).expect(line);
                assert_eq!(request.once, Some(once), "{line}");
                assert_eq!(request.items, items, "{line}");
            }
            assert_eq!(
                Insert::receipt(&words(line)[..], maker),
                Some(receipt),
                "{line}"
            );
        }
    }
    for line in [
        "BF.INSERT k ITEMS once r 0",
        "BF.INSERT k NOCREATE ITEMS a ONCE r 0",
    ] {
        for maker in Maker::ALL {
            let request = Insert::parse(&words(line)[..], under(maker), Origin::Client);
            assert_eq!(request.expect(line).once, None, "{line}");
            assert_eq!(Insert::receipt(&words(line)[..], maker), None, "{line}");
        }
    }
}

#[test]
fn every_grammar_refuses_the_same() {
    const POSITION: &str = "ERR bad position";
    for (line, text) in [
        ("BF.INSERT k ONCE r", POSITION),
        ("BF.INSERT k ONCE r ITEMS a", POSITION),
        ("BF.INSERT k ONCE r -1 ITEMS a", POSITION),
        ("BF.INSERT k ONCE r 01 ITEMS a", POSITION),
        ("BF.INSERT k ONCE r 1.0 ITEMS a", POSITION),
        ("BF.INSERT k ONCE r 9223372036854775808 ITEMS a", POSITION),
        ("BF.INSERT k ONCE r ANSWERED receipt ITEMS a", POSITION),
        (
            "BF.INSERT k ONCE k 0 ITEMS a",
            "ERR filter and receipt need different keys",
        ),
    ] {
        for maker in Maker::ALL {
            let refused = Insert::parse(&words(line)[..], under(maker), Origin::Client);
            assert_eq!(refused.unwrap_err().to_string(), text, "{line}");
        }
    }
    for (maker, text) in [
        (Maker::Own, "ERR unknown argument received"),
        (Maker::RedisBloom, "Unknown argument received"),
    ] {
        for line in [
            "BF.INSERT k BEGIN ITEMS a",
            "BF.INSERT k ONCE r 0 BEGIN BEGIN ITEMS a",
            "BF.INSERT k ONCE r 0 ONCE s 0 ITEMS a",
            "BF.INSERT k ONC r 0 ITEMS a",
        ] {
            let refused = Insert::parse(&words(line)[..], under(maker), Origin::Client);
            assert_eq!(refused.unwrap_err().to_string(), text, "{line}");
        }
    }
}

#[test]
fn the_key_is_found_where_the_items_do_not_begin_yet() {
    for (line, own, redisbloom) in [
        ("BF.INSERT k i once r", Some(4), None),
        ("BF.INSERT k Items once r", None, None),
        ("BF.INSERT k ITEMS once r", None, None),
        ("BF.INSERT once ITEMS a", None, None),
        ("BF.INSERT k ONCE", None, None),
        ("BF.INSERT k SEED items ONCE r 0", None, None),
        (
            "BF.INSERT k SEED i2345678901234567890123456789012 ONCE r 0",
            Some(5),
            None,
        ),
    ] {
        let line = words(line);
        for (maker, expected) in [
            (Maker::Own, own),
            (Maker::ValkeyBloom, own),
            (Maker::RedisBloom, redisbloom),
        ] {
            assert_eq!(Insert::receipt(&line[..], maker), expected, "{line:?}");
        }
    }
}

#[test]
fn a_batch_is_no_longer_than_a_receipt() {
    let head: [&[u8]; 6] = [b"BF.INSERT", b"k", b"ONCE", b"r", b"0", b"ITEMS"];
    for maker in Maker::ALL {
        let parse = |count: usize| {
            let line = [&head[..], &vec![&b"a"[..]; count]].concat();
            Insert::parse(&line[..], under(maker), Origin::Client).map(|it| it.items.len())
        };
        assert_eq!(parse(Receipt::MOST_ANSWERS), Ok(100_000));
        let refused = parse(Receipt::MOST_ANSWERS + 1).unwrap_err();
        assert_eq!(refused.to_string(), "ERR ONCE takes at most 100000 items");
    }
}

/// A server that follows `RedisBloom` tries its grammar first, which must not take these words for others.
#[test]
fn the_replicated_form_has_one_reading() {
    let line = words("BF.INSERT k ONCE r ANSWERED answers");
    let answered = Answered {
        receipt: 3,
        answers: 5,
    };
    assert_eq!(Answered::parse(&line[..]), Some(answered));
    for other in [
        "BF.INSERT k ONCE r ANSWERED",
        "BF.INSERT k ONCE r ANSWERED answers ITEMS",
        "BF.INSERT k ONCE r 0 ITEMS",
        "BF.INSERT k TTL r ANSWERED answers",
    ] {
        assert_eq!(Answered::parse(&words(other)[..]), None, "{other}");
    }
    for maker in Maker::ALL {
        let refused = Insert::parse(&line[..], under(maker), Origin::Client);
        assert!(refused.is_err(), "{maker:?}");
    }
}

#[test]
fn what_is_forgotten_has_its_text() {
    let error = Error::from(Forgotten {
        from: 1200,
        to: 1203,
    });
    assert_eq!(
        error.to_string(),
        "FORGOTTEN answers are known from 1200 to 1203"
    );
}
