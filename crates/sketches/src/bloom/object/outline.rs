//! Objects without their cells. Bytes from outside become an [`Outline`] first.

use crate::bloom::filter::{Filter, Geometry, Header};
use crate::bloom::law::{Law, Links};
use crate::bloom::stack::Stack;
use crate::bytes::DecodeError;
use crate::hash::Hasher;
use crate::machine::memory;

use super::check::{Check, FilterFields};
use super::counters::Counters;
use super::ids::Ids;
use super::period::Period;
use super::shape::{Kind, Shape};
use super::timeline::Timeline;

/// An object that was read and not checked yet.
#[derive(Debug)]
pub struct Outline {
    /// The requested shape.
    pub shape: Shape,
    /// The hash function of the items.
    pub hasher: Hasher,
    /// The law by which each period's stack grows.
    pub law: Law,
    /// The ids that each filter of counters took.
    pub ids: Ids,
    /// The periods, in order. An object without a window has one.
    pub periods: Vec<PeriodOutline>,
}

/// A period that was read and not checked yet.
#[derive(Debug)]
pub struct PeriodOutline {
    /// The number of the period; 0 without a window.
    pub number: u64,
    /// The filters, oldest first.
    pub filters: Vec<FilterOutline>,
}

/// A filter that was read and not checked yet.
#[derive(Debug)]
pub struct FilterOutline {
    /// The size of the filter.
    pub geometry: Geometry,
    /// The capacity of the filter.
    pub capacity: u64,
    /// Number of items in the filter.
    pub items: u64,
    /// The header, if there is one, and the cells read so far.
    pub blob: Vec<u8>,
}

impl FilterOutline {
    /// Creates a filter whose blob begins with its header.
    pub fn headed(blob: Vec<u8>, capacity: u64, items: u64) -> Result<Self, &'static str> {
        Ok(Self {
            geometry: Header::parse(&blob)?.geometry,
            capacity,
            items,
            blob,
        })
    }
}

impl<'f> From<&'f FilterOutline> for FilterFields<'f> {
    fn from(filter: &'f FilterOutline) -> Self {
        Self {
            geometry: filter.geometry,
            capacity: filter.capacity,
            items: filter.items,
            blob: &filter.blob,
        }
    }
}

impl PeriodOutline {
    /// Creates the stack once all cells were read. Its filters go into `table`, which [has room](Outline::room) for them.
    fn finish(self, hasher: Hasher, law: Law, table: Vec<Filter>) -> Result<Stack, &'static str> {
        let first = self.filters.first().ok_or("no filters")?;
        let cells = first.geometry.cells;
        let mut filters = table;
        for filter in self.filters {
            let blob = filter.blob.into_boxed_slice();
            let (capacity, items) = (filter.capacity, filter.items);
            filters.push(Filter::from_blob(blob, filter.geometry, capacity, items)?);
        }
        Stack::from_filters(law, hasher, cells, filters)
    }
}

/// The tables for the periods of an object: one for the periods, and for each period its law and a table for its
/// filters.
type Tables = (Vec<Period>, Vec<(Law, Vec<Filter>)>);

impl Outline {
    /// Creates the outline of a plain object of ours, with the capacity and the seed of its first filter.
    pub fn plain(mut shape: Shape, filters: Vec<FilterOutline>) -> Result<Self, &'static str> {
        let first = filters.first().ok_or("no filters")?;
        shape.params.capacity = first.capacity;
        Ok(Self {
            hasher: Hasher::Sip(Header::parse(&first.blob)?.seed),
            law: Law::of(&shape.params),
            ids: Ids::default(),
            periods: vec![PeriodOutline { number: 0, filters }],
            shape,
        })
    }

    /// Takes the periods out of the outline once all cells were read. Leaves them in the outline if their tables can't be
    /// allocated.
    pub fn finish(&mut self) -> Result<Vec<Period>, DecodeError> {
        let (mut finished, stacks) = self.room().ok_or(DecodeError::NoMemory)?;
        for (period, (law, table)) in std::mem::take(&mut self.periods).into_iter().zip(stacks) {
            let number = period.number;
            finished.push(Period::new(number, period.finish(self.hasher, law, table)?));
        }
        Ok(finished)
    }

    /// Reserves room for the filters that were read, never for a claimed number, and frees the spare capacity of their
    /// blobs.
    fn room(&mut self) -> Option<Tables> {
        let finished = memory::reserved(self.periods.len())?;
        let mut stacks = memory::reserved(self.periods.len())?;
        for period in &mut self.periods {
            for FilterOutline { blob, .. } in &mut period.filters {
                memory::fit(blob);
                if blob.capacity() > blob.len() {
                    return None;
                }
            }
            stacks.push((
                self.law.try_clone()?,
                memory::reserved(period.filters.len())?,
            ));
        }
        Some((finished, stacks))
    }

    /// Returns all filters.
    pub fn filters(&self) -> impl Iterator<Item = &FilterOutline> {
        self.periods.iter().flat_map(|period| &period.filters)
    }

    /// Returns all filters, to be completed.
    pub fn filters_mut(&mut self) -> impl Iterator<Item = &mut FilterOutline> {
        let periods = self.periods.iter_mut();
        periods.flat_map(|period| &mut period.filters)
    }

    /// Checks that the outline is that of a valid object, whatever its cells contain.
    pub fn check(&self) -> Result<(), &'static str> {
        let periods = self.periods.iter().map(|period| {
            let filters = period.filters.iter();
            (period.number, filters.map(FilterFields::from))
        });
        let check = Check {
            shape: &self.shape,
            hasher: &self.hasher,
            law: &self.law,
            ids: &self.ids,
        };
        check.object(periods)
    }

    /// Returns the size of the tables in bytes, without `self` and the filters' blobs.
    pub fn table_bytes(&self) -> u64 {
        let filters = self.periods.iter().map(|period| period.filters.capacity());
        let filters = filters.sum::<usize>() * size_of::<FilterOutline>();
        let periods = self.periods.capacity() * size_of::<PeriodOutline>();
        (filters + periods) as u64 + self.ids.memory_bytes() + self.law.memory_bytes()
    }

    /// Returns the size in bytes that the object will have, without itself and its filters' blobs.
    pub fn overhead(&self) -> u64 {
        let filters = (size_of::<Filter>() * self.filters().count()) as u64;
        let links = self.law.links().map_or(0, |links| {
            Links::BASE_BYTES + size_of_val(&links.all[..]) as u64
        });
        filters
            + links
            + match self.shape.kind {
                Kind::Plain => 0,
                Kind::Counting => Counters::BASE_BYTES + self.ids.memory_bytes(),
                Kind::Windowed(_) => {
                    Timeline::BASE_BYTES + self.periods.len() as u64 * Period::ENTRY_BYTES
                }
            }
    }
}
