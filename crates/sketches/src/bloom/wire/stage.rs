//! Stages of growth, read from the headers of chunks.
//!
//! Additions to a plain object only set bits, increase item counts, and stack filters on existing ones. So two headers
//! show whether additions alone can lead from one object to the other. The header of an object of tables has its parameters
//! alone, which nothing changes.

use crate::bloom::filter::Geometry;
use crate::bloom::law::{Link, Params};
use crate::hash::Hasher;

use super::dialect::{self, Rest};

/// A plain object at a point of its growth, without its cells.
#[derive(Debug, PartialEq)]
pub struct Stage {
    parameters: Parameters,
    filters: Vec<StageFilter>,
}

/// What additions leave as it is.
#[derive(Debug, PartialEq)]
enum Parameters {
    Ours(Params, Hasher),
    /// The options and the growth factor of an object of `RedisBloom`.
    RedisBloom(u32, u32),
}

/// A filter of a plain object at a point of its growth.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StageFilter {
    geometry: Geometry,
    capacity: u64,
    items: u64,
    link: Option<Link>,
}

impl Stage {
    /// Reads the header of an object's chunks. Returns `None` if the header is invalid, or its object is not a stack.
    pub fn of_header(header: &[u8]) -> Option<Self> {
        let Rest::Cells(_, outline) = dialect::read_header(header).ok()? else {
            return None;
        };
        outline.check().ok()?;
        let links = outline.law.links();
        let parameters = match links {
            Some(links) => Parameters::RedisBloom(links.options, links.factor),
            None => Parameters::Ours(outline.params, outline.hasher),
        };
        let filters = outline.filters.iter().enumerate().map(|(index, filter)| {
            // The last digit of the bits per entry depends on the program.
            let link = links.map(|links| Link {
                bits_per_entry: 0.0,
                ..links.all[index]
            });
            StageFilter {
                geometry: filter.geometry,
                capacity: filter.capacity,
                items: filter.items,
                link,
            }
        });
        Some(Self {
            parameters,
            filters: filters.collect(),
        })
    }

    /// Returns whether additions can lead from an object with one header to an object with `later`, or both are equal. A
    /// header of an object that is not a stack precedes only itself.
    pub fn header_precedes(header: &[u8], later: &[u8]) -> bool {
        match [header, later].map(Self::of_header) {
            [Some(stage), Some(later)] => stage.precedes(&later),
            _ => header == later,
        }
    }

    fn precedes(&self, later: &Self) -> bool {
        let mut pairs = self.filters.iter().zip(&later.filters);
        self.parameters == later.parameters
            && self.filters.len() <= later.filters.len()
            && pairs.all(|(filter, later)| {
                let items = filter.items;
                items <= later.items && *filter == StageFilter { items, ..*later }
            })
    }

    /// Returns the length of all filters' cells in bytes.
    pub fn cell_bytes(&self) -> u64 {
        let bytes = self.filters.iter().map(|filter| filter.geometry.cell_bytes);
        bytes.fold(0, u64::saturating_add)
    }
}
