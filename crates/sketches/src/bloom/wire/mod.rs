//! Decoding and encoding of objects: the only way in for bytes from outside.
//!
//! A [`Dialect`] defines the order of an object's fields. Reading yields an
//! [`Outline`](crate::bloom::object::Outline), which is checked and becomes an object.
//!
//! | form | where | dialects |
//! |---|---|---|
//! | [`rdb`] | RDB files, DUMP, full resync | all |
//! | [`dump`] | BF.LOAD, AOF | `bloomfltr`, `bloomfltx` |
//! | [`chunks`] | BF.SCANDUMP, BF.LOADCHUNK | all |

mod cells;
pub mod chunks;
mod dialect;
pub mod dump;
mod extent;
mod pieces;
pub mod rdb;
mod stage;

mod bloomfltr;
mod bloomfltx;
mod redisbloom;

pub use dialect::Dialect;
pub use stage::Stage;
