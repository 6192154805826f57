//! Count-min sketches: how often each item was counted, in memory that does not grow with the items.
//!
//! A *sketch* has `depth` rows of `width` *counters*. An item has one counter in each row, at a column that its hash
//! determines, and counting the item adds to all of them. Other items add to the same counters, so the least of an
//! item's counters is its *estimate*: never too low, and seldom much too high.
//!
//! ```text
//!                 width
//!            ┌─┬─┬─┬─┬─┬─┬─┐
//!   item ──▶ │ │ │3│ │ │ │ │
//!        ──▶ │7│ │ │ │ │ │ │  depth      estimate: min(3, 7, 4) = 3
//!        ──▶ │ │ │ │ │ │4│ │
//!            └─┴─┴─┴─┴─┴─┴─┘
//! ```
//!
//! With `width = 2/ε` and `depth = log₂(1/δ)`, an estimate exceeds the true number by more than `ε` times the sum of
//! all increments with a probability of at most `δ`.
//!
//! The counters and the stored form are those of `RedisBloom`.
//!
//! Credits: Cormode and Muthukrishnan 2005.

mod cells;
mod merge;
mod object;
mod shape;
pub mod wire;

pub use crate::error::Refusal;
pub use merge::{MergeError, Term};
pub use object::{CountMin, NotCounted, Overflow};
pub use shape::{CellSize, DEPTH_MAX, Shape};
