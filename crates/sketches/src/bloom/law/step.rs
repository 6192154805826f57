//! One step of growth: from the state of a stack to its next filter.

use crate::bloom::filter::{Cells, Filter, Geometry};
use crate::number::MAX_CAPACITY;

use super::limits::{Allowance, Depth, MAX_FILTERS, Refusal};
use super::link::Link;

/// The state of a stack before its next filter.
#[derive(Clone, Copy)]
pub struct State {
    /// Number of filters so far.
    pub filters: u64,
    /// Capacity of the newest filter; without filters, of the first one.
    pub newest: u64,
    /// Number of hash functions of the newest filter; `u32::MAX` without filters.
    pub hashes: u32,
    /// Number of hash functions of all filters so far.
    pub all_hashes: u64,
    /// Capacity of the filters so far.
    pub capacity: u64,
    /// Bytes of the object so far.
    pub bytes: u64,
    /// The cells of the filters.
    pub cells: Cells,
}

/// The next filter of a stack.
#[derive(Clone, Copy)]
pub struct NextFilter {
    /// The filter's capacity.
    pub capacity: u64,
    /// The filter's size.
    pub geometry: Geometry,
    /// The link, under `RedisBloom`'s law.
    pub link: Option<Link>,
}

impl NextFilter {
    /// Returns the bytes that the filter adds to the object.
    pub fn cost(&self) -> u64 {
        let link = self.link.map_or(0, |_| size_of::<Link>());
        self.geometry.blob_bytes() + (Filter::ENTRY_BYTES + link) as u64
    }

    /// Returns whether limits admit the filter, and the object with it.
    pub fn is_within(&self, at: &State, allowance: Allowance) -> bool {
        let limits = allowance.limits;
        let own = Depth {
            filters: 1,
            hashes: self.geometry.hashes.into(),
        };
        let depth = allowance.rest.and(at.depth()).and(own);
        self.geometry.blob_bytes() <= limits.filter_bytes
            && at.bytes.saturating_add(self.cost()) <= limits.object_bytes
            && depth.is_within(Depth::most(at.cells))
    }

    /// Checks that the stack can take the filter within limits.
    pub fn admit(&self, at: &State, allowance: Allowance) -> Result<(), Refusal> {
        if self.fits_number(at) && at.filters < MAX_FILTERS && self.is_within(at, allowance) {
            Ok(())
        } else {
            Err(Refusal::MemoryLimit)
        }
    }

    /// Returns whether the sum of capacities, including this one, is at most [`MAX_CAPACITY`].
    pub fn fits_number(&self, at: &State) -> bool {
        let total = at.capacity.checked_add(self.capacity);
        total.is_some_and(|total| total <= MAX_CAPACITY)
    }
}

impl State {
    /// Returns the state of a stack without filters. `bytes` is the size of its object so far, `capacity` that of its
    /// first filter to come, where 0 counts as 1.
    pub const fn before_first(bytes: u64, capacity: u64, cells: Cells) -> Self {
        Self {
            filters: 0,
            newest: if capacity == 0 { 1 } else { capacity },
            hashes: u32::MAX,
            all_hashes: 0,
            capacity: 0,
            bytes,
            cells,
        }
    }

    /// Returns the depth of the stack.
    pub const fn depth(&self) -> Depth {
        Depth {
            filters: self.filters,
            hashes: self.all_hashes,
        }
    }

    /// Adds a filter, whose capacity is known to fit.
    pub fn push(&mut self, step: &NextFilter) {
        self.filters += 1;
        self.newest = step.capacity;
        self.hashes = step.geometry.hashes;
        self.all_hashes += u64::from(step.geometry.hashes);
        self.capacity += step.capacity;
        self.bytes = self.bytes.saturating_add(step.cost());
    }
}
