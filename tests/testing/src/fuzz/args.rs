//! Parses the words of a command. The result is in range, does not depend on the case of the words, and parses to the
//! same value when it is written out again.

use valkeybloom_protocol::bloom::{Defaults, InfoRequest, Insert, Maker, Reserve};
use valkeybloom_protocol::cms as cms_words;
use valkeybloom_protocol::cuckoo as cuckoo_words;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::integer;
use valkeybloom_protocol::tdigest as tdigest_words;
use valkeybloom_protocol::topk as topk_words;
use valkeybloom_protocol::words::{CommandWords, Grammar, Origin};
use valkeybloom_sketches::bloom::{Growth, Kind, New, Params, Shape, Tightening, Window};
use valkeybloom_sketches::cuckoo;
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

/// Separates words. The unit separator is rarely part of a word.
const SEPARATOR: u8 = 0x1f;

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
    let words: Vec<&[u8]> = rest.split(|byte| *byte == SEPARATOR).collect();
    // An empty rest means an empty list of words, so that this case is tried, too.
    let words = &words[usize::from(rest.is_empty())..];
    let cased: Vec<Vec<u8>> = words.iter().map(|word| swapped(word)).collect();
    let cased: Vec<&[u8]> = cased.iter().map(Vec::as_slice).collect();

    check_peers(words, &cased, params);
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
        // A time in seconds may be more milliseconds than `PX` accepts.
        match reserve.ttl_ms {
            Some(ms) if ms % 1000 == 0 => option(&mut line, "EX", Some(ms / 1000)),
            ms => option(&mut line, "PX", ms),
        }
        if reserve.unless_exists {
            line.push(b"NX".to_vec());
        }
        assert!(reserve.ttl_ms.is_none_or(|ms| ms > 0));
        option(&mut line, "SCALETO", reserve.grow_to);
        assert_parses_back(line, &shape, reserve, parse);
    }
    for origin in [Origin::Client, Origin::Elsewhere] {
        check_insert(words, &cased, defaults, origin);
    }
    for grammar in [Grammar::Own, Grammar::RedisBloom] {
        check_cuckoo(words, &cased, grammar);
    }
    check_cms(words, &cased);
    check_topk(words, &cased);
    check_tdigest(words, &cased);
    let [info, other] = [words, &cased].map(|it| InfoRequest::parse(it, Error::UNKNOWN_FIELD));
    assert_eq!(info, other);
    for word in words {
        if let Some(number) = integer(word) {
            assert_eq!(number.to_string().as_bytes(), *word);
        }
    }
}

/// Returns the shape to create, which must be of this module's own kind.
fn own(create: Result<New, Error>) -> Shape {
    match create {
        Ok(New::Own(shape)) => shape,
        other => panic!("not of this module: {other:?}"),
    }
}

/// Parses words with settings for a peer's kind: the result is in range, or refused.
fn check_peers(words: &[&[u8]], cased: &[&[u8]], params: Params) {
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

fn cms_by_size(words: &[&[u8]]) -> Result<valkeybloom_sketches::cms::Shape, Error> {
    cms_words::shape_by_size(words, Origin::Client)
}

fn cms_by_rates(words: &[&[u8]]) -> Result<valkeybloom_sketches::cms::Shape, Error> {
    cms_words::shape_by_rates(words)
}

/// Parses the words of CMS.INITBYDIM, INITBYPROB, INCRBY and MERGE.
fn check_cms(words: &[&[u8]], cased: &[&[u8]]) {
    let counted = cms_words::require_count(words);
    assert_eq!(counted.is_ok(), matches!(words.len(), 4 | 6));
    if counted.is_ok() {
        for parse in [cms_by_size, cms_by_rates] {
            let shape = parse(words);
            assert_eq!(parse(cased), shape);
            if let Ok(shape) = shape {
                let size = shape.cell_size().bytes();
                let numbers = [shape.width(), shape.depth(), size].map(count);
                let line = [
                    b"",
                    b"",
                    &numbers[0][..],
                    &numbers[1],
                    b"CELL_SIZE",
                    &numbers[2],
                ];
                assert_eq!(cms_by_size(&line[..]), Ok(shape));
            }
        }
    }
    for word in words {
        if let Ok(increment) = cms_words::increment(word, || false) {
            assert!(increment > i64::MIN);
            assert_eq!(increment.to_string().as_bytes(), *word);
        }
    }
    if words.len() < 4 {
        return;
    }
    let merge = cms_words::Merge::parse(words);
    assert_eq!(cms_words::Merge::parse(cased), merge);
    if let Ok(merge) = merge {
        let weights = if merge.has_weights {
            merge.sources.len() + 1
        } else {
            0
        };
        assert!(!merge.sources.is_empty());
        assert_eq!(merge.sources.start, 3);
        assert_eq!(merge.sources.end + weights, words.len());
        for source in merge.sources.clone() {
            let weight = merge.weight(words, source);
            assert!(merge.has_weights || weight == Ok(1));
        }
    }
}

/// Parses the words of TOPK.RESERVE, INCRBY and LIST.
fn check_topk(words: &[&[u8]], cased: &[&[u8]]) {
    let parse = |words: &[&[u8]]| {
        topk_words::require_shape_words(words)?;
        topk_words::shape(words, Origin::Client)
    };
    let shape = parse(words);
    assert_eq!(parse(cased), shape);
    if let Ok(shape) = shape {
        assert!(shape.cells() < 1 << 32 && shape.decay() > 0.0 && shape.decay() <= 1.0);
        let numbers = [shape.k(), shape.width(), shape.depth()].map(|number| number.to_string());
        let decay = rate(shape.decay());
        let line = numbers.iter().map(String::as_bytes).chain([&decay[..]]);
        let line: Vec<&[u8]> = [&b"TOPK.RESERVE"[..], b"k"]
            .into_iter()
            .chain(line)
            .collect();
        assert_eq!(parse(&line), Ok(shape));
    }
    for word in words {
        if let Ok(increment) = topk_words::increment(word) {
            assert!(increment <= 100_000);
            assert_eq!(increment.to_string().as_bytes(), *word);
        }
    }
    let pairs = topk_words::require_pairs(words);
    assert_eq!(
        pairs.is_ok(),
        words.len() >= 4 && words.len().is_multiple_of(2)
    );
    let lists = topk_words::lists_counts(words);
    assert_eq!(topk_words::lists_counts(cased), lists);
    assert!(lists != Ok(true) || words.len() == 3);
}

/// Parses the words of all TDIGEST commands.
fn check_tdigest(words: &[&[u8]], cased: &[&[u8]]) {
    for word in words {
        let value = tdigest_words::value(word, tdigest_words::error::BAD_CDF);
        assert!(
            value.is_ok_and(|value| !value.is_nan()) || value == Err(tdigest_words::error::BAD_CDF)
        );
        let addition = tdigest_words::value_to_add(word);
        let quantile = tdigest_words::quantile(word);
        if let Ok(value) = value {
            let text = str::from_utf8(word).expect("a number is text");
            let nearest = text.parse().map(f64::to_bits);
            assert_eq!(nearest, Ok(value.to_bits()));
            let is_in_range = (0.0..=1.0).contains(&value);
            assert_eq!(addition.ok(), Some(value).filter(|it| it.is_finite()));
            assert_eq!(quantile.ok(), Some(value).filter(|_| is_in_range));
            let again = tdigest_words::value(&rate(value), tdigest_words::error::BAD_CDF);
            assert_eq!(again.map(f64::to_bits), Ok(value.to_bits()));
        } else {
            assert_eq!(addition, Err(tdigest_words::error::BAD_ADDITION));
            assert_eq!(quantile, Err(tdigest_words::error::BAD_QUANTILE));
        }
        if let Ok(rank) = tdigest_words::rank(word) {
            assert!(i64::try_from(rank).is_ok());
            assert_eq!(count(rank), *word);
        }
    }
    let compression = tdigest_words::compression(words);
    assert_eq!(tdigest_words::compression(cased), compression);
    if let Ok(Some(compression)) = compression {
        assert!(i64::try_from(compression).is_ok_and(|it| it > 0));
        let line = [b"", b"", &b"COMPRESSION"[..], &count(compression)];
        assert_eq!(tdigest_words::compression(&line[..]), Ok(Some(compression)));
    }
    if words.len() < 4 {
        return;
    }
    let cuts = tdigest_words::trim(words);
    assert_eq!(tdigest_words::trim(cased), cuts);
    if let Ok((low, high)) = cuts {
        assert!(0.0 <= low && low < high && high <= 1.0);
    }
    let merge = tdigest_words::Merge::parse(words, Grammar::Own);
    assert_eq!(tdigest_words::Merge::parse(cased, Grammar::Own), merge);
    if let Ok(merge) = merge {
        assert!(!merge.sources.is_empty());
        assert_eq!(merge.sources.start, 3);
        let options = usize::from(merge.overrides) + 2 * usize::from(merge.compression.is_some());
        assert_eq!(merge.sources.end + options, words.len());
        let mut line: Vec<Vec<u8>> = words[..merge.sources.end]
            .iter()
            .map(|word| word.to_vec())
            .collect();
        if merge.overrides {
            line.push(b"OVERRIDE".to_vec());
        }
        option(&mut line, "COMPRESSION", merge.compression);
        let words: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
        assert_eq!(
            tdigest_words::Merge::parse(&words[..], Grammar::Own),
            Ok(merge)
        );
    }
}

/// Parses the words of CF.RESERVE and CF.INSERT.
fn check_cuckoo(words: &[&[u8]], cased: &[&[u8]], grammar: Grammar) {
    let defaults = cuckoo::Params {
        capacity: 77,
        bucket_size: 5,
        max_iterations: 3,
        expansion: 2,
    };
    let reserve = cuckoo_words::reserve(words, defaults, grammar);
    assert_eq!(cuckoo_words::reserve(cased, defaults, grammar), reserve);
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
        // The first empty word takes the place of the key.
        let line = [&[&b"CF.RESERVE"[..]], &line[..]].concat();
        for grammar in [Grammar::Own, Grammar::RedisBloom] {
            let again = cuckoo_words::reserve(&line[..], cuckoo::Params::REDISBLOOM, grammar);
            assert_eq!(again, Ok(params));
        }
    }
    let insert = cuckoo_words::Insert::parse(words, defaults, grammar);
    let other = cuckoo_words::Insert::parse(cased, defaults, grammar);
    assert_eq!(other, insert);
    if let Ok(insert) = insert {
        assert!(!insert.items.is_empty());
        assert_eq!(insert.items.end, words.len());
        if let Some(params) = insert.create {
            assert!(params.are_valid());
        }
        if grammar == Grammar::Own {
            let read = cuckoo_words::Insert::parse(words, defaults, Grammar::RedisBloom);
            assert_eq!(read, Ok(insert));
        }
    }
}

fn check_insert(words: &[&[u8]], cased: &[&[u8]], defaults: Defaults, origin: Origin) {
    let insert = Insert::parse(words, defaults, origin);
    let other = Insert::parse(cased, defaults, origin);
    // A seed is bytes, so changing the case of letters changes it.
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
        // One more word adds one more item, and changes nothing else.
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
    assert!(insert.moment.ttl_ms.is_none_or(|ms| ms > 0));
    let Some(create) = insert.create else {
        return;
    };
    let shape = own(create);
    let params = in_range(&shape);
    // From a primary or a log, the ratio determines whose law applies; a client's ratio always means ours.
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
    option(&mut line, "SCALETO", insert.grow_to);
    option(&mut line, "TTL", insert.moment.ttl_ms);
    option(&mut line, "AT", insert.moment.at_ms);
    if insert.moment.saturate {
        line.push(b"SATURATE".to_vec());
    }
    let expected = Insert {
        items: 0..0,
        ..insert
    };
    assert_parses_back(line, &shape, &expected, |words| {
        Insert::parse(words, defaults, origin)
    });
}

/// Asserts that these words, together with those of the shape, parse to the same request.
#[track_caller]
fn assert_parses_back<R: PartialEq + std::fmt::Debug + Clone>(
    mut line: Vec<Vec<u8>>,
    shape: &Shape,
    request: &R,
    parse: impl Fn(&[&[u8]]) -> Result<R, Error>,
) {
    let expansion = shape.params.growth.expansion();
    option(&mut line, "EXPANSION", Some(expansion.into()));
    match shape.kind {
        // SCALETO is written with the other options.
        Kind::Plain | Kind::ScaledTo => {}
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

/// Returns a word with the case of its letters swapped.
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
