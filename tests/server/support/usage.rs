//! The memory of a server.

use std::fs;

use crate::harness::{Client, Server, int, ok, wait_until};

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

/// Returns the lowest value of a limit at which a command creates the key `k`: the bytes that the limit counts. The key
/// is gone and the limit is 128 MiB then.
#[track_caller]
pub fn least_limit(client: &mut Client, setting: &str, create: &str) -> i64 {
    let mut fits = |limit: i64| {
        assert_eq!(client.cmd(&format!("CONFIG SET {setting} {limit}")), ok());
        let fits = !client.cmd(create).is_error();
        assert_eq!(client.cmd("DEL k"), int(i64::from(fits)));
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
