//! The words of a command. What is read is in range, does not depend on how its words are cased, and
//! is read again when it is written out.

use valkeybloom::bloom::{Fraction, Growth, Params, sizing};
use valkeybloom::internal::{Error, InfoField, Insert, Reserve, Words, integer};

/// What stands between two words: the unit separator, which is rarely part of one.
const BETWEEN: u8 = 0x1f;

/// Tries an input: its first byte chooses the defaults, the rest are words.
pub fn run(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let defaults = Params {
        capacity: 77,
        error_rate: Fraction::new(0.07).expect("in range"),
        tightening: Fraction::HALF,
        growth: Growth::from_expansion((choice % 2).into()),
    };
    let words: Vec<&[u8]> = rest.split(|byte| *byte == BETWEEN).collect();
    // Without a separator there are no words to come to, so that none at all is tried too.
    let words = &words[usize::from(rest.is_empty())..];
    let cased: Vec<Vec<u8>> = words.iter().map(|word| swapped(word)).collect();
    let cased: Vec<&[u8]> = cased.iter().map(Vec::as_slice).collect();

    let reserve = Reserve::parse(words, defaults);
    assert_eq!(Reserve::parse(&cased[..], defaults), reserve);
    if let Ok(Reserve { params }) = &reserve {
        in_range(params);
        let line = [
            b"",
            b"",
            &rate(params.error_rate)[..],
            &count(params.capacity),
        ]
        .map(<[u8]>::to_vec);
        read_again(&line, params, |words| {
            Reserve::parse(words, defaults).map(|reserve| reserve.params)
        });
    }
    insert(words, &cased, defaults);
    let field = InfoField::parse(words);
    assert_eq!(InfoField::parse(&cased[..]), field);
    for word in words {
        if let Some(number) = integer(word) {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
    }
}

fn insert(words: &[&[u8]], cased: &[&[u8]], defaults: Params) {
    let insert = Insert::parse(words, defaults);
    let other = Insert::parse(cased, defaults);
    // A seed is bytes, whatever they look like.
    let unseeded = |insert: &Result<Insert, Error>| {
        insert.clone().map(|insert| Insert {
            seed: None,
            ..insert
        })
    };
    assert_eq!(unseeded(&insert), unseeded(&other));
    let Ok(insert) = insert else {
        return;
    };
    let (first, end) = (insert.items.start, insert.items.end);
    if insert.items.is_empty() {
        assert!(
            !words[2..]
                .iter()
                .any(|word| word.eq_ignore_ascii_case(b"ITEMS"))
                || insert.seed.is_some()
        );
    } else {
        assert_eq!(end, words.count());
        assert!(words[first - 1].eq_ignore_ascii_case(b"ITEMS"));
        // One more is one more, and nothing else.
        let mut more = words.to_vec();
        more.push(b"NOCREATE");
        let more = Insert::parse(&more[..], defaults).expect("items are any bytes");
        assert_eq!(more.items, first..end + 1);
        assert_eq!(
            Insert {
                items: first..end,
                ..more
            },
            insert
        );
    }
    assert!(
        insert
            .scale_to
            .is_none_or(|items| (1..=sizing::MAX_CAPACITY).contains(&items))
    );
    let Some(params) = insert.create else {
        return;
    };
    in_range(&params);
    let line = [
        b"",
        b"",
        &b"ERROR"[..],
        &rate(params.error_rate),
        b"TIGHTENING",
        &rate(params.tightening),
        b"CAPACITY",
        &count(params.capacity),
    ]
    .map(<[u8]>::to_vec);
    read_again(&line, &params, |words| {
        let insert = Insert::parse(words, defaults)?;
        Ok(insert.create.expect("it is not said that there is none"))
    });
}

/// These words and those of the growth are read as the same parameters.
#[track_caller]
fn read_again(
    line: &[Vec<u8>],
    params: &Params,
    parse: impl Fn(&[&[u8]]) -> Result<Params, Error>,
) {
    let expansion = count(params.growth.expansion().into());
    let mut words: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
    words.extend([b"EXPANSION", &expansion[..]]);
    assert_eq!(parse(&words), Ok(*params));
}

fn in_range(params: &Params) {
    assert!((1..=sizing::MAX_CAPACITY).contains(&params.capacity));
    for rate in [params.error_rate, params.tightening] {
        assert!(0.0 < rate.get() && rate.get() < 1.0);
    }
}

fn rate(rate: Fraction) -> Vec<u8> {
    format!("{:e}", rate.get()).into()
}

fn count(count: u64) -> Vec<u8> {
    count.to_string().into()
}

/// Small letters for large ones, and the other way round.
fn swapped(word: &[u8]) -> Vec<u8> {
    let swap = |byte: &u8| {
        if byte.is_ascii_alphabetic() {
            byte ^ 0x20
        } else {
            *byte
        }
    };
    word.iter().map(swap).collect()
}
