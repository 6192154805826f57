//! The rules of a valid object, for the fields that outlines and objects share. An outline is checked before it
//! becomes an object, and an object after any change. The range of a single field is checked where it is read.

use crate::bloom::filter::{Cells, Filter, Geometry, Header};
use crate::bloom::law::{Depth, Growth, Law, MAX_FILTERS};
use crate::hash::Hasher;
use crate::number::{MAX_CAPACITY, Sums};

use super::ids::Ids;
use super::shape::{Kind, Shape};

/// The fields of a filter, of an object or of its outline.
pub struct FilterFields<'f> {
    pub geometry: Geometry,
    pub capacity: u64,
    pub items: u64,
    /// The header, if there is one, and perhaps cells.
    pub blob: &'f [u8],
}

impl<'f> From<&'f Filter> for FilterFields<'f> {
    fn from(filter: &'f Filter) -> Self {
        Self {
            geometry: filter.geometry(),
            capacity: filter.capacity(),
            items: filter.items(),
            blob: filter.blob(),
        }
    }
}

/// The rules of a valid object.
///
/// - It has exactly one period; with a window any number, since periods expire. Each has at least one filter.
/// - Its filters share one seed and one kind of cells, and each has the size that its header states.
/// - Each filter has a capacity of at least 1. In a stack of our bits, all filters but the newest are full, and the
///   newest exceeds its capacity only if the stack does not scale. Filters of `RedisBloom` never count more items than
///   their capacity. Filters of counters may have room, since items are removed. In a file they may also exceed their
///   capacity, since earlier builds overfilled them; such a filter takes no more items.
/// - The numbers of its periods rise strictly.
/// - Only counters have ids: either no table, or for each filter its lowest and highest id, if it took any.
/// - Sums over a stack's filters fit. Stacks have no more filters, and objects no more filters and hash functions,
///   than any program makes: that bounds the time of a command.
pub struct Check<'c> {
    pub shape: &'c Shape,
    pub hasher: &'c Hasher,
    pub law: &'c Law,
    pub ids: &'c Ids,
}

impl Check<'_> {
    /// Checks the object of these periods, each with its number and its filters.
    pub fn object<'f, F>(&self, periods: impl Iterator<Item = (u64, F)>) -> Result<(), &'static str>
    where
        F: ExactSizeIterator<Item = FilterFields<'f>>,
    {
        self.whole()?;
        let is_windowed = self.shape.window().is_some();
        let (mut last, mut depth) = (None, Depth::default());
        for (number, filters) in periods {
            if last.is_some_and(|last| number <= last) || !is_windowed && number != 0 {
                return Err("periods out of order");
            }
            last = Some(number);
            let mut left = filters.len();
            self.require_filters(left)?;
            let mut sums = Sums::default();
            for filter in filters {
                left -= 1;
                depth = depth.and(Depth {
                    filters: 1,
                    hashes: filter.geometry.hashes.into(),
                });
                if !depth.is_within(Depth::most(self.cells())) {
                    return Err("more filters or hash functions than any program makes");
                }
                self.filter(&filter, left == 0)?;
                sums.add(filter.capacity, filter.items, filter.geometry.cell_bytes)?;
            }
        }
        let links = self.law.links();
        if last.is_none() && !is_windowed {
            Err("no filters")
        } else if links.is_some_and(|links| links.all.len() as u64 != depth.filters) {
            Err("links that are not the filters'")
        } else {
            Ok(())
        }
    }

    fn cells(&self) -> Cells {
        self.law.cells(self.shape.cells())
    }

    /// Checks the fields of the whole object.
    fn whole(&self) -> Result<(), &'static str> {
        if let Some(links) = self.law.links() {
            links.check()?;
        }
        if (self.cells() == Cells::BareBits) != self.hasher.seed().is_none() {
            return Err("filters hashed as none of their kind are");
        }
        // The capacity of a plain object is its first filter's.
        let own_capacity = self.shape.kind != Kind::Plain;
        if own_capacity && !(1..=MAX_CAPACITY).contains(&self.shape.params.capacity) {
            return Err("capacity out of range");
        }
        Ok(())
    }

    /// Checks the number of filters of a period, and their ids.
    fn require_filters(&self, count: usize) -> Result<(), &'static str> {
        if !self.shape.is_counting() && *self.ids != Ids::default() {
            return Err("ids out of order");
        }
        self.ids.check(count)?;
        match count as u64 {
            0 => Err("no filters"),
            1..=MAX_FILTERS => Ok(()),
            _ => Err("more filters than any program stacks"),
        }
    }

    fn filter(&self, filter: &FilterFields, is_newest: bool) -> Result<(), &'static str> {
        if filter.geometry.cells != self.cells() {
            return Err("filter of other cells");
        }
        if let Hasher::Sip(seed) = self.hasher {
            let header = Header::parse(filter.blob)?;
            if header.seed != *seed {
                return Err("filters of different seeds");
            }
            if header.geometry != filter.geometry {
                return Err("filter's length is not what its header says");
            }
        }
        if filter.capacity == 0 {
            return Err("capacity of zero");
        }
        let may_exceed = match self.cells() {
            Cells::Bits if !is_newest && filter.items != filter.capacity => {
                return Err("filter stacked on one that is not full");
            }
            Cells::Bits => self.law.growth() == Growth::Fixed,
            Cells::BareBits => false,
            Cells::Counters => true,
        };
        if filter.items > filter.capacity && !may_exceed {
            return Err("more items than capacity");
        }
        Ok(())
    }
}
