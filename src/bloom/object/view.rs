//! A filter of an object, wherever its bits are.

use std::borrow::Cow;
use std::ops::Range;

use crate::bloom::filter::{Filter, Interleaved, LANES, PIECE_BYTES};

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
        let mut blob = [Vec::with_capacity(self.blob_bytes())];
        copy(&[*self], &mut blob);
        let [blob] = blob;
        blob.into()
    }

    /// Length of header and cells in bytes, which are in memory.
    fn blob_bytes(&self) -> usize {
        usize::try_from(self.filter.geometry().blob_bytes()).unwrap_or(usize::MAX)
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
        let mut blob = [blob];
        copy(&[*self], &mut blob);
        let ([blob], filter) = (blob, self.filter);
        let blob = blob.into_boxed_slice();
        Filter::from_blob(blob, filter.geometry(), filter.capacity(), filter.items()).ok()
    }
}

/// Appends header and cells of each filter whose bits are interleaved, some bytes of each at a time.
fn copy(views: &[View], to: &mut [Vec<u8>]) {
    let mut most = 0;
    for (view, to) in views.iter().zip(&mut *to) {
        if view.lane.is_some() {
            // Its cells are elsewhere.
            to.extend_from_slice(view.filter.blob());
            most = most.max(view.blob_bytes() - to.len());
        }
    }
    for begin in (0..most).step_by(PIECE_BYTES) {
        for (view, to) in views.iter().zip(&mut *to) {
            let end = view.blob_bytes() - view.filter.blob().len();
            let end = end.min(begin + PIECE_BYTES);
            if let (Some((filters, lane)), true) = (view.lane, begin < end) {
                filters.copy_cells(lane, begin..end, to);
            }
        }
    }
}

/// The blobs of filters, one after another.
pub struct Blobs<'o, V> {
    views: V,
    ready: std::vec::IntoIter<Cow<'o, [u8]>>,
}

/// So many bytes of filters that are interleaved are copied together, because their bits are picked out of the same
/// memory; but at least one filter is, and at most eight are.
const TOGETHER_BYTES: usize = 16 << 20;

impl<V> Blobs<'_, V> {
    pub(super) fn new(views: V) -> Self {
        let ready = Vec::new().into_iter();
        Self { views, ready }
    }
}

impl<'o, V: Iterator<Item = View<'o>>> Iterator for Blobs<'o, V> {
    type Item = Cow<'o, [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let ready = self.ready.next();
        if ready.is_some() {
            return ready;
        }
        let first = self.views.next()?;
        if first.lane.is_none() {
            return Some(first.blob());
        }
        let together = (TOGETHER_BYTES / first.blob_bytes()).clamp(1, LANES);
        let others = self.views.by_ref().take(together - 1);
        let views: Vec<_> = std::iter::once(first).chain(others).collect();
        let mut copies = vec![Vec::new(); views.len()];
        copy(&views, &mut copies);
        let blobs = views
            .iter()
            .zip(copies)
            .map(|(view, copy)| match view.lane {
                None => view.filter.blob().into(),
                Some(_) => copy.into(),
            });
        self.ready = blobs.collect::<Vec<_>>().into_iter();
        self.ready.next()
    }
}
