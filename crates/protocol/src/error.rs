//! The errors of commands, and the texts that clients read.

use std::fmt;

use valkeybloom_sketches::bloom::{MergeError, Refusal};

/// The argument that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// The requested rate of false positives.
    ErrorRate,
    /// The capacity in items.
    Capacity,
    /// The growth factor from one filter to the next.
    Expansion,
    /// The ratio of successive filters' error rates.
    Tightening,
    /// The cursor of a chunk.
    Cursor,
    /// A time to live.
    Ttl,
    /// The length of a period.
    Window,
    /// The number of periods.
    Periods,
    /// An item's id.
    Id,
}

/// The error of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Too few arguments, or too many.
    Arity,
    /// The key holds a value of the wrong type.
    WrongType,
    /// The key does not exist.
    NotFound,
    /// BF.RESERVE or CF.RESERVE was called for a key that exists.
    Exists,
    /// BF.LOAD or the first BF.LOADCHUNK was called for a key that exists.
    Busy,
    /// The key is being saved without a fork, and can't be opened for writing.
    Saving,
    /// The word is not a number, or the number does not fit.
    Bad(Field),
    /// The number is outside its range.
    Range(Field),
    /// The seed is not 32 bytes long.
    Seed,
    /// The word is not an option.
    UnknownOption,
    /// BF.INFO has no such field, or the object does not have it.
    UnknownField,
    /// WINDOW was given without PERIODS, or PERIODS without WINDOW.
    HalfWindow,
    /// WINDOW was given with COUNTING.
    CountingWindow,
    /// EX was given with PX.
    TwoTtls,
    /// The command needs a window, and the object has none.
    NoWindow,
    /// The command needs counters, and the object has none.
    NoCounters,
    /// The time to live is longer than the window.
    LongTtl,
    /// The objects can't be merged.
    Unlike(MergeError),
    /// EXPANSION was given with NONSCALING.
    FixedExpansion,
    /// NOCREATE was given with a parameter of a new object.
    NoCreate,
    /// VALIDATESCALETO was given with NONSCALING.
    FixedScaleTo,
    /// VALIDATESCALETO exceeds the capacity that the memory limit allows.
    ScaleToMemory,
    /// VALIDATESCALETO exceeds the capacity at which error rates become too small.
    ScaleToRate,
    /// There is no room for an item or an object.
    Refused(Refusal),
    /// The bytes do not decode to an object.
    Undecodable,
    /// The bytes have a newer format.
    UnsupportedVersion,
    /// The chunk does not fit the object.
    BadChunk,
    /// The object lacks some of its chunks.
    StillLoading,
    /// A command of another family failed, with this text.
    Text(&'static str),
    /// `bf.bloom-new-filters` names this maker, whose filters can't have this property.
    NotMade(&'static str, &'static str),
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ErrorRate => "error rate",
            Self::Capacity => "capacity",
            Self::Expansion => "expansion",
            Self::Tightening => "tightening ratio",
            Self::Cursor => "cursor",
            Self::Ttl => "ttl",
            Self::Window => "window",
            Self::Periods => "periods",
            Self::Id => "id",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Arity => "ERR wrong number of arguments",
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::NotFound => "ERR not found",
            Self::Exists => "ERR item exists",
            Self::Busy => "BUSYKEY Target key name already exists.",
            Self::Saving => "TRYAGAIN key is being saved, try again",
            Self::Bad(field) => return write!(f, "ERR bad {field}"),
            Self::Range(field @ (Field::ErrorRate | Field::Tightening)) => {
                return write!(f, "ERR (0 < {field} range < 1)");
            }
            Self::Range(field) => return write!(f, "ERR ({field} should be larger than 0)"),
            Self::HalfWindow => "ERR WINDOW and PERIODS have to be given together",
            Self::CountingWindow => "ERR WINDOW and COUNTING cannot be combined",
            Self::TwoTtls => "ERR EX and PX cannot be combined",
            Self::NoWindow => "ERR filter was not made with WINDOW",
            Self::NoCounters => "ERR filter was not made with COUNTING",
            Self::LongTtl => "ERR ttl is longer than the window",
            Self::Unlike(MergeError::Seeds) => "ERR filters have different seeds",
            Self::Unlike(MergeError::Kinds) => "ERR filters are of different kinds",
            Self::Unlike(MergeError::Rates) => "ERR error rates of the filters add up to 1 or more",
            Self::Unlike(MergeError::Refused(refusal)) => return Self::Refused(refusal).fmt(f),
            Self::Seed => "ERR invalid seed",
            Self::UnknownOption => "ERR unknown argument received",
            Self::UnknownField => "ERR invalid information value",
            Self::FixedExpansion => "ERR nonscaling filters cannot expand",
            Self::NoCreate => "ERR NOCREATE cannot be used with CAPACITY or ERROR",
            Self::FixedScaleTo => "ERR cannot use NONSCALING and VALIDATESCALETO options together",
            Self::ScaleToMemory => {
                "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit"
            }
            Self::ScaleToRate => {
                "ERR provided VALIDATESCALETO causes false positive to degrade to 0"
            }
            Self::Refused(Refusal::MemoryLimit) => {
                "ERR operation exceeds bloom object memory limit"
            }
            Self::Refused(Refusal::RateTooSmall) => "ERR false positive degrades to 0 on scale out",
            Self::Refused(Refusal::Full) => "ERR non scaling filter is full",
            Self::Refused(Refusal::OutOfMemory) => "OOM not enough memory for bloom object",
            Self::Undecodable => "ERR bloom object decoding failed",
            Self::UnsupportedVersion => "ERR bloom object decoding failed. Unsupported version",
            Self::BadChunk => "ERR received bad data",
            Self::StillLoading => "ERR bloom object is still being loaded",
            Self::Text(text) => text,
            Self::NotMade(maker, what) => {
                return write!(
                    f,
                    "ERR {what} is not possible with bf.bloom-new-filters {maker}"
                );
            }
        })
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
