//! Bloom filters of servers, for programs that use `redis-rs`.
//!
//! # One filter over many keys
//!
//! A [`ShardedFilter`] is one filter over N keys of a cluster, for more items than one key or machine can hold. The filter
//! `name` consists of the keys `name:0` … `name:N-1`, and an item belongs to the shard whose number is
//! the item's CRC-32 (IEEE) modulo N. Any language's standard library has that checksum, and it is independent of
//! the filters' hash, so the items of a shard look random to its filter. N is part of the data: changing it requires
//! adding every item again.
//!
//! A lookup goes to one shard, so the error rate of the whole filter equals that of a shard and needs no tightening.
//! The shards divide the capacity: see [`shard_capacity`].
//!
//! ```no_run
//! use std::num::NonZeroU32;
//! use std::time::Duration;
//! use valkeybloom_client::ShardedFilter;
//! use valkeybloom_sketches::Fraction;
//! use valkeybloom_sketches::bloom::Growth;
//!
//! # async fn crawl() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = ["redis://10.0.0.1/", "redis://10.0.0.2/", "redis://10.0.0.3/"];
//! let connection = redis::cluster::ClusterClient::new(nodes)?.get_async_connection().await?;
//! let (shards, one) = (NonZeroU32::new(24).unwrap(), NonZeroU32::MIN);
//! let seen = ShardedFilter::new(connection, "seen", shards)?
//!     .acknowledged_by(one, Duration::from_secs(1));
//!
//! // A billion items at 1 %, 50 MB a shard.
//! let rate = Fraction::new(0.01).unwrap();
//! seen.create(1_000_000_000, rate, Growth::Fixed).await?;
//! let items = ["https://example.org/", "https://example.org/elsewhere"];
//! for (item, added) in items.iter().zip(seen.add(&items).await) {
//!     match added {
//!         Ok(new) => println!("{item}: {}", if new { "new" } else { "known" }),
//!         Err(error) => println!("{item}: try again: {error}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # A filter near the program
//!
//! A [`Near`] is a copy of a filter in the program's memory that stays fresh. A lookup takes some 40 ns instead of the
//! network's 50 µs, and is never answered from a copy older than a bound.
//!
//! ```no_run
//! use std::time::Duration;
//! use valkeybloom_client::Near;
//! use valkeybloom_client::near::Options;
//!
//! # async fn crawl() -> Result<(), Box<dyn std::error::Error>> {
//! let client = redis::Client::open("redis://10.0.0.1/")?;
//! let connection = client.get_connection_manager().await?;
//! let seen = Near::follow(connection, "seen", Options {
//!     max_age: Duration::from_millis(500),
//!     ..Options::default()
//! });
//! seen.ready().await?;
//! for link in ["https://example.org/", "https://example.org/elsewhere"] {
//!     if !seen.contains(link).await? {
//!         // Visit the link.
//!         seen.add(link).await?;
//!     }
//! }
//! println!("{} of all lookups went to the server", seen.stats().asked);
//! # Ok(())
//! # }
//! ```
//!
//! # Answers that no lost reply costs
//!
//! [`Once`] keeps the answers of additions in receipts on the server, which can repeat them.

mod batches;
mod connection;
mod error;
pub mod near;
mod once;
mod sharded;

pub use error::Error;
pub use near::Near;
pub use once::{Consumer, Once};
pub use sharded::{Info, ShardedFilter, shard_keys, shard_of};
pub use valkeybloom_sketches::bloom::shard_capacity;

// The Rust program of the page compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/near.md")]
struct NearPage;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/once.md")]
struct OncePage;
