//! The search for an item of a list: by fingerprint in a short list, by hash in a long one.

use crate::hash::Seed;

use super::few::Few;
use super::index::Index;
use super::slots::Slots;

/// An index from items to their slots.
#[derive(Debug)]
pub enum Search {
    /// That of a short list.
    Few(Few),
    /// That of a long list.
    Many(Index),
}

impl Search {
    /// Creates an index for up to `slots` slots, or returns `None` if allocation fails.
    pub fn new(slots: u32, seed: Seed) -> Option<Self> {
        Some(if slots <= Few::MOST {
            Self::Few(Few::new(slots)?)
        } else {
            Self::Many(Index::new(slots, seed)?)
        })
    }

    /// Returns the size of the allocation for up to `slots` slots in bytes.
    pub fn bytes_of(slots: u32) -> u64 {
        if slots <= Few::MOST {
            Few::bytes_of(slots)
        } else {
            Index::bytes_of(slots)
        }
    }

    /// Returns the slot of an item; of several, the one whose entry is last in the heap.
    #[inline]
    pub fn find(&self, item: &[u8], fingerprint: u32, slots: &Slots) -> Option<u32> {
        match self {
            Self::Few(few) => few.find(item, fingerprint, slots),
            Self::Many(index) => index.find(item, slots),
        }
    }

    /// Enters a slot whose item is in no other one.
    #[inline]
    pub fn insert(&mut self, slot: u32, slots: &Slots) {
        match self {
            Self::Few(few) => few.set(slot, slots.get(slot).fingerprint),
            Self::Many(index) => index.insert(slot, slots),
        }
    }

    /// Enters a slot, whose item may be in others. Returns `None` if a search would visit too many of them.
    pub fn insert_copy(&mut self, slot: u32, slots: &Slots) -> Option<()> {
        match self {
            Self::Few(few) => few.set(slot, slots.get(slot).fingerprint),
            Self::Many(index) => return index.insert_copy(slot, slots),
        }
        Some(())
    }

    /// Removes a slot if it was entered. Its item is still in it, and the caller replaces it next.
    #[inline]
    pub fn remove(&mut self, slot: u32, slots: &Slots) {
        match self {
            // The fingerprint of the next item replaces this item's.
            Self::Few(_) => {}
            Self::Many(index) => index.remove(slot, slots),
        }
    }

    /// Returns the size of the allocation in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Few(few) => few.memory_bytes(),
            Self::Many(index) => index.memory_bytes(),
        }
    }

    /// Copies the index, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        Some(match self {
            Self::Few(few) => Self::Few(few.try_clone()?),
            Self::Many(index) => Self::Many(index.try_clone()?),
        })
    }

    /// Moves the allocation.
    pub fn relocate(&mut self, place: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        match self {
            Self::Few(few) => few.relocate(place),
            Self::Many(index) => index.relocate(place),
        }
    }
}
