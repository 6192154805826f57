//! Counting a server's instructions with callgrind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::Server;

/// Returns whether valgrind is installed. Callgrind is part of it.
pub fn is_installed() -> bool {
    Command::new("valgrind").arg("--version").output().is_ok()
}

/// Begins to count the instructions of a server that callgrind runs, from zero.
pub fn begin(server: &Server) {
    control(server, "--zero");
    control(server, "--instr=on");
}

/// Ends counting, and returns the dump, whose file begins with `out` in a folder.
pub fn end(server: &Server, folder: &Path) -> String {
    control(server, "--instr=off");
    control(server, "--dump");
    let dumps = fs::read_dir(folder).expect("the folder");
    let paths = dumps.filter_map(|entry| Some(entry.ok()?.path()));
    let number = |path: &PathBuf| path.extension()?.to_str()?.parse::<u32>().ok();
    let last = paths.max_by_key(number).expect("a dump");
    let text = fs::read(last).expect("a dump");
    String::from_utf8_lossy(&text).into_owned()
}

fn control(server: &Server, option: &str) {
    let output = Command::new("callgrind_control")
        .args([option, &server.pid().to_string()])
        .output();
    let output = output.expect("callgrind_control is part of valgrind");
    assert!(output.status.success(), "{output:?}");
}
