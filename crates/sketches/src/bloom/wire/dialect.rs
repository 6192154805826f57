//! The dialects, each in its own file, and the choice between them.

use std::ffi::CStr;

use crate::bloom::object::{Object, Outline};

use super::extent::Extent;
use super::pieces::Pieces;
use super::redisbloom::{self, Fields};
use super::{bloomfltr, bloomfltx};
use crate::bytes::{DecodeError, RdbRead, RdbWrite};

/// A stored form of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Plain objects of ours and of valkey-bloom.
    Bloomfltr,
    /// Objects of `RedisBloom`.
    RedisBloom,
    /// Objects of tables.
    Bloomfltx,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 3] = [Self::Bloomfltr, Self::RedisBloom, Self::Bloomfltx];

    /// Returns the name of the type in a server.
    pub const fn type_name(self) -> &'static CStr {
        match self {
            Self::Bloomfltr => c"bloomfltr",
            Self::RedisBloom => c"MBbloom--",
            Self::Bloomfltx => c"bloomfltx",
        }
    }

    /// Returns the RDB encoding version that is written, which is also the highest that is read.
    pub const fn rdb_version(self) -> i32 {
        match self {
            Self::Bloomfltr => bloomfltr::RDB_VERSION,
            Self::RedisBloom => redisbloom::RDB_VERSION,
            Self::Bloomfltx => bloomfltx::RDB_VERSION,
        }
    }

    /// Returns the dialect of an object.
    #[inline]
    pub const fn of(object: &Object) -> Self {
        match object.links() {
            Some(_) => Self::RedisBloom,
            None if object.is_plain() => Self::Bloomfltr,
            None => Self::Bloomfltx,
        }
    }

    /// Returns whether objects of this dialect have a dump.
    pub const fn has_dump(self) -> bool {
        !matches!(self, Self::RedisBloom)
    }
}

/// Reads the fields in RDB.
pub fn read_rdb(
    dialect: Dialect,
    version: i32,
    from: &mut impl RdbRead,
) -> Result<Fields, DecodeError> {
    if !(0..=dialect.rdb_version()).contains(&version) {
        return Err(DecodeError::UnsupportedVersion);
    }
    let whole = match dialect {
        Dialect::RedisBloom => return redisbloom::read_rdb(version, from),
        Dialect::Bloomfltr => bloomfltr::read_rdb(from)?.map(Fields::Whole),
        Dialect::Bloomfltx => bloomfltx::read_rdb(from)?.map(Fields::Tables),
    };
    Ok(whole.unwrap_or(Fields::Absent))
}

pub fn write_rdb(object: &Object, to: &mut impl RdbWrite) {
    match Dialect::of(object) {
        Dialect::Bloomfltr => bloomfltr::write_rdb(object, to),
        Dialect::RedisBloom => redisbloom::write_rdb(object, to),
        Dialect::Bloomfltx => bloomfltx::write_object(object, to),
    }
}

/// Reads a dump of one of our dialects.
pub fn read_dump(bytes: &[u8]) -> Result<Object, DecodeError> {
    if bloomfltx::begins(bytes, Extent::Whole) {
        return bloomfltx::read_dump(bytes);
    }
    Object::from_outline(&mut bloomfltr::read(bytes, Extent::Whole)?)
}

/// What follows a header in chunks.
pub enum Rest {
    /// The cells of the filters of a stack.
    Cells(Dialect, Outline),
    /// The pieces of an object of tables.
    Pieces(Pieces),
}

pub fn read_header(header: &[u8]) -> Result<Rest, DecodeError> {
    let read = if bloomfltx::begins(header, Extent::Header) {
        bloomfltx::read_header(header).map(Rest::Pieces)
    } else {
        let outline = bloomfltr::read(header, Extent::Header);
        outline.map(|outline| Rest::Cells(Dialect::Bloomfltr, outline))
    };
    // A header of RedisBloom begins with a number, which may equal a version of ours.
    read.or_else(|error| match redisbloom::read_header(header) {
        Ok(outline) => Ok(Rest::Cells(Dialect::RedisBloom, outline)),
        Err(DecodeError::NoMemory) => Err(DecodeError::NoMemory),
        Err(_) => Err(error),
    })
}

/// Reads the header of a stack.
pub fn read_outline(header: &[u8]) -> Result<Outline, DecodeError> {
    match read_header(header)? {
        Rest::Cells(_, outline) => Ok(outline),
        Rest::Pieces(_) => Err("tables".into()),
    }
}

/// Writes a dump, or the header of chunks. Returns `None` if allocation fails, and for a dump of an object of
/// `RedisBloom`, which has none.
pub fn write(object: &Object, extent: Extent) -> Option<Vec<u8>> {
    match (Dialect::of(object), extent) {
        (Dialect::Bloomfltr, _) => bloomfltr::write(object, extent),
        (Dialect::RedisBloom, Extent::Whole) => None,
        (Dialect::RedisBloom, Extent::Header) => redisbloom::write_header(object),
        (Dialect::Bloomfltx, _) => bloomfltx::write(object, extent),
    }
}
