//! The module in real servers. `./build.sh test` runs these on each server that the project supports, but
//! for the modules that `once` in build.sh names, which run on the newest one.

mod acl;
mod blocking;
mod calculator;
mod cluster;
mod cms;
mod cuckoo;
mod defrag;
mod docs;
mod events;
mod example;
mod families;
mod feeds;
mod fingerprints;
mod foreign;
mod forkless;
mod hostile;
mod http;
mod info_sums;
mod makers;
mod memory;
mod near;
mod pages;
mod persistence;
mod pulled;
mod read;
mod recipes;
mod recorded;
mod refusals;
mod releases;
mod replication;
mod replies;
mod scripting;
mod selected;
mod settings;
mod sharded;
mod sketches;
mod soak;
mod support;
mod tdigest;
mod tool;
mod topk;
mod travel;
mod vectors;
mod windows;

use valkeybloom_testing::{harness, plain};
