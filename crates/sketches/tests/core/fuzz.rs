//! Findings of fuzzing: every input that `fuzz/` keeps goes through its target again, and some ten thousand mutations
//! of them.

#[path = "../../../../fuzz/targets/batch.rs"]
mod batch;
#[path = "../../../../fuzz/targets/cms.rs"]
mod cms;
#[path = "../../../../fuzz/targets/cuckoo.rs"]
mod cuckoo;
#[path = "../../../../fuzz/targets/decode.rs"]
mod decode;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../fuzz/targets/source.rs"]
mod source;
#[path = "../../../../fuzz/targets/tdigest.rs"]
mod tdigest;
#[path = "../../../../fuzz/targets/topk.rs"]
mod topk;

use crate::support::at_each_width;

use replay::replay;

/// Only the fuzzer has an allocator that counts what is taken.
fn bounded<T>(_most: usize, decode: impl FnOnce() -> T) -> T {
    decode()
}

fn measured<T>(make: impl FnOnce() -> T) -> (T, Option<usize>) {
    (make(), None)
}

#[test]
fn decode_bears_what_was_found_and_what_is_near() {
    replay("decode", 50_000, decode::run);
}

#[test]
fn batch_bears_what_was_found_and_what_is_near() {
    at_each_width(|_| replay("batch", 4_000, batch::run));
}
