//! `valkeybloom unique`: prints the first record of each item.
//!
//! ```text
//!   first pass   files → blocks → hashes → claims    a filter that grows; it claims duplicates and some others
//!                                            ↓
//!                                         suspects   the hashes that it claimed, sorted → state
//!                                            ↓
//!   second pass  files → blocks → hashes → marks     in order: has a suspect come before?
//!                                            ↓
//!                                          output    the standard output, or a file for each input
//! ```
//!
//! The filter never denies an item that came before, so only suspects can be duplicates, and few others are suspects. The
//! second pass marks a suspect when it comes first, and drops the records of marked ones. So the output is exact, whatever
//! the filter claims, as long as no two items have the same hash of 128 bits with a random key.
//!
//! With `--one-pass`, `one_pass` decides instead: a filter of the requested rate claims the items that came before, and some
//! others. With `--to`, `shared` asks a server's filter, which many runs may share.
//!
//! `ordered` runs the threads of all passes. They hash and look up; the decisions are made one block after another, so the
//! output is the same for any number of threads. `claims` and `suspects` know neither files nor formats.

mod claims;
mod files;
mod hash;
mod layer;
mod one_pass;
mod ordered;
mod output;
mod passes;
mod printer;
mod shared;
mod state;
mod suspects;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use valkeybloom_sketches::Fraction;

use self::one_pass::OnePass;
use self::output::Folder;
pub use self::output::Output;
pub use self::passes::Passes;
use self::printer::Figures;
pub use self::printer::{Printer, Selection, print_report};
use self::shared::SharedFilter;
pub use self::shared::answers;
use self::state::State;
use self::suspects::Suspects;
use super::failure::{Failure, Result};
use super::lines::{Input, Records};
use super::options;
use super::progress::Show;
use super::report::{self, Report, double};
use super::server::{Server, Tls};

/// The error rate of a filter that decides in one pass: of a billion records, it drops about one that is unique.
const DEFAULT_RATE: Fraction = Fraction::new(1e-9).expect("it is between 0 and 1");

/// Remove the duplicates of files: print the first record of each item
#[derive(Args)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Unique {
    #[command(flatten)]
    records: Records,
    /// Write a file for each input into this folder, under its name and compressed as it is
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Keep what the first pass found in this folder, so that a killed run can continue [default: that of --out]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// A file whose items count as seen
    #[arg(long, value_name = "FILE")]
    known: Vec<PathBuf>,
    /// Read the files once: a record is dropped if a filter claims its item, which it also does for some others
    #[arg(long, conflicts_with_all = ["count", "state", "to"])]
    one_pass: bool,
    /// A server whose filter, at --key, says which items are new: runs on many machines may share it
    #[arg(long, value_name = "URL", requires = "key", conflicts_with_all = ["known", "count", "dry_run", "threads"])]
    pub to: Option<String>,
    /// The filter's key; if it is missing, a filter that grows is created
    #[arg(long, value_name = "KEY", requires = "to")]
    key: Option<String>,
    /// The error rate of the filter of --one-pass or --to [default: 0.000000001]
    #[arg(long, value_name = "P", value_parser = options::rate)]
    rate: Option<Fraction>,
    /// Print the other records instead
    #[arg(long)]
    duplicates: bool,
    /// Print before each record how often its item occurs
    #[arg(long, conflicts_with = "duplicates")]
    count: bool,
    /// Print only the figures
    #[arg(long, conflicts_with_all = ["out", "state"])]
    dry_run: bool,
    /// Number of threads [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// What decides which records are printed.
enum Decider<'u> {
    /// The suspects of a first pass.
    TwoPasses,
    /// A filter in memory.
    OnePass,
    /// The filter of a key.
    Server { url: &'u str, key: &'u str },
}

/// What the decisions were based on.
enum Basis {
    /// This number of suspects.
    Suspects(usize),
    /// A filter with this error rate.
    Rate(f64),
}

impl Unique {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let done = self.run_passes(tls, show, json);
        // The standard output is for records.
        done.map_err(|failure| {
            if self.prints() {
                failure.already_written()
            } else {
                failure
            }
        })
    }

    /// Returns whether a server's filter decides.
    pub fn is_shared(&self) -> bool {
        self.to.is_some()
    }

    /// Returns whether records go to the standard output.
    pub fn prints(&self) -> bool {
        !self.dry_run && self.out.is_none()
    }

    fn run_passes(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let start = Instant::now();
        let input = self.records.after(&self.known)?;
        let decider = self.decider(&input);
        self.require_suited(&decider, &input)?;
        let selection = match (self.duplicates, self.count) {
            (true, _) => Selection::Dropped,
            (false, true) => Selection::Counts,
            (false, false) => Selection::Kept,
        };
        let mut printer = Printer::new(self.output(&input)?, selection, self.known.len());
        let passes = Passes::new(&input, self.threads, show);
        let rate = self.rate.unwrap_or(DEFAULT_RATE);
        let basis = match decider {
            Decider::TwoPasses => self.in_two_passes(&passes, &mut printer)?,
            Decider::OnePass => {
                printer.output.require_none()?;
                passes.print_once(OnePass::new(rate)?, &mut printer)?;
                Basis::Rate(rate.get())
            }
            Decider::Server { url, key } => {
                let server = &Server::connect(url, tls)?;
                let filter = SharedFilter { server, key, rate };
                Basis::Rate(filter.print_new(&passes, self.state(&input)?, &mut printer)?)
            }
        };
        let report = report(&printer.figures, &basis, start);
        print_report(report, show, json, self.prints())
    }

    /// Returns what decides which records are printed.
    fn decider(&self, input: &Input) -> Decider<'_> {
        match (&self.to, &self.key) {
            (Some(url), Some(key)) => Decider::Server { url, key },
            _ if self.one_pass || input.unrepeatable().is_some() => Decider::OnePass,
            _ => Decider::TwoPasses,
        }
    }

    /// Requires that the options suit one another, and the files.
    fn require_suited(&self, decider: &Decider<'_>, input: &Input) -> Result<()> {
        let only_once = |file: &Path, advice| {
            let text = format!("{} can be read only once{advice}", file.display());
            Err(Failure::usage(text))
        };
        let (has_out, has_state) = (self.out.is_some(), self.state.is_some());
        let is_standard = |file: &PathBuf| file.as_os_str() == "-";
        match (decider, input.unrepeatable()) {
            (Decider::Server { .. }, Some(file)) if has_out || has_state => {
                only_once(file, ", so its run can't go on: omit --out and --state")
            }
            (Decider::Server { .. }, None) if input.files().iter().any(is_standard) => {
                Err(Failure::usage(
                    "the standard input is a file: name it and add --out, so that a run that was killed can go on, or pass it \
                     through a pipe",
                ))
            }
            (Decider::Server { .. }, None) if !has_out => Err(Failure::usage(
                "--to needs --out for files, so that a run that was killed can go on",
            )),
            (Decider::OnePass, Some(file)) if self.count || has_state => only_once(
                file,
                ", and --count and --state read it twice: write it to a file first",
            ),
            // The report of a pipe says how many unique records one pass is expected to cost.
            (Decider::OnePass, Some(file)) if !self.one_pass && file.as_os_str() != "-" => {
                only_once(file, ": add --one-pass")
            }
            (Decider::TwoPasses, _) if self.rate.is_some() => Err(Failure::usage(
                "--rate is that of a filter that decides: add --one-pass or --to",
            )),
            _ => Ok(()),
        }
    }

    fn in_two_passes(&self, passes: &Passes<'_>, printer: &mut Printer) -> Result<Basis> {
        let state = self.state(passes.input)?;
        let suspects = if let Some(found) = state.load(Suspects::of_words)? {
            printer.output.require_no_other(&state)?;
            found
        } else {
            printer.output.require_none()?;
            let found = passes.find_suspects()?;
            state.save(found.to_words())?;
            found
        };
        let count = || passes.count(&suspects, self.known.len());
        let counts = self.count.then(count).transpose()?;
        passes.print(&suspects, counts.as_deref(), printer)?;
        state.remove()?;
        Ok(Basis::Suspects(suspects.len()))
    }

    /// Returns the state in which a killed run finds what it did.
    fn state(&self, input: &Input) -> Result<State> {
        let Some(folder) = self.state.as_ref().or(self.out.as_ref()) else {
            return Ok(State::default());
        };
        // In another working folder, the same words name another folder.
        let out = self.out.as_deref().map(files::resolve).transpose()?;
        let Self {
            known,
            duplicates,
            count,
            key,
            ..
        } = self;
        let (known, format) = (known.len(), self.records.format());
        let (paths, stamps) = (input.files(), input.kept_stamps());
        // A server may have another address when the run continues, and its filter keeps its rate. If another version of the
        // program describes a run in other words, it refuses the state.
        let description = format!(
            "{paths:?} {stamps:?} known={known} {format} duplicates={duplicates} count={count} {out:?} {key:?}"
        );
        State::new(folder, out.as_deref(), &description)
    }

    fn output(&self, input: &Input) -> Result<Output> {
        if self.dry_run {
            return Ok(Output::Nothing);
        }
        if let Some(out) = &self.out {
            let inputs = self.records.input.files();
            return Folder::new(out, inputs, self.is_shared()).map(Output::Folder);
        }
        Output::standard(input.kept_stamps())
    }
}

fn report(figures: &Figures, basis: &Basis, start: Instant) -> Report {
    let mut report = Report::default();
    figures.report(&mut report);
    match *basis {
        Basis::Suspects(suspects) => report.number("suspects", suspects as u64),
        Basis::Rate(rate) => {
            report.row("rate", rate.to_string(), rate);
            let lost = double(figures.kept) * rate;
            let text = format!("about {}", report::two_digits(lost));
            report.row("wrongly dropped", text, lost);
        }
    }
    if let Some(bytes) = peak_memory() {
        report.number("memory", bytes);
    }
    let seconds = start.elapsed().as_secs_f64();
    report.row("seconds", format!("{seconds:.1}"), seconds);
    report
}

/// Returns the most memory that this process had, in bytes.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
