//! What an [`Extended`](super::Extended) object took in one period: a stack of filters and, where their cells
//! are counters, which ids went into which filter.
//!
//! Removal follows dablooms (Bitly 2012): with an id it is exact, because each filter takes a range of
//! ids. Without one, an item is removed where a single filter claims it, which then holds all that was
//! counted of it; where several do, any of them may be wrong, and the item stays.

use super::object::{Added, BloomObject, FilterParts, Refusal};
use super::probe::{Probe, Seed};
use super::shape::Shape;
use super::sizing::{Growth, Limits};

/// The ids that a stack has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) lowest: u64,
    pub(super) highest: u64,
}

/// What was added in a period.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) period: u64,
    pub(super) object: BloomObject,
    pub(super) ids: Option<Ids>,
    /// First id and number of each filter that takes ids, in order. A range ends where the next begins;
    /// the first takes what is older as well.
    pub(super) ranges: Vec<(u64, usize)>,
}

impl Stack {
    pub(super) fn new(
        period: u64,
        shape: &Shape,
        seed: Seed,
        limits: Limits,
    ) -> Result<Self, Refusal> {
        let params = shape.of_period().ok_or(Refusal::RateTooSmall)?;
        Ok(Self {
            period,
            object: BloomObject::with_cells(shape.cell(), &params, seed, limits)?,
            ids: None,
            ranges: Vec::new(),
        })
    }

    /// Bytes beside the entry in the table of stacks.
    pub(super) fn memory_bytes(&self) -> u64 {
        let ranges = self.ranges.capacity() * size_of::<(u64, usize)>();
        self.object.memory_bytes() - BloomObject::BASE_BYTES + ranges as u64
    }

    pub(super) fn try_clone(&self) -> Option<Self> {
        let mut ranges = Vec::new();
        ranges.try_reserve_exact(self.ranges.len()).ok()?;
        ranges.extend_from_slice(&self.ranges);
        Some(Self {
            object: self.object.try_clone()?,
            ranges,
            ..*self
        })
    }

    /// The filter whose range holds an id.
    fn of_id(&self, id: u64) -> Option<usize> {
        let after = self.ranges.partition_point(|(first, _)| *first <= id);
        self.ranges
            .get(after.saturating_sub(1))
            .map(|(_, index)| *index)
    }

    /// The filter that took an id, if one did.
    pub(super) fn took(&self, id: u64) -> Option<usize> {
        let seen = self.ids?;
        let index = self.of_id(id)?;
        (seen.lowest..=seen.highest).contains(&id).then_some(index)
    }

    /// Counts an item, in the filter of its id if it has one.
    pub(super) fn count_up(
        &mut self,
        probe: Probe,
        id: Option<u64>,
        limits: impl FnOnce() -> Limits,
    ) -> Result<Added, Refusal> {
        let claimant = self.object.claimants(probe).next();
        let index = match (id, claimant) {
            (Some(id), _) => self.index_for(id, probe, limits)?,
            // Beside what was counted of it already, so that one filter holds all.
            (None, Some(claimant)) => claimant,
            (None, None) => self.object.make_room(0, limits)?,
        };
        self.object.count_up(index, probe);
        Ok(if claimant.is_some() {
            Added::Again
        } else {
            Added::New
        })
    }

    /// The filter for an item with an id: that of the id's range. Where that is the newest and full, an
    /// id above all before it begins the next.
    fn index_for(
        &mut self,
        id: u64,
        probe: Probe,
        limits: impl FnOnce() -> Limits,
    ) -> Result<usize, Refusal> {
        let (of_id, newest) = (self.of_id(id), self.ranges.last().map(|(_, index)| *index));
        let index = match of_id {
            Some(index) if !self.is_over(index, probe) => index,
            // A late one goes where its id belongs, if there is room or not.
            Some(index)
                if newest != Some(index) || self.ids.is_some_and(|ids| id <= ids.highest) =>
            {
                let fixed = self.object.params().growth == Growth::Fixed;
                if fixed && !limits().saturate() {
                    return Err(Refusal::Full);
                }
                index
            }
            _ => {
                let room = self.ranges.try_reserve_exact(1);
                room.map_err(|_| Refusal::OutOfMemory)?;
                let behind = newest.map_or(0, |index| index + 1);
                let index = self.object.make_room(behind, limits)?;
                // In a fixed object that saturates the last range goes on.
                if newest.is_none_or(|newest| newest < index) {
                    let first = if newest.is_none() { 0 } else { id };
                    self.ranges.push((first, index));
                }
                index
            }
        };
        let seen = self.ids.unwrap_or(Ids {
            lowest: id,
            highest: id,
        });
        self.ids = Some(Ids {
            lowest: seen.lowest.min(id),
            highest: seen.highest.max(id),
        });
        Ok(index)
    }

    /// Whether a filter has no room for an item that it does not claim.
    fn is_over(&self, index: usize, probe: Probe) -> bool {
        let filter = &self.object.filters()[index];
        filter.is_full() && !filter.contains(probe)
    }
}

/// A period as it was stored.
#[derive(Debug)]
pub(super) struct StackParts {
    pub(super) period: u64,
    pub(super) ids: Option<Ids>,
    pub(super) ranges: Vec<(u64, usize)>,
    pub(super) filters: Vec<FilterParts>,
}

impl StackParts {
    pub(super) fn check_ids(&self, counting: bool) -> Result<(), &'static str> {
        let Some(ids) = self.ids else {
            return if self.ranges.is_empty() {
                Ok(())
            } else {
                Err("ranges without ids")
            };
        };
        if !counting || ids.lowest > ids.highest {
            return Err("ids out of order");
        }
        let begins = self.ranges.first().is_some_and(|(first, _)| *first == 0);
        let mut pairs = self.ranges.windows(2);
        let rising = pairs.all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
        let last = self.ranges.last();
        if begins && rising && last.is_some_and(|(_, index)| *index < self.filters.len()) {
            Ok(())
        } else {
            Err("ranges out of order")
        }
    }
}
