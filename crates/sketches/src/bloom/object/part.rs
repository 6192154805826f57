//! The filters of a union.

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::Link;
use crate::machine::work;

use super::ids::{Interval, hull};

/// A filter of a union. A filter to merge into it stays pending until the next filter of its size is compared with it,
/// or until the union is certain.
pub struct Part<'s> {
    cells: CowFilter<'s>,
    pending: Option<&'s Filter>,
    pub capacity: u64,
    pub items: u64,
    /// The link of an object of `RedisBloom`.
    pub link: Option<Link>,
    /// The ids that the filter took.
    pub interval: Option<Interval>,
    /// The number of the last source merged into it.
    source: usize,
    /// The index among the parts of the union.
    pub number: usize,
    /// The rate when the filter is full.
    pub rate: f64,
}

/// A filter that is copied only when it changes, or in the end.
enum CowFilter<'s> {
    Borrowed(&'s Filter),
    Owned(Filter),
}

impl<'s> Part<'s> {
    /// Creates part `number` of the union from a filter of source `source`.
    pub const fn new(
        filter: &'s Filter,
        link: Option<Link>,
        interval: Option<Interval>,
        source: usize,
        number: usize,
    ) -> Self {
        Self {
            cells: CowFilter::Borrowed(filter),
            pending: None,
            capacity: filter.capacity(),
            items: filter.items(),
            link,
            interval,
            source,
            number,
            rate: 0.0,
        }
    }

    /// Returns the filter, without the pending one.
    pub const fn filter(&self) -> &Filter {
        match &self.cells {
            CowFilter::Borrowed(filter) => filter,
            CowFilter::Owned(filter) => filter,
        }
    }

    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.items)
    }

    /// Returns whether the part can hold another because both were merged before. Counts of one source in two filters
    /// are different counts, which add up.
    pub fn may_hold(&self, other: &Self) -> bool {
        self.source != other.source || self.filter().cells() != Cells::Counters
    }

    /// Merges another part of the same size, the source's `filter`, if either holds the other or there is room for
    /// both; `holds` is whether this part holds the other. Returns whether anything changed, or `None` if there is no
    /// room.
    pub fn unite(&mut self, other: &Self, filter: &'s Filter, holds: bool) -> Option<bool> {
        let interval = hull(self.interval, other.interval);
        let known = interval == self.interval;
        let capacity = self.capacity.max(other.capacity);
        if holds {
            self.interval = interval;
            self.source = other.source;
            return Some(!known);
        }
        let own = self.filter();
        if self.may_hold(other) && filter.holds(own) {
            self.cells = CowFilter::Borrowed(filter);
            self.items = self.items.max(other.items);
        } else {
            let (least, most) = self.bounds_with(filter);
            // If there is certainly room for both, the items of the union need not be estimated here.
            if most > capacity && own.items_of_union(filter).clamp(least, most) > capacity {
                return None;
            }
            self.pending = Some(filter);
        }
        self.capacity = capacity;
        self.interval = interval;
        self.source = other.source;
        Some(true)
    }

    /// Returns the least and the greatest possible number of items in the union with a filter.
    fn bounds_with(&self, filter: &Filter) -> (u64, u64) {
        let (own, others) = (self.items, filter.items());
        (own.max(others), own.saturating_add(others))
    }

    /// Merges the pending filter, or returns `None` if allocation fails.
    pub fn merge_pending(&mut self) -> Option<()> {
        let Some(filter) = self.pending.take() else {
            return Some(());
        };
        let (least, most) = self.bounds_with(filter);
        let items = match &mut self.cells {
            CowFilter::Borrowed(own) => {
                let (union, items) = own.united(filter)?;
                self.cells = CowFilter::Owned(union);
                items
            }
            CowFilter::Owned(own) => own.absorb(filter),
        };
        self.items = items.clamp(least, most);
        Some(())
    }

    /// Returns the filter of a part without a pending one, or `None` if allocation fails.
    pub fn into_filter(self) -> Option<Filter> {
        let filter = match self.cells {
            CowFilter::Borrowed(filter) => {
                work::bytes(2 * filter.bitmap().len());
                filter.try_clone()?
            }
            CowFilter::Owned(filter) => filter,
        };
        Some(filter.with_items(self.items, self.capacity))
    }
}
