//! One Bloom filter of fixed size.
//!
//! The cells are in a *blob*, in their stored form, so that saving a filter is a write and loading a filter is a read,
//! without a copy. A blob of our own begins with a [`Header`]; a blob of `RedisBloom` is bare.

use crate::hash::{Hasher, Probe};
use crate::machine::memory;
use crate::machine::words::{self, Words};

use super::bits;
use super::cells::{Cells, HEADER_BYTES};
use super::geometry::{self, Geometry};
use super::header::Header;
use super::positions::{Modulus, Positions};

/// One Bloom filter: a fixed number of cells, its capacity, and the number of items in it.
#[derive(Debug)]
pub struct Filter {
    pub(super) blob: Box<[u8]>,
    pub(super) reciprocal: u64,
    pub(super) capacity: u64,
    pub(super) items: u64,
    pub(super) contents: Contents,
}

/// The contents of the blob. The number of hash functions is at the same offset in all variants, so that reading it does
/// not depend on the variant.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum Contents {
    /// A header, then bits.
    Bits { hashes: u16 },
    /// Bits without a header; and the number of unused bits at the end.
    BareBits { hashes: u16, unused: u16 },
}

// Each miss reads all filters of a stack, so the fields of a filter should stay in one cache line.
const _: () = assert!(Filter::ENTRY_BYTES <= 64);

impl Filter {
    /// Size of an entry in a stack's table of filters, in bytes.
    pub const ENTRY_BYTES: usize = memory::stated::<Self>(48);

    /// Creates an empty filter, or returns `None` if there is no memory for it.
    pub(crate) fn new(capacity: u64, geometry: Geometry, hasher: &Hasher) -> Option<Self> {
        let bytes = usize::try_from(geometry.blob_bytes()).ok()?;
        let mut blob = memory::zeroed(bytes)?;
        if geometry.cells != Cells::BareBits {
            let seed = *hasher.seed()?;
            Header { geometry, seed }.write(&mut blob);
        }
        Self::from_blob(blob, geometry, capacity, 0).ok()
    }

    /// Creates a filter from a blob of this size.
    ///
    /// # Errors
    /// A text for the log if the blob does not have this size.
    pub(crate) fn from_blob(
        blob: Box<[u8]>,
        geometry: Geometry,
        capacity: u64,
        items: u64,
    ) -> Result<Self, &'static str> {
        if blob.len() as u64 != geometry.blob_bytes() {
            return Err("filter's length is not what its header says");
        }
        let hashes = u16::try_from(geometry.hashes).unwrap_or(u16::MAX);
        let contents = match geometry.cells {
            Cells::Bits => Contents::Bits { hashes },
            Cells::BareBits => Contents::BareBits {
                hashes,
                unused: Self::unused(geometry).ok_or("more bytes than bits")?,
            },
        };
        Ok(Self {
            blob,
            reciprocal: Modulus::reciprocal(geometry.positions),
            capacity,
            items,
            contents,
        })
    }

    /// Returns the number of unused bits at the end of a bare filter, or `None` if there are more than a valid filter has.
    pub(crate) fn unused(geometry: Geometry) -> Option<u16> {
        let bits = geometry.cell_bytes.checked_mul(8)?;
        u16::try_from(bits.checked_sub(geometry.positions)?).ok()
    }

    /// Returns the kind of the cells.
    pub const fn cells(&self) -> Cells {
        match self.contents {
            Contents::Bits { .. } => Cells::Bits,
            Contents::BareBits { .. } => Cells::BareBits,
        }
    }

    /// Returns the size of the filter.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            positions: self.positions(),
            cell_bytes: self.bitmap().len() as u64,
            hashes: self.hashes(),
            cells: self.cells(),
        }
    }

    pub(crate) fn try_clone(&self) -> Option<Self> {
        Some(Self {
            blob: memory::copied(&self.blob)?,
            ..*self
        })
    }

    /// Returns the filter in its stored form.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    pub(super) const fn is_bare(&self) -> bool {
        matches!(self.contents, Contents::BareBits { .. })
    }

    #[inline]
    pub(super) fn header_bytes(&self) -> usize {
        if self.is_bare() { 0 } else { HEADER_BYTES }
    }

    /// Returns the cells without the header.
    #[inline]
    pub fn bitmap(&self) -> &[u8] {
        &self.blob[self.header_bytes()..]
    }

    #[inline]
    pub(crate) fn bitmap_mut(&mut self) -> &mut [u8] {
        let header_bytes = self.header_bytes();
        &mut self.blob[header_bytes..]
    }

    /// Returns the number of bits that items have.
    #[inline]
    pub fn positions(&self) -> u64 {
        let bits = self.bitmap().len() as u64 * 8;
        match self.contents {
            Contents::BareBits { unused, .. } => bits - u64::from(unused),
            Contents::Bits { .. } => bits,
        }
    }

    /// Returns the number of hash functions.
    pub const fn hashes(&self) -> u32 {
        match self.contents {
            Contents::Bits { hashes } | Contents::BareBits { hashes, .. } => hashes as u32,
        }
    }

    /// Returns the capacity.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of items in the filter.
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Returns whether the filter holds at least as many items as its capacity.
    pub const fn is_full(&self) -> bool {
        self.items >= self.capacity
    }

    /// Returns the modulus of positions.
    #[inline]
    pub(crate) fn modulus(&self) -> Modulus {
        Modulus::new(self.positions(), self.reciprocal, self.is_bare())
    }

    /// Returns the positions of an item.
    #[inline]
    pub(super) fn positions_of(&self, probe: Probe) -> Positions {
        Positions {
            probe,
            modulus: self.modulus(),
            rounds: 0..self.hashes(),
            sum: probe.a,
        }
    }

    /// Returns whether the filter claims an item: false is certain, true is probable.
    #[inline(always)]
    pub fn contains(&self, probe: Probe) -> bool {
        if self.is_bare() {
            return self.contains_in_bare(probe);
        }
        bits::all_set(self.bitmap(), self.positions_of(probe))
    }

    /// Looks up an item in a filter of `RedisBloom`, out of line, so that the usual kind is known in the lookup above.
    #[inline(never)]
    fn contains_in_bare(&self, probe: Probe) -> bool {
        bits::all_set(self.bitmap(), self.positions_of(probe))
    }

    /// Prefetches the memory of the cell at a position.
    #[inline]
    pub(crate) fn prefetch_at(&self, position: u64) {
        memory::prefetch(self.bitmap(), words::byte_of(position));
    }

    /// Returns whether the cells are worth prefetching: those of a smaller filter are in the caches anyway.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.blob.len() >= geometry::LARGE_BYTES
    }

    /// Returns whether most of the cells are in no cache.
    #[inline]
    pub(crate) fn is_in_memory(&self) -> bool {
        self.blob.len() >= geometry::MEMORY_BYTES
    }

    /// Sets an item's bits, and counts the item if one of the bits was clear. Returns whether one was.
    #[inline(always)]
    pub(crate) fn insert(&mut self, probe: Probe) -> bool {
        if self.is_bare() {
            return self.insert_slowly(probe);
        }
        self.insert_at(self.positions_of(probe))
    }

    /// Does what [`insert`](Self::insert) does out of line, for rare cases and filters of `RedisBloom`.
    #[inline(never)]
    pub(crate) fn insert_slowly(&mut self, probe: Probe) -> bool {
        self.insert_at(self.positions_of(probe))
    }

    /// Sets the bits at an item's positions, and counts the item if one of the bits was clear. Returns whether one was.
    #[inline(always)]
    pub(crate) fn insert_at(&mut self, positions: impl Iterator<Item = u64>) -> bool {
        let new = bits::set_all(self.bitmap_mut(), positions);
        self.count_if(new)
    }

    /// Counts an item if it is new. Returns `new`.
    pub(crate) fn count_if(&mut self, new: bool) -> bool {
        self.items += u64::from(new);
        new
    }

    /// Lowers the number of items to `most`.
    pub(crate) fn cut_items(&mut self, most: u64) {
        self.items = Ord::min(self.items, most);
    }

    /// Returns this filter with another number of items and another capacity.
    pub(crate) const fn with_items(mut self, items: u64, capacity: u64) -> Self {
        self.items = items;
        self.capacity = capacity;
        self
    }

    /// Returns whether the filter claims nothing. A number of items of 0 does not imply that: false positives on insert
    /// are not counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.items == 0 && self.bitmap().iter().all(|cells| *cells == 0)
    }

    pub(crate) fn seal(&mut self) {
        self.items = self.items.max(1);
        self.capacity = self.items;
    }

    /// Returns whether the bit at a position is set.
    pub fn is_in_use(&self, position: u64) -> bool {
        position.are_set_in(self.bitmap(), 1) == 1
    }

    /// Lets `place` move the blob. `place` returns the same bytes, perhaps elsewhere.
    pub fn relocate(&mut self, place: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.blob = place(std::mem::take(&mut self.blob));
    }
}
