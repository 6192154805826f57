//! Objects that are loaded in chunks: first the header, then the bytes of the filters or tables.
//!
//! A chunk is a client's, a client's on a server that follows `RedisBloom`, or a peer's, which may be `RedisBloom`: the
//! command was already executed there. This becomes of it:
//!
//! | object | chunk | client | client, `RedisBloom` followed | peer |
//! |---|---|---|---|---|
//! | partial | in order | loaded | loaded | loaded |
//! | | elsewhere | refused | refused | zeros complete the object, then overwritten |
//! | | empty | refused | ignored | ignored |
//! | complete, no items | within a filter | overwritten | overwritten | overwritten |
//! | complete, with items | within a filter | refused | overwritten | overwritten |
//!
//! Zeros complete objects of `RedisBloom` alone, and only those are overwritten. No other chunk changes anything.

use valkeybloom_protocol::bloom::redisbloom::error as redisbloom;
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks::{self, LoadError};
use valkeybloom_sketches::bloom::{Dialect, Object, Refusal};

use crate::feeds::FeedSlot;
use crate::ffi::Ctx;
use crate::keys::Change;
use crate::settings::{follows_redisbloom, has_redisbloom_rules};

use super::keys::{CREATED, Writer, limits_for};
use super::value::{Value, dialect_of};

impl Writer<'_, '_> {
    /// Returns whether the key holds an object of `RedisBloom`'s kind, complete or not.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`] or [`Error::SAVING`].
    pub fn holds_redisbloom(&mut self) -> Result<bool, Error> {
        let held = self.held()?;
        Ok(held.is_some_and(|stored| dialect_of(stored.value()) == Dialect::RedisBloom))
    }

    /// Completes an object that lacks chunks, after a command failed with `error`. `RedisBloom` adds to such an object, and
    /// replicates that.
    ///
    /// # Errors
    /// `error`, unless the command was already executed elsewhere and the object is of `RedisBloom`; or a [`Refusal`].
    pub fn complete_for(&mut self, ctx: Ctx, error: Error) -> Result<(), Error> {
        if error != Error::STILL_LOADING || !ctx.must_obey() {
            return Err(error);
        }
        let held = self.held()?.ok_or(error)?;
        held.update(|value, _| match fill(value) {
            Err(DecodeError::Malformed(_)) => Err(error),
            filled => filled.map_err(refusal),
        })
    }

    /// Loads an object's header, its first chunk, under the empty key.
    ///
    /// # Errors
    /// [`Error::BAD_CHUNK`] or a [`Refusal`].
    pub fn load_header(self, ctx: Ctx, header: &[u8]) -> Result<(), Error> {
        let value = chunks::begin(header, limits_for(ctx, false)).map_err(refusal)?;
        let loaded = match value {
            Value::Complete(_) => Loaded::Completed,
            Value::Partial(_) => Loaded::More,
        };
        loaded.publish(self.store(value, None));
        Ok(())
    }

    /// Loads the next chunk of an object whose header was loaded.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], [`Error::SAVING`], [`Error::BAD_CHUNK`] or a [`Refusal`]; chunks loaded before stay.
    pub fn load_chunk(mut self, ctx: Ctx, cursor: u64, bytes: &[u8]) -> Result<(), Error> {
        let held = self.held()?.ok_or(Error::BAD_CHUNK)?;
        let chunk = Chunk { ctx, cursor, bytes };
        let loaded = held.update(|value, feed| chunk.load(value, feed))?;
        loaded.publish(self.close());
        Ok(())
    }
}

/// What a loaded chunk made of its object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loaded {
    /// The object still lacks chunks, or was complete before.
    More,
    /// The chunk completed the object.
    Completed,
}

impl Loaded {
    /// Publishes that a chunk was loaded. An object counts as created once it is complete.
    fn publish(self, mut change: Change) {
        change.replicate_verbatim();
        change.publish((self == Self::Completed).then_some(CREATED));
    }
}

/// A chunk after the header.
struct Chunk<'c> {
    ctx: Ctx<'c>,
    /// Where the chunk ends in the object.
    cursor: u64,
    bytes: &'c [u8],
}

impl Chunk<'_> {
    /// Loads the chunk. By `RedisBloom`'s rules a chunk may be empty.
    ///
    /// # Errors
    /// [`Error::BAD_CHUNK`], any of [`misplaced`](Self::misplaced), or a [`Refusal`].
    fn load(&self, value: &mut Value, feed: &FeedSlot) -> Result<Loaded, Error> {
        let partial = match value {
            Value::Complete(object) => return self.load_complete(object, feed),
            Value::Partial(partial) => partial,
        };
        if self.bytes.is_empty() && has_redisbloom_rules(self.ctx) {
            return Ok(Loaded::More);
        }
        match partial.load_within(self.cursor, self.bytes, limits_for(self.ctx, false)) {
            Ok(None) => Ok(Loaded::More),
            Ok(Some(object)) => {
                *value = Value::Complete(object);
                Ok(Loaded::Completed)
            }
            // Chunks that were already executed elsewhere come in any order.
            Err(LoadError::Decode(DecodeError::Malformed(_))) if self.ctx.must_obey() => {
                let object = partial.overwritten(self.cursor, self.bytes);
                *value = Value::Complete(object.map_err(refusal)?);
                Ok(Loaded::Completed)
            }
            Err(error) => Err(refusal(error)),
        }
    }

    /// Loads the chunk into a complete object of `RedisBloom`. Without items, such an object is complete with its header,
    /// and accepts chunks. With items it accepts them only by `RedisBloom`'s rules, because they replace bits of the items.
    ///
    /// # Errors
    /// [`Error::BAD_CHUNK`] or any of [`misplaced`](Self::misplaced).
    fn load_complete(&self, object: &mut Object, feed: &FeedSlot) -> Result<Loaded, Error> {
        let (_, items, _) = object.totals();
        if items > 0 && !has_redisbloom_rules(self.ctx) {
            return Err(Error::BAD_CHUNK);
        }
        self.overwrite(object, feed).map(|()| Loaded::More)
    }

    /// Overwrites bits of the object with those of the chunk. A feed holds items, so it ends.
    ///
    /// # Errors
    /// [`Error::BAD_CHUNK`] or any of [`misplaced`](Self::misplaced).
    fn overwrite(&self, object: &mut Object, feed: &FeedSlot) -> Result<(), Error> {
        chunks::overwrite(object, self.cursor, self.bytes).map_err(|error| match error {
            DecodeError::Malformed(_) if follows_redisbloom(self.ctx) => self.misplaced(object),
            error => refusal(error),
        })?;
        feed.end();
        Ok(())
    }

    /// Returns `RedisBloom`'s error of a chunk that is not within one filter.
    fn misplaced(&self, object: &Object) -> Error {
        let start = self.cursor.checked_sub(self.bytes.len() as u64);
        let Some(start) = start.filter(|_| self.cursor > 0) else {
            return Error::BAD_CHUNK;
        };
        let sizes = object.filters().map(|(filter, _)| filter.geometry());
        let total: u64 = sizes.map(|size| size.cell_bytes).sum();
        if (1..=total).contains(&start) {
            redisbloom::LONG_CHUNK
        } else {
            redisbloom::NO_LINK
        }
    }
}

/// Completes an object of `RedisBloom`, whose missing bytes are zeros there.
///
/// # Errors
/// Any [`DecodeError`]; other dialects have no such object.
fn fill(value: &mut Value) -> Result<(), DecodeError> {
    if let Value::Partial(partial) = value {
        *value = Value::Complete(partial.filled()?);
    }
    Ok(())
}

/// Returns the error of a command whose header or chunk was not loaded.
fn refusal(error: impl Into<LoadError>) -> Error {
    match error.into() {
        LoadError::TooLarge => Error::Refused(Refusal::MemoryLimit),
        LoadError::Decode(DecodeError::NoMemory) => Error::Refused(Refusal::OutOfMemory),
        LoadError::Decode(_) => Error::BAD_CHUNK,
    }
}
