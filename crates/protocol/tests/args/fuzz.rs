//! Every input that `fuzz/` keeps for the words of commands goes through its target again, and many that are near to
//! one.

#[path = "../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../fuzz/targets/args.rs"]
mod target;

#[test]
fn args_bear_what_was_found_and_what_is_near() {
    replay::replay("args", 50_000, target::run);
}
