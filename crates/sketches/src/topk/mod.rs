//! Top-k lists: the most frequent items of a stream, in memory that does not grow with the stream.
//!
//! A *sketch* has `depth` rows of `width` *cells*, each with the fingerprint of its *owner* and a count. An item has
//! one cell in each row, at a column that its hash determines. Adding the item increases the cells that it owns and
//! *contests* the others: each unit that is added may take one off the owner's count, with the probability
//! `decay` to the power of this count, and a count of 0 changes the owner. So frequent items keep their cells. The
//! largest count of an item's cells is its estimate. The *list* is a heap of the `k` items with the largest estimates.
//!
//! ```text
//!                 width
//!            ┌─┬─┬─┬─┬─┬─┬─┐
//!   item ──▶ │ │ │●│ │ │ │ │            ┌───┐
//!        ──▶ │●│ │ │ │ │ │ │  depth ──▶ │   │ k items, the least first
//!        ──▶ │ │ │ │ │ │●│ │            └───┘
//!            └─┴─┴─┴─┴─┴─┴─┘
//! ```
//!
//! Cells, heap and stored form are those of `RedisBloom`, whose lists draw random numbers of their process. Here
//! chance is derived from the sketch itself and from a counter that is stored ([`Chance`]), so equal commands lead to
//! equal sketches everywhere. A contest of many units takes few draws ([`Derived`]).
//!
//! Credits: Yang, Zhang, Li, Gong, Uhlig, Chen and Li 2018 (`HeavyKeeper`).

mod agreement;
mod chance;
mod decay;
mod derived;
mod few;
mod index;
mod item;
mod list;
mod object;
mod pairs;
mod search;
mod shape;
mod slots;
pub mod wire;

pub use crate::error::Refusal;
pub use chance::{Chance, Collision, Contest, one_by_one};
pub use decay::Decay;
pub use derived::Derived;
pub use index::COPIES_MAX;
pub use object::{Added, TopK};
pub use shape::{DEPTH_MAX, Fault, INCREMENT_MAX, Shape};
