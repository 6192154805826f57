//! Every input that `fuzz/` keeps for the words of commands goes through its target again, and many that are near to
//! one.

use valkeybloom_testing::fuzz::{args, replay};

#[test]
fn args_bear_what_was_found_and_what_is_near() {
    replay("args", 50_000, args::run);
}
