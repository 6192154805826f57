//! What keys of the module valkeybloom hold, and the bytes that they are stored as: Bloom filters, cuckoo filters, and
//! sketches that are carried unread. It needs no server, so programs can load a dump and query or fill it in memory.
//!
//! There is no clock, randomness, I/O or global state here: times, seeds, limits and defaults are arguments, so that
//! the same calls set the same bits everywhere. (The one exception is the width of SIMD words, which is chosen by
//! measurement and changes no result.)
//!
//! Each family has a module of its own, with its stored forms: [`bloom`], [`cuckoo`], [`carried`]. They stand on
//! hashes, cursors over bytes, checked arithmetic and SIMD words, which all families share.

#![deny(unsafe_code)]

pub mod bloom;
pub mod carried;
pub mod cuckoo;

mod bytes;
mod hash;
#[allow(unsafe_code, reason = "it wraps the processor's intrinsics")]
mod machine;
mod number;

pub use bytes::{CHUNK_BYTES, DecodeError, RdbRead, RdbWrite};
pub use hash::{Hasher, Probe, Seed};
pub use machine::memory::Relocate;
pub use machine::words::Width;
#[doc(hidden)]
pub use machine::work;
pub use number::{Fraction, MAX_CAPACITY};
