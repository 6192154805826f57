//! Parsers for the CF commands with options.

use std::ops::Range;

use crate::error::Error;
use crate::numerals::integer;
use crate::words::{CommandWords, Cursor, Origin};

use super::error::{CuckooError, CuckooOption};
use valkeybloom_sketches::cuckoo::Params;

/// Parses CF.RESERVE.
///
/// # Errors
/// The error of the first argument that is wrong, in the order in which `RedisBloom` checks them.
pub fn reserve<W: CommandWords + ?Sized>(
    words: &W,
    defaults: Params,
    origin: Origin,
) -> Result<Params, Error> {
    // Pairs of an option and its value follow the command's name, the key and the capacity.
    if words.count() < 3 || words.count().is_multiple_of(2) {
        return Err(Error::Arity);
    }
    let capacity = integer(words.word(2)).ok_or(CuckooError::BadCapacity)?;
    let value = |option: CuckooOption| -> Result<Option<u64>, Error> {
        let Some(word) = value_of(words, option, origin) else {
            return Ok(None);
        };
        let value = integer(word).ok_or(CuckooError::BadOption(option))?;
        let value = u64::try_from(value).ok();
        let value = value.filter(|value| option.range().contains(value));
        Ok(Some(value.ok_or(CuckooError::OptionRange(option))?))
    };
    let max_iterations = value(CuckooOption::MaxIterations)?;
    let bucket_size = value(CuckooOption::BucketSize)?;
    let expansion = value(CuckooOption::Expansion)?;
    let known = |word: &[u8]| CuckooOption::ALL.iter().any(|option| option.is(word));
    if origin == Origin::Client
        && (3..words.count())
            .step_by(2)
            .any(|at| !known(words.word(at)))
    {
        return Err(CuckooError::UnknownOption.into());
    }
    let params = Params {
        capacity: u64::try_from(capacity).unwrap_or(0),
        bucket_size: narrow(bucket_size, defaults.bucket_size),
        max_iterations: narrow(max_iterations, defaults.max_iterations),
        expansion: narrow(expansion, defaults.expansion),
    };
    if params.are_valid() {
        Ok(params)
    } else {
        Err(CuckooError::ReserveCapacity.into())
    }
}

/// Narrows a value, which the option's range keeps within the narrower type.
fn narrow<N: TryFrom<u64>>(value: Option<u64>, default: N) -> N {
    value
        .and_then(|value| N::try_from(value).ok())
        .unwrap_or(default)
}

/// Returns the word after the first occurrence of an option. All words of a command executed elsewhere are searched,
/// the key included, because `RedisBloom` does that.
fn value_of<W: CommandWords + ?Sized>(
    words: &W,
    option: CuckooOption,
    origin: Origin,
) -> Option<&[u8]> {
    let mut places = match origin {
        Origin::Client => (3..words.count() - 1).step_by(2),
        Origin::Elsewhere => (1..words.count() - 1).step_by(1),
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
        origin: Origin,
    ) -> Result<Self, Error> {
        if words.count() < 4 {
            return Err(Error::Arity);
        }
        // RedisBloom distinguishes options by their first letter.
        let is = |word: &[u8], option: &[u8]| match origin {
            Origin::Client => word.eq_ignore_ascii_case(option),
            Origin::Elsewhere => word
                .first()
                .is_some_and(|letter| letter.eq_ignore_ascii_case(&option[0])),
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
                capacity = Some(integer(word).ok_or(CuckooError::BadCapacity)?);
            } else if is(option, b"NOCREATE") {
                nocreate = true;
            } else {
                return Err(CuckooError::UnknownOption.into());
            }
        }
        let items = from.rest();
        if items.is_empty() {
            return Err(Error::Arity);
        }
        let params = Params {
            capacity: match capacity {
                Some(capacity) => u64::try_from(capacity).unwrap_or(0),
                None => defaults.capacity,
            },
            ..defaults
        };
        if capacity.is_some() && !params.are_valid() {
            return Err(CuckooError::InsertCapacity.into());
        }
        Ok(Self {
            create: (!nocreate).then_some(params),
            items,
        })
    }
}
