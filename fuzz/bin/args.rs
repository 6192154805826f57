#![no_main]

use libfuzzer_sys::fuzz_target;
use valkeybloom_testing::fuzz::args;

fuzz_target!(|bytes: &[u8]| args::run(bytes));
