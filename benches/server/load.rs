//! Measures commands under load. valkey-benchmark sends them, and the processor time that the server reports, user and
//! system, is divided by their number.
//!
//! Every round runs all rows, so that a machine that gets slower does so for all of them.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::Command;

use crate::harness::{Client, Server};
use crate::{Goal, Line, median, run, server};

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

const ROW: Row = Row {
    name: "",
    command: "",
    items: 1,
    words_each: 1,
    pipeline: 32,
    requests: 1_000_000,
    range: 100_000,
    before: &[],
    goals: &[],
};

/// Batches of 100 items.
const BATCH: Row = Row {
    items: 100,
    pipeline: 4,
    requests: 60_000,
    ..ROW
};

/// A range of numbers so large that they hardly ever repeat.
const NEW: u64 = 2_000_000_000;

const ROWS: &[Row] = &[
    Row {
        name: "GET",
        command: "GET text",
        ..ROW
    },
    Row {
        name: "GETBIT",
        command: "GETBIT bits 12345",
        ..ROW
    },
    Row {
        name: "GET, bloom-info-alias yes",
        command: "GET text",
        before: &["CONFIG SET bf.bloom-info-alias yes"],
        goals: &[("GET", None)],
        ..ROW
    },
    Row {
        name: "SISMEMBER",
        command: "SISMEMBER set item",
        ..ROW
    },
    Row {
        name: "BF.CARD",
        command: "BF.CARD small",
        ..ROW
    },
    Row {
        name: "BF.EXISTS hit",
        command: "BF.EXISTS small item",
        goals: &[("GETBIT", Some(1.17)), ("BF.CARD", None)],
        ..ROW
    },
    Row {
        name: "BF.EXISTS miss",
        command: "BF.EXISTS small missing:item",
        goals: &[("GETBIT", None), ("BF.CARD", None)],
        ..ROW
    },
    Row {
        name: "BF.ADD known",
        command: "BF.ADD small item",
        goals: &[("BF.CARD", None)],
        ..ROW
    },
    Row {
        name: "SADD new",
        command: "SADD newset item",
        range: NEW,
        before: &["DEL newset"],
        ..ROW
    },
    Row {
        name: "BF.ADD new",
        command: "BF.ADD new item",
        range: NEW,
        before: &["DEL new", "BF.RESERVE new 0.01 4000000"],
        goals: &[("GETBIT", Some(1.37)), ("SADD new", Some(0.70))],
        ..ROW
    },
    Row {
        name: "SMISMEMBER 100",
        command: "SMISMEMBER set item",
        ..BATCH
    },
    Row {
        name: "BF.MEXISTS 100",
        command: "BF.MEXISTS small item",
        goals: &[
            ("GETBIT", Some(16.65)),
            ("SMISMEMBER 100", Some(0.50)),
            ("BF.MEXISTS 100, no key", None),
        ],
        ..BATCH
    },
    // Measures the server's time for the arguments and the reply.
    Row {
        name: "BF.MEXISTS 100, no key",
        command: "BF.MEXISTS missing item",
        ..BATCH
    },
    Row {
        name: "SADD 100 new",
        command: "SADD newset item",
        requests: 10_000,
        range: NEW,
        before: &["DEL newset"],
        ..BATCH
    },
    Row {
        name: "BF.MADD 100 new",
        command: "BF.MADD new item",
        requests: 30_000,
        range: NEW,
        before: &["DEL new", "BF.RESERVE new 0.01 4000000"],
        goals: &[("SADD 100 new", Some(0.26))],
        ..BATCH
    },
    Row {
        name: "BF.EXISTS hit, filter for 45M",
        command: "BF.EXISTS large item",
        range: 2_000_000,
        goals: &[("BF.EXISTS hit", None)],
        ..ROW
    },
    Row {
        name: "BF.MEXISTS 100, filter for 45M",
        command: "BF.MEXISTS large item",
        range: 2_000_000,
        goals: &[("BF.MEXISTS 100", Some(1.6))],
        ..BATCH
    },
    Row {
        name: "BF.MEXISTS 100 miss",
        command: "BF.MEXISTS small missing:item",
        ..BATCH
    },
    Row {
        name: "BF.MISSING 100",
        command: "BF.MISSING small item",
        goals: &[("BF.MEXISTS 100", Some(1.1))],
        ..BATCH
    },
    Row {
        name: "BF.MISSING 100 miss",
        command: "BF.MISSING small missing:item",
        goals: &[("BF.MEXISTS 100 miss", Some(1.1))],
        ..BATCH
    },
    Row {
        name: "CF.EXISTS hit",
        command: "CF.EXISTS cuckoo item",
        goals: &[("GETBIT", Some(1.06)), ("BF.EXISTS hit", Some(1.05))],
        ..ROW
    },
    Row {
        name: "CF.EXISTS miss",
        command: "CF.EXISTS cuckoo missing:item",
        goals: &[("BF.EXISTS miss", Some(1.05))],
        ..ROW
    },
    Row {
        name: "CF.EXISTS hit, 64 MiB",
        command: "CF.EXISTS largecuckoo item",
        range: 2_000_000,
        goals: &[("BF.EXISTS hit, filter for 45M", Some(1.0))],
        ..ROW
    },
    Row {
        name: "CF.ADD new",
        command: "CF.ADD newcuckoo item",
        range: NEW,
        before: &["DEL newcuckoo", "CF.RESERVE newcuckoo 4000000"],
        goals: &[("GETBIT", Some(1.3)), ("SADD new", Some(0.75))],
        ..ROW
    },
    Row {
        name: "CF.MEXISTS 100",
        command: "CF.MEXISTS cuckoo item",
        goals: &[("BF.MEXISTS 100", Some(1.0))],
        ..BATCH
    },
    Row {
        name: "CF.MEXISTS 100, 64 MiB",
        command: "CF.MEXISTS largecuckoo item",
        range: 2_000_000,
        goals: &[("BF.MEXISTS 100, filter for 45M", Some(1.0))],
        ..BATCH
    },
    // The sketches' goals are 0.8 of what RedisBloom 8.8 takes in multiples of GETBIT, and 0.5 for batches of count-min
    // and for long lists. For CMS.QUERY that is less than the server's own share, so it has no goal.
    Row {
        name: "CMS.INCRBY",
        command: "CMS.INCRBY counts item 1",
        goals: &[("GETBIT", Some(1.23)), ("BF.CARD", None)],
        ..ROW
    },
    Row {
        name: "CMS.QUERY",
        command: "CMS.QUERY counts item",
        goals: &[("GETBIT", None), ("BF.CARD", None)],
        ..ROW
    },
    Row {
        name: "CMS.INCRBY 100, 200,000 × 7",
        command: "CMS.INCRBY widecounts item 1",
        words_each: 2,
        goals: &[("GETBIT", Some(29.5))],
        ..BATCH
    },
    Row {
        name: "CMS.QUERY 100, 200,000 × 7",
        command: "CMS.QUERY widecounts item",
        goals: &[("GETBIT", Some(12.3)), ("BF.MEXISTS 100, no key", None)],
        ..BATCH
    },
    Row {
        name: "TOPK.ADD, k 10",
        command: "TOPK.ADD shortlist item",
        range: 400,
        before: &["DEL shortlist", "TOPK.RESERVE shortlist 10"],
        goals: &[("GETBIT", Some(1.21))],
        ..ROW
    },
    Row {
        name: "TOPK.ADD, k 100",
        command: "TOPK.ADD toplist item",
        range: 400,
        before: &["DEL toplist", "TOPK.RESERVE toplist 100 1000 7 0.9"],
        goals: &[("GETBIT", Some(1.25))],
        ..ROW
    },
    Row {
        name: "TOPK.ADD, k 10,000",
        command: "TOPK.ADD longlist item",
        range: 10_000,
        before: &["DEL longlist", "TOPK.RESERVE longlist 10000 80000 7 0.9"],
        goals: &[("GETBIT", Some(4.4))],
        ..ROW
    },
    Row {
        name: "TOPK.QUERY, k 10,000",
        command: "TOPK.QUERY longlist item",
        range: 10_000,
        goals: &[("GETBIT", Some(3.2))],
        ..ROW
    },
    Row {
        name: "TOPK.ADD 100, k 100",
        command: "TOPK.ADD toplist item",
        range: 400,
        goals: &[("TOPK.ADD, k 100", None)],
        ..BATCH
    },
    Row {
        name: "TDIGEST.ADD",
        command: "TDIGEST.ADD values item",
        before: &["DEL values", "TDIGEST.CREATE values"],
        goals: &[("GETBIT", Some(1.12)), ("BF.CARD", None)],
        ..ROW
    },
    Row {
        name: "TDIGEST.ADD 100",
        command: "TDIGEST.ADD values item",
        before: &["DEL values", "TDIGEST.CREATE values"],
        goals: &[("GETBIT", Some(20.1))],
        ..BATCH
    },
    Row {
        name: "TDIGEST.QUANTILE",
        command: "TDIGEST.QUANTILE digest 0.99",
        goals: &[("GETBIT", Some(1.23)), ("BF.CARD", None)],
        ..ROW
    },
    Row {
        name: "TDIGEST.QUANTILE 5",
        command: "TDIGEST.QUANTILE digest 0.5 0.9 0.95 0.99 0.999",
        goals: &[("GETBIT", Some(2.36))],
        ..ROW
    },
    Row {
        name: "TDIGEST.RANK",
        command: "TDIGEST.RANK digest item",
        goals: &[("GETBIT", Some(1.18))],
        ..ROW
    },
    Row {
        name: "TDIGEST.MERGE of 2",
        command: "TDIGEST.MERGE both 2 digest digest OVERRIDE",
        requests: 100_000,
        goals: &[("TDIGEST.ADD 100", None)],
        ..ROW
    },
    Row {
        name: "BF.EXISTS hit, 1M",
        command: "BF.EXISTS plain item",
        range: 300_000,
        ..ROW
    },
    Row {
        name: "BF.EXISTS hit, 4M",
        command: "BF.EXISTS fourfold item",
        range: 300_000,
        ..ROW
    },
    // A plain filter for four times as many items has the same number of bytes.
    Row {
        name: "BF.EXISTS hit, 1M counted",
        command: "BF.EXISTS counted item",
        range: 300_000,
        goals: &[
            ("BF.EXISTS hit, 1M", Some(1.15)),
            ("BF.EXISTS hit, 4M", Some(1.05)),
        ],
        ..ROW
    },
    Row {
        name: "BF.EXISTS miss, 1M",
        command: "BF.EXISTS plain missing:item",
        ..ROW
    },
    Row {
        name: "BF.EXISTS miss, 24 periods of 1M",
        command: "BF.EXISTS window missing:item",
        goals: &[("BF.EXISTS miss, 1M", Some(1.4))],
        ..ROW
    },
    Row {
        name: "BF.MEXISTS 100 miss, 1M",
        command: "BF.MEXISTS plain missing:item",
        ..BATCH
    },
    Row {
        name: "BF.MEXISTS 100 miss, 24 periods of 1M",
        command: "BF.MEXISTS window missing:item",
        requests: 20_000,
        goals: &[("BF.MEXISTS 100 miss, 1M", Some(4.0))],
        ..BATCH
    },
    Row {
        name: "BF.MADD 100 new, 1M",
        command: "BF.MADD new item",
        requests: 6_000,
        range: NEW,
        before: &["COPY plain new REPLACE"],
        ..BATCH
    },
    Row {
        name: "BF.MADD 100 new, 24 periods of 1M",
        command: "BF.MADD new item",
        requests: 6_000,
        range: NEW,
        before: &["COPY window new REPLACE"],
        goals: &[("BF.MADD 100 new, 1M", Some(3.5))],
        ..BATCH
    },
    Row {
        name: "BF.MADD 100 new, 1M counted",
        command: "BF.MADD new item",
        requests: 6_000,
        range: NEW,
        before: &["COPY counted new REPLACE"],
        goals: &[("BF.MADD 100 new, 1M", Some(1.3))],
        ..BATCH
    },
    Row {
        name: "BF.ADD new, 1M",
        command: "BF.ADD new item",
        requests: 600_000,
        range: NEW,
        before: &["COPY plain new REPLACE"],
        ..ROW
    },
    Row {
        name: "BF.ADD new, 24 periods of 1M",
        command: "BF.ADD new item",
        requests: 600_000,
        range: NEW,
        before: &["COPY window new REPLACE"],
        goals: &[("BF.ADD new, 1M", None)],
        ..ROW
    },
    Row {
        name: "BF.ADD new, 1M counted",
        command: "BF.ADD new item",
        requests: 600_000,
        range: NEW,
        before: &["COPY counted new REPLACE"],
        goals: &[("BF.ADD new, 1M", None)],
        ..ROW
    },
    Row {
        name: "BF.EXISTS miss, 1 filter",
        command: "BF.EXISTS stack1 missing:item",
        pipeline: 16,
        range: NEW,
        ..ROW
    },
    Row {
        name: "BF.EXISTS miss, 10 stacked",
        command: "BF.EXISTS stack10 missing:item",
        pipeline: 16,
        range: NEW,
        goals: &[("BF.EXISTS miss, 1 filter", Some(1.25))],
        ..ROW
    },
    Row {
        name: "BF.EXISTS miss, 100 stacked",
        command: "BF.EXISTS stack100 missing:item",
        pipeline: 16,
        requests: 500_000,
        range: NEW,
        goals: &[("BF.EXISTS miss, 1 filter", Some(2.5))],
        ..ROW
    },
    Row {
        name: "BF.MADD 50, right size",
        command: "BF.MADD grow item",
        items: 50,
        pipeline: 4,
        requests: 20_000,
        range: NEW,
        before: &["DEL grow", "BF.RESERVE grow 0.01 1000000"],
        ..ROW
    },
    Row {
        name: "BF.MADD 50, grown from 1000",
        command: "BF.MADD grow item",
        items: 50,
        pipeline: 4,
        requests: 20_000,
        range: NEW,
        before: &["DEL grow", "BF.RESERVE grow 0.01 1000 EXPANSION 2"],
        goals: &[
            ("GETBIT", Some(16.4)),
            ("BF.MADD 50, right size", Some(1.6)),
        ],
        ..ROW
    },
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
        ("plain", "1000000", 300_000),
        ("fourfold", "4000000", 300_000),
        ("counted", "1000000 COUNTING", 300_000),
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

/// Makes an object of 24 periods of a million items each, with 300,000 in the newest. An item with a time to live goes
/// into the period that expires when that time is over.
pub(crate) fn window(client: &mut Client) {
    const HOUR_MS: u64 = 3_600_000;
    let line = format!("BF.RESERVE window 0.01 1000000 WINDOW {HOUR_MS} PERIODS 24");
    run(client, &line);
    for period in 0..24 {
        let begin = (period + 1) * 1_000_000;
        let end = begin + if period < 23 { 999_000 } else { 300_000 };
        let ttl_ms = period * HOUR_MS + 1;
        let insert = format!("BF.INSERT window TTL {ttl_ms} ITEMS");
        fill_with(client, &insert, begin..end);
    }
}

/// Adds numbered items.
pub(crate) fn fill(client: &mut Client, command: &str, key: &str, numbers: std::ops::Range<u64>) {
    fill_with(client, &format!("{command} {key}"), numbers);
}

fn fill_with(client: &mut Client, words: &str, numbers: std::ops::Range<u64>) {
    let numbers: Vec<u64> = numbers.collect();
    for batch in numbers.chunks(1000) {
        let items: Vec<String> = batch.iter().map(|n| format!("{n:012}")).collect();
        let mut words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        words.extend(items.iter().map(String::as_bytes));
        let reply = client.call(&words);
        assert!(!reply.is_error(), "{reply:?}");
    }
}

/// Adds items until an object has `filters` filters, and the newest is half full.
fn stack(client: &mut Client, key: &str, filters: i64) {
    let items = |client: &mut Client| run(client, &format!("BF.CARD {key}")).as_int();
    let mut next = 0;
    loop {
        let missing = filters * 1000 - 500 - items(client);
        let Ok(missing) = u64::try_from(missing) else {
            return;
        };
        if missing == 0 {
            return;
        }
        fill(client, "BF.MADD", key, next..next + missing);
        next += missing;
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

/// Returns the user and system time of the server's process so far.
pub(crate) fn cpu_seconds(server: &Server) -> f64 {
    let info = server.info("cpu");
    let field = |name: &str| info[name].parse::<f64>().expect("seconds");
    field("used_cpu_user") + field("used_cpu_sys")
}
