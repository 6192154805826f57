//! The words of a command, and where it comes from.

use std::ops::Range;

use crate::ffi::{Argv, Ctx, Str};
use valkeybloom_protocol::error::{Error, Field};
use valkeybloom_protocol::words::{Origin, Words};
use valkeybloom_sketches::bloom::Refusal;

impl Words for Argv<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> &[u8] {
        self.string(index).bytes()
    }
}

/// The items among the words.
pub fn items(args: Argv<'_>, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
    args.bytes_in(range)
}

/// An empty list with room for exactly `count` values.
///
/// # Errors
/// There is no memory: a command may have any number of items.
pub fn reserved<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut list = Vec::new();
    let room = list.try_reserve_exact(count);
    room.map_err(|_| Error::Refused(Refusal::OutOfMemory))?;
    Ok(list)
}

/// The command's key, which is its first argument.
pub fn key<'a>(args: &Argv<'a>) -> Str<'a> {
    args.string(1)
}

/// The only item of a command whose second argument it is.
pub fn item<'a>(args: &Argv<'a>) -> &'a [u8] {
    args.string(2).bytes()
}

/// Whether a command comes from a client, or was already executed elsewhere.
pub fn origin(ctx: Ctx) -> Origin {
    if ctx.must_obey() {
        Origin::Elsewhere
    } else {
        Origin::Client
    }
}

/// The time, in milliseconds since the epoch, at which a time to live that starts now ends.
///
/// # Errors
/// It is past the end of time.
pub fn expiry(ttl_ms: u64) -> Result<i64, Error> {
    let at_ms = Ctx::now_ms().checked_add(ttl_ms);
    let at_ms = at_ms.and_then(|ms| i64::try_from(ms).ok());
    at_ms.ok_or(Error::Bad(Field::Ttl))
}
