//! The forms of a Bloom object, which give the same object again.

use valkeybloom_sketches::RdbWrite;
use valkeybloom_sketches::bloom::chunks::{Partial, Value};
use valkeybloom_sketches::bloom::{Dialect, Object, dump, rdb};

use super::memory::{bounded, measured};
use super::source::Source;
use crate::plain::Field;
use crate::support::through_chunks;

/// Returns the bytes that describe all of an object.
pub(super) fn bytes_of(object: &Object) -> Vec<u8> {
    dump::encode(object).unwrap_or_else(|| fields_of(object))
}

pub(super) fn fields_of(object: &Object) -> Vec<u8> {
    let mut written = Written::default();
    rdb::write(object, &mut written);
    written.0
}

pub(super) fn fields_of_partial(partial: &Partial) -> Vec<u8> {
    let mut written = Written::default();
    partial.write_rdb(&mut written);
    written.0
}

#[track_caller]
pub(super) fn same(left: &Object, right: &Object) {
    assert_eq!((left.check(), right.check()), (Ok(()), Ok(())));
    assert_eq!(Dialect::of(left), Dialect::of(right));
    assert!(bytes_of(left) == bytes_of(right), "the bytes differ");
    assert_eq!(left.shape(), right.shape());
    assert_eq!(left.hasher(), right.hasher());
    assert_eq!(left.totals(), right.totals());
    // The shards of a table depend on its history.
    if left.is_plain() {
        assert_eq!(left.memory_bytes(), right.memory_bytes());
    }
}

/// Asserts that an object survives each form unchanged, and returns a decoded copy.
pub(super) fn assert_survives_each_form(object: &Object) -> Object {
    let dialect = Dialect::of(object);
    let fields = fields_of(object);
    let mut from = Source(&fields);
    let read = rdb::read(dialect, dialect.rdb_version(), &mut from);
    let Ok(Value::Complete(mut copy)) = read else {
        panic!("it can't read what it wrote");
    };
    assert!(from.0.is_empty(), "fields are left");
    same(object, &copy);

    let dump = dump::encode(object);
    assert_eq!(dump.is_none(), dialect == Dialect::RedisBloom);
    if object.is_plain() {
        assert_eq!(dump.as_ref().map(Vec::len), dump::encoded_len(object));
    }
    if let Some(dump) = dump {
        copy = dump::decode(&dump).expect("it was encoded");
        same(object, &copy);
    }

    let (clone, took) = measured(|| object.try_clone().expect("there is memory"));
    same(object, &clone);
    if let Some(took) = took {
        let base = Object::BASE_BYTES;
        assert_eq!(took as u64, clone.memory_bytes() - base, "bytes of memory");
    }
    same(object, &through_chunks(object));
    copy
}

/// Reads RDB fields after their encoding version, with at most 20 bytes of memory for each byte and `least` beside them.
/// Returns the value, the version, and the bytes that were read; or `None` if they are refused.
pub(super) fn read<'b, T, E>(
    source: &mut Source<'b>,
    least: usize,
    read_rdb: impl FnOnce(i32, &mut Source<'b>) -> Result<T, E>,
) -> Option<(T, i32, &'b [u8])> {
    let version = i32::from(source.byte());
    let before = source.0;
    let value = bounded(least + 20 * before.len(), || read_rdb(version, source)).ok()?;
    Some((value, version, &before[..before.len() - source.0.len()]))
}

/// An RDB stream in the format that `Source` reads.
#[derive(Default)]
pub struct Written(pub Vec<u8>);

impl Written {
    pub(super) fn field(&mut self, field: Field) {
        match field {
            Field::Uint(value) => self.uint(value),
            Field::Double(value) => self.double(value),
            Field::Bytes(value) => self.bytes(&value),
        }
    }
}

impl RdbWrite for Written {
    fn uint(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        let length = u16::try_from(value.len()).expect("no input is as long");
        self.0.extend(length.to_le_bytes());
        self.0.extend(value);
    }
}
