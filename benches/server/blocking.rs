//! Measures how long large objects block the server.
//!
//! One client pings without pause while another one operates on objects of 62 MB. The table shows the longest waits,
//! and the time that the command itself took on the main thread.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use crate::harness::{Client, Server, wait_until};
use crate::objects::{fill, fill_random, window};
use crate::times::{TIMES, command_ms, median, memcpy_ms, timed_ms};
use crate::{Goal, Line, pin_to, run, server};

/// The largest capacity at 1 % whose first filter stays within 64 MiB: 62 MB.
const CAPACITY: u64 = 45_000_000;

/// An operation on a copy of an object.
struct Act {
    name: &'static str,
    /// The commands that prepare it, during which pings do not count.
    before: &'static [&'static str],
    /// The commands that it consists of.
    lines: &'static [&'static str],
    /// Whether it has finished.
    over: fn(&Server) -> bool,
    after: &'static [&'static str],
}

const COPIED: &[&str] = &["COPY full copy"];

const fn act(
    name: &'static str,
    before: &'static [&'static str],
    lines: &'static [&'static str],
    after: &'static [&'static str],
) -> Act {
    Act {
        name,
        before,
        lines,
        over: nothing_is_freed,
        after,
    }
}

impl Act {
    /// Ends it with another event.
    const fn until(mut self, over: fn(&Server) -> bool) -> Self {
        self.over = over;
        self
    }
}

const END: &[&str] = &["DEL copy"];

const ACTS: &[Act] = &[
    act("BF.RESERVE", &[], &["BF.RESERVE copy 0.01 45000000"], END),
    act("COPY", &[], COPIED, END),
    act("BF.MERGE of two", COPIED, &["BF.MERGE copy full"], END),
    act("UNLINK", COPIED, &["UNLINK copy"], &[]),
    act("DEL", COPIED, &["DEL copy"], &[]),
    act(
        "FLUSHDB",
        &["COPY full copy DB 1", "SELECT 1"],
        &["FLUSHDB"],
        &["SELECT 0"],
    ),
    act("expiry", COPIED, &["PEXPIRE copy 1"], &[]).until(one_is_left),
    // One copy fits into this memory, two do not.
    act(
        "eviction",
        &[
            "COPY full copy",
            "EXPIRE copy 100000",
            "CONFIG SET maxmemory-policy volatile-ttl",
        ],
        &[
            "CONFIG SET maxmemory 100mb",
            "SET another key",
            "DEL another",
        ],
        &["CONFIG SET maxmemory 0"],
    )
    .until(one_is_left),
    act("BGSAVE", COPIED, &["BGSAVE"], END)
        .until(|server| server.info("persistence")["rdb_bgsave_in_progress"] == "0"),
    act("BGREWRITEAOF", COPIED, &["BGREWRITEAOF"], END).until(|server| {
        let info = server.info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    }),
    act(
        "active defrag",
        &[
            "COPY full copy",
            "CONFIG SET active-defrag-ignore-bytes 1",
            "CONFIG SET active-defrag-threshold-lower 0",
            "CONFIG RESETSTAT",
        ],
        &["CONFIG SET activedefrag yes"],
        &["CONFIG SET activedefrag no", "DEL copy"],
    )
    .until(|server| server.info("stats")["active_defrag_key_misses"] != "0"),
    act("BF.SCANDUMP of a chunk", &[], &["BF.SCANDUMP full 1"], &[]),
];

fn nothing_is_freed(server: &Server) -> bool {
    server.info("memory")["lazyfree_pending_objects"] == "0"
}

fn one_is_left(server: &Server) -> bool {
    run(&mut server.client(), "DBSIZE").as_int() == 1 && nothing_is_freed(server)
}

/// The measured effect of an operation on the server.
struct Blocked {
    name: &'static str,
    /// The median time of its first command on the main thread.
    command_ms: f64,
    /// The times of another client's pings, in ascending order.
    pings_ms: Vec<f64>,
}

impl Blocked {
    fn longest_ms(&self) -> f64 {
        self.pings_ms.last().copied().unwrap_or_default()
    }
}

/// Returns the lines with a goal, and a table of all operations.
pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> (Vec<Line>, String) {
    let (mut lines, mut table) = (Vec::new(), String::new());
    let chosen = |act: &&Act| wanted(act.name) || wanted("blocking");
    if !ACTS.iter().any(|act| chosen(&act)) {
        return (lines, table);
    }
    let server = server();
    // With one processor, background threads would have to share that of the main thread.
    pin_to(server.pid(), "0,1");
    let bytes = fill_random(&mut server.client(), "full", CAPACITY);
    table += "| an object of 62 MB | command on the main thread | another client's PING, p99.9 | longest |\n";
    table += "|---|---|---|---|\n";
    for act in ACTS.iter().filter(chosen).map(|act| blocked(&server, act)) {
        let p999 = act.pings_ms[act.pings_ms.len() * 999 / 1000];
        let (name, command_ms, longest_ms) = (act.name, act.command_ms, act.longest_ms());
        writeln!(
            table,
            "| {name} | {command_ms:.2} ms | {p999:.2} ms | {longest_ms:.2} ms |"
        )
        .expect("a String takes all");
        let (against, ms, goal) = match name {
            "COPY" => {
                let ms = memcpy_ms(bytes);
                (format!("memcpy into fresh memory: {ms:.2} ms"), ms, 1.3)
            }
            "BF.RESERVE" | "UNLINK" => ("0.30 ms".to_owned(), 0.3, 1.0),
            _ => continue,
        };
        lines.push(Line {
            case: format!("{name} of 62 MB"),
            measured: format!("{command_ms:.2} ms"),
            compared_with: against,
            ratio: command_ms / ms,
            goal: Goal::AtMost(goal),
        });
    }
    (lines, table)
}

const MERGE: &str = "BF.MERGE of two filters of 16 MB";

/// Compares the union of two filters with a copy of the same number of bytes.
pub(crate) fn merge(wanted: &dyn Fn(&str) -> bool) -> Option<Line> {
    if !wanted(MERGE) {
        return None;
    }
    let server = server();
    let mut client = server.client();
    run(&mut client, "CONFIG SET bf.bloom-use-random-seed no");
    for (key, first) in [("one", 0), ("other", 300_000)] {
        run(&mut client, &format!("BF.RESERVE {key} 0.01 11600000"));
        fill(&mut client, "BF.MADD", key, first..first + 300_000);
    }
    let bytes = 16_000_000;
    let command_ms = (0..TIMES).map(|_| {
        run(&mut client, "COPY one copy REPLACE");
        timed_ms(&server, &mut client, "BF.MERGE copy other")
    });
    let command_ms = median(command_ms.collect());
    let ms = memcpy_ms(bytes);
    Some(Line {
        case: MERGE.to_owned(),
        measured: format!("{command_ms:.2} ms"),
        compared_with: format!("memcpy into fresh memory: {ms:.2} ms"),
        ratio: command_ms / ms,
        goal: Goal::AtMost(2.0),
    })
}

const DUMP: &str = "DUMP of a window of 51 MB";

/// Compares the dump of a window, whose fingerprints are coded, with that of a filter of the same size.
pub(crate) fn dump(wanted: &dyn Fn(&str) -> bool) -> Option<Line> {
    if !wanted(DUMP) {
        return None;
    }
    let server = server();
    let mut client = server.client();
    window(&mut client);
    fill_random(&mut client, "filter", 37_000_000);
    let [window_ms, filter_ms] = ["DUMP window", "DUMP filter"].map(|line| {
        let each_ms = (0..TIMES).map(|_| timed_ms(&server, &mut client, line));
        median(each_ms.collect())
    });
    Some(Line {
        case: DUMP.to_owned(),
        measured: format!("{window_ms:.0} ms"),
        compared_with: format!("DUMP of a filter of 51 MB: {filter_ms:.0} ms"),
        ratio: window_ms / filter_ms,
        goal: Goal::None,
    })
}

/// Repeats an operation while another client pings.
fn blocked(server: &Server, act: &Act) -> Blocked {
    let mut client = server.client();
    let mut other = server.client();
    let (watching, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let all = |client: &mut Client, lines: &[&str]| {
        for line in lines {
            run(client, line);
        }
    };
    thread::scope(|scope| {
        let pinging = scope.spawn(|| {
            let mut pings = Vec::new();
            while !done.load(Relaxed) {
                let (watched, start) = (watching.load(Relaxed), Instant::now());
                run(&mut other, "PING");
                if watched {
                    pings.push(start.elapsed().as_secs_f64() * 1e3);
                }
            }
            pings
        });
        let command_ms = (0..TIMES).map(|_| {
            all(&mut client, act.before);
            run(&mut client, "CONFIG RESETSTAT");
            watching.store(true, Relaxed);
            all(&mut client, act.lines);
            wait_until(act.name, || (act.over)(server));
            watching.store(false, Relaxed);
            let spent = command_ms(server, act.lines[0]);
            all(&mut client, act.after);
            wait_until("all is freed", || nothing_is_freed(server));
            spent
        });
        let command_ms = median(command_ms.collect());
        done.store(true, Relaxed);
        let mut pings_ms = pinging.join().expect("the pings are answered");
        pings_ms.sort_by(f64::total_cmp);
        Blocked {
            name: act.name,
            command_ms,
            pings_ms,
        }
    })
}
