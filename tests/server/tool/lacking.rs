//! Families and values that a server does not take: `move` and `compare` name them.

use std::fs;

use crate::harness::{Plugin, Server};
use crate::selected::with_families;
use crate::sketches::beyond_limits;
use crate::support::forged::file;

use super::session::replay;

/// Bloom filters are not needed for the other families.
#[test]
fn servers_without_bloom_filters_are_listed_compared_and_moved() {
    let servers = [(); 2].map(|()| with_families("cuckoo,cms,topk,tdigest").start());
    replay("lacking-bloom.txt", &servers.each_ref());
}

#[test]
fn families_that_a_target_lacks_are_named() {
    let targets = ["bloom", "cuckoo,topk"].map(|families| with_families(families).start());
    let [bloom, others] = &targets;
    replay("lacking-families.txt", &[&Server::start(), bloom, others]);
}

/// Starts a server of another program, which is played by a module.
fn played(by: &str) -> Server {
    let played = Server::builder().without_module();
    played.before_module(&Plugin::build(by).line()).start()
}

/// Nobody learns of these only after the switch.
#[test]
fn values_that_the_target_cannot_read_are_listed() {
    replay("unreadable.txt", &[&played("family.c"), &Server::start()]);
}

/// Sketches beyond the limits for clients, and what other programs lack. Those are played by modules that read no
/// value.
#[test]
fn values_that_a_target_does_not_take_are_named() {
    let mut from = Server::start();
    let values = beyond_limits(&mut from.client());
    let values: Vec<_> = values.iter().map(|(key, value)| (*key, value)).collect();
    from.shutdown();
    fs::write(from.dir().join("dump.rdb"), file(&values)).expect("the folder can be written to");
    from.start_again();
    let [redisbloom, valkey_bloom] = ["family.c", "chunkless.c"].map(played);
    let own = Server::start();
    replay("not-taken.txt", &[&from, &own, &redisbloom, &valkey_bloom]);
}
