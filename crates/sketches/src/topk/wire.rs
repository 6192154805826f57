//! Stored form of top-k lists: `RedisBloom`'s type `TopK-TYPE`. `RedisBloom` can read the bytes that this module
//! writes.
//!
//! | fields of encoding version 0 |
//! |---|
//! | k, width, depth, decay (a double); the cells; the heap; for each entry of the heap its item and a zero byte, or a zero byte alone if the entry is free |
//!
//! An entry of the heap has 24 bytes: the fingerprint, the item's length, eight bytes that are an address in the process
//! of `RedisBloom`, the count, and four zeros. The address means nothing to another process. The first entry's holds the
//! number of collisions here, with the highest bit set, which no address has; without collisions it is 0.
//!
//! `RedisBloom` cuts an item at a zero byte, which the fingerprint and the length do not show. Items are read as long as
//! they are. A cut one keeps its fingerprint, so nothing can match it.

use std::ffi::CStr;

use crate::bytes::{DecodeError, RdbRead, RdbWrite};
use crate::hash::Seed;
use crate::machine::{memory, work};

use super::item::fingerprint as fingerprint_of;
use super::list::List;
use super::object::TopK;
use super::pairs::PAIR_BYTES;
use super::shape::{Fault, Shape};
use super::slots::Listed;

/// The name of the type in a server.
pub const TYPE_NAME: &CStr = c"TopK-TYPE";

/// The encoding version that is written, and the only one that is read.
pub const RDB_VERSION: i32 = 0;

/// The number of bytes of an entry of the heap.
const ENTRY_BYTES: usize = 24;

/// The highest bit of the first entry's address, if it is the number of collisions.
const IS_NUMBER: u64 = 1 << 63;

/// Returns the reason that a stored shape is refused, in words for a log.
pub const fn reason(fault: Fault) -> &'static str {
    match fault {
        Fault::K | Fault::Width | Fault::Cells => "size out of range",
        Fault::Depth => "depth out of range",
        Fault::Decay => "decay out of range",
    }
}

/// Reads the fields in RDB of an encoding version. The list's index gets the seed of
/// [`TopK::new`](super::TopK::new).
///
/// # Errors
/// Any [`DecodeError`].
pub fn read_rdb(version: i32, from: &mut impl RdbRead, seed: Seed) -> Result<TopK, DecodeError> {
    if version != RDB_VERSION {
        return Err(DecodeError::UnsupportedVersion);
    }
    let [k, width, depth] = [from.uint()?, from.uint()?, from.uint()?];
    let shape = Shape::new(k, width, depth, from.double()?).map_err(reason)?;
    let cells = string(from, shape.cells(), PAIR_BYTES)?;
    let heap = string(from, k, ENTRY_BYTES)?;
    let mut list = List::new(shape.k(), seed).ok_or(DecodeError::NoMemory)?;
    for (at, entry) in (0..).zip(heap.as_chunks().0) {
        let [fingerprint, _length, _, _, count, _] = words(entry);
        let mut item = from.bytes()?;
        if item.pop() != Some(0) {
            return Err("item without its end".into());
        }
        if item.is_empty() && fingerprint == 0 && count == 0 {
            continue;
        }
        let item = memory::boxed(item).ok_or(DecodeError::NoMemory)?;
        let matches = fingerprint_of(&item) == fingerprint;
        let listed = Listed {
            item,
            fingerprint,
            at,
        };
        list.restore(count, listed, matches)?;
    }
    let [_, _, low, high, ..] = heap.as_chunks().0.first().map_or([0; 6], words);
    let address = u64::from(high) << 32 | u64::from(low);
    let collisions = match address & IS_NUMBER {
        0 => 0,
        _ => address ^ IS_NUMBER,
    };
    Ok(TopK::from_parts(shape, cells, list, collisions))
}

/// Reads a string of `count` parts of a size.
fn string(from: &mut impl RdbRead, count: u64, size: usize) -> Result<Box<[u8]>, DecodeError> {
    let string = from.bytes()?;
    // The product is below 2³⁷.
    if string.len() as u64 != count * size as u64 {
        return Err("string of another length".into());
    }
    memory::boxed(string).ok_or(DecodeError::NoMemory)
}

/// Writes the fields in RDB.
///
/// # Panics
/// If the heap's bytes can't be allocated, and the stream can't fail.
pub fn write_rdb(object: &TopK, to: &mut impl RdbWrite) {
    let shape = object.shape();
    to.uint(shape.k().into());
    to.uint(shape.width().into());
    to.uint(shape.depth().into());
    to.double(shape.decay());
    to.bytes(object.cells());
    let entries = object.entries().len();
    work::bytes(object.cells().len() + entries * ENTRY_BYTES);
    let Some(mut heap) = memory::zeroed(entries * ENTRY_BYTES) else {
        return to.no_memory("the heap");
    };
    let stored = heap.as_chunks_mut::<ENTRY_BYTES>().0.iter_mut();
    for (entry, (count, item)) in stored.zip(object.entries()) {
        let (fingerprint, item) = item.unwrap_or_default();
        entry[..4].copy_from_slice(&fingerprint.to_le_bytes());
        entry[4..8].copy_from_slice(&item.len().to_le_bytes()[..4]);
        entry[16..20].copy_from_slice(&count.to_le_bytes());
    }
    if object.collisions() > 0 {
        let number = object.collisions() | IS_NUMBER;
        heap[8..16].copy_from_slice(&number.to_le_bytes());
    }
    to.bytes(&heap);
    drop(heap);
    let mut ended = Vec::new();
    for (_, item) in object.entries() {
        let item = item.map_or(&[][..], |(_, item)| item);
        work::bytes(item.len() + 1);
        ended.clear();
        if ended.try_reserve(item.len() + 1).is_err() {
            return to.no_memory("an item");
        }
        ended.extend_from_slice(item);
        ended.push(0);
        to.bytes(&ended);
    }
}

/// Returns the 32-bit words of an entry of the heap.
fn words(entry: &[u8; ENTRY_BYTES]) -> [u32; 6] {
    let mut words = [0; 6];
    for (word, bytes) in words.iter_mut().zip(entry.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}
