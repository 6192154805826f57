//! Filters that are filled from files and put in place at once.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::num::NonZeroU32;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};
use tokio::runtime::Runtime;
use valkeybloom_client::{ShardedFilter, shard_of};

use crate::cluster::slot;
use crate::harness::cluster::{Cluster, id, nodes};
use crate::harness::{Client, Plugin, Reply, Server, array, digest, int, ok, wait_until};
use crate::support::protocols::with_fixed_seed;

use super::session::replay;
use super::{
    Way, add, command, ended, file, found, has_word, info, kill, left, lines, numbered, run,
    run_line, url,
};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).expect("memory takes all");
    packed.finish().expect("memory takes all")
}

#[test]
fn every_form_of_input_gives_the_same_filter() {
    let server = Server::start();
    let mut client = server.client();
    let items = numbered("item", 0..5000);
    let plain = items.join("\n");
    let halves = [items[..2000].join("\n"), items[2000..].join("\n")];
    // Members of one file, as of a log that is packed day by day.
    let members = [
        gzip(format!("{}\n", halves[0]).as_bytes()),
        gzip(halves[1].as_bytes()),
    ];
    let frames = halves
        .clone()
        .map(|half| zstd::encode_all(format!("{half}\n").as_bytes(), 1));
    let gaps = format!("\n\n{}\r\n\n", items.join("\n\n"));
    let size = run_line("size 5000 0.001 --json").json();
    let to = url(&server);
    for (name, bytes, options) in [
        ("plain", plain.clone().into_bytes(), ""),
        ("ended", format!("{plain}\n").into_bytes(), ""),
        ("dos", items.join("\r\n").into_bytes(), ""),
        ("gaps", gaps.into_bytes(), ""),
        ("zeros", items.join("\0").into_bytes(), " --zero"),
        ("gzip", members.concat(), ""),
        ("zstd", frames.map(Result::unwrap).concat(), ""),
        ("told", plain.clone().into_bytes(), " --items 5k"),
    ] {
        let path = file(&server, name, bytes);
        let line = format!("build {path} --to {to} --key {name} --rate 0.001 --json{options}");
        let reported = run_line(&line).json();
        assert_eq!(reported["items"], 5000, "{name}");
        let fields = ["Number of items inserted", "Size"];
        let [held, bytes] = fields.map(|field| info(&mut client, name, field).as_int());
        assert_eq!(reported["new"], held, "{name}");
        assert!(held >= 4980, "{name}: {held}");
        assert_eq!(bytes, size["bytes_when_full"], "{name}");
        assert_eq!(found(&mut client, name, &items), 5000, "{name}");
        let others = numbered("other", 0..5000);
        assert!(found(&mut client, name, &others) < 25, "{name}");
        client.expect(format!("PTTL {name}"), int(-1));
    }
    // Items from several files, and from the standard input.
    let first = file(&server, "1", &halves[0]);
    let second = file(&server, "2", gzip(halves[1].as_bytes()));
    let line = format!("build {first} {second} --to {to} --key both --rate 0.001");
    run_line(&line).done();
    assert_eq!(found(&mut client, "both", &items), 5000);
    // A file can be read twice from there, too, and from where another program left it.
    let line = format!("build - --to {to} --key typed --rate 0.001 --json");
    let mut typed = command(&line.split(' ').collect::<Vec<_>>());
    let mut stdin = fs::File::open(&first).expect("it is there");
    let skipped = items[0].len() as u64 + 1;
    stdin.seek(SeekFrom::Start(skipped)).expect("it is a file");
    typed.stdin(stdin);
    assert_eq!(ended(typed).json()["items"], 1999);
    assert_eq!(found(&mut client, "typed", &items[1..2000]), 1999);
    // Every filter has keys of its own.
    assert_ne!(digest(&mut client, "plain"), digest(&mut client, "ended"));
    assert_eq!(left(&mut client), []);
}

/// Servers, and what is between, close connections on which nothing is sent for long.
#[test]
fn a_connection_that_is_closed_while_files_are_read_does_not_matter() {
    let server = Server::start();
    let mut client = server.client();
    let to = url(&server);
    let line = format!("build - --items 300 --rate 0.01 --key k --to {to}");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut build = command(&line.split(' ').collect::<Vec<_>>());
    build.stdin(reader).stdout(Stdio::null());
    let mut build = build.spawn().expect("the program runs");
    wait_until("the trial with the filter's header is over", || {
        let stats = client.cmd("INFO commandstats").text();
        stats.contains("cmdstat_unlink:")
    });
    client.cmd("CLIENT KILL TYPE normal");
    let items = numbered("item", 0..300);
    let written = writer.write_all(items.join("\n").as_bytes());
    drop(writer);
    written.expect("the program reads it");
    assert!(build.wait().expect("it is ours").success());
    assert_eq!(found(&mut client, "k", &items), 300);
}

/// Whatever its name, a pipe can be read only once: not to count its items first.
#[test]
fn a_pipe_is_read_once_under_any_name() {
    let server = Server::start();
    let mut client = server.client();
    let to = url(&server);
    let items = numbered("item", 0..300);
    let fifo = server.dir().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo is there").success());
    let fifo = fifo.to_str().expect("ASCII");
    for (at, name) in ["-", "/dev/stdin", fifo].into_iter().enumerate() {
        let line = format!("build {name} --to {to} --rate 0.000001 --key {at}");
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let mut untold = command(&line.split(' ').collect::<Vec<_>>());
        untold.stdin(reader.try_clone().expect("it is open"));
        assert_eq!(
            ended(untold).failed(2),
            "the input can be read only once, because not all of it is files: pass --items"
        );
        let mut told = command(&line.split(' ').collect::<Vec<_>>());
        told.args(["--items", "300"]).stdin(reader);
        let list = items.join("\n");
        let writing = thread::spawn({
            let fifo = (name == fifo).then(|| fifo.to_owned());
            move || match fifo {
                Some(fifo) => fs::write(fifo, list),
                None => writer.write_all(list.as_bytes()),
            }
        });
        ended(told).done();
        writing.join().expect("no panic").expect("it is read");
        assert_eq!(found(&mut client, &at.to_string(), &items), 300, "{name}");
    }
}

/// A window and a time to live go by the clock of the server, wherever the program runs.
#[test]
fn the_clock_of_the_server_counts() {
    let behind = Plugin::build("behind.c");
    let [from, to] = [(); 2].map(|()| Server::start());
    let (mut near, mut far) = (from.client(), to.client());
    let list = file(&from, "list", "a\nb\n");
    let a_week_behind = |line: String| {
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.env("LD_PRELOAD", behind.path());
        ended(command).done();
    };
    for (key, options) in [("window", "--window 1h --periods 3"), ("ttl", "--ttl 1h")] {
        let to = url(&from);
        a_week_behind(format!(
            "build {list} --to {to} --key {key} --rate 0.01 {options}"
        ));
    }
    assert_eq!(near.cmd("BF.MEXISTS window a b"), array([int(1), int(1)]));
    // Without PEXPIRETIME, the program reads the time by PTTL.
    near.ok("ACL SETUSER default -pexpiretime");
    a_week_behind(format!("move {} {} --verify", url(&from), url(&to)));
    for client in [&mut near, &mut far] {
        let left = client.cmd("PTTL ttl").as_int();
        assert!((3_000_000..=3_601_000).contains(&left), "{left}");
    }
}

/// A shard that was sent waits for the others under a temporary key, which must not expire meanwhile.
#[test]
fn shards_that_wait_renew_their_leases() {
    let ahead = Plugin::build("ahead.c");
    let renewals = |passes: bool| {
        let server = Server::start();
        let list = lines(&server, "list", &numbered("item", 0..100));
        let file = server.dir().join("ahead");
        let mark = file.clone();
        // Each upload begins with the bare command. There are two on trial, and the last one finds the first one sent.
        let way = Way::before(&server, "BF.LOADCHUNK", 8, move || {
            if passes {
                fs::write(mark, "").expect("the folder can be written to");
            }
        });
        let to = way.url();
        let line = format!("build {list} --to {to} --key k --rate 0.01 --shards 2");
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.env("LD_PRELOAD", ahead.path()).env("AHEAD", &file);
        ended(command).done();
        let stats = server.client().cmd("INFO commandstats").text();
        let calls = stats.split("cmdstat_pexpire:calls=").nth(1);
        let calls = calls.and_then(|rest| rest.split(',').next());
        calls
            .expect("it was called")
            .parse::<u32>()
            .expect("a number")
    };
    assert_eq!(renewals(true), renewals(false) + 1);
}

/// A pipe may pause for longer than a temporary key lives.
#[test]
fn a_sketch_is_kept_while_the_input_pauses() {
    let ahead = Plugin::build("ahead.c");
    for is_deleted in [false, true] {
        let server = Server::start();
        let mut client = server.client();
        let file = server.dir().join("ahead");
        let line = format!("build - --as topk --k 3 --key k --to {}", url(&server));
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let mut build = command(&line.split(' ').collect::<Vec<_>>());
        build.env("LD_PRELOAD", ahead.path()).env("AHEAD", &file);
        build.stdin(reader).stderr(Stdio::piped());
        let build = build.spawn().expect("the program runs");
        wait_until("the temporary key is there", || {
            !left(&mut client).is_empty()
        });
        let renewals = |client: &mut Client| {
            let stats = client.cmd("INFO commandstats").text();
            let calls = stats.split("cmdstat_pexpire:calls=").nth(1);
            calls.map(|calls| calls.split(',').next().map(str::to_owned))
        };
        let before = renewals(&mut client);
        if is_deleted {
            client.cmd("FLUSHALL");
        }
        fs::write(&file, "").expect("the folder can be written to");
        wait_until("it is renewed", || renewals(&mut client) != before);
        // The program does not read on if its key is gone.
        let written = writer.write_all(b"a\na\n");
        drop(writer);
        let output = build.wait_with_output().expect("it is ours");
        assert_eq!(output.status.success(), !is_deleted, "{output:?}");
        if is_deleted {
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(error.contains("its temporary key is gone"), "{error}");
        } else {
            written.expect("the program reads it");
            client.expect("TOPK.COUNT k a", array([int(2)]));
        }
    }
}

/// Any bytes but the separator; and items that are longer than a block.
#[test]
fn items_are_bytes_of_any_length() {
    let server = Server::start();
    let mut client = server.client();
    let long = vec![b'x'; 3 << 20];
    let odd: [&[u8]; 5] = [b"\xff\xfe", b"a\nb", b"\r", &long, b"last"];
    let path = file(&server, "odd", odd.join(&0));
    let to = url(&server);
    let line = format!("build {path} --zero --to {to} --key odd --rate 1e-12 --json");
    assert_eq!(run_line(&line).json()["new"], 5);
    for item in odd {
        assert_eq!(client.call(&[b"BF.EXISTS", b"odd", item]), int(1));
    }
    // An empty list makes a filter too, if that is requested.
    let path = file(&server, "none", "\n");
    let line = format!("build {path} --to {to} --key none --rate 0.01 --allow-few");
    run_line(&line).done();
    client.expect("BF.CARD none", int(0));
}

/// The next filter under the key has no time to live, and grows.
#[test]
fn a_filter_gets_its_time_to_live_and_its_growth() {
    replay("growth.txt", &[&with_fixed_seed()]);
}

/// Returns the words that build a filter of some 70 MB, most of them sent only after the list was read.
fn much(server: &Server, key: &str) -> String {
    let path = lines(server, "much", &numbered("new", 0..1000));
    format!("build {path} --items 50M --allow-few --replace --rate 0.01 --key {key} --to")
}

fn build_to(line: &str, to: &str) -> super::Run {
    run_line(&format!("{line} {to}"))
}

fn roomy() -> Server {
    let builder = Server::builder().config("save", "3600 1");
    let limit = "bf.bloom-filter-max-memory-usage 1gb";
    builder.after_module(limit).start()
}

#[test]
fn a_server_that_goes_away_keeps_the_old_filter_and_a_second_run_succeeds() {
    let mut server = roomy();
    let mut client = server.client();
    let old = numbered("old", 0..1000);
    add(&mut client, "seen", &old);
    client.ok("SAVE");
    let words = much(&server, "seen");
    let pid = server.pid();
    let way = Way::new(&server, 30 << 20, move || kill(pid));
    let why = build_to(&words, &way.url()).failed(1);
    let (start, end) = (
        "could not build seen at 127.0.0.1:",
        "; when the server is up again, run this again",
    );
    assert!(why.starts_with(start) && why.ends_with(end), "{why}");
    server.kill();

    server.start_again();
    let mut client = server.client();
    assert_eq!(found(&mut client, "seen", &old), 1000);
    client.expect("DBSIZE", int(1));
    build_to(&words, &url(&server)).done();
    assert_eq!(found(&mut client, "seen", &numbered("new", 0..1000)), 1000);
    assert!(found(&mut client, "seen", &old) < 10);
    assert_eq!(left(&mut client), []);
}

/// Leftovers of a killed run expire.
#[test]
fn a_run_that_is_killed_leaves_nothing_for_good() {
    let server = roomy();
    let mut client = server.client();
    let old = numbered("old", 0..1000);
    add(&mut client, "seen", &old);
    let words = much(&server, "seen");
    // Bytes after 30 MiB never arrive.
    let way = Way::new(&server, 30 << 20, || {
        loop {
            thread::park();
        }
    });
    let mut run = command(&words.split(' ').collect::<Vec<_>>());
    let mut run = run
        .arg(way.url())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program runs");
    wait_until("chunks have come", || {
        // The key of the trial before may be gone by now.
        let memory = |key: &str| server.client().cmd(&format!("MEMORY USAGE {key}"));
        left(&mut server.client())
            .iter()
            .any(|(key, _)| matches!(memory(key), Reply::Int(bytes) if bytes > 20 << 20))
    });
    run.kill().expect("it is ours");
    run.wait().expect("it is ours");
    let beside = left(&mut client);
    assert!(matches!(beside[..], [(_, 1..=300_000)]), "{beside:?}");
    assert_eq!(found(&mut client, "seen", &old), 1000);
    // It does not get in the way of later runs.
    build_to(&words, &url(&server)).done();
    client.expect(format!("PEXPIRE {} 1", beside[0].0), int(1));
    wait_until("it has expired", || left(&mut server.client()).is_empty());
}

#[test]
fn items_are_added_to_an_existing_filter() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("BF.RESERVE seen 0.0001 20000 COUNTING EX 1000");
    add(&mut client, "seen", &numbered("item", 0..5000));
    let path = lines(&server, "list", &numbered("item", 2000..12_000));
    // Rarely, two items are one to the filter.
    let before = client.cmd("BF.CARD seen").as_int();
    let to = url(&server);
    let reported = run_line(&format!("build {path} --add --to {to} --key seen --json")).json();
    assert_eq!(reported["items"], 10_000);
    assert_eq!(
        reported["new"],
        client.cmd("BF.CARD seen").as_int() - before
    );
    let all = numbered("item", 0..12_000);
    assert_eq!(found(&mut client, "seen", &all), 12_000);
    // Items that were there count twice now.
    assert_eq!(client.call(&[b"BF.COUNT", b"seen", b"item 3000"]), int(2));
    assert!(client.cmd("TTL seen").as_int() > 0);
}

/// All shards get their items at the same time, so each may refuse some: the items before the line are in the filter.
#[test]
fn a_failure_names_the_first_line_that_a_shard_refused() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["full:0", "full:1"] {
        client.ok(format!("BF.RESERVE {key} 0.000001 1 NONSCALING"));
        client.expect(format!("BF.ADD {key} item"), int(1));
    }
    let items = numbered("item", 0..100);
    let shards = NonZeroU32::new(2).expect("not 0");
    let first_of = |shard| {
        let mut items = items.iter();
        let found = items.find(|item| shard_of(item.as_bytes(), shards) == shard);
        found.expect("half of them").clone()
    };
    let path = lines(&server, "list", &[first_of(1), first_of(0)]);
    let to = url(&server);
    let line = format!("build {path} --add --to {to} --key full --shards 2");
    let found = run_line(&line).failed(1);
    let start = format!("could not add {path}, line 1 to full:1 at ");
    assert!(found.starts_with(&start), "{found}");
}

/// A run that is killed between two deletions would be taken for one that has not reached the first key.
#[test]
fn the_receipts_of_all_shards_are_deleted_in_one_step() {
    let (server, mut client) = Server::with_client();
    for key in ["k:0", "k:1"] {
        client.ok(format!("BF.RESERVE {key} 0.01 100 COUNTING"));
    }
    let list = lines(&server, "list", &numbered("item", 0..50));
    let (deleting, deletions) = channel();
    let way = Way::watched(&server, move |sent| {
        if has_word(sent, "UNLINK") {
            deleting.send(sent.to_vec()).expect("the test waits");
        }
    });
    let to = way.url();
    run_line(&format!("build {list} --add --to {to} --key k --shards 2")).done();
    let deletions: Vec<_> = deletions.try_iter().collect();
    assert_eq!(deletions.len(), 1);
    assert!(deletions[0].starts_with(b"*3\r\n"), "two receipts");
    client.expect("DBSIZE", int(2));
}

/// Over a cluster, as docs/sharded.md has it.
#[test]
fn shards_are_those_of_the_scheme() {
    let cluster = Cluster::start(Duration::from_secs(30));
    let to = url(&cluster.nodes[1]);
    let items = numbered("item", 0..20_000);
    let path = lines(&cluster.nodes[0], "list", &items);
    let on = format!("--to {to} --key seen --shards 7");
    let line = format!("build {path} {on} --rate 0.001 --nonscaling --json");
    assert_eq!(run_line(&line).json()["items"], 20_000);
    let more = numbered("more", 0..100);
    let path = lines(&cluster.nodes[0], "more", &more);
    run_line(&format!("build {path} {on} --add")).done();

    let (yes, others, card) = Runtime::new().expect("a runtime").block_on(async {
        let addresses = cluster.nodes.iter().map(url);
        let client = redis::cluster::ClusterClient::new(addresses).expect("good addresses");
        let connection = client.get_async_connection().await.expect("it is up");
        let shards = NonZeroU32::new(7).expect("some");
        let filter = ShardedFilter::new(connection, "seen", shards).expect("no braces");
        let ask = async |items: &[String]| {
            let answers = filter.ask(items).await;
            let answers = answers.into_iter().map(|answer| answer.expect("an answer"));
            answers.filter(|yes| *yes).count()
        };
        let yes = ask(&items).await + ask(&more).await;
        (
            yes,
            ask(&numbered("other", 0..20_000)).await,
            filter.card().await.expect("an answer"),
        )
    });
    assert_eq!(yes, 20_100);
    assert!(others < 40, "{others}");
    assert!(card > 20_000);
    for node in &cluster.nodes {
        assert_eq!(left(&mut node.client()), []);
    }
}

/// A temporary key is in the slot of its key, or the cluster would refuse to rename it.
#[test]
fn a_key_of_any_form_is_built_in_a_cluster() {
    let cluster = nodes(2, 2, Duration::from_secs(30));
    let path = lines(&cluster[0], "list", &numbered("item", 0..10));
    let to = url(&cluster[0]);
    for key in [
        "seen", "{tag}", "a{tag}b", "a{", "a}", "a{}b", "}{", "{{x}}",
    ] {
        // At this rate no item is a false positive, so that ten items count as ten.
        run(&["build", &path, "--to", &to, "--key", key, "--rate", "1e-9"]).done();
        let words: [&[u8]; 2] = [b"BF.CARD", key.as_bytes()];
        let cards = cluster.iter().map(|node| node.client().call(&words));
        assert_eq!(cards.filter(|card| *card == int(10)).count(), 1, "{key}");
        let sketch = ["--as", "cms", "--rate", "0.01", "--change-kind"];
        run(&[&["build", &path, "--to", &to, "--key", key], &sketch[..]].concat()).done();
        let words: [&[u8]; 3] = [b"CMS.QUERY", key.as_bytes(), b"item 7"];
        let counts = cluster.iter().map(|node| node.client().call(&words));
        let counts = counts.filter(|count| *count == array([int(1)]));
        assert_eq!(counts.count(), 1, "{key}");
    }
}

/// Returns the port of the node that a slot belongs to, as a node sees it.
fn owner_of(node: &Server, slot: usize) -> i64 {
    let ranges = node.client().cmd("CLUSTER SLOTS");
    let range = ranges.as_array().iter().find(|range| {
        let range = range.as_array();
        let slot = i64::try_from(slot).expect("a slot");
        (range[0].as_int()..=range[1].as_int()).contains(&slot)
    });
    range.expect("each has an owner").as_array()[2].as_array()[1].as_int()
}

/// Moves a slot from a node to another, with all that is in it.
fn move_slot(from: &Server, to: &Server, slot: usize) {
    let (mut near, mut far) = (from.client(), to.client());
    let set = |client: &mut Client, words: String| {
        let reply = client.cmd(&format!("CLUSTER SETSLOT {slot} {words}"));
        assert_eq!(reply, ok());
    };
    set(&mut far, format!("IMPORTING {}", id(from)));
    set(&mut near, format!("MIGRATING {}", id(to)));
    loop {
        let keys = near.cmd(&format!("CLUSTER GETKEYSINSLOT {slot} 10"));
        let keys: Vec<String> = keys.as_array().iter().map(Reply::text).collect();
        if keys.is_empty() {
            break;
        }
        let (port, keys) = (to.port(), keys.join(" "));
        let migrated = near.cmd(&format!("MIGRATE 127.0.0.1 {port}  0 60000 KEYS {keys}"));
        // A key may have got its name, or gone, just before.
        let migrated = migrated.text();
        assert!(["OK", "NOKEY"].contains(&&migrated[..]), "{migrated}");
    }
    set(&mut far, format!("NODE {}", id(to)));
    set(&mut near, format!("NODE {}", id(to)));
    let is_owner = |node| owner_of(node, slot) == i64::from(to.port());
    for node in [from, to] {
        wait_until("the slot has come", || is_owner(node));
    }
}

/// Whatever the moment at which the slot moves, the filter gets into its place.
#[test]
fn a_slot_that_moves_takes_the_unfinished_filter_along() {
    let nodes = nodes(2, 2, Duration::from_secs(30));
    for node in &nodes {
        node.client()
            .ok("CONFIG SET bf.bloom-filter-max-memory-usage 1gb");
    }
    let slot = slot(b"seen");
    let owner = slot * 2 / 16_384;
    let path = lines(&nodes[0], "list", &numbered("item", 0..1000));
    let to = url(&nodes[0]);
    let line = format!("build {path} --items 50M --allow-few --rate 0.01 --key seen --to {to}");
    let mut build = command(&line.split(' ').collect::<Vec<_>>());
    let build = build.stdout(Stdio::null()).spawn();
    let mut build = build.expect("the program runs");
    let (from, to) = (&nodes[owner], &nodes[1 - owner]);
    let is_coming = || !left(&mut from.client()).is_empty();
    wait_until("the filter is on its way", is_coming);
    // Move it once: a client that follows a redirection while the slot comes back finds no filter there.
    move_slot(from, to, slot);
    let status = build.wait().expect("it is ours");
    assert!(status.success());
    let mut client = to.client();
    assert_eq!(found(&mut client, "seen", &numbered("item", 0..1000)), 1000);
    assert_eq!(left(&mut client), []);
    client.expect("PTTL seen", int(-1));
}
