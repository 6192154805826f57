//! The module in real servers. `./build.sh test` runs these on each server that the project supports, but
//! for the modules that `once` in build.sh names, which run on the newest one.

mod acl;
mod adversary;
mod aof;
mod blobs;
mod blocking;
mod carried;
mod cluster;
mod configured;
mod counting;
mod cuckoo;
mod defrag;
mod docs;
mod events;
mod example;
mod foreign;
mod forged;
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
mod periods;
mod persistence;
mod pieces;
mod plan;
mod population;
mod primary;
mod protocols;
mod pulled;
mod random;
mod recipes;
mod recordings;
mod refusals;
mod releases;
mod replication;
mod replies;
mod retold;
mod scripting;
mod settings;
mod sharded;
mod sketches;
mod smoke;
mod soak;
mod sums;
mod tool;
mod travel;
mod usage;
mod windows;
