//! Measures what commands cost on a real server, compared with the server's own: the tables of docs/speed.md.
//!
//! `./build.sh bench` runs all rows. `./build.sh bench MEXISTS RDB` runs the rows whose names contain one of these
//! words, and the rows that they are compared with. The server runs on the first processor, and everything else on the
//! second, except for `sharded`, which has its own table.

mod blocking;
mod cuckoo;
mod deepest;
mod http;
mod instructions;
mod load;
mod memory;
mod near;
mod objects;
mod once;
mod sharded;
mod snapshot;
mod times;

use std::process::{Command, Stdio};
use std::{env, fs};

use valkeybloom_testing::harness::{self, Client, Server};

/// A figure, and the figure that it is compared with.
struct Line {
    /// The name of the measured case.
    case: String,
    /// The figure, with its unit.
    measured: String,
    /// The figure that it is compared with, with its unit.
    compared_with: String,
    /// The first figure divided by the second.
    ratio: f64,
    /// The ratio to reach.
    goal: Goal,
}

/// The bound that a ratio should keep.
#[derive(Clone, Copy)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
    /// As [`AtMost`](Self::AtMost), for a figure that hardly varies: beyond it, the benchmark fails.
    Fixed(f64),
    None,
}

impl Line {
    fn markdown(&self) -> String {
        let goal = match self.goal {
            Goal::AtMost(ratio) | Goal::Fixed(ratio) => format!("≤ {ratio:.2}"),
            Goal::AtLeast(ratio) => format!("≥ {ratio:.2}"),
            Goal::None => String::new(),
        };
        let Self {
            case,
            measured,
            compared_with,
            ..
        } = self;
        format!(
            "| {case} | {measured} | {compared_with} | {:.2} | {goal} |",
            self.ratio
        )
    }
}

/// Pins a process, with all of its threads, to some processors.
fn pin_to(process: u32, processors: &str) {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--cpu-list", "--pid"])
        .args([processors, &process.to_string()])
        .stdout(Stdio::null())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "taskset can pin process {process}"
    );
}

/// Starts a server on its own processor.
fn server() -> Server {
    let server = Server::builder()
        .config("bf.bloom-info-alias", "no")
        .config("proto-max-bulk-len", "1gb")
        .start();
    pin_to(server.pid(), "0");
    server
}

/// Runs a command, written as one line, and panics if it fails.
#[track_caller]
fn run(client: &mut Client, line: &str) -> harness::Reply {
    let reply = client.cmd(line);
    assert!(!reply.is_error(), "{line}: {reply:?}");
    reply
}

fn main() {
    // Cargo adds `--bench`.
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|w| !w.starts_with("--"))
        .collect();
    let wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    pin_to(std::process::id(), "1");

    let mut lines = load::lines(&wanted);
    lines.extend(memory::lines(&wanted));
    lines.extend(cuckoo::lines(&wanted));
    lines.extend(once::lines(&wanted));
    let (more, blocking) = blocking::lines(&wanted);
    lines.extend(more);
    lines.extend(blocking::merge(&wanted));
    lines.extend(blocking::dump(&wanted));
    lines.extend(snapshot::lines(&wanted));
    lines.extend(instructions::lines(&wanted));
    let deepest = deepest::table(&wanted);
    let tables = [
        ("blocking.md", format!("{blocking}\n{deepest}")),
        ("sharded.md", sharded::table(&wanted)),
        ("near.md", near::table(&wanted)),
        ("http.md", http::table(&wanted)),
    ];
    let any = !lines.is_empty() || tables.iter().any(|(_, table)| !table.trim().is_empty());
    assert!(any, "no row matches {words:?}");

    let mut table =
        "| case | measured | compared with | ratio | goal |\n|---|---|---|---|---|\n".to_owned();
    for line in &lines {
        table += &line.markdown();
        table += "\n";
    }
    println!("\n{table}");
    let folder = env::var("BENCH_DIR").unwrap_or_else(|_| "target/bench".to_owned());
    let write = |name: &str, text: &str| {
        let path = format!("{folder}/{name}");
        fs::write(&path, text).unwrap_or_else(|e| panic!("{path}: {e}"));
        println!("written: {path}");
    };
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    write("table.md", &table);
    for (name, table) in &tables {
        println!("{table}");
        write(name, table);
    }
    let has_more = |line: &&Line| matches!(line.goal, Goal::Fixed(most) if line.ratio > most);
    let more: Vec<_> = lines.iter().filter(has_more).map(Line::markdown).collect();
    assert!(
        more.is_empty(),
        "more instructions than were accepted:\n{}",
        more.join("\n")
    );
}
