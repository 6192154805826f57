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
//!
//! Cuckoo filters have one dialect, [`cuckoo`], with an outline of their own.
//!
//! [`carried`] reads and writes values that are no objects, and are kept as they came.

pub mod carried;
pub mod chunks;
pub mod cuckoo;
mod dialect;
pub mod dump;
mod fields;
pub mod rdb;
mod stage;

mod bloomfltr;
mod bloomfltx;
mod redisbloom;

pub use dialect::Dialect;
pub use fields::{DecodeError, RdbRead, RdbWrite};
pub use stage::Stage;
