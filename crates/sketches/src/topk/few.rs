//! An index of a short list: the fingerprints of its items. A search compares all of them, several at once, which takes
//! less time than a hash of the item. The index is computed and never stored.

use crate::machine::memory;
use crate::machine::work;

use super::slots::Slots;

/// The number of fingerprints that are compared at once.
const GROUP: usize = 8;

/// The bytes of a fingerprint.
const BYTES: usize = size_of::<u32>();

/// An index of a short list.
#[derive(Debug)]
pub struct Few {
    /// The fingerprint of each slot's item, little endian, in whole groups. That of an unused slot has no meaning.
    fingerprints: Box<[u8]>,
}

impl Few {
    /// The most slots.
    pub const MOST: u32 = 128;

    /// Creates an index for up to `slots` slots, or returns `None` if allocation fails.
    pub fn new(slots: u32) -> Option<Self> {
        let bytes = usize::try_from(Self::bytes_of(slots)).ok()?;
        Some(Self {
            fingerprints: memory::zeroed(bytes)?,
        })
    }

    /// Returns the size of the fingerprints of up to `slots` slots in bytes.
    pub fn bytes_of(slots: u32) -> u64 {
        u64::from(slots).next_multiple_of(GROUP as u64) * BYTES as u64
    }

    /// Returns the slot of an item; of several, the one whose entry is last in the heap.
    #[inline]
    pub fn find(&self, item: &[u8], fingerprint: u32, slots: &Slots) -> Option<u32> {
        work::bytes(self.fingerprints.len());
        let is_equal = |lane: &[u8; BYTES]| u32::from_le_bytes(*lane) == fingerprint;
        let (groups, _) = self.fingerprints.as_chunks::<{ GROUP * BYTES }>();
        let mut found = None;
        for (first, group) in (0..).step_by(GROUP).zip(groups) {
            let (lanes, _) = group.as_chunks();
            // A fold does not stop at the first equal lane, so the compiler compares all of them at once.
            if !lanes.iter().fold(false, |any, lane| any | is_equal(lane)) {
                continue;
            }
            for (slot, lane) in (first..).zip(lanes) {
                if is_equal(lane) && slots.holds(slot, item) {
                    found = found.max(Some((slots.get(slot).at, slot)));
                }
            }
        }
        found.map(|(_, slot)| slot)
    }

    /// Notes the fingerprint of a slot's item.
    #[inline]
    pub fn set(&mut self, slot: u32, fingerprint: u32) {
        let (lanes, _) = self.fingerprints.as_chunks_mut();
        lanes[slot as usize] = fingerprint.to_le_bytes();
    }

    /// Returns the size of the fingerprints in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.fingerprints.len() as u64
    }

    /// Copies the fingerprints, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let fingerprints = memory::copied(&self.fingerprints)?;
        Some(Self { fingerprints })
    }

    /// Moves the fingerprints.
    pub fn relocate(&mut self, place: impl FnOnce(Box<[u8]>) -> Box<[u8]>) {
        self.fingerprints = place(std::mem::take(&mut self.fingerprints));
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::Listed;
    use super::*;

    /// Returns an index and slots with these items, their fingerprints, and the places of their entries in the heap.
    fn of(listed: &[(&[u8], u32, u32)]) -> (Few, Slots) {
        let most = u32::try_from(listed.len()).expect("a short list");
        let mut few = Few::new(most).expect("memory");
        let mut slots = Slots::new(most).expect("memory");
        for &(item, fingerprint, at) in listed {
            slots.reserve().expect("memory");
            let listed = Listed {
                item: item.into(),
                fingerprint,
                at,
            };
            few.set(slots.push(listed), fingerprint);
        }
        (few, slots)
    }

    /// Lanes after the last slot hold zeros, and so do those of slots that are not in use yet.
    #[test]
    fn unused_lanes_are_no_items_with_the_fingerprint_0() {
        let (few, slots) = of(&[(b"a", 7, 0), (b"zero", 0, 1), (b"b", 9, 2)]);
        assert_eq!(few.memory_bytes(), (GROUP * BYTES) as u64);
        assert_eq!(few.find(b"zero", 0, &slots), Some(1));
        assert_eq!(few.find(b"other", 0, &slots), None);
        let empty = Slots::new(Few::MOST).expect("memory");
        let few = Few::new(Few::MOST).expect("memory");
        assert_eq!(few.find(b"", 0, &empty), None);
    }

    #[test]
    fn items_with_equal_fingerprints_are_told_apart_in_all_groups() {
        let items: Vec<[u8; 1]> = (0..20).map(|item| [item]).collect();
        let listed: Vec<(&[u8], u32, u32)> = (0..)
            .zip(&items)
            .map(|(at, item)| (&item[..], 5, at))
            .collect();
        let (few, slots) = of(&listed);
        for (slot, item) in (0..).zip(&items) {
            assert_eq!(few.find(item, 5, &slots), Some(slot));
            assert_eq!(few.find(item, 6, &slots), None);
        }
    }

    #[test]
    fn of_equal_items_the_last_in_the_heap_is_found() {
        for (places, slot) in [([4, 9, 2], 1), ([9, 4, 2], 0), ([2, 4, 9], 2)] {
            let (few, slots) = of(&places.map(|at| (&b"a"[..], 5, at)));
            assert_eq!(few.find(b"a", 5, &slots), Some(slot), "{places:?}");
        }
    }
}
