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

    /// Its header, if it has one, and its cells: the form in which it is stored. A copy, where it is interleaved.
    pub fn blob(&self) -> Cow<'o, [u8]> {
        if self.lane.is_none() {
            return self.filter.blob().into();
        }
        let mut blob = Vec::with_capacity(self.blob_bytes());
        self.copy(&mut blob);
        blob.into()
    }

    /// Length of header and cells in bytes, which are in memory.
    fn blob_bytes(&self) -> usize {
        usize::try_from(self.filter.geometry().blob_bytes()).unwrap_or(usize::MAX)
    }

    /// Appends header and cells.
    fn copy(&self, to: &mut Vec<u8>) {
        // Of a filter whose bits are elsewhere, that is the header.
        to.extend_from_slice(self.filter.blob());
        if let Some((filters, lane)) = self.lane {
            filters.copy_cells(lane, 0..self.blob_bytes() - to.len(), to);
        }
    }

    /// Length of its cells in bytes.
    pub fn cell_bytes(&self) -> u64 {
        self.filter.geometry().cell_bytes
    }

    /// These bytes of its cells. A copy, where it is interleaved.
    ///
    /// # Panics
    /// If there are no such bytes.
    pub fn cells(&self, range: Range<usize>) -> Cow<'o, [u8]> {
        let Some((filters, lane)) = self.lane else {
            return self.filter.bitmap()[range].into();
        };
        let mut cells = Vec::with_capacity(range.len());
        filters.copy_cells(lane, range, &mut cells);
        cells.into()
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
        if self.lane.is_none() {
            return self.filter.try_clone();
        }
        let mut blob = Vec::new();
        blob.try_reserve_exact(self.blob_bytes()).ok()?;
        self.copy(&mut blob);
        let (blob, filter) = (blob.into_boxed_slice(), self.filter);
        Filter::from_blob(blob, filter.geometry(), filter.capacity(), filter.items()).ok()
    }
}
