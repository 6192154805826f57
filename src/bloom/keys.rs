//! Keys: open them, create, change and delete what is under them, and publish what happened.
//!
//! Publishing consumes the [`Writer`], which closes its key first: subscribers of an event run at once, and may
//! delete any key. Replicas are told before them, so that what subscribers do comes after what they were told of.

use std::ffi::CStr;

use crate::bloom::stored::Stored;
use crate::config;
use crate::ffi::{
    Access, Ctx, DatabaseEvent, Held, Key, Keyspace, NativeType, Piece, Str, Values, each_value,
};
use crate::ledger::{self, Entered, Weighed};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::double_text;
use valkeybloom_sketches::bloom::chunks::{self, Value};
use valkeybloom_sketches::bloom::{Growth, Limits, Object, Refusal, Shape};
use valkeybloom_sketches::carried::Carried;
use valkeybloom_sketches::cuckoo::Cuckoo;
use valkeybloom_sketches::{DecodeError, Seed};

/// The event of a new object.
const CREATED: &CStr = c"bloom.reserve";
/// The event of an item added to an object.
const ADDED: &CStr = c"bloom.add";
/// The event of an item removed from an object.
const REMOVED: &CStr = c"bloom.del";
/// The server's event of a key that got a time to live.
const EXPIRE: &CStr = c"expire";

/// The limits on this server's clients.
pub fn limits() -> Limits {
    config::limits(Stored::OVERHEAD_BYTES)
}

/// The limits on a command: none if it was already executed elsewhere.
pub fn limits_for(ctx: Ctx) -> Limits {
    if ctx.must_obey() {
        Limits::NONE
    } else {
        limits()
    }
}

/// When a write happened, and its items' time to live and id, where the object uses them.
#[derive(Clone, Copy, Default)]
pub struct Moment {
    /// Milliseconds since the epoch; `None` if the object has no periods.
    pub at_ms: Option<u64>,
    /// The items' time to live in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The items' id.
    pub id: Option<u64>,
    /// The capacity with which the write began their period, if not with the one that was reserved.
    pub room: Option<u64>,
}

impl Moment {
    fn add_to(&self, pieces: &mut Vec<Piece>) {
        let words = [
            (c"AT", self.at_ms),
            (c"TTL", self.ttl_ms),
            (c"ID", self.id),
            (c"ROOM", self.room),
        ];
        for (word, number) in words {
            if let Some(number) = number {
                pieces.extend([Piece::Word(word), Piece::Text(number.to_string())]);
            }
        }
    }
}

/// What a key holds, or `None` if there is no such key.
#[inline]
pub fn found<V>(held: Held<V>) -> Result<Option<V>, Error> {
    match held {
        Held::Nothing => Ok(None),
        Held::Value(value) => Ok(Some(value)),
        Held::Other => Err(Error::WrongType),
        Held::Saving => Err(Error::Saving),
    }
}

#[inline]
fn object_in(held: Held<&Stored>) -> Result<Option<&Object>, Error> {
    found(held)?.map(Stored::object).transpose()
}

/// A key opened for reading.
pub struct Reader<'k, 'a>(Key<'k, 'a>);

impl<'k, 'a> Reader<'k, 'a> {
    /// Opens the key.
    #[inline]
    pub fn open(keys: &'k mut Keyspace<'a>, name: Str<'a>) -> Self {
        Self(keys.open(name, Access::Read))
    }

    /// The object, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    #[inline]
    pub fn object(&self) -> Result<Option<&Object>, Error> {
        object_in(self.0.value())
    }
}

/// Objects under several keys, to be looked at together.
pub struct Readers<'k, 'a>(Values<'k, 'a, Stored>);

impl<'k, 'a> Readers<'k, 'a> {
    /// None so far.
    pub fn new(keys: &'k mut Keyspace<'a>) -> Self {
        Self(Values::new(keys))
    }

    /// The object under the next key. `None` if there is no such key: then the objects before it are no longer
    /// among these, since subscribers may have run.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    pub fn open(&mut self, name: Str<'a>) -> Result<Option<&Object>, Error> {
        object_in(self.0.open(name))
    }

    /// All of them.
    pub fn objects(&self) -> Vec<&Object> {
        self.0
            .all()
            .filter_map(|stored| stored.object().ok())
            .collect()
    }
}

/// A key opened for writing.
pub struct Writer<'k, 'a>(Key<'k, 'a>);

impl<'k, 'a> Writer<'k, 'a> {
    /// Opens the key.
    #[inline]
    pub fn open(keys: &'k mut Keyspace<'a>, name: Str<'a>) -> Self {
        Self(keys.open(name, Access::Write))
    }

    /// Whether there is an object under the key.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::StillLoading`] or [`Error::Saving`].
    pub fn exists(&mut self) -> Result<bool, Error> {
        let object = found(self.0.value_mut::<Stored>())?.map(|stored| stored.object());
        Ok(object.transpose()?.is_some())
    }

    /// Changes the object under the key, or returns `change` unused if there is none.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::StillLoading`] or [`Error::Saving`].
    #[inline]
    pub fn update<C, R>(&mut self, change: C) -> Result<Result<R, C>, Error>
    where
        C: FnOnce(&mut Object) -> R,
    {
        let stored: Option<&mut Stored> = held(&mut self.0)?;
        let Some(stored) = stored else {
            return Ok(Err(change));
        };
        stored.update(|value| match value {
            Value::Complete(object) => Ok(Ok(change(object))),
            Value::Partial(_) => Err(Error::StillLoading),
        })
    }

    /// Stores a new object, which already holds the items `new`, under the empty key. The key expires at
    /// `expires_ms`, if given. An object of `RedisBloom` comes with the header of its chunks when it was empty.
    pub fn create(
        self,
        object: Object,
        header: Option<&[u8]>,
        new: &[Str],
        moment: &Moment,
        expires_ms: Option<i64>,
    ) {
        let shape = object.shape();
        let seed = object.hasher().seed().copied().unwrap_or(Seed::FIXED);
        let mut change = self.store(Value::Complete(object), expires_ms);
        match header {
            None => change.replicate(c"BF.INSERT", &creation(&shape, &seed, new, moment)),
            // Without items, it is the whole object here and there.
            Some(header) => {
                change.replicate(c"BF.LOADCHUNK", &[Piece::Word(c"1"), Piece::Bytes(header)]);
                if !new.is_empty() {
                    change.replicate(c"BF.MADD", &[Piece::Items(new)]);
                }
            }
        }
        change.replicate_expiry(expires_ms);
        let events = [
            Some(CREATED),
            (!new.is_empty()).then_some(ADDED),
            expires_ms.map(|_| EXPIRE),
        ];
        change.publish(events.into_iter().flatten());
    }

    /// Stores an object decoded from a dump. The key expires at `expires_ms`, if given.
    pub fn create_loaded(self, object: Object, dump: &[u8], expires_ms: Option<i64>) {
        let mut change = self.store(Value::Complete(object), expires_ms);
        change.replicate(c"BF.LOAD", &[Piece::Bytes(dump)]);
        change.replicate_expiry(expires_ms);
        change.publish([CREATED].into_iter().chain(expires_ms.map(|_| EXPIRE)));
    }

    /// Stores a merged object. `tidied` is the moment at which passed periods were freed from it, if any were.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::StillLoading`] or [`Error::Saving`].
    pub fn merge(mut self, object: Object, tidied: Option<Moment>) -> Result<(), Error> {
        let (mut change, event) = if self.exists()? {
            // Replaced in place, so that the key keeps its time to live.
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

    /// Publishes that all items of the command were new to the object.
    #[inline]
    pub fn added_all(self) {
        let mut change = self.close();
        change.replicate_verbatim();
        change.publish([ADDED]);
    }

    /// Publishes that these items were new to the object.
    pub fn added(self, new: &[Str]) {
        let mut change = self.close();
        change.replicate(c"BF.MADD", &[Piece::Items(new)]);
        change.publish([ADDED]);
    }

    /// Publishes that these items were added to an object with periods or counters; without items, that
    /// periods passed.
    pub fn added_at(self, items: &[Str], moment: &Moment) {
        let mut change = self.close();
        change.replicate(c"BF.INSERT", &addition(items, moment));
        if !items.is_empty() {
            change.publish([ADDED]);
        }
    }

    /// Publishes that these items were removed from the object; or a single one, added with this id.
    pub fn removed(self, items: &[Str], id: Option<u64>) {
        let command = match items {
            [_] => c"BF.DEL",
            _ => c"BF.MDEL",
        };
        let mut pieces = vec![Piece::Items(items)];
        let moment = Moment {
            id,
            ..Moment::default()
        };
        moment.add_to(&mut pieces);
        let mut change = self.close();
        change.replicate(command, &pieces);
        change.publish([REMOVED]);
    }

    /// Requires that the key is empty, without even a partly loaded object.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::Busy`] or [`Error::Saving`].
    pub fn require_empty(&mut self) -> Result<(), Error> {
        match found(self.0.value_mut::<Stored>())? {
            Some(_) => Err(Error::Busy),
            None => Ok(()),
        }
    }

    /// Stores what an object's first chunk, its header, gives under the empty key.
    pub fn begin(self, value: Value) {
        let complete = matches!(value, Value::Complete(_));
        self.store(value, None).loaded(complete);
    }

    /// Loads the next chunk of an object whose header was loaded. An object of `RedisBloom` without items is complete with
    /// its header, and takes chunks all the same; with items it does if `obeys`: they were loaded elsewhere.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::Saving`], [`Error::BadChunk`] or a [`Refusal::OutOfMemory`]; what was loaded stays.
    pub fn load_chunk(mut self, cursor: u64, chunk: &[u8], obeys: bool) -> Result<(), Error> {
        let stored: Option<&mut Stored> = held(&mut self.0)?;
        let stored = stored.ok_or(Error::BadChunk)?;
        let complete = stored.update(|value| {
            let partial = match value {
                Value::Partial(partial) => partial,
                Value::Complete(object) => {
                    let (_, items, _) = object.totals();
                    let takes = obeys || items == 0;
                    let loaded = takes.then(|| chunks::overwrite(object, cursor, chunk).ok());
                    return loaded.flatten().map(|()| false).ok_or(Error::BadChunk);
                }
            };
            let object = partial.load(cursor, chunk).map_err(|error| match error {
                DecodeError::NoMemory => Error::Refused(Refusal::OutOfMemory),
                _ => Error::BadChunk,
            })?;
            let complete = object.is_some();
            if let Some(object) = object {
                *value = Value::Complete(object);
            }
            Ok(complete)
        })?;
        self.close().loaded(complete);
        Ok(())
    }

    /// Stores a value under the empty key, which expires at `expires_ms`, if given.
    fn store(self, value: Value, expires_ms: Option<i64>) -> Change<'k, 'a> {
        Change::storing(self.0, value, expires_ms)
    }

    #[inline]
    fn close(self) -> Change<'k, 'a> {
        Change::closing(self.0)
    }
}

/// The value under a key, for a change, or `None` if there is none. If the key was renamed, the value is entered in
/// its database's ledger again.
///
/// # Errors
/// [`Error::WrongType`] or [`Error::Saving`].
#[inline]
pub fn held<'h, V: Weighed>(key: &'h mut Key) -> Result<Option<&'h mut Entered<V>>, Error>
where
    Entered<V>: NativeType,
{
    let ctx = key.ctx();
    let mut held = found(key.value_mut::<Entered<V>>())?;
    if let Some(stored) = &mut held
        && stored.is_unlinked()
    {
        stored.enter_in(ledger::of_database(ctx.database()));
    }
    Ok(held)
}

/// Keeps the ledgers in step with what happens to whole databases.
pub fn on_database(event: DatabaseEvent) {
    if let DatabaseEvent::Flush(Some(database)) = event {
        place::<Value>(database);
        place::<Cuckoo>(database);
        place::<Carried>(database);
    }
    ledger::on_database(event);
}

/// What is flushed leaves the sums with the ledger of its database, so it has to be in that.
fn place<V: Weighed>(database: i32)
where
    Entered<V>: NativeType,
{
    let Some(unplaced) = ledger::unplaced() else {
        return;
    };
    let own = ledger::of_database(database);
    each_value(database, &mut |stored: &mut Entered<V>| {
        if stored.is_in(&unplaced) {
            stored.enter_in(own.clone());
        }
    });
}

/// A change that has been made, and its key closed; to be published.
pub struct Change<'k, 'a> {
    keys: &'k mut Keyspace<'a>,
    name: Str<'a>,
}

impl<'k, 'a> Change<'k, 'a> {
    /// A change of the value under this key, which it closes.
    #[inline]
    pub fn closing(key: Key<'k, 'a>) -> Self {
        let name = key.name();
        let keys = key.close();
        Self { keys, name }
    }

    /// Stores a value under the empty key, which expires at `expires_ms`, if given.
    pub fn storing<V: Weighed>(key: Key<'k, 'a>, value: V, expires_ms: Option<i64>) -> Self
    where
        Entered<V>: NativeType,
    {
        let name = key.name();
        let ledger = ledger::of_database(key.ctx().database());
        let keys = key.set(Entered::new(value, ledger), expires_ms);
        Self { keys, name }
    }

    /// Replicates the command as it came.
    #[inline]
    pub fn replicate_verbatim(&mut self) {
        self.keys.replicate_verbatim();
    }

    /// Replicates another command, with the key and then these pieces.
    pub fn replicate(&mut self, command: &CStr, pieces: &[Piece]) {
        self.keys.replicate(command, self.name, pieces);
    }

    /// Replicates the key's expiry as a point in time, since it may be applied later.
    fn replicate_expiry(&mut self, at_ms: Option<i64>) {
        if let Some(ms) = at_ms {
            self.replicate(c"PEXPIREAT", &[Piece::Text(ms.to_string())]);
        }
    }

    /// Publishes that a chunk was loaded, and whether it was the last.
    fn loaded(mut self, complete: bool) {
        self.replicate_verbatim();
        self.publish(complete.then_some(CREATED));
    }

    /// Signals the change, and then tells subscribers, who may change or delete the key.
    #[inline]
    pub fn publish(self, events: impl IntoIterator<Item = &'static CStr>) {
        self.keys.signal_modified(self.name);
        for event in events {
            self.keys.notify(event, self.name);
        }
    }
}

/// `NOCREATE … [ITEMS …]`: what was added to an object with periods or counters.
fn addition<'c>(items: &'c [Str<'c>], moment: &Moment) -> Vec<Piece<'c>> {
    let mut pieces = vec![Piece::Word(c"NOCREATE")];
    moment.add_to(&mut pieces);
    if !items.is_empty() {
        pieces.extend([Piece::Word(c"ITEMS"), Piece::Items(items)]);
    }
    pieces
}

/// `CAPACITY c ERROR r TIGHTENING t SEED s EXPANSION n|NONSCALING … [ITEMS …]`: every parameter, so that
/// a server with other settings builds the same object.
fn creation<'c>(
    shape: &Shape,
    seed: &'c Seed,
    new: &'c [Str<'c>],
    moment: &Moment,
) -> Vec<Piece<'c>> {
    let params = shape.params;
    let mut pieces = vec![
        Piece::Word(c"CAPACITY"),
        Piece::Text(params.capacity.to_string()),
        Piece::Word(c"ERROR"),
        Piece::Text(double_text(params.error_rate.get())),
        Piece::Word(c"TIGHTENING"),
        Piece::Text(double_text(params.tightening.to_stored())),
        Piece::Word(c"SEED"),
        Piece::Bytes(seed.as_bytes()),
    ];
    match params.growth {
        Growth::Fixed => pieces.push(Piece::Word(c"NONSCALING")),
        Growth::By(factor) => {
            pieces.extend([Piece::Word(c"EXPANSION"), Piece::Text(factor.to_string())]);
        }
    }
    if let Some(window) = shape.window() {
        pieces.extend([
            Piece::Word(c"WINDOW"),
            Piece::Text(window.period_ms().to_string()),
        ]);
        pieces.extend([
            Piece::Word(c"PERIODS"),
            Piece::Text(window.periods().to_string()),
        ]);
    }
    if shape.is_counting() {
        pieces.push(Piece::Word(c"COUNTING"));
    }
    moment.add_to(&mut pieces);
    if !new.is_empty() {
        pieces.extend([Piece::Word(c"ITEMS"), Piece::Items(new)]);
    }
    pieces
}
