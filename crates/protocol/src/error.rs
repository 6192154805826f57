//! The errors of commands, and the texts that clients read.

use std::fmt;

use valkeybloom_sketches::Forgotten;
use valkeybloom_sketches::bloom::{MergeError, Refusal};

use crate::names::NEW_FILTERS;

/// The argument that an error is about, with its name there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field(&'static str);

impl Field {
    /// The requested rate of false positives.
    pub const ERROR_RATE: Self = Self("error rate");
    /// The capacity in items.
    pub const CAPACITY: Self = Self("capacity");
    /// The growth factor from one filter to the next.
    pub const EXPANSION: Self = Self("expansion");
    /// The ratio of successive filters' error rates.
    pub const TIGHTENING: Self = Self("tightening ratio");
    /// The cursor of a chunk.
    pub const CURSOR: Self = Self("cursor");
    /// The most items of a reply.
    pub const MAX_COUNT: Self = Self("max_count");
    /// A time to live.
    pub const TTL: Self = Self("ttl");
    /// The length of a period.
    pub const WINDOW: Self = Self("window");
    /// The number of periods.
    pub const PERIODS: Self = Self("periods");
    /// The number of items that a filter is to grow to.
    pub const SCALE_TO: Self = Self("scaleto");
    /// The position of the first item among all items of a receipt.
    pub const POSITION: Self = Self("position");
}

/// The error of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Too few arguments, or too many.
    Arity,
    /// The word is not a number, or the number does not fit.
    Bad(Field),
    /// The number is outside its range.
    Range(Field),
    /// The objects can't be merged.
    Unlike(MergeError),
    /// There is no room for an item or an object.
    Refused(Refusal),
    /// The receipt does not have the answers before this position.
    Forgotten(Forgotten),
    /// `bf.bloom-new-filters` names this maker, whose filters can't have this property.
    NotMade(&'static str, &'static str),
    /// Any other error, with this text.
    Text(&'static str),
}

/// The errors of Bloom filters, and those that all families share. The others are in their families' files.
impl Error {
    /// The key holds a value of the wrong type.
    pub const WRONG_TYPE: Self =
        Self::Text("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// The key does not exist.
    pub const NOT_FOUND: Self = Self::Text("ERR not found");
    /// BF.RESERVE or CF.RESERVE was called for a key that exists.
    pub const EXISTS: Self = Self::Text("ERR item exists");
    /// BF.LOAD or the first BF.LOADCHUNK was called for a key that exists.
    pub const BUSY: Self = Self::Text("BUSYKEY Target key name already exists.");
    /// The key is being saved without a fork, and can't be opened for writing.
    pub const SAVING: Self = Self::Text("TRYAGAIN key is being saved, try again");
    /// The server uses more memory than `maxmemory` allows. The text is the server's.
    pub const MAXMEMORY: Self =
        Self::Text("OOM command not allowed when used memory > 'maxmemory'.");
    /// The seed is not 32 bytes long.
    pub const SEED: Self = Self::Text("ERR invalid seed");
    /// The word is not an option.
    pub const UNKNOWN_OPTION: Self = Self::Text("ERR unknown argument received");
    /// BF.INFO has no such field, or the object does not have it.
    pub const UNKNOWN_FIELD: Self = Self::Text("ERR invalid information value");
    /// WINDOW was given without PERIODS, or PERIODS without WINDOW.
    pub const HALF_WINDOW: Self = Self::Text("ERR WINDOW and PERIODS have to be given together");
    /// WINDOW was given with COUNTING.
    pub const COUNTING_WINDOW: Self = Self::Text("ERR WINDOW and COUNTING cannot be combined");
    /// EX was given with PX.
    pub const TWO_TTLS: Self = Self::Text("ERR EX and PX cannot be combined");
    /// The command needs a window, and the object has none.
    pub const NO_WINDOW: Self = Self::Text("ERR filter was not made with WINDOW");
    /// The command needs counts, and the object has none.
    pub const NO_COUNTERS: Self = Self::Text("ERR filter was not made with COUNTING");
    /// The time to live is longer than the window.
    pub const LONG_TTL: Self = Self::Text("ERR ttl is longer than the window");
    /// EXPANSION was given with NONSCALING.
    pub const FIXED_EXPANSION: Self = Self::Text("ERR nonscaling filters cannot expand");
    /// VALIDATESCALETO was given with NONSCALING.
    pub const FIXED_SCALE_TO: Self =
        Self::Text("ERR cannot use NONSCALING and VALIDATESCALETO options together");
    /// SCALETO was given with NONSCALING.
    pub const FIXED_GROWTH_TO: Self =
        Self::Text("ERR cannot use NONSCALING and SCALETO options together");
    /// SCALETO exceeds the capacity that the memory limit allows.
    pub const GROWTH_TO_MEMORY: Self =
        Self::Text("ERR provided SCALETO causes bloom object to exceed memory limit");
    /// SCALETO exceeds the capacity at which error rates become too small.
    pub const GROWTH_TO_RATE: Self =
        Self::Text("ERR provided SCALETO causes false positive to degrade to 0");
    /// VALIDATESCALETO exceeds the capacity that the memory limit allows.
    pub const SCALE_TO_MEMORY: Self =
        Self::Text("ERR provided VALIDATESCALETO causes bloom object to exceed memory limit");
    /// VALIDATESCALETO exceeds the capacity at which error rates become too small.
    pub const SCALE_TO_RATE: Self =
        Self::Text("ERR provided VALIDATESCALETO causes false positive to degrade to 0");
    /// The bytes do not decode to an object.
    pub const UNDECODABLE: Self = Self::Text("ERR bloom object decoding failed");
    /// The bytes have a newer format.
    pub const UNSUPPORTED_VERSION: Self =
        Self::Text("ERR bloom object decoding failed. Unsupported version");
    /// The chunk does not fit the object.
    pub const BAD_CHUNK: Self = Self::Text("ERR received bad data");
    /// The object is not a stack of filters, so its changes are not new items alone, or it has no bits.
    pub const NO_FEED: Self =
        Self::Text("ERR filters with WINDOW, COUNTING or SCALETO have no feed");
    /// The cursor is not one of the object's feed. The object may have changed by other means than new items.
    pub const FEED_UNKNOWN: Self = Self::Text(
        "RESYNC unknown feed: the filter was replaced, merged into or not read for a minute, or the \
         server is a different one, or was restarted",
    );
    /// More items were new since the cursor than the feed holds.
    pub const FEED_OVERRUN: Self =
        Self::Text("RESYNC feed overrun: it no longer holds all items since the cursor");
    /// The receipt of ONCE is a string that no receipt has.
    pub const NO_RECEIPT: Self = Self::Text("ERR key does not hold a receipt");
    /// The receipt of ONCE has the name of the filter.
    pub const RECEIPT_IS_FILTER: Self = Self::Text("ERR filter and receipt need different keys");
    /// ONCE was given with more items than a receipt keeps: `Receipt::MOST_ANSWERS`.
    pub const LONG_ONCE: Self = Self::Text("ERR ONCE takes at most 100000 items");
    /// The object lacks some of its chunks.
    pub const STILL_LOADING: Self = Self::Text("ERR bloom object is still being loaded");
}

/// Returns whether an error means that `BF.SCANDUMP` gives no ids here: `RedisBloom` does not know `WITHID`, and no id is made
/// when memory is out.
pub fn lacks_ids(text: &str) -> bool {
    text.contains("wrong number of arguments") || text.contains("used memory >")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Arity => "ERR wrong number of arguments",
            Self::Bad(Field(name)) => return write!(f, "ERR bad {name}"),
            Self::Range(Field::ERROR_RATE) => "ERR (0 < error rate range < 1)",
            Self::Range(Field::TIGHTENING) => "ERR (0 < tightening ratio range < 1)",
            Self::Range(Field(name)) => return write!(f, "ERR ({name} should be larger than 0)"),
            Self::Unlike(MergeError::Seeds) => "ERR filters have different seeds",
            Self::Unlike(MergeError::Kinds) => "ERR filters are of different kinds",
            Self::Unlike(MergeError::Rates) => "ERR error rates of the filters add up to 1 or more",
            Self::Unlike(MergeError::Refused(refusal)) => return Self::Refused(refusal).fmt(f),
            Self::Refused(Refusal::MemoryLimit) => {
                "ERR operation exceeds bloom object memory limit"
            }
            Self::Refused(Refusal::RateTooSmall) => "ERR false positive degrades to 0 on scale out",
            Self::Refused(Refusal::Full) => "ERR non scaling filter is full",
            Self::Refused(Refusal::OutOfMemory) => "OOM not enough memory for bloom object",
            Self::Forgotten(forgotten) => return forgotten.fmt(f),
            Self::NotMade(maker, what) => {
                return write!(f, "ERR {what} is not possible with {NEW_FILTERS} {maker}");
            }
            Self::Text(text) => text,
        })
    }
}

impl From<Forgotten> for Error {
    fn from(forgotten: Forgotten) -> Self {
        Self::Forgotten(forgotten)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
