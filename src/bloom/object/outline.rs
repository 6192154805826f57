//! What an object is without its cells, and what makes it a valid one.
//!
//! Bytes from outside become an [`Outline`] first. [`Check`] states what a valid object is, once, over what
//! an outline and an object have in common: it runs before an outline becomes an object, and after every
//! change of an object.

use crate::bloom::filter::{Cells, Filter, Geometry, Header};
use crate::bloom::hash::Hasher;
use crate::bloom::law::{Growth, Law};
use crate::bloom::number::{MANY, MAX_CAPACITY, Sums};
use crate::bloom::stack::Stack;

use super::ids::{Ids, Range};
use super::shape::{Kind, Shape};
use super::timeline::{Period, Timeline};

/// An object as it was read, not checked yet.
#[derive(Debug)]
pub struct Outline {
    /// The requested shape.
    pub shape: Shape,
    /// How items are hashed.
    pub hasher: Hasher,
    /// How each period's stack grows.
    pub law: Law,
    /// The periods, in order; of a plain object, one.
    pub periods: Vec<PeriodOutline>,
}

/// A period as it was read.
#[derive(Debug)]
pub struct PeriodOutline {
    /// Its number; 0, without a window.
    pub number: u64,
    /// Which ids went into which filter.
    pub ids: Ids,
    /// The filters, oldest first.
    pub filters: Vec<FilterOutline>,
}

/// A filter as it was read.
#[derive(Debug)]
pub struct FilterOutline {
    /// Its size.
    pub geometry: Geometry,
    /// Its capacity.
    pub capacity: u64,
    /// Number of items in it.
    pub items: u64,
    /// Its header, if it has one, and the cells read so far.
    pub blob: Vec<u8>,
}

impl FilterOutline {
    /// A filter that begins with its header.
    pub fn headed(blob: Vec<u8>, capacity: u64, items: u64) -> Result<Self, &'static str> {
        Ok(Self {
            geometry: Header::parse(&blob)?.geometry,
            capacity,
            items,
            blob,
        })
    }
}

impl PeriodOutline {
    /// The period, once all of its cells were read.
    pub fn finish(self, hasher: Hasher, law: Law) -> Result<Period, &'static str> {
        let first = self.filters.first().ok_or("no filters")?;
        let cells = first.geometry.cells;
        let mut filters = Vec::new();
        // The allocation is as large as the filters that were read, never as a claimed number.
        filters.reserve_exact(self.filters.len());
        for filter in self.filters {
            let blob = filter.blob.into_boxed_slice();
            let (capacity, items) = (filter.capacity, filter.items);
            filters.push(Filter::from_blob(blob, filter.geometry, capacity, items)?);
        }
        Ok(Period {
            number: self.number,
            stack: Stack::from_filters(law, hasher, cells, filters)?,
            ids: self.ids,
        })
    }
}

impl Outline {
    /// An object of one stack of bits of ours, with the capacity and the seed of its first filter.
    pub fn plain(mut shape: Shape, filters: Vec<FilterOutline>) -> Result<Self, &'static str> {
        let first = filters.first().ok_or("no filters")?;
        shape.params.capacity = first.capacity;
        Ok(Self {
            hasher: Hasher::Sip(Header::parse(&first.blob)?.seed),
            law: Law::of(&shape.params),
            periods: vec![PeriodOutline {
                number: 0,
                ids: Ids::default(),
                filters,
            }],
            shape,
        })
    }

    /// All filters.
    pub fn filters(&self) -> impl Iterator<Item = &FilterOutline> {
        self.periods.iter().flat_map(|period| &period.filters)
    }

    /// Requires that this is a valid object, whatever its cells hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut check = Check::begin(&self.shape, &self.hasher, &self.law)?;
        for period in &self.periods {
            check.period(period.number, &period.ids, period.filters.len())?;
            for filter in &period.filters {
                let FilterOutline {
                    geometry,
                    capacity,
                    items,
                    ref blob,
                } = *filter;
                check.filter(geometry, capacity, items, blob)?;
            }
        }
        check.end()
    }

    /// Bytes of its tables, without itself and the filters' blobs.
    pub fn table_bytes(&self) -> u64 {
        let of_period = |period: &PeriodOutline| {
            period.filters.capacity() * size_of::<FilterOutline>()
                + period.ids.ranges.capacity() * size_of::<Range>()
        };
        let periods = self.periods.iter().map(of_period).sum::<usize>()
            + self.periods.capacity() * size_of::<PeriodOutline>();
        periods as u64 + self.law.memory_bytes()
    }

    /// Bytes that the object will take, without itself and its filters' blobs.
    pub fn overhead(&self) -> u64 {
        let per_filter = size_of::<Filter>() * self.filters().count();
        let links = self.law.links();
        let links = links.map_or(0, |links| size_of_val(links) + size_of_val(&links.all[..]));
        let timeline = match self.shape.kind {
            Kind::Plain => 0,
            Kind::Windowed(_) | Kind::Counting => {
                let ranges = self.periods.iter().map(|p| size_of_val(&*p.ids.ranges));
                size_of::<Timeline>()
                    + self.periods.len() * size_of::<Period>()
                    + ranges.sum::<usize>()
            }
        };
        (per_filter + links + timeline) as u64
    }
}

/// What a valid object is.
///
/// - It has at least one filter in each period, and at least one period; with a window, all of them may have passed.
/// - Its filters share one seed and one kind of cells, and each has the size that its header says.
/// - Each has a capacity of at least 1. In a stack of bits of ours all but the newest are full, and the
///   newest exceeds its capacity only if the stack does not scale.
/// - Its periods are in order, and so are the ranges of ids, which only counters have.
/// - Sums over its filters fit.
pub struct Check<'c> {
    shape: &'c Shape,
    hasher: &'c Hasher,
    law: &'c Law,
    cells: Cells,
    sums: Sums,
    filters: usize,
    periods: usize,
    last_period: u64,
    /// Filters of the period that are still to come.
    to_come: usize,
}

impl<'c> Check<'c> {
    /// Checks what belongs to the whole object.
    pub fn begin(shape: &'c Shape, hasher: &'c Hasher, law: &'c Law) -> Result<Self, &'static str> {
        let cells = match law {
            Law::Series(_) => shape.cells(),
            Law::RedisBloom(links) => {
                if links.error_rate().is_none() {
                    return Err(if links.all.is_empty() {
                        "no filters"
                    } else {
                        "error rate out of range"
                    });
                }
                Cells::BareBits
            }
        };
        if (cells == Cells::BareBits) != hasher.seed().is_none() {
            return Err("filters hashed as none of their kind are");
        }
        // That of a plain object is its first filter's.
        let own_capacity = shape.kind != Kind::Plain;
        if own_capacity && !(1..=MAX_CAPACITY).contains(&shape.params.capacity) {
            return Err("capacity out of range");
        }
        Ok(Self {
            shape,
            hasher,
            law,
            cells,
            sums: Sums::default(),
            filters: 0,
            periods: 0,
            last_period: 0,
            to_come: 0,
        })
    }

    /// Checks what belongs to the next period, of so many filters.
    pub fn period(&mut self, number: u64, ids: &Ids, filters: usize) -> Result<(), &'static str> {
        let windowed = self.shape.window().is_some();
        if number < self.last_period || !windowed && number != 0 {
            return Err("periods out of order");
        }
        if !self.shape.is_counting() && *ids != Ids::default() {
            return Err("ids out of order");
        }
        ids.check(filters)?;
        if filters == 0 {
            return Err("no filters");
        }
        self.last_period = number;
        self.periods += 1;
        self.to_come = filters;
        Ok(())
    }

    /// Checks the next filter of the period, whose blob begins with these bytes.
    pub fn filter(
        &mut self,
        geometry: Geometry,
        capacity: u64,
        items: u64,
        blob: &[u8],
    ) -> Result<(), &'static str> {
        self.to_come = self.to_come.saturating_sub(1);
        self.filters += 1;
        if geometry.cells != self.cells {
            return Err("filter of other cells");
        }
        if let Hasher::Sip(seed) = self.hasher {
            let header = Header::parse(blob)?;
            if header.seed != *seed {
                return Err("filters of different seeds");
            }
            if header.geometry != geometry {
                return Err("filter's length is not what its header says");
            }
        }
        if capacity == 0 {
            return Err("capacity of zero");
        }
        // Removals make room in a filter of counters, and an id may need a full one.
        if self.cells == Cells::Bits {
            if self.to_come > 0 && items != capacity {
                return Err("filter stacked on one that is not full");
            }
            if items > capacity && self.law.growth() != Growth::Fixed {
                return Err("more items than capacity");
            }
        }
        self.sums.add(capacity, items, geometry.cell_bytes)?;
        let windowed = self.shape.window().is_some();
        if self.shape.kind != Kind::Plain
            && (self.sums.items > MANY || windowed && self.sums.capacity > MANY)
        {
            return Err("sum out of range");
        }
        Ok(())
    }

    /// Checks what needs all filters.
    pub fn end(self) -> Result<(), &'static str> {
        let links = self
            .law
            .links()
            .map_or(self.filters, |links| links.all.len());
        match self.shape.kind {
            Kind::Plain | Kind::Counting if self.periods == 0 => Err("no filters"),
            Kind::Plain if self.periods > 1 => Err("periods out of order"),
            _ if links != self.filters => Err("links that are not the filters'"),
            _ => Ok(()),
        }
    }
}
