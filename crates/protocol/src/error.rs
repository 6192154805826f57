//! Why a command failed, and the text that its client reads.

use std::fmt;
use std::ops::RangeInclusive;

use valkeybloom_sketches::bloom::{MergeError, Refusal};
use valkeybloom_sketches::cuckoo::{self, ranges};

/// An argument that was not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// The rate of false positives, requested.
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

/// Why a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Too few arguments, or too many.
    Arity,
    /// The key holds a value of another type.
    WrongType,
    /// There is no such key.
    NotFound,
    /// RESERVE for a key that exists.
    Exists,
    /// LOAD or LOADCHUNK for a key that exists.
    Busy,
    /// The key is being saved without a fork, and can't be opened for writing.
    Saving,
    /// Not a number, or one that does not fit.
    Bad(Field),
    /// A number outside its range.
    Range(Field),
    /// A seed that is not 32 bytes long.
    Seed,
    /// A word that is not an option.
    UnknownOption,
    /// A field that BF.INFO does not know, or that this object does not have.
    UnknownField,
    /// WINDOW without PERIODS, or PERIODS without WINDOW.
    HalfWindow,
    /// WINDOW with COUNTING.
    CountingWindow,
    /// EX with PX.
    TwoTtls,
    /// The command needs a window, and the object has none.
    NoWindow,
    /// The command needs counters, and the object has none.
    NoCounters,
    /// A time to live that is longer than the window.
    LongTtl,
    /// Objects that can't be merged.
    Unlike(MergeError),
    /// EXPANSION together with NONSCALING.
    FixedExpansion,
    /// NOCREATE with a parameter of a new object.
    NoCreate,
    /// VALIDATESCALETO with NONSCALING.
    FixedScaleTo,
    /// VALIDATESCALETO beyond what the memory limit allows.
    ScaleToMemory,
    /// VALIDATESCALETO beyond where error rates become too small.
    ScaleToRate,
    /// There is no room for an item or an object.
    Refused(Refusal),
    /// Bytes that do not decode to an object.
    Undecodable,
    /// Bytes of a newer format.
    UnsupportedVersion,
    /// A chunk that does not belong here.
    BadChunk,
    /// The object lacks some of its chunks.
    StillLoading,
    /// What only commands for cuckoo filters refuse.
    Cuckoo(CuckooError),
    /// A command of sketches.
    Unserved,
    /// What filters of this maker can't have, while new ones are to be its.
    NotMade(&'static str, &'static str),
}

/// Why a command for cuckoo filters failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CuckooError {
    /// A capacity that is no number.
    BadCapacity,
    /// A capacity that CF.RESERVE does not take.
    ReserveCapacity,
    /// A capacity that CF.INSERT does not take.
    InsertCapacity,
    /// An option's value that is no number.
    BadOption(CuckooOption),
    /// An option's value out of its range.
    OptionRange(CuckooOption),
    /// A word that is not an option.
    UnknownOption,
    /// There is no such key to remove from.
    NothingToRemoveFrom,
    /// There is no such key to compact.
    NothingToCompact,
    /// There is no room for an item, or a filter.
    Refused(cuckoo::Refusal),
    /// There is no memory for the first filter.
    NotCreated,
    /// A cursor that is none.
    BadCursor,
    /// A header of another length.
    BadHeader,
    /// A header of no filter that can be.
    BadClaim,
    /// A chunk that does not fit.
    BadChunk,
}

/// An option of CF.RESERVE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CuckooOption {
    /// Slots of a bucket.
    BucketSize,
    /// Fingerprints moved to make room for one.
    MaxIterations,
    /// The factor from one filter to the next.
    Expansion,
}

impl CuckooOption {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::BucketSize, Self::MaxIterations, Self::Expansion];

    /// Whether a word is this option.
    pub const fn is(self, word: &[u8]) -> bool {
        word.eq_ignore_ascii_case(self.word().as_bytes())
    }

    /// The word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::BucketSize => "BUCKETSIZE",
            Self::MaxIterations => "MAXITERATIONS",
            Self::Expansion => "EXPANSION",
        }
    }

    /// What its value may be.
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
