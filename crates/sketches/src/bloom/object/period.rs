//! One period of an object: what was added in it.

use crate::bloom::filter::{Filter, Geometry};
use crate::bloom::stack::Stack;
use crate::machine::memory;

use super::ids::Ids;
use super::view::View;

/// Where the bits of a period's first filter are: in which group, and in which of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub group: u32,
    pub number: u8,
}

/// The items added in a period.
#[derive(Debug)]
pub struct Period {
    /// Its number: periods are numbered since the epoch. 0, without a window.
    pub number: u64,
    pub(crate) stack: Stack,
    /// Which ids went into which filter of counters.
    pub ids: Ids,
    /// Where the bits of its first filter are, if they are interleaved with others'.
    pub(super) lane: Option<Lane>,
}

impl Period {
    /// A period whose filters have their own bits.
    pub const fn new(number: u64, stack: Stack, ids: Ids) -> Self {
        Self {
            number,
            stack,
            ids,
            lane: None,
        }
    }

    /// Has its first filter take back its bits, in the blob that its lane had.
    pub(super) fn take_back(&mut self, blob: Box<[u8]>) {
        self.stack.filters_mut()[0].leave_lane(blob);
        self.stack.settle_bytes();
        self.lane = None;
    }

    /// Whether all filters have their own bits.
    pub const fn is_apart(&self) -> bool {
        self.lane.is_none()
    }

    /// The size of its first filter.
    pub(super) fn first_geometry(&self) -> Geometry {
        self.stack.filters()[0].geometry()
    }

    /// The filters that have their own bits, oldest first.
    pub(super) fn own_filters(&self) -> &[Filter] {
        &self.stack.filters()[usize::from(self.lane.is_some())..]
    }

    /// Bytes beside the entry in the table of periods.
    pub fn memory_bytes(&self) -> u64 {
        self.stack.memory_bytes() - Stack::BASE_BYTES + self.ids.memory_bytes()
    }

    /// A copy whose filters, which are those of these views, have their own bits; or `None` if there is no memory
    /// for it.
    pub fn separate<'o>(&self, views: impl Iterator<Item = View<'o>>) -> Option<Self> {
        let mut filters = memory::reserved(self.stack.filters().len())?;
        for view in views {
            filters.push(view.separate()?);
        }
        let stack = self.stack.with_filters(filters)?;
        Some(Self::new(self.number, stack, self.ids.try_clone()?))
    }

    pub fn try_clone(&self) -> Option<Self> {
        Some(Self {
            number: self.number,
            stack: self.stack.try_clone()?,
            ids: self.ids.try_clone()?,
            lane: self.lane,
        })
    }
}
