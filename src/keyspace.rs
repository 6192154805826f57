//! What a key holds, and what the server does with it: open, create, change, publish, save, load,
//! copy, move, free.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::bloom::chunks::{self, Partial, Progress};
use crate::bloom::codec::{self, DecodeError, RdbRead};
use crate::bloom::{BloomObject, Growth, Params, Seed};
use crate::config::{self, double_text};
use crate::ffi::{
    Access, AofWriter, Ctx, Defrag, Digest, Form, Held, Key, NativeType, Piece, RdbReader,
    RdbWriter, Str, TypeHandle,
};
use crate::info::{self, Footprint, Ledger};
use crate::reply::Error;

/// A dump up to this size is written to an AOF as one BF.LOAD, a larger one in chunks: no argument
/// of a command may pass 512 MiB.
const DUMP_BYTES_MAX: usize = 64 << 20;

/// An event when an object comes to be.
const CREATED: &CStr = c"bloom.reserve";
/// An event when an object has taken a new item.
const ADDED: &CStr = c"bloom.add";

/// What a key holds: an object, or one whose chunks have not all come; and the ledger in which it
/// is entered.
pub struct Stored {
    value: Content,
    ledger: Arc<Ledger>,
}

enum Content {
    Ready(BloomObject),
    Loading(Box<Partial>),
}

impl Content {
    fn is_redisbloom(&self) -> bool {
        match self {
            Self::Ready(object) => object.is_redisbloom(),
            Self::Loading(partial) => partial.is_redisbloom(),
        }
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Ready(object) => object.memory_bytes() + Stored::OVERHEAD_BYTES,
            Self::Loading(partial) => partial.memory_bytes() + size_of::<Stored>() as u64,
        }
    }

    #[inline]
    fn footprint(&self) -> Footprint {
        let sums = match self {
            Self::Ready(object) => Footprint {
                filters: object.filters().len() as u64,
                items: object.items(),
                capacity: object.capacity(),
                ..Footprint::default()
            },
            Self::Loading(_) => Footprint::default(),
        };
        Footprint {
            bytes: self.memory_bytes(),
            objects: 1,
            redisbloom: u64::from(self.is_redisbloom()),
            ..sums
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

    fn object(&self) -> Result<&BloomObject, Error> {
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
pub fn memory_bytes(object: &BloomObject) -> u64 {
    object.memory_bytes() + Stored::OVERHEAD_BYTES
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
    pub fn object(&self) -> Result<Option<&BloomObject>, Error> {
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
        C: FnOnce(&mut BloomObject) -> R,
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

    /// Stores a new object under the key, which has none, with some items in it already.
    pub fn create(mut self, object: BloomObject, new: &[Str]) {
        let (params, seed) = (object.params(), *object.seed());
        self.store(Content::Ready(object));
        self.ctx.replicate(
            c"BF.INSERT",
            &creation(&self.name, &params, &seed, new).pieces(),
        );
        self.publish(&[CREATED]);
        if !new.is_empty() {
            self.ctx.notify(ADDED, self.name);
        }
    }

    /// Stores an object that came as a dump, to live until `expires_ms` if that is given.
    pub fn create_loaded(mut self, object: BloomObject, dump: &[u8], expires_ms: Option<i64>) {
        self.store(Content::Ready(object));
        let key = Piece::Items(std::slice::from_ref(&self.name));
        self.ctx.replicate(c"BF.LOAD", &[key, Piece::Bytes(dump)]);
        if let Some(ms) = expires_ms {
            self.key.expire_at(ms);
            // As a point in time: a replica or an AOF may hear of it later.
            let key = Piece::Items(std::slice::from_ref(&self.name));
            let time = ms.to_string();
            self.ctx
                .replicate(c"PEXPIREAT", &[key, Piece::Bytes(time.as_bytes())]);
        }
        self.publish(&[CREATED]);
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
    pub fn begin(mut self, partial: Partial) {
        self.store(Content::Loading(Box::new(partial)));
        self.ctx.replicate_verbatim();
        self.publish(&[]);
    }

    /// Takes the next chunk of an object of which the header has come.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::BadChunk`].
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
            match partial.load(cursor, chunk).map_err(|_| Error::BadChunk)? {
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

/// The texts of a creation's parameters, which its pieces borrow.
struct Creation<'c> {
    name: &'c Str<'c>,
    capacity: String,
    error_rate: String,
    tightening: String,
    expansion: Option<String>,
    seed: &'c Seed,
    new: &'c [Str<'c>],
}

fn creation<'c>(
    name: &'c Str<'c>,
    params: &Params,
    seed: &'c Seed,
    new: &'c [Str<'c>],
) -> Creation<'c> {
    Creation {
        name,
        capacity: params.capacity.to_string(),
        error_rate: double_text(params.error_rate.get()),
        tightening: double_text(params.tightening.get()),
        expansion: match params.growth {
            Growth::Fixed => None,
            Growth::By(factor) => Some(factor.to_string()),
        },
        seed,
        new,
    }
}

impl Creation<'_> {
    /// `key CAPACITY c ERROR r TIGHTENING t SEED s EXPANSION n|NONSCALING [ITEMS …]`: every
    /// parameter, so that a server with other settings builds the same object.
    fn pieces(&self) -> Vec<Piece<'_>> {
        let mut pieces = vec![
            Piece::Items(std::slice::from_ref(self.name)),
            Piece::Word(c"CAPACITY"),
            Piece::Bytes(self.capacity.as_bytes()),
            Piece::Word(c"ERROR"),
            Piece::Bytes(self.error_rate.as_bytes()),
            Piece::Word(c"TIGHTENING"),
            Piece::Bytes(self.tightening.as_bytes()),
            Piece::Word(c"SEED"),
            Piece::Bytes(self.seed.as_bytes()),
        ];
        match &self.expansion {
            None => pieces.push(Piece::Word(c"NONSCALING")),
            Some(factor) => {
                pieces.push(Piece::Word(c"EXPANSION"));
                pieces.push(Piece::Bytes(factor.as_bytes()));
            }
        }
        if !self.new.is_empty() {
            pieces.push(Piece::Word(c"ITEMS"));
            pieces.push(Piece::Items(self.new));
        }
        pieces
    }
}

static HANDLES: [TypeHandle; 2] = [TypeHandle::new(), TypeHandle::new()];

/// The form of objects of RedisBloom; the other is ours.
const REDISBLOOM: usize = 1;

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
    ];

    fn handles() -> &'static [TypeHandle] {
        &HANDLES
    }

    fn form(&self) -> usize {
        if self.value.is_redisbloom() {
            REDISBLOOM
        } else {
            0
        }
    }

    fn load(
        from: &mut RdbReader,
        form: usize,
        version: i32,
        database: i32,
    ) -> Result<Self, DecodeError> {
        // What is half loaded has no filters, which no complete object has.
        let content = if form == REDISBLOOM {
            match (from.uint()?, from.uint()?) {
                (_, 0) => Content::Loading(Box::new(Partial::read_rdb(from)?)),
                (items, links) => {
                    Content::Ready(codec::read_redisbloom(items, links, version, from)?)
                }
            }
        } else {
            match from.uint()? {
                0 => Content::Loading(Box::new(Partial::read_rdb(from)?)),
                filters => Content::Ready(codec::read_rdb(filters, from)?),
            }
        };
        if content.is_redisbloom() != (form == REDISBLOOM) {
            return Err("object of another form".into());
        }
        Ok(Self::new(content, info::of_loaded(database)))
    }

    fn save(&self, to: &mut RdbWriter) {
        match &self.value {
            Content::Ready(object) => codec::write_rdb(object, to),
            Content::Loading(partial) => partial.write_rdb(to),
        }
    }

    fn rewrite(&self, to: &mut AofWriter) {
        match &self.value {
            Content::Ready(object)
                if !object.is_redisbloom() && codec::encoded_len(object) <= DUMP_BYTES_MAX =>
            {
                to.emit(c"BF.LOAD", &codec::encode(object));
            }
            Content::Ready(object) => {
                let mut cursor = 0;
                loop {
                    let (next, piece) = chunks::piece(object, cursor);
                    if next == 0 {
                        break;
                    }
                    to.emit_numbered(c"BF.LOADCHUNK", next, piece.bytes());
                    cursor = next;
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
                if object.is_redisbloom() {
                    // All that is not in the filters.
                    to.add_bytes(chunks::piece(object, 0).1.bytes());
                }
                for filter in object.filters() {
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
        if begin == 0 && small(size_of_val(object.filters())) {
            object.relocate_table(|table| {
                let (table, moved) = by.relocate_slice(table.into_boxed_slice());
                count(moved);
                table.into_vec()
            });
        }
        for index in begin..object.filters().len() {
            if by.should_stop() {
                by.set_cursor(index);
                return (value, false);
            }
            if small(object.filters()[index].blob().len()) {
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
