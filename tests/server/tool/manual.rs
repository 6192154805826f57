//! The sessions of docs/tool.md and docs/unique.md, run as written there.

use crate::harness::Server;
use crate::support::protocols::with_fixed_seed;

use super::session::{block as shown, commands, output_of};

const MANUAL: &str = include_str!("../../../docs/tool.md");
const UNIQUE: &str = include_str!("../../../docs/unique.md");

#[test]
fn the_sessions_of_the_manual_are_current() {
    require_current(MANUAL);
}

#[test]
fn the_sessions_about_duplicates_are_current() {
    require_current(UNIQUE);
}

#[track_caller]
fn require_current(page: &str) {
    let servers = [with_fixed_seed(), Server::start()];
    let (_, rest) = page
        .split_once("<!-- sessions: replayed by a test -->")
        .expect("the mark");
    let (mut replayed, mut written) = (String::new(), String::new());
    for block in rest.split("```console\n").skip(1) {
        let (session, _) = block.split_once("```").expect("the block ends");
        written += session;
        for (command, _) in commands(session) {
            let output = output_of(command, &servers.each_ref());
            // The manual shows no status.
            let output = output.trim_end_matches("[1]").trim_end_matches("[2]");
            replayed += &shown(command, output.trim_end());
        }
    }
    // Other allocators round the memory of sketches in another way.
    let is_rounded = |line: &str| {
        let names = ["-TYPE", "MBbloomCF"];
        line.starts_with("bytes  ") || names.iter().any(|name| line.contains(name))
    };
    let comparable = |text: &str| {
        let lines = text.lines();
        let lines = lines.filter(|line| servers[0].has_jemalloc() || !is_rounded(line));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(
        comparable(&replayed) == comparable(&written),
        "the sessions are:\n{replayed}"
    );
}
