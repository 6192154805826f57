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
//! The widths of the dump are those of bincode 1.3's fixed form, little endian. It is written by
//! hand: the format is frozen, and a cursor that refuses before it allocates is shorter than a
//! guard around a general decoder.

use super::filter::HEADER_BYTES;
use super::object::{BloomObject, FilterParts, Parts};
use super::redisbloom;

pub use super::redisbloom::RDB_VERSION as REDISBLOOM_RDB_VERSION;

/// The encoding version of the type in RDB files.
pub const RDB_VERSION: i32 = 1;

/// The first byte of a dump.
const DUMP_VERSION: u8 = 1;

/// The first byte of a chunked dump's header, of its own so that neither is taken for the other.
pub const HEADER_VERSION: u8 = 0x81;

/// Why bytes are no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written in a newer form than this program knows.
    UnsupportedVersion,
    /// The bytes end before the object does, or the stream failed.
    Truncated,
    /// Something in them can't be, in words for a log.
    Malformed(&'static str),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnsupportedVersion => f.write_str("unsupported version"),
            Self::Truncated => f.write_str("bytes end too early"),
            Self::Malformed(what) => f.write_str(what),
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
        let blob = from.bytes()?;
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
    to.uint(object.filters().last().map_or(0, super::Filter::items));
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
    write(object, DUMP_VERSION, super::Filter::blob)
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

fn write(object: &BloomObject, version: u8, body: impl Fn(&super::Filter) -> &[u8]) -> Vec<u8> {
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
    if !from.0.is_empty() {
        return Err("bytes behind the object".into());
    }
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

    fn uint(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
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
