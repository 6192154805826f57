//! The dialect of objects of tables: the type `bloomfltx`.
//!
//! RDB (encoding version 1), dump (version 2) and header of chunks (version 130) have the same fields. In RDB they are
//! fields of the stream. In the other forms they follow the version byte, every number as eight bytes and every string
//! after its length.
//!
//! | part | fields |
//! |---|---|
//! | the object, which is the header | form, which is 1; 1 with a window, 2 with counts, 3 scaled to its capacity; expansion; error rate; capacity; seed; with a window, length of a period in ms and number of periods |
//! | the fingerprints, not in a header | the pieces of `pieces.rs`, each a string, and an empty string |

use crate::bloom::law::{Params, Tightening};
use crate::bloom::object::{Kind, Object, Shape, Window};
use crate::bytes::{Buffer, ByteCursor, DecodeError, RdbRead, RdbWrite};
use crate::hash::{Hasher, Seed};

use super::extent::Extent;
use super::pieces::{self, Pieces};

/// The encoding version in RDB.
pub const RDB_VERSION: i32 = 1;

/// The version of dumps and headers.
pub const VERSION: u8 = 2;

/// The value of the form, the first field.
const FORM: u64 = 1;

const WINDOW: u64 = 1;
const COUNTING: u64 = 2;
const SCALED_TO: u64 = 3;

/// Reads an object in RDB, or returns `None` if a partly loaded object follows.
pub fn read_rdb(from: &mut impl RdbRead) -> Result<Option<Object>, DecodeError> {
    match from.uint()? {
        0 => Ok(None),
        FORM => read_object(from).map(Some),
        _ => Err(DecodeError::UnsupportedVersion),
    }
}

fn read_object(from: &mut impl RdbRead) -> Result<Object, DecodeError> {
    let (shape, hasher) = read_fields(from)?;
    let mut pieces = Pieces::new(shape, hasher);
    loop {
        let piece = from.bytes()?;
        if piece.is_empty() {
            return pieces.build();
        }
        pieces.push(piece)?;
    }
}

/// Reads the fields of the object behind the form.
fn read_fields(from: &mut impl RdbRead) -> Result<(Shape, Hasher), DecodeError> {
    let kind = from.uint()?;
    let (expansion, error_rate, capacity) = (from.uint()?, from.double()?, from.uint()?);
    let tightening = Tightening::QUARTER.to_stored();
    let params = Params::from_stored(capacity, error_rate, tightening, expansion)?;
    let seed = from.bytes()?.try_into();
    let seed = Seed::new(seed.map_err(|_| "seed of another length")?);
    let kind = match kind {
        WINDOW => {
            let window = Window::new(from.uint()?, from.uint()?);
            Kind::Windowed(window.ok_or("window out of range")?)
        }
        COUNTING => Kind::Counting,
        SCALED_TO => Kind::ScaledTo,
        _ => return Err("unknown kind".into()),
    };
    let shape = Shape { params, kind };
    if !(1..=crate::MAX_CAPACITY).contains(&capacity) || shape.table_step([]).is_err() {
        return Err("capacity out of range".into());
    }
    Ok((shape, Hasher::Sip(seed)))
}

/// Returns whether bytes begin as a dump or a header of this dialect does.
pub fn begins(bytes: &[u8], extent: Extent) -> bool {
    bytes.first() == Some(&extent.version(VERSION))
}

/// Reads a header.
pub fn read_header(bytes: &[u8]) -> Result<Pieces, DecodeError> {
    let mut from = after_version(bytes, Extent::Header)?;
    let (shape, hasher) = read_fields(&mut from)?;
    from.end()?;
    Ok(Pieces::new(shape, hasher))
}

/// Reads a dump.
pub fn read_dump(bytes: &[u8]) -> Result<Object, DecodeError> {
    let mut from = after_version(bytes, Extent::Whole)?;
    let object = read_object(&mut from)?;
    from.end()?;
    Ok(object)
}

/// Returns the bytes behind version and form.
fn after_version(bytes: &[u8], extent: Extent) -> Result<ByteCursor<'_>, DecodeError> {
    let mut from = ByteCursor(bytes);
    if from.array::<1>()? != [extent.version(VERSION)] || from.uint()? != FORM {
        return Err(DecodeError::UnsupportedVersion);
    }
    Ok(from)
}

fn write_fields(object: &Object, to: &mut impl RdbWrite) {
    let Shape { params, kind } = object.shape();
    to.uint(FORM);
    to.uint(match kind {
        Kind::Windowed(_) => WINDOW,
        Kind::Counting => COUNTING,
        Kind::Plain | Kind::ScaledTo => SCALED_TO,
    });
    to.uint(u64::from(params.growth.expansion()));
    to.double(params.error_rate.get());
    to.uint(params.capacity);
    to.bytes(object.hasher().seed().unwrap_or(&Seed::FIXED).as_bytes());
    if let Kind::Windowed(window) = kind {
        to.uint(window.period_ms());
        to.uint(window.periods());
    }
}

/// Writes an object in RDB or as bytes.
pub fn write_object(object: &Object, to: &mut impl RdbWrite) {
    write_fields(object, to);
    let mut begin = 0;
    while let Some(tables) = object.tables()
        && begin < pieces::END
    {
        let Some((end, piece)) = pieces::piece(tables, begin) else {
            return to.no_memory("a piece of a table");
        };
        to.bytes(&piece);
        begin = end;
    }
    to.bytes(&[]);
}

/// Writes a dump or a header, or returns `None` if allocation fails.
pub fn write(object: &Object, extent: Extent) -> Option<Vec<u8>> {
    let mut out = Buffer::default();
    out.put(&[extent.version(VERSION)]);
    match extent {
        Extent::Whole => write_object(object, &mut out),
        Extent::Header => write_fields(object, &mut out),
    }
    out.end()
}
