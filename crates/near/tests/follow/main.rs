//! A follower beside a server in memory, by a test's clock.

mod crowd;
mod day;
mod errors;
mod history;
mod lives;
mod own;
mod server;
mod wire;
