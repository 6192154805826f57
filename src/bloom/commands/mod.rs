//! One function for each command: parse, open, act, publish, reply.

mod add;
mod describe;
mod lookup;
mod merge;
mod remove;
mod transfer;

pub use add::{add, insert, madd, receipt, reserve};
pub use describe::{debug, info};
pub use lookup::{card, count, exists, mexists, missing};
pub use merge::merge;
pub use remove::{del, mdel};
pub use transfer::{load, loadchunk, read, scandump};
