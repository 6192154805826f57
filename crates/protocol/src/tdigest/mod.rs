//! The words and errors of the commands for t-digests.

pub(crate) mod error;
mod request;

pub use error::TDigestError;
pub use request::{Merge, compression, quantile, rank, trim, value, value_to_add};
