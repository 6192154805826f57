//! The rules of a valid stack, for the fields that outlines and objects share. An outline is checked before it
//! becomes an object, and an object after any change. The range of a single field is checked where it is read.

use crate::bloom::filter::{Cells, Filter, Geometry, Header};
use crate::bloom::law::{Growth, Law, MAX_FILTERS};
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

/// Checks the stack of these filters by the rules of a valid one:
///
/// - It has at least one filter.
/// - Its filters share one seed and one kind of cells, and each has the size that its header states.
/// - Each filter has a capacity of at least 1. In a stack of our bits, all filters but the newest are full, and the
///   newest exceeds its capacity only if the stack does not scale. Filters of `RedisBloom` never count more items than
///   their capacity.
/// - Sums over its filters fit. It has no more filters than any program makes: that bounds the time of a command, because
///   the hash functions of a filter are bounded too.
pub fn check_stack<'f>(
    hasher: &Hasher,
    law: &Law,
    filters: impl ExactSizeIterator<Item = FilterFields<'f>>,
) -> Result<(), &'static str> {
    if let Some(links) = law.links() {
        links.check()?;
        if links.all.len() != filters.len() {
            return Err("as many links as filters are needed");
        }
    }
    let cells = law.cells();
    if (cells == Cells::BareBits) != hasher.seed().is_none() {
        return Err("hash function of another kind of filters");
    }
    let mut left = filters.len();
    match left as u64 {
        0 => return Err("no filters"),
        1..=MAX_FILTERS => {}
        _ => return Err("more filters than any program stacks"),
    }
    let mut sums = Sums::default();
    for filter in filters {
        left -= 1;
        if filter.geometry.cells != cells {
            return Err("filter of other cells");
        }
        if let Hasher::Sip(seed) = hasher {
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
        let may_exceed = match cells {
            Cells::Bits if left > 0 && filter.items != filter.capacity => {
                return Err("filter stacked on one that is not full");
            }
            Cells::Bits => law.growth() == Growth::Fixed,
            Cells::BareBits => false,
        };
        if filter.items > filter.capacity && !may_exceed {
            return Err("more items than capacity");
        }
        sums.add(filter.capacity, filter.items, filter.geometry.cell_bytes)?;
    }
    Ok(())
}
