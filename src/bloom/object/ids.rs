//! Which ids went into which filter of a stack of counters.
//!
//! Removal follows dablooms (Bitly 2012): with an id it is exact, because each filter takes a range of
//! ids. Without one, an item is removed if a single filter claims it, which then holds all of its counts; if
//! several do, any of them may be wrong, and the item stays.

use crate::bloom::hash::Probe;
use crate::bloom::law::{Growth, Limits, Refusal};
use crate::bloom::stack::Stack;

/// First id and number of a filter that takes ids. The range ends where the next begins.
pub type Range = (u64, usize);

/// The ids that a stack took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The lowest and the highest, if there were any.
    pub seen: Option<(u64, u64)>,
    /// The ranges of the filters, in order. The first takes older ids as well.
    pub ranges: Vec<Range>,
}

impl Ids {
    /// The filter whose range holds an id.
    fn filter_of(&self, id: u64) -> Option<usize> {
        let after = self.ranges.partition_point(|(first, _)| *first <= id);
        let range = self.ranges.get(after.saturating_sub(1));
        range.map(|(_, index)| *index)
    }

    /// The filter that took an id, if one did.
    pub fn took(&self, id: u64) -> Option<usize> {
        let (lowest, highest) = self.seen?;
        let index = self.filter_of(id)?;
        (lowest..=highest).contains(&id).then_some(index)
    }

    /// The filter for an item with an id: that of the id's range. Where that is the newest and full, an id
    /// above all before it begins the next range.
    pub fn place(
        &mut self,
        stack: &mut Stack,
        id: u64,
        probe: Probe,
        limits: impl FnOnce() -> Limits,
    ) -> Result<usize, Refusal> {
        let newest = self.ranges.last().map(|(_, index)| *index);
        let is_over = |index: usize| {
            let filter = &stack.filters()[index];
            filter.is_full() && !filter.contains(probe)
        };
        let index = match self.filter_of(id) {
            Some(index) if !is_over(index) => index,
            // A late item goes where its id belongs, whether there is room or not.
            Some(index) if newest != Some(index) || self.is_late(id) => {
                let fixed = stack.law().growth() == Growth::Fixed;
                if fixed && !limits().saturate {
                    return Err(Refusal::Full);
                }
                index
            }
            _ => self.begin_range(stack, id, limits())?,
        };
        let (lowest, highest) = self.seen.unwrap_or((id, id));
        self.seen = Some((lowest.min(id), highest.max(id)));
        Ok(index)
    }

    /// Whether an id is not above all before it. A file may say that a range begins above all ids that were
    /// seen.
    fn is_late(&self, id: u64) -> bool {
        let last = self.ranges.last().map(|(first, _)| *first);
        last.max(self.seen.map(|(_, highest)| highest)) >= Some(id)
    }

    fn begin_range(
        &mut self,
        stack: &mut Stack,
        id: u64,
        limits: Limits,
    ) -> Result<usize, Refusal> {
        let limits = limits.beside(size_of::<Range>() as u64);
        if stack.memory_bytes() > limits.object_bytes {
            return Err(Refusal::MemoryLimit);
        }
        let room = self.ranges.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        let newest = self.ranges.last().map(|(_, index)| *index);
        let behind = newest.map_or(0, |index| index + 1);
        let index = stack.make_room(behind, || limits)?;
        // In a non-scaling object that saturates, the last range continues.
        if newest.is_none_or(|newest| newest < index) {
            let first = if newest.is_none() { 0 } else { id };
            self.ranges.push((first, index));
        }
        Ok(index)
    }

    /// Requires that these are ids of a stack of so many filters.
    pub fn check(&self, filters: usize) -> Result<(), &'static str> {
        let Some((lowest, highest)) = self.seen else {
            return if self.ranges.is_empty() {
                Ok(())
            } else {
                Err("ranges without ids")
            };
        };
        if lowest > highest {
            return Err("ids out of order");
        }
        let begins = self.ranges.first().is_some_and(|(first, _)| *first == 0);
        let mut pairs = self.ranges.windows(2);
        let rising = pairs.all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        let last = self.ranges.last();
        if begins && rising && last.is_some_and(|(_, index)| *index < filters) {
            Ok(())
        } else {
            Err("ranges out of order")
        }
    }

    /// Bytes of memory outside the value itself.
    pub const fn memory_bytes(&self) -> u64 {
        (self.ranges.capacity() * size_of::<Range>()) as u64
    }

    pub fn try_clone(&self) -> Option<Self> {
        let mut ranges = Vec::new();
        ranges.try_reserve_exact(self.ranges.len()).ok()?;
        ranges.extend_from_slice(&self.ranges);
        Some(Self {
            ranges,
            seen: self.seen,
        })
    }
}
