//! Measures what docs/evidence.md claims: each claim with what was measured, and whether it holds.
//!
//! `./build.sh evidence` measures all points, in some 45 minutes. `./build.sh evidence rates growth` measures the
//! points whose names contain one of these words. `EVIDENCE_KEYS=1000000` makes the largest filter hold that many keys
//! instead of 500 million, and everything else smaller in proportion.

mod compress;
mod dependencies;
mod growth;
mod keys;
mod lost;
mod peers;
mod rates;
mod vectors;

use std::fmt::Write as _;
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs};

/// A measured point: its name, and what adds its claims to the table.
type Point = (&'static str, fn(&mut Table));

const POINTS: &[Point] = &[
    ("rates", rates::run),
    ("growth", growth::run),
    ("compress", compress::run),
    ("vectors", vectors::run),
    ("dependencies", dependencies::run),
    ("lost", lost::run),
    ("peers", peers::run),
];

/// The number of keys in the largest filter of a full run.
const KEYS: u64 = 500_000_000;

/// The claims that were measured, and their details.
#[derive(Default)]
pub(crate) struct Table {
    claims: String,
    details: String,
    failed: usize,
}

impl Table {
    /// Adds a claim with what was measured.
    pub(crate) fn claim(&mut self, claim: &str, measured: &str, holds: bool) {
        self.failed += usize::from(!holds);
        self.row(claim, measured, if holds { "yes" } else { "**no**" });
    }

    /// Adds a claim that could not be measured here.
    pub(crate) fn not_run(&mut self, claim: &str, why: &str) {
        self.row(claim, "", &format!("not run: {why}"));
    }

    fn row(&mut self, claim: &str, measured: &str, holds: &str) {
        let line = format!("| {claim} | {measured} | {holds} |");
        println!("{line}");
        self.claims += &line;
        self.claims += "\n";
    }

    /// Adds a table of details: its heading, the heads of its columns, and its rows.
    pub(crate) fn details<const N: usize>(
        &mut self,
        heading: &str,
        columns: [&str; N],
        rows: &[[String; N]],
    ) {
        let rule = ["---"; N].join("|");
        let head = columns.join(" | ");
        let mut table = format!("\n### {heading}\n\n| {head} |\n|{rule}|\n");
        for row in rows {
            writeln!(table, "| {} |", row.join(" | ")).expect("a String takes all");
        }
        println!("{table}");
        self.details += &table;
    }

    /// Adds a paragraph to the details.
    pub(crate) fn note(&mut self, text: &str) {
        println!("{text}");
        writeln!(self.details, "\n{text}").expect("a String takes all");
    }
}

/// Returns the number of keys in the largest filter of this run.
fn keys() -> u64 {
    env::var("EVIDENCE_KEYS").map_or(KEYS, |keys| {
        keys.parse().expect("EVIDENCE_KEYS is a number of keys")
    })
}

/// Returns what takes the place of a number of a full run.
pub(crate) fn scaled(full: u64) -> u64 {
    let scaled = u128::from(full) * u128::from(keys()) / u128::from(KEYS);
    u64::try_from(scaled)
        .expect("not much more than a full run")
        .max(1000)
}

/// Returns a number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy)
        .collect();
    groups.join(",")
}

/// Returns what a program prints.
pub(crate) fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {errors}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// Prints when and where this run takes place, and what it measures.
const HEADER: &str = r#"
echo "| | |"
echo "|---|---|"
date -u "+| date | %Y-%m-%d %H:%M UTC |"
cpu=$(sed -n "s/^model name[^:]*: //p" /proc/cpuinfo | head -n 1)
memory=$(awk '/^MemTotal/ { printf "%.0f", $2 / 2^20 }' /proc/meminfo)
echo "| machine | $cpu, $(nproc) cores, $memory GiB of memory |"
echo "| server | $("$VALKEY_SERVER" --version) |"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
echo "| module | $version, commit $(git describe --always --dirty) |"
echo "| compiler | $(rustc --version) |"
"#;

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let words = env::args().skip(1).filter(|word| !word.starts_with("--"));
    let words: Vec<String> = words.collect();
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let points: Vec<_> = POINTS.iter().filter(|(name, _)| is_wanted(name)).collect();
    assert!(!points.is_empty(), "no point matches {words:?}");

    let size = if keys() == KEYS {
        "full"
    } else {
        "scaled down"
    };
    let header =
        output("sh", &["-c", HEADER]) + &format!("| size | {size}: {} keys |\n", grouped(keys()));
    let head = format!("{header}\n| claim | measured | holds |\n|---|---|---|\n");
    println!("{head}");
    let folder = env::var("EVIDENCE_DIR").expect("EVIDENCE_DIR names a folder");
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
    let path = format!("{folder}/evidence.md");
    let mut table = Table::default();
    for (name, run) in points {
        let start = Instant::now();
        run(&mut table);
        table.note(&format!("`{name}` took {} s.", start.elapsed().as_secs()));
        // A later point may fail.
        let text = format!("{head}{}{}", table.claims, table.details);
        fs::write(&path, text).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    println!("written: {path}");
    if table.failed > 0 {
        eprintln!("{} claims do not hold", table.failed);
    }
    ExitCode::from(u8::from(table.failed > 0))
}
