//! `valkeybloom filter`: prints the records whose items are in a filter.

use clap::Args;
use redis::cmd;
use valkeybloom_sketches::Sketch;

use super::dump;
use super::existing::required_family;
use super::failure::{Failure, Fault, Result, shown};
use super::family::Family;
use super::lines::{Block, Input, Records, bytes_of};
use super::progress::{Progress, Show};
use super::report::Report;
use super::server::{COMMAND_ITEMS, Server, Tls};
use super::sketches::decoded;
use super::unique::{Output, Printer, Reporting, Selection};

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
    Server(&'f Server, &'static str),
    /// A copy, and the server's time for windows.
    Copy(Box<Sketch>, u64),
}

impl Filtering {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        // The standard output is for records.
        self.print(tls, show, json).map_err(Failure::written)
    }

    fn print(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let files = self.records.input.files();
        let stamps = Input::stamps(files)?;
        let bytes = bytes_of(&stamps);
        let mut printer = Printer::new(Output::standard(&stamps)?, Selection::Kept);
        let server = Server::connect(&self.to, tls)?;
        let filter = self.filter(&server)?;
        let input = self.records.of(files.to_vec(), stamps);
        let mut progress = Progress::of_bytes(show, "filtering", "records", bytes);
        let blocks = input.blocks();
        while let Some(block) = blocks.next() {
            let mut block = input.fields_of(block)?;
            let items = block.records().filter_map(|record| record.item.ok());
            let items: Vec<&[u8]> = items.collect();
            let mut found = self.look_up(&filter, &block, &items)?.into_iter();
            printer.begin(block.index, &mut block)?;
            printer.print(&block, block.records(), || {
                (found.next() == Some(!self.not)).then_some(1)
            })?;
            progress.at(block.read, printer.figures.records());
        }
        blocks.end()?;
        progress.end(printer.figures.records());
        let mut report = Report::default();
        printer.figures.report(&mut report);
        let reporting = Reporting {
            show,
            json,
            has_records: true,
        };
        reporting.print(report)
    }

    /// Finds out what the key holds, and fetches it for a copy.
    fn filter<'s>(&self, server: &'s Server) -> Result<Filter<'s>> {
        let key = self.key.as_bytes();
        let kind = server.type_of(key)?;
        if kind == "none" {
            return Err(Failure::new(server.missing(key)));
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
        let unknown = || Fault::Unusable("this program does not read its format".to_owned());
        let copy = decoded(&payload).ok_or_else(unknown).map_err(failed)?;
        let now = server.time_ms(key).map_err(failed)?;
        Ok(Filter::Copy(Box::new(copy), now))
    }

    /// Returns whether each item is in the filter.
    fn look_up(&self, filter: &Filter<'_>, block: &Block, items: &[&[u8]]) -> Result<Vec<bool>> {
        let mut found = Vec::with_capacity(items.len());
        let (server, name) = match filter {
            Filter::Copy(copy, now) => {
                let all = items.iter().copied();
                match &**copy {
                    Sketch::Bloom(object) => {
                        object.contains_each(all, || *now, |is_in| found.push(is_in));
                    }
                    Sketch::Cuckoo(object) => object.contains_each(all, |is_in| found.push(is_in)),
                    _ => {}
                }
                return Ok(found);
            }
            Filter::Server(server, name) => (server, name),
        };
        let batches = items.chunks(COMMAND_ITEMS);
        let commands = batches.clone().map(|batch| {
            let mut command = cmd(name);
            command.arg(&self.key).arg(batch);
            (self.key.clone().into_bytes(), command)
        });
        let replies = server.call_all(&commands.collect::<Vec<_>>());
        for (batch, reply) in batches.zip(replies) {
            let answers = reply.and_then(|reply| {
                let answers: Option<Vec<bool>> = redis::from_redis_value(reply).ok();
                let all = answers.filter(|answers| answers.len() == batch.len());
                all.ok_or_else(|| Fault::Unusable(format!("unexpected reply to {name}")))
            });
            found.extend(answers.map_err(|fault| {
                let verb = format!("look up {} in", block.position(batch[0]));
                server.failure_of(&verb, self.key.as_bytes(), &fault)
            })?);
        }
        Ok(found)
    }
}
