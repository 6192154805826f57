//! Why a command for top-k lists failed.

use std::fmt;

use valkeybloom_sketches::topk::Refusal;

/// The error of a command for top-k lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TopKError {
    /// TOPK.RESERVE was called for a key that exists.
    Exists,
    /// The key does not exist.
    NotFound,
    /// The length of the list is not a number, or outside its range.
    BadK,
    /// The width is not a number, or outside its range.
    BadWidth,
    /// The depth is not a number, or outside its range.
    BadDepth,
    /// The decay is not a number, or outside its range.
    BadDecay,
    /// There is no memory for a new list.
    NotCreated,
    /// The increment is not a number, or outside its range.
    BadIncrement,
    /// The word is not WITHCOUNT.
    BadListOption,
    /// There is no memory for an item or a reply.
    Refused(Refusal),
}

impl fmt::Display for TopKError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "ERR TopK: key already exists",
            Self::NotFound => "ERR TopK: key does not exist",
            Self::BadK => "ERR TopK: invalid k",
            Self::BadWidth => "ERR TopK: invalid width",
            Self::BadDepth => "ERR TopK: invalid depth",
            Self::BadDecay => "ERR TopK: invalid decay value. must be '<= 1' & '> 0'",
            Self::NotCreated => "ERR Insufficient memory to create topk data structure",
            // RedisBloom's text has these blanks.
            Self::BadIncrement => {
                "ERR TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000"
            }
            Self::BadListOption => "ERR WITHCOUNT keyword expected",
            Self::Refused(Refusal::MemoryLimit) => {
                "ERR TopK: insufficient memory: operation exceeds topk memory limit"
            }
            Self::Refused(Refusal::OutOfMemory) => "ERR TopK: insufficient memory",
        })
    }
}
