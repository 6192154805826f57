//! The module in real servers. `./build.sh test` runs these on each server that the project supports, but
//! for the modules that `once` in build.sh names, which run on the newest one.

mod acl;
mod adversary;
mod blocking;
mod calculator;
mod cluster;
mod cms;
mod counting;
mod cuckoo;
mod defrag;
mod docs;
mod events;
mod example;
mod foreign;
mod forkless;
#[path = "../harness/mod.rs"]
mod harness;
mod hostile;
mod http;
mod ledger;
mod makers;
mod memory;
mod merge;
#[path = "../../crates/sketches/tests/core/murmur.rs"]
mod murmur;
#[path = "../../crates/sketches/tests/core/cuckoo/naive.rs"]
mod naive;
mod pages;
mod persistence;
#[path = "../../crates/sketches/tests/core/plain.rs"]
mod plain;
mod plan;
mod pulled;
mod recipes;
mod refusals;
mod releases;
mod replication;
mod replies;
mod scripting;
mod settings;
mod sharded;
mod sketches;
mod smoke;
mod soak;
mod support;
mod tdigest;
mod tool;
mod topk;
mod travel;
mod windows;
