//! Keys: open them, create and change what is under them, and publish what happened.

use std::ffi::CStr;

use crate::bloom::keys::{Change, found, held};
use crate::config;
use crate::ffi::{Access, Ctx, Key, Keyspace, Piece, Str};
use valkeybloom_protocol::error::{CuckooOption, Error};
use valkeybloom_sketches::cuckoo::wire as cuckoo_wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Params, StoredOutline};

use super::stored::Stored;

/// The event of a new object.
const CREATED: &CStr = c"cuckoo.reserve";
/// The event of an item added to an object.
const ADDED: &CStr = c"cuckoo.add";
/// The event of an item removed from an object.
const REMOVED: &CStr = c"cuckoo.del";

/// The limits on a command: none if it was already executed elsewhere.
pub fn limits_for(ctx: Ctx) -> Limits {
    if ctx.must_obey() {
        Limits::NONE
    } else {
        config::cuckoo_limits(Stored::OVERHEAD_BYTES)
    }
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
    /// [`Error::WrongType`]
    #[inline]
    pub fn object(&self) -> Result<Option<&Cuckoo>, Error> {
        Ok(found(self.0.value::<Stored>())?.map(Stored::value))
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
    /// [`Error::WrongType`] or [`Error::Saving`].
    pub fn exists(&mut self) -> Result<bool, Error> {
        Ok(held::<Cuckoo>(&mut self.0)?.is_some())
    }

    /// Changes the object under the key. Returns `None` if there is none.
    ///
    /// # Errors
    /// [`Error::WrongType`] or [`Error::Saving`].
    #[inline]
    pub fn update<R>(&mut self, change: impl FnOnce(&mut Cuckoo) -> R) -> Result<Option<R>, Error> {
        Ok(held::<Cuckoo>(&mut self.0)?.map(|stored| stored.update(change)))
    }

    /// Stores a new object, which already holds these items, under the empty key. Every parameter is sent on, so
    /// that a server with other settings makes the same.
    pub fn create(self, object: Cuckoo, params: &Params, items: &[Str]) {
        let name = self.0.name().bytes();
        let empty = StoredOutline {
            filters: 1,
            items: 0,
            deletes: 0,
            ..object.outline()
        };
        let mut change = Change::storing(self.0, object, None);
        if CuckooOption::ALL.iter().any(|option| option.is(name)) {
            // RedisBloom would take such a key for the option, and who obeys it has to, too.
            let header = cuckoo_wire::header_of(&empty);
            let pieces = [Piece::Text("1".to_owned()), Piece::Bytes(&header)];
            change.replicate(c"CF.LOADCHUNK", &pieces);
        } else {
            change.replicate(c"CF.RESERVE", &creation(params));
        }
        if !items.is_empty() {
            change.replicate(c"CF.INSERT", &addition(items));
        }
        let added = (!items.is_empty()).then_some(ADDED);
        change.publish([CREATED].into_iter().chain(added));
    }

    /// Publishes that the command added all of its items.
    #[inline]
    pub fn added_all(self) {
        self.changed([ADDED]);
    }

    /// Publishes that these items were added.
    pub fn added(self, items: &[Str]) {
        let mut change = Change::closing(self.0);
        change.replicate(c"CF.INSERT", &addition(items));
        change.publish([ADDED]);
    }

    /// Publishes that the command removed its item.
    pub fn removed(self) {
        self.changed([REMOVED]);
    }

    /// Publishes that the command changed how the items lie, or wrote slots.
    pub fn rewritten(self) {
        self.changed([]);
    }

    /// Stores what a header of chunks claims under the empty key.
    pub fn begin(self, object: Cuckoo) {
        let mut change = Change::storing(self.0, object, None);
        change.replicate_verbatim();
        change.publish([CREATED]);
    }

    fn changed(self, events: impl IntoIterator<Item = &'static CStr>) {
        let mut change = Change::closing(self.0);
        change.replicate_verbatim();
        change.publish(events);
    }
}

/// `capacity BUCKETSIZE s MAXITERATIONS n EXPANSION e`
fn creation(params: &Params) -> Vec<Piece<'static>> {
    let mut pieces = vec![Piece::Text(params.capacity.to_string())];
    for (option, value) in [
        (CuckooOption::BucketSize, u64::from(params.bucket_size)),
        (CuckooOption::MaxIterations, params.max_iterations.into()),
        (CuckooOption::Expansion, params.expansion.into()),
    ] {
        pieces.extend([
            Piece::Text(option.word().to_owned()),
            Piece::Text(value.to_string()),
        ]);
    }
    pieces
}

/// `NOCREATE ITEMS item …`
fn addition<'c>(items: &'c [Str<'c>]) -> [Piece<'c>; 3] {
    [
        Piece::Word(c"NOCREATE"),
        Piece::Word(c"ITEMS"),
        Piece::Items(items),
    ]
}
