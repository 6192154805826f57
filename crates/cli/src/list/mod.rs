//! `valkeybloom list`: every filter and sketch of a server in one table.
//!
//! ```text
//!   server → keys → held → writer             table, with its sums; CSV, JSON
//!                        → advice             what is worth doing
//!                        → prometheus         metrics
//! ```

mod advice;
pub mod order;
mod prometheus;
pub mod sums;
pub mod table;
mod writer;

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use valkeybloom_files::replace;

use self::advice::Advisor;
use self::order::Order;
use self::prometheus::Memory;
use self::writer::{Form, Writer};
use super::failure::{Failure, Fault, Result, unless_refused};
use super::held::columns;
use super::held::limits::Settings;
use super::held::read::{Listing, Reader, Unreadable};
use super::held::row::Row;
use super::keys::Selection;
use super::options::count;
use super::progress::{Progress, Show};
use super::report::{counted, end_if_broken, print, written};
use super::server::{Server, Tls, words};

/// List every filter and sketch of a server, with its fill, error rate and memory
#[derive(Args)]
pub struct List {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    pub server: String,
    #[command(flatten)]
    keys: Selection,
    #[command(flatten)]
    order: Order,
    /// Print what is worth doing, and why
    #[arg(long)]
    advice: bool,
    /// Advise on keys that were not used for DAYS
    #[arg(long, value_name = "DAYS", value_parser = count, default_value_t = 30, requires = "advice")]
    idle: u64,
    /// Write CSV
    #[arg(long, conflicts_with_all = ["advice", "prometheus"], help_heading = "Output")]
    csv: bool,
    /// Write metrics for Prometheus to FILE, or without FILE to the standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "advice", help_heading = "Output")]
    prometheus: Option<PathBuf>,
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
        if let Some(file) = &self.prometheus {
            return self.write_metrics(&server, show, file, failed);
        }
        let settings = self.advice.then(|| Settings::of(&server));
        let settings = settings.transpose().map_err(failed)?;
        let advisor = settings.map(|settings| Advisor {
            settings,
            idle_days: self.idle,
        });
        let form = match (json, self.csv) {
            (true, _) => Form::Json,
            (_, true) => Form::Csv,
            _ => Form::Table(io::stdout().is_terminal().then(terminal_width).flatten()),
        };
        let mut writer = Writer::new(io::stdout(), form, self.order, advisor);
        // A bar would be drawn between the rows.
        let show = match show {
            Show::Bar if writer.is_prompt() && io::stdout().is_terminal() => Show::Nothing,
            show => show,
        };
        match self.read(&server, show, |rows| written(writer.take(rows))) {
            Ok(unreadable) => {
                let ended = require_all(server.address(), &unreadable);
                written(writer.end(unreadable.keys, ended))
            }
            Err(fault) => Err(written(writer.fail(failed(fault)))),
        }
    }

    /// Writes metrics to a file, or to the standard output if its name is `-`.
    fn write_metrics(
        &self,
        server: &Server,
        show: Show,
        file: &Path,
        failed: impl Fn(Fault) -> Failure,
    ) -> Result<()> {
        let mut rows = Vec::new();
        let take = |mut batch: Vec<Row>| rows.append(&mut batch);
        let unreadable = self.read(server, show, take).map_err(&failed)?;
        let ended = require_all(server.address(), &unreadable);
        let memory = memory(server).map_err(failed)?;
        columns::sort(&mut rows, self.order.sort, self.order.reverse);
        let listing = Listing { rows, unreadable };
        let address = server.address().to_string();
        let kinds = self.keys.kinds();
        let text = prometheus::text(&listing, &kinds, &address, server.database(), memory);
        if file == Path::new("-") {
            print(text);
        } else {
            replace(file, text.as_bytes()).map_err(|error| {
                end_if_broken(&error);
                Failure::new(format!("could not write {}: {error}", file.display()))
            })?;
        }
        ended
    }

    /// Passes the rows of the selected keys to `take`, batch by batch, in the order of the keys.
    fn read(
        &self,
        server: &Server,
        show: Show,
        mut take: impl FnMut(Vec<Row>),
    ) -> Result<Unreadable, Fault> {
        server.leave_untouched()?;
        let mut reader = Reader::new(server, self.order.rate, self.advice);
        let mut found = reader.find(&self.keys)?;
        if self.order.reverse {
            found.reverse();
        }
        let mut progress = Progress::new(show, "listing", "keys", Some(found.len() as u64));
        let mut all = 0;
        let unreadable = reader.read(found, &self.keys.kinds(), |rows, done| {
            all = done;
            take(rows);
            progress.at(done, done);
        })?;
        progress.end(all);
        Ok(unreadable)
    }
}

/// Requires that no key was unreadable at this address.
fn require_all(address: impl Display, Unreadable { keys, reason }: &Unreadable) -> Result<()> {
    let Some(reason) = reason else {
        return Ok(());
    };
    let keys = counted(*keys, "key");
    let text = format!("{keys} could not be read at {address}: {reason}");
    Err(Failure::new(text))
}

/// Returns the width of the terminal.
pub fn terminal_width() -> Option<usize> {
    let (width, _) = ratatui::crossterm::terminal::size().ok()?;
    (width > 0).then_some(width.into())
}

/// Reads the memory of a server, or of a cluster's primaries; `None` if the user may not.
fn memory(server: &Server) -> Result<Option<Memory>, Fault> {
    let mut memory = Memory {
        used: 0,
        limit: Some(0),
    };
    for node in server.primaries()? {
        let info = server.query_on::<String>(&node, &words("INFO memory"));
        let Some(info) = unless_refused(info)? else {
            return Ok(None);
        };
        let field = |name| {
            let mut lines = info.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.parse().ok());
            value.unwrap_or(0_u64)
        };
        memory.used += field("used_memory:");
        let limit = field("maxmemory:");
        memory.limit = memory.limit.filter(|_| limit > 0).map(|all| all + limit);
    }
    Ok(Some(memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_could_not_be_read_are_counted() {
        let failed = |keys| {
            let reason = Some("NOPERM".to_owned());
            require_all("host:1", &Unreadable { keys, reason }).map_err(|it| it.to_string())
        };
        let text = |keys| Err(format!("{keys} could not be read at host:1: NOPERM"));
        assert_eq!(failed(1), text("1 key"));
        assert_eq!(failed(1000), text("1,000 keys"));
        assert!(require_all("host:1", &Unreadable::default()).is_ok());
    }
}
