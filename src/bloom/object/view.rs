//! A filter of an object, wherever its bits are.

use std::borrow::Cow;
use std::ops::Range;

use crate::bloom::filter::{Filter, Interleaved};

/// A filter of an object, to be read.
#[derive(Clone, Copy)]
pub struct View<'o> {
    filter: &'o Filter,
    lane: Option<(&'o Interleaved, u8)>,
}

impl<'o> View<'o> {
    pub(super) const fn new(filter: &'o Filter, lane: Option<(&'o Interleaved, u8)>) -> Self {
        Self { filter, lane }
    }

    /// The filter, whose own bits may be elsewhere.
    pub const fn filter(&self) -> &'o Filter {
        self.filter
    }

    /// Its header, if it has one, and its cells: the form in which it is stored.
    ///
    /// # Panics
    /// If there is no memory for a copy of what is interleaved.
    pub fn blob(&self) -> Cow<'o, [u8]> {
        match self.lane {
            None => self.filter.blob().into(),
            Some((filters, lane)) => filters.blob(lane).expect(NO_MEMORY).into(),
        }
    }

    /// Length of its cells in bytes.
    pub fn cell_bytes(&self) -> u64 {
        self.filter.geometry().cell_bytes
    }

    /// These bytes of its cells.
    ///
    /// # Panics
    /// If there are no such bytes, or no memory for a copy of what is interleaved.
    pub fn cells(&self, range: Range<usize>) -> Cow<'o, [u8]> {
        match self.lane {
            None => self.filter.bitmap()[range].into(),
            Some((filters, lane)) => filters.cells(lane, range).expect(NO_MEMORY).into(),
        }
    }

    /// Whether lookups in it are likely to miss the caches.
    pub(super) fn is_large(&self) -> bool {
        self.filter.geometry().is_large()
    }

    /// Whether the cell at a position is set, or counts.
    pub(super) fn is_in_use(&self, position: u64) -> bool {
        match self.lane {
            None => self.filter.is_in_use(position),
            Some((filters, lane)) => filters.at(position) >> lane & 1 == 1,
        }
    }

    /// The filter with bits of its own, or `None` if there is no memory for them.
    pub(super) fn separate(&self) -> Option<Filter> {
        let Some((filters, lane)) = self.lane else {
            return self.filter.try_clone();
        };
        let blob = filters.blob(lane)?.into_boxed_slice();
        let filter = self.filter;
        Filter::from_blob(blob, filter.geometry(), filter.capacity(), filter.items()).ok()
    }
}

const NO_MEMORY: &str = "memory for a filter that is written";
