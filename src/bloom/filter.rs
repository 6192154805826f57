//! One Bloom filter of fixed size.
//!
//! Its bits lie in a *blob*, in the form in which they are stored and sent, so that saving one is
//! a write and loading one is a read, without a copy:
//!
//! ```text
//!   0         1                  9           13         45
//!   version=1 bitmap bytes, u64  k, u32      seed       bitmap: bit i is byte i/8, value 1 << i%8
//! ```
//!
//! Numbers are little endian.

use super::machine;
use super::probe::{Modulus, Probe, Seed};
use super::sizing::Geometry;

/// The number of bytes in front of a blob's bitmap.
pub const HEADER_BYTES: usize = 45;

/// The most hash functions that a filter may have. The tightest rate that a double can hold needs
/// 1,075; a larger number in a file is a mistake or an attack.
pub const MAX_HASHES: u32 = 4096;

const VERSION: u8 = 1;

/// What the first 45 bytes of a blob say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// Length of the bitmap in bytes, at least 1.
    pub bitmap_bytes: u64,
    /// Number of hash functions, 1 to [`MAX_HASHES`].
    pub hashes: u32,
    /// The keys of the hash functions.
    pub seed: Seed,
}

impl Header {
    /// Reads the header of a blob.
    ///
    /// # Errors
    /// What is wrong with it, in words for a log.
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
        let header = Self {
            bitmap_bytes: u64::from_le_bytes(*bitmap_bytes),
            hashes: u32::from_le_bytes(*hashes),
            seed: Seed::new(*seed),
        };
        if header.bitmap_bytes == 0 {
            return Err("filter of zero bits");
        }
        // A bit's number has to fit in 64 bits.
        if header.bitmap_bytes > u64::MAX / 16 {
            return Err("filter larger than memory");
        }
        if !(1..=MAX_HASHES).contains(&header.hashes) {
            return Err("number of hash functions out of range");
        }
        Ok(header)
    }

    fn write(&self, blob: &mut [u8]) {
        blob[0] = VERSION;
        blob[1..9].copy_from_slice(&self.bitmap_bytes.to_le_bytes());
        blob[9..13].copy_from_slice(&self.hashes.to_le_bytes());
        blob[13..45].copy_from_slice(self.seed.as_bytes());
    }
}

/// One Bloom filter: a bit array of fixed size, its capacity, and the number of items in it.
#[derive(Debug)]
pub struct Filter {
    blob: Box<[u8]>,
    reciprocal: u64,
    capacity: u64,
    items: u64,
    hashes: u32,
    /// How many bits of the bitmap are not in use.
    slack: u16,
    /// Number of bytes in front of the bitmap: [`HEADER_BYTES`], or none in a filter of RedisBloom.
    header_bytes: u8,
}

// A deep stack is walked on every miss; what a lookup reads of a filter should stay in one line.
const _: () = assert!(size_of::<Filter>() == 48);

impl Filter {
    /// An empty filter, or `None` where there is no memory for it.
    pub(super) fn new(capacity: u64, geometry: Geometry, seed: &Seed) -> Option<Self> {
        let bytes = usize::try_from(geometry.blob_bytes()).ok()?;
        let mut blob = machine::zeroed(bytes)?;
        let header = Header {
            bitmap_bytes: geometry.bitmap_bytes,
            hashes: geometry.hashes,
            seed: *seed,
        };
        header.write(&mut blob);
        Some(Self::over(blob, &header, capacity, 0))
    }

    /// A filter over bytes that exist already.
    ///
    /// # Errors
    /// What is wrong with the blob, in words for a log.
    pub(super) fn from_blob(
        blob: Box<[u8]>,
        capacity: u64,
        items: u64,
    ) -> Result<Self, &'static str> {
        let header = Header::parse(&blob)?;
        if (blob.len() - HEADER_BYTES) as u64 != header.bitmap_bytes {
            return Err("filter's length is not what its header says");
        }
        Ok(Self::over(blob, &header, capacity, items))
    }

    fn over(blob: Box<[u8]>, header: &Header, capacity: u64, items: u64) -> Self {
        Self {
            blob,
            reciprocal: Modulus::reciprocal(header.bitmap_bytes * 8),
            capacity,
            items,
            hashes: header.hashes,
            slack: 0,
            header_bytes: HEADER_BYTES.to_le_bytes()[0],
        }
    }

    /// How many bits more there are in so many bytes, if a filter can say so.
    pub(super) fn slack(bytes: u64, bits: u64) -> Option<u16> {
        u16::try_from(bytes.checked_mul(8)?.checked_sub(bits)?).ok()
    }

    /// A filter of RedisBloom: a bitmap alone, of which the first `bits` are in use, at least one; or
    /// `None` where it has not so many, or far more.
    pub(super) fn plain(
        bitmap: Box<[u8]>,
        bits: u64,
        hashes: u32,
        capacity: u64,
        items: u64,
    ) -> Option<Self> {
        Some(Self {
            slack: Self::slack(bitmap.len() as u64, bits)?,
            blob: bitmap,
            reciprocal: Modulus::reciprocal(bits),
            capacity,
            items,
            hashes,
            header_bytes: 0,
        })
    }

    /// Whether it is a filter of RedisBloom.
    #[inline(always)]
    pub(super) const fn is_plain(&self) -> bool {
        self.header_bytes == 0
    }

    /// A copy in memory of its own, or `None` where there is none.
    pub(super) fn try_clone(&self) -> Option<Self> {
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.blob.len()).ok()?;
        blob.extend_from_slice(&self.blob);
        Some(Self {
            blob: blob.into_boxed_slice(),
            ..*self
        })
    }

    /// The filter in its stored form.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The bits alone.
    #[must_use]
    pub fn bitmap(&self) -> &[u8] {
        &self.blob[usize::from(self.header_bytes)..]
    }

    /// Number of bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.bitmap().len() as u64 * 8 - u64::from(self.slack)
    }

    /// Number of hash functions.
    #[must_use]
    pub const fn hashes(&self) -> u32 {
        self.hashes
    }

    /// Number of items for which the filter was made.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Number of items that it took.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Whether it holds as many items as it was made for, or more.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.items >= self.capacity
    }

    /// The positions of an item's bits.
    #[inline(always)]
    fn positions<const PLAIN: bool>(&self, probe: Probe) -> impl Iterator<Item = u64> + use<PLAIN> {
        probe.positions::<PLAIN>(self.modulus(), self.hashes)
    }

    /// Whether all of the item's bits are set: false is certain, true is probable.
    #[must_use]
    #[inline]
    pub fn contains(&self, probe: Probe) -> bool {
        if self.is_plain() {
            self.contains_as::<true>(probe)
        } else {
            self.contains_as::<false>(probe)
        }
    }

    #[inline(always)]
    fn contains_as<const PLAIN: bool>(&self, probe: Probe) -> bool {
        let bitmap = self.bitmap();
        self.positions::<PLAIN>(probe)
            .all(|position| bitmap[(position / 8) as usize] & 1 << (position % 8) != 0)
    }

    /// What positions are reduced by.
    #[inline(always)]
    pub(super) fn modulus(&self) -> Modulus {
        Modulus::new(self.bits(), self.reciprocal)
    }

    /// The bit that a point of a probe falls on: 0 or 1, without a branch.
    #[inline(always)]
    pub(super) fn bit(&self, point: u64) -> u64 {
        self.bit_at(self.modulus().reduce(point))
    }

    /// The bit at a position: 0 or 1, without a branch.
    #[inline(always)]
    pub(super) fn bit_at(&self, position: u64) -> u64 {
        let byte = self.bitmap().get((position / 8) as usize);
        u64::from(byte.copied().unwrap_or(0) >> (position % 8)) & 1
    }

    /// Whether its bits are worth fetching ahead: those of a smaller one are in the cache anyway.
    #[inline]
    pub(super) fn is_large(&self) -> bool {
        self.blob.len() >= 256 * 1024
    }

    /// Adds an item: [`insert_at`](Self::insert_at) its positions.
    #[inline]
    pub(super) fn insert(&mut self, probe: Probe) -> bool {
        if self.is_plain() {
            self.insert_at(self.positions::<true>(probe))
        } else {
            self.insert_at(self.positions::<false>(probe))
        }
    }

    /// Sets the bits at an item's positions, counts the item if any of them was clear, and tells
    /// whether one was.
    #[inline]
    pub(super) fn insert_at(&mut self, positions: impl Iterator<Item = u64>) -> bool {
        let bitmap = &mut self.blob[usize::from(self.header_bytes)..];
        let mut new = false;
        for position in positions {
            let (byte, mask) = (&mut bitmap[(position / 8) as usize], 1 << (position % 8));
            new |= *byte & mask == 0;
            *byte |= mask;
        }
        self.items += u64::from(new);
        new
    }

    /// Brings the cache line of a bit near, for a lookup that follows soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, position: u64) {
        machine::prefetch(self.bitmap(), (position / 8) as usize);
    }

    /// Lets `place` move the blob. It gives back the same bytes, perhaps elsewhere.
    pub(super) fn relocate(&mut self, place: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.blob = place(std::mem::take(&mut self.blob));
    }
}
