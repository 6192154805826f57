//! Measures what commands cost on a real server, compared with the server's own: the tables of docs/speed.md.
//!
//! `./build.sh bench` runs all rows. `./build.sh bench MEXISTS RDB` runs the rows whose names contain one of these
//! words, and the rows that they are compared with. The server runs on the first processor, and everything else on the
//! second, except for `sharded`, which has its own table.

#[allow(dead_code, unused_imports, reason = "the tests need more of it")]
#[path = "../../tests/harness/mod.rs"]
mod harness;

mod blocking;
mod cuckoo;
mod deepest;
mod instructions;
mod load;
mod memory;
mod sharded;
mod snapshot;

use std::process::{Command, Stdio};
use std::{env, fs};

use harness::{Client, Server};

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
    None,
}

impl Line {
    fn markdown(&self) -> String {
        let goal = match self.goal {
            Goal::AtMost(ratio) => format!("≤ {ratio:.2}"),
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

/// Returns `count` bytes that do not compress, like those of a filter in use.
fn random(count: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(count).collect()
}

/// Makes an object of one filter with random bits, and returns the number of their bytes.
fn fill_random(client: &mut Client, key: &str, capacity: u64) -> usize {
    run(client, &format!("BF.RESERVE shape 0.01 {capacity}"));
    let mut cursor = "0".to_owned();
    let mut bytes = 0;
    loop {
        let reply = run(client, &format!("BF.SCANDUMP shape {cursor}"));
        let (next, mut chunk) = (
            reply.as_array()[0].as_int(),
            reply.as_array()[1].as_bytes().to_vec(),
        );
        if next == 0 {
            break;
        }
        // The first chunk is the header.
        if cursor != "0" {
            chunk = random(chunk.len());
            bytes += chunk.len();
        }
        cursor = next.to_string();
        let load: [&[u8]; 4] = [b"BF.LOADCHUNK", key.as_bytes(), cursor.as_bytes(), &chunk];
        let loaded = client.call(&load);
        assert!(!loaded.is_error(), "{loaded:?}");
    }
    run(client, "DEL shape");
    bytes
}

/// Returns the median: with an even number of figures, the upper one of the middle two.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
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
    let (blocking, blocking_table) = blocking::lines(&wanted);
    lines.extend(blocking);
    lines.extend(blocking::merge(&wanted));
    lines.extend(blocking::dump(&wanted));
    lines.extend(snapshot::lines(&wanted));
    lines.extend(instructions::lines(&wanted));
    let sharded_table = sharded::table(&wanted);
    let any = !lines.is_empty() || !blocking_table.is_empty() || !sharded_table.is_empty();
    assert!(any, "no row matches {words:?}");

    let mut table =
        "| case | measured | compared with | ratio | goal |\n|---|---|---|---|---|\n".to_owned();
    for line in &lines {
        table += &line.markdown();
        table += "\n";
    }
    print!("\n{table}\n{blocking_table}\n{sharded_table}");
    let folder = env::var("BENCH_DIR").unwrap_or_else(|_| "target/bench".to_owned());
    let write = |name: &str, text: &str| {
        let path = format!("{folder}/{name}");
        fs::write(&path, text).unwrap_or_else(|e| panic!("{path}: {e}"));
        println!("written: {path}");
    };
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    write("table.md", &table);
    write("blocking.md", &blocking_table);
    write("sharded.md", &sharded_table);
}
