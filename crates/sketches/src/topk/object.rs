//! A sketch with its list.

use crate::error::Refusal;
use crate::hash::{Columns, GROUP, Rows, Seed};
use crate::machine::memory::{self, Relocate};

use super::chance::{Chance, Collision, Contest};
use super::decay::Decay;
use super::derived::Derived;
use super::item::{Cells, fingerprint};
use super::list::List;
use super::pairs::{self, PAIR_BYTES};
use super::shape::Shape;
use super::slots::Listed;

/// The numbers of collisions are counted modulo this.
const COLLISIONS: u64 = 1 << 63;

/// The bytes of cells that a processor's second cache holds beside other data.
const CACHED_BYTES: usize = 256 << 10;

/// A top-k list with its sketch.
#[derive(Debug)]
pub struct TopK {
    shape: Shape,
    columns: Columns,
    decay: Decay,
    /// Pairs of the owner's fingerprint and the count, row by row. This is their stored form.
    cells: Box<[u8]>,
    pub(super) list: List,
    /// The number of collisions that hung on chance, modulo 2⁶³.
    collisions: u64,
}

/// What adding an item changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Whether the sketch changed at all.
    pub changed: bool,
    /// The item that left the list.
    pub left: Option<Box<[u8]>>,
}

impl TopK {
    /// Size of an object without its allocations, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(448) as u64;

    /// Creates an empty sketch that may take up to `most_bytes` once its list is full, without its items. The seed is
    /// for searches in the list and determines nothing that is stored; it has to be secret if the items are untrusted.
    ///
    /// # Errors
    /// The [`Refusal`] of the limit or of the allocator.
    pub fn new(shape: Shape, seed: Seed, most_bytes: u64) -> Result<Self, Refusal> {
        if Self::bytes_of(&shape) > most_bytes {
            return Err(Refusal::MemoryLimit);
        }
        let cells = usize::try_from(shape.cells() * PAIR_BYTES as u64).ok();
        let object = cells.and_then(|cells| {
            let list = List::new(shape.k(), seed)?;
            Some(Self::from_parts(shape, memory::zeroed(cells)?, list, 0))
        });
        object.ok_or(Refusal::OutOfMemory)
    }

    /// Creates the sketch of a shape from its stored cells and its list.
    pub(super) fn from_parts(shape: Shape, cells: Box<[u8]>, list: List, collisions: u64) -> Self {
        Self {
            shape,
            columns: Columns::new(shape.width().into()),
            decay: Decay::of(shape.decay()),
            cells,
            list,
            collisions: collisions % COLLISIONS,
        }
    }

    /// Returns the memory that a sketch of a shape takes once its list is full, without its items, in bytes.
    pub fn bytes_of(shape: &Shape) -> u64 {
        Self::BASE_BYTES + shape.cells() * PAIR_BYTES as u64 + List::bytes_of(shape.k())
    }

    /// Returns the shape.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the number of items in the list, without those whose count is 0.
    pub const fn listed(&self) -> u32 {
        self.list.len()
    }

    /// Returns the number of collisions that hung on chance, modulo 2⁶³.
    pub const fn collisions(&self) -> u64 {
        self.collisions
    }

    /// Returns the cells in their stored form: for each the fingerprint and the count, 32 bits each, little endian.
    pub fn cells(&self) -> &[u8] {
        &self.cells
    }

    /// Returns the entries of the list in their stored order: the count, and the item with its fingerprint, or `None`
    /// if the entry is free.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u32, Option<(u32, &[u8])>)> {
        let entries = self.list.entries();
        entries.map(|(count, listed)| (count, listed.map(Listed::parts)))
    }

    /// Returns the exact sum of the object's allocations in bytes, including itself.
    pub fn memory_bytes(&self) -> u64 {
        Self::BASE_BYTES + self.cells.len() as u64 + self.list.memory_bytes()
    }

    #[inline]
    fn cell(&self, index: usize) -> (u32, u32) {
        pairs::get(&self.cells, index)
    }

    /// Returns the cells of an item.
    #[inline]
    fn locate<'i>(&self, item: &'i [u8], room: &'i mut [[usize; GROUP]; 1]) -> Cells<'i> {
        let (width, depth) = (self.shape.width(), self.shape.depth());
        let rows = Rows::new(self.columns, width.into(), depth.into());
        Cells::of(item, rows, room)
    }

    /// Adds an item `increment` times. `most_bytes` returns the limit on the sketch's memory in bytes, with the
    /// memory that its list takes when it is full; it is called only if the item may enter the list.
    ///
    /// # Errors
    /// The [`Refusal`] of the limit or of the allocator. Then nothing has changed.
    #[inline]
    pub fn add(
        &mut self,
        item: &[u8],
        increment: u32,
        most_bytes: impl FnOnce() -> u64,
    ) -> Result<Added, Refusal> {
        self.add_by(&mut Derived, item, increment, most_bytes)
    }

    /// Adds an item as [`add`](Self::add) does, with another source of chance.
    ///
    /// # Errors
    /// Those of [`add`](Self::add).
    pub fn add_by(
        &mut self,
        chance: &mut impl Chance,
        item: &[u8],
        increment: u32,
        most_bytes: impl FnOnce() -> u64,
    ) -> Result<Added, Refusal> {
        let mut room = [[0; GROUP]];
        let cells = self.locate(item, &mut room);
        let floor = self.list.floor();
        // Many cells come from memory while the list is searched. If few, which are in the cache, have a long list, they
        // are read first: most items turn out not to reach the least count of the list, which needs no search.
        let are_cached = self.cells.len() <= CACHED_BYTES;
        if !are_cached {
            cells.each(|cell| memory::prefetch(&self.cells, cell * PAIR_BYTES));
        }
        let find = |list: &List| list.find(item, cells.fingerprint);
        let searches_first = !are_cached || self.list.is_short();
        let mut listed = searches_first.then(|| find(&self.list)).flatten();
        let may_enter = listed.is_none() && self.most_after(&cells, increment) >= floor;
        if !searches_first && may_enter {
            listed = find(&self.list);
        }
        let copy = if may_enter && listed.is_none() {
            Some(self.copy_for_list(item, most_bytes)?)
        } else {
            None
        };
        let before = self.collisions;
        let (estimate, changed) = self.count_up(chance, &cells, increment);
        let mut added = Added {
            changed: changed || self.collisions != before,
            left: None,
        };
        if estimate >= floor {
            if let Some(slot) = listed {
                added.changed |= self.list.update(slot, estimate);
            } else if let Some(copy) = copy {
                added.left = self.list.replace_root(copy, cells.fingerprint, estimate);
                added.changed = true;
            }
        }
        Ok(added)
    }

    /// Returns the largest estimate that an item can have after an increment.
    #[inline]
    fn most_after(&self, cells: &Cells, increment: u32) -> u32 {
        let mut most = 0;
        self.each_count_in(cells, |count| {
            most = most.max(count.wrapping_add(increment));
        });
        most
    }

    /// Copies an item that may enter the list.
    fn copy_for_list(
        &mut self,
        item: &[u8],
        most_bytes: impl FnOnce() -> u64,
    ) -> Result<Box<[u8]>, Refusal> {
        let bytes = Self::bytes_of(&self.shape) + self.list.item_bytes();
        if bytes - self.list.root_bytes() + item.len() as u64 > most_bytes() {
            return Err(Refusal::MemoryLimit);
        }
        let copy = self.list.reserve().and_then(|()| memory::copied(item));
        copy.ok_or(Refusal::OutOfMemory)
    }

    /// Adds to the item's cells. Returns the estimate, and whether a cell changed.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "cells have 32-bit numbers")]
    fn count_up(&mut self, chance: &mut impl Chance, cells: &Cells, increment: u32) -> (u32, bool) {
        let fingerprint = cells.fingerprint;
        let (mut estimate, mut changed) = (0, false);
        cells.each(|index| {
            let cell = pairs::get_mut(&mut self.cells, index);
            let before @ (owner, count) = pairs::read(*cell);
            let after = if count == 0 {
                (fingerprint, increment)
            } else if owner == fingerprint {
                (fingerprint, count.wrapping_add(increment))
            } else {
                let collision = Collision {
                    fingerprint,
                    cell: index as u32,
                    owner,
                    count,
                    draws: increment,
                    number: self.collisions,
                };
                match contest(chance, &collision, &self.decay, &mut self.collisions) {
                    Contest::Kept(count) => (owner, count),
                    Contest::Taken(count) => (fingerprint, count),
                }
            };
            if after.0 == fingerprint {
                estimate = estimate.max(after.1);
            }
            if after != before {
                *cell = pairs::written(after);
                changed = true;
            }
        });
        (estimate, changed)
    }

    /// Returns whether an item is in the list.
    #[inline]
    pub fn contains(&self, item: &[u8]) -> bool {
        self.list.find(item, fingerprint(item)).is_some()
    }

    /// Returns the count of an item's cells: the largest one, but of a listed item only of those that reach the least
    /// count of the list. It may be too low or, if fingerprints collide, too high.
    pub fn count(&self, item: &[u8]) -> u32 {
        let least = if self.contains(item) {
            self.list.floor()
        } else {
            0
        };
        let mut most = 0;
        self.each_own_count(item, |count| {
            if count >= least {
                most = most.max(count);
            }
        });
        most
    }

    /// Passes the counts of an item's cells to `visit`, row by row; 0 where another item owns the cell.
    pub(super) fn each_own_count(&self, item: &[u8], visit: impl FnMut(u32)) {
        self.each_count_in(&self.locate(item, &mut [[0; GROUP]]), visit);
    }

    #[inline]
    fn each_count_in(&self, cells: &Cells, mut visit: impl FnMut(u32)) {
        cells.each(|index| {
            let (owner, count) = self.cell(index);
            visit(if owner == cells.fingerprint { count } else { 0 });
        });
    }

    /// Returns the items of the list whose count is not 0, the largest count first. Returns `None` if allocation
    /// fails.
    pub fn ranking(&self) -> Option<impl ExactSizeIterator<Item = (&[u8], u32)>> {
        self.list.ranking()
    }

    /// Copies the sketch, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            cells: memory::copied(&self.cells)?,
            list: self.list.try_clone()?,
            decay: self.decay.clone(),
            ..*self
        })
    }

    /// Moves the allocations to other memory, starting with step `first`. Returns the step to resume at, or `None` at
    /// the end.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        for step in first..=self.list.steps() {
            if step > first && by.should_stop() {
                return Some(step);
            }
            match step.checked_sub(1) {
                None => self.cells = by.blob(std::mem::take(&mut self.cells)),
                Some(step) => self.list.relocate(step, by),
            }
        }
        None
    }
}

/// Returns the outcome at a cell of another owner. Collisions that hang on chance are counted.
#[inline]
fn contest(
    chance: &mut impl Chance,
    collision: &Collision,
    decay: &Decay,
    collisions: &mut u64,
) -> Contest {
    let Collision { count, draws, .. } = *collision;
    if decay.is_certain() {
        return match draws.checked_sub(count) {
            None => Contest::Kept(count - draws),
            Some(left) => Contest::Taken(left + 1),
        };
    }
    if draws == 0 || decay.power(count) == 0.0 {
        return Contest::Kept(count);
    }
    *collisions = (*collisions + 1) % COLLISIONS;
    chance.contest(collision, decay)
}
