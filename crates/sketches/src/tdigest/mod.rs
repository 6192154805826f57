//! t-digests: sketches of a distribution, for quantiles and ranks.
//!
//! A digest holds *nodes* (centroids): a mean, and a weight that counts the observations behind it. New observations
//! are appended to a buffer as nodes of weight 1. When there are too many nodes, the digest *compresses*: it sorts all
//! nodes by mean and merges neighbours, many in the middle of the distribution and few near its ends. So extreme
//! quantiles are the most accurate, and the smallest and largest observations are exact.
//!
//! ```text
//!   observations ──▶ buffer ──compress──▶ 1×1  3×3  10.5×12  18×3  20×1      mean × weight
//!                                         min                        max
//! ```
//!
//! A [`TDigest`] is changed by writes alone. Queries need compressed nodes, so they use a [`Compressed`] copy, which is
//! kept until the next write.
//!
//! The order of additions, the moment of each compression and its arithmetic are those of `RedisBloom` 8.8, so the same
//! writes make the same bytes there and here.
//!
//! Credits: Dunning and Ertl 2019.

#![allow(
    clippy::float_cmp,
    reason = "equal bits are meant: the arithmetic is the same everywhere"
)]

mod agreement;
mod compress;
mod compressed;
mod digest;
mod node;
mod sort;
pub mod wire;

pub use compressed::Compressed;
pub use digest::{Compression, Refusal, TDigest};
