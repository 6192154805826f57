//! Hash functions from items to probes, for one item and for many side by side.

mod batch;
mod hasher;
mod message;
mod murmur;
mod probe;
mod rows;
mod sip;

pub use batch::{BATCH, Batch};
pub use hasher::Hasher;
pub(crate) use murmur::murmur_32;
pub use murmur::murmur_64;
pub use probe::Probe;
pub(crate) use rows::{Columns, GROUP, Rows};
pub use sip::Seed;
