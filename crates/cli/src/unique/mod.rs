//! `valkeybloom unique`: prints each record whose item comes for the first time.
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
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use clap::Args;
use valkeybloom_sketches::{Fraction, Seed};

use self::one_pass::OnePass;
use self::output::Folder;
pub use self::output::Output;
use self::passes::Passes;
use self::printer::{Figures, Selection};
pub use self::printer::{Printer, end};
use self::shared::SharedFilter;
use self::state::State;
use self::suspects::Suspects;
use super::failure::{Failure, Result};
use super::lines::{Input, Records, Stamp, bytes_of};
use super::options;
use super::progress::Show;
use super::report::{self, Report, double};
use super::server::{Server, Tls};

/// The error rate of a filter that decides in one pass: of a billion records, it drops about one that is unique.
const DEFAULT_RATE: Fraction = Fraction::new(1e-9).expect("it is between 0 and 1");

/// Remove the duplicates of files: print each record whose item comes for the first time
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
    /// Keep what the first pass found in this folder, so that a killed run goes on [default: that of --out]
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
    /// The filter's key; if it is missing, a filter that grows is made
    #[arg(long, value_name = "KEY", requires = "to")]
    key: Option<String>,
    /// The error rate of the filter of --one-pass or --to [default: 0.000000001]
    #[arg(long, value_name = "P", value_parser = options::rate)]
    rate: Option<Fraction>,
    /// Print the other records instead
    #[arg(long)]
    duplicates: bool,
    /// Print each record behind the number of its item
    #[arg(long, conflicts_with = "duplicates")]
    count: bool,
    /// Print only the figures
    #[arg(long, conflicts_with_all = ["out", "state"])]
    dry_run: bool,
    /// Number of threads [default: that of the processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// The files of a run.
struct Files {
    paths: Vec<PathBuf>,
    /// The states of those that can be read twice.
    stamps: Vec<Option<Stamp>>,
    /// The first one that can be read only once.
    once: Option<PathBuf>,
}

/// How a run decides which records are the first ones.
enum Mode<'u> {
    /// By two passes over the files.
    TwoPasses,
    /// By a filter in memory, in one pass.
    OnePass,
    /// By the filter of a server, at a URL and a key, in one pass.
    Shared(&'u str, &'u str),
}

/// By what a run decided.
enum Decided {
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
                failure.written()
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
        let files = self.files()?;
        let mode = self.mode(&files)?;
        let mut printer = Printer::new(self.output(&files)?);
        if self.duplicates {
            printer.selection = Selection::Dropped;
        } else if self.count {
            printer.selection = Selection::Counts;
        }
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let passes = Passes {
            input: &self.records.of(files.paths.clone(), files.stamps.clone()),
            bytes: bytes_of(&files.stamps),
            known: self.known.len(),
            seed: Seed::random(),
            threads: self.threads.map_or(processors, usize::from),
            show,
        };
        let decided = match mode {
            Mode::TwoPasses => self.in_two_passes(&files, passes, &mut printer)?,
            Mode::OnePass => self.in_one_pass(&passes, &mut printer)?,
            Mode::Shared(url, key) => {
                let server = Server::connect(url, tls)?;
                self.with_server(&server, key, &files, &passes, &mut printer)?
            }
        };
        self.report(&printer.figures, &decided, start, (show, json))
    }

    /// Returns how this run decides.
    ///
    /// # Errors
    /// The options do not suit one another, or the files.
    fn mode(&self, files: &Files) -> Result<Mode<'_>> {
        let usage = |text: &str| Err(Failure::usage(text));
        let only_once = |file: &PathBuf, rest: &str| {
            usage(&format!("{} can be read only once{rest}", file.display()))
        };
        if let (Some(url), Some(key)) = (&self.to, &self.key) {
            return match &files.once {
                None if self.out.is_none() => {
                    usage("--to needs --out for files, so that a run that was killed can go on")
                }
                Some(file) if self.out.is_some() || self.state.is_some() => {
                    only_once(file, ", so its run can't go on: omit --out and --state")
                }
                _ => Ok(Mode::Shared(url, key)),
            };
        }
        let reads_twice = self.count || self.state.is_some();
        match &files.once {
            _ if self.one_pass => Ok(Mode::OnePass),
            None if self.rate.is_some() => {
                usage("--rate is that of a filter that decides: add --one-pass or --to")
            }
            None => Ok(Mode::TwoPasses),
            Some(file) if reads_twice => only_once(
                file,
                ", and --count and --state read it twice: write it to a file first",
            ),
            Some(file) if file.as_os_str() == "-" => Ok(Mode::OnePass),
            Some(file) => only_once(file, ": add --one-pass"),
        }
    }

    fn files(&self) -> Result<Files> {
        let paths = [&self.known[..], self.records.input.files()].concat();
        let stamps = Input::stamps(&paths)?;
        let once = paths.iter().zip(&stamps).find(|(_, stamp)| stamp.is_none());
        Ok(Files {
            once: once.map(|(path, _)| path.clone()),
            paths,
            stamps,
        })
    }

    fn in_one_pass(&self, passes: &Passes<'_>, printer: &mut Printer) -> Result<Decided> {
        if let Output::Folder(folder) = &printer.output {
            folder.require_none()?;
        }
        let rate = self.rate();
        let mut filter = OnePass::new(rate, passes.seed)?;
        passes.print_at_once(|block| filter.add(block), printer)?;
        Ok(Decided::Rate(rate.get()))
    }

    fn rate(&self) -> Fraction {
        self.rate.unwrap_or(DEFAULT_RATE)
    }

    fn with_server(
        &self,
        server: &Server,
        key: &str,
        files: &Files,
        passes: &Passes<'_>,
        printer: &mut Printer,
    ) -> Result<Decided> {
        // Without --out, the input can be read only once, so its run can't go on.
        let state = match self.out {
            Some(_) => self.state(files)?,
            None => None,
        };
        let filter = SharedFilter {
            server,
            key,
            rate: self.rate(),
        };
        let rate = filter.print_new(passes.input, state, passes.bytes, printer, passes.show)?;
        Ok(Decided::Rate(rate))
    }

    fn in_two_passes(
        &self,
        files: &Files,
        mut passes: Passes<'_>,
        printer: &mut Printer,
    ) -> Result<Decided> {
        let state = self.state(files)?;
        let load = |state: &State| state.load(found_before);
        let found = state.as_ref().map_or(Ok(None), load)?;
        if let (Output::Folder(folder), None) = (&printer.output, &found) {
            folder.require_none()?;
        }
        let suspects = if let Some((seed, suspects)) = found {
            passes.seed = seed;
            suspects
        } else {
            let suspects = passes.claim()?;
            if let Some(state) = &state {
                let (seed, _) = passes.seed.as_bytes().as_chunks();
                let seed = seed.iter().copied().map(u128::from_le_bytes);
                state.save(suspects.hashes().chain(seed))?;
            }
            suspects
        };
        let counts = self.count.then(|| passes.count(&suspects)).transpose()?;
        passes.print(&suspects, counts.as_deref(), printer)?;
        if let Some(state) = &state {
            state.remove()?;
        }
        Ok(Decided::Suspects(suspects.len()))
    }

    /// Returns where the suspects are kept.
    fn state(&self, files: &Files) -> Result<Option<State>> {
        let Some(folder) = self.state.as_ref().or(self.out.as_ref()) else {
            return Ok(None);
        };
        // In another working folder, the same words name another folder.
        let place = |out: &PathBuf| {
            out.canonicalize()
                .map_err(|error| files::failed(out, &error))
        };
        let out = self.out.as_ref().map(place).transpose()?;
        let Self {
            known,
            duplicates,
            count,
            key,
            ..
        } = self;
        let (known, format) = (known.len(), self.records.format());
        let Files { paths, stamps, .. } = files;
        // A server may have another address when the run goes on, and its filter keeps its rate.
        let description = format!(
            "{paths:?} {stamps:?} known={known} {format} duplicates={duplicates} count={count} {out:?} {key:?}"
        );
        State::new(folder, out.as_deref(), &description).map(Some)
    }

    fn output(&self, files: &Files) -> Result<Output> {
        if self.dry_run {
            return Ok(Output::Nothing);
        }
        if let Some(out) = &self.out {
            return Folder::new(out, self.records.input.files()).map(Output::Folder);
        }
        Output::standard(&files.stamps)
    }

    fn report(
        &self,
        figures: &Figures,
        decided: &Decided,
        start: Instant,
        format: (Show, bool),
    ) -> Result<()> {
        let mut report = Report::default();
        figures.report(&mut report);
        match *decided {
            Decided::Suspects(suspects) => report.number("suspects", suspects as u64),
            Decided::Rate(rate) => {
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
        end(report, format, self.prints())
    }
}

/// Returns the seed and the suspects that an earlier run saved.
fn found_before(mut words: Vec<u128>) -> Option<(Seed, Suspects)> {
    let seed = words.split_off(words.len().checked_sub(2)?);
    let seed: Vec<u8> = seed.into_iter().flat_map(u128::to_le_bytes).collect();
    let seed = Seed::new(seed.try_into().ok()?);
    let is_ascending = [0]
        .iter()
        .chain(&words)
        .is_sorted_by(|one, next| one < next);
    is_ascending.then(|| (seed, Suspects::of_ascending(&words)))
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
