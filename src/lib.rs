//! The module `bf` for Valkey and Redis: Bloom filters, cuckoo filters, and sketches that are carried unread.
//!
//! Each family of values has a folder with its commands, keys and stored values; what families share is beside them.

#![deny(unsafe_code)]

mod bloom;
mod carried;
mod config;
mod cuckoo;
#[allow(unsafe_code, reason = "the server's API is C")]
mod ffi;
mod ledger;
mod mover;
mod reply;
mod unserved;
