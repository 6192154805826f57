//! Cuckoo filters: sets of fingerprints that support removal.
//!
//! An *object* is a list of *filters*, oldest first. Each filter is an array of *buckets* of a few *slots*. An item is
//! hashed once, into a [`Place`]: a fingerprint of one byte, and two buckets. Either bucket may hold the fingerprint,
//! and the filter *claims* the item if one does. The second bucket follows from the first and the fingerprint, so a
//! fingerprint can move to its other bucket without its item. If both buckets are full, such moves make room; if they
//! can't, the next filter is made.
//!
//! ```text
//!   item ──hash──▶ Place ──▶ filter n−1 (newest)   B·eⁿ⁻¹ buckets of s slots
//!                        ──▶ …
//!                        ──▶ filter 0              B buckets
//! ```
//!
//! The stored slots are those of `RedisBloom`, and so are the rules for filling, moving and emptying them.
//!
//! Credits: Fan, Andersen, Kaminsky and Mitzenmacher 2014.

mod buckets;
mod growth;
mod object;
mod outline;
mod place;
mod plan;
mod room;
mod shape;
mod summary;
pub mod wire;

pub use buckets::Buckets;
pub use growth::Plan;
pub use object::{ChunkError, Cuckoo};
pub use outline::{Outline, ValidOutline};
pub use place::Place;
pub use shape::{FILTER_BYTES_MAX, FILTERS_MAX, Limits, Params, Refusal, Shape, ranges};
