//! Filters: their cells, their sizes and their error rates.

mod bits;
mod cells;
mod estimate;
mod geometry;
mod header;
mod positions;
mod rate;
mod single;
mod union;

pub use cells::{Cells, HEADER_BYTES};
pub use geometry::Geometry;
pub use header::{Header, MAX_HASHES};
pub use positions::Modulus;
pub use single::Filter;
