//! A native, scalable Bloom filter type for Valkey and Redis.
//!
//! Built as a library for a server (the default), this is the module `bf`: the table below is all
//! that it registers. Without the feature `server` it is [`bloom`] alone, the filter itself, for
//! programs that load a dump and ask or fill it in their own memory. The feature `client` adds
//! `sharded`: one filter over many keys of a cluster; `cli`, the program for operators.

#![deny(unsafe_code)]

#[cfg(feature = "server")]
mod args;
pub mod bloom;
#[cfg(feature = "server")]
mod carried;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "server")]
mod commands;
#[cfg(feature = "server")]
mod config;
#[cfg(feature = "server")]
mod cuckoo;
#[cfg(feature = "server")]
#[allow(unsafe_code, reason = "the server's API is C")]
mod ffi;
#[cfg(feature = "server")]
mod keyspace;
#[cfg(feature = "server")]
mod ledger;
#[cfg(feature = "server")]
mod mover;
#[cfg(any(feature = "server", feature = "cli"))]
#[cfg_attr(
    not(feature = "server"),
    allow(dead_code, reason = "the program reads few")
)]
mod numerals;
#[cfg(feature = "server")]
mod reply;
#[cfg(feature = "client")]
pub mod sharded;
#[cfg(feature = "server")]
mod stored;
#[cfg(feature = "server")]
mod table;
#[cfg(feature = "server")]
mod unserved;

/// How the words of commands are read, for `fuzz/`. Nothing else is to rely on it.
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod internal {
    pub use crate::args::{Defaults, Delete, InfoField, Insert, Maker, Origin, Reserve, Words};
    pub use crate::cuckoo::args as cuckoo;
    pub use crate::numerals::integer;
    pub use crate::reply::Error;
}
