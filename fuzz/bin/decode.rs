#![no_main]

use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use valkeybloom_testing::fuzz::decode;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

fuzz_target!(|bytes: &[u8]| decode::run(bytes));
