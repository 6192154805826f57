//! The words and errors of the commands for t-digests.

use std::ops::Range;

use crate::error::Error;
use crate::numerals::{double, integer};
use crate::words::{CommandWords, Grammar, require_count};

/// Parses a value to add, which is finite.
///
/// # Errors
/// [`BAD_ADDITION`](error::BAD_ADDITION) or [`INFINITE_ADDITION`](error::INFINITE_ADDITION).
#[inline]
pub fn value_to_add(word: &[u8]) -> Result<f64, Error> {
    let value = Some(double(word).ok_or(error::BAD_ADDITION)?);
    let finite = value.filter(|value| value.is_finite());
    finite.ok_or(error::INFINITE_ADDITION)
}

/// Parses a value, which may be infinite.
///
/// # Errors
/// `bad`, the command's error for a word that is not a number.
pub fn value(word: &[u8], bad: Error) -> Result<f64, Error> {
    double(word).ok_or(bad)
}

/// Parses a quantile from 0 to 1.
///
/// # Errors
/// [`BAD_QUANTILE`](error::BAD_QUANTILE) or [`QUANTILE_RANGE`](error::QUANTILE_RANGE).
pub fn quantile(word: &[u8]) -> Result<f64, Error> {
    quantile_in_range(double(word).ok_or(error::BAD_QUANTILE)?)
}

/// Requires that a quantile is from 0 to 1. NaN is refused like a word that is not a number.
///
/// # Errors
/// [`BAD_QUANTILE`](error::BAD_QUANTILE) or [`QUANTILE_RANGE`](error::QUANTILE_RANGE).
pub const fn quantile_in_range(quantile: f64) -> Result<f64, Error> {
    match quantile {
        0.0..=1.0 => Ok(quantile),
        _ if quantile.is_nan() => Err(error::BAD_QUANTILE),
        _ => Err(error::QUANTILE_RANGE),
    }
}

/// Parses a rank, counted from 0.
///
/// # Errors
/// [`BAD_RANK`](error::BAD_RANK) or [`RANK_RANGE`](error::RANK_RANGE).
pub fn rank(word: &[u8]) -> Result<u64, Error> {
    let rank = integer(word).ok_or(error::BAD_RANK)?;
    u64::try_from(rank).map_err(|_| error::RANK_RANGE)
}

/// Parses the quantiles of `TDIGEST.TRIMMED_MEAN`, the lower one first.
///
/// # Errors
/// The error of the first argument that is wrong.
pub fn trim<W: CommandWords + ?Sized>(words: &W) -> Result<(f64, f64), Error> {
    let low = double(words.word(2)).ok_or(error::BAD_LOW_CUT)?;
    let high = double(words.word(3)).ok_or(error::BAD_HIGH_CUT)?;
    cuts_in_order(low, high)
}

/// Requires that the quantiles of `TDIGEST.TRIMMED_MEAN` are from 0 to 1, the lower one first. NaN is refused like a word
/// that is not a number.
///
/// # Errors
/// The error of the first argument that is wrong.
pub fn cuts_in_order(low: f64, high: f64) -> Result<(f64, f64), Error> {
    let range = 0.0..=1.0;
    if low.is_nan() {
        Err(error::BAD_LOW_CUT)
    } else if high.is_nan() {
        Err(error::BAD_HIGH_CUT)
    } else if !range.contains(&low) || !range.contains(&high) {
        Err(error::CUT_RANGE)
    } else if low >= high {
        Err(error::CUT_ORDER)
    } else {
        Ok((low, high))
    }
}

/// Parses a number above 0, with the errors of another word and of another number.
fn positive(word: &[u8], bad: Error, range: Error) -> Result<u64, Error> {
    let number = u64::try_from(integer(word).ok_or(bad)?).unwrap_or(0);
    (number > 0).then_some(number).ok_or(range)
}

/// Parses a compression. It may be too large for a digest.
///
/// # Errors
/// [`BAD_COMPRESSION`](error::BAD_COMPRESSION) or [`COMPRESSION_RANGE`](error::COMPRESSION_RANGE).
pub fn compression_of(word: &[u8]) -> Result<u64, Error> {
    positive(word, error::BAD_COMPRESSION, error::COMPRESSION_RANGE)
}

/// Parses the compression of TDIGEST.CREATE, if it is given. It may be too large for a digest.
///
/// # Errors
/// The error of the first argument that is wrong.
pub fn compression<W: CommandWords + ?Sized>(words: &W) -> Result<Option<u64>, Error> {
    if words.count() < 4 {
        return Ok(None);
    }
    // RedisBloom accepts the keyword in either place, and always parses the last word.
    if !(2..4).any(|place| words.word(place).eq_ignore_ascii_case(b"COMPRESSION")) {
        return Err(error::BAD_OPTION);
    }
    compression_of(words.word(3)).map(Some)
}

/// TDIGEST.MERGE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The indices of the sources among the words.
    pub sources: Range<usize>,
    /// The compression, if it is given. It may be too large for a digest.
    pub compression: Option<u64>,
    /// Whether the destination's observations are dropped.
    pub overrides: bool,
}

impl Merge {
    /// Parses the words after the destination. `RedisBloom` ignores unknown and repeated options if it knows any of them.
    ///
    /// # Errors
    /// The error of the first argument that is wrong.
    pub fn parse<W: CommandWords + ?Sized>(words: &W, grammar: Grammar) -> Result<Self, Error> {
        const FIRST: usize = 3;
        let count = positive(words.word(2), error::BAD_SOURCES, error::SOURCES_RANGE)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        require_count(count <= words.count() - FIRST)?;
        let mut merge = Self {
            sources: FIRST..FIRST + count,
            compression: None,
            overrides: false,
        };
        let rest = merge.sources.end..words.count();
        let is = |place: usize, option: &[u8]| words.word(place).eq_ignore_ascii_case(option);
        let mut places = rest.clone();
        while let Some(place) = places.next() {
            if is(place, b"OVERRIDE") && !merge.overrides {
                merge.overrides = true;
            } else if is(place, b"COMPRESSION") && merge.compression.is_none() {
                let value = place + 1;
                require_count(value < rest.end)?;
                merge.compression = Some(compression_of(words.word(value))?);
                places.start = value + 1;
            } else if grammar == Grammar::Own {
                return Err(error::BAD_OPTION);
            }
        }
        if !rest.is_empty() && !merge.overrides && merge.compression.is_none() {
            return Err(error::BAD_OPTION);
        }
        Ok(merge)
    }
}

/// Why a command failed.
pub mod error {
    use crate::error::Error;

    /// The key does not exist.
    pub const NOT_FOUND: Error = Error::Text("ERR T-Digest: key does not exist");
    /// TDIGEST.CREATE was called for a digest that exists.
    pub const EXISTS: Error = Error::Text("ERR T-Digest: key already exists");
    /// The word is not an option, or repeats one.
    pub const BAD_OPTION: Error = Error::Text("ERR T-Digest: wrong keyword");
    /// The compression is not a number.
    pub const BAD_COMPRESSION: Error =
        Error::Text("ERR T-Digest: error parsing compression parameter");
    /// The compression is 0 or negative.
    pub const COMPRESSION_RANGE: Error =
        Error::Text("ERR T-Digest: compression parameter needs to be a positive integer");
    /// There is no memory for a digest, or the memory limits don't allow it.
    pub const NOT_ALLOCATED: Error = Error::Text("ERR T-Digest: allocation failed");
    /// There is no memory for the digest that TDIGEST.MERGE makes, or the memory limits don't allow it.
    pub const DESTINATION_NOT_ALLOCATED: Error =
        Error::Text("ERR T-Digest: allocation of destination digest failed");
    /// The number of sources is not a number.
    pub const BAD_SOURCES: Error = Error::Text("ERR T-Digest: error parsing numkeys");
    /// The number of sources is 0 or negative.
    pub const SOURCES_RANGE: Error =
        Error::Text("ERR T-Digest: numkeys needs to be a positive integer");
    /// The value to add is not a number.
    pub const BAD_ADDITION: Error = Error::Text("ERR T-Digest: error parsing val parameter");
    /// The value to add is infinite.
    pub const INFINITE_ADDITION: Error =
        Error::Text("ERR T-Digest: val parameter needs to be a finite number");
    /// There would be more than 2⁶³ − 1 observations.
    pub const OVERFLOW: Error = Error::Text("ERR T-Digest: overflow detected");
    /// The quantile is not a number.
    pub const BAD_QUANTILE: Error = Error::Text("ERR T-Digest: error parsing quantile");
    /// The quantile is not from 0 to 1.
    pub const QUANTILE_RANGE: Error = Error::Text("ERR T-Digest: quantile should be in [0,1]");
    /// The value of TDIGEST.CDF is not a number.
    pub const BAD_CDF: Error = Error::Text("ERR T-Digest: error parsing cdf");
    /// The value of TDIGEST.RANK or TDIGEST.REVRANK is not a number.
    pub const BAD_VALUE: Error = Error::Text("ERR T-Digest: error parsing value");
    /// The rank is not a number.
    pub const BAD_RANK: Error = Error::Text("ERR T-Digest: error parsing rank");
    /// The rank is negative.
    pub const RANK_RANGE: Error = Error::Text("ERR T-Digest: rank needs to be non negative");
    /// The lower cut of `TDIGEST.TRIMMED_MEAN` is not a number.
    pub const BAD_LOW_CUT: Error = Error::Text("ERR T-Digest: error parsing low_cut_percentile");
    /// The upper cut of `TDIGEST.TRIMMED_MEAN` is not a number.
    pub const BAD_HIGH_CUT: Error = Error::Text("ERR T-Digest: error parsing high_cut_percentile");
    /// A cut is not from 0 to 1.
    pub const CUT_RANGE: Error =
        Error::Text("ERR T-Digest: low_cut_percentile and high_cut_percentile should be in [0,1]");
    /// The lower cut is not below the upper cut.
    pub const CUT_ORDER: Error =
        Error::Text("ERR T-Digest: low_cut_percentile should be lower than high_cut_percentile");
}
