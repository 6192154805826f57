//! Bytes to objects and back: the one door for bytes from outside.
//!
//! A [`Dialect`] says where the fields of an object stand. Reading ends in an
//! [`Outline`](crate::bloom::object::Outline), which is checked there, and then in an object.
//!
//! | form | where | dialects |
//! |---|---|---|
//! | [`rdb`] | RDB files, DUMP, full resync | all |
//! | [`dump`] | BF.LOAD, AOF | `bloomfltr`, `bloomfltx` |
//! | [`chunks`] | BF.SCANDUMP, BF.LOADCHUNK | all |

pub mod chunks;
mod dialect;
pub mod dump;
mod extent;
pub mod rdb;
mod stage;

mod bloomfltr;
mod bloomfltx;
mod redisbloom;

pub use dialect::Dialect;
pub use stage::Stage;
