//! The words and errors of the commands for top-k lists.

pub(crate) mod error;
mod request;

pub use error::TopKError;
pub use request::{increment, lists_counts, require_pairs, require_shape_words, shape};
