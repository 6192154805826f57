//! Parses the words of a command. The result is in range, does not depend on the case of the words, and parses to the
//! same value when it is written out again.

use std::fmt::Debug;

use valkeybloom_protocol::bloom::{Defaults, InfoRequest, Insert, Maker, Once, Reserve};
use valkeybloom_protocol::cms as cms_words;
use valkeybloom_protocol::cuckoo as cuckoo_words;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::integer;
use valkeybloom_protocol::tdigest as tdigest_words;
use valkeybloom_protocol::topk as topk_words;
use valkeybloom_protocol::words::{Grammar, Origin};
use valkeybloom_sketches::bloom::{Growth, Kind, New, Params, Shape, Tightening, Window};
use valkeybloom_sketches::cuckoo;
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

/// Separates words. The unit separator is rarely part of a word.
const SEPARATOR: u8 = 0x1f;

/// The words of an input, and the same words with the case of their letters swapped.
struct Line<'w> {
    words: &'w [&'w [u8]],
    cased: &'w [&'w [u8]],
}

impl Line<'_> {
    /// Parses the words in both cases, with the same result.
    #[track_caller]
    fn parse<T: PartialEq + Debug>(&self, parse: impl Fn(&[&[u8]]) -> T) -> T {
        let parsed = parse(self.words);
        assert_eq!(parse(self.cased), parsed);
        parsed
    }
}

/// Requires that a line, which lacks its name and its key, is parsed to this value.
#[track_caller]
fn parses_to<T: PartialEq + Debug>(
    line: &str,
    value: T,
    parse: impl Fn(&[&[u8]]) -> Result<T, Error>,
) {
    let words: Vec<&[u8]> = ["NAME", "k"]
        .into_iter()
        .chain(line.split_whitespace())
        .map(str::as_bytes)
        .collect();
    assert_eq!(parse(&words), Ok(value), "{line}");
}

/// Returns an option with its value, or nothing.
fn option(word: &str, value: Option<u64>) -> String {
    value.map_or_else(String::new, |value| format!(" {word} {value}"))
}

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
    let swapped = |byte: &u8| byte ^ (u8::from(byte.is_ascii_alphabetic()) << 5);
    let cased = words.iter().map(|word| word.iter().map(swapped).collect());
    let cased: Vec<Vec<u8>> = cased.collect();
    let cased: Vec<&[u8]> = cased.iter().map(Vec::as_slice).collect();
    let line = Line {
        words,
        cased: &cased,
    };

    check_peers(&line, params);
    let defaults = Defaults {
        params,
        maker: Maker::Own,
    };
    check_reserve(&line, defaults);
    for origin in [Origin::Client, Origin::Elsewhere] {
        check_insert(&line, defaults, origin);
    }
    for grammar in [Grammar::Own, Grammar::RedisBloom] {
        check_cuckoo(&line, grammar);
    }
    check_cms(&line);
    check_topk(&line);
    check_tdigest(&line);
    let _ = line.parse(|words| InfoRequest::parse(words, Error::UNKNOWN_FIELD));
    for word in words {
        check_numbers(word);
    }
}

/// Parses a word as each kind of whole number, and requires that the number is written as this word.
fn check_numbers(word: &[u8]) {
    let increment = cms_words::increment(word, || false).ok();
    assert_ne!(increment, Some(i64::MIN));
    let small = topk_words::increment(word).ok();
    assert!(small.is_none_or(|increment| increment <= 100_000));
    let rank = tdigest_words::rank(word).ok();
    assert!(rank.is_none_or(|rank| i64::try_from(rank).is_ok()));
    let wholes = [integer(word).map(i128::from), increment.map(i128::from)];
    let naturals = [small.map(i128::from), rank.map(i128::from)];
    for number in wholes.into_iter().chain(naturals).flatten() {
        assert_eq!(number.to_string().as_bytes(), word);
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
fn check_peers(line: &Line, params: Params) {
    for maker in [Maker::ValkeyBloom, Maker::RedisBloom] {
        let defaults = Defaults { params, maker };
        for origin in [Origin::Client, Origin::Elsewhere] {
            let reserve = line.parse(|words| Reserve::parse(words, defaults, origin));
            let insert = Insert::parse(line.words, defaults, origin);
            check_receipt(line.words, defaults);
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

/// Parses the words of CMS.INITBYDIM, INITBYPROB, INCRBY and MERGE.
fn check_cms(line: &Line) {
    let words = line.words;
    let counted = cms_words::require_count(words);
    let is_right = matches!(words.len(), 4 | 6);
    assert_eq!(counted, is_right.then_some(()).ok_or(Error::Arity));
    if counted.is_ok() {
        let by_size = |words: &[&[u8]]| cms_words::shape_by_size(words, Origin::Client);
        let by_rates = line.parse(|words| cms_words::shape_by_rates(words));
        for shape in line.parse(by_size).into_iter().chain(by_rates) {
            let (width, depth) = (shape.width(), shape.depth());
            let size = shape.cell_size().bytes();
            parses_to(&format!("{width} {depth} CELL_SIZE {size}"), shape, by_size);
        }
    }
    if words.len() < 4 {
        return;
    }
    if let Ok(merge) = line.parse(|words| cms_words::Merge::parse(words)) {
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
fn check_topk(line: &Line) {
    let words = line.words;
    let parse = |words: &[&[u8]]| {
        topk_words::require_shape_words(words)?;
        topk_words::shape(words, Origin::Client)
    };
    if let Ok(shape) = line.parse(parse) {
        let decay = shape.decay();
        assert!(shape.cells() < 1 << 32 && decay > 0.0 && decay <= 1.0);
        let (k, width, depth) = (shape.k(), shape.width(), shape.depth());
        parses_to(&format!("{k} {width} {depth} {decay:e}"), shape, parse);
    }
    let is_right = words.len() >= 4 && words.len().is_multiple_of(2);
    let pairs = topk_words::require_pairs(words);
    assert_eq!(pairs, is_right.then_some(()).ok_or(Error::Arity));
    let lists = line.parse(|words| topk_words::lists_counts(words));
    assert!(lists != Ok(true) || words.len() == 3);
}

/// Parses the words of all TDIGEST commands.
fn check_tdigest(line: &Line) {
    let words = line.words;
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
            let written = format!("{value:e}");
            let again = tdigest_words::value(written.as_bytes(), tdigest_words::error::BAD_CDF);
            assert_eq!(again.map(f64::to_bits), Ok(value.to_bits()));
        } else {
            assert_eq!(addition, Err(tdigest_words::error::BAD_ADDITION));
            assert_eq!(quantile, Err(tdigest_words::error::BAD_QUANTILE));
        }
    }
    let compression = |words: &[&[u8]]| tdigest_words::compression(words);
    if let Ok(Some(number)) = line.parse(compression) {
        assert!(i64::try_from(number).is_ok_and(|it| it > 0));
        parses_to(&format!("COMPRESSION {number}"), Some(number), compression);
    }
    if words.len() < 4 {
        return;
    }
    if let Ok((low, high)) = line.parse(|words| tdigest_words::trim(words)) {
        assert!(0.0 <= low && low < high && high <= 1.0);
    }
    let parse = |words: &[&[u8]]| tdigest_words::Merge::parse(words, Grammar::Own);
    if let Ok(merge) = line.parse(parse) {
        assert!(!merge.sources.is_empty());
        assert_eq!(merge.sources.start, 3);
        let options = usize::from(merge.overrides) + 2 * usize::from(merge.compression.is_some());
        assert_eq!(merge.sources.end + options, words.len());
        let overrides = if merge.overrides { " OVERRIDE" } else { "" };
        let options = option("COMPRESSION", merge.compression);
        let count = merge.sources.len();
        let sources = " s".repeat(count);
        parses_to(
            &format!("{count}{sources}{overrides}{options}"),
            merge,
            parse,
        );
    }
}

/// Parses the words of CF.RESERVE and CF.INSERT.
fn check_cuckoo(line: &Line, grammar: Grammar) {
    let defaults = cuckoo::Params {
        capacity: 77,
        bucket_size: 5,
        max_iterations: 3,
        expansion: 2,
    };
    if let Ok(params) = line.parse(|words| cuckoo_words::reserve(words, defaults, grammar)) {
        assert!(params.are_valid());
        let written = format!(
            "{} BUCKETSIZE {} MAXITERATIONS {} EXPANSION {}",
            params.capacity, params.bucket_size, params.max_iterations, params.expansion
        );
        for grammar in [Grammar::Own, Grammar::RedisBloom] {
            parses_to(&written, params, |words| {
                cuckoo_words::reserve(words, cuckoo::Params::REDISBLOOM, grammar)
            });
        }
    }
    if let Ok(insert) = line.parse(|words| cuckoo_words::Insert::parse(words, defaults, grammar)) {
        assert!(!insert.items.is_empty());
        assert_eq!(insert.items.end, line.words.len());
        if let Some(params) = insert.create {
            assert!(params.are_valid());
        }
        if grammar == Grammar::Own {
            let read = cuckoo_words::Insert::parse(line.words, defaults, Grammar::RedisBloom);
            assert_eq!(read, Ok(insert));
        }
    }
}

/// Parses the words of BF.RESERVE.
fn check_reserve(line: &Line, defaults: Defaults) {
    let parse = |words: &[&[u8]]| Reserve::parse(words, defaults, Origin::Client);
    let Ok(reserve) = line.parse(parse) else {
        return;
    };
    assert!(reserve.ttl_ms.is_none_or(|ms| ms > 0));
    let shape = own(reserve.create);
    let params = in_range(&shape);
    // A time in seconds may be more milliseconds than `PX` accepts.
    let ttl = match reserve.ttl_ms {
        Some(ms) if ms % 1000 == 0 => option("EX", Some(ms / 1000)),
        ms => option("PX", ms),
    };
    let condition = if reserve.unless_exists { " NX" } else { "" };
    let growth = option("SCALETO", reserve.grow_to) + &options_of(&shape);
    let (rate, capacity) = (params.error_rate.get(), params.capacity);
    let written = format!("{rate:e} {capacity}{ttl}{condition}{growth}");
    parses_to(&written, reserve, parse);
}

/// Parses the words of BF.INSERT.
/// The server decides by the receipt that is found in a client's words, which has to be the one that is used.
fn check_receipt(words: &[&[u8]], defaults: Defaults) {
    if let Ok(insert) = Insert::parse(words, defaults, Origin::Client) {
        let used = insert.once.map(|once| once.receipt);
        assert_eq!(Insert::receipt(words, defaults.maker), used);
    }
}

fn check_insert(line: &Line, defaults: Defaults, origin: Origin) {
    // A seed is bytes, so changing the case of letters changes it.
    let parse = |words: &[&[u8]]| {
        Insert::parse(words, defaults, origin).map(|insert| Insert {
            seed: None,
            ..insert
        })
    };
    check_receipt(line.words, defaults);
    let Ok(insert) = line.parse(parse) else {
        return;
    };
    let words = line.words;
    let is_items = |word: &&[u8]| word.eq_ignore_ascii_case(b"ITEMS");
    let (first, end) = (insert.items.start, insert.items.end);
    if insert.items.is_empty() {
        // A seed and a receipt may be any word.
        let has_bytes = Insert::parse(words, defaults, origin)
            .is_ok_and(|it| it.seed.is_some() || it.once.is_some());
        assert!(has_bytes || !words[2..].iter().any(is_items));
    } else {
        assert_eq!(end, words.len());
        assert!(is_items(&words[first - 1]));
        // One more word adds one more item, and changes nothing else.
        let mut expected = insert.clone();
        expected.items = first..end + 1;
        assert_eq!(parse(&[words, &[b"NOCREATE"]].concat()), Ok(expected));
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
            params.tightening.ratio().get()
        }
        Origin::Elsewhere => params.tightening.to_stored(),
    };
    let (rate, capacity) = (params.error_rate.get(), params.capacity);
    let written = format!("ERROR {rate:e} TIGHTENING {tightening:e} CAPACITY {capacity}")
        + &further_options_of(&insert)
        + &options_of(&shape);
    let expected = Insert {
        once: insert.once.map(|once| Once { receipt: 9, ..once }),
        items: 0..0,
        ..insert
    };
    parses_to(&written, expected, parse);
}

/// Returns the options that BF.RESERVE does not have.
fn further_options_of(insert: &Insert) -> String {
    let once = insert.once.map(|once| {
        let begin = if once.begins { " BEGIN" } else { "" };
        option("ONCE receipt", Some(once.position)) + begin
    });
    let options = [
        ("VALIDATESCALETO", insert.scale_to),
        ("SCALETO", insert.grow_to),
        ("TTL", insert.moment.ttl_ms),
        ("AT", insert.moment.at_ms),
    ];
    let options = options.map(|(word, value)| option(word, value)).concat();
    let saturate = insert.moment.saturate.then_some(" SATURATE");
    once.unwrap_or_default() + &options + saturate.unwrap_or_default()
}

/// Returns the options that give a shape. The number of SCALETO is not part of it.
fn options_of(shape: &Shape) -> String {
    let expansion = option("EXPANSION", Some(shape.params.growth.expansion().into()));
    expansion
        + &match shape.kind {
            Kind::Plain | Kind::ScaledTo => String::new(),
            Kind::Windowed(window) => {
                option("WINDOW", Some(window.period_ms()))
                    + &option("PERIODS", Some(window.periods()))
            }
            Kind::Counting => " COUNTING".to_owned(),
        }
}

fn in_range(shape: &Shape) -> &Params {
    let params = &shape.params;
    assert!((1..=MAX_CAPACITY).contains(&params.capacity));
    for rate in [params.error_rate, params.tightening.ratio()].map(Fraction::get) {
        assert!(0.0 < rate && rate < 1.0);
    }
    if let Kind::Windowed(window) = shape.kind {
        assert!((1..=Window::MAX_PERIODS).contains(&window.periods()));
        assert!(window.period_ms() > 0);
        assert!(i64::try_from(window.ms()).is_ok());
    }
    params
}
