//! The program `valkeybloom`, on real servers.

mod advice;
mod build;
mod changing;
mod comparing;
mod fake_server;
mod families;
mod filtering;
mod grants;
mod lacking;
mod list;
mod live_listing;
mod manual;
mod metrics;
mod moving;
mod once;
mod reached;
mod refused;
mod rehearsed;
mod remove;
mod replacing;
mod session;
mod size;
mod terminal;
mod unique;
mod watch;
mod way;

pub use metrics::{assert_documented, assert_valid as assert_valid_metrics};
use way::{Way, has_word};

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use valkeybloom_protocol::bloom::InfoField;

use crate::example::valkeybloom;
use crate::harness::{Client, Reply, Server, int, ok};

/// The outcome of a run of the program.
pub struct Run {
    status: i32,
    out: String,
    err: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(valkeybloom());
    command.args(args).stdin(Stdio::null());
    command
}

fn ended(mut command: Command) -> Run {
    let output = command.output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    Run {
        status: output.status.code().expect("it ends by itself"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

pub fn run(args: &[&str]) -> Run {
    ended(command(args))
}

/// Runs the program with the words of a line.
pub fn run_line(line: &str) -> Run {
    run(&line.split(' ').collect::<Vec<_>>())
}

impl Run {
    /// Returns the output of a run that succeeded.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!(self.status, 0, "{}{}", self.out, self.err);
        self.out
    }

    #[track_caller]
    pub fn json(self) -> Value {
        serde_json::from_str(&self.done()).expect("it is JSON")
    }

    /// Returns the one line of an error, without progress.
    #[track_caller]
    fn failed(self, status: i32) -> String {
        assert_eq!(self.status, status, "{}{}", self.out, self.err);
        let lines = self
            .err
            .lines()
            .filter(|line| line.starts_with("valkeybloom: "));
        let lines: Vec<&str> = lines.collect();
        assert_eq!(lines.len(), 1, "{}", self.err);
        lines[0].trim_start_matches("valkeybloom: ").to_owned()
    }
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}/", server.port())
}

/// Writes a file in the server's folder, which goes with it. Returns its path.
fn file(server: &Server, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = server.dir().join(name);
    fs::write(&path, bytes).expect("the folder can be written to");
    path.into_os_string().into_string().expect("it is ASCII")
}

/// Writes a file of lines in the server's folder. Returns its path.
fn lines(server: &Server, name: &str, items: &[String]) -> String {
    file(server, name, items.join("\n"))
}

/// Returns how many of these items the server finds.
fn found(client: &mut Client, key: &str, items: &[String]) -> usize {
    let mut yes = 0;
    for batch in items.chunks(1000) {
        let answers = client.call_with(&format!("BF.MEXISTS {key}"), batch);
        yes += answers
            .as_array()
            .iter()
            .filter(|a| a.as_int() == 1)
            .count();
    }
    yes
}

fn add(client: &mut Client, key: &str, items: &[String]) {
    for batch in items.chunks(1000) {
        let added = client.call_with(&format!("BF.MADD {key}"), batch);
        assert!(matches!(added, Reply::Array(_)));
    }
}

fn numbered(what: &str, numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("{what} {number}")).collect()
}

/// Loads the header of a filter under another key, as an aborted copy does.
fn load_partly(client: &mut Client, key: &str) {
    client.ok("BF.RESERVE whole 0.01 100000");
    let piece = client.cmd("BF.SCANDUMP whole 0");
    let header = piece.as_array()[1].as_bytes().to_vec();
    let load: [&[u8]; 4] = [b"BF.LOADCHUNK", key.as_bytes(), b"1", &header];
    assert_eq!(client.call(&load), ok());
    client.expect("DEL whole", int(1));
}

/// Returns a field of BF.INFO.
fn info(client: &mut Client, key: &str, name: &str) -> Reply {
    let mut fields = InfoField::ALL.into_iter();
    let field = fields.find(|(_, title, _)| title.to_bytes() == name.as_bytes());
    let (_, _, word) = field.expect("the name of a field");
    let info = client.cmd(&format!("BF.INFO {key} {word}"));
    assert!(!info.is_error(), "{word}: {info:?}");
    info.as_array()[0].clone()
}

/// Returns the receipts of runs that have not ended.
fn receipts(client: &mut Client) -> Vec<String> {
    let keys = client.cmd("KEYS *:once:*");
    keys.as_array().iter().map(Reply::text).collect()
}

/// Returns the keys that runs left beside others, each with its time to live.
fn left(client: &mut Client) -> Vec<(String, i64)> {
    let keys = client.cmd("KEYS *:valkeybloom-unfinished-*");
    let keys = keys.as_array().iter().map(Reply::text);
    keys.map(|key| {
        let ttl = client.cmd(&format!("PTTL {key}")).as_int();
        (key, ttl)
    })
    .collect()
}

/// Kills a process, as a crash would.
fn kill(pid: u32) {
    let kill = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(kill.expect("kill is there").success());
}
