//! The dialects, each in its own file, and the choice between them.

use std::ffi::CStr;

use crate::bloom::object::{Object, Outline};

use super::extent::Extent;
use super::pieces::Pieces;
use super::{bloomfltr, bloomfltx, redisbloom};
use crate::bytes::DecodeError;

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
