//! The header of one of our filters.
//!
//! ```text
//!   0         1                  9           13         45
//!   version   bitmap bytes, u64  k, u32      seed       cells
//! ```
//!
//! Numbers are little endian. It is the form of the `bloomfilter` crate, in version 1.

use crate::hash::Seed;

use super::cells::{Cells, HEADER_BYTES};
use super::geometry::Geometry;

/// The most hash functions of a filter. The smallest rate that a double can hold needs 1,075, and some more where a
/// size is rounded up to whole bytes.
pub const MAX_HASHES: u32 = 1100;

const VERSION: u8 = 1;

/// The contents of a header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// The size of the filter.
    pub geometry: Geometry,
    /// The keys of the hash functions.
    pub seed: Seed,
}

impl Header {
    /// Reads the header in front of a blob.
    pub fn parse(blob: &[u8]) -> Result<Self, &'static str> {
        let (header, _) = blob
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or("filter shorter than its header")?;
        let (version, rest) = (header[0], &header[1..]);
        if version != VERSION {
            return Err("filter of unknown version");
        }
        let (bitmap_bytes, rest) = rest.split_first_chunk().ok_or("unreachable: 44 bytes")?;
        let (hashes, rest) = rest.split_first_chunk().ok_or("unreachable: 36 bytes")?;
        let (seed, _) = rest.split_first_chunk().ok_or("unreachable: 32 bytes")?;
        let bitmap_bytes = u64::from_le_bytes(*bitmap_bytes);
        let hashes = u32::from_le_bytes(*hashes);
        if bitmap_bytes == 0 {
            return Err("filter of zero bits");
        }
        // The number of each bit of the cells must fit in 64 bits.
        if bitmap_bytes > u64::MAX / 16 {
            return Err("filter larger than memory");
        }
        if !(1..=MAX_HASHES).contains(&hashes) {
            return Err("number of hash functions out of range");
        }
        Ok(Self {
            geometry: Geometry::of_bytes(bitmap_bytes, hashes, Cells::Bits),
            seed: Seed::new(*seed),
        })
    }

    /// Writes the header to the front of a blob that has room for it.
    pub fn write(&self, blob: &mut [u8]) {
        blob[0] = VERSION;
        blob[1..9].copy_from_slice(&(self.geometry.positions / 8).to_le_bytes());
        blob[9..13].copy_from_slice(&self.geometry.hashes.to_le_bytes());
        blob[13..45].copy_from_slice(self.seed.as_bytes());
    }
}
