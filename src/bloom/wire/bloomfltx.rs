//! Objects with a window, or with counters: the type `bloomfltx`.
//!
//! RDB (encoding version 1), dump (version 2) and header of chunks (version 130) have the same fields. In RDB
//! they are the stream's; in the others they follow the version byte, every number as eight bytes and every
//! string after its length. In a header every blob is cut after its own header.
//!
//! | of | fields |
//! |---|---|
//! | the object | 1; 1 with a window or 2 with counters; expansion; error rate; tightening ratio; capacity; seed; with a window length of a period in ms and number of periods; number of stacks |
//! | each stack | number of the period; with counters number of id ranges and, if there are any, lowest and highest id and of each range its first id and the number of its filter; number of filters |
//! | each filter | blob; capacity; items |

use crate::bloom::hash::{Hasher, Seed};
use crate::bloom::law::Params;
use crate::bloom::object::{
    FilterOutline, Ids, Kind, Object, Outline, PeriodOutline, Shape, Window,
};

use super::fields::{Bytes, Cursor, DecodeError, Extent, RdbRead, RdbWrite, read_blob};

/// The encoding version in RDB.
pub const RDB_VERSION: i32 = 1;

/// The first byte of a dump, and of a header, so that neither is taken for the other.
const fn version(extent: Extent) -> u8 {
    match extent {
        Extent::Whole => 0x02,
        Extent::Header => 0x82,
    }
}

/// The first field.
const COMPLETE: u64 = 1;

const WINDOW: u64 = 1;
const COUNTERS: u64 = 2;

/// Whether bytes are a dump, or a header, of this dialect.
pub fn is(bytes: &[u8], extent: Extent) -> bool {
    bytes.first() == Some(&version(extent))
}

/// Reads the fields in RDB, or returns `None` if a partly loaded object follows.
pub fn read_rdb(from: &mut impl RdbRead) -> Result<Option<Outline>, DecodeError> {
    match from.uint()? {
        0 => Ok(None),
        COMPLETE => read_fields(from).map(Some),
        _ => Err(DecodeError::UnsupportedVersion),
    }
}

/// Reads a dump, or a header, all of it.
pub fn read(bytes: &[u8], extent: Extent) -> Result<Outline, DecodeError> {
    let mut from = Cursor(bytes);
    if from.array::<1>()? != [version(extent)] {
        return Err(DecodeError::UnsupportedVersion);
    }
    let outline = read_rdb(&mut from)?.ok_or(DecodeError::UnsupportedVersion)?;
    from.end()?;
    for filter in outline.filters() {
        extent.check(&filter.blob)?;
    }
    Ok(outline)
}

fn read_fields(from: &mut impl RdbRead) -> Result<Outline, DecodeError> {
    let options = from.uint()?;
    let (expansion, error_rate, tightening) = (from.uint()?, from.double()?, from.double()?);
    let capacity = from.uint()?;
    let seed = from.bytes()?;
    let kind = match options {
        WINDOW => {
            let window = Window::new(from.uint()?, from.uint()?);
            Kind::Windowed(window.ok_or("window out of range")?)
        }
        COUNTERS => Kind::Counting,
        0 => return Err("neither window nor counters".into()),
        3 => return Err("window with counters".into()),
        _ => return Err("unknown options".into()),
    };
    let mut periods = Vec::new();
    for _ in 0..from.uint()? {
        periods.push(read_period(from, kind)?);
    }
    periods.shrink_to_fit();
    let params = Params::from_stored(capacity, error_rate, tightening, expansion)?;
    let shape = Shape { params, kind };
    let seed = seed.try_into().map_err(|_| "seed of another length")?;
    Ok(Outline {
        law: shape.law().ok_or("error rate out of range")?,
        hasher: Hasher::Sip(Seed::new(seed)),
        shape,
        periods,
    })
}

fn read_period(from: &mut impl RdbRead, kind: Kind) -> Result<PeriodOutline, DecodeError> {
    let number = from.uint()?;
    let mut ids = Ids::default();
    let ranges = match kind {
        Kind::Counting => from.uint()?,
        Kind::Plain | Kind::Windowed(_) => 0,
    };
    if ranges > 0 {
        ids.seen = Some((from.uint()?, from.uint()?));
    }
    for _ in 0..ranges {
        let (first, index) = (from.uint()?, from.uint()?);
        let index = usize::try_from(index).map_err(|_| "ranges out of order")?;
        ids.ranges.push((first, index));
    }
    ids.ranges.shrink_to_fit();
    let mut filters = Vec::new();
    for _ in 0..from.uint()? {
        let (blob, capacity, items) = (read_blob(from)?, from.uint()?, from.uint()?);
        filters.push(FilterOutline::headed(blob, capacity, items)?);
    }
    filters.shrink_to_fit();
    // A period without filters would take many more bytes in memory than its few in a file.
    if filters.is_empty() {
        return Err("no filters".into());
    }
    Ok(PeriodOutline {
        number,
        ids,
        filters,
    })
}

/// Writes the fields, in RDB or as bytes.
pub fn write_fields(object: &Object, to: &mut impl RdbWrite) {
    let Shape { params, kind } = object.shape();
    to.uint(COMPLETE);
    to.uint(match kind {
        Kind::Plain => 0,
        Kind::Windowed(_) => WINDOW,
        Kind::Counting => COUNTERS,
    });
    to.uint(u64::from(params.growth.expansion()));
    to.double(params.error_rate.get());
    to.double(params.tightening.get());
    to.uint(params.capacity);
    to.bytes(object.hasher().seed().unwrap_or(&Seed::FIXED).as_bytes());
    if let Kind::Windowed(window) = kind {
        to.uint(window.period_ms());
        to.uint(window.periods());
    }
    to.uint(object.periods().len() as u64);
    for period in object.periods() {
        to.uint(period.number);
        if kind == Kind::Counting {
            to.uint(period.ids.ranges.len() as u64);
            if let Some((lowest, highest)) = period.ids.seen {
                to.uint(lowest);
                to.uint(highest);
            }
            for (first, index) in &period.ids.ranges {
                to.uint(*first);
                to.uint(*index as u64);
            }
        }
        to.uint(period.stack.filters().len() as u64);
        for filter in period.stack.filters() {
            to.bytes(filter.blob());
            to.uint(filter.capacity());
            to.uint(filter.items());
        }
    }
}

pub fn write(object: &Object, extent: Extent) -> Vec<u8> {
    let mut out = Bytes {
        bytes: vec![version(extent)],
        extent,
    };
    write_fields(object, &mut out);
    out.bytes
}
