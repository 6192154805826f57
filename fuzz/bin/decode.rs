#![no_main]

use libfuzzer_sys::fuzz_target;
use valkeybloom_testing::fuzz::decode;
use valkeybloom_testing::fuzz::memory::Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| decode::run(bytes));
