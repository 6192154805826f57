#![no_main]

#[path = "../targets/batch.rs"]
mod batch;
#[path = "../targets/source.rs"]
mod source;

use libfuzzer_sys::fuzz_target;
use valkeybloom_sketches::Width;

fuzz_target!(|bytes: &[u8]| {
    for width in Width::ALL {
        if width <= Width::of_processor() {
            width.limit_to();
            batch::run(bytes);
        }
    }
});
