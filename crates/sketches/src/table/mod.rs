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
//! A table keeps nothing, a count, or a period of each fingerprint: its [`Payload`].

mod bits;
mod counts;
mod digits;
mod expiry;
mod fingerprints;
mod order;
mod periods;
#[doc(hidden)]
pub mod shard;
mod size;

pub use expiry::Kept;
pub use fingerprints::{Payload, Table};
pub use order::Filling;
pub use periods::tag_bits;
pub use shard::Refused;
pub use size::{expected_bytes, largest_bytes};
