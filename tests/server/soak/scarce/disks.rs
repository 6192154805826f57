//! Files that can't grow, or whose folder has gone.

use std::fmt::Display;
use std::process::Command;
use std::{fs, io};

use super::known::Known;
use super::set;
use crate::harness::{Builder, Client, Server, int, ok, wait_until};
use crate::soak::{Budget, Random};
use crate::support::aof::rewrite_aof;
use crate::support::sums;

/// Returns a server that survives a file that cannot grow, as on a full disk: the signal would end it by default.
fn builder() -> Builder {
    Server::builder().launched_by(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
}

/// Limits every file of the server to this number of bytes, or to none, its log among them.
#[track_caller]
fn limit_files(server: &Server, bytes: impl Display) {
    let limit = format!("--fsize={bytes}:");
    let pid = server.pid().to_string();
    let status = Command::new("prlimit")
        .args(["--pid", &pid, &limit])
        .status();
    assert!(status.expect("prlimit is there").success());
}

#[track_caller]
fn save(server: &Server, status: &str) {
    let started = server.client().cmd("BGSAVE");
    assert!(!started.is_error(), "{started:?}");
    wait_until("the RDB is saved, or is not", || {
        server.info("persistence")["rdb_bgsave_in_progress"] == "0"
    });
    let info = server.info("persistence");
    assert_eq!(info["rdb_last_bgsave_status"], status);
}

/// Kills a server, starts it again, and checks that it has all items.
#[track_caller]
fn crash(server: &mut Server, known: &Known) -> Client {
    server.kill();
    server.start_again();
    let mut client = server.client();
    known.is_there(&mut client);
    sums::is_balanced(&mut client);
    client
}

#[test]
fn failed_saves_lose_nothing() {
    let mut random = Random::new("failed_saves_lose_nothing");
    let mut server = builder()
        .config("save", "1000000 1")
        .config("enable-protected-configs", "yes")
        .start();
    let mut known = Known::default();
    let home = server.dir().to_path_buf();
    let mut budget = Budget::rounds(6);
    for round in budget.by_ref() {
        let mut client = server.client();
        for _ in 0..10 {
            assert_eq!(known.write(&mut client, &mut random, 200), None);
        }
        let compression = random.pick(&["yes", "no"]);
        set(&mut client, &format!("rdbcompression {compression}"));
        let full = random.one_in(2);
        if full {
            // Bytes that can't be made fewer, and more of them than are allowed.
            set(&mut client, "rdbcompression no");
            assert_eq!(client.cmd("BF.RESERVE large 0.01 1000000"), ok());
            limit_files(&server, 1_000_000);
        } else {
            let gone = home.join(format!("gone-{round}"));
            fs::create_dir(&gone).expect("the folder can be written to");
            set(&mut client, &format!("dir {}", gone.display()));
            fs::remove_dir(&gone).expect("it is empty");
        }
        save(&server, "err");
        assert!(client.cmd("SAVE").is_error());
        for line in [
            "BF.ADD new x",
            "BF.MADD key-0 x y",
            "BF.INSERT new ITEMS x",
            "BF.RESERVE new 0.01 10",
            "BF.LOADCHUNK new 1 x",
            "BF.LOAD new x",
        ] {
            let refused = client.cmd(line).text();
            assert!(refused.starts_with("MISCONF "), "{line}: {refused}");
        }
        assert_eq!(client.cmd("EXISTS new"), int(0));
        known.is_there_perhaps_with(&mut client, 0);
        sums::is_balanced(&mut client);
        set(&mut client, "stop-writes-on-bgsave-error no");
        assert_eq!(known.write(&mut client, &mut random, 200), None);
        set(&mut client, "stop-writes-on-bgsave-error yes");
        let refused = known.write(&mut client, &mut random, 1);
        assert!(refused.is_some_and(|text| text.starts_with("MISCONF ")));

        limit_files(&server, "unlimited");
        set(&mut client, &format!("dir {}", home.display()));
        set(&mut client, "stop-writes-on-bgsave-error no");
        assert_eq!(client.cmd("DEL large"), int(i64::from(full)));
        set(&mut client, "stop-writes-on-bgsave-error yes");
        save(&server, "ok");
        assert_eq!(known.write(&mut client, &mut random, 200), None);
        save(&server, "ok");
        let digests = known.digests(&mut client);
        let mut client = crash(&mut server, &known);
        assert_eq!(known.digests(&mut client), digests);
    }
    eprintln!("{} rounds, {} items", budget.done(), known.items());
}

/// Returns the bytes of the largest file of the AOF whose name ends so.
fn log_bytes(server: &Server, end: &str) -> u64 {
    let files = fs::read_dir(server.dir().join("appendonlydir")).expect("the server has an AOF");
    let files = files.filter_map(Result::ok);
    let files = files.filter(|file| file.file_name().to_string_lossy().ends_with(end));
    let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    sizes.max().expect("it has a file")
}

/// Lets the log grow by some bytes only, and adds items until that stops it. Returns the refusal, or the end of the
/// connection.
#[track_caller]
fn fill_log(
    server: &Server,
    known: &mut Known,
    random: &mut Random,
    end: &str,
) -> io::Result<String> {
    let room = 20_000 + random.below(100_000) as u64;
    limit_files(server, log_bytes(server, end) + room);
    let mut client = server.client();
    loop {
        let count = 1 + random.below(400);
        if let Some(refusal) = known.try_write(&mut client, random, count)? {
            return Ok(refusal);
        }
    }
}

/// Acknowledged items stay, but a counter may have counted one twice. A server whose log is full keeps its last write
/// in a buffer. A rewrite that begins then puts this write into the new base file, and the buffer into the new log
/// after it, so a restart applies it again (Valkey 9.1 does so with INCR and APPEND). Bits do not change by that, nor
/// does BF.CARD; counters do. Hence an object is unchanged, or has that one write repeated.
#[test]
fn a_log_that_cannot_grow_stops_writes() {
    let mut random = Random::new("a_log_that_cannot_grow_stops_writes");
    let mut server = builder()
        .config("appendonly", "yes")
        .config("auto-aof-rewrite-percentage", "0")
        .start();
    let mut known = Known::default();
    let (mut refused, mut rewritten) = (0, 0);
    let mut budget = Budget::rounds(3);
    for _ in budget.by_ref() {
        let mut client = server.client();
        let syncs = random.one_in(2);
        let fsync = if syncs { "everysec" } else { "no" };
        set(&mut client, &format!("appendfsync {fsync}"));
        let refusal = fill_log(&server, &mut known, &mut random, ".aof").expect("a reply");
        assert!(refusal.starts_with("MISCONF "), "{refusal}");
        refused += 1;
        let mut buffered = None;
        known.is_there(&mut client);
        sums::is_balanced(&mut client);
        // It may fail, or make room. While a server syncs it puts writes off, more of them perhaps than
        // there will be room for in the log that the rewrite begins; see below.
        if !syncs && random.one_in(2) {
            assert!(!client.cmd("BGREWRITEAOF").is_error());
            wait_until("the rewrite ends", || {
                server.info("persistence")["aof_rewrite_in_progress"] == "0"
            });
            rewritten += 1;
            buffered = Some(known.last.clone());
        }
        limit_files(&server, "unlimited");
        wait_until("the server writes again", || {
            let count = 1 + random.below(400);
            known.write(&mut client, &mut random, count).is_none()
        });
        for _ in 0..10 {
            assert_eq!(known.write(&mut client, &mut random, 50), None);
        }
        let mut expected = vec![known.digests(&mut client)];
        if let Some(command) = &buffered {
            expected.push(known.digests_with_a_repeat(&mut client, command));
        }
        wait_until("the server has written all", || {
            server.info("persistence")["aof_buffer_length"] == "0"
        });
        let mut client = crash(&mut server, &known);
        let digests = known.digests(&mut client);
        assert!(expected.contains(&digests), "{digests:?} {expected:?}");
        if known.items() > 200_000 {
            known = Known::default();
            assert_eq!(client.cmd("FLUSHALL"), ok());
        }
        // Servers do not append to a log that a rewrite has begun: a write that failed half way leaves a hole in it,
        // and no server starts with that. They do append to a log opened at their start.
        rewrite_aof(&server);
        server.restart();
    }
    let rounds = budget.done();
    eprintln!("{rounds} rounds, {refused} times full, {rewritten} rewrites of a full log");
}

#[test]
fn a_log_that_cannot_grow_ends_a_server_that_syncs_always() {
    let mut random = Random::new("a_log_that_cannot_grow_ends_a_server_that_syncs_always");
    let mut server = builder()
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("auto-aof-rewrite-percentage", "0")
        .start();
    let mut known = Known::default();
    let mut budget = Budget::rounds(5);
    for _ in budget.by_ref() {
        let refusal = fill_log(&server, &mut known, &mut random, ".incr.aof");
        assert!(refusal.is_err(), "{refusal:?}");
        // It has ended by itself. The write without a reply is not to be found: it was not in the log as a whole.
        crash(&mut server, &known);
        rewrite_aof(&server);
    }
    eprintln!("{} ends, {} items", budget.done(), known.items());
}
