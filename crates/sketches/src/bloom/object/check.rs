//! The rules of a valid stack, for the fields that outlines and objects share. An outline is checked before it
//! becomes an object, and an object after any change. The range of a single field is checked where it is read.

use crate::bloom::filter::{Cells, Filter, Geometry, Header};
use crate::bloom::law::{Depth, Growth, Law, MAX_FILTERS};
use crate::hash::Hasher;
use crate::number::Sums;

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

/// The rules of a valid stack.
///
/// - It has at least one filter.
/// - Its filters share one seed and one kind of cells, and each has the size that its header states.
/// - Each filter has a capacity of at least 1. In a stack of our bits, all filters but the newest are full, and the
///   newest exceeds its capacity only if the stack does not scale. Filters of `RedisBloom` never count more items than
///   their capacity.
/// - Sums over its filters fit. It has no more filters and hash functions than any program makes: that bounds the time of
///   a command.
pub struct Check<'c> {
    pub hasher: &'c Hasher,
    pub law: &'c Law,
}

impl Check<'_> {
    /// Checks the stack of these filters.
    pub fn filters<'f>(
        &self,
        filters: impl ExactSizeIterator<Item = FilterFields<'f>>,
    ) -> Result<(), &'static str> {
        if let Some(links) = self.law.links() {
            links.check()?;
            if links.all.len() != filters.len() {
                return Err("links that are not the filters'");
            }
        }
        if (self.cells() == Cells::BareBits) != self.hasher.seed().is_none() {
            return Err("filters hashed as none of their kind are");
        }
        let mut left = filters.len();
        match left as u64 {
            0 => return Err("no filters"),
            1..=MAX_FILTERS => {}
            _ => return Err("more filters than any program stacks"),
        }
        let (mut sums, mut depth) = (Sums::default(), Depth::default());
        for filter in filters {
            left -= 1;
            depth = depth.and(Depth {
                filters: 1,
                hashes: filter.geometry.hashes.into(),
            });
            if !depth.is_within(Depth::MOST) {
                return Err("more filters or hash functions than any program makes");
            }
            self.filter(&filter, left == 0)?;
            sums.add(filter.capacity, filter.items, filter.geometry.cell_bytes)?;
        }
        Ok(())
    }

    fn cells(&self) -> Cells {
        self.law.cells(Cells::Bits)
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
        };
        if filter.items > filter.capacity && !may_exceed {
            return Err("more items than capacity");
        }
        Ok(())
    }
}
