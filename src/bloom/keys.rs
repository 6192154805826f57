//! Keys with Bloom objects: storing, replicating and publishing their changes.

use std::ffi::CStr;

use smallvec::SmallVec;
use valkeybloom_protocol::bloom::Moment;
use valkeybloom_protocol::bloom::redisbloom::error as redisbloom;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::double_text;
use valkeybloom_sketches::bloom::chunks;
use valkeybloom_sketches::bloom::{Dialect, Growth, Kind, Limits, Object, Refusal, Shape};
use valkeybloom_sketches::{DecodeError, Seed};

use crate::ffi::{Argument, Ctx, Str};
use crate::keys::{self, Change};
use crate::settings::{follows_redisbloom, has_redisbloom_rules};

use super::receipts::Noted;
use super::settings;
use super::value::{OVERHEAD_BYTES, Value, dialect_of, memory_bytes};

/// A key opened for reading.
pub type Reader<'k, 'a> = keys::Reader<'k, 'a, Value>;
/// A key opened for writing.
pub type Writer<'k, 'a> = keys::Writer<'k, 'a, Value>;
/// Objects under several keys, to be read together.
pub type Readers<'k, 'a> = keys::Readers<'k, 'a, Value>;

/// The event of a new object.
const CREATED: &CStr = c"bloom.reserve";
/// The event of an item added to an object.
pub const ADDED: &CStr = c"bloom.add";
/// The event of an item removed from an object.
pub const REMOVED: &CStr = c"bloom.del";
/// The server's event of a key that got a time to live.
const EXPIRE: &CStr = c"expire";

/// Returns the limits on this server's clients.
pub fn limits() -> Limits {
    settings::limits(OVERHEAD_BYTES)
}

/// Returns the limits on a command. A command that was already executed elsewhere has no limits, but a full
/// non-scaling object takes its items only if `saturate` is set: the capacity is part of the object, and peers
/// replicate commands that were refused.
pub fn limits_for(ctx: Ctx, saturate: bool) -> Limits {
    if ctx.must_obey() {
        Limits {
            saturate,
            ..Limits::NONE
        }
    } else {
        limits()
    }
}

/// Returns the bytes that an object's feed may take.
pub fn feed_bytes(object: &Object) -> u64 {
    settings::feed_bytes(memory_bytes(object))
}

/// Adds an option with a value.
fn add<'c>(to: &mut impl Extend<Argument<'c>>, word: &'static CStr, value: Argument<'c>) {
    to.extend([Argument::Word(word), value]);
}

/// Adds the options of a write that the object uses.
fn add_moment<'c>(moment: &Moment, arguments: &mut impl Extend<Argument<'c>>) {
    let words = [(c"AT", moment.at_ms), (c"TTL", moment.ttl_ms)];
    for (word, number) in words {
        if let Some(number) = number {
            add(arguments, word, Argument::Number(number));
        }
    }
    if moment.saturate {
        arguments.extend([Argument::Word(c"SATURATE")]);
    }
}

/// Publishes the change of a filter, which was replicated, and its answers. Without events, the filter has not changed
/// for its readers.
fn publish<'a>(
    mut change: Change<'_, 'a>,
    noted: Option<Noted<'a>>,
    events: impl IntoIterator<Item = &'static CStr>,
) {
    let kept = noted.map(|noted| noted.keep(&mut change));
    let mut events = events.into_iter().peekable();
    let keys = match events.peek() {
        Some(_) => change.publish(events),
        None => change.into_keys(),
    };
    if let Some(kept) = kept {
        kept.publish(keys);
    }
}

impl<'a> Writer<'_, 'a> {
    /// Stores an object, which already holds its items, under the empty key. Replicas add `items` to theirs. For an object of
    /// `RedisBloom`, `header` is that of its chunks before any item was added. The key expires at `expires_ms`, if given.
    pub fn create(
        self,
        object: Object,
        header: Option<Vec<u8>>,
        expires_ms: Option<i64>,
        items: &[Str],
        moment: &Moment,
        noted: Option<Noted<'a>>,
    ) {
        let shape = object.shape();
        let seed = object.hasher().seed().copied().unwrap_or(Seed::FIXED);
        let mut change = self.store(Value::Complete(object), expires_ms);
        match header {
            None => change.replicate(c"BF.INSERT", &creation(&shape, &seed, items, moment)),
            // Without items, the header is the entire object, on replicas too.
            Some(header) => {
                change.replicate(
                    c"BF.LOADCHUNK",
                    &[Argument::Word(c"1"), Argument::Bytes(&header)],
                );
                if moment.saturate {
                    change.replicate(c"BF.INSERT", &addition(items, moment));
                } else if !items.is_empty() {
                    change.replicate(c"BF.MADD", &[Argument::Items(items)]);
                }
            }
        }
        change.replicate_expiry(expires_ms);
        let events = [
            Some(CREATED),
            (!items.is_empty()).then_some(ADDED),
            expires_ms.map(|_| EXPIRE),
        ];
        publish(change, noted, events.into_iter().flatten());
    }

    /// Stores an object decoded from a dump. The key expires at `expires_ms`, if given.
    pub fn create_loaded(self, object: Object, dump: &[u8], expires_ms: Option<i64>) {
        let mut change = self.store(Value::Complete(object), expires_ms);
        change.replicate(c"BF.LOAD", &[Argument::Bytes(dump)]);
        change.replicate_expiry(expires_ms);
        change.publish([CREATED].into_iter().chain(expires_ms.map(|_| EXPIRE)));
    }

    /// Stores a merged object. `tidied` is the moment at which items expired in it, if any did.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], [`Error::STILL_LOADING`] or [`Error::SAVING`].
    pub fn merge(mut self, object: Object, tidied: Option<Moment>) -> Result<(), Error> {
        let (mut change, event) = if self.exists()? {
            // Replace the object in place, so that the key keeps its time to live.
            let _ = self.update(|held| *held = object)?;
            (self.close(), ADDED)
        } else {
            (self.store(Value::Complete(object), None), CREATED)
        };
        change.replicate_verbatim();
        if let Some(moment) = tidied {
            change.replicate(c"BF.INSERT", &addition(&[], &moment));
        }
        change.publish([event]);
        Ok(())
    }

    /// Publishes that these items were added to an object of tables, or to a full one. Without items,
    /// publishes that items have expired.
    pub fn added_at(self, items: &[Str], moment: &Moment, noted: Option<Noted<'a>>) {
        let mut change = self.close();
        change.replicate(c"BF.INSERT", &addition(items, moment));
        publish(change, noted, (!items.is_empty()).then_some(ADDED));
    }

    /// Publishes that these items were added to a plain object.
    pub fn added(self, items: &[Str], noted: Option<Noted<'a>>) {
        let mut change = self.close();
        change.replicate(c"BF.MADD", &[Argument::Items(items)]);
        publish(change, noted, [ADDED]);
    }

    /// Publishes the answers of items that did not change the object.
    pub fn answered(self, noted: Noted<'a>) {
        publish(self.close(), Some(noted), []);
    }

    /// Returns whether the key holds an object of `RedisBloom`'s kind, complete or not.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`] or [`Error::SAVING`].
    pub fn holds_redisbloom(&mut self) -> Result<bool, Error> {
        let held = self.held()?;
        Ok(held.is_some_and(|stored| dialect_of(stored.value()) == Dialect::RedisBloom))
    }

    /// Completes an object that lacks chunks, after `error` has kept a command from adding to it. `RedisBloom` adds to
    /// such an object, whose missing bytes are zeros there, and replicates that.
    ///
    /// # Errors
    /// `error`, unless the command was already executed elsewhere and the object is of `RedisBloom`.
    pub fn complete_for(&mut self, ctx: Ctx, error: Error) -> Result<(), Error> {
        if error != Error::STILL_LOADING || !ctx.must_obey() {
            return Err(error);
        }
        let held = self.held()?.ok_or(error)?;
        held.update(|value, _| match value {
            Value::Complete(_) => Ok(()),
            Value::Partial(partial) => {
                *value = Value::Complete(partial.filled().map_err(|_| error)?);
                Ok(())
            }
        })
    }

    /// Stores the value decoded from an object's first chunk, its header, under the empty key.
    pub fn begin(self, value: Value) {
        let complete = matches!(value, Value::Complete(_));
        loaded(self.store(value, None), complete);
    }

    /// Loads the next chunk of an object whose header was loaded. An object of `RedisBloom` without items is complete
    /// with its header, and still accepts chunks. With items it accepts them only by `RedisBloom`'s rules, because they
    /// replace bits of the items. By these rules chunks may be empty; and those that were already executed elsewhere
    /// come in any order.
    ///
    /// # Errors
    /// [`Error::WRONG_TYPE`], [`Error::SAVING`], [`Error::BAD_CHUNK`] or a [`Refusal`]; chunks loaded before stay.
    pub fn load_chunk(mut self, ctx: Ctx, cursor: u64, chunk: &[u8]) -> Result<(), Error> {
        let (by_redisbloom, limits) = (has_redisbloom_rules(ctx), limits_for(ctx, false));
        let held = self.held()?.ok_or(Error::BAD_CHUNK)?;
        let complete = held.update(|value, feed| {
            let refused = |error| match error {
                DecodeError::NoMemory => Error::Refused(Refusal::OutOfMemory),
                _ => Error::BAD_CHUNK,
            };
            let overwrite = |object: &mut Object| {
                chunks::overwrite(object, cursor, chunk).map_err(|error| match error {
                    DecodeError::Malformed(_) if follows_redisbloom(ctx) => {
                        misplaced(object, cursor, chunk.len() as u64)
                    }
                    error => refused(error),
                })?;
                feed.end();
                Ok(())
            };
            match value {
                Value::Complete(object) => {
                    let (_, items, _) = object.totals();
                    if items > 0 && !by_redisbloom {
                        return Err(Error::BAD_CHUNK);
                    }
                    overwrite(object).map(|()| false)
                }
                Value::Partial(_) if by_redisbloom && chunk.is_empty() => Ok(false),
                Value::Partial(partial) if !partial.admits(chunk, limits) => {
                    Err(Error::Refused(Refusal::MemoryLimit))
                }
                Value::Partial(partial) => match partial.load(cursor, chunk) {
                    Ok(None) => Ok(false),
                    Ok(Some(object)) if !object.is_plain() && !object.is_within(limits) => {
                        partial.take_back();
                        Err(Error::Refused(Refusal::MemoryLimit))
                    }
                    Ok(Some(object)) => {
                        *value = Value::Complete(object);
                        Ok(true)
                    }
                    Err(DecodeError::Malformed(_)) if ctx.must_obey() => {
                        let mut object = partial.filled().map_err(refused)?;
                        let overwritten = overwrite(&mut object);
                        *value = Value::Complete(object);
                        overwritten.map(|()| true)
                    }
                    Err(error) => Err(refused(error)),
                },
            }
        })?;
        loaded(self.close(), complete);
        Ok(())
    }
}

/// Returns `RedisBloom`'s error of a chunk that is not within one filter.
fn misplaced(object: &Object, cursor: u64, length: u64) -> Error {
    if cursor == 0 || cursor < length {
        return Error::BAD_CHUNK;
    }
    let mut bytes_before = 0_u64;
    let is_within = object.filters().any(|(filter, _)| {
        bytes_before += filter.geometry().cell_bytes;
        (1..=bytes_before).contains(&(cursor - length))
    });
    if is_within {
        redisbloom::LONG_CHUNK
    } else {
        redisbloom::NO_LINK
    }
}

/// Publishes that a chunk was loaded; `complete` is set if the object is complete now.
fn loaded(mut change: Change, complete: bool) {
    change.replicate_verbatim();
    change.publish(complete.then_some(CREATED));
}

/// The arguments of an addition: at most NOCREATE, three options, and ITEMS.
type Arguments<'c> = SmallVec<[Argument<'c>; 8]>;

/// Returns `NOCREATE … [ITEMS …]`: the addition of items to an object of tables, or to a full one.
fn addition<'c>(items: &'c [Str<'c>], moment: &Moment) -> Arguments<'c> {
    let mut arguments = Arguments::new();
    arguments.push(Argument::Word(c"NOCREATE"));
    add_moment(moment, &mut arguments);
    if !items.is_empty() {
        add(&mut arguments, c"ITEMS", Argument::Items(items));
    }
    arguments
}

/// Returns `CAPACITY c ERROR r TIGHTENING t SEED s EXPANSION n|NONSCALING … [ITEMS …]`: every parameter, so
/// that a server with other settings builds the same object.
fn creation<'c>(
    shape: &Shape,
    seed: &'c Seed,
    new: &'c [Str<'c>],
    moment: &Moment,
) -> Vec<Argument<'c>> {
    let params = shape.params;
    let mut arguments = Vec::new();
    let to = &mut arguments;
    let double = |number| Argument::Text(double_text(number));
    add(to, c"CAPACITY", Argument::Number(params.capacity));
    add(to, c"ERROR", double(params.error_rate.get()));
    add(to, c"TIGHTENING", double(params.tightening.to_stored()));
    add(to, c"SEED", Argument::Bytes(seed.as_bytes()));
    match params.growth {
        Growth::Fixed => to.push(Argument::Word(c"NONSCALING")),
        Growth::By(factor) => add(to, c"EXPANSION", Argument::Number(factor.get().into())),
    }
    match shape.kind {
        Kind::Windowed(window) => {
            add(to, c"WINDOW", Argument::Number(window.period_ms()));
            add(to, c"PERIODS", Argument::Number(window.periods()));
        }
        Kind::Counting => to.push(Argument::Word(c"COUNTING")),
        Kind::ScaledTo => add(to, c"SCALETO", Argument::Number(params.capacity)),
        Kind::Plain => {}
    }
    add_moment(moment, &mut arguments);
    if !new.is_empty() {
        add(&mut arguments, c"ITEMS", Argument::Items(new));
    }
    arguments
}
