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

use super::list::List;
use super::object::TopK;
use super::pairs::PAIR_BYTES;
use super::places::fingerprint;
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
    let shape = Shape::new(k, width, depth, from.double()?).map_err(|fault| match fault {
        Fault::K | Fault::Width | Fault::Cells => "size out of range",
        Fault::Depth => "depth out of range",
        Fault::Decay => "decay out of range",
    })?;
    let cells = string(from, shape.cells(), PAIR_BYTES)?;
    let heap = string(from, k, ENTRY_BYTES)?;
    let mut list = List::new(shape.k(), seed).ok_or(DecodeError::NoMemory)?;
    for (at, entry) in (0..).zip(heap.as_chunks().0) {
        let entry = Stored::read(entry);
        let mut item = from.bytes()?;
        if item.pop() != Some(0) {
            return Err("item without its end".into());
        }
        if item.is_empty() && entry.fingerprint == 0 && entry.count == 0 {
            continue;
        }
        let item = memory::boxed(item).ok_or(DecodeError::NoMemory)?;
        let matches = fingerprint(&item) == entry.fingerprint;
        let listed = Listed {
            item,
            fingerprint: entry.fingerprint,
            at,
        };
        let restored = list.restore(at, entry.count, listed, matches);
        restored.ok_or(DecodeError::NoMemory)??;
    }
    let first = heap.as_chunks().0.first().map(Stored::read);
    let address = first.map_or(0, |first| first.address);
    let collisions = if address & IS_NUMBER == 0 {
        0
    } else {
        address ^ IS_NUMBER
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
    let stored = heap.as_chunks_mut().0.iter_mut();
    for (bytes, (count, item)) in stored.zip(object.entries()) {
        Stored::of(count, item).write(bytes);
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

/// An entry of the heap in its stored form.
#[derive(Default)]
struct Stored {
    fingerprint: u32,
    length: u32,
    address: u64,
    count: u32,
}

impl Stored {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a server's strings are shorter than 2³² bytes"
    )]
    fn of(count: u32, item: Option<(u32, &[u8])>) -> Self {
        let (fingerprint, item) = item.unwrap_or_default();
        Self {
            fingerprint,
            length: item.len() as u32,
            address: 0,
            count,
        }
    }

    fn read(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        let word = |at| u32::from_le_bytes(word(at));
        Self {
            fingerprint: word(0),
            length: word(4),
            address: u64::from(word(12)) << 32 | u64::from(word(8)),
            count: word(16),
        }
    }

    fn write(&self, bytes: &mut [u8; ENTRY_BYTES]) {
        bytes[..4].copy_from_slice(&self.fingerprint.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
    }
}
