//! The words of a command. What is read is in range, does not depend on how its words are cased, and
//! is read again when it is written out.

use valkeybloom_protocol::bloom::{Defaults, Delete, InfoField, Insert, Maker, Reserve};
use valkeybloom_protocol::cuckoo as cuckoo_words;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::integer;
use valkeybloom_protocol::words::{Origin, Words};
use valkeybloom_sketches::bloom::{Growth, Kind, New, Params, Shape, Tightening, Window};
use valkeybloom_sketches::cuckoo;
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

/// What stands between two words: the unit separator, which is rarely part of one.
const BETWEEN: u8 = 0x1f;

/// Tries an input: its first byte chooses the defaults, the rest are words.
pub fn run(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else {
        return;
    };
    let params = Params {
        capacity: 77,
        error_rate: Fraction::new(0.07).expect("in range"),
        tightening: Tightening::HALF,
        growth: Growth::from_expansion((choice % 2).into()),
    };
    let words: Vec<&[u8]> = rest.split(|byte| *byte == BETWEEN).collect();
    // Without a separator there are no words to come to, so that none at all is tried too.
    let words = &words[usize::from(rest.is_empty())..];
    let cased: Vec<Vec<u8>> = words.iter().map(|word| swapped(word)).collect();
    let cased: Vec<&[u8]> = cased.iter().map(Vec::as_slice).collect();

    of_a_peer(words, &cased, params);
    let defaults = Defaults {
        params,
        maker: Maker::Own,
    };
    let parse = |words: &[&[u8]]| Reserve::parse(words, defaults, Origin::Client);
    let reserve = parse(words);
    assert_eq!(parse(&cased), reserve);
    if let Ok(reserve) = &reserve {
        let shape = own(reserve.create);
        let params = in_range(&shape);
        let mut line = vec![
            Vec::new(),
            Vec::new(),
            rate(params.error_rate.get()),
            count(params.capacity),
        ];
        // What is said in seconds may be more milliseconds than can be said.
        match reserve.ttl_ms {
            Some(ms) if ms % 1000 == 0 => option(&mut line, "EX", Some(ms / 1000)),
            ms => option(&mut line, "PX", ms),
        }
        if reserve.unless_exists {
            line.push(b"NX".to_vec());
        }
        assert!(reserve.ttl_ms.is_none_or(|ms| ms > 0));
        read_again(line, &shape, reserve, parse);
    }
    for origin in [Origin::Client, Origin::Elsewhere] {
        insert(words, &cased, defaults, origin);
        of_cuckoo_filters(words, &cased, origin);
    }
    delete(words, &cased);
    let field = InfoField::parse(words);
    assert_eq!(InfoField::parse(&cased[..]), field);
    for word in words {
        if let Some(number) = integer(word) {
            assert_eq!(number.to_string().as_bytes(), *word);
        }
    }
}

/// The object to create, which is of this module's own kind.
fn own(create: Result<New, Error>) -> Shape {
    match create {
        Ok(New::Own(shape)) => shape,
        other => panic!("not of this module: {other:?}"),
    }
}

/// Words that ask for an object of a peer's kind: it is in range, or refused.
fn of_a_peer(words: &[&[u8]], cased: &[&[u8]], params: Params) {
    for maker in [Maker::ValkeyBloom, Maker::RedisBloom] {
        let defaults = Defaults { params, maker };
        for origin in [Origin::Client, Origin::Elsewhere] {
            let reserve = Reserve::parse(words, defaults, origin);
            assert_eq!(Reserve::parse(cased, defaults, origin), reserve);
            let insert = Insert::parse(words, defaults, origin);
            let wanted = [
                reserve.map(|reserve| Some(reserve.create)),
                insert.map(|insert| insert.create),
            ];
            for new in wanted.into_iter().flatten().flatten() {
                match new {
                    Ok(new) => {
                        in_range(&new.shape());
                        let is_theirs = match (new, maker) {
                            (New::RedisBloom { .. }, maker) => maker == Maker::RedisBloom,
                            (New::Own(shape), Maker::ValkeyBloom) => {
                                !shape.params.tightening.is_ours()
                            }
                            (New::Own(_), _) => false,
                        };
                        assert!(is_theirs || origin == Origin::Elsewhere, "{new:?}");
                    }
                    Err(error) => assert_eq!(origin, Origin::Client, "{error:?}"),
                }
            }
        }
    }
}

/// The words of CF.RESERVE and CF.INSERT.
fn of_cuckoo_filters(words: &[&[u8]], cased: &[&[u8]], origin: Origin) {
    let defaults = cuckoo::Params {
        capacity: 77,
        bucket_size: 5,
        max_iterations: 3,
        expansion: 2,
    };
    let reserve = cuckoo_words::reserve(words, defaults, origin);
    assert_eq!(cuckoo_words::reserve(cased, defaults, origin), reserve);
    if let Ok(params) = reserve {
        assert!(params.are_valid());
        let numbers = [
            ("", params.capacity),
            ("BUCKETSIZE", params.bucket_size.into()),
            ("MAXITERATIONS", params.max_iterations.into()),
            ("EXPANSION", params.expansion.into()),
        ];
        let line = numbers.map(|(word, number)| [word.to_owned(), number.to_string()]);
        let line: Vec<&[u8]> = line.as_flattened().iter().map(String::as_bytes).collect();
        // The first stands where a command has its key.
        let line = [&[&b"CF.RESERVE"[..]], &line[..]].concat();
        for origin in [Origin::Client, Origin::Elsewhere] {
            let again = cuckoo_words::reserve(&line[..], cuckoo::Params::REDISBLOOM, origin);
            assert_eq!(again, Ok(params));
        }
    }
    let insert = cuckoo_words::Insert::parse(words, defaults, origin);
    let other = cuckoo_words::Insert::parse(cased, defaults, origin);
    assert_eq!(other, insert);
    if let Ok(insert) = insert {
        assert!(!insert.items.is_empty());
        assert_eq!(insert.items.end, words.len());
        if let Some(params) = insert.create {
            assert!(params.are_valid());
        }
        if origin == Origin::Client {
            let read = cuckoo_words::Insert::parse(words, defaults, Origin::Elsewhere);
            assert_eq!(read, Ok(insert));
        }
    }
}

fn insert(words: &[&[u8]], cased: &[&[u8]], defaults: Defaults, origin: Origin) {
    let insert = Insert::parse(words, defaults, origin);
    let other = Insert::parse(cased, defaults, origin);
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
        let more = Insert::parse(&more[..], defaults, origin).expect("items are any bytes");
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
            .is_none_or(|items| (1..=MAX_CAPACITY).contains(&items))
    );
    assert!(insert.ttl_ms.is_none_or(|ms| ms > 0));
    let Some(create) = insert.create else {
        return;
    };
    let shape = own(create);
    let params = in_range(&shape);
    // Elsewhere, the ratio tells whose law it is; a client always means ours.
    let tightening = match origin {
        Origin::Client => {
            assert!(params.tightening.is_ours());
            params.tightening.ratio()
        }
        Origin::Elsewhere => params.tightening.to_stored(),
    };
    let mut line = [
        b"",
        b"",
        &b"ERROR"[..],
        &rate(params.error_rate.get()),
        b"TIGHTENING",
        &rate(tightening),
        b"CAPACITY",
        &count(params.capacity),
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    if let Some(seed) = insert.seed {
        line.extend([b"SEED".to_vec(), seed.as_bytes().to_vec()]);
    }
    option(&mut line, "VALIDATESCALETO", insert.scale_to);
    option(&mut line, "TTL", insert.ttl_ms);
    option(&mut line, "ID", insert.id);
    option(&mut line, "AT", insert.at_ms);
    let expected = Insert {
        items: 0..0,
        ..insert
    };
    read_again(line, &shape, &expected, |words| {
        Insert::parse(words, defaults, origin)
    });
}

fn delete(words: &[&[u8]], cased: &[&[u8]]) {
    let delete = Delete::parse(words);
    assert_eq!(Delete::parse(cased), delete);
    if let Ok(delete) = delete {
        let mut line = vec![Vec::new(); 3];
        option(&mut line, "ID", delete.id);
        let words: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
        assert_eq!(Delete::parse(&words[..]), Ok(delete));
    }
}

/// These words and those of the shape are read as the same request.
#[track_caller]
fn read_again<R: PartialEq + std::fmt::Debug + Clone>(
    mut line: Vec<Vec<u8>>,
    shape: &Shape,
    request: &R,
    parse: impl Fn(&[&[u8]]) -> Result<R, Error>,
) {
    let expansion = shape.params.growth.expansion();
    option(&mut line, "EXPANSION", Some(expansion.into()));
    match shape.kind {
        Kind::Plain => {}
        Kind::Windowed(window) => {
            option(&mut line, "WINDOW", Some(window.period_ms()));
            option(&mut line, "PERIODS", Some(window.periods()));
        }
        Kind::Counting => line.push(b"COUNTING".to_vec()),
    }
    let words: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
    assert_eq!(parse(&words), Ok(request.clone()));
}

fn option(line: &mut Vec<Vec<u8>>, word: &str, value: Option<u64>) {
    if let Some(value) = value {
        line.extend([word.into(), count(value)]);
    }
}

fn in_range(shape: &Shape) -> &Params {
    let params = &shape.params;
    assert!((1..=MAX_CAPACITY).contains(&params.capacity));
    for rate in [params.error_rate.get(), params.tightening.ratio()] {
        assert!(0.0 < rate && rate < 1.0);
    }
    if let Kind::Windowed(window) = shape.kind {
        assert!((1..=Window::MAX_PERIODS).contains(&window.periods()));
        assert!(window.period_ms() > 0);
        assert!(i64::try_from(window.ms()).is_ok());
    }
    params
}

fn rate(rate: f64) -> Vec<u8> {
    format!("{rate:e}").into()
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
