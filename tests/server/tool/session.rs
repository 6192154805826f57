//! Sessions of a shell, in the files of the folder `sessions`.
//!
//! A line that begins with `$ ` is run, and the lines below it are what it prints: then its status, if that is not 0,
//! as `[1]`. The ports 6379, 6380 and so on stand for those of the servers. In an expected line, `[..]` matches any text.
//! With `UPDATE=1`, a test that fails rewrites its file: read the difference before you commit it.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::example::valkeybloom;
use crate::harness::{Reply, Server};

/// Returns the commands of a session, each with the output that is expected of it.
pub fn commands(session: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = session
        .strip_prefix("$ ")
        .into_iter()
        .flat_map(|rest| rest.split("\n$ "));
    blocks.map(|block| {
        let (command, output) = block.split_once('\n').unwrap_or((block, ""));
        (command, output.trim_end())
    })
}

/// Runs a command of a session, and returns what it prints. Files are in the folder of the first server.
pub fn output_of(command: &str, servers: &[&Server]) -> String {
    let ports = servers.iter().map(|server| server.port().to_string());
    let ports: Vec<_> = ports.zip((6379..).map(|port| port.to_string())).collect();
    // In two steps, because a port may look like the name of another.
    let unnamed = ports.iter().fold(command.to_owned(), |run, (_, named)| {
        run.replace(named, &format!("<{named}>"))
    });
    let run = ports.iter().fold(unnamed, |run, (here, named)| {
        run.replace(&format!("<{named}>"), here)
    });
    let own = servers.iter().find_map(|server| {
        let words = run.strip_prefix(&format!("redis-cli -p {} ", server.port()))?;
        Some(printed(&server.client().cmd(words)))
    });
    let output = own.unwrap_or_else(|| shown(&run, servers[0].dir()));
    ports.iter().fold(output, |output, (here, named)| {
        output.replace(&format!(":{here}"), &format!(":{named}"))
    })
}

/// Returns the lines of a session for a command and its output.
pub fn block(command: &str, output: &str) -> String {
    let end = if output.is_empty() { "" } else { "\n" };
    ["$ ", command, "\n", output, end].concat()
}

/// Requires that the session in a file is what the servers and the program do.
#[track_caller]
pub fn replay(file: &str, servers: &[&Server]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/server/tool/sessions")
        .join(file);
    let session = fs::read_to_string(&path).expect("the file is there");
    let mut replayed = String::new();
    for (command, expected) in commands(&session) {
        let output = output_of(command, servers);
        let is_like = is_like(&output, expected);
        replayed += &block(command, if is_like { expected } else { &output });
    }
    if replayed != session && env::var_os("UPDATE").is_some() {
        fs::write(&path, &replayed).expect("the folder can be written to");
    }
    assert!(
        replayed == session,
        "with UPDATE=1, {file} becomes:\n{replayed}"
    );
}

/// Returns whether a text is like another, in which `[..]` stands for any text within a line.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once("[..]") else {
        return text == pattern;
    };
    text.strip_prefix(start).is_some_and(|text| {
        let end = text.find('\n').unwrap_or(text.len());
        let mut ends = (0..=end).filter(|end| text.is_char_boundary(*end));
        ends.any(|end| is_like(&text[end..], rest))
    })
}

/// Returns what a terminal shows of a command, without the progress and without carriage returns.
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
    let progress = "counting filling sending adding removing moving comparing listing reading writing filtering";
    let is_progress = |line: &&str| {
        let first = line.split_once(": ").map(|(first, _)| first);
        first.is_some_and(|first| progress.split(' ').any(|step| step == first))
    };
    let text = |bytes| String::from_utf8(bytes).expect("it writes UTF-8");
    let errors = text(output.stderr);
    let errors: Vec<&str> = errors.lines().filter(|line| !is_progress(line)).collect();
    let mut shown = text(output.stdout) + &errors.join("\n");
    let status = output.status.code().expect("it ends by itself");
    if status != 0 {
        shown = format!("{}\n[{status}]", shown.trim_end());
    }
    shown.trim_end().replace('\r', "")
}

/// Returns a reply as the server's own client prints it, which need not be installed.
fn printed(reply: &Reply) -> String {
    match reply {
        Reply::Array(replies) => {
            let lines = replies.iter().zip(1..);
            let lines = lines.map(|(reply, at)| format!("{at}) {}", printed(reply)));
            lines.collect::<Vec<_>>().join("\n")
        }
        Reply::Int(number) => format!("(integer) {number}"),
        Reply::Nil => "(nil)".to_owned(),
        Reply::Error(text) => format!("(error) {text}"),
        other => other.text(),
    }
}
