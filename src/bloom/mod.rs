//! The core: Bloom objects, and the bytes that they are read from and written to.
//!
//! An *object* is a stack of *filters* that acts as one scalable Bloom filter. An item is hashed
//! once, into a *probe*, which is then looked up in every filter; the newest filter takes new items
//! until it reaches its capacity, and then a larger one with a tighter rate is stacked on it.
//!
//! ```text
//!   item ──Hasher──▶ Probe ──▶ filter n−1 (newest, takes the adds)     capacity c·xⁿ⁻¹, rate pₙ₋₁
//!                         ──▶ …                                        x = expansion
//!                         ──▶ filter 0                                 capacity c,      rate p₀
//! ```
//!
//! [`cuckoo`] is the other kind of filter, on the same floors: what it needs of hashing and memory is below both.
//!
//! There are no server types, no clock, no randomness and no globals here, but for the width of words, which changes
//! no result: seeds, limits and defaults are arguments, so that the same calls set the same bits everywhere. Bytes from
//! outside are decoded in [`dump`], [`chunks`] and [`rdb`], and become an object in one constructor that checks.
//!
//! The folders are floors, each of which uses only those below it; ARCHITECTURE.md lists them.
//!
//! Credits: Bloom 1970; double hashing, Kirsch and Mitzenmacher 2006; scalable filters, Almeida,
//! Baquero, Preguiça and Hutchison 2007; the blob's form, Frank Denis' `bloomfilter` crate.

pub mod cuckoo;
mod filter;
mod hash;
mod law;
#[allow(unsafe_code, reason = "it fences the processor's intrinsics")]
mod machine;
mod number;
mod object;
mod stack;
mod wire;

pub use filter::{Cells, Geometry, HEADER_BYTES, MAX_HASHES};
pub use hash::{Hasher, Probe, Seed};
pub use law::{Growth, Limits, MAX_FILTERS, Params, Refusal, Tightening};
pub use machine::memory::Relocate;
pub use machine::words::Width;
#[doc(hidden)]
pub use machine::work;
pub use number::{Fraction, MAX_CAPACITY};
pub use object::{Kind, MergeError, New, Object, Plan, Shape, Time, View, Window};
pub use stack::Added;
pub use wire::{
    DecodeError, Dialect, RdbRead, RdbWrite, Stage, carried, chunks, cuckoo as cuckoo_wire, dump,
    rdb,
};
