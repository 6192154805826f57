//! The values that keys of the module valkeybloom hold, and their stored bytes: Bloom filters, cuckoo filters,
//! count-min sketches, top-k lists and t-digests. The crate needs no server: a program can load a dump, then query and
//! fill the filter in memory.
//!
//! There is no clock, randomness, I/O or global state here. Times, seeds, limits and defaults are arguments, so the
//! same calls set the same bits everywhere. (Two exceptions: the width of SIMD words is chosen by measurement, and
//! changes no result; [`Seed::random`] makes such an argument, and nothing here calls it.)
//!
//! Each family is a module with its stored forms: [`bloom`], [`cuckoo`], [`cms`], [`topk`], [`tdigest`]. All families
//! share the hashes, byte cursors, checked arithmetic and SIMD words. [`Sketch`] is an object of any family, read from what
//! a server's `DUMP` returns. [`Slices`] hands the items of a buffer to the batches of the families.
//! [`Feed`] lists the items that were new to an object, for copies of it. A [`Receipt`] keeps the answers that additions
//! got, in a string beside the object.
//!
//! Objects are copied by `try_clone`, which returns `None` if there is no memory; they may be large, so they have no
//! `Clone`. Nor have they `PartialEq`: two objects with the same answers may differ in what only their memory shows, a
//! buffer that is not compressed or a list in another order. Compare what is stored: [`Sketch::to_dump`] writes it.

#![deny(unnameable_types)]

pub mod bloom;
pub mod cms;
pub mod cuckoo;
pub mod payload;
#[doc(hidden)]
pub mod table;
pub mod tdigest;
pub mod topk;

mod bytes;
mod error;
mod feed;
mod hash;
#[allow(unsafe_code, reason = "it wraps the processor's intrinsics")]
mod machine;
mod number;
mod receipt;
mod sketch;
mod slices;

pub use bytes::{CHUNK_BYTES, DecodeError, RdbRead, RdbWrite};
pub use feed::{Cursor, Feed, Lost};
pub use hash::{Hasher, Probe, Seed};
pub use machine::memory::Relocate;
pub use machine::words::Width;
#[doc(hidden)]
pub use machine::{words, work};
pub use number::{Fraction, MAX_CAPACITY};
pub use receipt::{Answers, Forgotten, Receipt, Resize};
pub use sketch::{Sketch, SketchRef};
pub use slices::{BadOffsets, Offset, Slices};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
