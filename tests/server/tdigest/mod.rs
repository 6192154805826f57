//! t-digests in a server.

mod refusals;
mod scripts;
