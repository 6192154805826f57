//! The rules of a valid object, for the fields that outlines and objects share. An outline is checked before it
//! becomes an object, and an object after any change. The range of a single field is checked where it is read.

use crate::bloom::filter::{Cells, Geometry, Header};
use crate::bloom::law::{Depth, Growth, Law, MAX_FILTERS};
use crate::hash::Hasher;
use crate::number::{MAX_CAPACITY, Sums};

use super::ids::Ids;
use super::shape::{Kind, Shape};

/// The rules of a valid object.
///
/// - It has exactly one period; with a window any number, since periods expire. Each has at least one filter.
/// - Its filters share one seed and one kind of cells, and each has the size that its header states.
/// - Each filter has a capacity of at least 1. In a stack of our bits, all filters but the newest are full, and the
///   newest exceeds its capacity only if the stack does not scale. Filters of counters may have room, since items are
///   removed. In a file they may also exceed their capacity, since earlier builds overfilled them; such a filter takes
///   no more items.
/// - The numbers of its periods rise strictly.
/// - Only counters have ids: either no table, or for each filter its lowest and highest id, if it took any.
/// - Sums over a stack's filters fit. Stacks have no more filters, and objects no more filters and hash functions,
///   than any program makes: that bounds the time of a command.
pub struct Check<'c> {
    shape: &'c Shape,
    hasher: &'c Hasher,
    law: &'c Law,
    ids: &'c Ids,
    cells: Cells,
    sums: Sums,
    depth: Depth,
    periods: usize,
    last_period: Option<u64>,
    /// Number of filters of the period not checked yet.
    to_come: usize,
}

impl<'c> Check<'c> {
    /// Checks the fields of the whole object.
    pub fn new(
        shape: &'c Shape,
        hasher: &'c Hasher,
        law: &'c Law,
        ids: &'c Ids,
    ) -> Result<Self, &'static str> {
        let cells = law.cells(shape.cells());
        if let Some(links) = law.links() {
            links.check()?;
        }
        if (cells == Cells::BareBits) != hasher.seed().is_none() {
            return Err("filters hashed as none of their kind are");
        }
        // The capacity of a plain object is its first filter's.
        let own_capacity = shape.kind != Kind::Plain;
        if own_capacity && !(1..=MAX_CAPACITY).contains(&shape.params.capacity) {
            return Err("capacity out of range");
        }
        Ok(Self {
            shape,
            hasher,
            law,
            ids,
            cells,
            sums: Sums::default(),
            depth: Depth::default(),
            periods: 0,
            last_period: None,
            to_come: 0,
        })
    }

    /// Checks the fields of the next period, which has `filters` filters.
    pub fn period(&mut self, number: u64, filters: usize) -> Result<(), &'static str> {
        let windowed = self.shape.window().is_some();
        if self.last_period.is_some_and(|last| number <= last) || !windowed && number != 0 {
            return Err("periods out of order");
        }
        if !self.shape.is_counting() && *self.ids != Ids::default() {
            return Err("ids out of order");
        }
        self.ids.check(filters)?;
        if filters == 0 {
            return Err("no filters");
        }
        if filters as u64 > MAX_FILTERS {
            return Err("more filters than any program stacks");
        }
        self.last_period = Some(number);
        self.periods += 1;
        self.to_come = filters;
        self.sums = Sums::default();
        Ok(())
    }

    /// Checks the next filter of the period. `blob` is at least its header.
    pub fn filter(
        &mut self,
        geometry: Geometry,
        capacity: u64,
        items: u64,
        blob: &[u8],
    ) -> Result<(), &'static str> {
        self.to_come = self.to_come.saturating_sub(1);
        self.depth = self.depth.and(Depth {
            filters: 1,
            hashes: geometry.hashes.into(),
        });
        if !self.depth.is_within(Depth::most(self.cells)) {
            return Err("more filters or hash functions than any program makes");
        }
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
        if self.cells == Cells::Bits {
            if self.to_come > 0 && items != capacity {
                return Err("filter stacked on one that is not full");
            }
            if items > capacity && self.law.growth() != Growth::Fixed {
                return Err("more items than capacity");
            }
        }
        self.sums.add(capacity, items, geometry.cell_bytes)?;
        Ok(())
    }

    /// Checks the totals.
    pub fn end(self) -> Result<(), &'static str> {
        let links = self
            .law
            .links()
            .map_or(self.depth.filters, |links| links.all.len() as u64);
        match self.shape.kind {
            Kind::Plain | Kind::Counting if self.periods == 0 => Err("no filters"),
            Kind::Plain | Kind::Counting if self.periods > 1 => Err("periods out of order"),
            _ if links != self.depth.filters => Err("links that are not the filters'"),
            _ => Ok(()),
        }
    }
}
