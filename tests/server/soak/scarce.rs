//! Where memory, disks and buffers end, what was acknowledged stands and the server goes on.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::process::Command;

use super::{Budget, Random, dump_of};
use crate::aof::rewrite_aof;
use crate::harness::{
    Builder, Client, Reply, Server, digest, error, int, ok, wait_in_sync, wait_until,
};
use crate::pieces::{load_chunks, pieces, split};
use crate::sums;
use crate::usage::memory;

#[derive(Default)]
struct Known {
    /// The items that each object was seen to take, and how many of these it called new.
    objects: BTreeMap<String, (HashSet<usize>, i64)>,
    /// The last command that was obeyed.
    last: Vec<Vec<u8>>,
}

impl Known {
    /// Adds items to a key at random, one that exists already or is new. Gives the text of a refusal.
    /// An error is that of a connection that came to an end, and of no reply.
    fn try_write(
        &mut self,
        client: &mut Client,
        random: &mut Random,
        count: usize,
    ) -> std::io::Result<Option<String>> {
        let key = format!("key-{}", random.below(10));
        let items: Vec<usize> = (0..count).map(|_| random.below(1_000_000)).collect();
        let words: Vec<String> = items.iter().map(|item| format!("item-{item}")).collect();
        let mut args: Vec<&[u8]> = vec![b"BF.INSERT", key.as_bytes(), b"CAPACITY"];
        args.push(random.pick(&["100", "30000"]).as_bytes());
        match key.as_str() {
            "key-8" => args.push(b"COUNTING"),
            // None of its periods ends while a test runs.
            "key-9" => args.extend([b"WINDOW", &b"1000000000000"[..], b"PERIODS", b"2"]),
            _ => {}
        }
        args.push(b"ITEMS");
        args.extend(words.iter().map(String::as_bytes));
        let answers = match client.try_call(&args)? {
            Reply::Error(text) => return Ok(Some(text)),
            answers => answers,
        };
        let (known, cardinality) = self.objects.entry(key.clone()).or_default();
        for (item, answer) in items.iter().zip(answers.as_array()) {
            let new = answer.as_int();
            assert!(new == 0 || !known.contains(item), "{item} was denied");
            *cardinality += new;
            known.insert(*item);
        }
        self.last = args.into_iter().map(<[u8]>::to_vec).collect();
        Ok(None)
    }

    #[track_caller]
    fn write(&mut self, client: &mut Client, random: &mut Random, count: usize) -> Option<String> {
        let written = self.try_write(client, random, count);
        written.expect("the server replies")
    }

    /// All is there; `more` may be, that nobody was told of.
    #[track_caller]
    fn is_there_perhaps_with(&self, client: &mut Client, more: i64) {
        for (key, (items, cardinality)) in &self.objects {
            let card = client.cmd(&format!("BF.CARD {key}")).as_int();
            let beyond = card - cardinality;
            assert!((0..=more).contains(&beyond), "{key}: {card} {cardinality}");
            let words: Vec<String> = items.iter().map(|item| format!("item-{item}")).collect();
            let answers = client.cmd(&format!("BF.MEXISTS {key} {}", words.join(" ")));
            let denied = answers.as_array().iter().filter(|a| **a != int(1)).count();
            assert_eq!(denied, 0, "items of {key} are denied");
        }
    }

    #[track_caller]
    fn is_there(&self, client: &mut Client) {
        self.is_there_perhaps_with(client, 0);
        let keys = i64::try_from(self.objects.len()).expect("a few");
        assert_eq!(client.cmd("DBSIZE"), int(keys));
    }

    fn items(&self) -> usize {
        self.objects.values().map(|(items, _)| items.len()).sum()
    }

    fn digests(&self, client: &mut Client) -> Vec<String> {
        self.objects.keys().map(|key| digest(client, key)).collect()
    }

    /// The digests as they would be if a command that was obeyed were applied once more.
    fn digests_with_a_repeat(&self, client: &mut Client, command: &[Vec<u8>]) -> Vec<String> {
        let key = String::from_utf8(command[1].clone()).expect("keys are text");
        let copy = "repeated";
        assert_eq!(client.cmd(&format!("COPY {key} {copy}")), int(1));
        let mut args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        args[1] = copy.as_bytes();
        assert!(!client.call(&args).is_error());
        let keys = self.objects.keys();
        let digests = keys.map(|name| digest(client, if *name == key { copy } else { name }));
        let digests = digests.collect();
        assert_eq!(client.cmd(&format!("DEL {copy}")), int(1));
        digests
    }
}

fn stat(server: &Server, field: &str) -> i64 {
    server.info("stats")[field].parse().expect("a number")
}

const POLICIES: [&str; 8] = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

/// What scripts are told where memory has ended, and that nothing comes of it.
#[track_caller]
fn scripts_are_refused(client: &mut Client) {
    let script = |client: &mut Client, body: &str| {
        let eval: [&[u8]; 4] = [b"EVAL", body.as_bytes(), b"1", b"scripted"];
        client.call(&eval)
    };
    for body in [
        "return redis.call('BF.ADD', KEYS[1], 'x')",
        "return redis.pcall('BF.RESERVE', KEYS[1], '0.01', '10')",
        "redis.call('BF.EXISTS', KEYS[1], 'x') return redis.call('BF.MADD', KEYS[1], 'x', 'y')",
    ] {
        let refused = script(client, body).text();
        assert!(refused.contains("OOM command not allowed"), "{refused}");
    }
    let read = "return redis.call('BF.CARD', KEYS[1])";
    assert_eq!(script(client, read), int(0));
    assert_eq!(client.cmd("EXISTS scripted"), int(0));
    let allowed = "#!lua flags=allow-oom\nreturn redis.call('BF.MADD', KEYS[1], 'x', 'y')";
    assert_eq!(script(client, allowed).as_array().len(), 2);
    assert_eq!(client.cmd("BF.CARD scripted"), int(2));
    assert_eq!(client.cmd("DEL scripted"), int(1));

    assert_eq!(client.cmd("MULTI"), ok());
    let refused = client.cmd("BF.ADD queued x").text();
    assert!(refused.starts_with("OOM "), "{refused}");
    let aborted = client.cmd("EXEC").text();
    assert!(aborted.starts_with("EXECABORT "), "{aborted}");
    assert_eq!(client.cmd("EXISTS queued"), int(0));
}

#[test]
fn every_policy_of_eviction() {
    let mut random = Random::new("every_policy_of_eviction");
    let server = Server::start();
    let mut client = server.client();
    let mut budget = Budget::rounds(POLICIES.len() as u64);
    let (mut evicted_ever, mut refused_ever) = (0, 0);
    for round in budget.by_ref() {
        let policy = POLICIES[usize::try_from(round).expect("a few") % POLICIES.len()];
        assert_eq!(client.cmd("FLUSHALL SYNC"), ok());
        assert_eq!(
            client.cmd(&format!("CONFIG SET maxmemory-policy {policy}")),
            ok()
        );
        let lazy = random.pick(&["yes", "no"]);
        let set = format!("CONFIG SET lazyfree-lazy-eviction {lazy}");
        assert_eq!(client.cmd(&set), ok());
        assert_eq!(client.cmd("CONFIG RESETSTAT"), ok());
        let limit = memory(&server, "used_memory") + (12 << 20);
        assert_eq!(client.cmd(&format!("CONFIG SET maxmemory {limit}")), ok());

        let (mut lasting, mut volatile, mut refused) = (HashSet::new(), HashSet::new(), 0);
        for number in 0..200 {
            let key = format!("key-{number}");
            let capacity = random.pick(&[100, 5000, 50_000, 200_000]);
            let kind = random.pick(&["", " COUNTING", " WINDOW 1000000000000 PERIODS 2"]);
            let create = format!("BF.INSERT {key} CAPACITY {capacity}{kind} ITEMS a b c");
            match client.cmd(&create) {
                Reply::Error(text) => {
                    assert!(text.starts_with("OOM command not allowed"), "{text}");
                    assert_eq!(client.cmd(&format!("EXISTS {key}")), int(0), "{key}");
                    refused += 1;
                }
                answers => {
                    assert_eq!(answers.as_array().len(), 3);
                    // Before it may be evicted.
                    let expires = random.one_in(2)
                        && client.cmd(&format!("PEXPIRE {key} 100000000")) == int(1);
                    let keys = if expires { &mut volatile } else { &mut lasting };
                    keys.insert(key);
                }
            }
            // More for one of those before, which may have gone.
            let key = format!("key-{}", random.below(number + 1));
            let add = format!("BF.INSERT {key} NOCREATE ITEMS d e");
            if let Reply::Error(text) = client.cmd(&add) {
                let expected = text == "ERR not found" || text.starts_with("OOM ");
                assert!(expected, "{text}");
            }
        }
        if policy == "noeviction" {
            assert!(refused > 0);
            assert_eq!(client.cmd("CONFIG SET maxmemory 1"), ok());
            scripts_are_refused(&mut client);
        }
        assert_eq!(client.cmd("CONFIG SET maxmemory 0"), ok());
        sums::is_balanced(&mut client);
        let keys = client.cmd("KEYS *");
        let keys: HashSet<String> = keys.as_array().iter().map(Reply::text).collect();
        let created = lasting.len() + volatile.len();
        let evicted = usize::try_from(stat(&server, "evicted_keys")).expect("a count");
        assert_eq!(keys.len(), created - evicted, "{policy}");
        assert!(
            keys.iter()
                .all(|k| lasting.contains(k) || volatile.contains(k))
        );
        if !policy.starts_with("allkeys") {
            assert!(lasting.is_subset(&keys), "{policy}");
        }
        assert_eq!(evicted == 0, policy == "noeviction", "{policy}");
        for key in &keys {
            let answers = client.cmd(&format!("BF.MEXISTS {key} a b c"));
            assert!(answers.as_array().iter().all(|a| *a == int(1)), "{key}");
        }
        evicted_ever += evicted;
        refused_ever += refused;
    }
    let rounds = budget.done();
    eprintln!("{rounds} rounds, {evicted_ever} evicted, {refused_ever} refused");
}

/// A server that is told of a file that may not grow, as of a full disk: by default it would end.
fn builder() -> Builder {
    Server::builder().launched_by(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
}

/// Lets no file of the server grow beyond so many bytes, its log among them.
#[track_caller]
fn limit_files(server: &Server, bytes: &str) {
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

#[test]
fn saves_that_fail() {
    let mut random = Random::new("saves_that_fail");
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
        let set = format!("CONFIG SET rdbcompression {compression}");
        assert_eq!(client.cmd(&set), ok());
        let full = random.one_in(2);
        if full {
            // Bytes that can't be made fewer, and more of them than are allowed.
            assert_eq!(client.cmd("CONFIG SET rdbcompression no"), ok());
            assert_eq!(client.cmd("BF.RESERVE large 0.01 1000000"), ok());
            limit_files(&server, "1000000");
        } else {
            let gone = home.join(format!("gone-{round}"));
            fs::create_dir(&gone).expect("the folder can be written to");
            let set = format!("CONFIG SET dir {}", gone.display());
            assert_eq!(client.cmd(&set), ok());
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
        let go_on = "CONFIG SET stop-writes-on-bgsave-error no";
        assert_eq!(client.cmd(go_on), ok());
        assert_eq!(known.write(&mut client, &mut random, 200), None);
        let stop = "CONFIG SET stop-writes-on-bgsave-error yes";
        assert_eq!(client.cmd(stop), ok());
        let refused = known.write(&mut client, &mut random, 1);
        assert!(refused.is_some_and(|text| text.starts_with("MISCONF ")));

        limit_files(&server, "unlimited");
        let set = format!("CONFIG SET dir {}", home.display());
        assert_eq!(client.cmd(&set), ok());
        assert_eq!(
            client.cmd("CONFIG SET stop-writes-on-bgsave-error no"),
            ok()
        );
        assert_eq!(client.cmd("DEL large"), int(i64::from(full)));
        assert_eq!(
            client.cmd("CONFIG SET stop-writes-on-bgsave-error yes"),
            ok()
        );
        save(&server, "ok");
        assert_eq!(known.write(&mut client, &mut random, 200), None);
        save(&server, "ok");
        let digests = known.digests(&mut client);
        server.kill();
        server.start_again();
        let mut client = server.client();
        known.is_there(&mut client);
        assert_eq!(known.digests(&mut client), digests);
        sums::is_balanced(&mut client);
    }
    eprintln!("{} rounds, {} items", budget.done(), known.items());
}

/// The bytes of the largest file of the AOF whose name ends so.
fn log_bytes(server: &Server, end: &str) -> u64 {
    let files = fs::read_dir(server.dir().join("appendonlydir")).expect("the server has an AOF");
    let files = files.filter_map(Result::ok);
    let files = files.filter(|file| file.file_name().to_string_lossy().ends_with(end));
    let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
    sizes.max().expect("it has a file")
}

/// What was acknowledged stands, but a counter may have counted it twice. A server whose log is full keeps
/// its last write in a buffer. A rewrite that begins then puts this write into the new base file, and the
/// buffer into the new log behind it, so a restart applies it again (Valkey 9.1 does so with INCR and APPEND).
/// Bits do not change by that, nor does BF.CARD; counters do. Hence an object is what it was, or what it was
/// with that one write repeated.
#[test]
fn a_log_that_can_not_grow() {
    let mut random = Random::new("a_log_that_can_not_grow");
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
        let set = format!("CONFIG SET appendfsync {fsync}");
        assert_eq!(client.cmd(&set), ok());
        let room = 20_000 + random.below(100_000) as u64;
        limit_files(&server, &(log_bytes(&server, ".aof") + room).to_string());
        let refusal = loop {
            let count = 1 + random.below(400);
            if let Some(text) = known.write(&mut client, &mut random, count) {
                break text;
            }
        };
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
        server.kill();
        server.start_again();
        let mut client = server.client();
        known.is_there(&mut client);
        let digests = known.digests(&mut client);
        assert!(expected.contains(&digests), "{digests:?} {expected:?}");
        sums::is_balanced(&mut client);
        if known.items() > 200_000 {
            known = Known::default();
            assert_eq!(client.cmd("FLUSHALL"), ok());
        }
        // To a log that a rewrite has begun servers do not append: after a write that failed half way
        // they leave a hole in it, and no server starts with that. To a log opened at their start they do.
        rewrite_aof(&server);
        server.restart();
    }
    let rounds = budget.done();
    eprintln!("{rounds} rounds, {refused} times full, {rewritten} rewrites of a full log");
}

#[test]
fn a_log_that_can_not_grow_ends_a_server_that_promised_to_sync() {
    let mut random = Random::new("a_log_that_can_not_grow_ends_a_server_that_promised_to_sync");
    let mut server = builder()
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("auto-aof-rewrite-percentage", "0")
        .start();
    let mut known = Known::default();
    let mut budget = Budget::rounds(5);
    for _ in budget.by_ref() {
        let mut client = server.client();
        let room = 20_000 + random.below(100_000) as u64;
        limit_files(
            &server,
            &(log_bytes(&server, ".incr.aof") + room).to_string(),
        );
        loop {
            let count = 1 + random.below(400);
            match known.try_write(&mut client, &mut random, count) {
                Ok(refusal) => assert_eq!(refusal, None),
                Err(_) => break,
            }
        }
        // It has ended by itself.
        server.kill();
        server.start_again();
        let mut client = server.client();
        // The write without a reply is not to be found: it was not in the log as a whole.
        known.is_there(&mut client);
        sums::is_balanced(&mut client);
        rewrite_aof(&server);
    }
    eprintln!("{} ends, {} items", budget.done(), known.items());
}

#[track_caller]
fn signal(server: &Server, name: &str) {
    let pid = server.pid().to_string();
    let status = Command::new("kill").args([name, &pid]).status();
    assert!(status.expect("kill is there").success());
}

#[track_caller]
fn hold_the_same(primary: &Server, replica: &Server, known: &Known) {
    wait_in_sync(primary, replica);
    let (mut one, mut two) = (primary.client(), replica.client());
    known.is_there(&mut one);
    known.is_there(&mut two);
    assert_eq!(known.digests(&mut one), known.digests(&mut two));
    sums::is_balanced(&mut one);
    sums::is_balanced(&mut two);
}

#[test]
fn a_replica_that_is_cut_off_in_the_middle() {
    let mut random = Random::new("a_replica_that_is_cut_off_in_the_middle");
    let primary = Server::with(&[
        ("client-output-buffer-limit", "replica 300kb 0 0"),
        ("repl-backlog-size", "16kb"),
    ]);
    let mut client = primary.client();
    let replica = Server::replica_of(&primary)
        .config("bf.bloom-memory-usage-limit", "1")
        .start();
    let mut known = Known::default();
    let mut budget = Budget::rounds(3);
    let mut bytes = 0;
    for _ in budget.by_ref() {
        wait_in_sync(&primary, &replica);
        let full = stat(&primary, "sync_full");
        signal(&replica, "-STOP");
        wait_until("the replica is cut off", || {
            assert_eq!(known.write(&mut client, &mut random, 15_000), None);
            bytes += 15_000 * 20;
            primary.info("replication")["connected_slaves"] == "0"
        });
        signal(&replica, "-CONT");
        // These come while it is getting all again, and may cut it off once more.
        for _ in 0..random.below(20) {
            assert_eq!(known.write(&mut client, &mut random, 15_000), None);
        }
        hold_the_same(&primary, &replica, &known);
        assert!(stat(&primary, "sync_full") > full);
        known = Known::default();
        assert_eq!(client.cmd("FLUSHALL"), ok());
    }
    let full = stat(&primary, "sync_full");
    let rounds = budget.done();
    eprintln!("{rounds} rounds, {full} full resyncs, about {bytes} bytes");
}

#[test]
fn a_replica_with_less_memory_follows() {
    let mut random = Random::new("a_replica_with_less_memory_follows");
    let primary = Server::start();
    let mut client = primary.client();
    let mut known = Known::default();
    assert_eq!(known.write(&mut client, &mut random, 500), None);
    let mut budget = Budget::rounds(3);
    for _ in budget.by_ref() {
        let mut replica = Server::replica_of(&primary)
            .config("bf.bloom-memory-usage-limit", "1")
            .config("bf.bloom-filter-max-memory-usage", "1")
            .config("maxmemory", "1")
            .config("maxmemory-policy", POLICIES[random.below(POLICIES.len())])
            .start();
        hold_the_same(&primary, &replica, &known);
        for _ in 0..100 {
            assert_eq!(known.write(&mut client, &mut random, 100), None);
        }
        hold_the_same(&primary, &replica, &known);
        replica.restart_saving();
        assert_eq!(known.write(&mut client, &mut random, 100), None);
        hold_the_same(&primary, &replica, &known);
        assert_eq!(stat(&replica, "evicted_keys"), 0);

        // As a primary it obeys its own settings.
        let mut own = replica.client();
        assert_eq!(own.cmd("CONFIG SET maxmemory-policy noeviction"), ok());
        assert_eq!(own.cmd("REPLICAOF NO ONE"), ok());
        let refused = own.cmd("BF.ADD key-0 x").text();
        assert!(refused.starts_with("OOM "), "{refused}");
        known.is_there(&mut own);
        assert_eq!(own.cmd("CONFIG SET maxmemory 0"), ok());
        let limit = error("ERR operation exceeds bloom object memory limit");
        assert_eq!(own.cmd("BF.RESERVE new 0.01 10"), limit);
        let items: Vec<String> = (0..3_000_000).step_by(20).map(|i| i.to_string()).collect();
        let key = known.objects.keys().next().expect("there are some");
        let answers = own.cmd(&format!("BF.MADD {key} {}", items.join(" ")));
        assert_eq!(answers.as_array().last(), Some(&limit));
        sums::is_balanced(&mut own);
        assert_eq!(own.cmd(&format!("DEL {key}")), int(1));
    }
    eprintln!("{} replicas, {} items", budget.done(), known.items());
}

#[track_caller]
fn limit_replies(client: &mut Client, limit: &str) {
    let name = b"client-output-buffer-limit";
    let set: [&[u8]; 4] = [b"CONFIG", b"SET", name, limit.as_bytes()];
    assert_eq!(client.call(&set), ok());
}

const MANY: usize = 100_000;

#[test]
fn a_reply_larger_than_its_buffer() {
    let server = Server::start();
    let mut client = server.client();
    let items: Vec<String> = (0..MANY).map(|i| format!("item-{i}")).collect();
    let command = |name: &'static str, key: &'static str| {
        let mut args: Vec<&[u8]> = vec![name.as_bytes(), key.as_bytes()];
        args.extend(items.iter().map(String::as_bytes));
        args
    };
    let ones = |answers: &Reply| {
        let answers = answers.as_array();
        answers.iter().filter(|answer| **answer == int(1)).count()
    };
    assert_eq!(client.cmd("BF.RESERVE large 0.01 20000000"), ok());
    let added = client.call(&command("BF.MADD", "key"));
    assert_eq!(added.as_array().len(), MANY);
    let most = i64::try_from(MANY).expect("it fits");
    let new = i64::try_from(ones(&added)).expect("it fits");
    assert_eq!(client.cmd("BF.CARD key"), int(new));
    // Nothing is to be kept of commands that are slow or large; some servers keep the slow ones only.
    for log in [
        "slowlog-log-slower-than",
        "commandlog-request-larger-than",
        "commandlog-reply-larger-than",
    ] {
        client.cmd(&format!("CONFIG SET {log} -1"));
    }
    let before = memory(&server, "used_memory");
    let memory_is_freed = || {
        wait_until("the memory is given back", || {
            memory(&server, "used_memory") < before + (512 << 10)
        });
    };
    let mut budget = Budget::rounds(2);
    for round in budget.by_ref() {
        limit_replies(&mut client, "normal 200kb 0 0");
        for name in ["BF.MEXISTS", "BF.INSERT", "BF.MADD", "BF.SCANDUMP"] {
            let args = match name {
                "BF.SCANDUMP" => vec![b"BF.SCANDUMP".as_slice(), b"large", b"1"],
                "BF.INSERT" => {
                    let mut args = command(name, "key");
                    args.insert(2, b"ITEMS");
                    args
                }
                "BF.MADD" => command(name, "other"),
                name => command(name, "key"),
            };
            let dropped = server.client().try_call(&args);
            assert!(dropped.is_err(), "{name} of round {round}");
        }
        // What was done stands, though nobody was told.
        let other = client.cmd("BF.CARD other").as_int();
        assert!((most - most / 20..=most).contains(&other), "{other}");
        limit_replies(&mut client, "normal 0 0 0");
        for key in ["key", "other"] {
            let answers = server.client().call(&command("BF.MEXISTS", key));
            assert_eq!(ones(&answers), MANY);
        }
        let answers = server.client3().call(&command("BF.MEXISTS", "key"));
        let yes = answers
            .as_array()
            .iter()
            .filter(|a| **a == Reply::Bool(true));
        assert_eq!(yes.count(), MANY);
        assert_eq!(client.cmd("DEL other"), int(1));
        memory_is_freed();

        // All connections together.
        assert_eq!(client.cmd("CONFIG SET maxmemory-clients 1mb"), ok());
        let dropped = server.client().try_call(&command("BF.MEXISTS", "key"));
        assert!(dropped.is_err(), "{round}");
        assert_eq!(client.cmd("CONFIG SET maxmemory-clients 0"), ok());
        memory_is_freed();
        sums::is_balanced(&mut client);
    }
    let more = memory(&server, "used_memory") - before;
    eprintln!("{} rounds, {more} bytes more than before", budget.done());
}

#[test]
fn arguments_larger_than_the_protocol_may_carry() {
    let too_large = "ERR Protocol error: invalid bulk length";
    let mut server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
        ("proto-max-bulk-len", "1mb"),
    ]);
    let replica = Server::replica_of(&server)
        .config("proto-max-bulk-len", "1mb")
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE key 0.01 20000000"), ok());
    let items: Vec<String> = (0..20_000).map(|i| i.to_string()).collect();
    assert!(
        !client
            .cmd(&format!("BF.MADD key {}", items.join(" ")))
            .is_error()
    );
    let expected = digest(&mut client, "key");

    // One chunk is as large as ever, and does not fit into an argument.
    let chunks = pieces(&mut client, "key");
    assert_eq!(chunks[1].1.len(), 4 << 20);
    load_chunks(&mut client, "chunked", &chunks[..1]);
    let cursor = chunks[1].0.to_string();
    let mut sender = server.client();
    let header = format!(
        "*4\r\n$12\r\nBF.LOADCHUNK\r\n$7\r\nchunked\r\n${}\r\n",
        cursor.len()
    );
    let begun = format!("{header}{cursor}\r\n${}\r\n", chunks[1].1.len());
    assert_eq!(sender.raw(begun.as_bytes()), error(too_large));
    let finer = split(&chunks, 1 << 20);
    load_chunks(&mut client, "chunked", &finer[1..]);
    assert_eq!(digest(&mut client, "chunked"), expected);

    let dump = dump_of(&chunks);
    let load: [&[u8]; 3] = [b"BF.LOAD", b"loaded", &dump];
    let begun = format!("*3\r\n$7\r\nBF.LOAD\r\n$6\r\nloaded\r\n${}\r\n", dump.len());
    assert_eq!(server.client().raw(begun.as_bytes()), error(too_large));
    assert_eq!(client.cmd("EXISTS loaded"), int(0));
    // The primary's word counts, and the log's.
    assert_eq!(client.cmd("CONFIG SET proto-max-bulk-len 512mb"), ok());
    assert_eq!(client.call(&load), ok());
    wait_in_sync(&server, &replica);
    let hold = |client: &mut Client| {
        for key in ["key", "chunked", "loaded"] {
            assert_eq!(digest(client, key), expected, "{key}");
        }
        sums::is_balanced(client);
    };
    hold(&mut replica.client());
    for rewritten in [false, true] {
        if rewritten {
            rewrite_aof(&server);
        }
        server.kill();
        server.start_again();
        let mut client = server.client();
        let limit = client.cmd("CONFIG GET proto-max-bulk-len");
        assert_eq!(limit.as_array()[1].text(), "1048576");
        hold(&mut client);
    }
}
