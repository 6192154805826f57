//! A key's value in RDB: in files, in DUMP and RESTORE, and in a full resync.

use crate::bloom::object::Object;

use super::chunks::{Partial, Value};
use super::dialect::Dialect;
use super::redisbloom::{self, Fields};
use super::{bloomfltr, bloomfltx};
use crate::bytes::{DecodeError, RdbRead, RdbWrite};

/// Reads the fields of a value of a dialect, in an encoding version.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read(dialect: Dialect, version: i32, from: &mut impl RdbRead) -> Result<Value, DecodeError> {
    if !(0..=dialect.rdb_version()).contains(&version) {
        return Err(DecodeError::UnsupportedVersion);
    }
    let fields = match dialect {
        Dialect::RedisBloom => redisbloom::read_rdb(version, from)?,
        Dialect::Bloomfltr => bloomfltr::read_rdb(from)?.map_or(Fields::Absent, Fields::Whole),
        Dialect::Bloomfltx => bloomfltx::read_rdb(from)?.map_or(Fields::Absent, Fields::Tables),
    };
    let partial = match fields {
        Fields::Whole(mut outline) => {
            return Ok(Value::Complete(Object::from_outline(&mut outline)?));
        }
        Fields::Tables(object) => return Ok(Value::Complete(object)),
        Fields::Unfinished(header, cells) => Partial::resumed(&header, &cells)?,
        Fields::Absent => Partial::read_rdb(from)?,
    };
    if partial.dialect() != dialect {
        return Err("object of another dialect".into());
    }
    Ok(Value::Partial(Box::new(partial)))
}

/// Writes the fields of an object.
///
/// # Panics
/// If a piece of a table can't be allocated.
pub fn write(object: &Object, to: &mut impl RdbWrite) {
    match Dialect::of(object) {
        Dialect::Bloomfltr => bloomfltr::write_rdb(object, to),
        Dialect::RedisBloom => redisbloom::write_rdb(object, to),
        Dialect::Bloomfltx => bloomfltx::write_object(object, to),
    }
}
