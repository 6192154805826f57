//! An exact table of fingerprints that grows and shrinks in small steps.
//!
//! A fingerprint is the first bits of an item's hash. A table of *n* fingerprints of *p* bits claims a stranger with a
//! probability of at most *n* / 2ᵖ. With jemalloc it takes *p* − log₂ *n* + 3.2 to 4 bits for each, and 2 more for a count.
//!
//! ```text
//! fingerprint   0110…01 | 0101110011 | 1101001
//!               shard     bucket       remainder, which is stored
//! ```
//!
//! The shards hold the fingerprints in ascending order, one shard for each of their first bits. If there are too many entries
//! for the shards, one of these is split: the fingerprints of a half have one more bit in common. So no addition or removal
//! touches more than one shard, or two that are joined. Once all shards of a length are split, the halves are whole.
//!
//! [`Counts`] gives each fingerprint a count, [`Plain`] nothing.

mod bits;
mod counts;
mod fingerprints;
#[doc(hidden)]
pub mod shard;

pub use counts::Counts;
pub use fingerprints::{Payload, Plain, Table};
pub use shard::Refused;
