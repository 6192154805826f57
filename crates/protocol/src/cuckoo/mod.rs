//! The words and errors of the commands for cuckoo filters.

pub(crate) mod error;
mod request;

pub use error::{CuckooError, CuckooOption};
pub use request::{Insert, reserve};
