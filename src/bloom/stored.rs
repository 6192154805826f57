//! What a key holds, and what the server does with a value: save, load, copy, move, free.

use crate::config;
use crate::ffi::{AofWriter, Defrag, Digest, Form, NativeType, RdbReader, RdbWriter, TypeHandle};
use crate::ledger::{self, Entered, Family, Footprint, Weighed};
use crate::mover;
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::chunks::Value;
use valkeybloom_sketches::bloom::{Dialect, Object, chunks, dump, rdb};
use valkeybloom_sketches::{DecodeError, RdbRead, RdbWrite};

/// A dump up to this size is written to an AOF as one BF.LOAD, a larger one in chunks: no argument of a
/// command may exceed 512 MiB.
const DUMP_BYTES_MAX: usize = 64 << 20;

/// Why a digest ends the server: its callback cannot fail, and a digest of less would be another.
const NO_MEMORY: &str = "no memory for a digest";

/// What a key holds, and the ledger in which it is entered.
pub type Stored = Entered<Value>;

impl Weighed for Value {
    const FAMILY: Family = Family::Bloom;

    #[inline(always)]
    fn footprint(&self) -> Footprint {
        footprint(self)
    }
}

impl Stored {
    /// Bytes that a stored object takes in addition to the object.
    pub const OVERHEAD_BYTES: u64 = size_of::<Self>() as u64 - Object::BASE_BYTES;

    /// The object.
    ///
    /// # Errors
    /// [`Error::StillLoading`]
    #[inline]
    pub fn object(&self) -> Result<&Object, Error> {
        match self.value() {
            Value::Complete(object) => Ok(object),
            Value::Partial(_) => Err(Error::StillLoading),
        }
    }
}

/// Bytes of a stored object in total.
#[inline(always)]
pub fn memory_bytes(object: &Object) -> u64 {
    object.memory_bytes() + Stored::OVERHEAD_BYTES
}

#[inline(always)]
fn memory_bytes_of(value: &Value) -> u64 {
    match value {
        Value::Complete(object) => memory_bytes(object),
        Value::Partial(partial) => partial.memory_bytes() + size_of::<Stored>() as u64,
    }
}

#[inline]
fn dialect_of(value: &Value) -> Dialect {
    match value {
        Value::Complete(object) => Dialect::of(object),
        Value::Partial(partial) => partial.dialect(),
    }
}

#[inline(always)]
fn footprint(value: &Value) -> Footprint {
    let (filters, items, capacity) = match value {
        Value::Complete(object) => object.totals(),
        Value::Partial(_) => (0, 0, 0),
    };
    Footprint {
        bytes: memory_bytes_of(value),
        objects: 1,
        redisbloom: u64::from(dialect_of(value) == Dialect::RedisBloom),
        half_loaded: u64::from(matches!(value, Value::Partial(_))),
        filters,
        items,
        capacity,
    }
}

impl RdbRead for RdbReader {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        self.load_uint().ok_or(DecodeError::Truncated)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        self.load_double().ok_or(DecodeError::Truncated)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        self.load_bytes().ok_or(DecodeError::Truncated)
    }
}

impl RdbWrite for RdbWriter {
    fn uint(&mut self, value: u64) {
        self.save_uint(value);
    }

    fn double(&mut self, value: f64) {
        self.save_double(value);
    }

    fn bytes(&mut self, value: &[u8]) {
        self.save_bytes(value);
    }
}

static HANDLES: [TypeHandle; Dialect::ALL.len()] =
    [const { TypeHandle::new() }; Dialect::ALL.len()];

const fn form(dialect: Dialect) -> Form {
    Form {
        name: dialect.type_name(),
        version: dialect.rdb_version(),
    }
}

impl NativeType for Stored {
    const FORMS: &'static [Form] = &{
        let [one, two, three] = Dialect::ALL;
        [form(one), form(two), form(three)]
    };

    fn handles() -> &'static [TypeHandle] {
        &HANDLES
    }

    fn form(&self) -> usize {
        let dialect = dialect_of(self.value());
        Dialect::ALL.iter().position(|d| *d == dialect).unwrap_or(0)
    }

    fn load(
        from: &mut RdbReader,
        form: usize,
        version: i32,
        database: i32,
    ) -> Result<Self, String> {
        let value = rdb::read(Dialect::ALL[form], version, from);
        let value = value.map_err(|error| error.to_string())?;
        Ok(Self::new(value, ledger::of_loaded(database)))
    }

    /// Writes the fields of the value, which own all that they are made of, and does not look at the ledger beside
    /// it. So any thread may, while no other changes the value.
    fn save(&self, to: &mut RdbWriter) {
        match self.value() {
            Value::Complete(object) => rdb::write(object, to),
            Value::Partial(partial) => partial.write_rdb(to),
        }
    }

    fn rewrite(&self, to: &mut AofWriter) {
        match self.value() {
            Value::Complete(object) => {
                let small = dump::encoded_len(object).filter(|bytes| *bytes <= DUMP_BYTES_MAX);
                // In chunks, too, where there is no memory for a dump.
                if let Some(dump) = small.and_then(|_| dump::encode(object)) {
                    return to.emit(c"BF.LOAD", &dump);
                }
                for (cursor, piece) in chunks::pieces(object) {
                    to.emit_numbered(c"BF.LOADCHUNK", cursor, piece.bytes());
                }
            }
            Value::Partial(partial) => {
                for (cursor, piece) in partial.pieces() {
                    to.emit_numbered(c"BF.LOADCHUNK", cursor, piece);
                }
            }
        }
    }

    fn memory_bytes(&self) -> u64 {
        memory_bytes_of(self.value())
    }

    fn digest(&self, to: &mut Digest) {
        match self.value() {
            Value::Complete(object) => {
                let params = object.shape().params;
                to.add(u64::from(params.growth.expansion()));
                to.add(params.error_rate.get().to_bits());
                to.add(params.tightening.to_stored().to_bits());
                if Dialect::of(object) != Dialect::Bloomfltr {
                    // Everything but the filters.
                    let header = chunks::piece(object, 0);
                    to.add_bytes(header.expect(NO_MEMORY).1.bytes());
                }
                for (view, blob) in object.views().zip(object.blobs()) {
                    to.add_bytes(&blob.expect(NO_MEMORY));
                    to.add(view.capacity());
                    to.add(view.items());
                }
            }
            Value::Partial(partial) => {
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
        self.enter_in(ledger::unlinked());
    }

    fn copy(&self, database: i32) -> Option<Self> {
        let content = match self.value() {
            Value::Complete(object) => Value::Complete(object.try_clone()?),
            Value::Partial(partial) => Value::Partial(Box::new(partial.try_clone()?)),
        };
        Some(Self::new(content, ledger::of_database(database)))
    }

    fn defrag(value: Box<Self>, by: &Defrag) -> (Box<Self>, bool) {
        mover::defrag(value, by, |value, begin, by| match value {
            Value::Complete(object) => object.relocate(begin, by),
            Value::Partial(_) => None,
        })
    }
}
