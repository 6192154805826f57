//! The sessions of docs/tool.md, run as written there.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::example::valkeybloom;
use crate::harness::{Reply, Server};

const MANUAL: &str = include_str!("../../../docs/tool.md");

/// Returns what a terminal shows of a command, without the progress.
fn shown(line: &str, folder: &Path) -> String {
    let file = valkeybloom();
    let program = file.parent().expect("it is in a folder");
    let path = env::var("PATH").expect("there is a path");
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", program.display()))
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell");
    let progress = [
        "counting: ",
        "filling: ",
        "sending: ",
        "adding: ",
        "removing: ",
        "moving: ",
        "comparing: ",
        "listing: ",
    ];
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    let errors = text(output.stderr);
    let errors = errors
        .lines()
        .filter(|line| !progress.iter().any(|start| line.starts_with(start)));
    let errors: Vec<&str> = errors.collect();
    (text(output.stdout) + &errors.join("\n"))
        .trim_end()
        .to_owned()
}

/// Returns the replies as the server's own client prints them, which need not be installed.
fn replied(words: &str, server: &Server) -> String {
    match server.client().cmd(words) {
        Reply::Array(replies) => {
            let lines = replies.iter().enumerate();
            let lines =
                lines.map(|(at, reply)| format!("{}) (integer) {}", at + 1, reply.as_int()));
            lines.collect::<Vec<_>>().join("\n")
        }
        Reply::Int(number) => format!("(integer) {number}"),
        other => other.text(),
    }
}

#[test]
fn the_sessions_of_the_manual_are_current() {
    // Estimates depend on the keys of the hash functions, so these are the same in every run.
    let fixed = [("bf.bloom-use-random-seed", "no")];
    let servers = [Server::with(&fixed), Server::start()];
    let documented = ["6379", "6380"];
    let here = servers.each_ref().map(|server| server.port().to_string());
    let (_, rest) = MANUAL
        .split_once("<!-- sessions: replayed by a test -->")
        .expect("the mark");
    let mut replayed = String::new();
    let mut written = String::new();
    for block in rest.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").expect("the block ends");
        written += block;
        for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let mut run = line.to_owned();
            for (documented, here) in documented.iter().zip(&here) {
                run = run.replace(documented, here);
            }
            let own = run.strip_prefix(&format!("redis-cli -p {} ", here[0]));
            let mut shown = match own {
                Some(words) => replied(words, &servers[0]),
                None => shown(&run, servers[0].dir()),
            };
            for (documented, here) in documented.iter().zip(&here) {
                shown = shown.replace(&format!(":{here}"), &format!(":{documented}"));
            }
            replayed += &["$ ", line, "\n"].concat();
            if !shown.is_empty() {
                replayed += &[&shown, "\n"].concat();
            }
        }
    }
    // Other allocators round the memory of sketches in another way.
    let is_rounded = |line: &str| {
        let names = ["-TYPE", "MBbloomCF"];
        line.starts_with("bytes  ") || names.iter().any(|name| line.contains(name))
    };
    let comparable = |text: &str| {
        let lines = text.lines();
        let lines = lines.filter(|line| servers[0].has_jemalloc() || !is_rounded(line));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(
        comparable(&replayed) == comparable(&written),
        "the sessions are:\n{replayed}"
    );
}
