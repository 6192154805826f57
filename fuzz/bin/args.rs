#![no_main]

#[path = "../targets/args.rs"]
mod args;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| args::run(bytes));
