//! Stacks of filters without their cells. Bytes from outside become an [`Outline`] first.

use crate::bloom::filter::{Filter, Geometry, Header};
use crate::bloom::law::{Law, Links, Params};
use crate::bloom::stack::Stack;
use crate::bytes::DecodeError;
use crate::hash::Hasher;
use crate::machine::memory;

use super::check::{FilterFields, check_stack};

/// A stack that was read and not checked yet.
#[derive(Debug)]
pub struct Outline {
    /// The requested parameters.
    pub params: Params,
    /// The hash function of the items.
    pub hasher: Hasher,
    /// The law by which the stack grows.
    pub law: Law,
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

impl Outline {
    /// Creates the outline of an object of ours, with the capacity and the seed of its first filter.
    pub fn plain(mut params: Params, filters: Vec<FilterOutline>) -> Result<Self, &'static str> {
        let first = filters.first().ok_or("no filters")?;
        params.capacity = first.capacity;
        Ok(Self {
            hasher: Hasher::Sip(Header::parse(&first.blob)?.seed),
            law: Law::of(&params),
            filters,
            params,
        })
    }

    /// Takes the stack out of the outline once all cells were read.
    ///
    /// # Errors
    /// The outline is invalid, it lacks cells, or allocation fails. Its filters stay in it then.
    pub fn finish(&mut self) -> Result<Stack, DecodeError> {
        self.check()?;
        let is_whole = |it: &FilterOutline| it.blob.len() as u64 == it.geometry.blob_bytes();
        if !self.filters.iter().all(is_whole) {
            return Err("filter's length is not what its header says".into());
        }
        let (law, mut filters) = self.prepare().ok_or(DecodeError::NoMemory)?;
        // From here on nothing fails: what filters and stacks require is checked.
        for filter in std::mem::take(&mut self.filters) {
            let blob = filter.blob.into_boxed_slice();
            let (capacity, items) = (filter.capacity, filter.items);
            filters.push(Filter::from_blob(blob, filter.geometry, capacity, items)?);
        }
        Ok(Stack::from_filters(law, self.hasher, filters)?)
    }

    /// Does what allocates: frees the spare capacity of the blobs, copies the law, and reserves a list for the filters that
    /// were read, never for a claimed number.
    fn prepare(&mut self) -> Option<(Law, Vec<Filter>)> {
        for FilterOutline { blob, .. } in &mut self.filters {
            memory::fit(blob);
            if blob.capacity() > blob.len() {
                return None;
            }
        }
        Some((self.law.try_clone()?, memory::reserved(self.filters.len())?))
    }

    /// Checks that the outline is that of a valid object, whatever its cells contain.
    pub fn check(&self) -> Result<(), &'static str> {
        let filters = self.filters.iter().map(FilterFields::from);
        check_stack(&self.hasher, &self.law, filters)
    }

    /// Returns the size of the outline's allocations in bytes, without the filters' blobs.
    pub fn bytes_beside_blobs(&self) -> u64 {
        let filters = self.filters.capacity() * size_of::<FilterOutline>();
        filters as u64 + self.law.memory_bytes()
    }

    /// Returns the size in bytes that the allocations of the object will have, without its filters' blobs.
    pub fn object_bytes_beside_blobs(&self) -> u64 {
        let filters = (size_of::<Filter>() * self.filters.len()) as u64;
        let links = self.law.links().map_or(0, |links| {
            Links::BASE_BYTES + size_of_val(&links.all[..]) as u64
        });
        filters + links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::filter::Cells;
    use crate::bloom::law::{Growth, Tightening};
    use crate::hash::Seed;
    use crate::number::Fraction;

    #[test]
    fn an_outline_without_all_cells_keeps_its_filters() {
        let params = Params {
            capacity: 10,
            error_rate: Fraction::HALF,
            tightening: Tightening::HALF,
            growth: Growth::Fixed,
        };
        let geometry = Geometry::for_rate(10, Fraction::HALF, Cells::Bits);
        let filter = Filter::new(10, geometry, &Hasher::Sip(Seed::FIXED)).unwrap();
        let filter = FilterOutline::headed(filter.blob().to_vec(), 10, 0).unwrap();
        let mut outline = Outline::plain(params, vec![filter]).unwrap();
        let last = outline.filters[0].blob.pop().unwrap();
        assert!(outline.finish().is_err());
        outline.filters[0].blob.push(last);
        assert_eq!(outline.finish().unwrap().filters().len(), 1);
    }
}
