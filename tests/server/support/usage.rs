//! The memory of a server.

use std::fs;
use std::process::Command;

use crate::harness::{Client, Server, int, wait_until};

/// Returns a field of INFO memory.
pub fn memory(server: &Server, field: &str) -> i64 {
    server.info("memory")[field].parse().expect("a number")
}

/// Returns what MEMORY USAGE says of a key.
pub fn usage(client: &mut Client, key: &str) -> i64 {
    client.cmd(&format!("MEMORY USAGE {key}")).as_int()
}

/// Returns the most address space that the server has ever had, in bytes: memory that a claim requests counts here,
/// even if it is returned at once and never touched.
pub fn peak_address_space(server: &Server) -> u64 {
    status_bytes(server.pid(), "VmPeak:").expect("it runs")
}

/// Returns the size of a process's address space, in bytes.
pub fn address_space(pid: u32) -> u64 {
    status_bytes(pid, "VmSize:").expect("it runs")
}

/// Returns the memory that a process holds, in bytes.
pub fn resident(pid: u32) -> u64 {
    status_bytes(pid, "VmRSS:").expect("it runs")
}

/// Sets a limit of a process, in the words of `prlimit`.
#[track_caller]
pub fn limit_process(pid: u32, limit: &str) {
    let mut prlimit = Command::new("prlimit");
    let status = prlimit.args(["--pid", &pid.to_string(), limit]).status();
    assert!(status.expect("prlimit is there").success());
}

/// Returns the most memory that a process has ever held, in bytes, or `None` if the process has ended.
pub fn most_resident(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

/// Returns a field of a process's status, in bytes. A process that has ended has none.
fn status_bytes(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    let status = status.expect("the tests run on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes = line.trim().strip_suffix(" kB");
    let kilobytes = kilobytes.and_then(|text| text.parse::<u64>().ok());
    Some(kilobytes.expect("a size") * 1024)
}

pub fn nothing_is_being_freed(server: &Server) {
    wait_until("nothing is being freed", || {
        server.info("memory")["lazyfree_pending_objects"] == "0"
    });
}

/// Returns the lowest value of a limit at which a command creates the key `k`: the bytes that the limit counts. The key
/// is gone and the limit is 128 MiB then.
#[track_caller]
pub fn least_limit(client: &mut Client, setting: &str, create: &str) -> i64 {
    let mut fits = |limit: i64| {
        client.ok(format!("CONFIG SET {setting} {limit}"));
        let fits = !client.cmd(create).is_error();
        client.expect("DEL k", int(i64::from(fits)));
        fits
    };
    let (mut too_low, mut enough) = (0, 128 << 20);
    while enough - too_low > 1 {
        let middle = i64::midpoint(too_low, enough);
        if fits(middle) {
            enough = middle;
        } else {
            too_low = middle;
        }
    }
    assert!(fits(128 << 20), "{create}");
    enough
}
