//! Runs that are killed, interrupted, cut off or lose their server, and go on: whatever happened, each item counts once.

use std::collections::HashMap;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::Value;

use crate::example::valkeybloom;
use crate::harness::{Client, Reply, Server, array, cluster, digest, int, ok, wait_until};
use crate::support::Rng;
use crate::support::cutter::Cutter;

use super::{Way, command, ended, kill, lines, numbered, receipts, run_line, url};

/// A way of adding to a key, or of removing from it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Bloom,
    CountMin,
    TopK,
    Digest,
    RemoveBloom,
    RemoveCuckoo,
}

use Kind::{Bloom, CountMin, Digest, RemoveBloom, RemoveCuckoo, TopK};

const KINDS: [Kind; 6] = [Bloom, CountMin, TopK, Digest, RemoveBloom, RemoveCuckoo];

/// A run over a list of numbers, some of which come several times.
struct Job {
    kind: Kind,
    key: String,
    items: Vec<String>,
    /// The command line, up to the server.
    line: String,
}

impl Job {
    /// Creates the key, which is wide enough for exact counts.
    fn new(server: &Server, kind: Kind, seed: u64) -> Self {
        let mut client = server.client();
        let mut rng = Rng::new(seed);
        let items = (0..12_000).map(|_| (1_000_000 + rng.below(8000)).to_string());
        let items: Vec<String> = items.collect();
        let key = format!("{kind:?}{seed}");
        client.ok(match kind {
            Bloom | RemoveBloom => format!("BF.RESERVE {key} 0.000000000001 20000 COUNTING"),
            CountMin => format!("CMS.INITBYDIM {key} 200000 5"),
            TopK => format!("TOPK.RESERVE {key} 9000 100000 5 0.9"),
            Digest => format!("TDIGEST.CREATE {key}"),
            RemoveCuckoo => format!("CF.RESERVE {key} 40000"),
        });
        let add = match kind {
            RemoveBloom => "BF.MADD",
            RemoveCuckoo => "CF.INSERT",
            _ => "",
        };
        if !add.is_empty() {
            let word = if kind == RemoveCuckoo { " ITEMS" } else { "" };
            for batch in once_and_a_half(&items).chunks(1000) {
                client.call_with(&format!("{add} {key}{word}"), batch);
            }
        }
        if kind == RemoveCuckoo {
            client.expect(format!("COPY {key} {key}-copy"), int(1));
        }
        let list = lines(server, &format!("list-{key}"), &items);
        let line = if add.is_empty() {
            format!("build {list} --add --json --key {key} --to")
        } else {
            format!("remove {list} --json --key {key} --from")
        };
        Self {
            kind,
            key,
            items,
            line,
        }
    }

    /// Runs it to its end at an address.
    fn run(&self, to: &str) -> Output {
        self.start(to).wait_with_output().expect("it is ours")
    }

    fn start(&self, to: &str) -> Child {
        let words = format!("{} {to}", self.line);
        let mut command = command(&words.split(' ').collect::<Vec<_>>());
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().expect("the program runs")
    }

    /// Requires that each item counts as often as the list has it, and that the last run's report says so.
    #[track_caller]
    fn assert_done(&self, client: &mut Client, last: &Output) {
        let report = report(last);
        let goes_on = String::from_utf8_lossy(&last.stderr).contains("going on after ");
        let Self {
            kind, key, items, ..
        } = self;
        assert_eq!(report["items"], items.len(), "{report}");
        let counts = counts_of(items);
        match kind {
            Bloom => {
                self.assert_counts(client, &counts);
                let new = if goes_on {
                    Value::Null
                } else {
                    counts.len().into()
                };
                assert_eq!(report["new"], new);
            }
            CountMin => {
                let counts: Vec<_> = counts.into_iter().collect();
                for batch in counts.chunks(1000) {
                    let items: Vec<&str> = batch.iter().map(|(item, _)| *item).collect();
                    let found = client.call_with(&format!("CMS.QUERY {key}"), &items);
                    let found: Vec<i64> = found.as_array().iter().map(Reply::as_int).collect();
                    assert!(batch.iter().map(|(_, count)| count).eq(&found));
                }
            }
            TopK => {
                let found = client.cmd(&format!("TOPK.LIST {key} WITHCOUNT"));
                let found = found.as_array().chunks(2);
                let found: HashMap<_, _> = found.map(|of| (of[0].text(), of[1].as_int())).collect();
                let counts = counts.into_iter();
                let counts: HashMap<_, _> = counts.map(|(item, n)| (item.to_owned(), n)).collect();
                assert_eq!(found, counts);
            }
            Digest => {
                client.ok("TDIGEST.CREATE same");
                for batch in items.chunks(1000) {
                    client.call_with("TDIGEST.ADD same", batch);
                }
                assert_eq!(digest(client, key), digest(client, "same"));
                client.expect("DEL same", int(1));
            }
            RemoveBloom | RemoveCuckoo => self.assert_removed(client, counts, &report),
        }
        assert_eq!(receipts(client), [""; 0]);
    }

    #[track_caller]
    fn assert_removed(&self, client: &mut Client, counts: HashMap<&str, i64>, report: &Value) {
        let mut removed = 0;
        if self.kind == RemoveCuckoo {
            let copy = format!("{}-copy", self.key);
            for item in &self.items {
                let reply = client.call(&[b"CF.DEL", copy.as_bytes(), item.as_bytes()]);
                removed += reply.as_int();
            }
            assert_eq!(digest(client, &self.key), digest(client, &copy));
        } else {
            let added = once_and_a_half(&self.items);
            let mut left = counts_of(&added);
            for (item, count) in counts {
                let left = left.entry(item).or_default();
                removed += count.min(*left);
                *left -= count.min(*left);
            }
            self.assert_counts(client, &left);
        }
        assert_eq!(report["removed"], removed);
        let all = i64::try_from(self.items.len()).expect("it is small");
        assert_eq!(report["absent"], all - removed);
    }

    #[track_caller]
    fn assert_counts(&self, client: &mut Client, counts: &HashMap<&str, i64>) {
        for (item, count) in counts {
            let found = client.call(&[b"BF.COUNT", self.key.as_bytes(), item.as_bytes()]);
            assert_eq!(found, int(*count), "{item}");
        }
    }
}

/// Returns two thirds of a list, and a third of it again.
fn once_and_a_half(items: &[String]) -> Vec<String> {
    let (first, second) = (items.len() * 2 / 3, items.len() / 3);
    [&items[..first], &items[..second]].concat()
}

/// Returns how often each item comes.
fn counts_of(items: &[String]) -> HashMap<&str, i64> {
    let mut counts = HashMap::new();
    for item in items {
        *counts.entry(item.as_str()).or_default() += 1;
    }
    counts
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// Returns the address of [`Way::of`].
fn way(server: &Server, bytes: usize, then: impl FnOnce() -> bool + Send + 'static) -> String {
    Way::of(server, bytes, then).url()
}

/// Starts a job on a way on which a signal comes to the program after this number of bytes. Nothing more arrives then.
fn interrupt(server: &Server, job: &Job, bytes: usize, signal: &'static str) -> Output {
    let (started, child): (Sender<u32>, Receiver<u32>) = channel();
    let (ended, end) = channel::<()>();
    let to = way(server, bytes, move || {
        let pid = child.recv().expect("it has started").to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill is there").success());
        // The program may not see its connection end before the signal.
        end.recv().is_ok()
    });
    let program = job.start(&to);
    started.send(program.id()).expect("the way waits for it");
    let output = program.wait_with_output().expect("it is ours");
    drop(ended);
    output
}

#[test]
fn runs_that_are_killed_go_on() {
    let server = Server::start();
    let mut client = server.client();
    let mut rng = Rng::new(31);
    let mut kills = 0;
    for kind in KINDS {
        let job = Job::new(&server, kind, 31);
        loop {
            let output = interrupt(&server, &job, 500 + rng.below(50_000), "-9");
            if output.status.success() {
                job.assert_done(&mut client, &output);
                break;
            }
            assert_eq!(output.status.signal(), Some(9), "{output:?}");
            kills += 1;
        }
    }
    assert!(kills >= 20, "{kills}");
}

/// Returns a job of three blocks.
fn long(server: &Server, kind: Kind, seed: u64) -> Job {
    let mut job = Job::new(server, kind, seed);
    let items = (0..24_000).map(|number| format!("{:0>100}", number % 20_000));
    job.items = items.collect();
    lines(server, &format!("list-{}", job.key), &job.items);
    job
}

/// Returns the number in the error of a run that ended early, and the words around it.
#[track_caller]
fn done_in(output: &Output, start: &str, end: &str) -> usize {
    let error = report(output)["error"]
        .as_str()
        .expect("it failed")
        .to_owned();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("valkeybloom: {error}\n")), "{text}");
    let rest = error.split_once(start).map(|(_, rest)| rest);
    let number = rest.and_then(|rest| rest.strip_suffix(end));
    let number = number.unwrap_or_else(|| panic!("{error}"));
    number.replace(',', "").parse().expect("a number")
}

const GOES_ON: &str = " items are done; with unchanged files, and as long as the server keeps the receipt \
                       (a week by default), the same command continues from there";

#[test]
fn a_signal_ends_a_run_that_says_where_it_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    for (kind, signal, status) in [
        (Bloom, "-INT", 130),
        (CountMin, "-TERM", 143),
        (Digest, "-INT", 130),
    ] {
        let job = long(&server, kind, 7);
        let output = interrupt(&server, &job, 1_700_000, signal);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let done = done_in(&output, "interrupted: at least ", GOES_ON);
        assert!((10_000..24_000).contains(&done), "{done}");
        let output = job.run(&url(&server));
        let before = String::from_utf8_lossy(&output.stderr).into_owned();
        let before = before.strip_prefix("going on after ").expect("it says so");
        let (before, _) = before
            .split_once(" items of an earlier run\n")
            .expect("it says so");
        assert!(before.replace(',', "").parse::<usize>().expect("a number") >= done);
        job.assert_done(&mut client, &output);
    }
}

#[test]
fn a_signal_ends_a_run_that_can_be_repeated() {
    let server = Server::start();
    server.client().ok("BF.RESERVE plain 0.001 100000");
    let mut job = long(&server, Bloom, 7);
    let list = server.dir().join("list-Bloom7");
    for line in [
        "build LIST --json --add --key plain --to",
        "build LIST --json --as topk --k 10 --key new --to",
        "build LIST --json --replace --rate 0.000000001 --items 20k --key plain --to",
    ] {
        job.line = line.replace("LIST", list.to_str().expect("ASCII"));
        let output = interrupt(&server, &job, 50_000, "-INT");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert_eq!(
            report(&output)["error"],
            "interrupted: this can be run again"
        );
    }
}

#[test]
fn runs_go_on_after_their_server_crashed_and_read_its_log() {
    // By default a server postpones writes to its log while a slow disk flushes an earlier one.
    let mut server = Server::with(&[("appendonly", "yes"), ("appendfsync", "no")]);
    for kind in KINDS {
        let job = Job::new(&server, kind, 5);
        for bytes in [70_000, 40_000] {
            let pid = server.pid();
            let to = way(&server, bytes, move || {
                kill(pid);
                true
            });
            let output = job.run(&to);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let error = report(&output)["error"].to_string();
            assert!(
                error.contains("; when the server is up again, run this again"),
                "{error}"
            );
            server.kill();
            server.start_again();
        }
        let output = job.run(&url(&server));
        job.assert_done(&mut server.client(), &output);
    }
}

#[test]
fn a_run_stops_if_its_receipt_is_lost() {
    let server = Server::start();
    let lose_after = |bytes| {
        let mut client = server.client();
        way(&server, bytes, move || {
            wait_until("there is a receipt", || !receipts(&mut client).is_empty());
            let name = &receipts(&mut client)[0];
            client.expect(format!("DEL {name}"), int(1));
            true
        })
    };
    for kind in [Bloom, CountMin, RemoveBloom] {
        let job = long(&server, kind, 9);
        let program = job.start(&lose_after(1_700_000));
        let output = program.wait_with_output().expect("it is ours");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let start =
            " is gone: it expired, was deleted or evicted, or is on another server; at least ";
        let done = done_in(
            &output,
            start,
            " items are done; the same command would apply them twice",
        );
        assert!(done >= 10_000, "{done}");
    }
    // Within the first block of a pipe, equal items are not done in their order.
    let job = long(&server, CountMin, 10);
    let list = server.dir().join(format!("list-{}", job.key));
    let list = list.to_str().expect("it is ASCII");
    let words = job.line.replace(list, "-");
    let line = format!(
        "cat {list} | {} {words} {}",
        valkeybloom().display(),
        lose_after(300_000)
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]);
    let run = ended(shell);
    let may_be_done = "is on another server; some items may be done";
    assert!(run.failed(1).ends_with(may_be_done));
}

fn queued() -> Reply {
    Reply::Simple("QUEUED".to_owned())
}

/// As after a failover to a replica that lacked the latest commands.
#[test]
fn a_run_whose_receipt_is_older_than_its_replies_continues_from_the_receipt() {
    let server = Server::start();
    let mut client = server.client();
    for kind in [Bloom, CountMin] {
        let job = long(&server, kind, 11);
        let run = |to: &str| {
            let program = job.start(to);
            program.wait_with_output().expect("it is ours")
        };
        let first = run(&way(&server, 1_300_000, || false));
        let done = done_in(&first, "; at least ", GOES_ON);
        assert!(done >= 10_000, "{done}");
        // In transactions, because the server may still run commands that arrived before.
        let names = [job.key.clone(), receipts(&mut client)[0].clone()];
        client.ok("MULTI");
        for name in &names {
            client.expect(format!("DUMP {name}"), queued());
        }
        let dumps = client.cmd("EXEC").as_array().to_vec();
        let mut other = server.client();
        let second = run(&way(&server, 600_000, move || {
            let current = format!("DUMP {}", names[1]);
            wait_until("it continues", || other.cmd(&current) != dumps[1]);
            other.ok("MULTI");
            for (name, dump) in names.iter().zip(&dumps) {
                let name = name.as_bytes();
                let words: [&[u8]; 5] = [b"RESTORE", name, b"0", dump.as_bytes(), b"REPLACE"];
                assert_eq!(other.call(&words), queued());
            }
            other.expect("EXEC", array([ok(), ok()]));
            true
        }));
        let held = done_in(&second, "; at least ", GOES_ON);
        let last = run(&url(&server));
        let said = String::from_utf8_lossy(&last.stderr);
        let (_, said) = said.split_once("going on after ").expect("it says so");
        let (before, _) = said.split_once(" items of").expect("it says so");
        assert_eq!(before.replace(',', "").parse(), Ok(held));
        job.assert_done(&mut client, &last);
    }
}

/// A pipe has no second run.
#[test]
fn a_pipe_that_is_cut_off_says_which_items_are_done() {
    let server = Server::start();
    for kind in [Bloom, CountMin, RemoveBloom] {
        let job = long(&server, kind, 3);
        let list = server.dir().join(format!("list-{}", job.key));
        let words = job.line.replace(list.to_str().expect("ASCII"), "-");
        let to = way(&server, 1_700_000, || false);
        let mut program = command(&format!("{words} {to}").split(' ').collect::<Vec<_>>());
        let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = piped
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let mut stdin = program.stdin.take().expect("it is piped");
        let text = job.items.join("\n");
        // The program ends before it has read all.
        let writer = thread::spawn(move || stdin.write_all(text.as_bytes()));
        let output = program.wait_with_output().expect("it is ours");
        let _ = writer.join();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let end = " items are done; pass only the later items, some of which may be done too";
        let done = done_in(&output, "; the first ", end);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("run this again"));
        // Lines are done in their order, block by block.
        let mut client = server.client();
        assert!((10_000..24_000).contains(&done), "{done}");
        for item in [&job.items[0], &job.items[done - 1]] {
            let found = match kind {
                CountMin => client.call_with(&format!("CMS.QUERY {}", job.key), &[item]),
                _ => client.call_with(&format!("BF.MEXISTS {}", job.key), &[item]),
            };
            assert_eq!(found.as_array()[0].as_int() > 0, kind != RemoveBloom);
        }
    }
}

/// Such a run counts anew, as does one whose file has changed.
#[test]
fn a_run_that_has_ended_leaves_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("CMS.INITBYDIM k 100 5");
    let list = lines(&server, "list", &["a".to_owned(), "b".to_owned()]);
    let line = format!("build {list} --add --quiet --key k --to");
    for count in [1, 2] {
        run_line(&format!("{line} {}", url(&server))).done();
        client.expect("CMS.QUERY k a", array([int(count)]));
        assert_eq!(receipts(&mut client), [""; 0]);
    }
    // The receipt can't be deleted: all is done, and the next run says so.
    let pid = server.pid();
    client.ok("CONFIG SET appendonly yes");
    wait_until("the log is written", || {
        let info = client.cmd("INFO persistence").text();
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_enabled:1")
    });
    let way = Way::before(&server, "UNLINK", 1, move || kill(pid));
    let run = run_line(&format!("{line} {}", way.url()));
    assert!(
        run.err.contains("could not be deleted: delete it before"),
        "{}",
        run.err
    );
    run.done();
}

/// Runs a job until it succeeds, and requires that it counted once.
#[track_caller]
fn assert_done_at_last(job: &Job, client: &mut Client, to: &str) {
    loop {
        let output = job.start(to).wait_with_output().expect("it is ours");
        if output.status.success() {
            return job.assert_done(client, &output);
        }
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
}

/// Requires that a command line succeeds at last.
#[track_caller]
fn assert_succeeds(line: &str) {
    assert!((0..100).any(|_| run_line(line).status == 0), "{line}");
}

#[test]
fn cut_connections_do_not_make_items_count_twice() {
    let server = Server::start();
    let mut client = server.client();
    let cutter = Cutter::of(server.port(), b"BF.", 41);
    let to = format!("127.0.0.1:{}", cutter.port);
    for seed in 0.. {
        for kind in KINDS {
            assert_done_at_last(&Job::new(&server, kind, seed), &mut client, &to);
        }
        if cutter.has_cuts() {
            break;
        }
    }
}

/// The client library sends commands again by itself, to temporary keys, too.
#[test]
fn cut_connections_to_a_cluster_do_not_make_items_count_twice() {
    let server = cluster::node().start();
    let mut client = server.client();
    let cutter = Cutter::of_cluster(&server, b"BF.", 43);
    let to = format!("127.0.0.1:{}", cutter.port);
    for seed in 0.. {
        for kind in [Bloom, CountMin, TopK, Digest, RemoveBloom] {
            let job = Job::new(&server, kind, seed);
            assert_done_at_last(&job, &mut client, &to);
            if kind == CountMin {
                let list = server.dir().join(format!("list-{}", job.key));
                // As wide and deep as the other.
                assert_succeeds(&format!(
                    "build {} --as cms --rate 0.00001 --probability 0.04 --replace --key new --to {to}",
                    list.display()
                ));
                let found = digest(&mut client, &job.key);
                assert_eq!(digest(&mut client, "new"), found);
                // Those of runs that failed expire.
                for name in receipts(&mut client) {
                    assert!(client.cmd(&format!("PTTL {name}")).as_int() <= 300_000);
                    client.cmd(&format!("DEL {name}"));
                }
            }
        }
        if cutter.has_cuts() {
            break;
        }
    }
}

#[test]
fn cut_connections_do_not_spoil_what_is_built_or_moved() {
    let [from, to] = [(); 2].map(|()| Server::start());
    let (mut near, mut far) = (from.client(), to.client());
    for kind in [Bloom, CountMin, TopK, Digest] {
        let job = Job::new(&from, kind, 1);
        job.start(&url(&from)).wait().expect("it is ours");
    }
    near.ok("BF.RESERVE large 0.01 15000000 NONSCALING");
    near.expect("BF.ADD large item", int(1));
    let list = lines(&from, "list", &numbered("item", 0..3000));
    for (seed, marker) in (50..).zip([&b"RESTORE"[..], b"BF.LOADCHUNK", b"EVAL"]) {
        let cutter = Cutter::of(to.port(), marker, seed);
        let to = format!("127.0.0.1:{}", cutter.port);
        while !cutter.has_cuts() {
            far.ok("FLUSHALL");
            assert_succeeds(&format!("move {} {to} --verify", url(&from)));
            for key in near.cmd("KEYS *").as_array() {
                let key = key.text();
                assert_eq!(digest(&mut near, &key), digest(&mut far, &key), "{key}");
            }
            let line = format!("build {list} --to {to} --key new --rate 0.000000001 --replace");
            assert_succeeds(&line);
            far.expect("BF.CARD new", int(3000));
            let line = format!("build {list} --to {to} --key new --as topk --k 1 --change-kind");
            assert_succeeds(&line);
            assert_eq!(far.cmd("TOPK.LIST new").as_array().len(), 1);
        }
    }
}
