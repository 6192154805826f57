//! The items of a list, each in a slot that it keeps while the heap moves its entry.

use crate::machine::memory::{self, Relocate};

/// The slots that are allocated together, so that a long list takes memory as it fills.
pub const CHUNK: usize = 512;

/// An item in the list.
#[derive(Debug)]
pub struct Listed {
    pub item: Box<[u8]>,
    pub fingerprint: u32,
    /// The index of the item's entry in the heap.
    pub at: u32,
}

impl Listed {
    /// Returns the fingerprint and the item.
    pub fn parts(&self) -> (u32, &[u8]) {
        (self.fingerprint, &self.item)
    }
}

/// The slots of a list.
#[derive(Debug)]
pub struct Slots {
    /// Each with exact capacity, all full but the last.
    chunks: Vec<Vec<Listed>>,
    /// The most slots.
    most: u32,
    /// The number of items whose count is not 0, kept by the list.
    pub counted: u32,
    /// Sum of the items' lengths in bytes.
    pub item_bytes: u64,
}

impl Slots {
    /// Creates an empty list of at most `most` slots, or returns `None` if allocation fails.
    pub fn new(most: u32) -> Option<Self> {
        Some(Self {
            chunks: memory::reserved((most as usize).div_ceil(CHUNK))?,
            most,
            counted: 0,
            item_bytes: 0,
        })
    }

    #[inline]
    pub fn get(&self, slot: u32) -> &Listed {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// Returns whether a slot is in use, for this item.
    #[inline]
    pub fn holds(&self, slot: u32, item: &[u8]) -> bool {
        let chunk = self.chunks.get(slot as usize / CHUNK);
        let listed = chunk.and_then(|chunk| chunk.get(slot as usize % CHUNK));
        listed.is_some_and(|listed| *listed.item == *item)
    }

    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut Listed {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// Allocates the next slot if it has no memory yet. Returns `None` if allocation fails.
    pub fn reserve(&mut self) -> Option<()> {
        let (used, most) = (self.used(), self.most as usize);
        if used == self.chunks.len() * CHUNK && used < most {
            let chunk = memory::reserved(CHUNK.min(most - used))?;
            self.chunks.push(chunk);
        }
        Some(())
    }

    /// Returns the number of slots in use, from slot 0 on.
    fn used(&self) -> usize {
        // All chunks but the last are full.
        let last = self.chunks.last();
        last.map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// Puts an item into the next slot, which is [reserved](Self::reserve). Returns the slot.
    #[allow(clippy::cast_possible_truncation, reason = "a number below `k`")]
    pub fn push(&mut self, listed: Listed) -> u32 {
        let slot = self.used() as u32;
        self.item_bytes += listed.item.len() as u64;
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(listed);
        }
        slot
    }

    /// Replaces the item of a slot, and returns the one before.
    pub fn replace(&mut self, slot: u32, listed: Listed) -> Listed {
        self.item_bytes += listed.item.len() as u64;
        let before = std::mem::replace(self.get_mut(slot), listed);
        self.item_bytes -= before.item.len() as u64;
        before
    }

    /// Returns the sum of the allocations in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let table = self.chunks.capacity() * size_of::<Vec<Listed>>();
        // All chunks but the last are full.
        let slots = (self.chunks.len() * CHUNK).min(self.most as usize) * size_of::<Listed>();
        (table + slots) as u64 + self.item_bytes
    }

    /// Returns the sum of the allocations of `most` slots in bytes, without their items.
    pub fn bytes_of(most: u32) -> u64 {
        const TABLE: u64 = memory::stated::<Vec<Listed>>(24) as u64;
        const SLOT: u64 = memory::stated::<Listed>(24) as u64;
        let most = u64::from(most);
        let chunks = most.div_ceil(CHUNK as u64);
        chunks * TABLE + most * SLOT
    }

    /// Copies the slots, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let mut copy = Self::new(self.most)?;
        for listed in self.chunks.iter().flatten() {
            copy.reserve()?;
            copy.push(Listed {
                item: memory::copied(&listed.item)?,
                ..*listed
            });
        }
        copy.counted = self.counted;
        Some(copy)
    }

    /// Returns the number of steps of [`relocate`](Self::relocate).
    pub fn steps(&self) -> usize {
        1 + self.chunks.len()
    }

    /// Moves the allocations of a step: first the table of chunks, then a chunk with its items.
    pub fn relocate(&mut self, step: usize, by: &mut impl Relocate) {
        match step.checked_sub(1) {
            None => self.chunks = by.table(std::mem::take(&mut self.chunks)),
            Some(index) => {
                let chunk = &mut self.chunks[index];
                *chunk = by.table(std::mem::take(chunk));
                for listed in chunk {
                    listed.item = by.blob(std::mem::take(&mut listed.item));
                }
            }
        }
    }
}
