//! Errors of the program: one line, with what failed, where, and what to do.

use std::fs::File;
use std::process::{Child, Stdio};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;

use crate::harness::{Plugin, Server, int, wait_in_sync};

use super::session::{commands, replay};
use super::{Run, add, command, file, numbered, run, run_line, url};

#[test]
fn invalid_words_are_refused() {
    replay("invalid.txt", &[&Server::start()]);
    // Without words there is help; all else is one line.
    let has_no_json = |(line, _): &(&str, &str)| !line.contains("--json");
    let invalid = include_str!("sessions/invalid.txt");
    for (line, error) in commands(invalid).skip(1).filter(has_no_json) {
        let words = line.replace('\'', "");
        let words = words.strip_prefix("valkeybloom ").expect("the program");
        let run = run_line(&format!("{words} --json"));
        let reported = error_of(&run);
        assert_eq!(error, format!("valkeybloom: {reported}\n[2]"));
        assert_eq!(run.failed(2), reported);
    }
}

/// Returns the error in the object of `--json`, which is alone on its stream.
fn error_of(run: &Run) -> String {
    let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
    reported["error"].as_str().expect("a text").to_owned()
}

#[test]
fn refused_builds_and_removals_name_the_reason() {
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    let bare = Server::builder().without_module().start();
    // As valkey-bloom: it has filters, and takes no chunks.
    let chunkless = Server::builder()
        .without_module()
        .before_module(&Plugin::build("chunkless.c").line())
        .start();
    replay("refused.txt", &[&server, &replica, &bare, &chunkless]);
}

#[test]
fn refused_moves_name_the_reason() {
    let [from, to] = [(); 2].map(|()| Server::start());
    let replica = Server::replica_of(&to).start();
    to.client().expect("BF.ADD far item", int(1));
    wait_in_sync(&to, &replica);
    let bare = Server::builder().without_module().start();
    replay("refused-moves.txt", &[&from, &to, &replica, &bare]);
}

/// Whenever a run fails, `--json` has what it found out by then, and the error.
#[test]
fn json_has_the_error() {
    replay("refused-json.txt", &[&Server::start()]);
}

/// `head` reads some lines, and goes away.
#[test]
fn a_reader_that_goes_away_ends_the_program_quietly() {
    const AFTER_SIGPIPE: i32 = 128 + 13;
    let server = Server::start();
    add(&mut server.client(), "k", &numbered("item", 0..3));
    let list = format!("list {}", url(&server));
    let lists = ["", " --csv", " --json", " --prometheus"].map(|form| format!("{list}{form}"));
    let sizes = ["size 1k 0.01", "size 1k 0.01 --json"].map(String::from);
    for line in lists.iter().chain(&sizes) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        command.arg("--quiet").stdout(writer);
        let child = command.stderr(Stdio::piped()).spawn().expect("it runs");
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(err, "", "{line}");
        assert_eq!(output.status.code(), Some(AFTER_SIGPIPE), "{line}");
    }
}

/// The messages have no reader any more, or no room on the disk: the run goes on, and its status is that of its work.
#[test]
fn messages_that_cannot_be_written_end_no_run() {
    let server = Server::start();
    let to = url(&server);
    let list = file(&server, "list", "a\nb\n");
    let full = File::options().write(true).open("/dev/full");
    let full = full.expect("Linux has it");
    for (line, status) in [
        (
            format!("build {list} --to {to} --key k --rate 1e-12 --replace"),
            0,
        ),
        (format!("list {to}"), 0),
        (format!("size of {to} none --json"), 1),
        (format!("move {to} 127.0.0.1:1"), 1),
        ("size 0 0.01 --json".to_owned(), 2),
    ] {
        let (reader, gone) = std::io::pipe().expect("a pipe");
        drop(reader);
        for errors in [
            Stdio::from(gone),
            Stdio::from(full.try_clone().expect("it is open")),
        ] {
            let mut command = command(&line.split(' ').collect::<Vec<_>>());
            let child = command.stdout(Stdio::piped()).stderr(errors).spawn();
            let output = child.and_then(Child::wait_with_output).expect("it runs");
            assert_eq!(output.status.code(), Some(status), "{line}");
            if line.ends_with("--json") {
                let reported: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
                assert!(reported["error"].is_string(), "{line}");
            }
        }
    }
    assert_eq!(server.client().cmd("BF.CARD k"), int(2));
}

/// A name may hold what a terminal would act on or not show: line ends, sequences for colours, other directions of text.
#[test]
fn names_are_shown_with_escapes() {
    let server = Server::start();
    let to = url(&server);
    let mut client = server.client();
    let (plain, others) = (
        ["\u{645}\u{6cc}\u{200c}\u{62e}", "e\u{301}", "a\"\\'"],
        ["\u{202e}evil", "\u{feff}a", "\u{9b}31m"],
    );
    for key in plain.into_iter().chain(others) {
        assert_eq!(client.call(&[b"BF.ADD", key.as_bytes(), b"item"]), int(1));
    }
    let listed = run(&["list", &to, "--quiet"]).done();
    for key in plain {
        assert!(listed.contains(&format!("\n{key} ")), "{key:?}\n{listed}");
    }
    for key in others {
        let shown = format!("\n\"{}\" ", key.as_bytes().escape_ascii());
        assert!(listed.contains(&shown), "{shown}\n{listed}");
    }
    let name = file(&server, "a\n\u{1b}[31mb", "1\nx\n");
    let why = run(&["build", &name, "--to", &to, "--key", "k", "--as", "tdigest"]).failed(1);
    let shown = name.replace('\n', " ").replace('\u{1b}', "\\u{1b}");
    assert_eq!(why, format!("{shown}, line 2 is not a number: x"));
}

/// The error for a cut or broken file names the line that could not be read, and nothing changes.
#[test]
fn errors_of_broken_files_name_the_line() {
    let server = Server::start();
    let text = numbered("item", 0..200_000).join("\n");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    std::io::Write::write_all(&mut packed, text.as_bytes()).expect("memory takes all");
    let gzip = packed.finish().expect("memory takes all");
    let zstd = zstd::encode_all(text.as_bytes(), 1).expect("memory takes all");
    for (name, bytes) in [("cut.gz", gzip), ("cut.zst", zstd)] {
        let path = file(&server, name, &bytes[..bytes.len() / 2]);
        let line = format!("build {path} --to {} --key k --rate 0.01", url(&server));
        let why = run_line(&line).failed(1);
        let line = why.strip_prefix(&format!("could not read {path}, line "));
        let line = line.and_then(|rest| rest.split(':').next()?.parse::<u32>().ok());
        assert!(matches!(line, Some(50_000..150_000)), "{why}");
    }
    server.client().expect("DBSIZE", int(0));
}
