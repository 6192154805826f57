//! What time things take.

use std::hint::black_box;
use std::time::Instant;

use crate::harness::{Client, Server};
use crate::run;

/// How often an operation on a large object is repeated.
pub(crate) const TIMES: usize = 10;

/// Returns the median: with an even number of figures, the upper one of the middle two.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns the user and system time of the server's process so far.
pub(crate) fn cpu_seconds(server: &Server) -> f64 {
    let info = server.info("cpu");
    let field = |name: &str| info[name].parse::<f64>().expect("seconds");
    field("used_cpu_user") + field("used_cpu_sys")
}

/// Runs a command, and returns the milliseconds that it took on the main thread.
pub(crate) fn timed_ms(server: &Server, client: &mut Client, line: &str) -> f64 {
    run(client, "CONFIG RESETSTAT");
    run(client, line);
    command_ms(server, line)
}

/// Returns the milliseconds that a command took on the main thread since the statistics were reset.
pub(crate) fn command_ms(server: &Server, line: &str) -> f64 {
    let line = line.to_lowercase().replace("config set", "config|set");
    let name = line.split(' ').next().expect("a name");
    let stats = &server.info("commandstats")[&format!("cmdstat_{name}")];
    let usec = stats
        .split(',')
        .find_map(|field| field.strip_prefix("usec="));
    usec.and_then(|usec| usec.parse::<f64>().ok())
        .expect("a time")
        / 1e3
}

/// Returns the milliseconds that it takes to copy `bytes` bytes into fresh memory.
pub(crate) fn memcpy_ms(bytes: usize) -> f64 {
    let from = vec![0x5a_u8; bytes];
    // All copies are kept, because the allocator would reuse freed memory.
    let mut copies = Vec::new();
    let mut time = || {
        let start = Instant::now();
        copies.push(black_box(black_box(&from).clone()));
        start.elapsed().as_secs_f64() * 1e3
    };
    median((0..TIMES).map(|_| time()).collect())
}
