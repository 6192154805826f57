//! Read access to filters, whether or not their bits are interleaved.

use std::borrow::Cow;
use std::ops::Range;
use std::ptr;

use crate::bloom::filter::{Filter, Geometry, Interleaved, LANES, PIECE_BYTES};
use crate::hash::Probe;
use crate::machine::memory;

/// A view of a filter of an [`Object`](super::Object). It reads bits both from memory of the filter's own and from
/// bits interleaved with those of other filters.
#[derive(Clone, Copy)]
pub struct View<'o> {
    filter: &'o Filter,
    lane: Option<(&'o Interleaved, u8)>,
}

impl<'o> View<'o> {
    pub(super) const fn new(filter: &'o Filter, lane: Option<(&'o Interleaved, u8)>) -> Self {
        Self { filter, lane }
    }

    /// Returns the filter without its bits, which may be elsewhere.
    pub(super) const fn filter(&self) -> &'o Filter {
        self.filter
    }

    /// Returns the size of the filter.
    pub fn geometry(&self) -> Geometry {
        self.filter.geometry()
    }

    /// Returns the capacity.
    pub const fn capacity(&self) -> u64 {
        self.filter.capacity()
    }

    /// Returns the number of items in the filter.
    pub const fn items(&self) -> u64 {
        self.filter.items()
    }

    /// Returns whether the filter holds at least as many items as its capacity.
    pub const fn is_full(&self) -> bool {
        self.filter.is_full()
    }

    /// Returns the error rate of the filter once it holds `items` items, all of them new when added.
    pub fn rate_at(&self, items: u64) -> f64 {
        self.filter.rate_at(items)
    }

    /// Returns whether the filter claims an item: false is certain, true is probable.
    pub fn contains(&self, probe: Probe) -> bool {
        match self.lane {
            None => self.filter.contains(probe),
            Some((filters, lane)) => filters.contains(lane, probe),
        }
    }

    /// Returns whether the bit or counter at a position is not 0; false for positions past the cells.
    pub fn is_in_use(&self, position: u64) -> bool {
        match self.lane {
            None => self.filter.is_in_use(position),
            Some((filters, lane)) => {
                position < filters.geometry().positions && filters.at(position) >> lane & 1 == 1
            }
        }
    }

    /// Returns the stored form of the filter: its header, if it has one, and its cells. An interleaved filter is
    /// copied; returns `None` if the copy can't be allocated.
    pub fn blob(&self) -> Option<Cow<'o, [u8]>> {
        if self.lane.is_none() {
            return Some(self.filter.blob().into());
        }
        self.copied().map(Cow::Owned)
    }

    /// Returns all bytes of the cells. Those of an interleaved filter are copied; returns `None` if the copy can't be
    /// allocated.
    pub fn bitmap(&self) -> Option<Cow<'o, [u8]>> {
        self.bitmap_range(0..usize::try_from(self.cell_bytes()).ok()?)
    }

    /// Returns these bytes of the cells. Those of an interleaved filter are copied. Returns `None` if the range is not
    /// within the cells, or if the copy can't be allocated.
    pub fn bitmap_range(&self, range: Range<usize>) -> Option<Cow<'o, [u8]>> {
        let Some((filters, lane)) = self.lane else {
            return self.filter.bitmap().get(range).map(Cow::Borrowed);
        };
        if range.start > range.end || range.end as u64 > self.cell_bytes() {
            return None;
        }
        let mut cells = memory::reserved(range.len())?;
        let lane = usize::from(lane);
        let mut to = [const { None }; LANES];
        to[lane % LANES] = Some(&mut cells);
        filters.copy_cells(lane / LANES, range, &mut to);
        Some(cells.into())
    }

    /// Copies header and cells of an interleaved filter, or returns `None` if allocation fails.
    fn copied(&self) -> Option<Vec<u8>> {
        copies_of(&[*self]).pop()
    }

    /// Returns the length of header and cells in bytes. They are in memory, so it fits a `usize`.
    fn blob_bytes(&self) -> usize {
        usize::try_from(self.filter.geometry().blob_bytes()).unwrap_or(usize::MAX)
    }

    /// Returns the length of the cells in bytes.
    pub fn cell_bytes(&self) -> u64 {
        self.filter.geometry().cell_bytes
    }

    /// Returns whether lookups in the filter are likely to miss the caches.
    pub(super) fn is_large(&self) -> bool {
        self.filter.geometry().is_large()
    }

    /// Copies the filter, with bits of its own. Returns `None` if allocation fails.
    pub(super) fn separate(&self) -> Option<Filter> {
        if self.lane.is_none() {
            return self.filter.try_clone();
        }
        let (blob, filter) = (self.copied()?.into_boxed_slice(), self.filter);
        Filter::from_blob(blob, filter.geometry(), filter.capacity(), filter.items()).ok()
    }
}

/// Eight interleaved filters, and the outputs of those that are copied.
struct Eight<'o, 't> {
    filters: &'o Interleaved,
    number: usize,
    to: [Option<&'t mut Vec<u8>>; LANES],
}

/// Appends header and cells of each interleaved filter to its output, some bytes of each at a time. Filters whose bits are
/// in the same words are copied together.
fn copy(views: &[View], to: &mut [Vec<u8>]) {
    let mut eights: Vec<Eight> = Vec::new();
    for (view, to) in views.iter().zip(to) {
        let Some((filters, lane)) = view.lane else {
            continue;
        };
        // The blob is the header alone, since the cells are interleaved.
        to.extend_from_slice(view.filter.blob());
        let (number, lane) = (usize::from(lane) / LANES, usize::from(lane) % LANES);
        let is_its = |eight: &Eight| ptr::eq(eight.filters, filters) && eight.number == number;
        let found = eights.iter().position(is_its);
        let index = found.unwrap_or_else(|| {
            let to = [const { None }; LANES];
            eights.push(Eight {
                filters,
                number,
                to,
            });
            eights.len() - 1
        });
        eights[index].to[lane] = Some(to);
    }
    let most = eights.iter().map(|eight| eight.filters.cell_bytes()).max();
    for start in (0..most.unwrap_or(0)).step_by(PIECE_BYTES) {
        for eight in &mut eights {
            let end = eight.filters.cell_bytes().min(start + PIECE_BYTES);
            if start < end {
                let (number, to) = (eight.number, &mut eight.to);
                eight.filters.copy_cells(number, start..end, to);
            }
        }
    }
}

/// Interleaved filters of about this total size are copied together, because their bits are in the same words; at least
/// one and at most [`TOGETHER`] filters.
const TOGETHER_BYTES: usize = 32 << 20;
const TOGETHER: usize = 16;

/// Returns the blobs of filters, or `None` for a filter whose copy can't be allocated.
pub fn blobs<'o>(
    mut views: impl Iterator<Item = View<'o>>,
) -> impl Iterator<Item = Option<Cow<'o, [u8]>>> {
    let next_together = std::iter::from_fn(move || {
        let first = views.next()?;
        let together = match first.lane {
            None => 1,
            Some(_) => (TOGETHER_BYTES / first.blob_bytes()).clamp(1, TOGETHER),
        };
        let others = views.by_ref().take(together - 1);
        Some(std::iter::once(first).chain(others).collect::<Vec<_>>())
    });
    next_together.flat_map(|together| {
        let mut copies = copies_of(&together).into_iter();
        // Filters without room beside the other copies are copied later, one at a time.
        together.into_iter().map(move |view| match copies.next() {
            Some(copy) if view.lane.is_some() => Some(copy.into()),
            _ => view.blob(),
        })
    })
}

/// Returns copies of the first of these filters, as far as they can be allocated; empty ones for filters with their own
/// bits.
fn copies_of(views: &[View]) -> Vec<Vec<u8>> {
    let room = |view: &View| match view.lane {
        None => Some(Vec::new()),
        Some(_) => memory::reserved(view.blob_bytes()),
    };
    let mut copies: Vec<_> = views.iter().map_while(room).collect();
    copy(views, &mut copies);
    copies
}
