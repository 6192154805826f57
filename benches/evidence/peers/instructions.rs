//! Counts the instructions of the server and the module together with callgrind, from the words of a command to its reply.

use std::path::PathBuf;

use valkeybloom_testing::callgrind;
use valkeybloom_testing::harness::{Reply, folder};
use valkeybloom_testing::support::Rng;

use super::Figures;
use super::case::Case;
use super::side::Side;

/// The commands of a case that are counted: ten times as many as in a pipeline.
const COUNTED: u32 = 320;

/// Keys that take too long to make in callgrind.
const HEAVY: [&str; 4] = ["large", "largecuckoo", "million", "stack1000"];

/// Counts those of each case and module. There are no figures without valgrind, nor for dumps and heavy keys.
pub(super) fn count(modules: &[PathBuf], cases: &[Case]) -> Figures {
    let mut figures = Figures::new();
    if !callgrind::is_installed() {
        eprintln!("instructions are not counted: there is no valgrind");
        return figures;
    }
    for (index, module) in modules.iter().enumerate() {
        eprintln!("instructions of {}", module.display());
        let out = folder();
        let file = format!("--callgrind-out-file={}/out", out.path().display());
        let launcher = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            // The server's function that parses a command, runs it and writes its reply.
            "--toggle-collect=processInputBuffer",
            &file,
        ];
        let is_light = |line: &str| !line.split(' ').any(|word| HEAVY.contains(&word));
        let side = Side::start(module, &launcher, is_light);
        let is_counted = |case: &&Case| {
            let is_own = index == 0 || !case.is_native();
            let is_short = is_light(&case.words[1])
                && !case.command().contains("CHUNK")
                && !case.command().contains("DUMP");
            is_own && is_short && side.knows(case.command())
        };
        for case in cases.iter().filter(is_counted) {
            let mut client = side.server.client();
            case.begin(&mut client);
            // The same items for each module.
            let mut random = Rng::new(1);
            let mut call = || {
                let mut item = || format!("{:012}", random.next() % case.range);
                let mut command = || {
                    let words = case
                        .words
                        .iter()
                        .map(|word| word.replace('#', &item()).into_bytes());
                    words.collect::<Vec<_>>()
                };
                let commands: Vec<_> = (0..case.pipeline).map(|_| command()).collect();
                let replies = client.call_all(&commands);
                assert!(
                    !replies.iter().any(Reply::is_error),
                    "{}: {replies:?}",
                    case.name
                );
            };
            // The first commands do work that is done once.
            call();
            callgrind::begin(&side.server);
            (0..COUNTED as usize / case.pipeline).for_each(|_| call());
            let dump = callgrind::end(&side.server, out.path());
            figures.insert((case.name, index), total(&dump) / f64::from(COUNTED));
        }
    }
    figures
}

/// Returns the instructions in a dump.
fn total(dump: &str) -> f64 {
    let total = dump.lines().find_map(|line| line.strip_prefix("totals: "));
    total
        .and_then(|total| total.trim().parse().ok())
        .expect("a total")
}
