//! Beside the peers: the commands of other modules and the same commands of this one, on the same server, in one run. The file
//! `peers.txt` lists the commands.
//!
//! Every module is in a server of its own. The servers share the first processor, and only one of them works at a time;
//! valkey-benchmark has the second. A round runs each case on one module after the other. A figure is the median of the rounds.

mod case;
mod instructions;
mod side;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{env, fs};

use valkeybloom_testing::harness::given;

use crate::{Table, scaled};
use case::Case;
use side::{LOOKUPS, Side, owned, precise, send};

/// The requests of a case in a full run.
const REQUESTS: u64 = 300_000;
const ROUNDS: usize = 5;

/// Returns the rows of a section of the file, as cells.
fn section(name: &str) -> impl Iterator<Item = [&'static str; 4]> {
    let mut sections = include_str!("peers.txt").split("\n== ");
    let section = sections.find(|section| section.starts_with(name));
    let lines = section.expect("a section").lines().skip(1);
    let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim);
        [(); 4].map(|()| cells.next().unwrap_or_default())
    })
}

pub(crate) fn run(table: &mut Table) {
    let peers = env::var_os("EVIDENCE_PEERS").unwrap_or_default();
    let peers = env::split_paths(&peers).filter(|peer| !peer.as_os_str().is_empty());
    let modules: Vec<PathBuf> = [given("VALKEYBLOOM_SO")].into_iter().chain(peers).collect();
    if modules.len() == 1 {
        table.not_run("beside the peers", "name the peers' files with --peer");
        return;
    }
    let requests = scaled(REQUESTS);
    let cases: Vec<Case> = section("cases")
        .map(|cells| Case::new(cells, requests))
        .collect();
    let start = |module: &PathBuf| Side::start(module, &["taskset", "--cpu-list", "0"], |_| true);
    let sides: Vec<Side> = modules.iter().map(start).collect();
    let cpu = processor_time(&sides, &cases);
    let faults: Vec<_> = sides.iter().map(Side::faults).collect();
    let answers = |family: &str| {
        let wrong = sides.iter().zip(&faults).filter_map(|(side, faults)| {
            let faults = faults.get(family)?.join(", ");
            Some(format!("{}: {faults}", side.name))
        });
        let wrong: Vec<String> = wrong.collect();
        if wrong.is_empty() {
            "right".to_owned()
        } else {
            wrong.join("; ")
        }
    };
    let counted = instructions::count(&modules, &cases);
    let (memory, worst) = memory(&sides);
    let text = format!(
        "Nanoseconds of the server's processor time for a command:\n\n{}\n\
         Instructions for a command, from its words to its reply, in callgrind:\n\n{}\n\
         False positives of filters for 1 %, and memory as `MEMORY USAGE` reports it:\n\n{memory}",
        table_of(&sides, &cases, &cpu, &answers),
        table_of(&sides, &cases, &counted, &answers),
    );
    println!("{text}");
    let folder = given("EVIDENCE_DIR");
    let written = fs::create_dir_all(&folder);
    let written = written.and_then(|()| fs::write(folder.join("peers.md"), text));
    written.expect("the folder can be written to");
    claim_answers(table, &sides, &faults);
    claim_rate(table, worst);
    for (index, peer) in sides.iter().enumerate().skip(1) {
        claim_processor_time(table, &cases, &cpu, (index, &peer.name));
    }
}

/// Claims that this module, the first of the sides, has no faults.
fn claim_answers(table: &mut Table, sides: &[Side], faults: &[BTreeMap<&str, Vec<String>>]) {
    let wrong = sides.iter().zip(faults).map(|(side, faults)| {
        let count: usize = faults.values().map(Vec::len).sum();
        format!("{count} by {}", side.name)
    });
    let wrong = wrong.collect::<Vec<_>>().join(", ");
    table.claim(
        "all answers are right",
        &format!("wrong: {wrong}"),
        faults[0].is_empty(),
    );
}

/// Claims that the worst rate of false positives is that of filters for 1 %.
fn claim_rate(table: &mut Table, worst: f64) {
    // Five standard deviations are for chance.
    let most = 0.01 + 5.0 * (0.01 * 0.99 / precise(LOOKUPS)).sqrt();
    let measured = format!("at most {:.2} %", worst * 100.0);
    table.claim(
        "filters keep a rate of 1 %, however they grow",
        &measured,
        worst <= most,
    );
}

/// Claims that this module takes less processor time than a peer.
fn claim_processor_time(
    table: &mut Table,
    cases: &[Case],
    cpu: &Figures,
    (index, name): (usize, &str),
) {
    let ratio = |case: &Case| Some(cpu.get(&(case.name, 0))? / cpu.get(&(case.name, index))?);
    let ratios: Vec<f64> = cases.iter().filter_map(ratio).collect();
    let more = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let (all, middle) = (ratios.len(), median(ratios));
    let claim = format!("in the median, a command takes less processor time than in {name}");
    let measured = format!("{middle:.2} of it; more in {more} of {all} cases");
    table.claim(&claim, &measured, middle < 1.0);
}

/// Measures the processor time of each case and module.
fn processor_time(sides: &[Side], cases: &[Case]) -> Figures {
    let mut rounds: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for round in 1..=ROUNDS {
        eprintln!("beside the peers: round {round} of {ROUNDS}");
        for case in cases {
            for (index, side) in sides.iter().enumerate() {
                if side.knows(case.command()) && (index == 0 || !case.is_native()) {
                    let figures = rounds.entry((case.name, index)).or_default();
                    figures.push(side.measure(case));
                }
            }
        }
    }
    let medians = rounds
        .into_iter()
        .map(|(key, figures)| (key, median(figures)));
    medians.collect()
}

/// Returns the table of rates and memory, and the highest rate of this module's Bloom filters.
fn memory(sides: &[Side]) -> (String, f64) {
    let mut text = head(sides, &[]);
    let mut worst = 0.0_f64;
    for [name, reserve, add, count] in section("sizes") {
        let mut cells = vec![name.to_owned()];
        for (index, side) in sides.iter().enumerate() {
            let size = side.size(reserve, add, count.parse().expect("a number"));
            cells.push(size.map_or(String::new(), |(rate, bits)| {
                format!("{:.2} %, {bits:.1} bits an item", rate * 100.0)
            }));
            let ours = size.filter(|_| index == 0 && reserve.starts_with("BF"));
            worst = worst.max(ours.map_or(0.0, |(rate, _)| rate));
        }
        text += &row(cells);
    }
    for [name, key, ..] in section("memory") {
        let bytes = sides.iter().map(|side| {
            let bytes = send(&mut side.server.client(), &format!("MEMORY USAGE {key}"))[0];
            if bytes.is_nan() {
                String::new()
            } else {
                grouped(bytes) + " bytes"
            }
        });
        text += &row([name.to_owned()].into_iter().chain(bytes));
    }
    (text, worst)
}

/// A figure of each case and each module.
type Figures = BTreeMap<(&'static str, usize), f64>;

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Returns a whole number with commas.
fn grouped(figure: f64) -> String {
    crate::grouped(format!("{figure:.0}").parse().expect("not negative"))
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the first rows of a table with a column for each module, and more.
fn head(sides: &[Side], more: &[&str]) -> String {
    let peers = sides[1..].iter().map(|side| side.name.clone());
    let first = ["case".to_owned(), "this module".to_owned()];
    let rule = "---|".repeat(1 + sides.len() + more.len());
    row(first.into_iter().chain(peers).chain(owned(more))) + &format!("|{rule}\n")
}

/// Returns a table of figures, with the answers of a command's family in the last column.
fn table_of(
    sides: &[Side],
    cases: &[Case],
    figures: &Figures,
    answers: &dyn Fn(&str) -> String,
) -> String {
    let mut text = head(sides, &["ours / theirs", "the server's own", "answers"]);
    let figure = |name, index| figures.get(&(name, index)).copied();
    for case in cases.iter().filter(|case| !case.is_native()) {
        let Some(ours) = figure(case.name, 0) else {
            continue;
        };
        let each = (0..sides.len())
            .map(|index| figure(case.name, index).map_or_else(String::new, grouped));
        let ratio = |index| Some(format!("{:.2}", ours / figure(case.name, index)?));
        let ratios: Vec<String> = (1..sides.len()).filter_map(ratio).collect();
        let own = |name| Some(format!("{name} {}", grouped(figure(name, 0)?)));
        let own: Vec<String> = case.beside.split(", ").filter_map(own).collect();
        let family = case.command().split('.').next().expect("a family");
        let cells = [vec![case.name.to_owned()], each.collect()].concat();
        let more = [ratios.join(", "), own.join(", "), answers(family)];
        text += &row(cells.into_iter().chain(more));
    }
    text
}
