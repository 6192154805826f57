//! `valkeybloom filter`: prints the records whose items are in a filter.

use clap::Args;
use redis::cmd;
use valkeybloom_sketches::Sketch;
use valkeybloom_sketches::bloom::Object;
use valkeybloom_sketches::cuckoo::Cuckoo;

use super::dump;
use super::existing::required_family;
use super::failure::{Failure, Fault, Result, shown};
use super::family::Family;
use super::lines::{Block, Records};
use super::progress::Show;
use super::report::Report;
use super::server::{COMMAND_ITEMS, Server, Tls};
use super::sketches::decoded;
use super::unique::{Output, Passes, Printer, Selection, answers, print_report};

/// Print the records whose items are in a Bloom filter or a cuckoo filter
#[derive(Args)]
pub struct Filtering {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// The filter's key
    #[arg(long, value_name = "KEY")]
    key: String,
    /// Print the other records instead
    #[arg(long)]
    not: bool,
    /// Fetch the filter first, and look items up in this program's memory
    #[arg(long)]
    copy: bool,
    #[command(flatten)]
    records: Records,
}

/// Where items are looked up.
enum Filter<'s> {
    Remote(Remote<'s>),
    /// A copy, and the server's time for windows.
    Bloom {
        copy: Box<Object>,
        now_ms: u64,
    },
    Cuckoo(Cuckoo),
}

/// A filter that stays on its server.
struct Remote<'s> {
    server: &'s Server,
    key: &'s [u8],
    /// The command that looks items up.
    command: &'static str,
}

impl Filtering {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        // The standard output is for records.
        self.print(tls, show, json)
            .map_err(Failure::already_written)
    }

    fn print(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let input = self.records.after(&[])?;
        let output = Output::standard(input.kept_stamps())?;
        let mut printer = Printer::new(output, Selection::Kept, 0);
        let server = Server::connect(&self.to, tls)?;
        let filter = self.filter(&server)?;
        let passes = Passes::new(&input, None, show);
        passes.each_block("filtering", |mut block| {
            let found = filter.look_up(&block)?.into_iter();
            let counts = found.map(|is_in| u64::from(is_in != self.not));
            printer.print_block(&mut block, counts)
        })?;
        let mut report = Report::default();
        printer.figures.report(&mut report);
        print_report(report, show, json, true)
    }

    /// Finds out what the key holds, and fetches it for a copy.
    fn filter<'s>(&'s self, server: &'s Server) -> Result<Filter<'s>> {
        let key = self.key.as_bytes();
        let kind = server.required_type(key)?;
        let family = required_family(server, &self.key, &kind)?;
        let command = match family {
            Family::Bloom => "BF.MEXISTS",
            Family::Cuckoo => "CF.MEXISTS",
            _ => {
                let (key, address, object) = (shown(key), server.address(), family.object());
                let text = format!("{key} at {address} is a {object}: name the key of a filter");
                return Err(Failure::new(text));
            }
        };
        if !self.copy {
            return Ok(Filter::Remote(Remote {
                server,
                key,
                command,
            }));
        }
        let failed = |fault: Fault| server.failure_of("fetch", key, &fault);
        let payload = dump::payload(server, key).map_err(failed)?;
        let now_ms = server.time_ms(key).map_err(failed)?;
        let unknown = || Fault::Unusable("this program does not read its format".to_owned());
        let copy = decoded(&payload).ok_or_else(unknown).map_err(failed)?;
        let replaced = || Fault::Unusable("it was replaced by another sketch".to_owned());
        let filter = Filter::of_copy(copy, now_ms).ok_or_else(replaced);
        filter.map_err(failed)
    }
}

impl Filter<'_> {
    /// Returns the filter of a copy. Returns `None` for another sketch, which has replaced the filter since the type was read.
    fn of_copy(copy: Sketch, now_ms: u64) -> Option<Self> {
        match copy {
            Sketch::Bloom(object) => Some(Self::Bloom {
                copy: Box::new(object),
                now_ms,
            }),
            Sketch::Cuckoo(filter) => Some(Self::Cuckoo(filter)),
            _ => None,
        }
    }

    /// Returns whether each item of a block is in the filter.
    fn look_up(&self, block: &Block) -> Result<Vec<bool>> {
        let items = block.record_items();
        let mut found = Vec::with_capacity(block.len());
        match self {
            Self::Remote(filter) => return filter.look_up(block),
            Self::Bloom { copy, now_ms } => {
                copy.contains_each(items, || *now_ms, |is_in| found.push(is_in));
            }
            Self::Cuckoo(copy) => copy.contains_each(items, |is_in| found.push(is_in)),
        }
        Ok(found)
    }
}

impl Remote<'_> {
    /// Returns whether each item of a block is in the filter.
    fn look_up(&self, block: &Block) -> Result<Vec<bool>> {
        let items: Vec<&[u8]> = block.record_items().collect();
        let batches = items.chunks(COMMAND_ITEMS);
        let commands = batches.clone().map(|batch| {
            let mut command = cmd(self.command);
            command.arg(self.key).arg(batch);
            (self.key.to_vec(), command)
        });
        let replies = self.server.call_all(&commands.collect::<Vec<_>>());
        let mut found = Vec::with_capacity(items.len());
        for (batch, reply) in batches.zip(replies) {
            let answers = answers(self.command, batch, reply).map_err(|(item, fault)| {
                let verb = format!("look up {} in", block.position(item));
                self.server.failure_of(&verb, self.key, &fault)
            });
            found.extend(answers?);
        }
        // A missing key answers as an empty filter does. A cluster's client may send a lookup again, so the type is read once
        // all are answered.
        self.server.required_type(self.key)?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use valkeybloom_sketches::cms::{CellSize, CountMin, Shape};

    use super::*;

    #[test]
    fn a_sketch_that_is_no_filter_is_noticed() {
        let shape = Shape::new(10, 2, CellSize::Four).expect("a shape");
        let sketch = CountMin::new(shape, u64::MAX).expect("memory");
        assert!(Filter::of_copy(Sketch::CountMin(sketch), 0).is_none());
    }
}
