//! One Bloom filter of fixed size.
//!
//! Its cells are in a *blob*, in the form in which they are stored and sent, so that saving a filter is
//! a write and loading one is a read, without a copy. A blob of our own begins with a [`Header`]; one of
//! `RedisBloom` is bare.

mod asked;
mod bits;
mod cells;
mod counters;
mod geometry;
mod header;
mod interleaved;
mod positions;
mod rate;
mod transpose;

use std::hash::Hash;

use crate::bloom::hash::{Hasher, Probe};
use crate::bloom::machine::{memory, words};
use crate::bloom::number::log2;

pub use asked::Likely;
pub use cells::{Cells, HEADER_BYTES};
use geometry::DRIFT;
pub use geometry::Geometry;
pub use header::{Header, MAX_HASHES};
pub use interleaved::Interleaved;
pub use positions::{Modulus, Positions, point, point_of};
pub use transpose::{LANES, PIECE_BYTES};

/// Up to this size the bits of a filter are counted to estimate its rate: there the number of items tells less.
const COUNTED_BYTES: usize = 1024;

/// Up to this number of items the rates of filters of one size and fill differ by a quarter and more.
const FEW_ITEMS: u64 = 48;

/// How often at most a position that is set is looked for.
const TRIES: u32 = 1000;

/// How improbable it must be, as a power of two, that counters are no smaller than others by chance.
const CERTAIN_BITS: f64 = 32.0;

/// One Bloom filter: a fixed number of cells, its capacity, and the number of items in it.
#[derive(Debug)]
pub struct Filter {
    blob: Box<[u8]>,
    reciprocal: u64,
    capacity: u64,
    items: u64,
    layout: Layout,
}

/// What the blob contains. The number of hash functions is always at the same offset, so that it is read
/// without a look at the kind.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Layout {
    /// A header, then bits.
    Bits { hashes: u16 },
    /// A header, then counters; and how many of them are not 0.
    Counters { hashes: u16, in_use: u32 },
    /// Bits alone; and how many at the end are unused.
    BareBits { hashes: u16, unused: u16 },
    /// A header. The bits are in one of the lanes of an [`Interleaved`].
    Interleaved { hashes: u16 },
}

// A deep stack is walked on every miss; what a lookup reads of a filter should stay in one line.
const _: () = assert!(size_of::<Filter>() == 48);

impl Filter {
    /// An empty filter, or `None` if there is no memory for it.
    pub(crate) fn new(capacity: u64, geometry: Geometry, hasher: &Hasher) -> Option<Self> {
        let bytes = usize::try_from(geometry.blob_bytes()).ok()?;
        let mut blob = memory::zeroed(bytes)?;
        if geometry.cells != Cells::BareBits {
            let seed = *hasher.seed()?;
            Header { geometry, seed }.write(&mut blob);
        }
        Self::over(blob, geometry, capacity, 0, 0).ok()
    }

    /// A filter over a blob of this size.
    ///
    /// # Errors
    /// The blob is not of this size, in words for a log.
    pub(crate) fn from_blob(
        blob: Box<[u8]>,
        geometry: Geometry,
        capacity: u64,
        items: u64,
    ) -> Result<Self, &'static str> {
        if blob.len() as u64 != geometry.blob_bytes() {
            return Err("filter's length is not what its header says");
        }
        let in_use = match geometry.cells {
            Cells::Counters => saturated(counters::in_use(&blob[HEADER_BYTES..])),
            Cells::Bits | Cells::BareBits => 0,
        };
        Self::over(blob, geometry, capacity, items, in_use)
    }

    /// An empty filter whose bits are in an empty lane of filters of this size.
    pub(crate) fn in_lane(capacity: u64, geometry: Geometry, hasher: &Hasher) -> Option<Self> {
        let mut blob = memory::zeroed(HEADER_BYTES)?;
        let seed = *hasher.seed()?;
        Header { geometry, seed }.write(&mut blob);
        let mut filter = Self::over(blob, geometry, capacity, 0, 0).ok()?;
        filter.enter_lane();
        Some(filter)
    }

    /// Has its bits in a lane from now on.
    const fn enter_lane(&mut self) {
        if let Layout::Bits { hashes } = self.layout {
            self.layout = Layout::Interleaved { hashes };
        }
    }

    /// Interleaves filters of bits of one size with others; they have no bits of their own from now on. `None`, and
    /// they are as they were, if there is no memory for what goes with that.
    pub(crate) fn interleave(
        mut filters: [&mut Self; LANES],
        with: &mut Interleaved,
    ) -> Option<()> {
        with.take(|| {
            let mut headers = [const { None }; LANES];
            for (header, filter) in headers.iter_mut().zip(&filters) {
                let bytes = header.insert(memory::zeroed(HEADER_BYTES)?);
                bytes.copy_from_slice(&filter.blob[..HEADER_BYTES]);
            }
            let mut headers = headers.into_iter().flatten();
            Some(filters.each_mut().map(|filter| {
                filter.enter_lane();
                std::mem::replace(&mut filter.blob, headers.next().unwrap_or_default())
            }))
        })
    }

    /// Takes back its bits, in the blob that its lane had.
    pub(crate) fn leave_lane(&mut self, blob: Box<[u8]>) {
        if let Layout::Interleaved { hashes } = self.layout {
            self.layout = Layout::Bits { hashes };
            self.blob = blob;
        }
    }

    /// Whether its bits are in a lane, and not here.
    pub(crate) const fn is_in_lane(&self) -> bool {
        matches!(self.layout, Layout::Interleaved { .. })
    }

    fn over(
        blob: Box<[u8]>,
        geometry: Geometry,
        capacity: u64,
        items: u64,
        in_use: u32,
    ) -> Result<Self, &'static str> {
        let hashes = u16::try_from(geometry.hashes).unwrap_or(u16::MAX);
        let layout = match geometry.cells {
            Cells::Bits => Layout::Bits { hashes },
            Cells::Counters => Layout::Counters { hashes, in_use },
            Cells::BareBits => Layout::BareBits {
                hashes,
                unused: Self::unused(geometry).ok_or("more bytes than bits")?,
            },
        };
        Ok(Self {
            blob,
            reciprocal: Modulus::reciprocal(geometry.positions),
            capacity,
            items,
            layout,
        })
    }

    /// How many bits at the end of a bare filter are unused, if few enough for a valid one.
    pub(crate) fn unused(geometry: Geometry) -> Option<u16> {
        let bits = geometry.cell_bytes.checked_mul(8)?;
        u16::try_from(bits.checked_sub(geometry.positions)?).ok()
    }

    /// What stands in the blob.
    #[inline(always)]
    pub const fn cells(&self) -> Cells {
        match self.layout {
            Layout::Bits { .. } | Layout::Interleaved { .. } => Cells::Bits,
            Layout::Counters { .. } => Cells::Counters,
            Layout::BareBits { .. } => Cells::BareBits,
        }
    }

    /// The size of the filter.
    pub fn geometry(&self) -> Geometry {
        let cell_bytes = match self.layout {
            Layout::Interleaved { .. } => self.positions() / 8,
            _ => self.bitmap().len() as u64,
        };
        Geometry {
            positions: self.positions(),
            cell_bytes,
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

    /// The filter in its stored form.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    #[inline(always)]
    const fn is_bare(&self) -> bool {
        matches!(self.layout, Layout::BareBits { .. })
    }

    #[inline(always)]
    fn header_bytes(&self) -> usize {
        if self.is_bare() { 0 } else { HEADER_BYTES }
    }

    /// The cells alone.
    #[inline(always)]
    pub fn bitmap(&self) -> &[u8] {
        &self.blob[self.header_bytes()..]
    }

    /// The same, of a filter that is known to be bare or not.
    #[inline(always)]
    pub(crate) fn bitmap_as<const BARE: bool>(&self) -> &[u8] {
        &self.blob[if BARE { 0 } else { HEADER_BYTES }..]
    }

    #[inline(always)]
    fn bitmap_mut(&mut self) -> &mut [u8] {
        let header_bytes = self.header_bytes();
        &mut self.blob[header_bytes..]
    }

    /// Number of positions: of bits, or of counters.
    pub fn positions(&self) -> u64 {
        match self.layout {
            Layout::Bits { .. } => self.bitmap().len() as u64 * 8,
            Layout::Counters { .. } => self.bitmap().len() as u64 * 2,
            Layout::BareBits { unused, .. } => self.bitmap().len() as u64 * 8 - u64::from(unused),
            Layout::Interleaved { .. } => {
                Header::parse(&self.blob).map_or(0, |header| header.geometry.positions)
            }
        }
    }

    /// Number of hash functions.
    #[inline(always)]
    pub const fn hashes(&self) -> u32 {
        match self.layout {
            Layout::Bits { hashes }
            | Layout::Counters { hashes, .. }
            | Layout::BareBits { hashes, .. }
            | Layout::Interleaved { hashes } => hashes as u32,
        }
    }

    /// The capacity.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Number of items in it.
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Whether it holds as many items as its capacity, or more.
    pub const fn is_full(&self) -> bool {
        self.items >= self.capacity
    }

    /// What positions are reduced by, of a filter that is known to be bare or not, with cells of so many bits.
    #[inline(always)]
    pub(crate) fn modulus<const BARE: bool, const CELL_BITS: u64>(&self) -> Modulus {
        let cells = self.bitmap_as::<BARE>().len() as u64 * (8 / CELL_BITS);
        let unused = match self.layout {
            Layout::BareBits { unused, .. } if BARE => u64::from(unused),
            _ => 0,
        };
        Modulus::new(cells - unused, self.reciprocal)
    }

    /// The positions of an item's bits.
    #[inline(always)]
    fn bits_of<const BARE: bool>(&self, probe: Probe) -> Positions<BARE> {
        Positions::new(probe, self.modulus::<BARE, 1>(), self.hashes())
    }

    /// The positions of an item's counters.
    #[inline(always)]
    fn counters_of(&self, probe: Probe) -> Positions<false> {
        Positions::new(probe, self.modulus::<false, 4>(), self.hashes())
    }

    /// Whether the filter claims an item: false is certain, true is probable.
    #[inline]
    pub fn contains(&self, probe: Probe) -> bool {
        match self.layout {
            Layout::Bits { .. } | Layout::Interleaved { .. } => self.contains_as::<false>(probe),
            Layout::BareBits { .. } => self.contains_as::<true>(probe),
            Layout::Counters { .. } => self.counts_item(probe),
        }
    }

    #[inline(always)]
    fn contains_as<const BARE: bool>(&self, probe: Probe) -> bool {
        bits::all_set(self.bitmap_as::<BARE>(), self.bits_of::<BARE>(probe))
    }

    #[inline(never)]
    fn counts_item(&self, probe: Probe) -> bool {
        counters::all_used(self.bitmap_as::<false>(), self.counters_of(probe))
    }

    /// The bit that a point of a probe falls on: 0 or 1, without a branch.
    #[inline(always)]
    pub(crate) fn bit<const BARE: bool>(&self, point: u64) -> u64 {
        self.bit_at::<BARE>(self.modulus::<BARE, 1>().reduce(point))
    }

    /// The bit at a position: 0 or 1, without a branch.
    #[inline(always)]
    pub(crate) fn bit_at<const BARE: bool>(&self, position: u64) -> u64 {
        words::is_used::<1>(self.bitmap_as::<BARE>(), position)
    }

    /// Prefetches that bit's memory.
    #[inline(always)]
    pub(crate) fn prefetch_at<const BARE: bool>(&self, position: u64) {
        memory::prefetch(self.bitmap_as::<BARE>(), words::byte_of::<1>(position));
    }

    /// Whether its bits are worth prefetching: those of a smaller filter are in the cache anyway.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.blob.len() >= geometry::LARGE_BYTES
    }

    /// Sets an item's bits, and counts the item if one of them was clear. Returns whether one was.
    #[inline(always)]
    pub(crate) fn insert(&mut self, probe: Probe) -> bool {
        if self.is_bare() {
            self.insert_as::<true>(self.bits_of::<true>(probe))
        } else {
            self.insert_as::<false>(self.bits_of::<false>(probe))
        }
    }

    /// [`insert`](Self::insert), for what is rare.
    #[cold]
    pub(crate) fn insert_slowly(&mut self, probe: Probe) -> bool {
        self.insert(probe)
    }

    /// [`insert`](Self::insert) an item whose positions are known.
    #[inline(always)]
    pub(crate) fn insert_at(&mut self, positions: impl Iterator<Item = u64>) -> bool {
        if self.is_bare() {
            self.insert_as::<true>(positions)
        } else {
            self.insert_as::<false>(positions)
        }
    }

    #[inline(always)]
    fn insert_as<const BARE: bool>(&mut self, positions: impl Iterator<Item = u64>) -> bool {
        let bitmap = &mut self.blob[if BARE { 0 } else { HEADER_BYTES }..];
        let new = bits::set_all(bitmap, positions);
        self.count_if(new)
    }

    /// Counts an item if it is new, which is returned.
    #[inline(always)]
    pub(crate) fn count_if(&mut self, new: bool) -> bool {
        self.items += u64::from(new);
        new
    }

    /// How often an item was counted, at most, or if it is 15 at least: the least of its counters.
    pub(crate) fn count(&self, probe: Probe) -> u8 {
        counters::least(self.bitmap(), self.counters_of(probe))
    }

    /// Counts an item, and returns whether one of its counters was 0.
    pub(crate) fn count_up(&mut self, probe: Probe) -> bool {
        self.count_up_at(self.counters_of(probe))
    }

    /// [`count_up`](Self::count_up) an item whose positions are known.
    #[inline(always)]
    pub(crate) fn count_up_at(&mut self, positions: impl Iterator<Item = u64>) -> bool {
        let more = counters::raise(&mut self.blob[HEADER_BYTES..], positions);
        let new = more > 0;
        self.items += u64::from(new);
        self.settle(|in_use| in_use.saturating_add(more));
        new
    }

    /// Removes one count of an item that a filter of counters claims, and returns whether it did: how often
    /// one was counted whose counters are all saturated is unknown, so it stays.
    pub(crate) fn count_down(&mut self, probe: Probe) -> bool {
        if self.count(probe) == counters::SATURATED {
            return false;
        }
        let positions = self.counters_of(probe);
        let fewer = counters::lower(self.bitmap_mut(), positions);
        let gone = self.count(probe) == 0;
        self.items = self.items.saturating_sub(u64::from(gone));
        self.settle(|in_use| in_use.saturating_sub(fewer));
        if self.is_unused() {
            self.items = 0;
        }
        true
    }

    /// Whether it is a filter of counters of which none is in use, so that it claims nothing.
    pub(crate) const fn is_unused(&self) -> bool {
        matches!(self.layout, Layout::Counters { in_use: 0, .. })
    }

    /// Records a change of the number of counters in use, and keeps the number of items within what that
    /// makes plausible. The number of items alone drifts as items come and go: a false positive on insert is
    /// not counted, and one on removal stays counted. An estimate never lifts it above the capacity: a filter
    /// takes no more there.
    #[inline(always)]
    fn settle(&mut self, change: impl Fn(u32) -> u32) {
        let positions = to_double(self.positions());
        if let Layout::Counters { hashes, in_use } = &mut self.layout {
            // What saturated is not known any more.
            if *in_use == u32::MAX {
                return;
            }
            *in_use = change(*in_use);
            let fill = (f64::from(*in_use) / positions).min(1.0);
            let hashes = u32::from(*hashes);
            if !is_plausible(self.items, positions, hashes, fill) {
                self.clamp_items(positions, hashes, fill);
            } else if cfg!(debug_assertions) {
                let before = self.items;
                self.clamp_items(positions, hashes, fill);
                assert_eq!(self.items, before, "plausible at {fill} of {positions}");
            }
        }
    }

    #[cold]
    fn clamp_items(&mut self, positions: f64, hashes: u32, fill: f64) {
        let (items, deviation) = rate::items_of_fill(positions, hashes, fill);
        let least = to_whole((items - DRIFT * deviation).floor());
        let most = to_whole((items + DRIFT * deviation).ceil()).saturating_add(1);
        self.items = self.items.clamp(least.min(self.capacity).min(most), most);
    }

    /// What is alike in filters of one size, in which an item has the same cells.
    pub(crate) fn merge_key(&self) -> impl Eq + Hash + use<> {
        (
            self.positions(),
            self.hashes(),
            self.cells(),
            self.geometry().cell_bytes,
        )
    }

    /// Whether another filter of this size has nothing that this one lacks: no bit, and no count. Counters that
    /// are no smaller only by chance don't tell: removals would then take counts from what they hold.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        let (own, others) = (self.bitmap(), other.bitmap());
        if other.cells() != Cells::Counters {
            return bits::hold(own, others);
        }
        let in_use = other.fill() * to_double(other.positions());
        let certain = in_use * -log2(self.fill()) >= CERTAIN_BITS;
        certain && counters::hold(own, others)
    }

    /// How many items it would have with those of another filter of this size laid over its own, by the bits
    /// that would be set.
    pub(crate) fn items_of_union(&self, other: &Self) -> u64 {
        let (own, others) = (self.bitmap(), other.bitmap());
        let in_use = match self.cells() {
            Cells::Counters => saturated(counters::in_use_in_union(own, others)).into(),
            Cells::Bits | Cells::BareBits => bits::ones_of_union(own, others),
        };
        self.items_of(in_use)
    }

    /// How many items it would have with so many cells in use.
    fn items_of(&self, in_use: u64) -> u64 {
        let positions = to_double(self.positions());
        let fill = (to_double(in_use) / positions).min(1.0);
        let (items, _) = rate::items_of_fill(positions, self.hashes(), fill);
        to_whole(items.round())
    }

    /// Lays another filter of this size over this one. Its number of items stays as it is. Returns how many
    /// it would have, by the cells that are in use now.
    pub(crate) fn absorb(&mut self, other: &Self) -> u64 {
        let kind = self.cells();
        let in_use = unite(kind, self.bitmap_mut(), other.bitmap());
        self.now_in_use(in_use)
    }

    /// A copy with another filter of this size laid over it, made in one pass, and what
    /// [`absorb`](Self::absorb) returns; `None` if there is no memory for it.
    pub(crate) fn united(&self, other: &Self) -> Option<(Self, u64)> {
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.blob.len()).ok()?;
        blob.extend_from_slice(&self.blob[..self.header_bytes()]);
        let mut in_use = 0;
        // What was copied is still near when the other is laid over it.
        let pieces = self.bitmap().chunks(8192).zip(other.bitmap().chunks(8192));
        for (own, other) in pieces {
            let begin = blob.len();
            blob.extend_from_slice(own);
            in_use += unite(self.cells(), &mut blob[begin..], other);
        }
        let blob = blob.into_boxed_slice();
        let mut union = Self { blob, ..*self };
        let items = union.now_in_use(in_use);
        Some((union, items))
    }

    /// Records how many cells are in use. Returns the number of items that they stand for.
    fn now_in_use(&mut self, now: u64) -> u64 {
        let now = match &mut self.layout {
            Layout::Counters { in_use, .. } => {
                *in_use = saturated(now);
                (*in_use).into()
            }
            _ => now,
        };
        self.items_of(now)
    }

    /// Lets it have at most so many items.
    pub(crate) fn cut_items(&mut self, most: u64) {
        self.items = self.items.min(most);
    }

    /// The same filter, with another number of items and another capacity.
    pub(crate) const fn with_items(mut self, items: u64, capacity: u64) -> Self {
        self.items = items;
        self.capacity = capacity;
        self
    }

    /// Whether it claims nothing. Its number of items alone can't tell: false positives on insert are not
    /// counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.items == 0 && self.bitmap().iter().all(|cells| *cells == 0)
    }

    pub(crate) fn seal(&mut self) {
        self.items = self.items.max(1);
        self.capacity = self.items;
    }

    /// The error rate with this many items in it, each of which was new.
    pub fn rate_at(&self, items: u64) -> f64 {
        let items_per_position = to_double(items) / to_double(self.positions());
        self.rate_of_fill(rate::fill_after(items_per_position, self.hashes()))
    }

    /// The error rate now: by the bits that are set, where they are known or few enough to be counted, else by
    /// the number of items.
    pub fn estimated_rate(&self) -> f64 {
        match self.layout {
            Layout::Counters { in_use, .. } if in_use < u32::MAX => self.rate_of_fill(self.fill()),
            Layout::Bits { .. } | Layout::BareBits { .. } if self.is_small() => {
                self.rate_of_fill(self.fill())
            }
            _ => self.rate_at(self.items),
        }
    }

    /// Whether it holds so few items that the equations tell little of the rate.
    pub fn holds_few(&self) -> bool {
        self.items < FEW_ITEMS && self.is_small()
    }

    /// Whether its bits are few enough to be counted. Those in a lane never are.
    fn is_small(&self) -> bool {
        !self.is_in_lane() && self.blob.len() <= COUNTED_BYTES
    }

    /// Positions of an item that this filter would claim if these are in use, at random, one for each hash function;
    /// `None` where so few are set that none is soon found.
    pub fn claimed_positions(
        &self,
        is_in_use: impl Fn(u64) -> bool,
        random: &mut u64,
    ) -> Option<Vec<u64>> {
        let mut tries = 0..TRIES;
        let mut position = || {
            tries.find_map(|_| {
                let position = asked::below(self.positions(), asked::scrambled(random));
                is_in_use(position).then_some(position)
            })
        };
        (0..self.hashes()).map(|_| position()).collect()
    }

    /// Whether the cell at a position is set, or counts.
    pub fn is_in_use(&self, position: u64) -> bool {
        let used = match self.cells() {
            Cells::Counters => words::is_used::<4>(self.bitmap(), position),
            Cells::Bits | Cells::BareBits => words::is_used::<1>(self.bitmap(), position),
        };
        used == 1
    }

    /// The positions of cells that are set, or count.
    fn positions_in_use(&self) -> Vec<u64> {
        let cells_of_byte = 8 / self.cells().bits();
        let bytes = (0..)
            .step_by(usize::try_from(cells_of_byte).unwrap_or(1))
            .zip(self.bitmap());
        // Most bytes of a filter that holds few items are 0.
        let used = bytes.filter(|(_, cells)| **cells != 0);
        let positions = used.flat_map(|(first, _)| first..first + cells_of_byte);
        positions
            .filter(|position| self.is_in_use(*position))
            .collect()
    }

    /// Items of which this filter may claim some, and the share of all items that are such. It claims none of the
    /// others.
    pub fn likely(&self) -> (Likely, f64) {
        let in_use = self.positions_in_use();
        let fill = to_double(in_use.len() as u64) / to_double(self.positions());
        let share = if self.hashes() == 1 {
            fill
        } else {
            fill * fill
        };
        (
            Likely::new(in_use, self.positions(), self.hashes(), self.is_bare()),
            share,
        )
    }

    fn rate_of_fill(&self, fill: f64) -> f64 {
        rate::false_positives(self.is_bare(), self.positions(), self.hashes(), fill)
    }

    /// The share of its cells that are in use.
    fn fill(&self) -> f64 {
        let in_use = match self.layout {
            Layout::Counters { in_use, .. } => in_use.into(),
            _ => bits::ones(self.bitmap()),
        };
        (to_double(in_use) / to_double(self.positions())).min(1.0)
    }

    /// Lets `place` move the blob. It returns the same bytes, perhaps elsewhere.
    pub fn relocate(&mut self, place: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.blob = place(std::mem::take(&mut self.blob));
    }
}

/// Lays cells over others of this kind. Returns how many are in use then.
fn unite(kind: Cells, cells: &mut [u8], other: &[u8]) -> u64 {
    match kind {
        Cells::Counters => counters::unite(cells, other),
        Cells::Bits | Cells::BareBits => bits::unite(cells, other),
    }
}

fn saturated(in_use: u64) -> u32 {
    u32::try_from(in_use).unwrap_or(u32::MAX)
}

/// Whether a number of items is certainly within the bounds that [`rate::items_of_fill`] sets for a share of
/// counters in use. A square root, a logarithm and a division are saved by comparing squares, with
/// `u·t ≤ u·(x + x²/2) + x³/3` in the deviation, which makes it too small by at most a twentieth where up to
/// half of the counters are in use.
#[inline(always)]
fn is_plausible(items: u64, positions: f64, hashes: u32, fill: f64) -> bool {
    let (per_position, power) = rate::items_per_position(fill, hashes);
    let hashes = f64::from(hashes);
    let off = (to_double(items) - positions * per_position) * hashes;
    let spread = fill * (1.0 - power);
    // Rounding is far below the thousandth by which the bound is below as many deviations.
    let most = 0.999 * DRIFT * DRIFT;
    off * off * (1.0 - fill) < most * positions * spread * spread * (0.5 + fill / 6.0)
}

#[allow(clippy::cast_precision_loss, reason = "an estimate needs no more")]
const fn to_double(number: u64) -> f64 {
    number as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a double saturates"
)]
const fn to_whole(number: f64) -> u64 {
    number as u64
}
