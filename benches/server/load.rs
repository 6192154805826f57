//! Measures commands under load. valkey-benchmark sends them, and the processor time that the server reports, user and
//! system, is divided by their number.
//!
//! Every round runs all rows, so that a machine that gets slower does so for all of them.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::Command;

use crate::harness::{Client, Server};
use crate::objects::{fill, stack, window};
use crate::times::{cpu_seconds, median};
use crate::{Goal, Line, run, server};

const ROUNDS: usize = 5;

/// One command under load.
struct Row {
    name: &'static str,
    /// The command; the word `item` becomes a random number of twelve digits.
    command: &'static str,
    /// The number of items: the last words are repeated.
    items: usize,
    /// The number of words that are repeated.
    words_each: usize,
    pipeline: usize,
    requests: u64,
    /// The exclusive upper bound of the random numbers.
    range: u64,
    /// The commands at the start of a round.
    before: Vec<&'static str>,
    /// The rows that it is compared with, and the largest acceptable ratio to each.
    goals: Vec<(&'static str, Option<f64>)>,
}

/// The number of items in a filter for a million, and in one for as many as a window of 24 periods of a million.
const FILLED: u64 = 300_000;
const WIDE: u64 = 24_000_000;

/// The cells of a row: its name, the command, options, the commands at the start of a round, and the rows that it is
/// compared with, each with the largest acceptable ratio. Goals in multiples of GETBIT are shares of what `RedisBloom` 8.8
/// takes. There is no goal if the server does most of the work in both rows: then the module's instructions have one.
///
/// Numbers below 2,000,000,000 hardly ever repeat.
const ROWS: &str = "
GET | GET text
GETBIT | GETBIT bits 12345
GET, bloom-info-alias yes | GET text | | CONFIG SET bf.bloom-info-alias yes | GET
SISMEMBER | SISMEMBER set item
BF.CARD | BF.CARD small
BF.EXISTS hit | BF.EXISTS small item | | | GETBIT ≤ 1.17; BF.CARD
BF.EXISTS miss | BF.EXISTS small missing:item | | | GETBIT; BF.CARD
BF.ADD known | BF.ADD small item | | | BF.CARD
SADD new | SADD newset item | 2000000000 numbers | DEL newset
BF.ADD new | BF.ADD new item | 2000000000 numbers | DEL new / BF.RESERVE new 0.01 4000000 \
    | GETBIT ≤ 1.37; SADD new ≤ 0.70
SMISMEMBER 100 | SMISMEMBER set item | 100 items
BF.MEXISTS 100 | BF.MEXISTS small item | 100 items | | GETBIT ≤ 16.65; SMISMEMBER 100 ≤ 0.50; BF.MEXISTS 100, no key
# Measures the server's time for the arguments and the reply.
BF.MEXISTS 100, no key | BF.MEXISTS missing item | 100 items
SADD 100 new | SADD newset item | 100 items, 10000 requests, 2000000000 numbers | DEL newset
BF.MADD 100 new | BF.MADD new item | 100 items, 30000 requests, 2000000000 numbers | DEL new / BF.RESERVE new 0.01 4000000 \
    | SADD 100 new ≤ 0.26
BF.EXISTS hit, filter for 45M | BF.EXISTS large item | 2000000 numbers | | BF.EXISTS hit
BF.MEXISTS 100, filter for 45M | BF.MEXISTS large item | 100 items, 2000000 numbers | | BF.MEXISTS 100 ≤ 1.6
BF.MEXISTS 100 miss | BF.MEXISTS small missing:item | 100 items
BF.MISSING 100 | BF.MISSING small item | 100 items | | BF.MEXISTS 100 ≤ 1.1
BF.MISSING 100 miss | BF.MISSING small missing:item | 100 items | | BF.MEXISTS 100 miss ≤ 1.1
CF.EXISTS hit | CF.EXISTS cuckoo item | | | GETBIT ≤ 1.06; BF.EXISTS hit ≤ 1.05
CF.EXISTS miss | CF.EXISTS cuckoo missing:item | | | BF.EXISTS miss ≤ 1.05
CF.EXISTS hit, 64 MiB | CF.EXISTS largecuckoo item | 2000000 numbers | | BF.EXISTS hit, filter for 45M ≤ 1.0
CF.ADD new | CF.ADD newcuckoo item | 2000000000 numbers | DEL newcuckoo / CF.RESERVE newcuckoo 4000000 \
    | GETBIT ≤ 1.3; SADD new ≤ 0.75
CF.MEXISTS 100 | CF.MEXISTS cuckoo item | 100 items | | BF.MEXISTS 100 ≤ 1.0
CF.MEXISTS 100, 64 MiB | CF.MEXISTS largecuckoo item | 100 items, 2000000 numbers | \
    | BF.MEXISTS 100, filter for 45M ≤ 1.0
# The sketches' goals are 0.8 of what RedisBloom 8.8 takes in multiples of GETBIT, and 0.5 for batches of count-min
# and for long lists. For CMS.QUERY that is less than the server's own share, so it has no goal.
CMS.INCRBY | CMS.INCRBY counts item 1 | | | GETBIT ≤ 1.23; BF.CARD
CMS.QUERY | CMS.QUERY counts item | | | GETBIT; BF.CARD
CMS.INCRBY 100, 200,000 × 7 | CMS.INCRBY widecounts item 1 | 100 items, 2 words | | GETBIT ≤ 29.5
CMS.QUERY 100, 200,000 × 7 | CMS.QUERY widecounts item | 100 items | | GETBIT ≤ 12.3; BF.MEXISTS 100, no key
TOPK.ADD, k 10 | TOPK.ADD shortlist item | 400 numbers | DEL shortlist / TOPK.RESERVE shortlist 10 | GETBIT ≤ 1.21
TOPK.ADD, k 100 | TOPK.ADD toplist item | 400 numbers | DEL toplist / TOPK.RESERVE toplist 100 1000 7 0.9 \
    | GETBIT ≤ 1.25
TOPK.ADD, k 10,000 | TOPK.ADD longlist item | 10000 numbers | DEL longlist / TOPK.RESERVE longlist 10000 80000 7 0.9 \
    | GETBIT ≤ 4.4
TOPK.QUERY, k 10,000 | TOPK.QUERY longlist item | 10000 numbers | | GETBIT ≤ 3.2
TOPK.ADD 100, k 100 | TOPK.ADD toplist item | 100 items, 400 numbers | | TOPK.ADD, k 100
TDIGEST.ADD | TDIGEST.ADD values item | | DEL values / TDIGEST.CREATE values | GETBIT ≤ 1.12; BF.CARD
TDIGEST.ADD 100 | TDIGEST.ADD values item | 100 items | DEL values / TDIGEST.CREATE values | GETBIT ≤ 20.1
TDIGEST.QUANTILE | TDIGEST.QUANTILE digest 0.99 | | | GETBIT ≤ 1.23; BF.CARD
TDIGEST.QUANTILE 5 | TDIGEST.QUANTILE digest 0.5 0.9 0.95 0.99 0.999 | | | GETBIT ≤ 2.36
TDIGEST.RANK | TDIGEST.RANK digest item | | | GETBIT ≤ 1.18
TDIGEST.MERGE of 2 | TDIGEST.MERGE both 2 digest digest OVERRIDE | 100000 requests | | TDIGEST.ADD 100
BF.EXISTS hit, 1M | BF.EXISTS plain item | 300000 numbers
BF.EXISTS miss, 1M | BF.EXISTS plain missing:item
BF.EXISTS hit, 1M counted | BF.EXISTS counted item | 300000 numbers | | BF.EXISTS hit, 1M ≤ 1.1
BF.EXISTS miss, 1M counted | BF.EXISTS counted missing:item | | | BF.EXISTS miss, 1M ≤ 1.1
BF.MADD 100 new, 1M | BF.MADD new item | 100 items, 6000 requests, 2000000000 numbers | COPY plain new REPLACE
BF.MADD 100 new, 1M counted | BF.MADD new item | 100 items, 6000 requests, 2000000000 numbers | COPY counted new REPLACE \
    | BF.MADD 100 new, 1M ≤ 1.4
BF.MDEL 100, 1M counted | BF.MDEL new item | 100 items, 3000 requests, 300000 numbers | COPY counted new REPLACE \
    | BF.MADD 100 new, 1M counted
BF.MADD 100 new, scaled to 1M | BF.MADD new item | 100 items, 6000 requests, 2000000000 numbers | COPY scaled new REPLACE \
    | BF.MADD 100 new, 1M
BF.ADD new, 1M | BF.ADD new item | 600000 requests, 2000000000 numbers | COPY plain new REPLACE
BF.ADD new, 1M counted | BF.ADD new item | 600000 requests, 2000000000 numbers | COPY counted new REPLACE \
    | BF.ADD new, 1M
BF.EXISTS hit, 24M | BF.EXISTS wide item | 24000000 numbers
BF.EXISTS miss, 24M | BF.EXISTS wide missing:item
BF.EXISTS hit, 24 periods of 1M | BF.EXISTS window item | 24000000 numbers | | BF.EXISTS hit, 24M ≤ 1.1
BF.EXISTS miss, 24 periods of 1M | BF.EXISTS window missing:item | | | BF.EXISTS miss, 24M ≤ 1.1
BF.MEXISTS 100 miss, 24M | BF.MEXISTS wide missing:item | 100 items, 20000 requests
BF.MEXISTS 100 miss, 24 periods of 1M | BF.MEXISTS window missing:item | 100 items, 20000 requests | \
    | BF.MEXISTS 100 miss, 24M ≤ 1.1
BF.MISSING 100 hit, 24M | BF.MISSING wide item | 100 items, 20000 requests, 24000000 numbers
BF.MISSING 100 hit, 24 periods of 1M | BF.MISSING window item | 100 items, 20000 requests, 24000000 numbers | \
    | BF.MISSING 100 hit, 24M ≤ 1.15
BF.MADD 100 new, 24M | BF.MADD new item | 100 items, 6000 requests, 2000000000 numbers | COPY wide new REPLACE
BF.MADD 100 new, 24 periods of 1M | BF.MADD new item | 100 items, 6000 requests, 2000000000 numbers | COPY window new REPLACE \
    | BF.MADD 100 new, 24M ≤ 1.4
BF.EXISTS miss, 1 filter | BF.EXISTS stack1 missing:item | 16 pipelined, 2000000000 numbers
BF.EXISTS miss, 10 stacked | BF.EXISTS stack10 missing:item | 16 pipelined, 2000000000 numbers | \
    | BF.EXISTS miss, 1 filter ≤ 1.25
BF.EXISTS miss, 100 stacked | BF.EXISTS stack100 missing:item | 16 pipelined, 500000 requests, 2000000000 numbers | \
    | BF.EXISTS miss, 1 filter ≤ 2.5
BF.MADD 50, right size | BF.MADD grow item | 50 items, 20000 requests, 2000000000 numbers \
    | DEL grow / BF.RESERVE grow 0.01 1000000
BF.MADD 50, grown from 1000 | BF.MADD grow item | 50 items, 20000 requests, 2000000000 numbers | DEL grow / BF.RESERVE grow 0.01 1000 EXPANSION 2 \
    | GETBIT ≤ 16.4; BF.MADD 50, right size ≤ 1.6
";

fn rows() -> Vec<Row> {
    let lines = ROWS.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(row).collect()
}

fn row(line: &'static str) -> Row {
    let parts = |cell: &'static str, between| {
        let parts = cell.split(between);
        parts.filter(|part| !part.is_empty())
    };
    let mut cells = line.split('|').map(str::trim);
    let mut cell = || cells.next().unwrap_or_default();
    let mut row = Row {
        name: cell(),
        command: cell(),
        items: 1,
        words_each: 1,
        pipeline: 32,
        requests: 1_000_000,
        range: 100_000,
        before: Vec::new(),
        goals: Vec::new(),
    };
    for option in parts(cell(), ", ") {
        let (number, what) = option.split_once(' ').expect("a number first");
        let count: usize = number.parse().expect("a number");
        match what {
            "items" => (row.items, row.requests) = (count, 60_000),
            "words" => row.words_each = count,
            "pipelined" => row.pipeline = count,
            "requests" => row.requests = count as u64,
            "numbers" => row.range = count as u64,
            other => panic!("unknown option: {other}"),
        }
    }
    row.before = parts(cell(), " / ").collect();
    let goal = |goal: &'static str| match goal.split_once(" ≤ ") {
        Some((other, most)) => (other, Some(most.parse().expect("a ratio"))),
        None => (goal, None),
    };
    row.goals = parts(cell(), "; ").map(goal).collect();
    row
}

/// The figures of a row in one round.
struct Figures {
    cpu_ns: f64,
    per_second: f64,
}

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let all = rows();
    let named = |name: &str| all.iter().find(|row| row.name == name).expect("a row");
    let mut needed: Vec<&str> = Vec::new();
    for row in all.iter().filter(|row| wanted(row.name)) {
        needed.push(row.name);
        needed.extend(row.goals.iter().map(|(other, _)| *other));
    }
    let rows: Vec<&Row> = all.iter().filter(|r| needed.contains(&r.name)).collect();
    if rows.is_empty() {
        return Vec::new();
    }

    let server = server();
    prepare(&mut server.client(), &rows);
    let mut rounds: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        for row in &rows {
            let figures = measure(&server, row);
            rounds.entry(row.name).or_default().push(figures);
        }
    }
    let text = |row: &Row| {
        let cpu_ns = median(rounds[row.name].iter().map(|f| f.cpu_ns).collect());
        let per_second = median(rounds[row.name].iter().map(|f| f.per_second).collect());
        format!("{cpu_ns:.0} ns ({per_second:.0}/s)")
    };
    let mut lines = Vec::new();
    for row in rows.into_iter().filter(|row| wanted(row.name)) {
        for (other, goal) in &row.goals {
            let pairs = rounds[row.name].iter().zip(&rounds[other]);
            lines.push(Line {
                case: row.name.to_owned(),
                measured: text(row),
                compared_with: format!("{other}: {}", text(named(other))),
                ratio: median(
                    pairs
                        .map(|(ours, base)| ours.cpu_ns / base.cpu_ns)
                        .collect(),
                ),
                goal: goal.map_or(Goal::None, Goal::AtMost),
            });
        }
    }
    lines
}

/// Makes the keys that the rows query.
fn prepare(client: &mut Client, rows: &[&Row]) {
    let wanted = |key: &str| {
        let is_key = |line: &str| line.split(' ').nth(1) == Some(key);
        let needs = |row: &&Row| is_key(row.command) || row.before.iter().any(|line| is_key(line));
        rows.iter().any(needs)
    };
    run(client, "SET text some-text");
    run(client, "SETBIT bits 960000 1");
    if wanted("set") {
        fill(client, "SADD", "set", 0..100_000);
    }
    for (key, capacity, items) in [
        ("small", "100000", 100_000),
        ("large", "45000000", 2_000_000),
        ("plain", "1000000", FILLED),
        ("wide", "24000000", WIDE),
        ("counted", "1000000 COUNTING", FILLED),
        ("scaled", "1000 SCALETO 1000000", FILLED),
    ] {
        if wanted(key) {
            run(client, &format!("BF.RESERVE {key} 0.01 {capacity}"));
            fill(client, "BF.MADD", key, 0..items);
        }
    }
    for (key, capacity, items) in [
        ("cuckoo", 100_000, 100_000),
        ("largecuckoo", 1 << 26, 2_000_000),
    ] {
        if wanted(key) {
            run(client, &format!("CF.RESERVE {key} {capacity}"));
            fill(client, "CF.INSERT", &format!("{key} ITEMS"), 0..items);
        }
    }
    for (key, width) in [("counts", 2000), ("widecounts", 200_000)] {
        if wanted(key) {
            run(client, &format!("CMS.INITBYDIM {key} {width} 7"));
        }
    }
    if wanted("digest") {
        run(client, "TDIGEST.CREATE digest");
        fill(client, "TDIGEST.ADD", "digest", 0..100_000);
    }
    if wanted("window") {
        window(client);
    }
    for filters in [1, 10, 100] {
        let key = format!("stack{filters}");
        if wanted(&key) {
            run(client, &format!("BF.RESERVE {key} 0.001 1000 EXPANSION 1"));
            stack(client, &key, filters);
        }
    }
}

fn measure(server: &Server, row: &Row) -> Figures {
    let mut client = server.client();
    run(&mut client, "CONFIG SET bf.bloom-info-alias no");
    for line in &row.before {
        run(&mut client, line);
    }
    let generator = Path::new(&env::var_os("VALKEY_SERVER").expect("./build.sh bench sets it"))
        .with_file_name("valkey-benchmark");
    let command = row.command.replace("item", "__rand_int__");
    let words: Vec<&str> = command.split(' ').collect();
    let each = &words[words.len() - row.words_each..];
    let before = cpu_seconds(server);
    let output = Command::new(&generator)
        .args(["-p", &server.port().to_string(), "--csv"])
        .args(["-n", &row.requests.to_string()])
        .args(["-P", &row.pipeline.to_string()])
        .args(["-r", &row.range.to_string()])
        .args(&words)
        .args(each.repeat(row.items - 1))
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", generator.display()));
    let spent = cpu_seconds(server) - before;
    let text = String::from_utf8_lossy(&output.stdout);
    // The fields are quoted: first the command's name, then the requests per second.
    let fields = text
        .lines()
        .last()
        .and_then(|line| line.rsplit_once("\",\""));
    assert!(output.status.success() && fields.is_some(), "{output:?}");
    let fields: Vec<&str> = text
        .lines()
        .last()
        .expect("a line")
        .split("\",\"")
        .collect();
    let per_second = fields[1].trim_matches('"').parse().expect("a number");
    #[allow(clippy::cast_precision_loss, reason = "less than 2^52 requests")]
    Figures {
        cpu_ns: spent / row.requests as f64 * 1e9,
        per_second,
    }
}
