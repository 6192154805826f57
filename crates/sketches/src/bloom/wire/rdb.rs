//! A key's value in RDB: in files, in DUMP and RESTORE, and in a full resync.

use crate::bloom::object::Object;

use super::chunks::{Partial, Value};
use super::dialect::{self, Dialect};
use super::redisbloom::Fields;
use crate::bytes::{DecodeError, RdbRead, RdbWrite};

/// Reads the fields of a value of a dialect, in an encoding version.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read(dialect: Dialect, version: i32, from: &mut impl RdbRead) -> Result<Value, DecodeError> {
    let partial = match dialect::read_rdb(dialect, version, from)? {
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
    dialect::write_rdb(object, to);
}
