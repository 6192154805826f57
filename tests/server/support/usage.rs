//! The memory of a server.

use std::fs;

use crate::harness::{Server, wait_until};

/// Returns a field of INFO memory.
pub fn memory(server: &Server, field: &str) -> i64 {
    server.info("memory")[field].parse().expect("a number")
}

/// Returns the most address space that the server has ever had, in bytes: memory that a claim requests counts here,
/// even if it is returned at once and never touched.
pub fn peak_address_space(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("the tests run on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|text| text.parse::<u64>().ok())
        .expect("a size")
        * 1024
}

pub fn nothing_is_being_freed(server: &Server) {
    wait_until("nothing is being freed", || {
        server.info("memory")["lazyfree_pending_objects"] == "0"
    });
}
