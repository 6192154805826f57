//! t-digests in a server.

mod effects;
mod recorded;
mod refusals;
