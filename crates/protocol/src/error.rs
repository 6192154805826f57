//! The errors of commands, and the texts that clients read.

use std::fmt;
use std::ops::RangeInclusive;

use valkeybloom_sketches::bloom::{MergeError, Refusal};
use valkeybloom_sketches::cuckoo::{self, ranges};

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
    /// A command for cuckoo filters failed.
    Cuckoo(CuckooError),
    /// The command is one for sketches, which the server stores but does not serve.
    Unserved,
    /// `bf.bloom-new-filters` names this maker, whose filters can't have this property.
    NotMade(&'static str, &'static str),
}

/// The error of a command for cuckoo filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CuckooError {
    /// The capacity is not a number.
    BadCapacity,
    /// The capacity is outside the range of CF.RESERVE.
    ReserveCapacity,
    /// The capacity is outside the range of CF.INSERT.
    InsertCapacity,
    /// The option's value is not a number.
    BadOption(CuckooOption),
    /// The option's value is outside its range.
    OptionRange(CuckooOption),
    /// The word is not an option.
    UnknownOption,
    /// The key to remove from does not exist.
    NothingToRemoveFrom,
    /// The key to compact does not exist.
    NothingToCompact,
    /// There is no room for an item, or a filter.
    Refused(cuckoo::Refusal),
    /// There is no memory for the first filter.
    NotCreated,
    /// The cursor is invalid.
    BadCursor,
    /// The header has the wrong length.
    BadHeader,
    /// The header describes an impossible filter.
    BadClaim,
    /// The chunk does not fit the filter.
    BadChunk,
}

/// An option of CF.RESERVE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CuckooOption {
    /// The number of slots of a bucket.
    BucketSize,
    /// The most fingerprints that are moved to make room for one.
    MaxIterations,
    /// The growth factor from one filter to the next.
    Expansion,
}

impl CuckooOption {
    /// All options.
    pub const ALL: [Self; 3] = [Self::BucketSize, Self::MaxIterations, Self::Expansion];

    /// Returns whether a word is this option, in any case of letters.
    pub const fn is(self, word: &[u8]) -> bool {
        word.eq_ignore_ascii_case(self.word().as_bytes())
    }

    /// The option's word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::BucketSize => "BUCKETSIZE",
            Self::MaxIterations => "MAXITERATIONS",
            Self::Expansion => "EXPANSION",
        }
    }

    /// The range of the option's value.
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::BucketSize => ranges::BUCKET_SIZE,
            Self::MaxIterations => ranges::MAX_ITERATIONS,
            Self::Expansion => ranges::EXPANSION,
        }
    }
}

impl fmt::Display for CuckooError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = ranges::CAPACITY_MAX;
        f.write_str(match self {
            Self::BadCapacity => "ERR Bad capacity",
            Self::ReserveCapacity => {
                return write!(
                    f,
                    "ERR Capacity must be in the range [2 * BUCKETSIZE, {most}]"
                );
            }
            Self::InsertCapacity => {
                return write!(
                    f,
                    "ERR Capacity must be in the range [cf-bucket-size * 2, {most}]"
                );
            }
            Self::BadOption(option) => return write!(f, "ERR Couldn't parse {}", option.word()),
            Self::OptionRange(option) => {
                let (word, range) = (option.word(), option.range());
                let (least, most) = (range.start(), range.end());
                return write!(
                    f,
                    "ERR {word}: value must be in the range [{least}, {most}]"
                );
            }
            Self::UnknownOption => "ERR Unknown argument received",
            Self::NothingToRemoveFrom => "ERR Not found",
            Self::NothingToCompact => "ERR Cuckoo filter was not found",
            Self::Refused(cuckoo::Refusal::Full) => "ERR Filter is full",
            Self::Refused(cuckoo::Refusal::MaxFilters) => "ERR Maximum expansions reached",
            Self::Refused(cuckoo::Refusal::MemoryLimit) => {
                "ERR Insufficient memory: operation exceeds cuckoo filter memory limit"
            }
            Self::Refused(cuckoo::Refusal::OutOfMemory) => "ERR Insufficient memory",
            Self::NotCreated => "ERR Insufficient memory to create filter",
            Self::BadCursor => "ERR Invalid position",
            Self::BadHeader => "ERR Invalid header",
            Self::BadClaim => "ERR Couldn't create filter!",
            Self::BadChunk => "ERR Couldn't load chunk!",
        })
    }
}

impl From<CuckooError> for Error {
    fn from(error: CuckooError) -> Self {
        Self::Cuckoo(error)
    }
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
            Self::Unserved => "ERR this server keeps sketches but does not serve their commands",
            Self::StillLoading => "ERR bloom object is still being loaded",
            Self::NotMade(maker, what) => {
                return write!(
                    f,
                    "ERR {what} is not possible with bf.bloom-new-filters {maker}"
                );
            }
            Self::Cuckoo(error) => return error.fmt(f),
        })
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
