//! No command takes the main thread for long, on any object: the rule of docs/speed.md, in counted work.
//!
//! It runs on the module with debug assertions, which counts the positions, buckets and filters that it looks at, and
//! the bytes that it reads.

use std::collections::BTreeSet;

use crate::harness::worst::{CALLS, ITEMS, OBJECTS, is_named, name_of, prepare, suits};
use crate::harness::{Reply, Server};

/// The most steps of a command beside those of its items: 10 ms, at some nanoseconds each.
const STEPS: u64 = 4_000_000;

/// The most steps for an item: 25 µs, at two thirds of a nanosecond each, as in lookups of many items.
const STEPS_OF_ITEM: u64 = 38_000;

/// The most steps for an entry of a table: it is read, merged and written, of the object and of its copy.
const STEPS_OF_ENTRY: u64 = 16;

/// The most times that a command reads the bytes of its object, and the most bytes beside them.
const PASSES: u64 = 16;
const BYTES: u64 = 16 << 20;

/// Returns the work since the last call: steps, and bytes.
fn work(server: &Server) -> [u64; 2] {
    let info = server.info("bf");
    ["bf_work_steps", "bf_work_bytes"].map(|field| info[field].parse().expect("a number"))
}

#[test]
fn every_command_has_a_row() {
    let server = Server::start();
    let names = server.client().cmd("COMMAND LIST FILTERBY MODULE bf");
    let names: BTreeSet<String> = names.as_array().iter().map(Reply::text).collect();
    let expected: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let rows = CALLS
        .iter()
        .map(|call| name_of(call))
        .filter(|name| name.contains('.'));
    assert_eq!(rows.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn no_command_takes_long_on_the_worst_objects() {
    let server = Server::builder().checked().start();
    let mut client = server.client();
    let mut calls = 0;
    for object in &OBJECTS {
        client.cmd("FLUSHALL");
        object.make(&mut client);
        let bytes = client.cmd("MEMORY USAGE deep SAMPLES 0").as_int();
        let bytes = u64::try_from(bytes).expect("a size");
        let entries = match client.cmd("BF.CARD deep") {
            Reply::Int(items) => u64::try_from(items).expect("a number"),
            _ => 0,
        };
        for call in CALLS.iter().filter(|call| suits(call, object)) {
            let Some(words) = prepare(&mut client, call, object) else {
                continue;
            };
            work(&server);
            // It may be refused: that has to be quick, too.
            client.call_words(&words);
            let [steps, passed] = work(&server);
            let items = if call.contains('*') { ITEMS } else { 1 };
            let name = format!("{} on {}: {steps} steps, {passed} bytes", call, object.name);
            calls += 1;
            if is_named(call) {
                // Bounded by what the object holds, however the work is done.
                assert!(steps <= STEPS + items * (4 << 20), "{name}");
                continue;
            }
            let most = items * STEPS_OF_ITEM + entries * STEPS_OF_ENTRY;
            assert!(steps <= STEPS + most, "{name}");
            assert!(passed <= BYTES + PASSES * bytes, "{name} of {bytes}");
        }
    }
    assert!(calls > 200, "{calls} calls");
}
