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
//! Numbers are little endian. A filter whose cells are counters has version 2, and four times as many
//! bytes behind the header as it says: the counter at position i is the low half of byte i/2, or the
//! high half where i is odd.

use std::hash::Hash;

use super::machine;
use super::probe::{Modulus, Probe, Seed};
use super::sizing::{Cell, Geometry, power};

/// The number of bytes in front of a blob's bitmap.
pub const HEADER_BYTES: usize = 45;

/// The most hash functions that a filter may have. The tightest rate that a double can hold needs
/// 1,075; a larger number in a file is a mistake or an attack.
pub const MAX_HASHES: u32 = 4096;

/// What a counter stays at once it is there: how often it was passed is not known any more.
const SATURATED: u8 = 15;

/// What the first 45 bytes of a blob say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header {
    /// What the filter's cells are.
    pub cell: Cell,
    /// Number of cells divided by 8, at least 1.
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
        let cell = match version {
            1 => Cell::Bit,
            2 => Cell::Counter,
            _ => return Err("filter of unknown version"),
        };
        let (bitmap_bytes, rest) = rest.split_first_chunk().ok_or("unreachable: 44 bytes")?;
        let (hashes, rest) = rest.split_first_chunk().ok_or("unreachable: 36 bytes")?;
        let (seed, _) = rest.split_first_chunk().ok_or("unreachable: 32 bytes")?;
        let header = Self {
            cell,
            bitmap_bytes: u64::from_le_bytes(*bitmap_bytes),
            hashes: u32::from_le_bytes(*hashes),
            seed: Seed::new(*seed),
        };
        if header.bitmap_bytes == 0 {
            return Err("filter of zero bits");
        }
        // The number of a bit of the cells has to fit in 64 bits.
        if header.bitmap_bytes > u64::MAX / 16 / cell.bits() {
            return Err("filter larger than memory");
        }
        if !(1..=MAX_HASHES).contains(&header.hashes) {
            return Err("number of hash functions out of range");
        }
        Ok(header)
    }

    /// Length of what stands behind the header, in bytes.
    pub const fn body_bytes(&self) -> u64 {
        self.bitmap_bytes * self.cell.bits()
    }

    fn write(&self, blob: &mut [u8]) {
        blob[0] = match self.cell {
            Cell::Bit => 1,
            Cell::Counter => 2,
        };
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
    hashes: u16,
    /// How many bits of the bitmap are not in use; where cells are counters, how many of them are.
    tally: u32,
    /// Number of bytes in front of the bitmap: [`HEADER_BYTES`], or none in a filter of RedisBloom.
    header_bytes: u8,
    cell: Cell,
}

// A deep stack is walked on every miss; what a lookup reads of a filter should stay in one line.
const _: () = assert!(size_of::<Filter>() == 48);

impl Filter {
    /// An empty filter, or `None` where there is no memory for it.
    pub(super) fn new(capacity: u64, geometry: Geometry, seed: &Seed) -> Option<Self> {
        let bytes = usize::try_from(geometry.blob_bytes()).ok()?;
        let mut blob = machine::zeroed(bytes)?;
        let header = Header {
            cell: geometry.cell,
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
        if (blob.len() - HEADER_BYTES) as u64 != header.body_bytes() {
            return Err("filter's length is not what its header says");
        }
        Ok(Self::over(blob, &header, capacity, items))
    }

    fn over(blob: Box<[u8]>, header: &Header, capacity: u64, items: u64) -> Self {
        let tally = match header.cell {
            Cell::Bit => 0,
            Cell::Counter => used_counters(&blob[HEADER_BYTES..]),
        };
        Self {
            blob,
            reciprocal: Modulus::reciprocal(header.bitmap_bytes * 8),
            capacity,
            items,
            hashes: narrow(header.hashes),
            tally,
            header_bytes: HEADER_BYTES.to_le_bytes()[0],
            cell: header.cell,
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
            tally: Self::slack(bitmap.len() as u64, bits)?.into(),
            blob: bitmap,
            reciprocal: Modulus::reciprocal(bits),
            capacity,
            items,
            hashes: narrow(hashes),
            header_bytes: 0,
            cell: Cell::Bit,
        })
    }

    /// Whether it is a filter of RedisBloom.
    #[inline(always)]
    pub(super) const fn is_plain(&self) -> bool {
        self.header_bytes == 0
    }

    /// Whether its cells are counters.
    #[inline(always)]
    pub(super) const fn counts(&self) -> bool {
        matches!(self.cell, Cell::Counter)
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

    /// The cells alone.
    #[must_use]
    pub fn bitmap(&self) -> &[u8] {
        &self.blob[usize::from(self.header_bytes)..]
    }

    /// Number of positions: of bits, where cells are bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        match self.cell {
            Cell::Bit => self.bitmap().len() as u64 * 8 - u64::from(self.tally),
            Cell::Counter => self.bitmap().len() as u64 * 2,
        }
    }

    /// Number of hash functions.
    #[must_use]
    pub const fn hashes(&self) -> u32 {
        self.hashes as u32
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
        probe.positions::<PLAIN>(self.modulus(), self.hashes())
    }

    /// Whether all of the item's bits are set: false is certain, true is probable.
    #[must_use]
    #[inline]
    pub fn contains(&self, probe: Probe) -> bool {
        if self.is_plain() {
            self.contains_as::<true>(probe)
        } else if self.counts() {
            self.counts_item(probe)
        } else {
            self.contains_as::<false>(probe)
        }
    }

    #[cold]
    fn counts_item(&self, probe: Probe) -> bool {
        self.count(probe) > 0
    }

    #[inline(always)]
    fn contains_as<const PLAIN: bool>(&self, probe: Probe) -> bool {
        let bitmap = self.bitmap();
        self.positions::<PLAIN>(probe)
            .all(|position| bitmap[(position / 8) as usize] & 1 << (position % 8) != 0)
    }

    /// What positions are reduced by, where cells are bits.
    #[inline(always)]
    pub(super) fn modulus(&self) -> Modulus {
        let bits = self.bitmap().len() as u64 * 8 - u64::from(self.tally);
        Modulus::new(bits, self.reciprocal)
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
    #[inline(always)]
    pub(super) fn insert(&mut self, probe: Probe) -> bool {
        if self.is_plain() {
            self.insert_at(self.positions::<true>(probe))
        } else {
            self.insert_at(self.positions::<false>(probe))
        }
    }

    /// The same, for what is rare.
    #[cold]
    pub(super) fn insert_slowly(&mut self, probe: Probe) -> bool {
        self.insert(probe)
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

    /// The positions of an item's counters, which may be fewer than there are hash functions.
    fn counters(&self, probe: Probe) -> impl Iterator<Item = u64> + use<> {
        probe.positions::<false>(Modulus::new(self.bits(), self.reciprocal), self.hashes())
    }

    /// How often an item was counted, at most, or at least where it is 15: the least of its counters.
    pub(super) fn count(&self, probe: Probe) -> u8 {
        let cells = self.bitmap();
        let counter = |position: u64| cells[(position / 2) as usize] >> (position % 2 * 4) & 15;
        let mut least = SATURATED;
        for position in self.counters(probe) {
            least = least.min(counter(position));
            if least == 0 {
                break;
            }
        }
        least
    }

    /// Counts an item once more.
    pub(super) fn count_up(&mut self, probe: Probe) {
        let new = self.count(probe) == 0;
        self.change_counters(probe, |counter| (counter + 1).min(SATURATED));
        self.items += u64::from(new);
        self.settle();
    }

    /// Takes back one count of an item that is claimed.
    pub(super) fn count_down(&mut self, probe: Probe) {
        self.change_counters(probe, |counter| match counter {
            SATURATED => SATURATED,
            counter => counter.saturating_sub(1),
        });
        let gone = self.count(probe) == 0;
        self.items = self.items.saturating_sub(u64::from(gone));
        self.settle();
    }

    fn change_counters(&mut self, probe: Probe, change: impl Fn(u8) -> u8) {
        let positions = self.counters(probe);
        let cells = &mut self.blob[usize::from(self.header_bytes)..];
        for position in positions {
            let (cell, shift) = (&mut cells[(position / 2) as usize], position % 2 * 4);
            let before = *cell >> shift & 15;
            let after = change(before);
            *cell = *cell & !(15 << shift) | after << shift;
            match (before, after) {
                (0, 1..) => self.tally = self.tally.saturating_add(1),
                (1.., 0) => self.tally = self.tally.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Holds the number of items against the counters in use, of a filter of counters.
    ///
    /// The number drifts as items come and go: what is claimed falsely when it is added is not counted,
    /// and what is claimed falsely when it is removed is counted on. `X` counters in use stand for
    /// `n = m t / k` items with `t = −ln(1 − X/m)`, give or take a standard deviation of
    /// `√(m e^(−t) (1 − (1 + t) e^(−t))) / (k e^(−t))`. Within five of these the number is believed.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; a cast from a double saturates"
    )]
    fn settle(&mut self) {
        let (m, k) = (self.bits() as f64, f64::from(self.hashes));
        let unused = 1.0 - f64::from(self.tally) / m;
        if unused <= 0.0 || self.tally == u32::MAX {
            return;
        }
        let t = -libm::log(unused);
        let variance = (m * unused * (1.0 - (1.0 + t) * unused)).max(0.0);
        let (items, deviation) = (m * t / k, variance.sqrt() / (k * unused));
        let least = (items - 5.0 * deviation).floor() - 1.0;
        let most = (items + 5.0 * deviation).ceil() + 1.0;
        self.items = self.items.clamp(least as u64, most as u64);
    }

    /// Whether another filter's items can be taken into this one: it is of the same size, and both
    /// together hold no more than it is made for.
    pub(super) fn can_absorb(&self, other: &Self) -> bool {
        let items = self.items.checked_add(other.items);
        self.kind() == other.kind() && items.is_some_and(|items| items <= self.capacity)
    }

    /// What is alike in filters of one size, in which an item has the same bits.
    pub(super) fn kind(&self) -> impl Eq + Hash + use<> {
        (
            self.bits(),
            self.hashes,
            self.header_bytes,
            self.cell,
            self.blob.len(),
        )
    }

    /// How many items more it is made for.
    pub(super) fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.items)
    }

    /// Takes the items of a filter that [can be](Self::can_absorb).
    pub(super) fn absorb(&mut self, other: &Self) {
        let cells = &mut self.blob[usize::from(self.header_bytes)..];
        let pairs = cells.iter_mut().zip(other.bitmap());
        match self.cell {
            Cell::Bit => pairs.for_each(|(bits, other)| *bits |= other),
            Cell::Counter => pairs.for_each(|(two, other)| {
                let (low, high) = ((*two & 15) + (other & 15), (*two >> 4) + (other >> 4));
                *two = low.min(SATURATED) | high.min(SATURATED) << 4;
            }),
        }
        if self.counts() {
            self.tally = used_counters(self.bitmap());
        }
        self.items += other.items;
    }

    /// Whether it claims nothing. Its number of items alone can't tell: what was claimed falsely when it
    /// was added, and counted, is none of them.
    pub(super) fn is_empty(&self) -> bool {
        self.items == 0 && self.bitmap().iter().all(|cells| *cells == 0)
    }

    /// Declares it full.
    pub(super) fn seal(&mut self) {
        self.items = self.items.max(1);
        self.capacity = self.items;
    }

    /// The rate of false positives with so many items in it: `(1 − e^(−kn/m))^k` (Bloom 1970). It is
    /// the same on every machine, as what follows from it has to be on a primary and its replicas.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rate is an estimate")]
    pub fn rate_at(&self, items: u64) -> f64 {
        let (m, n) = (self.bits() as f64, items as f64);
        let k = f64::from(self.hashes);
        power(1.0 - libm::exp(-k * n / m), self.hashes.into())
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

/// A number of hash functions, of which there are never more than [`MAX_HASHES`].
fn narrow(hashes: u32) -> u16 {
    u16::try_from(hashes).unwrap_or(u16::MAX)
}

/// How many counters are not 0.
fn used_counters(cells: &[u8]) -> u32 {
    let used = |two: &u8| u64::from(two & 15 != 0) + u64::from(two >> 4 != 0);
    u32::try_from(cells.iter().map(used).sum::<u64>()).unwrap_or(u32::MAX)
}
