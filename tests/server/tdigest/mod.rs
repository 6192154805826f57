//! t-digests in a server.

mod acl;
mod effects;
mod recorded;
mod refusals;
mod scripts;
