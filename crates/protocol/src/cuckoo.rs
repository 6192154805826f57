//! The words and errors of the commands for cuckoo filters.

use std::ops::Range;

use crate::error::Error;
use crate::numerals::integer;
use crate::words::{CommandWords, Cursor, Grammar, require_count};

use self::error::CuckooOption;
use valkeybloom_sketches::cuckoo::Params;

/// Parses CF.RESERVE.
///
/// # Errors
/// The error of the first argument that is wrong, in the order in which `RedisBloom` checks them.
pub fn reserve<W: CommandWords + ?Sized>(
    words: &W,
    defaults: Params,
    grammar: Grammar,
) -> Result<Params, Error> {
    // Pairs of an option and its value follow the command's name, the key and the capacity.
    require_count(words.count() >= 3 && !words.count().is_multiple_of(2))?;
    let capacity = integer(words.word(2)).ok_or(error::BAD_CAPACITY)?;
    let value = |option: &CuckooOption| -> Result<Option<u64>, Error> {
        let Some(word) = value_of(words, option, grammar) else {
            return Ok(None);
        };
        let value = u64::try_from(integer(word).ok_or(option.bad)?).ok();
        let value = value.filter(|value| option.range.contains(value));
        Ok(Some(value.ok_or(option.out_of_range)?))
    };
    let max_iterations = value(&CuckooOption::MAX_ITERATIONS)?;
    let bucket_size = value(&CuckooOption::BUCKET_SIZE)?;
    let expansion = value(&CuckooOption::EXPANSION)?;
    let known = |at| CuckooOption::ALL.iter().any(|it| it.is(words.word(at)));
    if grammar == Grammar::Own && !(3..words.count()).step_by(2).all(known) {
        return Err(error::UNKNOWN_OPTION);
    }
    let params = Params {
        capacity: u64::try_from(capacity).unwrap_or(0),
        bucket_size: narrow(bucket_size, defaults.bucket_size),
        max_iterations: narrow(max_iterations, defaults.max_iterations),
        expansion: narrow(expansion, defaults.expansion),
    };
    let valid = params.are_valid().then_some(params);
    valid.ok_or(error::RESERVE_CAPACITY)
}

/// Narrows a value, which the option's range keeps within the narrower type.
fn narrow<N: TryFrom<u64>>(value: Option<u64>, default: N) -> N {
    let value = value.and_then(|value| value.try_into().ok());
    value.unwrap_or(default)
}

/// Returns the word after the first occurrence of an option. `RedisBloom` searches all words, the key included.
fn value_of<'w, W: CommandWords + ?Sized>(
    words: &'w W,
    option: &CuckooOption,
    grammar: Grammar,
) -> Option<&'w [u8]> {
    let mut places = match grammar {
        Grammar::Own => (3..words.count() - 1).step_by(2),
        Grammar::RedisBloom => (1..words.count() - 1).step_by(1),
    };
    let place = places.find(|place| option.is(words.word(*place)))?;
    Some(words.word(place + 1))
}

/// CF.INSERT and CF.INSERTNX.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The object to create if the key is empty; `None` with NOCREATE.
    pub create: Option<Params>,
    /// The indices of the items among the words.
    pub items: Range<usize>,
}

impl Insert {
    /// Parses the words; missing options take the defaults.
    ///
    /// # Errors
    /// The error of the first argument that is wrong.
    pub fn parse<W: CommandWords + ?Sized>(
        words: &W,
        defaults: Params,
        grammar: Grammar,
    ) -> Result<Self, Error> {
        require_count(words.count() >= 4)?;
        // RedisBloom distinguishes options by their first letter.
        let is = |word: &[u8], option: &[u8]| match grammar {
            Grammar::Own => word.eq_ignore_ascii_case(option),
            Grammar::RedisBloom => word
                .get(..1)
                .is_some_and(|it| it.eq_ignore_ascii_case(&option[..1])),
        };
        let mut from = Cursor::after_key(words);
        let (mut capacity, mut nocreate) = (None, false);
        loop {
            let option = from.take().ok_or(Error::Arity)?;
            if is(option, b"ITEMS") {
                break;
            }
            if is(option, b"CAPACITY") {
                let word = from.take().ok_or(Error::Arity)?;
                capacity = Some(integer(word).ok_or(error::BAD_CAPACITY)?);
            } else if is(option, b"NOCREATE") {
                nocreate = true;
            } else {
                return Err(error::UNKNOWN_OPTION);
            }
        }
        let items = from.rest();
        require_count(!items.is_empty())?;
        let params = Params {
            capacity: match capacity {
                Some(capacity) => u64::try_from(capacity).unwrap_or(0),
                None => defaults.capacity,
            },
            ..defaults
        };
        if capacity.is_some() && !params.are_valid() {
            return Err(error::INSERT_CAPACITY);
        }
        let create = (!nocreate).then_some(params);
        Ok(Self { create, items })
    }
}

/// Why a command failed, and the options of CF.RESERVE.
pub mod error {
    use std::ops::RangeInclusive;

    use valkeybloom_sketches::cuckoo::{Refusal, ranges};

    use crate::error::Error;

    /// The capacity is not a number.
    pub const BAD_CAPACITY: Error = Error::Text("Bad capacity");
    /// The word is not an option.
    pub const UNKNOWN_OPTION: Error = Error::Text("Unknown argument received");
    /// The key to remove from does not exist.
    pub const NOTHING_TO_REMOVE_FROM: Error = Error::Text("Not found");
    /// The key to compact does not exist.
    pub const NOTHING_TO_COMPACT: Error = Error::Text("Cuckoo filter was not found");
    /// There is no memory for the first filter.
    pub const NOT_CREATED: Error = Error::Text("ERR Insufficient memory to create filter");
    /// The cursor is invalid.
    pub const BAD_CURSOR: Error = Error::Text("Invalid position");
    /// The header has the wrong length.
    pub const BAD_HEADER: Error = Error::Text("Invalid header");
    /// The header describes an impossible filter.
    pub const BAD_CLAIM: Error = Error::Text("Couldn't create filter!");
    /// The chunk does not fit the filter.
    pub const BAD_CHUNK: Error = Error::Text("Couldn't load chunk!");
    /// The capacity is outside the range of CF.RESERVE.
    pub const RESERVE_CAPACITY: Error =
        Error::Text("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]");
    /// The capacity is outside the range of CF.INSERT.
    pub const INSERT_CAPACITY: Error =
        Error::Text("Capacity must be in the range [cf-bucket-size * 2, 1073741824]");

    /// Returns the error of an item or a filter that there is no room for.
    pub const fn refused(refusal: Refusal) -> Error {
        Error::Text(match refusal {
            Refusal::Full => "Filter is full",
            Refusal::MaxFilters => "Maximum expansions reached",
            Refusal::MemoryLimit => {
                "ERR Insufficient memory: operation exceeds cuckoo filter memory limit"
            }
            Refusal::OutOfMemory => "ERR Insufficient memory",
        })
    }

    /// An option of CF.RESERVE.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CuckooOption {
        /// The option's word.
        pub word: &'static str,
        /// The range of the option's value.
        pub range: RangeInclusive<u64>,
        /// The error of a value that is not a number.
        pub bad: Error,
        /// The error of a value outside the range.
        pub out_of_range: Error,
    }

    impl CuckooOption {
        /// The number of slots of a bucket.
        pub const BUCKET_SIZE: Self = Self {
            word: "BUCKETSIZE",
            range: ranges::BUCKET_SIZE,
            bad: Error::Text("Couldn't parse BUCKETSIZE"),
            out_of_range: Error::Text("BUCKETSIZE: value must be in the range [1, 255]"),
        };
        /// The most fingerprints that are moved to make room for one.
        pub const MAX_ITERATIONS: Self = Self {
            word: "MAXITERATIONS",
            range: ranges::MAX_ITERATIONS,
            bad: Error::Text("Couldn't parse MAXITERATIONS"),
            out_of_range: Error::Text("MAXITERATIONS: value must be in the range [1, 65535]"),
        };
        /// The growth factor from one filter to the next.
        pub const EXPANSION: Self = Self {
            word: "EXPANSION",
            range: ranges::EXPANSION,
            bad: Error::Text("Couldn't parse EXPANSION"),
            out_of_range: Error::Text("EXPANSION: value must be in the range [0, 32768]"),
        };
        /// All options.
        pub const ALL: [Self; 3] = [Self::BUCKET_SIZE, Self::MAX_ITERATIONS, Self::EXPANSION];

        /// Returns whether a word is this option, in any case of letters.
        pub const fn is(&self, word: &[u8]) -> bool {
            word.eq_ignore_ascii_case(self.word.as_bytes())
        }
    }
}
