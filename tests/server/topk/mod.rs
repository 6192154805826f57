//! Top-k lists in a server.

pub mod hostile;
mod limits;
mod refusals;
mod replies;

/// The id of the type, without its encoding version.
const TYPE_ID: u64 = 0x4e8a_4af9_360f_1000;
