//! The core, from the outside: against independent implementations of the same thing, against its
//! promises, and against bytes that mean it harm. All randomness has fixed seeds, so that a test
//! that fails once fails always.

mod bloomfltr;
mod bounds;
mod check;
mod chunks;
mod cms;
mod cuckoo;
mod feed;
mod floors;
mod fuzz;
mod library;
mod limits;
mod merge;
mod oracle;
mod payloads;
mod rates;
mod reach;
mod receipt;
mod recorded;
mod redisbloom;
mod refused;
mod sizes;
mod stages;
mod table;
mod tables;
mod tdigest;
mod topk;
mod unions;
mod words;

use valkeybloom_testing::{draft, naive, plain, support};
