//! Cuckoo filters, count-min sketches, top-k lists and t-digests in a server.

mod effects;
mod hostile;
mod lives;
mod refusals;
