#![no_main]

use libfuzzer_sys::fuzz_target;
use valkeybloom_sketches::Width;
use valkeybloom_testing::fuzz::batch;

fuzz_target!(|bytes: &[u8]| {
    for width in Width::ALL {
        if width <= Width::of_processor() {
            width.limit_to();
            batch::run(bytes);
        }
    }
});
