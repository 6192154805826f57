//! How long large objects keep the server from everything else.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use crate::harness::{Server, wait_until};
use crate::{Goal, Line, fill_random, median, pin_to, run, server};

/// The largest capacity at 1 % whose first filter stays within 64 MiB: 62 MB.
const CAPACITY: u64 = 45_000_000;
const TIMES: usize = 20;

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let cases = ["BF.RESERVE of 62 MB", "UNLINK of 62 MB", "COPY of 62 MB"];
    if !cases.iter().any(|case| wanted(case)) {
        return Vec::new();
    }
    let server = server();
    // What works in the background would otherwise have to share the processor of the main thread.
    pin_to(server.pid(), "0,1");
    let bytes = fill_random(&mut server.client(), "full", CAPACITY);
    let reserve = format!("BF.RESERVE copy 0.01 {CAPACITY}");
    let copy = "COPY full copy".to_owned();
    let acts = [
        (blocked(&server, &[], &reserve, "DEL copy"), None),
        (blocked(&server, &[&copy], "UNLINK copy", "PING"), None),
        (
            blocked(&server, &[], &copy, "UNLINK copy"),
            Some(memcpy_ms(bytes)),
        ),
    ];
    let lines = cases.into_iter().zip(acts).map(|(case, (told, memcpy))| {
        let (against, ms, goal) = match memcpy {
            Some(ms) => (format!("memcpy into fresh memory: {ms:.2} ms"), ms, 1.3),
            None => ("0.30 ms".to_owned(), 0.3, 1.0),
        };
        Line {
            case: case.to_owned(),
            had: format!(
                "{:.2} ms (PING of another client: {:.2} ms at the most)",
                told.command_ms, told.ping_ms
            ),
            against,
            ratio: told.command_ms / ms,
            goal: Goal::AtMost(goal),
        }
    });
    lines.filter(|line| wanted(&line.case)).collect()
}

struct Blocked {
    /// What the command takes of the server's main thread: the median.
    command_ms: f64,
    /// The longest that a PING of another client took, from the command on until the background
    /// thread had freed what there was to free.
    ping_ms: f64,
}

/// Calls a command a number of times, with others before and after it, while another client pings.
fn blocked(server: &Server, before: &[&str], command: &str, after: &str) -> Blocked {
    let mut client = server.client();
    let mut other = server.client();
    let (watching, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let name = command.split(' ').next().expect("a name").to_lowercase();
    let quiet = || server.info("memory")["lazyfree_pending_objects"] == "0";
    thread::scope(|scope| {
        let pinging = scope.spawn(|| {
            let mut longest = 0_f64;
            while !done.load(Relaxed) {
                let (watched, start) = (watching.load(Relaxed), Instant::now());
                run(&mut other, "PING");
                if watched {
                    longest = longest.max(start.elapsed().as_secs_f64() * 1e3);
                }
            }
            longest
        });
        let command_ms = (0..TIMES).map(|_| {
            for line in before {
                run(&mut client, line);
            }
            run(&mut client, "CONFIG RESETSTAT");
            watching.store(true, Relaxed);
            run(&mut client, command);
            wait_until("all is freed", quiet);
            watching.store(false, Relaxed);
            let stats = &server.info("commandstats")[&format!("cmdstat_{name}")];
            let usec = stats
                .split(',')
                .find_map(|field| field.strip_prefix("usec="));
            run(&mut client, after);
            wait_until("all is freed", quiet);
            usec.and_then(|usec| usec.parse::<f64>().ok())
                .expect("a time")
                / 1e3
        });
        let command_ms = median(command_ms.collect());
        done.store(true, Relaxed);
        let ping_ms = pinging.join().expect("the pings are answered");
        Blocked {
            command_ms,
            ping_ms,
        }
    })
}

/// The time that it takes to copy so many bytes into memory that has not been touched before.
fn memcpy_ms(bytes: usize) -> f64 {
    let from = vec![0x5a_u8; bytes];
    let time = || {
        let start = Instant::now();
        black_box(black_box(&from).clone());
        start.elapsed().as_secs_f64() * 1e3
    };
    median((0..TIMES).map(|_| time()).collect())
}
