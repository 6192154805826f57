//! The words of the TDIGEST commands.

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::tdigest::{self, Merge};
use valkeybloom_protocol::words::Grammar;

use crate::{NO_COUNTS, NO_NUMBERS, words};

const ARITY: &str = "ERR wrong number of arguments";
const KEYWORD: &str = "ERR T-Digest: wrong keyword";
const BAD_COMPRESSION: &str = "ERR T-Digest: error parsing compression parameter";
const COMPRESSION_RANGE: &str =
    "ERR T-Digest: compression parameter needs to be a positive integer";
const BAD_SOURCES: &str = "ERR T-Digest: error parsing numkeys";
const SOURCES_RANGE: &str = "ERR T-Digest: numkeys needs to be a positive integer";
const BAD_ADDITION: &str = "ERR T-Digest: error parsing val parameter";
const INFINITE: &str = "ERR T-Digest: val parameter needs to be a finite number";
const BAD_QUANTILE: &str = "ERR T-Digest: error parsing quantile";
const QUANTILE_RANGE: &str = "ERR T-Digest: quantile should be in [0,1]";
const BAD_RANK: &str = "ERR T-Digest: error parsing rank";
const RANK_RANGE: &str = "ERR T-Digest: rank needs to be non negative";
const BAD_LOW: &str = "ERR T-Digest: error parsing low_cut_percentile";
const BAD_HIGH: &str = "ERR T-Digest: error parsing high_cut_percentile";
const CUT_RANGE: &str =
    "ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]";
const CUT_ORDER: &str = "ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile";

fn text<T>(result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Words that are not doubles of the server, which overflow, or which are rounded to zero.
fn no_doubles() -> impl Iterator<Item = &'static str> {
    let more = ["nan", "1e400", "1e-400", "infin"];
    NO_NUMBERS.into_iter().chain(more)
}

#[test]
fn values_are_doubles_of_the_server() {
    let bad = [
        (tdigest::error::BAD_CDF, "ERR T-Digest: error parsing cdf"),
        (
            tdigest::error::BAD_VALUE,
            "ERR T-Digest: error parsing value",
        ),
    ];
    for (word, value) in [
        ("-0", -0.0_f64),
        (".5", 0.5),
        ("1E+5", 1e5),
        ("5e-324", 5e-324),
    ] {
        let added = tdigest::value_to_add(word.as_bytes()).map(f64::to_bits);
        assert_eq!(added, Ok(value.to_bits()), "{word}");
        for (error, _) in bad {
            let parsed = tdigest::value(word.as_bytes(), error).map(f64::to_bits);
            assert_eq!(parsed, Ok(value.to_bits()), "{word}");
        }
    }
    for word in no_doubles() {
        let added = text(tdigest::value_to_add(word.as_bytes()));
        assert_eq!(added, Err(BAD_ADDITION.to_owned()), "{word}");
        for (error, expected) in bad {
            let parsed = text(tdigest::value(word.as_bytes(), error));
            assert_eq!(parsed, Err(expected.to_owned()), "{word}");
        }
    }
    for (word, value) in [("inf", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY)] {
        let added = text(tdigest::value_to_add(word.as_bytes()));
        assert_eq!(added, Err(INFINITE.to_owned()), "{word}");
        let parsed = tdigest::value(word.as_bytes(), tdigest::error::BAD_CDF);
        assert_eq!(parsed, Ok(value), "{word}");
    }
}

#[test]
fn quantiles_are_from_0_to_1() {
    for (word, quantile) in [
        ("0", 0.0),
        ("-0", -0.0),
        ("-0.0e5", -0.0),
        ("5e-324", 5e-324),
        (".5", 0.5),
        ("1", 1.0),
        ("+1.", 1.0),
        ("1.0000000000000001", 1.0),
    ] {
        assert_eq!(tdigest::quantile(word.as_bytes()), Ok(quantile), "{word}");
    }
    for word in no_doubles() {
        let parsed = text(tdigest::quantile(word.as_bytes()));
        assert_eq!(parsed, Err(BAD_QUANTILE.to_owned()), "{word}");
    }
    for word in [
        "-5e-324",
        "1.0000000000000002",
        "-1",
        "2",
        "1e308",
        "inf",
        "-infinity",
    ] {
        let parsed = text(tdigest::quantile(word.as_bytes()));
        assert_eq!(parsed, Err(QUANTILE_RANGE.to_owned()), "{word}");
    }
}

#[test]
fn ranks_are_whole() {
    for (word, rank) in [
        ("0", 0),
        ("7", 7),
        ("9223372036854775807", i64::MAX.cast_unsigned()),
    ] {
        assert_eq!(tdigest::rank(word.as_bytes()), Ok(rank), "{word}");
    }
    for word in NO_NUMBERS.iter().chain(&NO_COUNTS) {
        let is_number = word
            .parse::<i64>()
            .is_ok_and(|rank| rank.to_string() == *word);
        let expected = if is_number { RANK_RANGE } else { BAD_RANK };
        let parsed = text(tdigest::rank(word.as_bytes()));
        assert_eq!(parsed, Err(expected.to_owned()), "{word}");
    }
}

fn trim(low: &str, high: &str) -> Result<(f64, f64), String> {
    let words = ["TDIGEST.TRIMMED_MEAN", "k", low, high].map(str::as_bytes);
    text(tdigest::trim(&words[..]))
}

#[test]
fn cuts_are_parsed_before_their_ranges_are_checked() {
    for (low, high, cuts) in [
        ("0", "1", (0.0, 1.0)),
        ("-0", "5e-324", (-0.0, 5e-324)),
        (".1", "+9e-1", (0.1, 0.9)),
    ] {
        assert_eq!(trim(low, high), Ok(cuts), "{low} {high}");
    }
    for word in no_doubles() {
        // The other one is out of range.
        assert_eq!(trim(word, "2"), Err(BAD_LOW.to_owned()), "{word}");
        assert_eq!(trim("2", word), Err(BAD_HIGH.to_owned()), "{word}");
        assert_eq!(trim(word, word), Err(BAD_LOW.to_owned()), "{word}");
    }
    for (low, high, expected) in [
        ("-0.1", "0.5", CUT_RANGE),
        ("0.5", "1.1", CUT_RANGE),
        ("-inf", "inf", CUT_RANGE),
        // Out of range, and out of order.
        ("2", "1", CUT_RANGE),
        ("0.5", "-1", CUT_RANGE),
        ("0.5", "0.5", CUT_ORDER),
        ("0.9", "0.1", CUT_ORDER),
        ("-0", "0", CUT_ORDER),
        ("1", "1.0000000000000001", CUT_ORDER),
    ] {
        assert_eq!(trim(low, high), Err(expected.to_owned()), "{low} {high}");
    }
}

fn compression(line: &str) -> Result<Option<u64>, String> {
    text(tdigest::compression(&words(line)[..]))
}

#[test]
fn create_takes_a_compression() {
    for (line, expected) in [
        ("TDIGEST.CREATE k", None),
        ("TDIGEST.CREATE COMPRESSION", None),
        ("TDIGEST.CREATE k COMPRESSION 1", Some(1)),
        ("tdigest.create k compression 100", Some(100)),
        ("TDIGEST.CREATE k Compression 357913940", Some(357_913_940)),
        (
            "TDIGEST.CREATE k COMPRESSION 9223372036854775807",
            Some(i64::MAX.cast_unsigned()),
        ),
    ] {
        assert_eq!(compression(line), Ok(expected), "{line}");
    }
    for word in ["", "COMPRESSIO", "COMPRESSIONS", "100", "OVERRIDE"] {
        for value in ["100", "x", "0"] {
            let line = format!("TDIGEST.CREATE k {word} {value}");
            assert_eq!(compression(&line), Err(KEYWORD.to_owned()), "{line}");
        }
        // RedisBloom finds the keyword in the last place, too, and parses it.
        let line = format!("TDIGEST.CREATE k {word} COMPRESSION");
        assert_eq!(
            compression(&line),
            Err(BAD_COMPRESSION.to_owned()),
            "{line}"
        );
    }
    for (word, expected) in bad_compressions() {
        let line = format!("TDIGEST.CREATE k COMPRESSION {word}");
        assert_eq!(compression(&line), Err(expected.to_owned()), "{line}");
    }
}

/// Words that are not a compression, and the error of each.
fn bad_compressions() -> impl Iterator<Item = (&'static str, &'static str)> {
    positive_or(BAD_COMPRESSION, COMPRESSION_RANGE)
}

/// Words that are not a positive number, with the error for what is not a number, or that for numbers.
fn positive_or(
    no_number: &'static str,
    range: &'static str,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = NO_NUMBERS.into_iter().chain(NO_COUNTS).chain(["0"]);
    all.map(move |word| {
        let number = word.parse::<i64>().ok();
        let is_number = number.is_some_and(|number| number.to_string() == word);
        (word, if is_number { range } else { no_number })
    })
}

fn merge(line: &str) -> Result<Merge, String> {
    Merge::parse(&words(line)[..], Grammar::Own).map_err(|error| error.to_string())
}

#[test]
fn merge_takes_sources_and_options_in_any_order() {
    for (options, compression, overrides) in [
        ("", None, false),
        (" OVERRIDE", None, true),
        (" override", None, true),
        (" COMPRESSION 5", Some(5), false),
        (
            " cOMPRESSION 9223372036854775807",
            Some(i64::MAX.cast_unsigned()),
            false,
        ),
        (" COMPRESSION 5 OVERRIDE", Some(5), true),
        (" Override Compression 5", Some(5), true),
    ] {
        for (sources, count) in [
            ("a", 1),
            ("d", 1),
            ("a a", 2),
            // The words of options are names of keys, too.
            ("OVERRIDE COMPRESSION 5", 3),
        ] {
            let line = format!("TDIGEST.MERGE d {count} {sources}{options}");
            let expected = Merge {
                sources: 3..3 + count,
                compression,
                overrides,
            };
            assert_eq!(merge(&line), Ok(expected), "{line}");
        }
    }
}

#[test]
fn redisbloom_s_grammar_ignores_words_of_merge() {
    for (options, compression, overrides) in [
        ("OVERRIDE what", None, true),
        ("what 5 OVERRIDE OVERRIDE", None, true),
        ("COMPRESSION 5 compression 6 what", Some(5), false),
        ("COMPRESSION 5 COMPRESSION OVERRIDE", Some(5), true),
    ] {
        let line = format!("TDIGEST.MERGE d 1 a {options}");
        let expected = Merge {
            sources: 3..4,
            compression,
            overrides,
        };
        let merge = Merge::parse(&words(&line)[..], Grammar::RedisBloom);
        assert_eq!(merge, Ok(expected), "{line}");
    }
}

#[test]
fn merge_reports_the_first_error() {
    for (word, expected) in positive_or(BAD_SOURCES, SOURCES_RANGE) {
        let line = format!("TDIGEST.MERGE d {word} a what");
        assert_eq!(merge(&line), Err(expected.to_owned()), "{line}");
    }
    for (line, expected) in [
        ("TDIGEST.MERGE d 2 a", ARITY),
        ("TDIGEST.MERGE d 9223372036854775807 a", ARITY),
        ("TDIGEST.MERGE d 1 a COMPRESSION", ARITY),
        ("TDIGEST.MERGE d 1 a OVERRIDE COMPRESSION", ARITY),
        ("TDIGEST.MERGE d 1 a b", KEYWORD),
        ("TDIGEST.MERGE d 1 a ", KEYWORD),
        ("TDIGEST.MERGE d 1 a 5", KEYWORD),
        ("TDIGEST.MERGE d 1 a OVERRIDES", KEYWORD),
        ("TDIGEST.MERGE d 1 a OVERRIDE what", KEYWORD),
        ("TDIGEST.MERGE d 1 a what OVERRIDE", KEYWORD),
        ("TDIGEST.MERGE d 1 a what COMPRESSION", KEYWORD),
        ("TDIGEST.MERGE d 1 a OVERRIDE OVERRIDE", KEYWORD),
        ("TDIGEST.MERGE d 1 a COMPRESSION 5 compression 5", KEYWORD),
        ("TDIGEST.MERGE d 1 a COMPRESSION 5 OVERRIDE 6", KEYWORD),
        ("TDIGEST.MERGE d 1 a COMPRESSION OVERRIDE", BAD_COMPRESSION),
    ] {
        assert_eq!(merge(line), Err(expected.to_owned()), "{line}");
    }
    for (word, expected) in bad_compressions() {
        for rest in ["", " OVERRIDE", " what"] {
            let line = format!("TDIGEST.MERGE d 1 a COMPRESSION {word}{rest}");
            assert_eq!(merge(&line), Err(expected.to_owned()), "{line}");
        }
    }
}
