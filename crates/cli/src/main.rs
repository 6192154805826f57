//! The program `valkeybloom`: sizes, builds, moves and compares filters.
//!
//! ```text
//!   size     a request → valkeybloom_planner   → rows, or JSON
//!   remove   files → lines → a server          → counts
//!   build    files → lines → Object → chunks ┐
//!            files → lines → commands          ├→ a temporary key → its final name
//!   unique   files → lines → first and others  → records
//!   filter   files → lines → a server          → records
//!   move     a server → its filters → chunks ┘
//!   compare  two servers → their filters       → the differences
//!   list     a server → its keys → rows        → a table, CSV, JSON, or metrics
//!   show     a server → a key                  → its figures, and bars
//!   watch    rows, again and again             → a screen
//! ```
//!
//! [`valkeybloom_sketches`] computes sizes, hashes and bytes, and [`valkeybloom_client`] assigns items to shards. This
//! crate handles the command line, files, connections and output. docs/tool.md is the manual.

#![deny(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "they panic if the reader has gone; `report` does not"
)]

mod build;
mod compare;
mod difference;
mod dump;
mod existing;
mod expiry;
mod failure;
mod family;
mod filtering;
mod held;
mod info;
mod interrupt;
mod keys;
mod lines;
mod list;
mod moving;
mod options;
mod outcomes;
mod pages;
mod pair;
mod program;
mod progress;
mod receipts;
mod remove;
mod report;
mod server;
mod show;
mod size;
mod sketches;
mod unique;
mod upload;
mod watch;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use valkeybloom_connect::{Tls, without_passwords};

use failure::{Failure, Result};
use progress::Show;

/// Size, build, move, compare, list and show filters and sketches of Valkey and Redis
#[derive(Parser)]
#[command(
    name = "valkeybloom",
    version,
    max_term_width = 100,
    disable_help_subcommand = true
)]
struct Options {
    #[command(subcommand)]
    command: Command,
    /// Show only errors and the requested results
    #[arg(long, short, global = true, help_heading = "Output")]
    quiet: bool,
    /// Write JSON to the standard output
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    tls: Tls,
}

#[derive(Subcommand)]
enum Command {
    #[command(after_help = SIZE_EXAMPLES)]
    Size(size::Size),
    #[command(after_help = BUILD_EXAMPLES)]
    Build(build::Build),
    #[command(after_help = REMOVE_EXAMPLES)]
    Remove(remove::Remove),
    #[command(after_help = MOVE_EXAMPLES)]
    Move(moving::Move),
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(compare::Compare),
    #[command(after_help = LIST_EXAMPLES)]
    List(list::List),
    #[command(after_help = SHOW_EXAMPLES)]
    Show(show::Show),
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(watch::Watch),
    #[command(after_help = UNIQUE_EXAMPLES)]
    Unique(unique::Unique),
    #[command(after_help = FILTER_EXAMPLES)]
    Filter(filtering::Filtering),
    Pages(pages::Pages),
}

impl Command {
    /// Returns the addresses of the servers that the run connects to.
    fn addresses(&self) -> Vec<&str> {
        match self {
            Self::Size(size) => size.address().into_iter().collect(),
            Self::Build(build) => vec![&build.to],
            Self::Remove(remove) => vec![&remove.from],
            Self::Move(moving) => moving.between.addresses(),
            Self::Compare(compare) => compare.between.addresses(),
            Self::List(list) => vec![&list.server],
            Self::Show(it) => vec![&it.url],
            Self::Watch(watch) => vec![&watch.server],
            Self::Unique(unique) => unique.to.as_deref().into_iter().collect(),
            Self::Filter(filter) => vec![&filter.to],
            Self::Pages(_) => Vec::new(),
        }
    }
}

const SIZE_EXAMPLES: &str = "Examples:
  valkeybloom size 1000000 0.01
  valkeybloom size bloom 100M 0.01 --shards
  valkeybloom size bloom 100k 0.01 --window 1h --periods 24
  valkeybloom size cuckoo 1M
  valkeybloom size topk 100
  valkeybloom size of redis://127.0.0.1:6379 seen";

const BUILD_EXAMPLES: &str = "Examples:
  valkeybloom build urls.txt.zst --to redis://127.0.0.1:6379 --key seen --rate 0.001
  find / -print0 | valkeybloom build -0 - --items 2M --to 127.0.0.1 --key files --rate 0.01
  valkeybloom build today.txt --to 127.0.0.1 --key seen --add
  valkeybloom build log.csv.gz --column milliseconds --as tdigest --to 127.0.0.1 --key latency";

const REMOVE_EXAMPLES: &str = "Examples:
  valkeybloom remove allowed.txt --from redis://127.0.0.1:6379 --key blocked

After an early end, the same command goes on.

Status: 0 if no item of the files is left, 1 if removals were refused or failed, 2 for words that make no sense.";

const MOVE_EXAMPLES: &str = "Examples:
  valkeybloom move redis://old:6379 redis://new:6379 --dry-run
  valkeybloom move redis://old:6379 rediss://user:password@new:6380/2 --match 'app:*' --verify

Status: 0 if all is at the target, 1 if something is not, 2 for words that make no sense.";

const COMPARE_EXAMPLES: &str = "Examples:
  valkeybloom compare redis://old:6379 redis://new:6379
  valkeybloom compare redis://old:6379 rediss://user:password@new:6380/2 --match 'app:*' --json

Status: 0 if both hold the same, 1 if anything differs, 2 for words that make no sense.";

const LIST_EXAMPLES: &str = "Examples:
  valkeybloom list redis://127.0.0.1:6379 --sort bytes
  valkeybloom list 127.0.0.1 --match 'app:*' --advice
  valkeybloom list 127.0.0.1 --prometheus /var/lib/prometheus/node-exporter/valkeybloom.prom

Status: 0 if all keys were listed, 1 if some could not be read, 2 for words that make no sense.";

const SHOW_EXAMPLES: &str = "Examples:
  valkeybloom show redis://127.0.0.1:6379 latency
  valkeybloom show 127.0.0.1 pages --json";

const WATCH_EXAMPLES: &str = "Examples:
  valkeybloom watch redis://127.0.0.1:6379 --sort items --interval 5s
  valkeybloom watch 127.0.0.1 seen crawl

Keys: arrows, PgUp, PgDn, Home and End scroll; s sorts by the next column, r reverses, / filters; q ends.";

const UNIQUE_EXAMPLES: &str = "Examples:
  valkeybloom unique urls.txt > unique.txt
  valkeybloom unique --field text --out unique/ part-*.jsonl.zst
  valkeybloom unique --column email --known unsubscribed.csv list.csv
  valkeybloom unique --to 10.0.0.1 --key seen --out unique/ part-7.txt

Status: 0 if all was read and written, 1 if something was not, 2 for words that make no sense.";

const FILTER_EXAMPLES: &str = "Examples:
  valkeybloom filter --to 127.0.0.1 --key blocked urls.txt
  valkeybloom filter --to 127.0.0.1 --key seen --not --field id new.jsonl.zst

Status: 0 if all was read and looked up, 1 if something was not, 2 for words that make no sense.";

/// Runs the program. The exit status is 0 for success, 1 if something was not done, and 2 for invalid arguments.
fn main() -> ExitCode {
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let parsed = with_numbers(Options::command()).try_get_matches();
    let options = match parsed.and_then(|words| Options::from_arg_matches(&words)) {
        Ok(options) => options,
        Err(error) if is_help(&error) => error.exit(),
        Err(error) => {
            // The arguments could not be parsed, but may request JSON.
            let json = std::env::args_os().any(|word| word == "--json");
            return ended(
                Err(Failure::usage(in_one_line(&without_passwords(error)))),
                json,
            );
        }
    };
    let (show, json) = (Show::on(options.quiet), options.json);
    let tls = &options.tls;
    if let Err(failure) = server::check_tls(&options.command.addresses(), tls) {
        return ended(Err(failure), json);
    }
    // Whether the report of an interrupted run is JSON, which must not get among records. Other runs report nothing then.
    let explains_in_json = match &options.command {
        Command::Build(_) | Command::Remove(_) | Command::Move(_) => Some(json),
        Command::Unique(unique) if unique.is_shared() => Some(json && !unique.prints()),
        _ => None,
    };
    if let Some(json) = explains_in_json
        && let Err(failure) = interrupt::watch(json)
    {
        return ended(Err(failure), json);
    }
    let done = match options.command {
        Command::Size(size) => size.run(tls, json),
        Command::Build(build) => build.run(tls, show, json),
        Command::Remove(remove) => remove.run(tls, show, json),
        Command::Move(moving) => moving.run(tls, show, json),
        Command::Compare(compare) => compare.run(tls, show, json),
        Command::List(list) => list.run(tls, show, json),
        Command::Show(it) => it.run(tls, json),
        Command::Watch(watch) => watch.run(options.tls, json),
        Command::Unique(unique) => unique.run(tls, show, json),
        Command::Filter(filter) => filter.run(tls, show, json),
        Command::Pages(pages) => pages.run(Options::command()),
    };
    ended(done, json)
}

/// Takes a negative number for the value that it is, so that the error says what is wrong with it. No file is called -0
/// where that is an option.
fn with_numbers(command: clap::Command) -> clap::Command {
    let has_zero = command
        .get_arguments()
        .any(|arg| arg.get_short() == Some('0'));
    let command = command.mut_args(|arg| {
        let takes_numbers = arg.get_action().takes_values() && !(has_zero && arg.is_positional());
        arg.allow_negative_numbers(takes_numbers)
    });
    command.mut_subcommands(with_numbers)
}

/// Reports a failure, and returns the exit status.
fn ended(done: Result<()>, json: bool) -> ExitCode {
    let Err(failure) = done else {
        return ExitCode::SUCCESS;
    };
    let status = ExitCode::from(failure.status);
    report::fail(failure, json);
    status
}

/// Returns whether the error is requested help, or the help for a command line without arguments.
fn is_help(error: &clap::Error) -> bool {
    !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Returns clap's message as one line, without the usage that clap adds.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let ends = |line: &&str| line.starts_with("Usage:") || line.starts_with("For more information");
    let lines = text.lines().take_while(|line| !ends(line)).map(str::trim);
    let mut line = String::new();
    for part in lines.filter(|line| !line.is_empty()) {
        match line.chars().last() {
            None => {}
            Some(':') => line.push(' '),
            Some(_) if part.starts_with('[') => line.push(' '),
            Some(_) if part.starts_with("tip:") => line.push_str("; "),
            Some(_) => line.push_str(", "),
        }
        line.push_str(part);
    }
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    format!("{line}; see --help")
}
