//! The words and errors of the commands for count-min sketches.

use std::ops::Range;

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{CellSize, DEPTH_MAX, Shape};

use crate::error::Error;
use crate::numerals::{double, integer, whole};
use crate::words::{self, CommandWords, Origin};

/// Requires that CMS.INITBYDIM or CMS.INITBYPROB has as many words as it has with or without its option.
///
/// # Errors
/// [`Error::Arity`]
pub fn require_count<W: CommandWords + ?Sized>(words: &W) -> Result<(), Error> {
    words::require_count([4, 6].contains(&words.count()))
}

/// Parses CMS.INITBYDIM, whose number of words [is right](require_count).
///
/// # Errors
/// The error of the first argument that is wrong, in the order in which `RedisBloom` checks them.
pub fn shape_by_size<W: CommandWords + ?Sized>(words: &W, origin: Origin) -> Result<Shape, Error> {
    let width = whole(words.word(2)).filter(|width| *width > 0);
    let width = width.ok_or(error::BAD_WIDTH)?;
    let most = match origin {
        Origin::Client => DEPTH_MAX,
        Origin::Elsewhere => u64::MAX,
    };
    let depth = whole(words.word(3)).filter(|depth| (1..=most).contains(depth));
    let depth = depth.ok_or(error::BAD_DEPTH)?;
    Shape::new(width, depth, cell_size(words)?).ok_or(error::BAD_SHAPE)
}

/// Parses CMS.INITBYPROB, whose number of words [is right](require_count).
///
/// # Errors
/// The error of the first argument that is wrong, in the order in which `RedisBloom` checks them.
pub fn shape_by_rates<W: CommandWords + ?Sized>(words: &W) -> Result<Shape, Error> {
    let fraction = |index| double(words.word(index)).and_then(Fraction::new);
    let error_rate = fraction(2).ok_or(error::BAD_ERROR_RATE)?;
    let probability = fraction(3).ok_or(error::BAD_PROBABILITY)?;
    let shape = Shape::for_rates(error_rate, probability, cell_size(words)?);
    shape.ok_or(error::BAD_SHAPE)
}

/// Parses `CELL_SIZE bytes`, the last two words of six.
fn cell_size<W: CommandWords + ?Sized>(words: &W) -> Result<CellSize, Error> {
    if words.count() < 6 {
        return Ok(CellSize::default());
    }
    if !words.word(4).eq_ignore_ascii_case(b"CELL_SIZE") {
        return Err(error::UNKNOWN_OPTION);
    }
    let size = whole(words.word(5)).and_then(CellSize::of_bytes);
    size.ok_or(error::BAD_CELL_SIZE)
}

/// Parses an increment of CMS.INCRBY, which may be negative unless `RedisBloom` 8.8 is followed.
///
/// # Errors
/// [`BAD_INCREMENT`](error::BAD_INCREMENT), [`LEAST_INCREMENT`](error::LEAST_INCREMENT) or
/// [`NEGATIVE_INCREMENT`](error::NEGATIVE_INCREMENT).
#[inline]
pub fn increment(word: &[u8], is_redisbloom: impl FnOnce() -> bool) -> Result<i64, Error> {
    match integer(word) {
        None => Err(error::BAD_INCREMENT),
        Some(number) if number < 0 && is_redisbloom() => Err(error::NEGATIVE_INCREMENT),
        Some(i64::MIN) => Err(error::LEAST_INCREMENT),
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
    /// Whether a keyword and a weight for each source follow.
    pub has_weights: bool,
}

impl Merge {
    /// Finds the sources and weights of a command with at least four words. A source may have the keyword's name: the
    /// keyword is only looked for after the last source.
    ///
    /// # Errors
    /// The error of the first argument that is wrong.
    pub fn parse<W: CommandWords + ?Sized>(words: &W) -> Result<Self, Error> {
        const FIRST: usize = 3;
        let number = integer(words.word(FIRST - 1)).ok_or(error::BAD_SOURCE_COUNT)?;
        if number < 1 {
            return Err(error::NO_SOURCES);
        }
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let rest = words.count() - FIRST;
        let is_keyword = |place: usize| words.word(FIRST + place).eq_ignore_ascii_case(KEYWORD);
        let has_weights = number < rest && is_keyword(number) && rest == 2 * number + 1;
        if has_weights || number == rest {
            return Ok(Self {
                sources: FIRST..FIRST + number,
                has_weights,
            });
        }
        Err(if (0..rest).any(is_keyword) {
            error::WEIGHT_COUNT
        } else {
            error::SOURCE_COUNT
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
    /// [`BAD_WEIGHT`](error::BAD_WEIGHT)
    pub fn weight<W: CommandWords + ?Sized>(&self, words: &W, source: usize) -> Result<i64, Error> {
        if !self.has_weights {
            return Ok(1);
        }
        let weight = integer(words.word(source + self.sources.len() + 1));
        weight.ok_or(error::BAD_WEIGHT)
    }
}

/// Why a command failed.
pub mod error {
    use valkeybloom_sketches::cms::{MergeError, NotCounted, Refusal};

    use crate::error::Error;

    /// What `RedisBloom` 8.8 does not have, in an [`Error::NotMade`]: counters of another size.
    pub const OTHER_CELL_SIZE: &str = "a CELL_SIZE other than 4";

    /// The sketch to create exists, or its key holds something else.
    pub const EXISTS: Error = Error::Text("CMS: key already exists");
    /// The key does not exist.
    pub const NOT_FOUND: Error = Error::Text("CMS: key does not exist");
    /// The width is not a positive integer.
    pub const BAD_WIDTH: Error = Error::Text("CMS: invalid width");
    /// The depth is not an integer in its range.
    pub const BAD_DEPTH: Error = Error::Text("CMS: invalid depth");
    /// The error rate is not a number between 0 and 1.
    pub const BAD_ERROR_RATE: Error = Error::Text("CMS: invalid overestimation value");
    /// The probability is not a number between 0 and 1.
    pub const BAD_PROBABILITY: Error = Error::Text("CMS: invalid prob value");
    /// The word is not an option.
    pub const UNKNOWN_OPTION: Error = Error::Text("CMS: unknown argument");
    /// The size of counters is not one of those that there are.
    pub const BAD_CELL_SIZE: Error = Error::Text("CMS: CELL_SIZE must be 1, 2, 4 or 8");
    /// No sketch has this shape.
    pub const BAD_SHAPE: Error = Error::Text("CMS: invalid init arguments");
    /// The increment is not an integer.
    pub const BAD_INCREMENT: Error = Error::Text("CMS: Cannot parse number");
    /// The increment is negative, and `RedisBloom` 8.8 is followed.
    pub const NEGATIVE_INCREMENT: Error = Error::Text("CMS: Number cannot be negative");
    /// The increment is the least integer, which has no opposite.
    pub const LEAST_INCREMENT: Error = Error::Text("CMS: invalid increment");
    /// The number of sources is not an integer.
    pub const BAD_SOURCE_COUNT: Error = Error::Text("CMS: invalid numkeys");
    /// The number of sources is below 1.
    pub const NO_SOURCES: Error = Error::Text("CMS: Number of keys must be positive");
    /// There are more or fewer sources than their number says.
    pub const SOURCE_COUNT: Error = Error::Text("CMS: wrong number of keys");
    /// There are more or fewer sources or weights than the number of sources says.
    pub const WEIGHT_COUNT: Error = Error::Text("CMS: wrong number of keys/weights");
    /// The weight is not an integer.
    pub const BAD_WEIGHT: Error = Error::Text("CMS: invalid weight value");
    /// The source and the destination differ in width or depth.
    pub const UNLIKE_SHAPE: Error = Error::Text("CMS: width/depth is not equal");
    /// The source and the destination differ in the size of counters.
    pub const UNLIKE_CELL_SIZE: Error = Error::Text("CMS: cell size is not equal");
    /// There is not enough memory for the command.
    pub const OUT_OF_MEMORY: Error = Error::Text("CMS: Insufficient memory");

    /// Returns the error of a sketch that was not created.
    pub const fn not_created(refusal: Refusal) -> Error {
        Error::Text(match refusal {
            Refusal::MemoryLimit => {
                "CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit"
            }
            Refusal::OutOfMemory => "CMS: Insufficient memory to create the key",
        })
    }

    /// Returns the error of an item that was not counted.
    pub const fn not_counted(why: NotCounted) -> Error {
        Error::Text(match why {
            NotCounted::Overflow | NotCounted::Saturated => "CMS: INCRBY overflow",
            NotCounted::Underflow => "CMS: INCRBY underflow",
        })
    }

    /// Returns the error of sketches that were not merged.
    pub const fn not_merged(error: MergeError) -> Error {
        match error {
            MergeError::Shape => UNLIKE_SHAPE,
            MergeError::Overflow => Error::Text("CMS: MERGE overflow"),
            MergeError::OutOfMemory => OUT_OF_MEMORY,
        }
    }
}
