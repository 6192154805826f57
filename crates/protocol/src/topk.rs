//! The words and errors of the commands for top-k lists.

use valkeybloom_sketches::topk::{DEPTH_MAX, Fault, INCREMENT_MAX, Shape};

use crate::error::Error;
use crate::numerals::{double, whole};
use crate::words::{CommandWords, Origin, require_count};

/// Requires the number of words of TOPK.RESERVE: the length of the list alone, or with width, depth and decay.
///
/// # Errors
/// [`Error::Arity`]
pub fn require_shape_words<W: CommandWords + ?Sized>(words: &W) -> Result<(), Error> {
    require_count([3, 6].contains(&words.count()))
}

/// Parses the shape of TOPK.RESERVE of an origin, whose number of words is [checked](require_shape_words).
///
/// # Errors
/// The error of the first argument that is wrong.
pub fn shape<W: CommandWords + ?Sized>(words: &W, origin: Origin) -> Result<Shape, Error> {
    // Each argument is checked before the next one is read.
    let number = |index: usize, default: u64, error: Error| -> Result<u64, Error> {
        if index >= words.count() {
            return Ok(default);
        }
        let number = whole::<u32>(words.word(index)).filter(|number| *number > 0);
        number.map(u64::from).ok_or(error)
    };
    let k = number(2, 0, error::BAD_K)?;
    let width = number(3, Shape::DEFAULT_WIDTH, error::BAD_WIDTH)?;
    let depth = number(4, Shape::DEFAULT_DEPTH, error::BAD_DEPTH)?;
    if origin == Origin::Client && depth > DEPTH_MAX {
        return Err(error::BAD_DEPTH);
    }
    let decay = if words.count() > 5 {
        double(words.word(5)).unwrap_or(f64::NAN)
    } else {
        Shape::DEFAULT_DECAY
    };
    Shape::new(k, width, depth, decay).map_err(|fault| match fault {
        Fault::K => error::BAD_K,
        Fault::Width => error::BAD_WIDTH,
        Fault::Depth => error::BAD_DEPTH,
        Fault::Decay => error::BAD_DECAY,
        Fault::Cells => error::NOT_CREATED,
    })
}

/// Requires that pairs of an item and an increment follow the command's name and the key.
///
/// # Errors
/// [`Error::Arity`]
pub fn require_pairs<W: CommandWords + ?Sized>(words: &W) -> Result<(), Error> {
    require_count(words.count() >= 4 && words.count().is_multiple_of(2))
}

/// Parses an increment.
///
/// # Errors
/// [`BAD_INCREMENT`](error::BAD_INCREMENT)
pub fn increment(word: &[u8]) -> Result<u32, Error> {
    let number = whole(word).filter(|number| *number <= INCREMENT_MAX);
    number.ok_or(error::BAD_INCREMENT)
}

/// Parses the options of TOPK.LIST, and returns whether the reply has counts.
///
/// # Errors
/// [`Error::Arity`] or [`BAD_LIST_OPTION`](error::BAD_LIST_OPTION).
pub fn lists_counts<W: CommandWords + ?Sized>(words: &W) -> Result<bool, Error> {
    match words.count() {
        2 => Ok(false),
        3 if words.word(2).eq_ignore_ascii_case(b"WITHCOUNT") => Ok(true),
        3 => Err(error::BAD_LIST_OPTION),
        _ => Err(Error::Arity),
    }
}

/// Why a command failed.
pub mod error {
    use valkeybloom_sketches::topk::Refusal;

    use crate::error::Error;

    /// TOPK.RESERVE was called for a key that exists.
    pub const EXISTS: Error = Error::Text("TopK: key already exists");
    /// The key does not exist.
    pub const NOT_FOUND: Error = Error::Text("TopK: key does not exist");
    /// The length of the list is not a number, or outside its range.
    pub const BAD_K: Error = Error::Text("TopK: invalid k");
    /// The width is not a number, or outside its range.
    pub const BAD_WIDTH: Error = Error::Text("TopK: invalid width");
    /// The depth is not a number, or outside its range.
    pub const BAD_DEPTH: Error = Error::Text("TopK: invalid depth");
    /// The decay is not a number, or outside its range.
    pub const BAD_DECAY: Error = Error::Text("TopK: invalid decay value. must be '<= 1' & '> 0'");
    /// There is no memory for a new list.
    pub const NOT_CREATED: Error =
        Error::Text("ERR Insufficient memory to create topk data structure");
    /// The text of [`BAD_INCREMENT`] without its run of blanks.
    pub const INCREMENT: &str =
        "TopK: increment must be an integer greater or equal to 0 and smaller or equal to 100,000";
    /// The increment is not a number, or outside its range. `RedisBloom`'s text has these blanks.
    pub const BAD_INCREMENT: Error = Error::Text(
        "TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000",
    );
    /// The word is not WITHCOUNT.
    pub const BAD_LIST_OPTION: Error = Error::Text("WITHCOUNT keyword expected");

    /// Returns the error of an item or a reply that there is no memory for.
    pub const fn refused(refusal: Refusal) -> Error {
        Error::Text(match refusal {
            Refusal::MemoryLimit => {
                "ERR TopK: insufficient memory: operation exceeds topk memory limit"
            }
            Refusal::OutOfMemory => "ERR TopK: insufficient memory",
        })
    }
}
