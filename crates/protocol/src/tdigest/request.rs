//! Parsers for the words of the TDIGEST commands.

use std::ops::Range;

use crate::error::Error;
use crate::numerals::{double, integer};
use crate::words::{CommandWords, Origin};

use super::error::TDigestError;

/// Parses a value to add, which is finite.
///
/// # Errors
/// [`TDigestError::BadAddition`] or [`TDigestError::InfiniteAddition`].
#[inline]
pub fn value_to_add(word: &[u8]) -> Result<f64, TDigestError> {
    let value = double(word).ok_or(TDigestError::BadAddition)?;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(TDigestError::InfiniteAddition)
    }
}

/// Parses a value, which may be infinite.
///
/// # Errors
/// `bad`, the command's error for a word that is not a number.
pub fn value(word: &[u8], bad: TDigestError) -> Result<f64, TDigestError> {
    double(word).ok_or(bad)
}

/// Parses a quantile from 0 to 1.
///
/// # Errors
/// [`TDigestError::BadQuantile`] or [`TDigestError::QuantileRange`].
pub fn quantile(word: &[u8]) -> Result<f64, TDigestError> {
    let quantile = double(word).ok_or(TDigestError::BadQuantile)?;
    if (0.0..=1.0).contains(&quantile) {
        Ok(quantile)
    } else {
        Err(TDigestError::QuantileRange)
    }
}

/// Parses a rank, counted from 0.
///
/// # Errors
/// [`TDigestError::BadRank`] or [`TDigestError::RankRange`].
pub fn rank(word: &[u8]) -> Result<u64, TDigestError> {
    let rank = integer(word).ok_or(TDigestError::BadRank)?;
    u64::try_from(rank).map_err(|_| TDigestError::RankRange)
}

/// Parses the quantiles of `TDIGEST.TRIMMED_MEAN`, the lower one first.
///
/// # Errors
/// The error of the first argument that is wrong.
pub fn trim<W: CommandWords + ?Sized>(words: &W) -> Result<(f64, f64), TDigestError> {
    let low = double(words.word(2)).ok_or(TDigestError::BadLowCut)?;
    let high = double(words.word(3)).ok_or(TDigestError::BadHighCut)?;
    let range = 0.0..=1.0;
    if !range.contains(&low) || !range.contains(&high) {
        Err(TDigestError::CutRange)
    } else if low >= high {
        Err(TDigestError::CutOrder)
    } else {
        Ok((low, high))
    }
}

fn positive(word: &[u8]) -> Result<u64, TDigestError> {
    let number = integer(word).ok_or(TDigestError::BadCompression)?;
    let number = u64::try_from(number).ok().filter(|number| *number > 0);
    number.ok_or(TDigestError::CompressionRange)
}

/// Parses the compression of TDIGEST.CREATE, if it is given. It may be too large for a digest.
///
/// # Errors
/// The error of the first argument that is wrong.
pub fn compression<W: CommandWords + ?Sized>(words: &W) -> Result<Option<u64>, TDigestError> {
    if words.count() < 4 {
        return Ok(None);
    }
    if !words.word(2).eq_ignore_ascii_case(b"COMPRESSION") {
        return Err(TDigestError::BadOption);
    }
    positive(words.word(3)).map(Some)
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
    /// Parses the words after the destination. `RedisBloom` ignores unknown and repeated options, and replicates them.
    ///
    /// # Errors
    /// The error of the first argument that is wrong.
    pub fn parse<W: CommandWords + ?Sized>(words: &W, origin: Origin) -> Result<Self, Error> {
        const FIRST: usize = 3;
        let count = integer(words.word(2)).ok_or(TDigestError::BadSources)?;
        let count = u64::try_from(count).ok().filter(|count| *count > 0);
        let count = count.ok_or(TDigestError::SourcesRange)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > words.count() - FIRST {
            return Err(Error::Arity);
        }
        let mut merge = Self {
            sources: FIRST..FIRST + count,
            compression: None,
            overrides: false,
        };
        let mut next = merge.sources.end;
        while next < words.count() {
            let option = words.word(next);
            next += 1;
            if option.eq_ignore_ascii_case(b"OVERRIDE") && !merge.overrides {
                merge.overrides = true;
            } else if option.eq_ignore_ascii_case(b"COMPRESSION") && merge.compression.is_none() {
                if next == words.count() {
                    return Err(Error::Arity);
                }
                merge.compression = Some(positive(words.word(next))?);
                next += 1;
            } else if origin == Origin::Client {
                return Err(TDigestError::BadOption.into());
            }
        }
        Ok(merge)
    }
}
