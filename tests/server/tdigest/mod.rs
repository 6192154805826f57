//! t-digests in a server.

mod refusals;
