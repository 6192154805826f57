//! The words of a command, and its origin.

use std::ops::Range;

use smallvec::SmallVec;

use crate::ffi::{Argv, Ctx, Str, server};
use crate::settings::has_redisbloom_rules;
use valkeybloom_protocol::error::{Error, Field};
use valkeybloom_protocol::words::{CommandWords, Grammar, Origin};
use valkeybloom_sketches::bloom::Refusal;

impl CommandWords for Argv<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> &[u8] {
        self.string(index).bytes()
    }
}

/// Returns the items in a range of the words.
pub fn items(args: Argv<'_>, range: Range<usize>) -> impl Iterator<Item = &[u8]> + Clone {
    args.bytes_in(range)
}

/// A list with a value for each item of a command. Most commands have one item, whose list is not allocated.
pub type List<T> = SmallVec<[T; 1]>;

/// Returns an empty list with room for exactly `count` values.
///
/// # Errors
/// There is not enough memory: a command may have any number of items.
pub fn reserved<T>(count: usize) -> Result<List<T>, Error> {
    let mut list = List::new();
    let room = list.try_reserve_exact(count);
    room.map_err(|_| Error::Refused(Refusal::OutOfMemory))?;
    Ok(list)
}

/// Returns the command's key, its first argument.
pub fn key<'a>(args: &Argv<'a>) -> Str<'a> {
    args.string(1)
}

/// Returns the item of a command whose second argument is an item.
pub fn item<'a>(args: &Argv<'a>) -> &'a [u8] {
    args.string(2).bytes()
}

/// Returns whether a command comes from a client or was already executed elsewhere.
pub fn origin(ctx: Ctx) -> Origin {
    if ctx.must_obey() {
        Origin::Elsewhere
    } else {
        Origin::Client
    }
}

/// Returns the grammar of the words of a command that `RedisBloom` has, too.
pub fn grammar(ctx: Ctx) -> Grammar {
    if has_redisbloom_rules(ctx) {
        Grammar::RedisBloom
    } else {
        Grammar::Own
    }
}

/// Returns the end of a time to live that starts now, in milliseconds since the epoch.
///
/// # Errors
/// The end does not fit an `i64`.
pub fn expiry(ttl_ms: u64) -> Result<i64, Error> {
    let at_ms = server::now_ms().checked_add(ttl_ms);
    let at_ms = at_ms.and_then(|ms| i64::try_from(ms).ok());
    at_ms.ok_or(Error::Bad(Field::TTL))
}
