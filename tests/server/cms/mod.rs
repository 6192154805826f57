//! Count-min sketches in a server.

pub mod hostile;
mod refusals;
mod replies;

/// The id of the type, without its encoding version.
const TYPE_ID: u64 = 0x08c4_a4f9_360f_1000;
