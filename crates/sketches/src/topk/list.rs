//! The list of the items with the largest estimates: a heap, and what finds its items.

use crate::bytes::DecodeError;
use crate::hash::Seed;
use crate::machine::memory::{self, Relocate};
use crate::machine::work;

use super::pairs::{self, PAIR_BYTES};
use super::search::Search;
use super::slots::{Listed, Slots};

/// An entry of the heap. Free entries have no slot and a count of 0, but an item may have a count of 0 too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    count: u32,
    slot: Option<u32>,
}

impl Entry {
    const fn new(count: u32, slot: u32) -> Self {
        Self {
            count,
            slot: Some(slot),
        }
    }
}

/// The list of a sketch.
#[derive(Debug)]
pub struct List {
    /// Pairs of an entry's count and its slot plus 1, or 0 if the entry is free. They are a complete binary tree, the root
    /// first. Parents are seldom above their children: the order follows the rules
    /// of [`sink`](Self::sink), which are part of the stored form.
    heap: Box<[u8]>,
    slots: Slots,
    search: Search,
}

impl List {
    /// Creates an empty list of up to `k` items, whose search has this seed. Returns `None` if allocation fails.
    pub fn new(k: u32, seed: Seed) -> Option<Self> {
        Some(Self {
            heap: memory::zeroed((k as usize).checked_mul(PAIR_BYTES)?)?,
            slots: Slots::new(k)?,
            search: Search::new(k, seed)?,
        })
    }

    fn k(&self) -> usize {
        pairs::count(&self.heap)
    }

    #[inline]
    fn entry(&self, at: usize) -> Entry {
        let (count, next_slot) = pairs::get(&self.heap, at);
        Entry {
            count,
            slot: next_slot.checked_sub(1),
        }
    }

    /// Replaces an entry of the heap, and records where its item is now.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "an index below `k`")]
    fn set(&mut self, at: usize, entry: Entry) {
        let next_slot = entry.slot.map_or(0, |slot| slot + 1);
        pairs::set(&mut self.heap, at, (entry.count, next_slot));
        if let Some(slot) = entry.slot {
            self.slots.get_mut(slot).at = at as u32;
        }
    }

    /// Returns the number of listed items with a count, those of [`ranking`](Self::ranking).
    pub const fn len(&self) -> u32 {
        self.slots.counted
    }

    /// Notes that one item's count changes.
    #[inline]
    fn recount(&mut self, from: u32, to: u32) {
        self.slots.counted += u32::from(to > 0);
        self.slots.counted -= u32::from(from > 0);
    }

    /// Returns the count of the heap's root: the least that an item needs to be listed.
    #[inline]
    pub fn floor(&self) -> u32 {
        self.entry(0).count
    }

    /// Returns the length of the item at the root, which the next new item replaces; 0 if the root is free.
    pub fn root_bytes(&self) -> u64 {
        let slot = self.entry(0).slot;
        slot.map_or(0, |slot| self.slots.get(slot).item.len() as u64)
    }

    /// Returns the slot of an item, which has this fingerprint.
    #[inline]
    pub fn find(&self, item: &[u8], fingerprint: u32) -> Option<u32> {
        self.search.find(item, fingerprint, &self.slots)
    }

    /// Returns whether a search takes less time than reading an item's cells.
    #[inline]
    pub const fn is_short(&self) -> bool {
        matches!(self.search, Search::Few(_))
    }

    /// Returns the count of the item in a slot.
    pub fn count(&self, slot: u32) -> u32 {
        self.entry(self.slots.get(slot).at as usize).count
    }

    /// Allocates the memory that a new item may need besides its own. Returns `None` if allocation fails.
    pub fn reserve(&mut self) -> Option<()> {
        self.slots.reserve()
    }

    /// Sets the count of the item in a slot. Returns whether this changed the heap.
    pub fn update(&mut self, slot: u32, count: u32) -> bool {
        let at = self.slots.get(slot).at as usize;
        let before = self.entry(at).count;
        self.recount(before, count);
        let changed = before != count;
        self.set(at, Entry::new(count, slot));
        self.sink(at) || changed
    }

    /// Puts a new item in place of the root's, and returns the item that was there. Memory for it is
    /// [reserved](Self::reserve).
    pub fn replace_root(
        &mut self,
        item: Box<[u8]>,
        fingerprint: u32,
        count: u32,
    ) -> Option<Box<[u8]>> {
        let listed = Listed {
            item,
            fingerprint,
            at: 0,
        };
        let root = self.entry(0);
        self.recount(root.count, count);
        let (slot, before) = match root.slot {
            None => (self.slots.push(listed), None),
            Some(slot) => {
                self.search.remove(slot, &self.slots);
                (slot, Some(self.slots.replace(slot, listed).item))
            }
        };
        self.search.insert(slot, &self.slots);
        self.set(0, Entry::new(count, slot));
        self.sink(0);
        before
    }

    /// Appends an entry while the list is read. `matches` is set if the item has this fingerprint, so that it can be
    /// found.
    ///
    /// # Errors
    /// [`DecodeError::NoMemory`], or that there are too many copies of the item.
    pub fn restore(
        &mut self,
        count: u32,
        listed: Listed,
        matches: bool,
    ) -> Result<(), DecodeError> {
        self.slots.reserve().ok_or(DecodeError::NoMemory)?;
        self.recount(0, count);
        let at = listed.at as usize;
        let slot = self.slots.push(listed);
        self.set(at, Entry::new(count, slot));
        if matches && self.search.insert_copy(slot, &self.slots).is_none() {
            return Err("item that is listed too often".into());
        }
        Ok(())
    }

    /// Returns the child with the smaller count, the left one of equal ones.
    #[inline]
    fn lesser_child(&self, at: usize) -> Option<(usize, Entry)> {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        if left >= self.k() {
            return None;
        }
        let entry = self.entry(left);
        if right < self.k() {
            let other = self.entry(right);
            if other.count < entry.count {
                return Some((right, other));
            }
        }
        Some((left, entry))
    }

    /// Moves an entry down past lesser children, and in the first step past an equal one. Returns whether it moved.
    fn sink(&mut self, mut at: usize) -> bool {
        let entry = self.entry(at);
        let mut child = self.lesser_child(at);
        child = child.filter(|(_, child)| child.count <= entry.count);
        let moves = child.is_some();
        while let Some((place, lesser)) = child {
            work::steps(1);
            self.set(at, lesser);
            at = place;
            child = self.lesser_child(at);
            child = child.filter(|(_, child)| child.count < entry.count);
        }
        if moves {
            self.set(at, entry);
        }
        moves
    }

    /// Returns the entries of the heap in order: the count, and the item if the entry is not free.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (u32, Option<&Listed>)> {
        (0..self.k()).map(|at| {
            let entry = self.entry(at);
            (entry.count, entry.slot.map(|slot| self.slots.get(slot)))
        })
    }

    /// Returns the items with a count, the largest count first, and equal ones in the order of the heap. Returns
    /// `None` if allocation fails.
    pub fn ranking(&self) -> Option<impl ExactSizeIterator<Item = (&[u8], u32)>> {
        let counted = |at: &usize| self.entry(*at).count > 0;
        let mut keys = memory::reserved((0..self.k()).filter(counted).count())?;
        let entries = (0..self.k()).filter(counted);
        // The complement of the count, and the index in the heap.
        keys.extend(entries.map(|at| u64::from(!self.entry(at).count) << 32 | at as u64));
        work::bytes(self.heap.len());
        keys.sort_unstable();
        Some(keys.into_iter().map(|key| {
            let Entry { count, slot } = self.entry(pairs::split(key).0 as usize);
            let item = slot.map(|slot| &*self.slots.get(slot).item);
            (item.unwrap_or_default(), count)
        }))
    }

    /// Returns the sum of the allocations in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.heap.len() as u64 + self.search.memory_bytes() + self.slots.memory_bytes()
    }

    /// Returns the sum of the allocations of a full list of `k` items in bytes, without its items.
    pub fn bytes_of(k: u32) -> u64 {
        u64::from(k) * PAIR_BYTES as u64 + Search::bytes_of(k) + Slots::bytes_of(k)
    }

    /// Returns the sum of the items' lengths in bytes.
    pub const fn item_bytes(&self) -> u64 {
        self.slots.item_bytes
    }

    /// Copies the list, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            heap: memory::copied(&self.heap)?,
            slots: self.slots.try_clone()?,
            search: self.search.try_clone()?,
        })
    }

    /// Returns the number of steps of [`relocate`](Self::relocate).
    pub fn steps(&self) -> usize {
        2 + self.slots.steps()
    }

    /// Moves the allocations of a step.
    pub fn relocate(&mut self, step: usize, by: &mut impl Relocate) {
        match step {
            0 => self.heap = by.blob(std::mem::take(&mut self.heap)),
            1 => self.search.relocate(|bytes| by.blob(bytes)),
            _ => self.slots.relocate(step - 2, by),
        }
    }
}
