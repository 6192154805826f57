//! Cuckoo filters, count-min sketches, top-k lists and t-digests in a server.

mod effects;
mod hostile;
pub mod lives;
mod refusals;
