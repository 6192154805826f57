//! The dialects, each in its own file, and the choice between them.

use std::ffi::CStr;

use crate::bloom::object::{Object, Outline};

use super::extent::Extent;
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
    /// Objects with a window or with counters.
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
        Dialect::Bloomfltr => bloomfltr::read_rdb(from),
        Dialect::Bloomfltx => bloomfltx::read_rdb(from),
    };
    Ok(whole?.map_or(Fields::Absent, Fields::Whole))
}

pub fn write_rdb(object: &Object, to: &mut impl RdbWrite) {
    match Dialect::of(object) {
        Dialect::Bloomfltr => bloomfltr::write_rdb(object, to),
        Dialect::RedisBloom => redisbloom::write_rdb(object, to),
        Dialect::Bloomfltx => bloomfltx::write_fields(object, to),
    }
}

/// Reads a whole dump or header of one of our dialects.
pub fn read(bytes: &[u8], extent: Extent) -> Result<(Dialect, Outline), DecodeError> {
    if bytes.first() == Some(&extent.version(bloomfltx::VERSION)) {
        Ok((Dialect::Bloomfltx, bloomfltx::read(bytes, extent)?))
    } else {
        Ok((Dialect::Bloomfltr, bloomfltr::read(bytes, extent)?))
    }
}

pub fn read_header(header: &[u8]) -> Result<(Dialect, Outline), DecodeError> {
    // A header of RedisBloom begins with a number, which may equal a version of ours.
    read(header, Extent::Header).or_else(|error| match redisbloom::read_header(header) {
        Ok(outline) => Ok((Dialect::RedisBloom, outline)),
        Err(DecodeError::NoMemory) => Err(DecodeError::NoMemory),
        Err(_) => Err(error),
    })
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
