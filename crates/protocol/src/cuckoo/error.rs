//! Why a command for cuckoo filters failed, and its options.

use std::fmt;
use std::ops::RangeInclusive;

use valkeybloom_sketches::cuckoo::{Refusal, ranges};

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
    Refused(Refusal),
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
            Self::Refused(Refusal::Full) => "ERR Filter is full",
            Self::Refused(Refusal::MaxFilters) => "ERR Maximum expansions reached",
            Self::Refused(Refusal::MemoryLimit) => {
                "ERR Insufficient memory: operation exceeds cuckoo filter memory limit"
            }
            Self::Refused(Refusal::OutOfMemory) => "ERR Insufficient memory",
            Self::NotCreated => "ERR Insufficient memory to create filter",
            Self::BadCursor => "ERR Invalid position",
            Self::BadHeader => "ERR Invalid header",
            Self::BadClaim => "ERR Couldn't create filter!",
            Self::BadChunk => "ERR Couldn't load chunk!",
        })
    }
}
