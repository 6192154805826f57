//! Parsers for the words of the TOPK commands.

use valkeybloom_sketches::topk::{DEPTH_MAX, Fault, INCREMENT_MAX, Shape};

use crate::error::Error;
use crate::numerals::{double, integer};
use crate::words::{CommandWords, Origin};

use super::error::TopKError;

/// Requires the number of words of TOPK.RESERVE: the length of the list alone, or with width, depth and decay.
///
/// # Errors
/// [`Error::Arity`]
pub fn require_shape_words<W: CommandWords + ?Sized>(words: &W) -> Result<(), Error> {
    if [3, 6].contains(&words.count()) {
        Ok(())
    } else {
        Err(Error::Arity)
    }
}

/// Parses the shape of TOPK.RESERVE of an origin, whose number of words is [checked](require_shape_words).
///
/// # Errors
/// The error of the first argument that is wrong.
pub fn shape<W: CommandWords + ?Sized>(words: &W, origin: Origin) -> Result<Shape, TopKError> {
    // Each argument is checked before the next one is read.
    let number = |index: usize, default: u64, error: TopKError| -> Result<u64, TopKError> {
        if index >= words.count() {
            return Ok(default);
        }
        let number = integer(words.word(index)).and_then(|number| u64::try_from(number).ok());
        let in_range = number.filter(|number| (1..=u64::from(u32::MAX)).contains(number));
        in_range.ok_or(error)
    };
    let k = number(2, 0, TopKError::BadK)?;
    let width = number(3, Shape::DEFAULT_WIDTH, TopKError::BadWidth)?;
    let depth = number(4, Shape::DEFAULT_DEPTH, TopKError::BadDepth)?;
    if origin == Origin::Client && depth > DEPTH_MAX {
        return Err(TopKError::BadDepth);
    }
    let decay = if words.count() > 5 {
        double(words.word(5)).unwrap_or(f64::NAN)
    } else {
        Shape::DEFAULT_DECAY
    };
    Shape::new(k, width, depth, decay).map_err(|fault| match fault {
        Fault::K => TopKError::BadK,
        Fault::Width => TopKError::BadWidth,
        Fault::Depth => TopKError::BadDepth,
        Fault::Decay => TopKError::BadDecay,
        Fault::Cells => TopKError::NotCreated,
    })
}

/// Requires that pairs of an item and an increment follow the command's name and the key.
///
/// # Errors
/// [`Error::Arity`]
pub fn require_pairs<W: CommandWords + ?Sized>(words: &W) -> Result<(), Error> {
    if words.count() >= 4 && words.count().is_multiple_of(2) {
        Ok(())
    } else {
        Err(Error::Arity)
    }
}

/// Parses an increment.
///
/// # Errors
/// [`TopKError::BadIncrement`]
pub fn increment(word: &[u8]) -> Result<u32, TopKError> {
    let number = integer(word).and_then(|number| u32::try_from(number).ok());
    let in_range = number.filter(|number| *number <= INCREMENT_MAX);
    in_range.ok_or(TopKError::BadIncrement)
}

/// Parses the options of TOPK.LIST, and returns whether the reply has counts.
///
/// # Errors
/// [`Error::Arity`] or [`TopKError::BadListOption`].
pub fn lists_counts<W: CommandWords + ?Sized>(words: &W) -> Result<bool, Error> {
    match words.count() {
        2 => Ok(false),
        3 if words.word(2).eq_ignore_ascii_case(b"WITHCOUNT") => Ok(true),
        3 => Err(TopKError::BadListOption.into()),
        _ => Err(Error::Arity),
    }
}
