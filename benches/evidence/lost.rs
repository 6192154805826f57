//! Nothing lost: additions while the server and its replica are killed, again and again.
//!
//! A kill is a SIGKILL, after which the kernel still has what the server had written. When the power fails it has what was
//! synced: with `appendfsync always` that is the same, with `everysec` the end may be missing, so it is cut off here.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use valkeybloom_testing::harness::{Client, Reply, Server, digest, wait_in_sync, wait_until};

use crate::{Table, grouped, scaled};

const ADDITIONS: u64 = 1_000_000;
const KILLS: u64 = 10;

/// The filters, one for each writer. An item that is missing is taken for one that is there once in 10^9 times.
const FILTERS: [&str; 5] = [
    "plain 1e-9 1000000",
    "growing 1e-9 1000",
    "counting 1e-9 1000000 COUNTING",
    "window 1e-9 1000000 WINDOW 3600000 PERIODS 25",
    "scaled 1e-9 10000 SCALETO 10000000",
];

/// The largest number of items in a command.
const BATCH: u64 = 100;

/// The longest time for which a server with `everysec` postpones a write while the disk is busy.
const POSTPONED: Duration = Duration::from_secs(2);

/// The additions to one filter: items that were acknowledged, and when.
struct Writer {
    key: &'static str,
    next: u64,
    acknowledged: Vec<(u64, Instant)>,
}

impl Writer {
    /// Adds batches of items until the server is killed. A batch without a reply may have been added or not.
    fn write(&mut self, client: &mut Client, total: &AtomicU64) {
        loop {
            let items = self.next..self.next + 1 + self.next % BATCH;
            self.next = items.end;
            let words: Vec<String> = items.clone().map(|item| item.to_string()).collect();
            let command: Vec<&[u8]> = [&b"BF.MADD"[..], self.key.as_bytes()]
                .into_iter()
                .chain(words.iter().map(String::as_bytes))
                .collect();
            let Ok(reply) = client.try_call(&command) else {
                return;
            };
            let is_added = |reply: &Reply| matches!(reply, Reply::Int(_));
            assert!(reply.as_array().iter().all(is_added), "{reply:?}");
            let now = Instant::now();
            total.fetch_add(items.end - items.start, Ordering::Relaxed);
            self.acknowledged.extend(items.map(|item| (item, now)));
        }
    }

    /// Returns for each acknowledged item whether the server has it.
    fn has_each(&self, client: &mut Client) -> Vec<bool> {
        let has_batch = |items: &[(u64, Instant)]| {
            let items: Vec<String> = items.iter().map(|(item, _)| item.to_string()).collect();
            let reply = client.call_with(&format!("BF.MEXISTS {}", self.key), &items);
            let found = reply.as_array().iter().map(|found| found.as_int() == 1);
            found.collect::<Vec<_>>()
        };
        let batches = self.acknowledged.chunks(1000);
        batches.flat_map(has_batch).collect()
    }
}

/// What was missing after kills.
#[derive(Default)]
struct Missing {
    /// Acknowledged additions that the restarted server lacked.
    lost: u64,
    /// Those of them that were not at the end of the log that was cut off.
    logged: u64,
    /// Additions of the restarted server that its replica lacked, and filters whose digests differed.
    at_replica: u64,
    differing: u64,
}

impl Missing {
    /// Counts what a restarted server and its replica lack of a writer's items. Without a time, all of them are in the log.
    fn count(
        &mut self,
        writer: &mut Writer,
        server: &mut Client,
        replica: &mut Client,
        logged_at: Option<Instant>,
    ) {
        let has = writer.has_each(server);
        let has_replica = writer.has_each(replica);
        let last = has.iter().rposition(|has| *has);
        for (index, (_, at)) in writer.acknowledged.iter().enumerate() {
            if has[index] {
                self.at_replica += u64::from(!has_replica[index]);
            } else {
                self.lost += 1;
                // A log loses nothing but its end.
                let is_amid = last.is_some_and(|last| index < last);
                let is_logged = logged_at.is_none_or(|logged_at| *at < logged_at);
                self.logged += u64::from(is_amid || is_logged);
            }
        }
        let digests = [server, replica].map(|client| digest(client, writer.key));
        self.differing += u64::from(digests[0] != digests[1]);
        // What is lost stays lost, and is counted once.
        let mut has = has.into_iter();
        writer.acknowledged.retain(|_| has.next() == Some(true));
    }
}

pub(crate) fn run(table: &mut Table) {
    for (policy, kept) in [
        ("always", "every acknowledged addition"),
        (
            "everysec",
            "every acknowledged addition but those at the log's lost end",
        ),
    ] {
        let (added, missing) = kill(policy, scaled(ADDITIONS));
        let claim = format!("with appendfsync {policy}, a killed server has {kept}");
        let [added, lost] = [added, missing.lost].map(grouped);
        let logged = missing.logged;
        let measured =
            format!("{lost} of {added} additions missing after {KILLS} kills, {logged} wrongly");
        table.claim(&claim, &measured, logged == 0);
        let (lost, differing) = (missing.at_replica, missing.differing);
        let claim = format!("with appendfsync {policy}, a killed replica equals its primary again");
        let measured = format!("{lost} additions missing, {differing} digests different");
        table.claim(&claim, &measured, lost + differing == 0);
    }
}

/// Adds items while servers are killed, and returns the number of acknowledged additions and what was missing.
fn kill(policy: &str, additions: u64) -> (u64, Missing) {
    let mut primary = Server::with(&[("appendonly", "yes"), ("appendfsync", policy)]);
    let mut replica = Server::replica_of(&primary).start();
    let mut client = primary.client();
    let mut writers = FILTERS.map(|filter| {
        client.ok(format!("BF.RESERVE {filter}"));
        let key = filter.split(' ').next().expect("a key");
        Writer {
            key,
            next: 0,
            acknowledged: Vec::new(),
        }
    });
    let total = AtomicU64::new(0);
    let mut missing = Missing::default();
    for round in 1..=KILLS {
        eprintln!("appendfsync {policy}: kill {round} of {KILLS}");
        let logged_at = thread::scope(|scope| {
            for writer in &mut writers {
                let mut client = primary.client();
                let total = &total;
                scope.spawn(move || writer.write(&mut client, total));
            }
            let await_more = || {
                let most = total.load(Ordering::Relaxed) + additions / (3 * KILLS);
                wait_until("more is added", || total.load(Ordering::Relaxed) >= most);
            };
            await_more();
            replica.kill();
            primary.client().run("BGREWRITEAOF");
            await_more();
            replica.start_again();
            let (logged_at, log) = (Instant::now(), newest_log(&primary));
            await_more();
            primary.kill();
            if policy == "always" {
                return None;
            }
            if newest_log(&primary).0 == log.0 {
                let file = File::options().write(true).open(&log.0);
                file.and_then(|file| file.set_len(log.1))
                    .expect("the log can be cut");
            }
            logged_at.checked_sub(POSTPONED)
        });
        primary.start_again();
        wait_in_sync(&primary, &replica);
        let (mut client, mut at_replica) = (primary.client(), replica.client());
        for writer in &mut writers {
            missing.count(writer, &mut client, &mut at_replica, logged_at);
        }
    }
    (total.into_inner(), missing)
}

/// Returns the part of the log that the server writes, and its length.
fn newest_log(server: &Server) -> (PathBuf, u64) {
    let parts = fs::read_dir(server.dir().join("appendonlydir")).expect("there is a log");
    let paths = parts.map(|part| part.expect("it can be read").path());
    let incremental = paths.filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
    let number = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.split('.').nth(2)?.parse::<u32>().ok()
    };
    let newest = incremental
        .max_by_key(number)
        .expect("a part with commands");
    let length = fs::metadata(&newest).expect("the part is there").len();
    (newest, length)
}
