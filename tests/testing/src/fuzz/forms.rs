//! The forms of a Bloom object, which give the same object again.

use valkeybloom_sketches::RdbWrite;
use valkeybloom_sketches::bloom::chunks::Partial;
use valkeybloom_sketches::bloom::{Dialect, Object, dump, rdb};

use super::memory::{bounded, measured};
use super::source::Source;
use crate::plain::Field;
use crate::support::{same, through_every_form};

/// Returns the bytes that describe all of an object.
pub(super) fn bytes_of(object: &Object) -> Vec<u8> {
    dump::encode(object).unwrap_or_else(|| fields_of(object))
}

pub(super) fn fields_of(object: &Object) -> Vec<u8> {
    written(|to| rdb::write(object, to))
}

pub(super) fn fields_of_partial(partial: &Partial) -> Vec<u8> {
    written(|to| partial.write_rdb(to))
}

/// Asserts that an object survives each form unchanged, and returns a copy that was read.
pub(super) fn assert_survives_each_form(object: &Object) -> Object {
    let has_dump = Dialect::of(object) != Dialect::RedisBloom;
    assert_eq!(dump::encode(object).is_some(), has_dump);
    let (clone, took) = measured(|| object.try_clone().expect("there is memory"));
    same(object, &clone);
    if let Some(took) = took {
        let base = Object::BASE_BYTES;
        assert_eq!(took as u64, clone.memory_bytes() - base, "bytes of memory");
    }
    through_every_form(object)
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
pub struct Written(Vec<u8>);

/// Returns the fields that are written, in that format.
pub(super) fn written(write: impl FnOnce(&mut Written)) -> Vec<u8> {
    let mut fields = Written(Vec::new());
    write(&mut fields);
    fields.0
}

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
