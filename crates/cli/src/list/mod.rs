//! `valkeybloom list`: every filter and sketch of a server in one table.
//!
//! ```text
//!   server → keys → read → rows → columns → output      table, CSV, JSON
//!                                         → advice      what is worth doing
//!                                         → prometheus  metrics
//! ```

pub mod advice;
pub mod columns;
mod family;
pub mod output;
mod pace;
pub mod prometheus;
pub mod read;
pub mod row;

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use redis::cmd;

use valkeybloom_protocol::names::{FILTER_MEMORY, OBJECT_MEMORY};

use self::advice::{Advice, Settings};
use self::columns::Column;
use self::prometheus::Memory;
use self::read::{Listing, Reader};
use super::failure::{Failure, Fault, Result};
use super::keys::Selection;
use super::options;
use super::progress::{Progress, Show};
use super::report::{self, print_line};
use super::server::{Server, Tls};

/// List every filter and sketch of a server, with its fill, error rate and memory
#[derive(Args)]
pub struct List {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    server: String,
    #[command(flatten)]
    keys: Selection,
    #[command(flatten)]
    order: Order,
    /// Print what is worth doing, and why
    #[arg(long)]
    advice: bool,
    /// Advise on keys that were not used for DAYS
    #[arg(long, value_name = "DAYS", default_value_t = 30, requires = "advice")]
    idle: u64,
    /// Write CSV
    #[arg(long, conflicts_with_all = ["advice", "prometheus"], help_heading = "Output")]
    csv: bool,
    /// Write metrics for Prometheus to FILE, or without FILE to the standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "advice", help_heading = "Output")]
    prometheus: Option<PathBuf>,
}

/// The order of rows, and the load that reading them puts on the server.
#[derive(Args, Clone)]
pub struct Order {
    /// Sort by a column: texts in ascending order, numbers in descending order
    #[arg(long, value_name = "COLUMN", value_enum, default_value = "key")]
    pub sort: Column,
    /// Sort the other way round
    #[arg(long)]
    pub reverse: bool,
    /// Read at most this many keys a second; 0: no limit
    #[arg(long, value_name = "KEYS_PER_SECOND", default_value_t = 10_000)]
    pub rate: u64,
}

impl List {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        if json && (self.csv || self.prometheus.is_some()) {
            return Err(Failure::usage(
                "--json can't be used with --csv or --prometheus",
            ));
        }
        let server = Server::connect(&self.server, tls)?;
        let failed = |fault| server.failure("could not list the keys of", &fault);
        let mut listing = self.read(&server, show).map_err(failed)?;
        columns::sort(
            &mut listing.rows,
            self.order.sort,
            self.order.reverse,
            &|_| None,
        );
        if let Some(reason) = &listing.reason {
            let (keys, address) = (listing.unreadable, server.address());
            let keys = if keys == 1 {
                "1 key".to_owned()
            } else {
                format!("{keys} keys")
            };
            eprintln!("{keys} could not be read at {address}: {reason}");
        }
        if let Some(file) = &self.prometheus {
            let memory = memory(&server).map_err(failed)?;
            let source = prometheus::Source {
                address: server.address(),
                database: server.database(),
            };
            let text = prometheus::text(&listing, &source, memory);
            return write(file, &text);
        }
        if self.csv {
            for line in output::csv(&listing.rows) {
                print_line(format_args!("{line}\r"));
            }
            return Ok(());
        }
        let advice = if self.advice {
            let settings = settings(&server).map_err(failed)?;
            let rows = listing.rows.iter();
            let advice = rows.map(|row| advice::of(row, settings, self.idle));
            Some(advice.collect::<Vec<_>>())
        } else {
            None
        };
        if json {
            let found = output::json(&listing.rows, advice.as_deref(), listing.unreadable);
            print_line(found);
        } else {
            print(&listing, advice.as_deref());
        }
        Ok(())
    }

    fn read(&self, server: &Server, show: Show) -> Result<Listing, Fault> {
        server.leave_untouched()?;
        let mut reader = Reader::new(server, self.order.rate, self.advice);
        let found = reader.find(&self.keys)?;
        let mut progress = Progress::new(show, "listing", "keys", Some(found.len() as u64));
        let mut done = 0;
        let listing = reader.read(found, &self.keys.kinds(), |keys| {
            done = keys;
            progress.at(keys, keys);
        })?;
        progress.end(done);
        Ok(listing)
    }
}

/// Prints a table, its sums, and a line for each piece of advice.
fn print(listing: &Listing, advice: Option<&[Vec<Advice>]>) {
    let width = io::stdout().is_terminal().then(terminal_width).flatten();
    for line in output::table(&listing.rows, width) {
        print_line(line);
    }
    print_line(output::sums(&listing.rows));
    let advice = advice.unwrap_or_default();
    for (row, advice) in listing.rows.iter().zip(advice) {
        for advice in advice {
            advice.print(&row.key);
        }
    }
}

/// Returns the width of the terminal.
fn terminal_width() -> Option<usize> {
    let (width, _) = ratatui::crossterm::terminal::size().ok()?;
    (width > 0).then_some(width.into())
}

/// Writes metrics to a file, or to the standard output if its name is `-`.
fn write(file: &Path, text: &str) -> Result<()> {
    if file == Path::new("-") {
        report::print(text);
        return Ok(());
    }
    let failed = |error| Failure::new(format!("could not write {}: {error}", file.display()));
    prometheus::replace(file, text).map_err(failed)
}

/// Reads the settings of a server, as far as the user may.
fn settings(server: &Server) -> Result<Settings, Fault> {
    let mut settings = Settings::default();
    let Some(node) = server.primaries()?.into_iter().next() else {
        return Ok(settings);
    };
    for (name, setting) in [
        (FILTER_MEMORY, &mut settings.filter_limit),
        (OBJECT_MEMORY, &mut settings.object_limit),
    ] {
        let command = cmd("CONFIG").arg("GET").arg(name).to_owned();
        *setting = match server.call_on::<HashMap<String, String>>(&node, &command) {
            Ok(found) => found.get(name).and_then(|value| options::bytes(value).ok()),
            Err(Fault::Refused(_)) => None,
            Err(fault @ Fault::Lost(_)) => return Err(fault),
        };
    }
    Ok(settings)
}

/// Reads the memory of a server, or of a cluster's primaries; `None` if the user may not.
fn memory(server: &Server) -> Result<Option<Memory>, Fault> {
    let mut memory = Memory::default();
    for node in server.primaries()? {
        let command = cmd("INFO").arg("memory").to_owned();
        let info = match server.call_on::<String>(&node, &command) {
            Ok(info) => info,
            Err(Fault::Refused(_)) => return Ok(None),
            Err(fault @ Fault::Lost(_)) => return Err(fault),
        };
        let field = |name: &str| {
            let mut lines = info.lines().filter_map(|line| line.split_once(':'));
            let found = lines.find(|(field, _)| *field == name);
            found
                .and_then(|(_, value)| value.parse::<u64>().ok())
                .unwrap_or(0)
        };
        memory.used += field("used_memory");
        memory.max += field("maxmemory");
    }
    Ok(Some(memory))
}
