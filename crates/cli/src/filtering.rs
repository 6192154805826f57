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
enum Filter<'f> {
    /// A server, by this command.
    Server(&'f Server, &'static str),
    /// A copy, and the server's time for windows.
    Bloom(Box<Object>, u64),
    Cuckoo(Cuckoo),
}

/// Returns the filter of a copy. `None` if the key holds another sketch by now.
fn filter_of(copy: Sketch, now_ms: u64) -> Option<Filter<'static>> {
    match copy {
        Sketch::Bloom(object) => Some(Filter::Bloom(Box::new(object), now_ms)),
        Sketch::Cuckoo(filter) => Some(Filter::Cuckoo(filter)),
        _ => None,
    }
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
            let found = self.look_up(&filter, &block)?.into_iter();
            let counts = found.map(|is_in| u64::from(is_in != self.not));
            printer.print_block(&mut block, counts)
        })?;
        let mut report = Report::default();
        printer.figures.report(&mut report);
        print_report(report, show, json, true)
    }

    /// Finds out what the key holds, and fetches it for a copy.
    fn filter<'s>(&self, server: &'s Server) -> Result<Filter<'s>> {
        let key = self.key.as_bytes();
        let kind = server.type_of(key)?;
        if kind == "none" {
            return Err(Failure::new(server.missing_key(key)));
        }
        let family = required_family(server, &self.key, &kind)?;
        let name = match family {
            Family::Bloom => "BF.MEXISTS",
            Family::Cuckoo => "CF.MEXISTS",
            _ => {
                let (key, address, object) = (shown(key), server.address(), family.object());
                let text = format!("{key} at {address} is a {object}: name the key of a filter");
                return Err(Failure::new(text));
            }
        };
        if !self.copy {
            return Ok(Filter::Server(server, name));
        }
        let failed = |fault: Fault| server.failure_of("fetch", key, &fault);
        let payload = dump::payload(server, key).map_err(failed)?;
        let now_ms = server.time_ms(key).map_err(failed)?;
        let unknown = || Fault::Unusable("this program does not read its format".to_owned());
        let copy = decoded(&payload).ok_or_else(unknown).map_err(failed)?;
        let replaced = || Fault::Unusable("it was replaced by another sketch".to_owned());
        filter_of(copy, now_ms).ok_or_else(replaced).map_err(failed)
    }

    /// Returns whether each item of a block is in the filter.
    fn look_up(&self, filter: &Filter<'_>, block: &Block) -> Result<Vec<bool>> {
        let items: Vec<&[u8]> = block.record_items().collect();
        let mut found = Vec::with_capacity(items.len());
        let all = items.iter().copied();
        match filter {
            Filter::Server(server, name) => return self.ask(server, name, block, &items),
            Filter::Bloom(object, now_ms) => {
                object.contains_each(all, || *now_ms, |is_in| found.push(is_in));
            }
            Filter::Cuckoo(filter) => filter.contains_each(all, |is_in| found.push(is_in)),
        }
        Ok(found)
    }

    /// Asks a server whether each of a block's items is in the filter.
    fn ask(
        &self,
        server: &Server,
        name: &str,
        block: &Block,
        items: &[&[u8]],
    ) -> Result<Vec<bool>> {
        let key = self.key.as_bytes();
        let batches = items.chunks(COMMAND_ITEMS);
        let commands = batches.clone().map(|batch| {
            let mut command = cmd(name);
            command.arg(key).arg(batch);
            (key.to_vec(), command)
        });
        let replies = server.call_all(&commands.collect::<Vec<_>>());
        let mut found = Vec::with_capacity(items.len());
        for (batch, reply) in batches.zip(replies) {
            found.extend(answers(name, batch, reply).map_err(|(item, fault)| {
                let verb = format!("look up {} in", block.position(item));
                server.failure_of(&verb, key, &fault)
            })?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use valkeybloom_sketches::cms::{CellSize, CountMin, Shape};

    use super::*;

    /// A key may be replaced after its type was read.
    #[test]
    fn a_sketch_that_is_no_filter_is_noticed() {
        let shape = Shape::new(10, 2, CellSize::Four).expect("a shape");
        let sketch = CountMin::new(shape, u64::MAX).expect("memory");
        assert!(filter_of(Sketch::CountMin(sketch), 0).is_none());
    }
}
