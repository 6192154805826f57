//! The words and errors of the commands for count-min sketches.

pub(crate) mod error;
mod request;

pub use error::{CmsError, lacking};
pub use request::{Merge, increment, require_count, shape_by_rates, shape_by_size};
