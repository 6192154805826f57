//! Counts the module's own instructions for a command with callgrind, and those of the server and the module together, from
//! the words of the command to its reply. The counts hardly change from run to run. Valgrind has no AVX-512, so words of
//! four, or one, are counted.
//!
//! Each count is compared with the one in `instructions.txt`, and one that is more than 2 % above it makes the benchmark
//! fail. `ACCEPT=1` writes the file anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::{env, fs};

use valkeybloom_testing::callgrind;

use crate::harness::{self, Client, Server};
use crate::objects::fill;
use crate::{Goal, Line, run};

/// A command whose instructions are counted.
struct Row {
    name: String,
    command: &'static str,
    items: u64,
    /// Whether every command has new items, which are not in the filter.
    new: bool,
}

/// The rows. Each has what is counted, the words of the command, and the items that follow them.
const ROWS: &str = "
BF.EXISTS hit | BF.EXISTS small | 1 known
BF.EXISTS hit, counting | BF.EXISTS counting | 1 known
BF.ADD known | BF.ADD small | 1 known
BF.ADD new | BF.ADD new | 1 new
BF.ADD new, being read | BF.ADD read | 1 new
BF.MEXISTS 100 miss | BF.MEXISTS small | 100 new
BF.MEXISTS 100 miss, window | BF.MEXISTS window | 100 new
BF.MADD 100 new | BF.MADD new | 100 new
BF.MADD 100 new, being read | BF.MADD read | 100 new
BF.MADD 100 new, counting | BF.MADD counting | 100 new
BF.INSERT known | BF.INSERT small ITEMS | 1 known
BF.INSERT 100 new | BF.INSERT new ITEMS | 100 new
TOPK.ADD, k 10 | TOPK.ADD shortlist | 1 known
TOPK.ADD, k 100 | TOPK.ADD toplist | 1 known
TDIGEST.ADD | TDIGEST.ADD values | 1 known
TDIGEST.QUANTILE | TDIGEST.QUANTILE digest 0.99 | 0 known
TDIGEST.QUANTILE 5 | TDIGEST.QUANTILE digest 0.5 0.9 0.95 0.99 0.999 | 0 known
TDIGEST.RANK | TDIGEST.RANK digest | 1 known
";

fn rows() -> Vec<Row> {
    let lines = ROWS.lines().skip(1);
    let row = |line: &'static str| {
        let (name, rest) = line.split_once(" | ").expect("a name");
        let (command, items) = rest.split_once(" | ").expect("a command");
        let (items, kind) = items.split_once(' ').expect("a number");
        Row {
            name: format!("instructions of {name}"),
            command,
            items: items.parse().expect("a number"),
            new: kind == "new",
        }
    };
    lines.map(row).collect()
}

/// The end of the name of a row on a filter that is read. Before it is the name of the row with the same command on one that
/// nobody reads. All instructions of the first should be at most 2 % more.
const READ: &str = ", being read";

/// The file of the accepted counts: the module's instructions, and all, of each row.
const ACCEPTED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/server/instructions.txt"
);

/// The largest ratio to an accepted count, and of a command on a filter that is read to one on a filter that is not.
const MOST: f64 = 1.02;

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
    let all = rows();
    let is_needed = |row: &&Row| {
        let read = format!("{}{READ}", row.name);
        wanted(&row.name) || wanted(&read) && all.iter().any(|row| row.name == read)
    };
    let rows: Vec<&Row> = all.iter().filter(is_needed).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    if !callgrind::is_installed() {
        eprintln!("instructions are not counted: there is no valgrind");
        return Vec::new();
    }
    let counted = count(&rows);
    let mut accepted = accepted();
    if env::var_os("ACCEPT").is_some() {
        accepted.extend(counted.clone());
        accept(&accepted);
    }
    let line = |case: String, measured: f64, compared_with: f64, goal| Line {
        case,
        measured: format!("{measured:.0}"),
        compared_with: format!("{compared_with:.0}"),
        ratio: measured / compared_with,
        goal,
    };
    let mut lines = Vec::new();
    for (name, measured) in &counted {
        let accepted = accepted.get(name).unwrap_or(measured);
        let (whole, goal) = (format!("{name}, with the server's"), Goal::Fixed(MOST));
        lines.extend([
            line(name.clone(), measured.own, accepted.own, goal),
            line(whole, measured.whole, accepted.whole, goal),
        ]);
    }
    for (read, with) in &counted {
        if let Some(without) = read.strip_suffix(READ).map(|name| &counted[name]) {
            let (case, goal) = (format!("{read}, of all"), Goal::AtMost(MOST));
            lines.push(line(case, with.whole, without.whole, goal));
        }
    }
    lines
}

/// Reads the accepted counts.
fn accepted() -> BTreeMap<String, Counted> {
    let text = fs::read_to_string(ACCEPTED).expect("the file of accepted counts");
    let counts = text.lines().map(|line| {
        let (name, counts) = line.split_once(": ")?;
        let (own, whole) = counts.split_once(" of ")?;
        let (own, whole) = (own.parse().ok()?, whole.parse().ok()?);
        Some((name.to_owned(), Counted { own, whole }))
    });
    counts
        .map(|counts| counts.expect("name: own of whole"))
        .collect()
}

/// Writes the accepted counts, in the order of the rows.
fn accept(accepted: &BTreeMap<String, Counted>) {
    let rows = rows().into_iter();
    let lines = rows.filter_map(|Row { name, .. }| {
        let Counted { own, whole } = accepted.get(&name)?;
        Some(format!("{name}: {own:.0} of {whole:.0}\n"))
    });
    fs::write(ACCEPTED, lines.collect::<String>()).expect("the file can be written");
}

/// Counts the instructions of each row's command.
fn count(rows: &[&Row]) -> BTreeMap<String, Counted> {
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
    fill_keys(&mut client);
    let mut next = 0;
    let counted = rows.iter().map(|row| {
        // The first command is not counted, because it includes one-time work. A feed ends a minute after its last read.
        run(&mut client, "BF.READ read $");
        send(&mut client, row, &mut next);
        callgrind::begin(&server);
        for _ in 0..TIMES {
            send(&mut client, row, &mut next);
        }
        let dump = callgrind::end(&server, &folder);
        #[allow(clippy::cast_precision_loss, reason = "some millions")]
        let each = |sum: u64| sum as f64 / TIMES as f64;
        let (own, whole) = counted(&dump);
        let counted = Counted {
            own: each(own),
            whole: each(whole),
        };
        (row.name.clone(), counted)
    });
    let counted = counted.collect();
    drop(server);
    // A folder that can't be removed does no harm.
    let _ = fs::remove_dir_all(&folder);
    counted
}

/// Creates the keys of all rows.
fn fill_keys(client: &mut Client) {
    for (create, filled_by) in [
        ("BF.RESERVE small 0.01 100000", Some("BF.MADD")),
        ("BF.RESERVE counting 0.01 100000 COUNTING", Some("BF.MADD")),
        (
            "BF.RESERVE window 0.01 100000 WINDOW 86400000 PERIODS 24",
            Some("BF.MADD"),
        ),
        ("BF.RESERVE new 0.01 4000000", None),
        ("TOPK.RESERVE shortlist 10", Some("TOPK.ADD")),
        ("TOPK.RESERVE toplist 100 1000 7 0.9", Some("TOPK.ADD")),
        ("TDIGEST.CREATE values", None),
        ("TDIGEST.CREATE digest", Some("TDIGEST.ADD")),
        ("BF.RESERVE read 0.01 4000000", None),
    ] {
        run(client, create);
        if let Some(command) = filled_by {
            let key = create.split(' ').nth(1).expect("a key");
            fill(client, command, key, 0..100_000);
        }
    }
    // The feed has its final size.
    run(client, "BF.READ read $");
    fill(client, "BF.MADD", "read", 0..100_000);
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

/// The server's function that parses a command's words, runs it and writes its reply. It does not read or write sockets.
const WHOLE: &str = "processInputBuffer";

/// Returns the instructions in a dump: those of the module, without those of the functions that it calls, and those
/// of [`WHOLE`], with them.
fn counted(dump: &str) -> (u64, u64) {
    let module = harness::given("VALKEYBLOOM_SO");
    let module = module.file_name().and_then(|name| name.to_str());
    let module = module.expect("a file's name");
    let (mut is_ours, mut of_call, mut called, mut own, mut whole) = (false, false, "", 0, 0);
    for line in dump.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_ours = object.ends_with(module);
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
    assert!(own > 0, "the module runs instructions");
    assert!(whole > own, "the server has a function {WHOLE}");
    (own, whole)
}
