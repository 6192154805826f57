//! `RedisBloom`'s grammar of BF.RESERVE and BF.INSERT, and the texts of its errors. It takes words that this module's own
//! grammar refuses or reads in another way, and replicates them the way they came.

use std::ops::{Range, RangeInclusive};

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, New, Params};

use crate::error::Error;
use crate::numerals::{double, integer};
use crate::words::{CommandWords, Cursor, require_count};

use super::maker::Wanted;
use super::once::{self, Once};

/// The capacities that an option takes.
const CAPACITIES: RangeInclusive<u64> = 1..=New::REDISBLOOM_CAPACITY;

/// The parameters that a command gives.
#[derive(Default)]
pub(super) struct Given {
    capacity: Option<u64>,
    error_rate: Option<Fraction>,
    /// The growth factor, which an object that does not grow records as well.
    expansion: Option<u32>,
    nonscaling: bool,
    pub nocreate: bool,
    /// The word of this module, which `RedisBloom` refuses.
    pub once: Option<Once>,
}

impl Given {
    /// Returns the object that is described; missing parameters take the defaults.
    pub fn wanted(&self, defaults: Params) -> Wanted {
        let growth = match self.expansion {
            _ if self.nonscaling => Growth::Fixed,
            Some(expansion) => Growth::from_expansion(expansion),
            None => defaults.growth,
        };
        let params = Params {
            capacity: self.capacity.unwrap_or(defaults.capacity),
            error_rate: self.error_rate.unwrap_or(defaults.error_rate),
            growth,
            ..defaults
        };
        Wanted::plain(params, self.expansion)
    }
}

/// Parses BF.RESERVE. The options are looked for in all words, the key included; other words are ignored.
///
/// # Errors
/// The error of the first argument that is wrong, in the order in which `RedisBloom` checks them.
pub(super) fn reserve<W: CommandWords + ?Sized>(words: &W) -> Result<Given, Error> {
    require_count(words.count() >= 4)?;
    let rate = double(words.word(2)).ok_or(error::RESERVE_RATE)?;
    let error_rate = Fraction::new(rate).ok_or(error::RATE_RANGE)?;
    let capacity = integer(words.word(3)).ok_or(error::RESERVE_CAPACITY)?;
    let capacity = within(capacity, CAPACITIES).ok_or(error::CAPACITY_RANGE)?;
    let place = |option: &[u8]| {
        (0..words.count()).find(|place| words.word(*place).eq_ignore_ascii_case(option))
    };
    let nonscaling = place(b"NONSCALING").is_some();
    let expansion = match place(b"EXPANSION") {
        None => None,
        Some(place) if place + 1 == words.count() => return Err(error::NO_EXPANSION),
        Some(place) => {
            let number = integer(words.word(place + 1)).ok_or(error::RESERVE_EXPANSION)?;
            Some(factor(number).ok_or(error::EXPANSION_RANGE)?)
        }
    };
    if nonscaling && expansion.is_some_and(|factor| factor > 0) {
        return Err(error::FIXED_EXPANSION);
    }
    Ok(Given {
        capacity: Some(capacity),
        error_rate: Some(error_rate),
        expansion,
        nonscaling,
        nocreate: false,
        once: None,
    })
}

/// Parses BF.INSERT, and returns the indices of the items. A few letters of an option are enough: the first, and
/// the second or third where options share it.
///
/// # Errors
/// The error of the first argument that is wrong.
pub(super) fn insert<W: CommandWords + ?Sized>(words: &W) -> Result<(Given, Range<usize>), Error> {
    require_count(words.count() >= 4)?;
    let mut from = Cursor::after_key(words);
    let mut given = Given::default();
    loop {
        let option = from.take().ok_or(Error::Arity)?;
        let letter = |index: usize| option.get(index).map(u8::to_ascii_lowercase);
        match letter(0) {
            _ if begins_items(option) => break,
            Some(b'n') if letter(2) == Some(b'c') => given.nocreate = true,
            Some(b'n') => given.nonscaling = true,
            Some(first @ (b'c' | b'e')) => {
                let value = from.take().ok_or(Error::Arity)?;
                if first == b'c' {
                    let capacity = integer(value).and_then(|number| within(number, CAPACITIES));
                    given.capacity = Some(capacity.ok_or(error::INSERT_CAPACITY)?);
                } else if letter(1) == Some(b'r') {
                    let rate = double(value).and_then(Fraction::new);
                    given.error_rate = Some(rate.ok_or(error::INSERT_RATE)?);
                } else {
                    let expansion = integer(value).and_then(factor);
                    given.expansion = Some(expansion.ok_or(error::INSERT_EXPANSION)?);
                }
            }
            _ if option.eq_ignore_ascii_case(b"ONCE") && given.once.is_none() => {
                given.once = Some(Once::take(&mut from)?);
            }
            _ => return Err(error::UNKNOWN_OPTION),
        }
    }
    let items = from.rest();
    require_count(!items.is_empty())?;
    once::require_answers(given.once, &items)?;
    Ok((given, items))
}

/// Returns whether the items follow a word that stands in place of an option.
pub(super) fn begins_items(option: &[u8]) -> bool {
    matches!(option, [b'i' | b'I', ..])
}

fn within(number: i64, range: RangeInclusive<u64>) -> Option<u64> {
    let number = u64::try_from(number).ok();
    number.filter(|number| range.contains(number))
}

fn factor(number: i64) -> Option<u32> {
    let number = u32::try_from(number).ok();
    number.filter(|number| *number <= New::REDISBLOOM_EXPANSION)
}

/// `RedisBloom`'s texts. Some lack a code, and BF.RESERVE and BF.INSERT have different ones.
pub mod error {
    use crate::error::Error;

    /// BF.RESERVE: the error rate is not a number.
    pub const RESERVE_RATE: Error = Error::Text("ERR bad error rate");
    /// BF.RESERVE: the error rate is not between 0 and 1.
    pub const RATE_RANGE: Error =
        Error::Text("ERR error rate must be in the range (0.000000, 1.000000)");
    /// BF.RESERVE: the capacity is not a number.
    pub const RESERVE_CAPACITY: Error = Error::Text("ERR bad capacity");
    /// BF.RESERVE: the capacity is outside its range.
    pub const CAPACITY_RANGE: Error =
        Error::Text("ERR capacity must be in the range [1, 1073741824]");
    /// BF.RESERVE: EXPANSION is the last word.
    pub const NO_EXPANSION: Error = Error::Text("ERR no expansion");
    /// BF.RESERVE: the expansion is not a number.
    pub const RESERVE_EXPANSION: Error = Error::Text("ERR bad expansion");
    /// BF.RESERVE: the expansion is outside its range.
    pub const EXPANSION_RANGE: Error = Error::Text("ERR expansion must be in the range [0, 32768]");
    /// BF.RESERVE: EXPANSION was given with NONSCALING.
    pub const FIXED_EXPANSION: Error = Error::Text("Nonscaling filters cannot expand");
    /// BF.INSERT: the error rate is not a number between 0 and 1.
    pub const INSERT_RATE: Error = Error::Text("Bad error rate");
    /// BF.INSERT: the capacity is not a number in its range.
    pub const INSERT_CAPACITY: Error = Error::Text("Bad capacity");
    /// BF.INSERT: the expansion is not a number in its range.
    pub const INSERT_EXPANSION: Error = Error::Text("Bad expansion");
    /// BF.INSERT: the word is not an option.
    pub const UNKNOWN_OPTION: Error = Error::Text("Unknown argument received");
    /// BF.INFO: there is no such field.
    pub const UNKNOWN_FIELD: Error = Error::Text("Invalid information value");
    /// BF.SCANDUMP: the cursor is not a number.
    pub const SCANDUMP_CURSOR: Error = Error::Text("Second argument must be numeric");
    /// BF.LOADCHUNK: the cursor is not a number.
    pub const LOADCHUNK_CURSOR: Error = Error::Text("ERR Second argument must be numeric");
    /// BF.LOADCHUNK: the chunk begins after the last filter's end, or before the first one's start.
    pub const NO_LINK: Error = Error::Text("ERR invalid offset - no link found");
    /// BF.LOADCHUNK: the chunk goes beyond the filter that it begins in.
    pub const LONG_CHUNK: Error = Error::Text("ERR invalid chunk - Too big for current filter");
}
