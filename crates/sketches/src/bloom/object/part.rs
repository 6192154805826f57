//! The filters that a union is made of.

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::Link;
use crate::machine::work;

use super::ids::{Interval, hull};

/// A filter of a union. What is to be laid over it waits until the next filter of its size is compared with it, or
/// until it is decided that there is a union.
pub struct Part<'s> {
    cells: Held<'s>,
    laid: Option<&'s Filter>,
    pub capacity: u64,
    pub items: u64,
    /// What `RedisBloom` keeps of it.
    pub link: Option<Link>,
    /// The ids that it took.
    pub interval: Option<Interval>,
    /// The number of the last source that it has something of.
    source: usize,
    /// Its place among the parts of the union.
    pub number: usize,
    /// Its rate when it is full.
    pub rate: f64,
}

/// A source's filter is copied only when it changes, or in the end.
enum Held<'s> {
    Source(&'s Filter),
    Union(Filter),
}

impl<'s> Part<'s> {
    /// A filter of source number `source`, which is to be part `number` of the union.
    pub const fn new(
        filter: &'s Filter,
        link: Option<Link>,
        interval: Option<Interval>,
        source: usize,
        number: usize,
    ) -> Self {
        Self {
            cells: Held::Source(filter),
            laid: None,
            capacity: filter.capacity(),
            items: filter.items(),
            link,
            interval,
            source,
            number,
            rate: 0.0,
        }
    }

    /// Its cells, without what is still to be laid over them.
    pub const fn filter(&self) -> &Filter {
        match &self.cells {
            Held::Source(filter) => filter,
            Held::Union(filter) => filter,
        }
    }

    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.items)
    }

    /// Whether it can have what another filter has because both were merged before. Counts of one source that
    /// are in two filters are to be added up.
    pub fn may_hold(&self, other: &Self) -> bool {
        self.source != other.source || self.filter().cells() != Cells::Counters
    }

    /// Takes what another part of its size has, which is the source's `filter`, if either holds the other or there is
    /// room for both; `holds` is whether this one does. Returns whether that changed anything, or `None` if there is no
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
            self.cells = Held::Source(filter);
            self.items = self.items.max(other.items);
        } else {
            let (least, most) = self.bounds_with(filter);
            // Where there is room for both, they need not be counted before they are united.
            if most > capacity && own.items_of_union(filter).clamp(least, most) > capacity {
                return None;
            }
            self.laid = Some(filter);
        }
        self.capacity = capacity;
        self.interval = interval;
        self.source = other.source;
        Some(true)
    }

    /// The least and the greatest number of items with those of a filter.
    fn bounds_with(&self, filter: &Filter) -> (u64, u64) {
        let (own, others) = (self.items, filter.items());
        (own.max(others), own.saturating_add(others))
    }

    /// Lays over it what is to be laid over it, or returns `None` if there is no memory for that.
    pub fn settle(&mut self) -> Option<()> {
        let Some(filter) = self.laid.take() else {
            return Some(());
        };
        let (least, most) = self.bounds_with(filter);
        let items = match &mut self.cells {
            Held::Source(own) => {
                let (union, items) = own.united(filter)?;
                self.cells = Held::Union(union);
                items
            }
            Held::Union(own) => own.absorb(filter),
        };
        self.items = items.clamp(least, most);
        Some(())
    }

    /// The filter of a settled part, or `None` if there is no memory for it.
    pub fn into_filter(self) -> Option<Filter> {
        let filter = match self.cells {
            Held::Source(filter) => {
                work::bytes(2 * filter.bitmap().len());
                filter.try_clone()?
            }
            Held::Union(filter) => filter,
        };
        Some(filter.with_items(self.items, self.capacity))
    }
}
