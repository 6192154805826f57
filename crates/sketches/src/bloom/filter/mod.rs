//! Filters: their cells, their sizes and their error rates.

mod bits;
mod cells;
mod counters;
mod counting;
mod estimate;
mod geometry;
mod header;
mod interleaved;
mod interleaving;
mod positions;
mod rate;
mod single;
mod transpose;
mod union;

pub use cells::{Cells, HEADER_BYTES};
pub use geometry::Geometry;
pub use header::{Header, MAX_HASHES};
pub use interleaved::Interleaved;
pub use positions::Modulus;
pub use single::Filter;
pub use transpose::{LANES, PIECE_BYTES};
