//! A period of a window: the items added in it.

use crate::bloom::filter::{Filter, Geometry};
use crate::bloom::stack::Stack;
use crate::machine::memory;

use super::view::View;

/// The location of the bits of a period's first filter: a group, and a lane in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub group: u32,
    pub number: u8,
}

/// The items added in a period.
#[derive(Debug)]
pub struct Period {
    /// The number of the period, counted since the epoch.
    pub number: u64,
    pub(crate) stack: Stack,
    /// The location of the first filter's bits, if they are interleaved with those of other filters.
    pub(super) lane: Option<Lane>,
}

impl Period {
    /// Size of an entry in the table of periods, in bytes.
    pub const ENTRY_BYTES: u64 = memory::stated::<Self>(136) as u64;

    /// Creates a period whose filters have their own bits.
    pub(super) const fn new(number: u64, stack: Stack) -> Self {
        Self {
            number,
            stack,
            lane: None,
        }
    }

    /// Gives the first filter its bits back, in the blob that its lane had.
    pub(super) fn take_back(&mut self, blob: Box<[u8]>) {
        self.stack.filters_mut()[0].leave_lane(blob);
        self.stack.recount_bytes();
        self.lane = None;
    }

    /// Returns whether all filters have their own bits.
    pub const fn has_own_bits(&self) -> bool {
        self.lane.is_none()
    }

    /// Returns the size of the first filter.
    pub(super) fn first_geometry(&self) -> Geometry {
        self.stack.filters()[0].geometry()
    }

    /// Returns the filters that have their own bits, oldest first.
    pub(super) fn own_filters(&self) -> &[Filter] {
        &self.stack.filters()[usize::from(self.lane.is_some())..]
    }

    /// Returns the size in bytes, without the entry in the table of periods.
    pub fn memory_bytes(&self) -> u64 {
        self.stack.memory_bytes() - Stack::BASE_BYTES
    }

    /// Copies the period, whose filters are those of `views`, with bits of their own. Returns `None` if allocation
    /// fails.
    pub(super) fn separate<'o>(&self, views: impl Iterator<Item = View<'o>>) -> Option<Self> {
        let mut filters = memory::reserved(self.stack.filters().len())?;
        for view in views {
            filters.push(view.separate()?);
        }
        Some(Self::new(self.number, self.stack.with_filters(filters)?))
    }

    pub(super) fn try_clone(&self) -> Option<Self> {
        Some(Self {
            number: self.number,
            stack: self.stack.try_clone()?,
            lane: self.lane,
        })
    }
}
