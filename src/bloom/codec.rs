//! Bytes to objects and back: the one door for what comes from outside.
//!
//! Three forms hold the same fields, in different order and width. Each has a reader here, and each
//! reader ends in the same checks ([`BloomObject::from_parts`]). None of them allocates for a size
//! that is only claimed: what is taken is what has come.
//!
//! | form | where | fields |
//! |---|---|---|
//! | RDB, encoding version 1 | RDB files, DUMP, full resync | number of filters, expansion, error rate, tightening ratio, seed-is-random; per filter blob, capacity; for the last filter its items (the others are full) |
//! | dump, version 1 | BF.LOAD, AOF | version byte, expansion u32, error rate f64, tightening ratio f64, seed-is-random u8, number of filters u64; per filter length u64, blob, items i64, capacity i64 |
//! | header, version 129 | BF.SCANDUMP, BF.LOADCHUNK | as the dump, with every blob cut after its own 45-byte header |
//!
//! Objects with periods or counters ([`Extended`]) have the same three, of one sequence of fields. In RDB
//! they are the stream's; in a dump (version 2) and a header (version 130) they follow the version byte,
//! every number as eight bytes and every string behind its length.
//!
//! | of | fields |
//! |---|---|
//! | the object | 1; 1 with a window or 2 with counters, never both; expansion; error rate; tightening ratio; capacity; seed; with a window length of a period in ms and number of periods; number of stacks |
//! | each stack | number of the period; with counters number of id ranges and, if there are any, lowest and highest id and of each range its first id and the number of its filter; number of filters |
//! | each filter | blob; capacity; items |
//!
//! The widths of the dump are those of bincode 1.3's fixed form, little endian. It is written by
//! hand: the format is frozen, and a cursor that refuses before it allocates is shorter than a
//! guard around a general decoder.

use super::any::AnyObject;
use super::extended::{Extended, ExtendedParts};
use super::filter::{Filter, HEADER_BYTES};
use super::object::{BloomObject, FilterParts, Parts};
use super::probe::Seed;
use super::redisbloom;
use super::stack::{Ids, StackParts};

pub use super::redisbloom::RDB_VERSION as REDISBLOOM_RDB_VERSION;

/// The encoding version of the type in RDB files.
pub const RDB_VERSION: i32 = 1;

/// The encoding version of the type of [`Extended`] objects in RDB files.
pub const EXTENDED_RDB_VERSION: i32 = 1;

/// The first byte of a dump.
const DUMP_VERSION: u8 = 1;

/// The first byte of an [`Extended`] object's dump.
const EXTENDED_DUMP_VERSION: u8 = 2;

/// The first byte of a chunked dump's header, of its own so that neither is taken for the other.
pub const HEADER_VERSION: u8 = 0x81;

/// The first byte of the header of an [`Extended`] object's chunked dump.
const EXTENDED_HEADER_VERSION: u8 = 0x82;

/// Why bytes are no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written in a newer form than this program knows.
    UnsupportedVersion,
    /// The bytes end before the object does, or the stream failed.
    Truncated,
    /// Something in them can't be, in words for a log.
    Malformed(&'static str),
    /// There is no memory for what they say.
    NoMemory,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnsupportedVersion => f.write_str("unsupported version"),
            Self::Truncated => f.write_str("bytes end too early"),
            Self::Malformed(what) => f.write_str(what),
            Self::NoMemory => f.write_str("not enough memory"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<&'static str> for DecodeError {
    fn from(what: &'static str) -> Self {
        Self::Malformed(what)
    }
}

/// A stream of RDB fields to read from. Every method fails with [`DecodeError::Truncated`] where
/// the stream has ended or holds a field of another kind.
pub trait RdbRead {
    /// The next unsigned integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn uint(&mut self) -> Result<u64, DecodeError>;
    /// The next double.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn double(&mut self) -> Result<f64, DecodeError>;
    /// The next string.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`]
    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError>;
}

/// A stream of RDB fields to write to.
pub trait RdbWrite {
    /// Writes an unsigned integer.
    fn uint(&mut self, value: u64);
    /// Writes a double.
    fn double(&mut self, value: f64);
    /// Writes a string.
    fn bytes(&mut self, value: &[u8]);
}

/// Reads an object's RDB fields, whose first, the number of filters, was read already.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_rdb(count: u64, from: &mut impl RdbRead) -> Result<BloomObject, DecodeError> {
    let expansion = from.uint()?;
    let error_rate = from.double()?;
    let tightening = from.double()?;
    let seed_is_random = from.uint()?;
    let mut filters = Vec::new();
    for left in (0..count).rev() {
        let blob = read_blob(from)?;
        let capacity = from.uint()?;
        let items = if left == 0 { from.uint()? } else { capacity };
        filters.push(FilterParts {
            blob,
            capacity,
            items,
        });
    }
    Ok(BloomObject::from_parts(Parts {
        expansion,
        error_rate,
        tightening,
        seed_is_random,
        filters,
    })?)
}

/// Reads the RDB fields of an object of RedisBloom, whose first two, the number of items and the number
/// of links, were read already.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_redisbloom(
    items: u64,
    count: u64,
    version: i32,
    from: &mut impl RdbRead,
) -> Result<BloomObject, DecodeError> {
    let parts = redisbloom::read_rdb(items, count, version, from)?;
    Ok(BloomObject::from_redisbloom(parts)?)
}

/// Writes an object's RDB fields, all of them, in its own form.
pub fn write_rdb(object: &BloomObject, to: &mut impl RdbWrite) {
    if let Some(origin) = object.origin() {
        return redisbloom::write_rdb(origin, object.items(), object.filters(), to);
    }
    let params = object.params();
    to.uint(object.filters().len() as u64);
    to.uint(u64::from(params.growth.expansion()));
    to.double(params.error_rate.get());
    to.double(params.tightening.get());
    to.uint(u64::from(object.seed().is_random()));
    for filter in object.filters() {
        to.bytes(filter.blob());
        to.uint(filter.capacity());
    }
    to.uint(object.filters().last().map_or(0, Filter::items));
}

/// Reads a dump, all of it.
///
/// ```
/// use valkeybloom::bloom::{Limits, codec};
///
/// # use valkeybloom::bloom::{BloomObject, Fraction, Growth, Params, Seed};
/// # let params = Params {
/// #     capacity: 100,
/// #     error_rate: Fraction::new(0.01).unwrap(),
/// #     tightening: Fraction::HALF,
/// #     growth: Growth::from_expansion(2),
/// # };
/// # let mut on_the_server = BloomObject::new(&params, Seed::FIXED, Limits::Obey).unwrap();
/// # on_the_server.add(on_the_server.probe(b"known"), || Limits::Obey).unwrap();
/// # let dump = codec::encode(&on_the_server);
/// // The bytes that BF.LOAD takes and an AOF holds.
/// let mut object = codec::decode(&dump).unwrap();
/// assert!(object.contains(object.probe(b"known")));
///
/// let probe = object.probe(b"new");
/// object.add(probe, || Limits::Obey).unwrap();
/// let again = codec::decode(&codec::encode(&object)).unwrap();
/// assert!(again.contains(probe));
/// assert_eq!(again.items(), 2);
/// ```
///
/// # Errors
/// Any [`DecodeError`].
pub fn decode(dump: &[u8]) -> Result<BloomObject, DecodeError> {
    Ok(BloomObject::from_parts(parts(dump, DUMP_VERSION)?)?)
}

/// Writes an object's dump, as BF.LOAD takes it.
#[must_use]
pub fn encode(object: &BloomObject) -> Vec<u8> {
    write(object, DUMP_VERSION, Filter::blob)
}

/// Reads the dump of any object.
///
/// # Errors
/// Any [`DecodeError`].
pub fn decode_any(dump: &[u8]) -> Result<AnyObject, DecodeError> {
    if dump.first() != Some(&EXTENDED_DUMP_VERSION) {
        return decode(dump).map(AnyObject::Plain);
    }
    let mut from = Cursor(&dump[1..]);
    let parts = read_extended_parts(&mut from)?;
    from.end()?;
    Ok(AnyObject::Extended(Box::new(Extended::from_parts(parts)?)))
}

/// Writes an object's dump, as BF.LOAD takes it.
#[must_use]
pub fn encode_extended(object: &Extended) -> Vec<u8> {
    let mut out = Fields {
        bytes: vec![EXTENDED_DUMP_VERSION],
        most: usize::MAX,
    };
    write_extended(object, &mut out);
    out.bytes
}

/// Reads an object's RDB fields, whose first was read already.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_extended(from: &mut impl RdbRead) -> Result<Extended, DecodeError> {
    Ok(Extended::from_parts(read_extended_fields(from)?)?)
}

/// A filter, refused at once where it is none: of its few bytes in a file many more would be kept.
fn read_blob(from: &mut impl RdbRead) -> Result<Vec<u8>, DecodeError> {
    let blob = from.bytes()?;
    if blob.len() < HEADER_BYTES {
        return Err("filter shorter than its header".into());
    }
    Ok(blob)
}

const WINDOW: u64 = 1;
const COUNTERS: u64 = 2;

fn read_extended_parts(from: &mut impl RdbRead) -> Result<ExtendedParts, DecodeError> {
    if from.uint()? != 1 {
        return Err(DecodeError::UnsupportedVersion);
    }
    read_extended_fields(from)
}

fn read_extended_fields(from: &mut impl RdbRead) -> Result<ExtendedParts, DecodeError> {
    let options = from.uint()?;
    if options & !(WINDOW | COUNTERS) != 0 {
        return Err("unknown options".into());
    }
    let counting = options & COUNTERS != 0;
    let (expansion, error_rate, tightening) = (from.uint()?, from.double()?, from.double()?);
    let capacity = from.uint()?;
    let seed = from
        .bytes()?
        .try_into()
        .map_err(|_| "seed of another length")?;
    let window = match options & WINDOW {
        0 => None,
        _ => Some((from.uint()?, from.uint()?)),
    };
    let mut stacks = Vec::new();
    for _ in 0..from.uint()? {
        let period = from.uint()?;
        let (mut ids, mut ranges) = (None, Vec::new());
        let count = if counting { from.uint()? } else { 0 };
        if count > 0 {
            ids = Some(Ids {
                lowest: from.uint()?,
                highest: from.uint()?,
            });
        }
        for _ in 0..count {
            let (first, index) = (from.uint()?, from.uint()?);
            let index = usize::try_from(index).map_err(|_| "ranges out of order")?;
            ranges.push((first, index));
        }
        ranges.shrink_to_fit();
        let mut filters = Vec::new();
        for _ in 0..from.uint()? {
            filters.push(FilterParts {
                blob: read_blob(from)?,
                capacity: from.uint()?,
                items: from.uint()?,
            });
        }
        if filters.is_empty() {
            return Err("no filters".into());
        }
        stacks.push(StackParts {
            period,
            ids,
            ranges,
            filters,
        });
    }
    Ok(ExtendedParts {
        expansion,
        error_rate,
        tightening,
        counting,
        window,
        capacity,
        seed: Seed::new(seed),
        stacks,
    })
}

/// Writes an object's RDB fields, all of them.
pub fn write_extended(object: &Extended, to: &mut impl RdbWrite) {
    let shape = object.shape();
    to.uint(1);
    let options = if shape.window.is_some() { WINDOW } else { 0 };
    to.uint(options | if shape.counting { COUNTERS } else { 0 });
    to.uint(u64::from(shape.params.growth.expansion()));
    to.double(shape.params.error_rate.get());
    to.double(shape.params.tightening.get());
    to.uint(shape.params.capacity);
    to.bytes(object.seed().as_bytes());
    if let Some(window) = shape.window {
        to.uint(window.period_ms());
        to.uint(window.periods());
    }
    to.uint(object.stacks().len() as u64);
    for stack in object.stacks() {
        to.uint(stack.period);
        if shape.counting {
            to.uint(stack.ranges.len() as u64);
            if let Some(ids) = stack.ids {
                to.uint(ids.lowest);
                to.uint(ids.highest);
            }
            for (first, index) in &stack.ranges {
                to.uint(*first);
                to.uint(*index as u64);
            }
        }
        to.uint(stack.object.filters().len() as u64);
        for filter in stack.object.filters() {
            to.bytes(filter.blob());
            to.uint(filter.capacity());
            to.uint(filter.items());
        }
    }
}

/// Fields as bytes: of strings, no more than so many.
struct Fields {
    bytes: Vec<u8>,
    most: usize,
}

impl RdbWrite for Fields {
    fn uint(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        let value = &value[..value.len().min(self.most)];
        self.uint(value.len() as u64);
        self.bytes.extend(value);
    }
}

pub(super) fn encode_extended_header(object: &Extended) -> Vec<u8> {
    let mut out = Fields {
        bytes: vec![EXTENDED_HEADER_VERSION],
        most: HEADER_BYTES,
    };
    write_extended(object, &mut out);
    out.bytes
}

/// Reads the header of an [`Extended`] object, or tells that it is another.
pub(super) fn extended_header_parts(header: &[u8]) -> Result<Option<ExtendedParts>, DecodeError> {
    if header.first() != Some(&EXTENDED_HEADER_VERSION) {
        return Ok(None);
    }
    let mut from = Cursor(&header[1..]);
    let parts = read_extended_parts(&mut from)?;
    from.end()?;
    let mut blobs = parts.stacks.iter().flat_map(|stack| &stack.filters);
    if blobs.any(|filter| filter.blob.len() != HEADER_BYTES) {
        return Err("header holds more than headers".into());
    }
    Ok(Some(parts))
}

/// Length of the dump that [`encode`] writes, in bytes.
#[must_use]
pub fn encoded_len(object: &BloomObject) -> usize {
    let blobs: usize = object.filters().iter().map(|f| f.blob().len()).sum();
    PREFIX_BYTES + object.filters().len() * PER_FILTER_BYTES + blobs
}

/// Version, expansion, error rate, tightening ratio, seed-is-random, number of filters.
const PREFIX_BYTES: usize = 1 + 4 + 8 + 8 + 1 + 8;

/// Length, items, capacity.
const PER_FILTER_BYTES: usize = 8 + 8 + 8;

pub(super) fn encode_header(object: &BloomObject) -> Vec<u8> {
    if let Some(origin) = object.origin() {
        return redisbloom::encode_header(origin, object.items(), object.filters());
    }
    write(object, HEADER_VERSION, |f| &f.blob()[..HEADER_BYTES])
}

pub(super) fn header_parts(header: &[u8]) -> Result<Parts, DecodeError> {
    let parts = parts(header, HEADER_VERSION)?;
    if parts.filters.iter().any(|f| f.blob.len() != HEADER_BYTES) {
        return Err("header holds more than headers".into());
    }
    Ok(parts)
}

fn write(object: &BloomObject, version: u8, body: impl Fn(&Filter) -> &[u8]) -> Vec<u8> {
    let params = object.params();
    let bodies: usize = object.filters().iter().map(|f| body(f).len()).sum();
    let bytes = PREFIX_BYTES + object.filters().len() * PER_FILTER_BYTES + bodies;
    let mut out = Vec::with_capacity(bytes);
    out.push(version);
    out.extend(params.growth.expansion().to_le_bytes());
    out.extend(params.error_rate.get().to_le_bytes());
    out.extend(params.tightening.get().to_le_bytes());
    out.push(u8::from(object.seed().is_random()));
    out.extend((object.filters().len() as u64).to_le_bytes());
    for filter in object.filters() {
        let body = body(filter);
        out.extend((body.len() as u64).to_le_bytes());
        out.extend(body);
        out.extend(filter.items().to_le_bytes());
        out.extend(filter.capacity().to_le_bytes());
    }
    out
}

fn parts(bytes: &[u8], version: u8) -> Result<Parts, DecodeError> {
    let mut from = Cursor(bytes);
    if from.array::<1>()? != [version] {
        return Err(DecodeError::UnsupportedVersion);
    }
    let expansion = u64::from(u32::from_le_bytes(from.array()?));
    let error_rate = f64::from_le_bytes(from.array()?);
    let tightening = f64::from_le_bytes(from.array()?);
    let [seed_is_random] = from.array()?;
    let count = from.uint()?;
    let mut filters = Vec::new();
    for _ in 0..count {
        let length = from.uint()?;
        let blob = from.slice(length)?.to_vec();
        // Signed in the format: what is negative there is out of range here.
        let items = from.uint()?;
        let capacity = from.uint()?;
        filters.push(FilterParts {
            blob,
            capacity,
            items,
        });
    }
    from.end()?;
    Ok(Parts {
        expansion,
        error_rate,
        tightening,
        seed_is_random: u64::from(seed_is_random),
        filters,
    })
}

/// What is left of the bytes.
struct Cursor<'b>(&'b [u8]);

impl<'b> Cursor<'b> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err("bytes behind the object".into())
        }
    }

    fn slice(&mut self, length: u64) -> Result<&'b [u8], DecodeError> {
        let length = usize::try_from(length).map_err(|_| DecodeError::Truncated)?;
        let (slice, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(slice)
    }
}

impl RdbRead for Cursor<'_> {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        let length = self.uint()?;
        Ok(self.slice(length)?.to_vec())
    }
}
