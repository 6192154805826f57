//! What a key holds, and what the server does with it: open, create, change, publish, save, load,
//! copy, move, free.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::bloom::chunks::{Begun, Partial, Progress};
use crate::bloom::codec::{self, DecodeError, RdbRead};
use crate::bloom::{AnyObject, BloomObject, Family, Growth, Limits, Refusal};
use crate::config;
use crate::ffi::{
    Access, AofWriter, Ctx, Defrag, Digest, Form, Held, Key, NativeType, Piece, RdbReader,
    RdbWriter, Str, TypeHandle,
};
use crate::info::{self, Footprint, Ledger};
use crate::reply::Error;
use crate::text::double_text;

/// A dump up to this size is written to an AOF as one BF.LOAD, a larger one in chunks: no argument
/// of a command may pass 512 MiB.
const DUMP_BYTES_MAX: usize = 64 << 20;

/// An event when an object comes to be.
const CREATED: &CStr = c"bloom.reserve";
/// An event when an object has taken an item.
const ADDED: &CStr = c"bloom.add";
/// An event when an item was taken out of an object.
const REMOVED: &CStr = c"bloom.del";

/// What a key holds: an object, or one whose chunks have not all come; and the ledger in which it
/// is entered.
pub struct Stored {
    value: Content,
    ledger: Arc<Ledger>,
}

enum Content {
    Ready(AnyObject),
    Loading(Box<Partial>),
}

impl Content {
    #[inline]
    fn family(&self) -> Family {
        match self {
            Self::Ready(object) => object.family(),
            Self::Loading(partial) => partial.family(),
        }
    }

    #[inline(always)]
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Ready(object) => object.memory_bytes() + Stored::OVERHEAD_BYTES,
            Self::Loading(partial) => partial.memory_bytes() + size_of::<Stored>() as u64,
        }
    }

    #[inline(always)]
    fn footprint(&self) -> Footprint {
        let (filters, items, capacity) = match self {
            Self::Ready(object) => object.totals(),
            Self::Loading(_) => (0, 0, 0),
        };
        Footprint {
            bytes: self.memory_bytes(),
            objects: 1,
            redisbloom: u64::from(self.family() == Family::RedisBloom),
            filters,
            items,
            capacity,
        }
    }
}

impl Stored {
    /// What a stored object takes beyond the object.
    pub const OVERHEAD_BYTES: u64 = (size_of::<Self>() - size_of::<BloomObject>()) as u64;

    fn new(value: Content, ledger: Arc<Ledger>) -> Self {
        ledger.enter(value.footprint());
        Self { value, ledger }
    }

    fn object(&self) -> Result<&AnyObject, Error> {
        match &self.value {
            Content::Ready(object) => Ok(object),
            Content::Loading(_) => Err(Error::StillLoading),
        }
    }

    /// Changes the value, and its entry with it.
    #[inline]
    fn update<R>(&mut self, change: impl FnOnce(&mut Content) -> R) -> R {
        let before = self.value.footprint();
        let result = change(&mut self.value);
        self.ledger.change(before, self.value.footprint());
        result
    }

    fn enter_in(&mut self, ledger: Arc<Ledger>) {
        let footprint = self.value.footprint();
        self.ledger.strike(footprint);
        ledger.enter(footprint);
        self.ledger = ledger;
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.ledger.strike(self.value.footprint());
    }
}

/// The bytes that a stored object takes in all.
pub fn memory_bytes(object: &AnyObject) -> u64 {
    object.memory_bytes() + Stored::OVERHEAD_BYTES
}

/// The limits on what this server's clients may ask for.
pub fn limits() -> Limits {
    config::limits(Stored::OVERHEAD_BYTES)
}

/// The limits on a command: none if it has already been carried out elsewhere.
pub fn limits_for(ctx: Ctx) -> Limits {
    if ctx.must_obey() {
        Limits::Obey
    } else {
        limits()
    }
}

/// When a write happened and what it said of its items, where the object wants to know.
#[derive(Clone, Copy, Default)]
pub struct Moment {
    /// In milliseconds since the epoch; none where the object has no periods.
    pub at_ms: Option<u64>,
    /// For how long the items are to be found, in milliseconds.
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

/// A key opened to look at its object.
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
    pub fn object(&self) -> Result<Option<&AnyObject>, Error> {
        match self.0.value::<Stored>() {
            Held::Nothing => Ok(None),
            Held::Other => Err(Error::WrongType),
            Held::Value(stored) => stored.object().map(Some),
        }
    }
}

/// A key opened to change it.
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

    /// Changes the object under the key, or gives back `change` if there is none.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    #[inline]
    pub fn update<C, R>(&mut self, change: C) -> Result<Result<R, C>, Error>
    where
        C: FnOnce(&mut AnyObject) -> R,
    {
        match self.held() {
            Held::Nothing => Ok(Err(change)),
            Held::Other => Err(Error::WrongType),
            Held::Value(stored) => stored.update(|content| match content {
                Content::Ready(object) => Ok(Ok(change(object))),
                Content::Loading(_) => Err(Error::StillLoading),
            }),
        }
    }

    /// What is under the key, to be changed: back in its database's ledger, if it was renamed.
    #[inline]
    fn held(&mut self) -> Held<&mut Stored> {
        let held = self.key.value_mut::<Stored>();
        if let Held::Value(stored) = held {
            if info::is_unlinked(&stored.ledger) {
                stored.enter_in(info::of_database(self.ctx.database()));
            }
            return Held::Value(stored);
        }
        held
    }

    /// Stores a new object under the key, which has none, with some items in it already, to live until
    /// `expires_ms` if that is given.
    pub fn create(
        mut self,
        object: AnyObject,
        new: &[Str],
        moment: &Moment,
        expires_ms: Option<i64>,
    ) {
        let creation = creation(&self.name, &object, new, moment);
        self.ctx.replicate(c"BF.INSERT", &creation);
        self.store(Content::Ready(object));
        self.expire(expires_ms);
        self.publish(&[CREATED]);
        if !new.is_empty() {
            self.ctx.notify(ADDED, self.name);
        }
    }

    /// Stores an object that came as a dump, to live until `expires_ms` if that is given.
    pub fn create_loaded(mut self, object: AnyObject, dump: &[u8], expires_ms: Option<i64>) {
        self.store(Content::Ready(object));
        let key = Piece::Items(std::slice::from_ref(&self.name));
        self.ctx.replicate(c"BF.LOAD", &[key, Piece::Bytes(dump)]);
        self.expire(expires_ms);
        self.publish(&[CREATED]);
    }

    /// Has the key expire, and sends that on as a point in time: a replica or an AOF may hear of it later.
    fn expire(&mut self, at_ms: Option<i64>) {
        if let Some(ms) = at_ms {
            self.key.expire_at(ms);
            let key = Piece::Items(std::slice::from_ref(&self.name));
            let time = Piece::Text(ms.to_string());
            self.ctx.replicate(c"PEXPIREAT", &[key, time]);
        }
    }

    /// Stores what objects were merged into, and rid of what had passed at a moment if that is given.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::StillLoading`].
    pub fn merge(mut self, object: AnyObject, tidied: Option<Moment>) -> Result<(), Error> {
        let event = if self.exists()? {
            // In its place, so that the key keeps its time to live.
            let _ = self.update(|held| *held = object)?;
            ADDED
        } else {
            self.store(Content::Ready(object));
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

    /// Publishes that these items went into an object with periods or counters; if there are none, that
    /// only time passed for it.
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

    /// Publishes that these items, added with this id, were taken out of an object.
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

    /// Requires that there is nothing under the key, not even an object that is being loaded.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::Busy`].
    pub fn requires_empty(&self) -> Result<(), Error> {
        match self.key.value::<Stored>() {
            Held::Nothing => Ok(()),
            Held::Value(_) => Err(Error::Busy),
            Held::Other => Err(Error::WrongType),
        }
    }

    /// Stores an object of which the header has come under the key, which is empty.
    pub fn begin(mut self, begun: Begun) {
        let (content, events): (_, &[_]) = match begun {
            Begun::Partial(partial) => (Content::Loading(Box::new(partial)), &[]),
            Begun::Complete(object) => (Content::Ready(object), &[CREATED]),
        };
        self.store(content);
        self.ctx.replicate_verbatim();
        self.publish(events);
    }

    /// Takes the next chunk of an object of which the header has come.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::BadChunk`], or that there is no memory; what was loaded stands.
    pub fn load_chunk(mut self, cursor: u64, chunk: &[u8]) -> Result<(), Error> {
        let stored = match self.held() {
            Held::Nothing => return Err(Error::BadChunk),
            Held::Other => return Err(Error::WrongType),
            Held::Value(stored) => stored,
        };
        let complete = stored.update(|content| {
            let Content::Loading(partial) = content else {
                return Err(Error::BadChunk);
            };
            let progress = partial.load(cursor, chunk).map_err(|error| match error {
                DecodeError::NoMemory => Error::Refused(Refusal::OutOfMemory),
                _ => Error::BadChunk,
            })?;
            match progress {
                Progress::Partial => Ok(false),
                Progress::Complete(object) => {
                    *content = Content::Ready(object);
                    Ok(true)
                }
            }
        })?;
        self.ctx.replicate_verbatim();
        self.publish(if complete { &[CREATED] } else { &[] });
        Ok(())
    }

    fn store(&mut self, content: Content) {
        let ledger = info::of_database(self.ctx.database());
        let stored = self.key.set(Stored::new(content, ledger));
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
    object: &'c AnyObject,
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
        Piece::Bytes(object.seed().as_bytes()),
    ];
    match params.growth {
        Growth::Fixed => pieces.push(Piece::Word(c"NONSCALING")),
        Growth::By(factor) => {
            pieces.extend([Piece::Word(c"EXPANSION"), Piece::Text(factor.to_string())]);
        }
    }
    if let Some(window) = shape.window {
        pieces.extend([
            Piece::Word(c"WINDOW"),
            Piece::Text(window.period_ms().to_string()),
        ]);
        pieces.extend([
            Piece::Word(c"PERIODS"),
            Piece::Text(window.periods().to_string()),
        ]);
    }
    if shape.counting {
        pieces.push(Piece::Word(c"COUNTING"));
    }
    moment.add_to(&mut pieces);
    if !new.is_empty() {
        pieces.extend([Piece::Word(c"ITEMS"), Piece::Items(new)]);
    }
    pieces
}

static HANDLES: [TypeHandle; 3] = [TypeHandle::new(), TypeHandle::new(), TypeHandle::new()];

/// The families in the order of their forms.
const FAMILIES: [Family; 3] = [Family::Plain, Family::RedisBloom, Family::Extended];

impl NativeType for Stored {
    const FORMS: &'static [Form] = &[
        Form {
            name: c"bloomfltr",
            version: codec::RDB_VERSION,
        },
        Form {
            name: c"MBbloom--",
            version: codec::REDISBLOOM_RDB_VERSION,
        },
        Form {
            name: c"bloomfltx",
            version: codec::EXTENDED_RDB_VERSION,
        },
    ];

    fn handles() -> &'static [TypeHandle] {
        &HANDLES
    }

    fn form(&self) -> usize {
        let family = self.value.family();
        FAMILIES.iter().position(|f| *f == family).unwrap_or(0)
    }

    fn load(
        from: &mut RdbReader,
        form: usize,
        version: i32,
        database: i32,
    ) -> Result<Self, DecodeError> {
        let family = FAMILIES[form];
        // RedisBloom's number of items comes first.
        let items = match family {
            Family::RedisBloom => from.uint()?,
            Family::Plain | Family::Extended => 0,
        };
        // What is half loaded has no filters, which no complete object has.
        let content = match (family, from.uint()?) {
            (_, 0) => Content::Loading(Box::new(Partial::read_rdb(from)?)),
            (Family::Plain, filters) => {
                Content::Ready(AnyObject::Plain(codec::read_rdb(filters, from)?))
            }
            (Family::RedisBloom, links) => {
                let object = codec::read_redisbloom(items, links, version, from)?;
                Content::Ready(AnyObject::Plain(object))
            }
            (Family::Extended, 1) => {
                let object = codec::read_extended(from)?;
                Content::Ready(AnyObject::Extended(Box::new(object)))
            }
            (Family::Extended, _) => return Err(DecodeError::UnsupportedVersion),
        };
        if content.family() != family {
            return Err("object of another form".into());
        }
        Ok(Self::new(content, info::of_loaded(database)))
    }

    fn save(&self, to: &mut RdbWriter) {
        match &self.value {
            Content::Ready(object) => object.write_rdb(to),
            Content::Loading(partial) => partial.write_rdb(to),
        }
    }

    fn rewrite(&self, to: &mut AofWriter) {
        match &self.value {
            Content::Ready(object)
                if object.family() != Family::RedisBloom
                    && object.encoded_len() <= DUMP_BYTES_MAX =>
            {
                to.emit(c"BF.LOAD", &object.encode());
            }
            Content::Ready(object) => {
                for (cursor, piece) in object.pieces() {
                    to.emit_numbered(c"BF.LOADCHUNK", cursor, piece.bytes());
                }
            }
            Content::Loading(partial) => {
                for (cursor, piece) in partial.pieces() {
                    to.emit_numbered(c"BF.LOADCHUNK", cursor, piece);
                }
            }
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.value.memory_bytes()
    }

    fn digest(&self, to: &mut Digest) {
        match &self.value {
            Content::Ready(object) => {
                let params = object.params();
                to.add(u64::from(params.growth.expansion()));
                to.add(params.error_rate.get().to_bits());
                to.add(params.tightening.get().to_bits());
                if object.family() != Family::Plain {
                    // All that is not in the filters.
                    to.add_bytes(object.piece(0).1.bytes());
                }
                for filter in object.all_filters() {
                    to.add_bytes(filter.blob());
                    to.add(filter.capacity());
                    to.add(filter.items());
                }
            }
            Content::Loading(partial) => {
                for (cursor, piece) in partial.pieces() {
                    to.add(cursor);
                    to.add_bytes(piece);
                }
            }
        }
        to.end_sequence();
    }

    fn frees_in_background(&self) -> bool {
        self.memory_bytes() > config::large_bytes()
    }

    fn unlinked(&mut self) {
        self.enter_in(info::unlinked());
    }

    fn copy(&self, database: i32) -> Option<Self> {
        let content = match &self.value {
            Content::Ready(object) => Content::Ready(object.try_clone()?),
            Content::Loading(partial) => Content::Loading(Box::new(partial.try_clone().ok()?)),
        };
        Some(Self::new(content, info::of_database(database)))
    }

    fn defrag(mut value: Box<Self>, by: &Defrag) -> (Box<Self>, bool) {
        if !config::defrag_is_on() {
            return (value, true);
        }
        let small = |bytes: usize| bytes as u64 <= config::large_bytes();
        let count = |moved: bool| {
            let counter = if moved {
                &info::DEFRAG_HITS
            } else {
                &info::DEFRAG_MISSES
            };
            counter.fetch_add(1, Relaxed);
        };
        let begin = by.cursor();
        if begin == 0 {
            let moved;
            (value, moved) = by.relocate(value);
            count(moved);
        }
        let Content::Ready(object) = &mut value.value else {
            return (value, true);
        };
        if begin == 0 {
            object.relocate_tables(|table| {
                if !small(size_of_val(&table[..])) {
                    return table;
                }
                let (table, moved) = by.relocate_slice(table.into_boxed_slice());
                count(moved);
                table.into_vec()
            });
        }
        let sizes: Vec<usize> = object.all_filters().map(|f| f.blob().len()).collect();
        for (index, bytes) in sizes.into_iter().enumerate().skip(begin) {
            if by.should_stop() {
                by.set_cursor(index);
                return (value, false);
            }
            if small(bytes) {
                object.relocate_filter(index, |blob| {
                    let (blob, moved) = by.relocate_slice(blob);
                    count(moved);
                    blob
                });
            }
        }
        (value, true)
    }
}
