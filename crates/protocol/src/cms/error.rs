//! Why a command for count-min sketches failed.

use std::fmt;

use valkeybloom_sketches::cms::{MergeError, NotCounted, Refusal};

/// What `RedisBloom` 8.8 does not have: each the first part of an [`Error::NotMade`](crate::error::Error::NotMade).
pub mod lacking {
    /// Counters of another size.
    pub const CELL_SIZE: &str = "a CELL_SIZE other than 4";
    /// Subtraction.
    pub const NEGATIVE_INCREMENT: &str = "a negative increment";
    /// A source with the name of the option.
    pub const SOURCE: &str = "a source called WEIGHTS";
}

/// The error of a command for count-min sketches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmsError {
    /// The sketch to create exists, or its key holds something else.
    Exists,
    /// The key does not exist.
    NotFound,
    /// The width is not a positive integer.
    BadWidth,
    /// The depth is not an integer in its range.
    BadDepth,
    /// The error rate is not a number between 0 and 1.
    BadErrorRate,
    /// The probability is not a number between 0 and 1.
    BadProbability,
    /// The word is not an option.
    UnknownOption,
    /// The size of counters is not one of those that there are.
    BadCellSize,
    /// No sketch has this shape.
    BadShape,
    /// The sketch was not created.
    NotCreated(Refusal),
    /// The increment is not an integer.
    BadIncrement,
    /// The increment is the least integer, which has no opposite.
    LeastIncrement,
    /// The item was not counted.
    NotCounted(NotCounted),
    /// The number of sources is not an integer.
    BadSourceCount,
    /// The number of sources is below 1.
    NoSources,
    /// There are more or fewer sources than their number says.
    SourceCount,
    /// There are more or fewer sources or weights than the number of sources says.
    WeightCount,
    /// The weight is not an integer.
    BadWeight,
    /// The source and the destination differ in width or depth.
    UnlikeShape,
    /// The source and the destination differ in the size of counters.
    UnlikeCellSize,
    /// The sketches were not merged.
    NotMerged(MergeError),
    /// There is not enough memory for the command.
    OutOfMemory,
}

impl fmt::Display for CmsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "ERR CMS: key already exists",
            Self::NotFound => "ERR CMS: key does not exist",
            Self::BadWidth => "ERR CMS: invalid width",
            Self::BadDepth => "ERR CMS: invalid depth",
            Self::BadErrorRate => "ERR CMS: invalid overestimation value",
            Self::BadProbability => "ERR CMS: invalid prob value",
            Self::UnknownOption => "ERR CMS: unknown argument",
            Self::BadCellSize => "ERR CMS: CELL_SIZE must be 1, 2, 4 or 8",
            Self::BadShape => "ERR CMS: invalid init arguments",
            Self::NotCreated(Refusal::MemoryLimit) => {
                "ERR CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit"
            }
            Self::NotCreated(Refusal::OutOfMemory) => {
                "ERR CMS: Insufficient memory to create the key"
            }
            Self::BadIncrement => "ERR CMS: Cannot parse number",
            Self::LeastIncrement => "ERR CMS: invalid increment",
            Self::NotCounted(NotCounted::Overflow | NotCounted::Saturated) => {
                "ERR CMS: INCRBY overflow"
            }
            Self::NotCounted(NotCounted::Underflow) => "ERR CMS: INCRBY underflow",
            Self::BadSourceCount => "ERR CMS: invalid numkeys",
            Self::NoSources => "ERR CMS: Number of keys must be positive",
            Self::SourceCount => "ERR CMS: wrong number of keys",
            Self::WeightCount => "ERR CMS: wrong number of keys/weights",
            Self::BadWeight => "ERR CMS: invalid weight value",
            Self::UnlikeShape | Self::NotMerged(MergeError::Shape) => {
                "ERR CMS: width/depth is not equal"
            }
            Self::UnlikeCellSize => "ERR CMS: cell size is not equal",
            Self::NotMerged(MergeError::Overflow) => "ERR CMS: MERGE overflow",
            Self::NotMerged(MergeError::OutOfMemory) | Self::OutOfMemory => {
                "ERR CMS: Insufficient memory"
            }
        })
    }
}
