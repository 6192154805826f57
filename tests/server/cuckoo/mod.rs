//! Cuckoo filters in a server.

pub mod hostile;
mod refusals;
mod replies;
mod settings;

use crate::support::cuckoo::{chunks, field, header, items, load};
