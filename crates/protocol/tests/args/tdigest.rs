//! The words of the TDIGEST commands.

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::tdigest::{self, Merge};
use valkeybloom_protocol::words::Grammar;

use crate::are;

/// Requires that a word is what stands after the arrow, for one of the readers of a word.
#[track_caller]
fn word_is<T: ToString>(table: &str, read: impl Fn(&[u8]) -> Result<T, Error>) {
    are(table, |words| read(words[0]).map(|read| read.to_string()));
}

#[test]
fn values_are_doubles_of_the_server() {
    let good = "-0 => -0\n.5 => 0.5\n1E+5 => 100000";
    for (error, text) in [
        (tdigest::error::BAD_CDF, "ERR T-Digest: error parsing cdf"),
        (
            tdigest::error::BAD_VALUE,
            "ERR T-Digest: error parsing value",
        ),
    ] {
        let table = format!("{good}\ninf => inf\n-Infinity => -inf\n<no double> => {text}");
        word_is(&table, |word| tdigest::value(word, error));
    }
    word_is(good, tdigest::value_to_add);
    word_is(
        "
<no double> => ERR T-Digest: error parsing val parameter
inf => ERR T-Digest: val parameter needs to be a finite number
-Infinity => ERR T-Digest: val parameter needs to be a finite number",
        tdigest::value_to_add,
    );
    for read in [tdigest::value_to_add, |word: &[u8]| {
        tdigest::value(word, tdigest::error::BAD_CDF)
    }] {
        assert_eq!(read(b"5e-324"), Ok(5e-324));
    }
}

#[test]
fn quantiles_are_from_0_to_1() {
    word_is(
        "
0 => 0
-0 => -0
-0.0e5 => -0
.5 => 0.5
1 => 1
+1. => 1
1.0000000000000001 => 1
<no double> => ERR T-Digest: error parsing quantile
-5e-324 => ERR T-Digest: quantile should be in [0,1]
1.0000000000000002 => ERR T-Digest: quantile should be in [0,1]
-1 => ERR T-Digest: quantile should be in [0,1]
2 => ERR T-Digest: quantile should be in [0,1]
1e308 => ERR T-Digest: quantile should be in [0,1]
inf => ERR T-Digest: quantile should be in [0,1]
-infinity => ERR T-Digest: quantile should be in [0,1]",
        tdigest::quantile,
    );
    assert_eq!(tdigest::quantile(b"5e-324"), Ok(5e-324));
}

#[test]
fn ranks_are_whole() {
    word_is(
        "
0 => 0
7 => 7
9223372036854775807 => 9223372036854775807
<no integer> => ERR T-Digest: error parsing rank
-1 => ERR T-Digest: rank needs to be non negative",
        tdigest::rank,
    );
}

/// The other cut is out of range where one is not a number.
#[test]
fn cuts_are_parsed_before_their_ranges_are_checked() {
    const RANGE: &str = "low_cut_percentile and high_cut_percentile should be in [0,1]";
    const ORDER: &str = "low_cut_percentile should be lower than high_cut_percentile";
    let table = "
0 1 => (0.0, 1.0)
-0 5e-324 => (-0.0, 5e-324)
.1 +9e-1 => (0.1, 0.9)
<no double> 2 => ERR T-Digest: error parsing low_cut_percentile
2 <no double> => ERR T-Digest: error parsing high_cut_percentile
<no double> <no double> => ERR T-Digest: error parsing low_cut_percentile
-0.1 0.5 => ERR T-Digest: RANGE
0.5 1.1 => ERR T-Digest: RANGE
-inf inf => ERR T-Digest: RANGE
2 1 => ERR T-Digest: RANGE
0.5 -1 => ERR T-Digest: RANGE
0.5 0.5 => ERR T-Digest: ORDER
0.9 0.1 => ERR T-Digest: ORDER
-0 0 => ERR T-Digest: ORDER
1 1.0000000000000001 => ERR T-Digest: ORDER";
    are(
        &table.replace("RANGE", RANGE).replace("ORDER", ORDER),
        |cuts| {
            let words = [&[&b"TDIGEST.TRIMMED_MEAN"[..], b"k"], cuts].concat();
            tdigest::trim(&words[..]).map(|cuts| format!("{cuts:?}"))
        },
    );
}

/// RedisBloom finds the keyword in the last place, too, and parses it.
#[test]
fn create_takes_a_compression() {
    are(
        "
TDIGEST.CREATE k => None
TDIGEST.CREATE COMPRESSION => None
TDIGEST.CREATE k COMPRESSION 1 => Some(1)
tdigest.create k compression 100 => Some(100)
TDIGEST.CREATE k Compression 357913940 => Some(357913940)
TDIGEST.CREATE k COMPRESSION 9223372036854775807 => Some(9223372036854775807)
TDIGEST.CREATE k COMPRESSION <no integer> => ERR T-Digest: error parsing compression parameter
TDIGEST.CREATE k COMPRESSION 0 => ERR T-Digest: compression parameter needs to be a positive integer
TDIGEST.CREATE k COMPRESSION -1 => ERR T-Digest: compression parameter needs to be a positive integer",
        |words| tdigest::compression(words).map(|number| format!("{number:?}")),
    );
    for word in ["", "COMPRESSIO", "COMPRESSIONS", "100", "OVERRIDE"] {
        let table = format!(
            "
TDIGEST.CREATE k {word} 100 => ERR T-Digest: wrong keyword
TDIGEST.CREATE k {word} x => ERR T-Digest: wrong keyword
TDIGEST.CREATE k {word} 0 => ERR T-Digest: wrong keyword
TDIGEST.CREATE k {word} COMPRESSION => ERR T-Digest: error parsing compression parameter"
        );
        are(&table, |words| {
            tdigest::compression(words).map(|number| format!("{number:?}"))
        });
    }
}

/// Returns the places of the sources, and the options.
fn merge(words: &[&[u8]], grammar: Grammar) -> Result<String, Error> {
    let Merge {
        sources,
        compression,
        overrides,
    } = Merge::parse(words, grammar)?;
    let compression = compression.map_or(String::new(), |number| format!(" by {number}"));
    Ok(format!(
        "{sources:?}{compression}{}",
        if overrides { " anew" } else { "" }
    ))
}

#[test]
fn merge_takes_sources_and_options_in_any_order() {
    // The words of options are names of keys, too.
    for (sources, places) in [
        ("1 a", "3..4"),
        ("1 d", "3..4"),
        ("2 a a", "3..5"),
        ("3 OVERRIDE COMPRESSION 5", "3..6"),
    ] {
        let table = format!(
            "
TDIGEST.MERGE d {sources} => {places}
TDIGEST.MERGE d {sources} OVERRIDE => {places} anew
TDIGEST.MERGE d {sources} override => {places} anew
TDIGEST.MERGE d {sources} COMPRESSION 5 => {places} by 5
TDIGEST.MERGE d {sources} cOMPRESSION 9223372036854775807 => {places} by 9223372036854775807
TDIGEST.MERGE d {sources} COMPRESSION 5 OVERRIDE => {places} by 5 anew
TDIGEST.MERGE d {sources} Override Compression 5 => {places} by 5 anew"
        );
        are(&table, |words| merge(words, Grammar::Own));
    }
}

#[test]
fn redisbloom_s_grammar_ignores_words_of_merge() {
    are(
        "
TDIGEST.MERGE d 1 a OVERRIDE what => 3..4 anew
TDIGEST.MERGE d 1 a what 5 OVERRIDE OVERRIDE => 3..4 anew
TDIGEST.MERGE d 1 a COMPRESSION 5 compression 6 what => 3..4 by 5
TDIGEST.MERGE d 1 a COMPRESSION 5 COMPRESSION OVERRIDE => 3..4 by 5 anew",
        |words| merge(words, Grammar::RedisBloom),
    );
}

#[test]
fn merge_reports_the_first_error() {
    are(
        "
TDIGEST.MERGE d <no integer> a what => ERR T-Digest: error parsing numkeys
TDIGEST.MERGE d 0 a what => ERR T-Digest: numkeys needs to be a positive integer
TDIGEST.MERGE d -1 a what => ERR T-Digest: numkeys needs to be a positive integer
TDIGEST.MERGE d 2 a => ERR wrong number of arguments
TDIGEST.MERGE d 9223372036854775807 a => ERR wrong number of arguments
TDIGEST.MERGE d 1 a COMPRESSION => ERR wrong number of arguments
TDIGEST.MERGE d 1 a OVERRIDE COMPRESSION => ERR wrong number of arguments
TDIGEST.MERGE d 1 a b => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a  => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a 5 => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a OVERRIDES => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a OVERRIDE what => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a what OVERRIDE => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a what COMPRESSION => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a OVERRIDE OVERRIDE => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a COMPRESSION 5 compression 5 => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a COMPRESSION 5 OVERRIDE 6 => ERR T-Digest: wrong keyword
TDIGEST.MERGE d 1 a COMPRESSION OVERRIDE => ERR T-Digest: error parsing compression parameter",
        |words| merge(words, Grammar::Own),
    );
    for rest in ["", " OVERRIDE", " what"] {
        let table = format!(
            "
TDIGEST.MERGE d 1 a COMPRESSION <no integer>{rest} => ERR T-Digest: error parsing compression parameter
TDIGEST.MERGE d 1 a COMPRESSION 0{rest} => ERR T-Digest: compression parameter needs to be a positive integer
TDIGEST.MERGE d 1 a COMPRESSION -1{rest} => ERR T-Digest: compression parameter needs to be a positive integer"
        );
        are(&table, |words| merge(words, Grammar::Own));
    }
}
