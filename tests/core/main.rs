//! The core, from the outside: against independent implementations of the same thing, against its
//! promises, and against bytes that mean it harm. All randomness has fixed seeds, so that a test
//! that fails once fails always.

mod chunks;
mod codec;
mod counting;
mod foreign;
mod fuzz;
mod merge;
mod model;
mod oracle;
mod rates;
mod redisbloom;
mod support;
mod windows;
