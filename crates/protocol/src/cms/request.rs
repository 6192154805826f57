//! Parsers for the CMS commands.

use std::ops::Range;

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{CellSize, DEPTH_MAX, Shape};

use crate::error::Error;
use crate::numerals::{double, integer};
use crate::words::{CommandWords, Origin};

use super::error::CmsError;

/// Requires that CMS.INITBYDIM or CMS.INITBYPROB has as many words as it has with or without its option.
///
/// # Errors
/// [`Error::Arity`]
pub fn require_count<W: CommandWords + ?Sized>(words: &W) -> Result<(), Error> {
    match words.count() {
        4 | 6 => Ok(()),
        _ => Err(Error::Arity),
    }
}

/// Parses CMS.INITBYDIM, whose number of words [is right](require_count).
///
/// # Errors
/// The error of the first argument that is wrong, in the order in which `RedisBloom` checks them.
pub fn shape_by_size<W: CommandWords + ?Sized>(
    words: &W,
    origin: Origin,
) -> Result<Shape, CmsError> {
    let width = natural(words.word(2)).filter(|width| *width > 0);
    let width = width.ok_or(CmsError::BadWidth)?;
    let most = match origin {
        Origin::Client => DEPTH_MAX,
        Origin::Elsewhere => u64::MAX,
    };
    let depth = natural(words.word(3)).filter(|depth| (1..=most).contains(depth));
    let depth = depth.ok_or(CmsError::BadDepth)?;
    Shape::new(width, depth, cell_size(words)?).ok_or(CmsError::BadShape)
}

/// Parses CMS.INITBYPROB, whose number of words [is right](require_count).
///
/// # Errors
/// The error of the first argument that is wrong, in the order in which `RedisBloom` checks them.
pub fn shape_by_rates<W: CommandWords + ?Sized>(words: &W) -> Result<Shape, CmsError> {
    let fraction = |index| double(words.word(index)).and_then(Fraction::new);
    let error_rate = fraction(2).ok_or(CmsError::BadErrorRate)?;
    let probability = fraction(3).ok_or(CmsError::BadProbability)?;
    let shape = Shape::for_rates(error_rate, probability, cell_size(words)?);
    shape.ok_or(CmsError::BadShape)
}

/// Parses `CELL_SIZE bytes`, the last two words of six.
fn cell_size<W: CommandWords + ?Sized>(words: &W) -> Result<CellSize, CmsError> {
    if words.count() < 6 {
        return Ok(CellSize::default());
    }
    if !words.word(4).eq_ignore_ascii_case(b"CELL_SIZE") {
        return Err(CmsError::UnknownOption);
    }
    let size = natural(words.word(5)).and_then(CellSize::of_bytes);
    size.ok_or(CmsError::BadCellSize)
}

fn natural(word: &[u8]) -> Option<u64> {
    integer(word).and_then(|number| u64::try_from(number).ok())
}

/// Parses an increment of CMS.INCRBY, which may be negative.
///
/// # Errors
/// [`CmsError::BadIncrement`] or [`CmsError::LeastIncrement`]
#[inline]
pub fn increment(word: &[u8]) -> Result<i64, CmsError> {
    match integer(word) {
        None => Err(CmsError::BadIncrement),
        Some(i64::MIN) => Err(CmsError::LeastIncrement),
        Some(number) => Ok(number),
    }
}

/// The keyword of CMS.MERGE.
const KEYWORD: &[u8] = b"WEIGHTS";

/// The words of CMS.MERGE after the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The indices of the sources among the words.
    pub sources: Range<usize>,
    /// Whether as many weights follow the sources, after a keyword.
    pub has_weights: bool,
}

impl Merge {
    /// Finds the sources and weights of a command with at least four words. A source may have the keyword's name: the
    /// keyword is only looked for after the last source.
    ///
    /// # Errors
    /// The error of the first argument that is wrong.
    pub fn parse<W: CommandWords + ?Sized>(words: &W) -> Result<Self, CmsError> {
        const FIRST: usize = 3;
        let number = integer(words.word(FIRST - 1)).ok_or(CmsError::BadSourceCount)?;
        if number < 1 {
            return Err(CmsError::NoSources);
        }
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let rest = words.count() - FIRST;
        let is_keyword = |place: usize| words.word(FIRST + place).eq_ignore_ascii_case(KEYWORD);
        if number == rest || rest > number && is_keyword(number) && rest - number == number + 1 {
            return Ok(Self {
                sources: FIRST..FIRST + number,
                has_weights: number < rest,
            });
        }
        Err(if (0..rest).any(is_keyword) {
            CmsError::WeightCount
        } else {
            CmsError::SourceCount
        })
    }

    /// Returns whether a source has the keyword's name, which `RedisBloom` takes for the keyword.
    pub fn has_source_like_keyword<W: CommandWords + ?Sized>(&self, words: &W) -> bool {
        let mut sources = self.sources.clone();
        sources.any(|source| words.word(source).eq_ignore_ascii_case(KEYWORD))
    }

    /// Returns the weight of the source at an index among the words.
    ///
    /// # Errors
    /// [`CmsError::BadWeight`]
    pub fn weight<W: CommandWords + ?Sized>(
        &self,
        words: &W,
        source: usize,
    ) -> Result<i64, CmsError> {
        if !self.has_weights {
            return Ok(1);
        }
        let weight = integer(words.word(source + self.sources.len() + 1));
        weight.ok_or(CmsError::BadWeight)
    }
}
