//! Measures followers: what they cost the server, how soon they see an addition, and lookups in their copies.
//!
//! Each follower is a thread with a connection of its own, and polls every 50 ms.

use std::collections::VecDeque;
use std::env;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use valkeybloom_near::{Follower, Options, Step, clock};

use crate::harness::{Answer, Client, Server};
use crate::objects::fill;
use crate::times::cpu_seconds;
use crate::{run, server};

/// The number of followers at the same time.
const FOLLOWERS: usize = 100;

/// The time for which the server is watched.
const WATCHED: Duration = Duration::from_secs(10);

/// The number of additions that are timed until a copy has them.
const SEEN: usize = 2_000;

/// The lookups, and those of a round.
const LOOKUPS: u64 = 2_000_000;
const ROUND: usize = 20_000;

pub(crate) fn table(wanted: &dyn Fn(&str) -> bool) -> String {
    if !wanted("near") {
        return String::new();
    }
    let mut table = Table("| near filters | measured | goal |\n|---|---|---|\n".to_owned());
    let server = server();
    add_lookups(&mut table, &server);
    add_shares(&mut table, &server);
    let mut seen = seen_ms(&server);
    seen.sort_by(f64::total_cmp);
    let at = |share: usize| seen[seen.len() * share / 100];
    table.add(
        "an addition is in the copy: half of them, 99 % of them",
        &format!("{:.0} ms, {:.0} ms", at(50), at(99)),
        "99 % ≤ 60 ms",
    );
    table.0
}

struct Table(String);

impl Table {
    fn add(&mut self, what: &str, measured: &str, goal: &str) {
        writeln!(self.0, "| {what} | {measured} | {goal} |").expect("a String takes all");
    }
}

/// Adds rows for lookups in a copy that fits the cache, and in one that does not.
fn add_lookups(table: &mut Table, server: &Server) {
    let mut client = server.client();
    let limit = "CONFIG SET bf.bloom-filter-max-memory-usage 256mb";
    run(&mut client, limit);
    for (key, capacity, items, goals) in [
        ("small", "100000", 100_000, ["≤ 40 ns", "≤ 90 ns"]),
        (
            "large",
            "100000000 NONSCALING",
            2_000_000,
            ["≤ 120 ns", "≤ 180 ns"],
        ),
    ] {
        run(&mut client, &format!("BF.RESERVE {key} 0.01 {capacity}"));
        fill(&mut client, "BF.MADD", key, 0..items);
        let bytes = run(&mut client, &format!("BF.INFO {key} SIZE"));
        let what = format!(
            "a lookup in a copy of {} kB, ",
            bytes.as_array()[0].as_int() / 1000
        );
        let ns = lookup_ns(server, key, items);
        table.add(&(what.clone() + "Rust"), &format!("{ns:.0} ns"), goals[0]);
        if let Some(ns) = python_ns(server, key, items) {
            table.add(&(what + "Python"), &ns, goals[1]);
        }
        run(&mut client, &format!("DEL {key}"));
    }
}

/// Adds rows for what followers take of the server.
fn add_shares(table: &mut Table, server: &Server) {
    run(&mut server.client(), "BF.RESERVE read 0.01 1000000");
    let idle = share(server, &[], None);
    let polls = share(server, &["read"; FOLLOWERS], None);
    let what = format!(
        "{FOLLOWERS} followers at 20 polls a second, nothing new: share of the server's core"
    );
    table.add(&what, &percent(polls.cpu - idle.cpu), "≤ 2 %");
    let bytes = format!("{:.0}, {:.0}", polls.sent, polls.received);
    table.add(
        "an empty poll: bytes to the server, and from it",
        &bytes,
        "",
    );
    let adds = percent(share(server, &[], Some("other")).cpu - idle.cpu);
    table.add("1,000 adds a second: share of the server's core", &adds, "");
    let both = percent(share(server, &["read"; FOLLOWERS], Some("read")).cpu - idle.cpu);
    table.add(&format!("the same with {FOLLOWERS} followers"), &both, "");
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A follower of a key with its own connection.
struct Near {
    follower: RwLock<Follower>,
    client: Mutex<Client>,
    key: &'static str,
}

impl Near {
    fn of(server: &Server, key: &'static str) -> Self {
        Self {
            follower: RwLock::new(Follower::new(Options::default())),
            client: Mutex::new(server.client()),
            key,
        }
    }

    /// Returns whether the copy claims an item.
    fn contains(&self, item: &[u8]) -> Option<bool> {
        let follower = self.follower.read().expect("no thread has panicked");
        follower.contains(item, clock::now_for(&follower))
    }

    /// Does the next step. Returns the time to wait, if it is to wait.
    fn step(&self, random: f64) -> Option<Duration> {
        let next = || self.follower.write().expect("no thread has panicked");
        let now = clock::now();
        let step = next().next(now);
        match step {
            Step::Wait(until) => Some(until.saturating_sub(now)),
            Step::Send(request) => {
                let mut client = self.client.lock().expect("no thread has panicked");
                let answer = Answer::to(&request, &mut client, self.key);
                next().take(answer.reply(), clock::now(), random);
                None
            }
        }
    }

    /// Follows until the copy answers.
    fn catch_up(&self) {
        while self.contains(b"").is_none() {
            if let Some(time) = self.step(0.5) {
                thread::sleep(time);
            }
        }
    }
}

/// Returns the time of a lookup in a copy of the Rust client's. Half of the items are in the filter.
fn lookup_ns(server: &Server, key: &'static str, items: u64) -> f64 {
    // The copy stays fresh during the measurement.
    let options = Options {
        max_age: Duration::from_secs(3600),
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let url = format!("redis://127.0.0.1:{}/", server.port());
    let near = runtime.block_on(async {
        let client = redis::Client::open(url).expect("a URL");
        let connection = client.get_multiplexed_async_connection().await;
        let near = valkeybloom_client::Near::follow(connection.expect("it connects"), key, options);
        near.ready().await.expect("the filter can be followed");
        near
    });
    let texts: Vec<String> = (0..LOOKUPS)
        .map(|number| {
            format!(
                "{:012}",
                number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 * items)
            )
        })
        .collect();
    // Rounds are short, so that other programs disturb only some of them.
    let rounds = texts.chunks(ROUND).map(|texts| {
        let start = Instant::now();
        let found = texts.iter().filter(|text| near.local(text) == Some(true));
        let found = black_box(found.count());
        assert!((ROUND / 3..ROUND * 2 / 3).contains(&found), "{found}");
        start.elapsed()
    });
    let least = rounds.min().expect("there are rounds");
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let each = least.as_secs_f64() * 1e9 / ROUND as f64;
    each
}

/// A program that prints the nanoseconds of a lookup in Python.
const PYTHON: &str = r"
import sys, timeit, redis
from valkeybloom import Near
port, key, items = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with Near(redis.Redis(port=port), key, max_age=3600) as near:
    near.wait()
    texts = [f'{i * 0x9e3779b97f4a7c15 % (2 * items):012d}' for i in range(200_000)]
    def look():
        for text in texts:
            text in near
    def loop():
        for text in texts:
            pass
    spent = min(timeit.repeat(look, number=1, repeat=5)) - min(timeit.repeat(loop, number=1, repeat=5))
    print(f'{spent / len(texts) * 1e9:.0f} ns')
";

/// Returns the time of a lookup in Python, with the interpreter that `PYTHON` names, if it has the package and redis-py.
fn python_ns(server: &Server, key: &str, items: u64) -> Option<String> {
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python)
        .args([
            "-c",
            PYTHON,
            &server.port().to_string(),
            key,
            &items.to_string(),
        ])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Some(text);
    }
    let why = String::from_utf8_lossy(&output.stderr);
    eprintln!(
        "no lookups in Python: {}",
        why.lines().last().unwrap_or_default()
    );
    None
}

/// What the server did while it was watched.
struct Watched {
    /// The share of its core.
    cpu: f64,
    /// The bytes that it got for each poll.
    sent: f64,
    /// The bytes that it replied to each poll.
    received: f64,
}

/// Watches the server with a follower of each of these keys, while another client adds a thousand items a second to a key,
/// if one is given.
fn share(server: &Server, keys: &[&'static str], added: Option<&str>) -> Watched {
    let nears: Vec<Near> = keys.iter().map(|key| Near::of(server, key)).collect();
    nears.iter().for_each(Near::catch_up);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for (number, near) in nears.iter().enumerate() {
            let ends = &ends;
            scope.spawn(move || follow(near, number, ends));
        }
        if let Some(key) = added {
            let (ends, mut client) = (&ends, server.client());
            scope.spawn(move || {
                let start = Instant::now();
                for number in 0_u32.. {
                    if ends.load(Relaxed) {
                        break;
                    }
                    run(
                        &mut client,
                        &format!("BF.ADD {key} {number}:{:?}", start.elapsed()),
                    );
                    let due = Duration::from_millis(number.into());
                    thread::sleep(due.saturating_sub(start.elapsed()));
                }
            });
        }
        let count = || -> u64 {
            nears
                .iter()
                .map(|near| {
                    near.follower
                        .read()
                        .expect("no thread has panicked")
                        .stats()
                        .polls
                })
                .sum()
        };
        let [sent, received] = traffic(server);
        let (polls, cpu, start) = (count(), cpu_seconds(server), Instant::now());
        thread::sleep(WATCHED);
        let cpu = (cpu_seconds(server) - cpu) / start.elapsed().as_secs_f64();
        let polls = count() - polls;
        let [sent_then, received_then] = traffic(server);
        ends.store(true, Relaxed);
        #[allow(clippy::cast_precision_loss, reason = "some millions")]
        let each = |bytes: u64| bytes as f64 / polls.max(1) as f64;
        Watched {
            cpu,
            sent: each(sent_then - sent),
            received: each(received_then - received),
        }
    })
}

/// Returns the bytes that the server has got and has sent.
fn traffic(server: &Server) -> [u64; 2] {
    let stats = server.info("stats");
    ["total_net_input_bytes", "total_net_output_bytes"]
        .map(|field| stats[field].parse().expect("bytes"))
}

/// Follows until it is to end. Numbers differ between followers, so that they do not poll in step.
fn follow(near: &Near, number: usize, ends: &AtomicBool) {
    #[allow(clippy::cast_precision_loss, reason = "a hundred")]
    let mut random = number as f64 / FOLLOWERS as f64;
    while !ends.load(Relaxed) {
        random = (random + 0.618) % 1.0;
        if let Some(time) = near.step(random) {
            thread::sleep(time);
        }
    }
}

/// Returns the times from the reply to an addition until a copy has it, while others follow, too.
fn seen_ms(server: &Server) -> Vec<f64> {
    let nears: Vec<Near> = (0..FOLLOWERS).map(|_| Near::of(server, "read")).collect();
    nears.iter().for_each(Near::catch_up);
    let ends = AtomicBool::new(false);
    let added = Mutex::new(VecDeque::new());
    let mut times = Vec::new();
    thread::scope(|scope| {
        let (first, others) = nears.split_first().expect("there are some");
        for (number, near) in others.iter().enumerate() {
            let ends = &ends;
            scope.spawn(move || follow(near, number, ends));
        }
        let mut client = server.client();
        let added = &added;
        scope.spawn(move || {
            for number in 0..SEEN {
                let item = format!("seen:{number}");
                run(&mut client, &format!("BF.ADD read {item}"));
                added
                    .lock()
                    .expect("no thread has panicked")
                    .push_back((item, Instant::now()));
                // No multiple of the time between two polls.
                thread::sleep(Duration::from_micros(4_700));
            }
        });
        while times.len() < SEEN {
            let wait = first.step(0.0);
            let mut added = added.lock().expect("no thread has panicked");
            while let Some((item, at)) = added.front()
                && first.contains(item.as_bytes()) == Some(true)
            {
                times.push(at.elapsed().as_secs_f64() * 1e3);
                added.pop_front();
            }
            drop(added);
            if let Some(time) = wait {
                thread::sleep(time);
            }
        }
        ends.store(true, Relaxed);
    });
    times
}
