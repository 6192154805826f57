//! Counts the module's own instructions for a command with callgrind, and those of the server and the module together, from
//! the words of the command to its reply. The counts hardly change from run to run. Valgrind has no AVX-512, so words of
//! four, or one, are counted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::{env, fs};

use crate::harness::{Client, Server};
use crate::objects::fill;
use crate::{Line, run};

struct Row {
    name: &'static str,
    command: &'static str,
    items: u64,
    /// Whether every command has new items, which are not in the filter.
    new: bool,
    goal: Goal,
}

/// What a figure is compared with.
enum Goal {
    /// The most instructions of the module. A second line has its share of all instructions.
    AtMost(f64),
    /// The row with the same command on a filter that nobody reads. The ratio is that of all instructions.
    Unread(&'static str),
}

const ROWS: &[Row] = &[
    Row {
        name: "instructions of BF.EXISTS hit",
        command: "BF.EXISTS small",
        items: 1,
        new: false,
        goal: Goal::AtMost(500.0),
    },
    Row {
        name: "instructions of BF.EXISTS hit, counting",
        command: "BF.EXISTS counting",
        items: 1,
        new: false,
        goal: Goal::AtMost(600.0),
    },
    Row {
        name: "instructions of BF.ADD known",
        command: "BF.ADD small",
        items: 1,
        new: false,
        goal: Goal::AtMost(670.0),
    },
    Row {
        name: "instructions of BF.ADD new",
        command: "BF.ADD new",
        items: 1,
        new: true,
        goal: Goal::AtMost(690.0),
    },
    Row {
        name: "instructions of BF.ADD new, being read",
        command: "BF.ADD read",
        items: 1,
        new: true,
        goal: Goal::Unread("instructions of BF.ADD new"),
    },
    Row {
        name: "instructions of BF.MEXISTS 100 miss",
        command: "BF.MEXISTS small",
        items: 100,
        new: true,
        goal: Goal::AtMost(18_000.0),
    },
    Row {
        name: "instructions of BF.MADD 100 new",
        command: "BF.MADD new",
        items: 100,
        new: true,
        goal: Goal::AtMost(50_000.0),
    },
    Row {
        name: "instructions of BF.MADD 100 new, being read",
        command: "BF.MADD read",
        items: 100,
        new: true,
        goal: Goal::Unread("instructions of BF.MADD 100 new"),
    },
    Row {
        name: "instructions of TOPK.ADD, k 10",
        command: "TOPK.ADD shortlist",
        items: 1,
        new: false,
        goal: Goal::AtMost(2_950.0),
    },
    Row {
        name: "instructions of TOPK.ADD, k 100",
        command: "TOPK.ADD toplist",
        items: 1,
        new: false,
        goal: Goal::AtMost(2_950.0),
    },
    Row {
        name: "instructions of TDIGEST.ADD",
        command: "TDIGEST.ADD values",
        items: 1,
        new: false,
        goal: Goal::AtMost(600.0),
    },
    Row {
        name: "instructions of TDIGEST.QUANTILE",
        command: "TDIGEST.QUANTILE digest 0.99",
        items: 0,
        new: false,
        goal: Goal::AtMost(600.0),
    },
    Row {
        name: "instructions of TDIGEST.QUANTILE 5",
        command: "TDIGEST.QUANTILE digest 0.5 0.9 0.95 0.99 0.999",
        items: 0,
        new: false,
        goal: Goal::AtMost(2_100.0),
    },
    Row {
        name: "instructions of TDIGEST.RANK",
        command: "TDIGEST.RANK digest",
        items: 1,
        new: false,
        goal: Goal::AtMost(750.0),
    },
];

/// The largest share of instructions that a reader may add to an add.
const MOST_FOR_READER: f64 = 1.02;

const TIMES: u64 = 200;

/// The instructions of a command.
#[derive(Clone, Copy)]
struct Counted {
    /// Those of the module alone.
    own: f64,
    /// Those of the module and the server, from the words of the command to its reply.
    whole: f64,
}

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let mut needed: Vec<&str> = Vec::new();
    for row in ROWS.iter().filter(|row| wanted(row.name)) {
        needed.push(row.name);
        if let Goal::Unread(other) = row.goal {
            needed.push(other);
        }
    }
    let rows: Vec<&Row> = ROWS.iter().filter(|r| needed.contains(&r.name)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("instructions are not counted: there is no valgrind");
        return Vec::new();
    }
    let counted = count(&rows);
    let rows = rows.into_iter().filter(|row| wanted(row.name));
    rows.flat_map(|row| {
        let measured = counted[row.name];
        let line = |what: &str, measured: f64, compared_with: f64, goal| Line {
            case: format!("{}{what}", row.name),
            measured: format!("{measured:.0}"),
            compared_with: format!("{compared_with:.0}"),
            ratio: measured / compared_with,
            goal,
        };
        match row.goal {
            Goal::AtMost(most) => vec![
                line("", measured.own, most, crate::Goal::AtMost(1.0)),
                line(", of all", measured.own, measured.whole, crate::Goal::None),
            ],
            Goal::Unread(other) => {
                let unread = counted[other];
                let most = crate::Goal::AtMost(MOST_FOR_READER);
                vec![
                    line("", measured.own, unread.own, crate::Goal::None),
                    line(", with the server's", measured.whole, unread.whole, most),
                ]
            }
        }
    })
    .collect()
}

/// Counts the instructions of each row's command.
fn count(rows: &[&Row]) -> BTreeMap<&'static str, Counted> {
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
    run(&mut client, "TOPK.RESERVE shortlist 10");
    fill(&mut client, "TOPK.ADD", "shortlist", 0..100_000);
    run(&mut client, "TOPK.RESERVE toplist 100 1000 7 0.9");
    fill(&mut client, "TOPK.ADD", "toplist", 0..100_000);
    run(&mut client, "TDIGEST.CREATE values");
    run(&mut client, "TDIGEST.CREATE digest");
    fill(&mut client, "TDIGEST.ADD", "digest", 0..100_000);
    run(&mut client, "BF.RESERVE read 0.01 4000000");
    // The feed has its final size.
    run(&mut client, "BF.READ read $");
    fill(&mut client, "BF.MADD", "read", 0..100_000);
    let mut next = 0;
    let counted = rows.iter().map(|row| {
        // The first command is not counted, because it includes one-time work. A feed ends a minute after its last read.
        run(&mut client, "BF.READ read $");
        send(&mut client, row, &mut next);
        control(&server, &["--zero"]);
        control(&server, &["--instr=on"]);
        for _ in 0..TIMES {
            send(&mut client, row, &mut next);
        }
        control(&server, &["--instr=off"]);
        control(&server, &["--dump"]);
        #[allow(clippy::cast_precision_loss, reason = "some millions")]
        let each = |sum: u64| sum as f64 / TIMES as f64;
        let (own, whole) = counted(&folder);
        let counted = Counted {
            own: each(own),
            whole: each(whole),
        };
        (row.name, counted)
    });
    let counted = counted.collect();
    drop(server);
    // A folder that can't be removed does no harm.
    let _ = fs::remove_dir_all(&folder);
    counted
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

/// The server's function that parses a command's words, runs it and writes its reply. It does not read or write sockets.
const WHOLE: &str = "processInputBuffer";

/// Returns the instructions in the last dump: those of the module, without those of the functions that it calls, and those
/// of [`WHOLE`], with them.
fn counted(folder: &std::path::Path) -> (u64, u64) {
    let dumps = fs::read_dir(folder).expect("the folder");
    let number = |path: &std::path::Path| {
        let number = path.extension()?.to_str()?;
        number.parse::<u32>().ok()
    };
    let paths = dumps.filter_map(|entry| Some(entry.ok()?.path()));
    let last = paths.max_by_key(|path| number(path)).expect("a dump");
    let text = fs::read(&last).expect("a dump");
    let text = String::from_utf8_lossy(&text);
    let (mut is_ours, mut of_call, mut called, mut own, mut whole) = (false, false, "", 0, 0);
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_ours = object.ends_with("valkeybloom.so");
        } else if let Some(function) = line.strip_prefix("cfn=") {
            called = function;
        } else if line.starts_with("calls=") {
            of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line
                .rsplit_once(' ')
                .and_then(|(_, cost)| cost.parse().ok());
            let cost = cost.unwrap_or(0_u64);
            // The line after a call has the cost of that call.
            if of_call && called == WHOLE {
                whole += cost;
            } else if is_ours && !of_call {
                own += cost;
            }
            of_call = false;
        }
    }
    assert!(whole > own, "the server has a function {WHOLE}");
    (own, whole)
}
