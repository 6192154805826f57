//! BF.LOADCHUNK: objects that are loaded in chunks, first the header, then the bytes of the filters or tables.
//!
//! What a chunk does depends on its [`Sender`]:
//!
//! | object | chunk | `Client` | `RedisBloomClient` | `Peer` |
//! |---|---|---|---|---|
//! | any | held already | nothing | nothing | nothing |
//! | none | a header | loaded | loaded | loaded |
//! | partial | the next | loaded | loaded | loaded |
//! | partial | empty | refused | nothing | nothing |
//! | partial | elsewhere in a filter | refused | refused | overwrites, after zeros for what is missing |
//! | complete, no items | in a filter | overwrites | overwrites | overwrites |
//! | complete, with items | in a filter | refused | overwrites | overwrites |
//!
//! All others are refused, and an empty chunk overwrites nothing. Only objects of `RedisBloom` are overwritten or get zeros: it allocates and clears the memory of
//! all filters with the header, and copies each chunk to its place.

use valkeybloom_protocol::bloom::redisbloom::error as redisbloom;
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks::{self, LoadError};
use valkeybloom_sketches::bloom::{Dialect, Object, Refusal};

use crate::feeds::FeedSlot;
use crate::ffi::Ctx;
use crate::settings::follows_redisbloom;

use super::keys::{CREATED, Writer, limits_for};
use super::value::{Value, dialect_of};

impl Writer<'_, '_> {
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
        held.update(|value, _| {
            if let Value::Partial(partial) = value {
                let filled = partial.filled().map_err(|why| match why {
                    DecodeError::Malformed(_) => error,
                    why => refusal(why),
                });
                *value = Value::Complete(filled?);
            }
            Ok(())
        })
    }

    /// Loads a chunk that ends at `cursor`, which is 1 for the header.
    ///
    /// # Errors
    /// - [`Error::WRONG_TYPE`] or [`Error::SAVING`]
    /// - [`Error::BUSY`]: the key holds something else than the header
    /// - [`Error::BAD_CHUNK`], and in its place for a `RedisBloomClient` the errors of `RedisBloom`:
    ///   [`Error::NOT_FOUND`], [`redisbloom::NO_LINK`] or [`redisbloom::LONG_CHUNK`]
    /// - a [`Refusal`]
    ///
    /// After an error the object is what it was.
    pub fn load_chunk(mut self, ctx: Ctx, cursor: u64, bytes: &[u8]) -> Result<(), Error> {
        let sender = Sender::of(ctx);
        let chunk = Chunk {
            ctx,
            sender,
            cursor,
            bytes,
        };
        let Some(held) = self.held()? else {
            return match sender {
                _ if cursor == 1 => self.load_header(ctx, bytes),
                Sender::RedisBloomClient => Err(Error::NOT_FOUND),
                Sender::Client | Sender::Peer => Err(Error::BAD_CHUNK),
            };
        };
        // A step of an upload may arrive twice, because its reply was lost.
        if held.value().holds(cursor, bytes) {
            return Ok(());
        }
        // By the rules of `RedisBloom`, what comes after the first header is a chunk at any cursor.
        let is_by_redisbloom =
            sender != Sender::Client && dialect_of(held.value()) == Dialect::RedisBloom;
        if cursor == 1 && !is_by_redisbloom {
            return Err(Error::BUSY);
        }
        match held.update(|value, feed| chunk.load(value, feed))? {
            Outcome::Ignored => {}
            Outcome::Loaded => self.publish_verbatim([]),
            Outcome::Completed => self.publish_verbatim([CREATED]),
        }
        Ok(())
    }

    /// Loads an object's header under the empty key.
    ///
    /// # Errors
    /// [`Error::BAD_CHUNK`] or a [`Refusal`].
    fn load_header(self, ctx: Ctx, header: &[u8]) -> Result<(), Error> {
        let value = chunks::begin(header, limits_for(ctx, false)).map_err(refusal)?;
        let created = matches!(value, Value::Complete(_)).then_some(CREATED);
        let mut change = self.store(value, None);
        change.replicate_verbatim();
        change.publish(created);
        Ok(())
    }
}

/// The sender of a command, by whose rules its chunk is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// A client of a server with this module's own rules.
    Client,
    /// A client of a server that follows `RedisBloom`.
    RedisBloomClient,
    /// A primary or a log. The command was already executed elsewhere, perhaps by `RedisBloom`.
    Peer,
}

impl Sender {
    fn of(ctx: Ctx) -> Self {
        if ctx.must_obey() {
            Self::Peer
        } else if follows_redisbloom(ctx) {
            Self::RedisBloomClient
        } else {
            Self::Client
        }
    }
}

/// What a chunk did to its object.
enum Outcome {
    /// Nothing.
    Ignored,
    /// The object has the chunk's bytes, and is as complete as it was before.
    Loaded,
    /// The object is complete now, and counts as created.
    Completed,
}

/// A chunk after the header.
struct Chunk<'c> {
    ctx: Ctx<'c>,
    sender: Sender,
    /// One more than the offset of the chunk's end in the bytes of all filters or tables.
    cursor: u64,
    bytes: &'c [u8],
}

impl Chunk<'_> {
    /// Loads the chunk, by the table above.
    ///
    /// # Errors
    /// [`Error::BAD_CHUNK`], any of [`overwrite`](Self::overwrite), or a [`Refusal`].
    fn load(&self, value: &mut Value, feed: &FeedSlot) -> Result<Outcome, Error> {
        let has_own_rules = self.sender == Sender::Client;
        match value {
            Value::Partial(_) if self.bytes.is_empty() && !has_own_rules => Ok(Outcome::Ignored),
            Value::Partial(partial) => {
                let limits = limits_for(self.ctx, false);
                let loaded = match partial.load_within(self.cursor, self.bytes, limits) {
                    Err(LoadError::Decode(DecodeError::Malformed(_)))
                        if self.sender == Sender::Peer =>
                    {
                        let object = partial.overwritten(self.cursor, self.bytes);
                        Some(object.map_err(refusal)?)
                    }
                    loaded => loaded.map_err(refusal)?,
                };
                let Some(object) = loaded else {
                    return Ok(Outcome::Loaded);
                };
                *value = Value::Complete(object);
                Ok(Outcome::Completed)
            }
            // The chunk would replace bits of the items.
            Value::Complete(object) if has_own_rules && object.totals().1 > 0 => {
                Err(Error::BAD_CHUNK)
            }
            Value::Complete(object) => self.overwrite(object, feed),
        }
    }

    /// Replaces bytes of the object with those of the chunk. Its feed ends, because the new bits stand for items that the
    /// feed lacks.
    ///
    /// # Errors
    /// [`Error::BAD_CHUNK`], or for a `RedisBloomClient` the error of [`misplaced`](Self::misplaced).
    fn overwrite(&self, object: &mut Object, feed: &FeedSlot) -> Result<Outcome, Error> {
        let is_theirs = Dialect::of(object) == Dialect::RedisBloom;
        chunks::overwrite(object, self.cursor, self.bytes).map_err(|_| {
            if is_theirs && self.sender == Sender::RedisBloomClient {
                self.misplaced(object)
            } else {
                Error::BAD_CHUNK
            }
        })?;
        if self.bytes.is_empty() {
            return Ok(Outcome::Ignored);
        }
        feed.end();
        Ok(Outcome::Loaded)
    }

    /// Returns `RedisBloom`'s error of a chunk that is not within one filter: either no filter has the chunk's first byte, or
    /// that filter ends before the chunk.
    fn misplaced(&self, object: &Object) -> Error {
        let length = self.bytes.len() as u64;
        // Bytes are counted from 1, as cursors are.
        let Some(first) = self.cursor.checked_sub(length).filter(|_| self.cursor > 0) else {
            return Error::BAD_CHUNK;
        };
        let sizes = object.filters().map(|(filter, _)| filter.geometry());
        let last: u64 = sizes.map(|size| size.cell_bytes).sum();
        if (1..=last).contains(&first) {
            redisbloom::LONG_CHUNK
        } else {
            redisbloom::NO_LINK
        }
    }
}

/// Returns the error of a command whose header or chunk was not loaded.
fn refusal(error: impl Into<LoadError>) -> Error {
    match error.into() {
        LoadError::TooLarge => Error::Refused(Refusal::MemoryLimit),
        LoadError::Decode(DecodeError::NoMemory) => Error::Refused(Refusal::OutOfMemory),
        LoadError::Decode(_) => Error::BAD_CHUNK,
    }
}
