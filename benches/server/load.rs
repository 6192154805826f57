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
    before: &'static [&'static str],
    /// The rows that it is compared with, and the largest acceptable ratio to each. Goals in multiples of GETBIT are shares
    /// of what `RedisBloom` 8.8 takes. There is no goal if the server does most of the work in both rows: then the module's
    /// instructions have one.
    goals: &'static [(&'static str, Option<f64>)],
}

/// The number of items in a filter for a million, and in one for as many as a window of 24 periods of a million.
const FILLED: u64 = 300_000;
const WIDE: u64 = 24_000_000;

/// The upper bound of numbers that hardly ever repeat.
const NEW: u64 = 2_000_000_000;

/// Returns a command with one item.
const fn one(name: &'static str, command: &'static str) -> Row {
    Row {
        name,
        command,
        items: 1,
        words_each: 1,
        pipeline: 32,
        requests: 1_000_000,
        range: 100_000,
        before: &[],
        goals: &[],
    }
}

/// Returns a command with a hundred items.
const fn batch(name: &'static str, command: &'static str) -> Row {
    one(name, command).items(100, 4).requests(60_000)
}

impl Row {
    const fn items(mut self, items: usize, pipeline: usize) -> Self {
        (self.items, self.pipeline) = (items, pipeline);
        self
    }

    /// Makes each item a pair of words.
    const fn pairs(mut self) -> Self {
        self.words_each = 2;
        self
    }

    const fn pipeline(mut self, pipeline: usize) -> Self {
        self.pipeline = pipeline;
        self
    }

    const fn requests(mut self, requests: u64) -> Self {
        self.requests = requests;
        self
    }

    const fn range(mut self, range: u64) -> Self {
        self.range = range;
        self
    }

    const fn before(mut self, lines: &'static [&'static str]) -> Self {
        self.before = lines;
        self
    }

    const fn goals(mut self, goals: &'static [(&'static str, Option<f64>)]) -> Self {
        self.goals = goals;
        self
    }
}

const ROWS: &[Row] = &[
    one("GET", "GET text"),
    one("GETBIT", "GETBIT bits 12345"),
    one("GET, bloom-info-alias yes", "GET text")
        .before(&["CONFIG SET bf.bloom-info-alias yes"])
        .goals(&[("GET", None)]),
    one("SISMEMBER", "SISMEMBER set item"),
    one("BF.CARD", "BF.CARD small"),
    one("BF.EXISTS hit", "BF.EXISTS small item")
        .goals(&[("GETBIT", Some(1.17)), ("BF.CARD", None)]),
    one("BF.EXISTS miss", "BF.EXISTS small missing:item")
        .goals(&[("GETBIT", None), ("BF.CARD", None)]),
    one("BF.ADD known", "BF.ADD small item").goals(&[("BF.CARD", None)]),
    one("SADD new", "SADD newset item")
        .range(NEW)
        .before(&["DEL newset"]),
    one("BF.ADD new", "BF.ADD new item")
        .range(NEW)
        .before(&["DEL new", "BF.RESERVE new 0.01 4000000"])
        .goals(&[("GETBIT", Some(1.37)), ("SADD new", Some(0.70))]),
    batch("SMISMEMBER 100", "SMISMEMBER set item"),
    batch("BF.MEXISTS 100", "BF.MEXISTS small item").goals(&[
        ("GETBIT", Some(16.65)),
        ("SMISMEMBER 100", Some(0.50)),
        ("BF.MEXISTS 100, no key", None),
    ]),
    // Measures the server's time for the arguments and the reply.
    batch("BF.MEXISTS 100, no key", "BF.MEXISTS missing item"),
    batch("SADD 100 new", "SADD newset item")
        .requests(10_000)
        .range(NEW)
        .before(&["DEL newset"]),
    batch("BF.MADD 100 new", "BF.MADD new item")
        .requests(30_000)
        .range(NEW)
        .before(&["DEL new", "BF.RESERVE new 0.01 4000000"])
        .goals(&[("SADD 100 new", Some(0.26))]),
    one("BF.EXISTS hit, filter for 45M", "BF.EXISTS large item")
        .range(2_000_000)
        .goals(&[("BF.EXISTS hit", None)]),
    batch("BF.MEXISTS 100, filter for 45M", "BF.MEXISTS large item")
        .range(2_000_000)
        .goals(&[("BF.MEXISTS 100", Some(1.6))]),
    batch("BF.MEXISTS 100 miss", "BF.MEXISTS small missing:item"),
    batch("BF.MISSING 100", "BF.MISSING small item").goals(&[("BF.MEXISTS 100", Some(1.1))]),
    batch("BF.MISSING 100 miss", "BF.MISSING small missing:item")
        .goals(&[("BF.MEXISTS 100 miss", Some(1.1))]),
    one("CF.EXISTS hit", "CF.EXISTS cuckoo item")
        .goals(&[("GETBIT", Some(1.06)), ("BF.EXISTS hit", Some(1.05))]),
    one("CF.EXISTS miss", "CF.EXISTS cuckoo missing:item").goals(&[("BF.EXISTS miss", Some(1.05))]),
    one("CF.EXISTS hit, 64 MiB", "CF.EXISTS largecuckoo item")
        .range(2_000_000)
        .goals(&[("BF.EXISTS hit, filter for 45M", Some(1.0))]),
    one("CF.ADD new", "CF.ADD newcuckoo item")
        .range(NEW)
        .before(&["DEL newcuckoo", "CF.RESERVE newcuckoo 4000000"])
        .goals(&[("GETBIT", Some(1.3)), ("SADD new", Some(0.75))]),
    batch("CF.MEXISTS 100", "CF.MEXISTS cuckoo item").goals(&[("BF.MEXISTS 100", Some(1.0))]),
    batch("CF.MEXISTS 100, 64 MiB", "CF.MEXISTS largecuckoo item")
        .range(2_000_000)
        .goals(&[("BF.MEXISTS 100, filter for 45M", Some(1.0))]),
    // The sketches' goals are 0.8 of what RedisBloom 8.8 takes in multiples of GETBIT, and 0.5 for batches of count-min
    // and for long lists. For CMS.QUERY that is less than the server's own share, so it has no goal.
    one("CMS.INCRBY", "CMS.INCRBY counts item 1")
        .goals(&[("GETBIT", Some(1.23)), ("BF.CARD", None)]),
    one("CMS.QUERY", "CMS.QUERY counts item").goals(&[("GETBIT", None), ("BF.CARD", None)]),
    batch(
        "CMS.INCRBY 100, 200,000 × 7",
        "CMS.INCRBY widecounts item 1",
    )
    .pairs()
    .goals(&[("GETBIT", Some(29.5))]),
    batch("CMS.QUERY 100, 200,000 × 7", "CMS.QUERY widecounts item")
        .goals(&[("GETBIT", Some(12.3)), ("BF.MEXISTS 100, no key", None)]),
    one("TOPK.ADD, k 10", "TOPK.ADD shortlist item")
        .range(400)
        .before(&["DEL shortlist", "TOPK.RESERVE shortlist 10"])
        .goals(&[("GETBIT", Some(1.21))]),
    one("TOPK.ADD, k 100", "TOPK.ADD toplist item")
        .range(400)
        .before(&["DEL toplist", "TOPK.RESERVE toplist 100 1000 7 0.9"])
        .goals(&[("GETBIT", Some(1.25))]),
    one("TOPK.ADD, k 10,000", "TOPK.ADD longlist item")
        .range(10_000)
        .before(&["DEL longlist", "TOPK.RESERVE longlist 10000 80000 7 0.9"])
        .goals(&[("GETBIT", Some(4.4))]),
    one("TOPK.QUERY, k 10,000", "TOPK.QUERY longlist item")
        .range(10_000)
        .goals(&[("GETBIT", Some(3.2))]),
    batch("TOPK.ADD 100, k 100", "TOPK.ADD toplist item")
        .range(400)
        .goals(&[("TOPK.ADD, k 100", None)]),
    one("TDIGEST.ADD", "TDIGEST.ADD values item")
        .before(&["DEL values", "TDIGEST.CREATE values"])
        .goals(&[("GETBIT", Some(1.12)), ("BF.CARD", None)]),
    batch("TDIGEST.ADD 100", "TDIGEST.ADD values item")
        .before(&["DEL values", "TDIGEST.CREATE values"])
        .goals(&[("GETBIT", Some(20.1))]),
    one("TDIGEST.QUANTILE", "TDIGEST.QUANTILE digest 0.99")
        .goals(&[("GETBIT", Some(1.23)), ("BF.CARD", None)]),
    one(
        "TDIGEST.QUANTILE 5",
        "TDIGEST.QUANTILE digest 0.5 0.9 0.95 0.99 0.999",
    )
    .goals(&[("GETBIT", Some(2.36))]),
    one("TDIGEST.RANK", "TDIGEST.RANK digest item").goals(&[("GETBIT", Some(1.18))]),
    one(
        "TDIGEST.MERGE of 2",
        "TDIGEST.MERGE both 2 digest digest OVERRIDE",
    )
    .requests(100_000)
    .goals(&[("TDIGEST.ADD 100", None)]),
    one("BF.EXISTS hit, 1M", "BF.EXISTS plain item").range(FILLED),
    one("BF.EXISTS miss, 1M", "BF.EXISTS plain missing:item"),
    one("BF.EXISTS hit, 1M counted", "BF.EXISTS counted item")
        .range(FILLED)
        .goals(&[("BF.EXISTS hit, 1M", Some(1.1))]),
    one(
        "BF.EXISTS miss, 1M counted",
        "BF.EXISTS counted missing:item",
    )
    .goals(&[("BF.EXISTS miss, 1M", Some(1.1))]),
    batch("BF.MADD 100 new, 1M", "BF.MADD new item")
        .requests(6_000)
        .range(NEW)
        .before(&["COPY plain new REPLACE"]),
    batch("BF.MADD 100 new, 1M counted", "BF.MADD new item")
        .requests(6_000)
        .range(NEW)
        .before(&["COPY counted new REPLACE"])
        .goals(&[("BF.MADD 100 new, 1M", Some(1.4))]),
    batch("BF.MDEL 100, 1M counted", "BF.MDEL new item")
        .requests(3_000)
        .range(FILLED)
        .before(&["COPY counted new REPLACE"])
        .goals(&[("BF.MADD 100 new, 1M counted", None)]),
    batch("BF.MADD 100 new, scaled to 1M", "BF.MADD new item")
        .requests(6_000)
        .range(NEW)
        .before(&["COPY scaled new REPLACE"])
        .goals(&[("BF.MADD 100 new, 1M", None)]),
    one("BF.ADD new, 1M", "BF.ADD new item")
        .requests(600_000)
        .range(NEW)
        .before(&["COPY plain new REPLACE"]),
    one("BF.ADD new, 1M counted", "BF.ADD new item")
        .requests(600_000)
        .range(NEW)
        .before(&["COPY counted new REPLACE"])
        .goals(&[("BF.ADD new, 1M", None)]),
    one("BF.EXISTS hit, 24M", "BF.EXISTS wide item").range(WIDE),
    one("BF.EXISTS miss, 24M", "BF.EXISTS wide missing:item"),
    one("BF.EXISTS hit, 24 periods of 1M", "BF.EXISTS window item")
        .range(WIDE)
        .goals(&[("BF.EXISTS hit, 24M", Some(1.1))]),
    one(
        "BF.EXISTS miss, 24 periods of 1M",
        "BF.EXISTS window missing:item",
    )
    .goals(&[("BF.EXISTS miss, 24M", Some(1.1))]),
    batch("BF.MEXISTS 100 miss, 24M", "BF.MEXISTS wide missing:item").requests(20_000),
    batch(
        "BF.MEXISTS 100 miss, 24 periods of 1M",
        "BF.MEXISTS window missing:item",
    )
    .requests(20_000)
    .goals(&[("BF.MEXISTS 100 miss, 24M", Some(1.1))]),
    batch("BF.MISSING 100 hit, 24M", "BF.MISSING wide item")
        .requests(20_000)
        .range(WIDE),
    batch(
        "BF.MISSING 100 hit, 24 periods of 1M",
        "BF.MISSING window item",
    )
    .requests(20_000)
    .range(WIDE)
    .goals(&[("BF.MISSING 100 hit, 24M", Some(1.15))]),
    batch("BF.MADD 100 new, 24M", "BF.MADD new item")
        .requests(6_000)
        .range(NEW)
        .before(&["COPY wide new REPLACE"]),
    batch("BF.MADD 100 new, 24 periods of 1M", "BF.MADD new item")
        .requests(6_000)
        .range(NEW)
        .before(&["COPY window new REPLACE"])
        .goals(&[("BF.MADD 100 new, 24M", Some(1.4))]),
    one("BF.EXISTS miss, 1 filter", "BF.EXISTS stack1 missing:item")
        .pipeline(16)
        .range(NEW),
    one(
        "BF.EXISTS miss, 10 stacked",
        "BF.EXISTS stack10 missing:item",
    )
    .pipeline(16)
    .range(NEW)
    .goals(&[("BF.EXISTS miss, 1 filter", Some(1.25))]),
    one(
        "BF.EXISTS miss, 100 stacked",
        "BF.EXISTS stack100 missing:item",
    )
    .pipeline(16)
    .requests(500_000)
    .range(NEW)
    .goals(&[("BF.EXISTS miss, 1 filter", Some(2.5))]),
    one("BF.MADD 50, right size", "BF.MADD grow item")
        .items(50, 4)
        .requests(20_000)
        .range(NEW)
        .before(&["DEL grow", "BF.RESERVE grow 0.01 1000000"]),
    one("BF.MADD 50, grown from 1000", "BF.MADD grow item")
        .items(50, 4)
        .requests(20_000)
        .range(NEW)
        .before(&["DEL grow", "BF.RESERVE grow 0.01 1000 EXPANSION 2"])
        .goals(&[
            ("GETBIT", Some(16.4)),
            ("BF.MADD 50, right size", Some(1.6)),
        ]),
];

/// The figures of a row in one round.
struct Figures {
    cpu_ns: f64,
    per_second: f64,
}

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let named = |name: &str| ROWS.iter().find(|row| row.name == name).expect("a row");
    let mut needed: Vec<&str> = Vec::new();
    for row in ROWS.iter().filter(|row| wanted(row.name)) {
        needed.push(row.name);
        needed.extend(row.goals.iter().map(|(other, _)| *other));
    }
    let rows: Vec<&Row> = ROWS.iter().filter(|r| needed.contains(&r.name)).collect();
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
        for (other, goal) in row.goals {
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
    for line in row.before {
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
