//! Counts the module's own instructions for a command with callgrind: the cost of a command without the server's share.
//! The counts hardly change from run to run. Valgrind has no AVX-512, so words of four, or one, are counted.

use std::fmt::Write as _;
use std::process::Command;
use std::{env, fs};

use crate::harness::{Client, Server};
use crate::objects::fill;
use crate::{Goal, Line, run};

struct Row {
    name: &'static str,
    command: &'static str,
    items: u64,
    /// Whether every command has new items, which are not in the filter.
    new: bool,
    goal: f64,
}

const ROWS: &[Row] = &[
    Row {
        name: "instructions of BF.EXISTS hit",
        command: "BF.EXISTS small",
        items: 1,
        new: false,
        goal: 500.0,
    },
    Row {
        name: "instructions of BF.EXISTS hit, counting",
        command: "BF.EXISTS counting",
        items: 1,
        new: false,
        goal: 600.0,
    },
    Row {
        name: "instructions of BF.ADD known",
        command: "BF.ADD small",
        items: 1,
        new: false,
        goal: 670.0,
    },
    Row {
        name: "instructions of BF.ADD new",
        command: "BF.ADD new",
        items: 1,
        new: true,
        goal: 690.0,
    },
    Row {
        name: "instructions of BF.MEXISTS 100 miss",
        command: "BF.MEXISTS small",
        items: 100,
        new: true,
        goal: 18_000.0,
    },
    Row {
        name: "instructions of BF.MADD 100 new",
        command: "BF.MADD new",
        items: 100,
        new: true,
        goal: 50_000.0,
    },
];

const TIMES: u64 = 200;

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| wanted(row.name)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("instructions are not counted: there is no valgrind");
        return Vec::new();
    }
    let folder = env::temp_dir().join(format!("instructions.{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let out = format!("--callgrind-out-file={}/out", folder.display());
    let server = Server::builder()
        .launched_by(&[
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--compress-strings=no",
            "--compress-pos=no",
            &out,
        ])
        .config("bf.bloom-info-alias", "no")
        .start();
    let mut client = server.client();
    run(&mut client, "BF.RESERVE small 0.01 100000");
    fill(&mut client, "BF.MADD", "small", 0..100_000);
    run(&mut client, "BF.RESERVE counting 0.01 100000 COUNTING");
    fill(&mut client, "BF.MADD", "counting", 0..100_000);
    run(&mut client, "BF.RESERVE new 0.01 4000000");
    let mut next = 0;
    let lines = rows.into_iter().map(|row| {
        // The first command is not counted, because it includes one-time work.
        send(&mut client, row, &mut next);
        control(&server, &["--zero"]);
        control(&server, &["--instr=on"]);
        for _ in 0..TIMES {
            send(&mut client, row, &mut next);
        }
        control(&server, &["--instr=off"]);
        control(&server, &["--dump"]);
        #[allow(clippy::cast_precision_loss, reason = "some millions")]
        let each = counted(&folder) as f64 / TIMES as f64;
        Line {
            case: row.name.to_owned(),
            measured: format!("{each:.0}"),
            compared_with: format!("{:.0}", row.goal),
            ratio: each / row.goal,
            goal: Goal::AtMost(1.0),
        }
    });
    let lines = lines.collect();
    drop(server);
    // A folder that can't be removed does no harm.
    let _ = fs::remove_dir_all(&folder);
    lines
}

fn send(client: &mut Client, row: &Row, next: &mut u64) {
    let mut line = row.command.to_owned();
    for _ in 0..row.items {
        let item = if row.new {
            1_000_000 + *next
        } else {
            *next * 7919 % 100_000
        };
        write!(line, " {item:012}").expect("a String takes all");
        *next += 1;
    }
    run(client, &line);
}

fn control(server: &Server, words: &[&str]) {
    let output = Command::new("callgrind_control")
        .args(words)
        .arg(server.pid().to_string())
        .output();
    let output = output.expect("callgrind_control is part of valgrind");
    assert!(output.status.success(), "{output:?}");
}

/// Returns the module's instructions in the last dump, without those of the functions that it calls.
fn counted(folder: &std::path::Path) -> u64 {
    let dumps = fs::read_dir(folder).expect("the folder");
    let number = |path: &std::path::Path| {
        let number = path.extension()?.to_str()?;
        number.parse::<u32>().ok()
    };
    let paths = dumps.filter_map(|entry| Some(entry.ok()?.path()));
    let last = paths.max_by_key(|path| number(path)).expect("a dump");
    let text = fs::read(&last).expect("a dump");
    let text = String::from_utf8_lossy(&text);
    let (mut is_ours, mut of_call, mut sum) = (false, false, 0);
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_ours = object.ends_with("valkeybloom.so");
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            // The line after a call has the cost of that call.
            if is_ours && !of_call {
                let cost = line
                    .rsplit_once(' ')
                    .and_then(|(_, cost)| cost.parse().ok());
                sum += cost.unwrap_or(0_u64);
            }
            of_call = false;
        }
    }
    sum
}
