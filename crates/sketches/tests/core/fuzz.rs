//! Findings of fuzzing: every input that `fuzz/` keeps goes through its target again, and some ten thousand mutations
//! of them.

use valkeybloom_testing::fuzz::{batch, decode, replay};

use crate::support::at_each_width;

#[test]
fn decode_bears_what_was_found_and_what_is_near() {
    replay("decode", 15_000, decode::run);
}

#[test]
fn batch_bears_what_was_found_and_what_is_near() {
    at_each_width(|_| replay("batch", 4_000, batch::run));
}
