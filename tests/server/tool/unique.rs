//! `valkeybloom unique --to`: runs that share a filter print each item once, whatever happens to them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::*;
use crate::harness::{cluster, wait_until};
use crate::support::Rng;
use crate::support::cutter::Cutter;

/// The files of a machine, and what it prints of them.
struct Machine {
    folder: PathBuf,
    files: [(&'static str, Vec<String>); 3],
    line: Vec<String>,
}

impl Machine {
    /// Makes three files, each with this many of the numbers below twice as many.
    fn new(server: &Server, name: &str, seed: u64, count: usize) -> Self {
        let folder = server.dir().join(name);
        fs::create_dir(&folder).expect("the folder can be written to");
        let mut rng = Rng::new(seed);
        let mut numbers = || {
            let numbers = (0..count).map(|_| rng.below(2 * count).to_string());
            numbers.collect::<Vec<_>>()
        };
        let files = ["plain", "packed.gz", "packed.zst"].map(|name| (name, numbers()));
        let mut line = vec!["unique".to_owned(), "--quiet".to_owned()];
        for (name, items) in &files {
            let text = items.join("\n");
            let path = folder.join(name);
            let file = File::create(&path).expect("the folder can be written to");
            let mut to: Box<dyn Write> = match *name {
                "plain" => Box::new(file),
                "packed.gz" => Box::new(GzEncoder::new(file, Compression::fast())),
                _ => Box::new(zstd::Encoder::new(file, 0).expect("memory").auto_finish()),
            };
            to.write_all(text.as_bytes()).expect("it can be written");
            line.push(path.display().to_string());
        }
        let out = folder.join("out").display().to_string();
        let options = ["--out", &out, "--key", "seen", "--rate", "0.000000000001"];
        line.extend(options.map(str::to_owned));
        Self {
            folder,
            files,
            line,
        }
    }

    fn command(&self, to: &str) -> Command {
        let words: Vec<&str> = self.line.iter().map(String::as_str).collect();
        command(&[&words[..], &["--to", to]].concat())
    }

    fn run(&self, to: &str) -> Run {
        ended(self.command(to))
    }

    /// Kills the program once it has written to its files this many times. Returns whether it was done before.
    fn is_done_before(&self, to: &str, writes: usize) -> bool {
        let mut command = self.command(to);
        let mut child = command.stderr(Stdio::null()).spawn().expect("it runs");
        let io = format!("/proc/{}/io", child.id());
        let is_running = |child: &mut std::process::Child| child.try_wait().expect("it is ours");
        while is_running(&mut child).is_none() && count_writes(&io) < writes {
            thread::yield_now();
        }
        child.kill().expect("it can be killed");
        child.wait().expect("it ends").success()
    }

    /// Returns the lines that were printed.
    fn printed(&self) -> Vec<String> {
        let out = self.folder.join("out");
        let mut names: Vec<_> = fs::read_dir(&out).expect("it is there").collect();
        assert_eq!(names.len(), self.files.len(), "{names:?}");
        let texts = names
            .drain(..)
            .map(|entry| text(&entry.expect("it is there").path()));
        let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.collect()
    }

    fn items(&self) -> impl Iterator<Item = &String> {
        self.files.iter().flat_map(|(_, items)| items)
    }
}

/// Returns how often a process has written; a large number, if it has ended.
fn count_writes(io: &str) -> usize {
    let text = fs::read_to_string(io).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("syscw: "));
    let writes = line.and_then(|writes| writes.parse().ok());
    writes.unwrap_or(usize::MAX)
}

fn text(path: &Path) -> String {
    let file = File::open(path).expect("it is there");
    let mut from: Box<dyn Read> = match path.extension().and_then(|end| end.to_str()) {
        Some("gz") => Box::new(MultiGzDecoder::new(file)),
        Some("zst") => Box::new(zstd::Decoder::new(file).expect("memory")),
        _ => Box::new(file),
    };
    let mut text = String::new();
    from.read_to_string(&mut text).expect("it is whole");
    text
}

/// Requires that each item was printed once, and that the server has no receipts.
#[track_caller]
fn assert_printed_once(machines: &[Machine], client: &mut Client) {
    let expected: HashSet<&String> = machines.iter().flat_map(Machine::items).collect();
    let printed: Vec<String> = machines.iter().flat_map(Machine::printed).collect();
    let different: HashSet<&String> = printed.iter().collect();
    assert_eq!(different.len(), printed.len());
    assert!(different == expected);
    assert_eq!(receipts(client), [""; 0]);
}

/// Each file has more items than a receipt keeps answers for.
#[test]
fn runs_that_are_killed_print_each_item_once() {
    let server = Server::start();
    let to = url(&server);
    let machines =
        [(1, "a"), (2, "b")].map(|(seed, name)| Machine::new(&server, name, seed, 150_000));
    let kills: usize = thread::scope(|scope| {
        let of_each = machines.iter().zip([3, 4]).map(|(machine, seed)| {
            let to = &to;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                // At first within the first file, and then further on.
                let mut writes = |number| 1 + rng.below(if number < 10 { 9 } else { 16 });
                let is_killed = |number: &usize| !machine.is_done_before(to, writes(*number));
                let kills = (0..20).take_while(is_killed).count();
                if kills == 20 {
                    machine.run(to).done();
                }
                kills
            })
        });
        let of_each: Vec<_> = of_each.collect();
        of_each
            .into_iter()
            .map(|kills| kills.join().expect("it ends"))
            .sum()
    });
    assert!(kills >= 10, "{kills}");
    assert_printed_once(&machines, &mut server.client());
}

/// Has runs go through a proxy that cuts connections, until it has cut them at each place.
#[track_caller]
fn assert_printed_once_through(cutter: &Cutter, server: &Server) {
    let mut client = server.client();
    let to = format!("127.0.0.1:{}", cutter.port);
    for seed in 0.. {
        let names = [format!("a{seed}"), format!("b{seed}")];
        let machines =
            [0, 1].map(|of| Machine::new(server, &names[of], 2 * seed + of as u64, 2000));
        for machine in &machines {
            assert!((0..100).any(|_| machine.run(&to).status == 0));
        }
        assert_printed_once(&machines, &mut client);
        client.expect("DEL seen", int(1));
        if cutter.has_cuts() {
            break;
        }
    }
}

#[test]
fn cut_connections_do_not_make_items_come_twice_or_never() {
    let server = Server::start();
    let cutter = Cutter::of(server.port(), b"BF.INSERT", 5);
    assert_printed_once_through(&cutter, &server);
}

/// The client library sends commands again by itself.
#[test]
fn cut_connections_to_a_cluster_do_not_make_items_come_twice_or_never() {
    let server = cluster::node().start();
    let cutter = Cutter::of_cluster(&server, b"BF.INSERT", 6);
    assert_printed_once_through(&cutter, &server);
}

/// With a second node to ask for the first one's keys, the client library could wait for itself, until all replies had
/// timed out.
#[test]
fn a_run_outlives_its_connections_to_the_nodes_of_a_cluster() {
    let nodes = cluster::nodes(3, 3, Duration::from_secs(30));
    let mut clients: Vec<_> = nodes.iter().map(Server::client).collect();
    let machine = Machine::new(&nodes[0], "a", 8, 60_000);
    let to = url(&nodes[0]);
    let mut command = machine.command(&to);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it runs");
    // The client library gives up if it finds each of its connections broken.
    let mut has_ended = || child.try_wait().expect("it is ours").is_some();
    let mut before = 0;
    for _ in 0..6 {
        wait_until("items are added, or the run has ended", || {
            let cards = clients.iter_mut().map(|client| client.cmd("BF.CARD seen"));
            let cards = cards.filter(|card| !card.is_error());
            let card = cards.map(|card| card.as_int()).sum();
            card > std::mem::replace(&mut before, card) || has_ended()
        });
        for client in &mut clients {
            client.cmd("CLIENT KILL TYPE normal");
        }
    }
    let all: HashSet<&String> = machine.items().collect();
    let all = i64::try_from(all.len()).expect("they are few");
    assert!((1..all).contains(&before), "{before}");
    let run = child.wait_with_output().expect("it ends");
    let why = String::from_utf8_lossy(&run.stderr);
    assert!(!why.contains("timed out"), "{why}");
    if !run.status.success() {
        machine.run(&to).done();
    }
    for client in &mut clients {
        assert_printed_once(std::slice::from_ref(&machine), client);
    }
}

/// Without its receipt, the next answers would call what was new a duplicate.
#[test]
fn a_run_whose_receipt_is_gone_says_so() {
    let server = Server::start();
    let mut client = server.client();
    let machine = Machine::new(&server, "a", 6, 90_000);
    assert!(!machine.is_done_before(&url(&server), 4));
    let names = receipts(&mut client);
    let [name] = &names[..] else {
        panic!("{names:?}");
    };
    client.expect(format!("DEL {name}"), int(1));
    for _ in 0..2 {
        let failed = machine.run(&url(&server)).failed(1);
        let lost = "which of them are new can't be known: run all inputs again, with another key";
        assert!(
            failed.contains("is gone") && failed.ends_with(lost),
            "{failed}"
        );
    }
    // Within a run.
    let machine = Machine::new(&server, "b", 7, 90_000);
    let way = Way::new(&server, 2_000_000, {
        let mut client = server.client();
        move || {
            for name in receipts(&mut client) {
                client.expect(format!("DEL {name}"), int(1));
            }
        }
    });
    let failed = machine.run(&way.url()).failed(1);
    assert!(failed.contains("is gone"), "{failed}");
    let before = machine.folder.join("out/.valkeybloom-unique");
    assert!(before.exists());
}

/// A new filter would call items new that were printed before.
#[test]
fn a_run_whose_filter_is_gone_says_so() {
    let (server, mut client) = Server::with_client();
    let machine = Machine::new(&server, "a", 12, 90_000);
    let mut other = server.client();
    let way = Way::new(&server, 2_000_000, move || {
        other.expect("DEL seen", int(1));
    });
    for to in [way.url(), url(&server)] {
        let failed = machine.run(&to).failed(1);
        assert!(
            failed.starts_with("seen does not exist at ")
                && failed.ends_with("can't be known: run all inputs again, with another key"),
            "{failed}"
        );
    }
    client.expect("EXISTS seen", int(0));
}

/// After a refusal, nothing is done. After a lost reply, nobody knows.
#[test]
fn a_pipe_without_known_items_says_only_whether_some_may_be_done() {
    let server = Server::start();
    let run_pipe = |to: &str| {
        let mut command = command(&["unique", "-", "--quiet", "--to", to, "--key", "k"]);
        let (out, mut end) = io::pipe().expect("there are pipes");
        end.write_all(b"a\n").expect("it has room");
        command.stdin(out);
        drop(end);
        ended(command).failed(1)
    };
    server.client().ok("SET k text");
    let failed = run_pipe(&url(&server));
    assert!(
        failed.contains("WRONGTYPE") && !failed.contains("done"),
        "{failed}"
    );
    server.client().expect("DEL k", int(1));
    let pid = server.pid();
    let way = Way::before(&server, "BF.INSERT", 1, move || kill(pid));
    let failed = run_pipe(&way.url());
    assert!(failed.ends_with("; some items may be done"), "{failed}");
}

#[test]
fn a_pipe_that_is_interrupted_has_no_json_among_its_records() {
    let server = Server::start();
    let mut command = command(&["unique", "-", "--json", "--to", &url(&server), "--key", "k"]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = piped.stderr(Stdio::piped()).spawn().expect("it runs");
    let input = program.stdin.take();
    let mut client = server.client();
    wait_until("it has begun", || !receipts(&mut client).is_empty());
    let pid = program.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status();
    assert!(kill.expect("kill is there").success());
    let output = program.wait_with_output().expect("it is ours");
    drop(input);
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(130), &b""[..])
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("valkeybloom: interrupted: "), "{said}");
}

/// Has a run end within its first file, after this many bytes were sent.
fn cut_off(machine: &Machine, server: &Server, bytes: usize) {
    let mut client = server.client();
    let way = Way::new(server, bytes, move || {
        client.cmd("CLIENT KILL TYPE normal");
    });
    let failed = machine.run(&way.url()).failed(1);
    assert!(
        failed.ends_with("the same command continues from there"),
        "{failed}"
    );
}

/// A checkpoint is of no use without the output that it describes.
#[test]
fn a_run_whose_output_is_gone_says_so() {
    let server = Server::start();
    let machine = Machine::new(&server, "a", 8, 150_000);
    cut_off(&machine, &server, 1_500_000);
    let out = machine.folder.join("out");
    let output = out.join("plain.valkeybloom-unfinished");
    File::create(&output).expect("the folder can be written to");
    let failed = machine.run(&url(&server)).failed(1);
    assert!(
        failed.contains("it has lost what an earlier run wrote")
            && failed.ends_with("restore that file, or run all inputs again, with another key"),
        "{failed}"
    );
    // Without the folder, the receipt has no answers for the first items.
    fs::remove_dir_all(&out).expect("it is there");
    let failed = machine.run(&url(&server)).failed(1);
    let lost = "which of them are new can't be known: run all inputs again, with another key";
    assert!(failed.ends_with(lost), "{failed}");
}

/// The receipt has the answers for all items.
#[test]
fn a_short_run_whose_output_is_gone_begins_with_the_first_item() {
    let server = Server::start();
    let mut machine = Machine::new(&server, "a", 9, 30_000);
    cut_off(&machine, &server, 500_000);
    fs::remove_dir_all(machine.folder.join("out")).expect("it is there");
    machine.line.retain(|word| word != "--quiet");
    let run = machine.run(&url(&server));
    let says = "the server has a receipt for these files, but there is no output: beginning with the first item\n";
    assert!(
        run.err.contains(says) && !run.err.contains("going on"),
        "{}",
        run.err
    );
    run.done();
    assert_printed_once(&[machine], &mut server.client());
}

/// No filter is made for them, and the run leaves nothing but its output.
#[test]
fn files_without_items_are_done() {
    let (server, mut client) = Server::with_client();
    let machine = Machine::new(&server, "a", 10, 0);
    machine.run(&url(&server)).done();
    assert_eq!(client.cmd("DBSIZE").as_int(), 0);
    let out = machine.folder.join("out");
    let mut names: Vec<_> = fs::read_dir(&out)
        .expect("it is there")
        .map(|entry| entry.expect("it is there").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["packed.gz", "packed.zst", "plain"]);
    for (name, _) in &machine.files {
        assert_eq!(text(&out.join(name)), "", "{name}");
    }
}

#[test]
fn a_run_that_could_not_go_on_is_refused() {
    let server = Server::builder().without_module().start();
    session::replay("unique-refused.txt", &[&server]);
}
