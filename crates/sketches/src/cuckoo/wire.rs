//! Stored forms of cuckoo filters: `RedisBloom`'s type `MBbloomCF`. `RedisBloom` can read the bytes that this module
//! writes.
//!
//! | form | fields |
//! |---|---|
//! | RDB, encoding version 4 | number of filters, buckets of the first, items, removals since the last compaction, slots per bucket, iterations, expansion; per filter, oldest first, number of buckets, slots |
//! | header of chunks | items u64, buckets of the first u64, removals u64, number of filters u64, slots per bucket u16, iterations u16, expansion u16; all little endian |
//!
//! Chunks have the same cursors as those of [Bloom objects](crate::bloom::chunks). They may be loaded in any order and
//! repeatedly, and nothing marks the end: some objects in `RedisBloom`'s files lack chunks.

use std::borrow::Cow;

use crate::bytes::{ByteCursor, CHUNK_BYTES, DecodeError, RdbRead, RdbWrite, push};
use crate::machine::{memory, work};

use super::buckets::Buckets;
use super::object::{ChunkError, Cuckoo};
use super::outline::{Outline, ValidOutline};
use super::shape::Limits;

/// The name of the type in a server.
pub const TYPE_NAME: &std::ffi::CStr = c"MBbloomCF";

/// The encoding version that is written, and the only one that is read. Older versions hashed items differently.
pub const RDB_VERSION: i32 = 4;

/// Reads the fields in RDB of an encoding version.
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_rdb(version: i32, from: &mut impl RdbRead) -> Result<Cuckoo, DecodeError> {
    if version < RDB_VERSION {
        let older = "a cuckoo filter of RedisBloom 2.0 or older, which hashed items differently";
        return Err(older.into());
    }
    if version > RDB_VERSION {
        return Err(DecodeError::UnsupportedVersion);
    }
    let stored = Outline {
        filters: from.uint()?,
        first_buckets: from.uint()?,
        items: from.uint()?,
        deletes: from.uint()?,
        bucket_size: from.uint()?,
        max_iterations: from.uint()?,
        expansion: from.uint()?,
    };
    let outline = stored.check()?;
    let mut filters = Vec::new();
    for buckets in outline.buckets() {
        if from.uint()? != buckets {
            return Err("number of buckets that does not follow from the first filter's".into());
        }
        let mut slots = from.bytes()?;
        if slots.len() as u64 != buckets * stored.bucket_size {
            return Err("filter of the wrong size".into());
        }
        // An empty filter that only a header claimed takes no memory after a reload either.
        if slots.iter().all(|slot| *slot == 0) {
            slots = Vec::new();
        }
        push(&mut filters, slots)?;
    }
    Cuckoo::from_outline(&outline, filters)
}

/// Writes the fields in RDB.
///
/// # Panics
/// If the zeros of an unallocated filter can't be allocated, and the stream can't fail.
pub fn write_rdb(object: &Cuckoo, to: &mut impl RdbWrite) {
    let stored = object.outline();
    for number in [
        stored.filters,
        stored.first_buckets,
        stored.items,
        stored.deletes,
        stored.bucket_size,
        stored.max_iterations,
        stored.expansion,
    ] {
        to.uint(number);
    }
    // Filters without memory share a buffer of zeros. Filters never shrink, so the newest of them needs the most. The
    // system does not back these pages, because nothing writes to them.
    let mut without_memory = object.filters().iter().filter(|f| f.slots().is_empty());
    let largest = without_memory.next_back().map_or(0, Buckets::size);
    let zeros = usize::try_from(largest).ok().and_then(memory::zeroed);
    let Some(zeros) = zeros else {
        return to.no_memory("an empty filter");
    };
    work::bytes(zeros.len());
    for filter in object.filters() {
        let slots = match filter.slots() {
            [] => &zeros[..memory::index(filter.size())],
            slots => slots,
        };
        to.uint(filter.buckets());
        work::bytes(slots.len());
        to.bytes(slots);
    }
}

/// Writes the header of an object's chunks.
pub fn write_header(object: &Cuckoo) -> Vec<u8> {
    header_of(&object.valid_outline())
}

/// Returns the header of an object's chunks, given the object without its slots.
pub fn header_of(object: &ValidOutline) -> Vec<u8> {
    let ValidOutline { shape, .. } = object;
    let mut header = Vec::with_capacity(HEADER_BYTES);
    for number in [
        object.items,
        shape.first_buckets,
        object.deletes,
        object.filters,
    ] {
        header.extend(number.to_le_bytes());
    }
    for number in [
        shape.bucket_size.into(),
        shape.max_iterations,
        shape.expansion,
    ] {
        header.extend(number.to_le_bytes());
    }
    header
}

const HEADER_BYTES: usize = 38;

/// Size of the address of its process with which `RedisBloom` 2.2.0 to 2.2.10 ends headers, in its logs too.
const ADDRESS_BYTES: usize = 8;

/// The reason that a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// The length is wrong.
    Length,
    /// No object can have these numbers, or the limits don't admit it.
    Numbers,
    /// There is not enough memory for the list of filters.
    NoMemory,
}

crate::error::texts!(HeaderError {
    Self::Length => "the header has the wrong length",
    Self::Numbers => "the header's numbers are out of range",
    Self::NoMemory => "not enough memory",
});

/// Creates the empty object of a header. Its filters take memory when their chunks arrive.
///
/// # Errors
/// Any [`HeaderError`].
pub fn begin(header: &[u8], limits: &Limits) -> Result<Cuckoo, HeaderError> {
    let stored = read_header(header).ok_or(HeaderError::Length)?;
    let outline = stored.check().map_err(|_| HeaderError::Numbers)?;
    if !outline.is_within(Cuckoo::BASE_BYTES, limits) {
        return Err(HeaderError::Numbers);
    }
    Cuckoo::claimed(&outline).ok_or(HeaderError::NoMemory)
}

/// Returns whether a header is that of an object, whether or not it ends in an address.
pub fn is_header_of(object: &Cuckoo, header: &[u8]) -> bool {
    without_address(header).is_some_and(|header| *header == *write_header(object))
}

/// Returns a header without its address, or `None` if it has another length.
fn without_address(header: &[u8]) -> Option<&[u8; HEADER_BYTES]> {
    let (header, rest) = header.split_first_chunk()?;
    matches!(rest.len(), 0 | ADDRESS_BYTES).then_some(header)
}

fn read_header(header: &[u8]) -> Option<Outline> {
    let mut from = ByteCursor(without_address(header)?);
    let mut long = || from.uint().ok();
    let (items, first_buckets, deletes, filters) = (long()?, long()?, long()?, long()?);
    let mut short = || Some(u64::from(u16::from_le_bytes(from.array().ok()?)));
    Some(Outline {
        items,
        first_buckets,
        deletes,
        filters,
        bucket_size: short()?,
        max_iterations: short()?,
        expansion: short()?,
    })
}

/// Returns the cursor of the next chunk, and the chunk at this cursor: slots from offset `cursor - 1` of all filters
/// end to end, up to [`CHUNK_BYTES`] and within one filter. Past the end, the cursor is 0 and the chunk is empty. Returns
/// `None` if the slots of a filter that takes no memory can't be allocated.
pub fn chunk(object: &Cuckoo, cursor: u64) -> Option<(u64, Cow<'_, [u8]>)> {
    let Some((index, within)) = cursor.checked_sub(1).and_then(|at| object.find(at)) else {
        return Some((0, Cow::default()));
    };
    let filter = &object.filters()[index];
    let length = (filter.size() - within).min(CHUNK_BYTES as u64);
    let next = cursor + length;
    let length = memory::index(length);
    let slots = if filter.slots().is_empty() {
        memory::zeroed(length)?.into_vec().into()
    } else {
        filter.slots()[memory::index(within)..][..length].into()
    };
    Some((next, slots))
}

/// Overwrites slots with a chunk that ends at `cursor`.
///
/// # Errors
/// Any [`ChunkError`]. Then nothing has changed.
pub fn load(object: &mut Cuckoo, cursor: u64, chunk: &[u8]) -> Result<(), ChunkError> {
    let offset = cursor
        .checked_sub(1)
        .and_then(|end| end.checked_sub(chunk.len() as u64))
        .ok_or(ChunkError::Misplaced)?;
    object.write(offset, chunk)
}

/// Returns the chunks that rebuild the object after its header, each with the cursor of the next. Filters that take no
/// memory need no chunks.
pub fn chunks(object: &Cuckoo) -> impl Iterator<Item = (u64, &[u8])> {
    let mut end = 1;
    let filters = object.filters().iter().map(move |filter| {
        let start = end;
        end += filter.size();
        (start, filter.slots())
    });
    filters.flat_map(|(start, slots)| {
        let mut cursor = start;
        slots.chunks(CHUNK_BYTES).map(move |chunk| {
            cursor += chunk.len() as u64;
            (cursor, chunk)
        })
    })
}
