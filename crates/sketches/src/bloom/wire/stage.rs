//! Stages of growth of plain objects, read from the headers of their chunks.
//!
//! Additions to a plain object only set bits, increase item counts, and stack filters on existing ones. So two headers
//! show whether additions alone can lead from one object to the other.

use super::dialect::{self, Dialect};
use super::{bloomfltr, redisbloom};

/// A plain object at a point of its growth, without its cells.
#[derive(Debug, PartialEq, Eq)]
pub struct Stage {
    dialect: Dialect,
    /// The bytes of the object's parameters.
    parameters: Vec<u8>,
    filters: Vec<StageFilter>,
}

/// A filter of a plain object at a point of its growth.
#[derive(Debug, PartialEq, Eq)]
struct StageFilter {
    /// The bytes of the filter's parameters.
    parameters: Vec<u8>,
    items: u64,
    cell_bytes: u64,
}

impl Stage {
    /// Reads the header of an object's chunks. Returns `None` if the header is invalid, or its object is not plain.
    pub fn of_header(header: &[u8]) -> Option<Self> {
        let (dialect, outline) = dialect::read_header(header).ok()?;
        outline.check().ok()?;
        let (parameters, of_filters) = match dialect {
            Dialect::Bloomfltr => bloomfltr::parameters(header)?,
            Dialect::RedisBloom => redisbloom::parameters(header)?,
            Dialect::Bloomfltx => return None,
        };
        let filters = outline.filters().zip(of_filters);
        let filters = filters.map(|(filter, parameters)| StageFilter {
            parameters,
            items: filter.items,
            cell_bytes: filter.geometry.cell_bytes,
        });
        Some(Self {
            dialect,
            parameters,
            filters: filters.collect(),
        })
    }

    /// Returns whether additions can lead from this stage to `later`, or both are equal.
    pub fn precedes(&self, later: &Self) -> bool {
        let mut pairs = self.filters.iter().zip(&later.filters);
        self.dialect == later.dialect
            && self.parameters == later.parameters
            && self.filters.len() <= later.filters.len()
            && pairs.all(|(filter, later)| {
                filter.parameters == later.parameters && filter.items <= later.items
            })
    }

    /// Returns the length of all filters' cells in bytes.
    pub fn cell_bytes(&self) -> u64 {
        let bytes = self.filters.iter().map(|filter| filter.cell_bytes);
        bytes.fold(0, u64::saturating_add)
    }
}
