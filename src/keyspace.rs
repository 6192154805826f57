//! Keys: open them, create, change and delete what is under them, and publish what happened.

use std::ffi::CStr;

use crate::bloom::chunks::Value;
use crate::bloom::{DecodeError, Growth, Limits, Object, Refusal, Seed};
use crate::config;
use crate::ffi::{Access, Ctx, Held, Key, Piece, Str};
use crate::ledger;
use crate::numerals::double_text;
use crate::reply::Error;
use crate::stored::Stored;

/// The event of a new object.
const CREATED: &CStr = c"bloom.reserve";
/// The event of an item added to an object.
const ADDED: &CStr = c"bloom.add";
/// The event of an item removed from an object.
const REMOVED: &CStr = c"bloom.del";

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
}

impl Moment {
    fn add_to(&self, pieces: &mut Vec<Piece>) {
        let words = [(c"AT", self.at_ms), (c"TTL", self.ttl_ms), (c"ID", self.id)];
        for (word, number) in words {
            if let Some(number) = number {
                pieces.extend([Piece::Word(word), Piece::Text(number.to_string())]);
            }
        }
    }
}

/// A key opened for reading.
pub struct Reader<'a>(Key<'a>);

impl<'a> Reader<'a> {
    /// Opens the key.
    #[inline]
    pub fn open(ctx: Ctx<'a>, name: Str<'a>) -> Self {
        Self(ctx.open(name, Access::Read))
    }

    /// The object, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    #[inline]
    pub fn object(&self) -> Result<Option<&Object>, Error> {
        match self.0.value::<Stored>() {
            Held::Nothing => Ok(None),
            Held::Other => Err(Error::WrongType),
            Held::Value(stored) => stored.object().map(Some),
        }
    }
}

/// A key opened for writing.
pub struct Writer<'a> {
    ctx: Ctx<'a>,
    name: Str<'a>,
    key: Key<'a>,
}

impl<'a> Writer<'a> {
    /// Opens the key.
    #[inline]
    pub fn open(ctx: Ctx<'a>, name: Str<'a>) -> Self {
        let key = ctx.open(name, Access::Write);
        Self { ctx, name, key }
    }

    /// Whether there is an object under the key.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    pub fn exists(&self) -> Result<bool, Error> {
        match self.key.value::<Stored>() {
            Held::Nothing => Ok(false),
            Held::Other => Err(Error::WrongType),
            Held::Value(stored) => stored.object().map(|_| true),
        }
    }

    /// Changes the object under the key, or returns `change` unused if there is none.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    #[inline]
    pub fn update<C, R>(&mut self, change: C) -> Result<Result<R, C>, Error>
    where
        C: FnOnce(&mut Object) -> R,
    {
        match self.held() {
            Held::Nothing => Ok(Err(change)),
            Held::Other => Err(Error::WrongType),
            Held::Value(stored) => stored.update(|value| match value {
                Value::Complete(object) => Ok(Ok(change(object))),
                Value::Partial(_) => Err(Error::StillLoading),
            }),
        }
    }

    /// The value under the key, for a change. If the key was renamed, the value is entered in its database's
    /// ledger again.
    #[inline]
    fn held(&mut self) -> Held<&mut Stored> {
        let held = self.key.value_mut::<Stored>();
        if let Held::Value(stored) = held {
            if stored.is_unlinked() {
                stored.enter_in(ledger::of_database(self.ctx.database()));
            }
            return Held::Value(stored);
        }
        held
    }

    /// Stores a new object, which already holds the items `new`, under the empty key. The key expires at
    /// `expires_ms`, if given.
    pub fn create(mut self, object: Object, new: &[Str], moment: &Moment, expires_ms: Option<i64>) {
        let creation = creation(&self.name, &object, new, moment);
        self.ctx.replicate(c"BF.INSERT", &creation);
        self.store(Value::Complete(object));
        self.expire(expires_ms);
        self.publish(&[CREATED]);
        if !new.is_empty() {
            self.ctx.notify(ADDED, self.name);
        }
    }

    /// Stores an object decoded from a dump. The key expires at `expires_ms`, if given.
    pub fn create_loaded(mut self, object: Object, dump: &[u8], expires_ms: Option<i64>) {
        self.store(Value::Complete(object));
        let key = Piece::Items(std::slice::from_ref(&self.name));
        self.ctx.replicate(c"BF.LOAD", &[key, Piece::Bytes(dump)]);
        self.expire(expires_ms);
        self.publish(&[CREATED]);
    }

    /// Sets the key's expiry, and replicates it as a point in time, since it may be applied later.
    fn expire(&mut self, at_ms: Option<i64>) {
        if let Some(ms) = at_ms {
            self.key.expire_at(ms);
            let key = Piece::Items(std::slice::from_ref(&self.name));
            let time = Piece::Text(ms.to_string());
            self.ctx.replicate(c"PEXPIREAT", &[key, time]);
        }
    }

    /// Stores a merged object. `tidied` is the moment at which passed periods were freed from it, if any were.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    pub fn merge(mut self, object: Object, tidied: Option<Moment>) -> Result<(), Error> {
        let event = if self.exists()? {
            // Replaced in place, so that the key keeps its time to live.
            let _ = self.update(|held| *held = object)?;
            ADDED
        } else {
            self.store(Value::Complete(object));
            CREATED
        };
        self.ctx.replicate_verbatim();
        self.publish(&[event]);
        if let Some(moment) = tidied {
            self.added_at(&[], &moment);
        }
        Ok(())
    }

    /// Publishes that all items of the command were new to the object.
    #[inline]
    pub fn added_all(self) {
        self.ctx.replicate_verbatim();
        self.publish(&[ADDED]);
    }

    /// Publishes that these items were new to the object.
    pub fn added(self, new: &[Str]) {
        let key = Piece::Items(std::slice::from_ref(&self.name));
        self.ctx.replicate(c"BF.MADD", &[key, Piece::Items(new)]);
        self.publish(&[ADDED]);
    }

    /// Publishes that these items were added to an object with periods or counters; without items, that
    /// periods passed.
    pub fn added_at(self, items: &[Str], moment: &Moment) {
        let mut pieces = vec![
            Piece::Items(std::slice::from_ref(&self.name)),
            Piece::Word(c"NOCREATE"),
        ];
        moment.add_to(&mut pieces);
        if !items.is_empty() {
            pieces.extend([Piece::Word(c"ITEMS"), Piece::Items(items)]);
        }
        self.ctx.replicate(c"BF.INSERT", &pieces);
        if !items.is_empty() {
            self.publish(&[ADDED]);
        }
    }

    /// Publishes that these items, added with this id, were removed from the object.
    pub fn removed(self, items: &[Str], id: Option<u64>) {
        let moment = Moment {
            id,
            ..Moment::default()
        };
        for item in items {
            let mut pieces = vec![
                Piece::Items(std::slice::from_ref(&self.name)),
                Piece::Items(std::slice::from_ref(item)),
            ];
            moment.add_to(&mut pieces);
            self.ctx.replicate(c"BF.DEL", &pieces);
        }
        self.publish(&[REMOVED]);
    }

    /// Requires that the key is empty, without even a partly loaded object.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::Busy`].
    pub fn require_empty(&self) -> Result<(), Error> {
        match self.key.value::<Stored>() {
            Held::Nothing => Ok(()),
            Held::Value(_) => Err(Error::Busy),
            Held::Other => Err(Error::WrongType),
        }
    }

    /// Stores what an object's first chunk, its header, gives under the empty key.
    pub fn begin(mut self, value: Value) {
        let events: &[_] = match value {
            Value::Partial(_) => &[],
            Value::Complete(_) => &[CREATED],
        };
        self.store(value);
        self.ctx.replicate_verbatim();
        self.publish(events);
    }

    /// Loads the next chunk of an object whose header was loaded.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::BadChunk`] or a [`Refusal::OutOfMemory`]; what was loaded stays.
    pub fn load_chunk(mut self, cursor: u64, chunk: &[u8]) -> Result<(), Error> {
        let stored = match self.held() {
            Held::Nothing => return Err(Error::BadChunk),
            Held::Other => return Err(Error::WrongType),
            Held::Value(stored) => stored,
        };
        let complete = stored.update(|value| {
            let Value::Partial(partial) = value else {
                return Err(Error::BadChunk);
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
        self.ctx.replicate_verbatim();
        self.publish(if complete { &[CREATED] } else { &[] });
        Ok(())
    }

    fn store(&mut self, value: Value) {
        let ledger = ledger::of_database(self.ctx.database());
        let stored = self.key.set(Stored::new(value, ledger));
        debug_assert!(stored, "the key was empty and open for writing");
    }

    #[inline]
    fn publish(&self, events: &[&CStr]) {
        self.ctx.signal_modified(self.name);
        for event in events {
            self.ctx.notify(event, self.name);
        }
    }
}

/// `key CAPACITY c ERROR r TIGHTENING t SEED s EXPANSION n|NONSCALING … [ITEMS …]`: every parameter, so that
/// a server with other settings builds the same object.
fn creation<'c>(
    name: &'c Str<'c>,
    object: &'c Object,
    new: &'c [Str<'c>],
    moment: &Moment,
) -> Vec<Piece<'c>> {
    let shape = object.shape();
    let params = shape.params;
    let mut pieces = vec![
        Piece::Items(std::slice::from_ref(name)),
        Piece::Word(c"CAPACITY"),
        Piece::Text(params.capacity.to_string()),
        Piece::Word(c"ERROR"),
        Piece::Text(double_text(params.error_rate.get())),
        Piece::Word(c"TIGHTENING"),
        Piece::Text(double_text(params.tightening.get())),
        Piece::Word(c"SEED"),
        Piece::Bytes(object.hasher().seed().unwrap_or(&Seed::FIXED).as_bytes()),
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
