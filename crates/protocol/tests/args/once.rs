//! ONCE of BF.INSERT, in both grammars, and the form that is replicated.

use valkeybloom_protocol::bloom::{ANSWERED_ANSWERS, ANSWERED_RECEIPT, Insert, Maker, is_answered};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::{Forgotten, Receipt};

use super::{are, defaults, insert_by, words};

/// The receipt may have any name but the filter's.
#[test]
fn every_grammar_takes_a_receipt() {
    let table = "
BF.INSERT k ONCE r 0 ITEMS a => once 3 at 0, items 6..7
BF.INSERT k once r 1200 begin items a b => once 3 at 1200, begins, items 7..9
BF.INSERT k CAPACITY 5 ONCE r 7 ERROR 0.5 ITEMS once r => once 5 at 7, items 10..12
BF.INSERT k NOCREATE ONCE ITEMS 3 BEGIN ITEMS a => once 4 at 3, begins, items 8..9
BF.INSERT k ONCE BEGIN 3 ITEMS BEGIN => once 3 at 3, items 6..7
BF.INSERT k ONCE ONCE 3 ITEMS a => once 3 at 3, items 6..7
BF.INSERT k ONCE  3 ITEMS a => once 3 at 3, items 6..7
BF.INSERT k ONCE r 9223372036854775807 ITEMS a => once 3 at 9223372036854775807, items 6..7
BF.INSERT k ITEMS once r 0 => items 3..6
BF.INSERT k NOCREATE ITEMS a ONCE r 0 => items 4..8";
    for maker in Maker::ALL {
        for origin in [Origin::Client, Origin::Elsewhere] {
            are(table, |words| {
                let text = insert_by(words, defaults(maker), origin)?;
                let (_object, rest) = text.split_once(", ").expect("items");
                let receipt = rest
                    .strip_prefix("once ")
                    .map(|once| once.split(' ').next());
                let receipt = receipt.map(|place| place.and_then(|it| it.parse().ok()));
                assert_eq!(Insert::receipt(words, maker).map(Some), receipt, "{text}");
                Ok(rest.to_owned())
            });
        }
    }
}

#[test]
fn every_grammar_refuses_the_same() {
    for (maker, unknown) in [
        (Maker::Own, "ERR unknown argument received"),
        (Maker::ValkeyBloom, "ERR unknown argument received"),
        (Maker::RedisBloom, "Unknown argument received"),
    ] {
        let table = "
BF.INSERT k ONCE r => ERR bad position
BF.INSERT k ONCE r ITEMS a => ERR bad position
BF.INSERT k ONCE r -1 ITEMS a => ERR bad position
BF.INSERT k ONCE r 01 ITEMS a => ERR bad position
BF.INSERT k ONCE r 1.0 ITEMS a => ERR bad position
BF.INSERT k ONCE r 9223372036854775808 ITEMS a => ERR bad position
BF.INSERT k ONCE r ANSWERED receipt ITEMS a => ERR bad position
BF.INSERT k ONCE k 0 ITEMS a => ERR filter and receipt need different keys
BF.INSERT k BEGIN ITEMS a => unknown
BF.INSERT k ONCE r 0 BEGIN BEGIN ITEMS a => unknown
BF.INSERT k ONCE r 0 ONCE s 0 ITEMS a => unknown
BF.INSERT k ONC r 0 ITEMS a => unknown";
        are(&table.replace("unknown", unknown), |words| {
            insert_by(words, defaults(maker), Origin::Client)
        });
    }
}

#[test]
fn the_key_is_found_where_the_items_do_not_begin_yet() {
    let table = "
BF.INSERT k i once r => 4 4 none
BF.INSERT k Items once r => none none none
BF.INSERT k ITEMS once r => none none none
BF.INSERT once ITEMS a => none none none
BF.INSERT k ONCE => none none none
BF.INSERT k SEED items ONCE r 0 => none none none
BF.INSERT k SEED i2345678901234567890123456789012 ONCE r 0 => 5 5 none";
    are(table, |words| {
        let makers = [Maker::Own, Maker::ValkeyBloom, Maker::RedisBloom];
        let places = makers.map(|maker| Insert::receipt(words, maker));
        Ok(places
            .map(|it| it.map_or("none".to_owned(), |it| it.to_string()))
            .join(" "))
    });
}

#[test]
fn a_batch_is_no_longer_than_a_receipt() {
    let head = words("BF.INSERT k ONCE r 0 ITEMS");
    for maker in Maker::ALL {
        let parse = |count: usize| {
            let line = [&head[..], &vec![&b"a"[..]; count]].concat();
            Insert::parse(&line[..], defaults(maker), Origin::Client).map(|it| it.items.len())
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
    assert!(is_answered(&line[..]));
    assert_eq!(
        (line[ANSWERED_RECEIPT], line[ANSWERED_ANSWERS]),
        (&b"r"[..], &b"answers"[..])
    );
    for other in [
        "BF.INSERT k ONCE r ANSWERED",
        "BF.INSERT k ONCE r ANSWERED answers ITEMS",
        "BF.INSERT k ONCE r 0 ITEMS",
        "BF.INSERT k TTL r ANSWERED answers",
    ] {
        assert!(!is_answered(&words(other)[..]), "{other}");
    }
    for maker in Maker::ALL {
        let refused = Insert::parse(&line[..], defaults(maker), Origin::Client);
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
