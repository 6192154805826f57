//! Stored forms of count-min sketches: `RedisBloom`'s type `CMSk-TYPE`. Every release of `RedisBloom` reads the
//! sketches with counters of four bytes that this module writes.
//!
//! | form | fields |
//! |---|---|
//! | RDB, encoding version 0 | width, depth, count, counters; their size, if it is not four bytes |
//! | RDB, encoding version 1 | width, depth, count, size of a counter in bytes, counters |
//!
//! Version 0 is written. `RedisBloom` writes version 1 from 8.12 on, and no size in version 0, so it refuses what is
//! written here with another size.

use crate::bytes::{DecodeError, RdbRead, RdbWrite};
use crate::machine::{memory, work};

use super::object::CountMin;
use super::shape::{CellSize, Shape};

/// The name of the type in a server.
pub const TYPE_NAME: &std::ffi::CStr = c"CMSk-TYPE";

/// The encoding version that is written.
pub const RDB_VERSION: i32 = 0;

/// The newest encoding version that is read.
const NEWEST_VERSION: i32 = 1;

/// The largest count in encoding version 1.
const COUNT_MAX: u64 = i64::MAX as u64;

/// Reads the fields in RDB of an encoding version.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_rdb(version: i32, from: &mut impl RdbRead) -> Result<CountMin, DecodeError> {
    if !(RDB_VERSION..=NEWEST_VERSION).contains(&version) {
        return Err(DecodeError::UnsupportedVersion);
    }
    let (width, depth, count) = (from.uint()?, from.uint()?, from.uint()?);
    let shape_of = |size| Shape::new(width, depth, size).ok_or("shape out of range");
    let (shape, table) = if version == RDB_VERSION {
        let shape = shape_of(CellSize::Four)?;
        let table = from.bytes()?;
        if shape.bytes() == Some(table.len() as u64) {
            (shape, table)
        } else {
            let size = read_size(from)?;
            if size == CellSize::Four {
                return Err("size of a counter that goes without saying".into());
            }
            (shape_of(size)?, table)
        }
    } else {
        let shape = shape_of(read_size(from)?)?;
        if count > COUNT_MAX {
            return Err("count out of range".into());
        }
        (shape, from.bytes()?)
    };
    work::bytes(table.len());
    let table = memory::boxed(table).ok_or(DecodeError::NoMemory)?;
    Ok(CountMin::from_parts(shape, count, table)?)
}

fn read_size(from: &mut impl RdbRead) -> Result<CellSize, DecodeError> {
    let size = CellSize::of_bytes(from.uint()?);
    size.ok_or_else(|| "size of a counter out of range".into())
}

/// Writes the fields in RDB.
pub fn write_rdb(sketch: &CountMin, to: &mut impl RdbWrite) {
    let shape = sketch.shape();
    to.uint(shape.width());
    to.uint(shape.depth());
    to.uint(sketch.count());
    work::bytes(sketch.table().len());
    to.bytes(sketch.table());
    if shape.cell_size() != CellSize::Four {
        to.uint(shape.cell_size().bytes());
    }
}
