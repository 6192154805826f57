//! Bloom filters that scale, expire or count, and their stored bytes.
//!
//! A plain *object* is a stack of *filters* that acts as one scalable Bloom filter. An item is hashed once, into a *probe*,
//! which is looked up in every filter. A filter *claims* an item if all of the item's bits are set: the item was added, or
//! is a false positive. The newest filter takes new items until it reaches its capacity; then a larger one with a tighter
//! rate is stacked on it. Objects whose items expire, that count or that are scaled are tables of fingerprints instead.
//!
//! ```text
//!   item ──Hasher──▶ Probe ──▶ filter n−1 (newest, takes the adds)     capacity c·xⁿ⁻¹, rate pₙ₋₁
//!                         ──▶ …                                        x = expansion
//!                         ──▶ filter 0                                 capacity c,      rate p₀
//! ```
//!
//! Bytes from outside are decoded in [`dump`], [`chunks`] and [`rdb`]. They become an object in a single constructor,
//! which checks them.
//!
//! The folders are layers: each uses only those below it. ARCHITECTURE.md lists them.
//!
//! Credits: Bloom 1970; double hashing, Kirsch and Mitzenmacher 2006; scalable filters, Almeida, Baquero, Preguiça and
//! Hutchison 2007; the form of the blob, Frank Denis' `bloomfilter` crate.

mod filter;
mod law;
mod object;
mod stack;
mod wire;

pub use filter::{Cells, Filter, Geometry, HEADER_BYTES, MAX_HASHES};
pub use law::{Growth, Limits, MAX_FILTERS, Params, Refusal, TableStep, Tightening};
pub use object::{Kind, MergeError, New, Object, Plan, Shape, Time, Window};
pub use object::{Part, PartSize, PlannedPart, shard_capacity};
pub use stack::Added;
pub use wire::{Dialect, Stage, chunks, dump, rdb};
