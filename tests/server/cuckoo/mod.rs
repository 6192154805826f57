//! Cuckoo filters in a server.

mod replies;
mod settings;

use crate::support::cuckoo::{chunks, field, items, load};
