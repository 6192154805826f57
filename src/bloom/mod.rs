//! The core: Bloom objects, and the bytes that they come from and go to.
//!
//! An *object* is a stack of *filters* that acts as one scalable Bloom filter. An item is hashed
//! once, into a *probe*, which is then shown to every filter; the newest filter takes new items
//! until it holds its capacity, and then a larger one with a tighter rate is stacked on it.
//!
//! ```text
//!   item ──Seed──▶ Probe ──▶ filter n−1 (newest, takes the adds)     capacity c·xⁿ⁻¹, rate pₙ₋₁
//!                       ──▶ …                                        x = expansion
//!                       ──▶ filter 0                                 capacity c,      rate p₀
//! ```
//!
//! Here are no server types, no clock, no randomness and no globals: seeds, limits and defaults are
//! arguments, so that the same calls make the same bits everywhere. What comes from outside is
//! decoded in [`codec`] and [`chunks`] and enters an object by a constructor that checks:
//! [`BloomObject::from_parts`], or its like for counters and for `RedisBloom`.
//!
//! Credits: Bloom 1970; double hashing, Kirsch and Mitzenmacher 2006; scalable filters, Almeida,
//! Baquero, Preguiça and Hutchison 2007; the blob's form, Frank Denis' `bloomfilter` crate.

mod any;
mod batch;
pub mod chunks;
pub mod codec;
mod extended;
mod filter;
mod machine;
mod object;
mod probe;
mod redisbloom;
mod shape;
pub mod sizing;
mod stack;

pub use any::{AnyObject, Family};
pub use extended::Extended;
pub use filter::{Filter, MAX_HASHES};
pub use machine::Width;
pub use object::{Added, BloomObject, FilterParts, MergeError, Parts, Refusal};
pub use probe::{Probe, Seed};
pub use shape::{Shape, Time, Window};
pub use sizing::{Cell, Fraction, Growth, Limits, Params};
