//! Bloom objects as values of keys.

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::{Dialect, Object, chunks, dump, rdb};
use valkeybloom_sketches::{DecodeError, RdbWrite, Relocate};

pub use valkeybloom_sketches::bloom::chunks::Value;

use crate::family::{Family, Holds};
use crate::ffi::{AofWriter, Digest, Form, RdbReader};
use crate::settings::Setting;
use crate::sums::{InfoSection, Totals};
use crate::values::Stored;

use super::settings;

/// The largest dump that is written to an AOF as one BF.LOAD. Larger objects are written in chunks, because no
/// argument of a command may exceed 512 MiB.
const DUMP_BYTES_MAX: usize = 64 << 20;

/// The largest dump that is read again after each change, in builds with debug assertions.
const CHECKED_BYTES_MAX: usize = 16 << 10;

/// The message of a panic in a digest: its callback can't fail, and a partial digest would be wrong.
const NO_MEMORY: &str = "no memory for a digest";

/// The bytes that a key's value takes in addition to its object.
pub const OVERHEAD_BYTES: u64 = Stored::<Value>::PLANNED_BYTES - Object::BASE_BYTES;

/// Returns the total bytes of a key's object.
#[inline]
pub fn memory_bytes(object: &Object) -> u64 {
    object.memory_bytes() + OVERHEAD_BYTES
}

/// Requires that an object counts.
///
/// # Errors
/// [`Error::NO_COUNTERS`]
pub fn require_counters(object: &Object) -> Result<(), Error> {
    if object.shape().is_counting() {
        Ok(())
    } else {
        Err(Error::NO_COUNTERS)
    }
}

/// Returns the dialect of an object, complete or not.
#[inline]
pub fn dialect_of(value: &Value) -> Dialect {
    match value {
        Value::Complete(object) => Dialect::of(object),
        Value::Partial(partial) => partial.dialect(),
    }
}

const fn form(dialect: Dialect) -> Form {
    Form::new(dialect.type_name(), dialect.rdb_version())
}

impl Holds for Value {
    type Object = Object;

    #[inline]
    fn object(&self) -> Result<&Object, Error> {
        match self {
            Self::Complete(object) => Ok(object),
            Self::Partial(_) => Err(Error::STILL_LOADING),
        }
    }

    #[inline]
    fn object_mut(&mut self) -> Result<&mut Object, Error> {
        match self {
            Self::Complete(object) => Ok(object),
            Self::Partial(_) => Err(Error::STILL_LOADING),
        }
    }
}

impl Family for Value {
    const NUMBER: usize = 0;
    const FORMS: &'static [Form] = &{
        let [one, two, three] = Dialect::ALL;
        [form(one), form(two), form(three)]
    };
    const NAME: &'static str = "bloom";
    const INFO: InfoSection = InfoSection::new(
        c"bloom_core_metrics",
        &[
            c"bloom_total_memory_bytes",
            c"bloom_num_objects",
            c"bloom_num_filters_across_objects",
            c"bloom_num_items_across_objects",
            c"bloom_capacity_across_objects",
            c"bloom_num_redisbloom_objects",
            c"bloom_num_half_loaded_objects",
        ],
    );

    fn settings() -> &'static [&'static Setting] {
        settings::ALL
    }

    fn form(&self) -> usize {
        let dialect = dialect_of(self);
        Dialect::ALL.iter().position(|d| *d == dialect).unwrap_or(0)
    }

    fn load(from: &mut RdbReader, form: usize, version: i32) -> Result<Self, DecodeError> {
        rdb::read(Dialect::ALL[form], version, from)
    }

    fn write(&self, to: &mut impl RdbWrite) {
        match self {
            Self::Complete(object) => rdb::write(object, to),
            Self::Partial(partial) => partial.write_rdb(to),
        }
    }

    fn rewrite(&self, to: &mut AofWriter) {
        match self {
            Self::Complete(object) => {
                let small = dump::encoded_len(object).filter(|bytes| *bytes <= DUMP_BYTES_MAX);
                // Chunks are also written if there is no memory for a dump.
                if let Some(dump) = small.and_then(|_| dump::encode(object)) {
                    return to.emit(c"BF.LOAD", &dump);
                }
                for (cursor, piece) in chunks::pieces(object) {
                    to.emit_numbered(c"BF.LOADCHUNK", cursor, &piece);
                }
            }
            Self::Partial(partial) => {
                for (cursor, piece) in partial.pieces() {
                    to.emit_numbered(c"BF.LOADCHUNK", cursor, piece);
                }
            }
        }
    }

    fn assert_stored(&self) {
        if cfg!(debug_assertions)
            && let Self::Complete(object) = self
            && dump::encoded_len(object).is_some_and(|bytes| bytes <= CHECKED_BYTES_MAX)
            && let Some(dump) = dump::encode(object)
        {
            let again = dump::decode(&dump).map(|again| dump::encode(&again));
            let again = again.unwrap_or_else(|what| panic!("{what:?}: {object:?}"));
            assert!(again.is_none_or(|again| again == dump), "{object:?}");
        }
    }

    fn digest(&self, to: &mut Digest) {
        match self {
            Self::Complete(object) => {
                let params = object.shape().params;
                to.add(u64::from(params.growth.expansion()));
                to.add(params.error_rate.get().to_bits());
                to.add(params.tightening.to_stored().to_bits());
                if Dialect::of(object) != Dialect::Bloomfltr {
                    // The header is everything but the filters.
                    let header = chunks::piece(object, 0);
                    to.add_bytes(&header.expect(NO_MEMORY).1);
                }
                for (filter, _) in object.filters() {
                    to.add_bytes(filter.blob());
                    to.add(filter.capacity());
                    to.add(filter.items());
                }
                if !object.parts().is_empty() {
                    for (_, piece) in chunks::pieces(object) {
                        to.add_bytes(&piece);
                    }
                }
            }
            Self::Partial(partial) => {
                for (cursor, piece) in partial.pieces() {
                    to.add(cursor);
                    to.add_bytes(piece);
                }
            }
        }
    }

    #[inline]
    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Complete(object) => memory_bytes(object),
            Self::Partial(partial) => partial.memory_bytes() + Stored::<Self>::PLANNED_BYTES,
        }
    }

    fn allocations(&self) -> u64 {
        match self {
            Self::Complete(object) => object.allocations(),
            Self::Partial(partial) => partial.allocations(),
        }
    }

    #[inline(always)]
    fn totals(&self) -> Totals {
        let (filters, items, capacity) = match self {
            Self::Complete(object) => object.totals(),
            Self::Partial(_) => (0, 0, 0),
        };
        let redisbloom = u64::from(dialect_of(self) == Dialect::RedisBloom);
        let partial = u64::from(matches!(self, Self::Partial(_)));
        let bytes = self.memory_bytes();
        [bytes, 1, filters, items, capacity, redisbloom, partial]
    }

    fn feed_bytes(&self) -> u64 {
        settings::feed_bytes(self.memory_bytes())
    }

    fn try_clone(&self) -> Option<Self> {
        Some(match self {
            Self::Complete(object) => Self::Complete(object.try_clone()?),
            Self::Partial(partial) => Self::Partial(Box::new(partial.try_clone()?)),
        })
    }

    fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize> {
        match self {
            Self::Complete(object) => object.relocate(begin, by),
            Self::Partial(_) => None,
        }
    }
}
