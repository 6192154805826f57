//! Stored forms of count-min sketches: `RedisBloom`'s type `CMSk-TYPE`. Every release of `RedisBloom` reads the
//! sketches with counters of four bytes that this module writes.
//!
//! | form | fields |
//! |---|---|
//! | RDB, encoding version 0 | width, depth, count, counters; their size, if it is not four bytes |
//! | RDB, encoding version 1 | width, depth, count, size of a counter in bytes, counters |
//!
//! Both versions are read, and either can be written. `RedisBloom` reads version 1 from 8.12 on, and has no size in
//! version 0, so it refuses a sketch with another size that is written in that one.

use crate::bytes::{DecodeError, RdbRead, RdbWrite};
use crate::machine::{memory, work};

use super::object::{CountMin, MOST};
use super::shape::{CellSize, Shape};

/// The name of the type in a server.
pub const TYPE_NAME: &std::ffi::CStr = c"CMSk-TYPE";

/// The encoding version that every release of `RedisBloom` reads, if counters have four bytes.
pub const RDB_VERSION: i32 = 0;

/// The newest encoding version.
pub const NEWEST_VERSION: i32 = 1;

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
        if count > MOST {
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

/// Writes the fields in RDB of an encoding version, one of the two.
///
/// A count above 2⁶³ − 1, which saturated counters can have, does not fit version 1: there it becomes this number.
pub fn write_rdb(sketch: &CountMin, version: i32, to: &mut impl RdbWrite) {
    let (shape, is_newer) = (sketch.shape(), version == NEWEST_VERSION);
    let count = sketch.count();
    to.uint(shape.width());
    to.uint(shape.depth());
    to.uint(if is_newer { count.min(MOST) } else { count });
    if is_newer {
        to.uint(shape.cell_size().bytes());
    }
    work::bytes(sketch.table().len());
    to.bytes(sketch.table());
    if !is_newer && shape.cell_size() != CellSize::Four {
        to.uint(shape.cell_size().bytes());
    }
}
