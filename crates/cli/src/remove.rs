//! `valkeybloom remove`: removes the items in files from a filter on a server.

use clap::Args;
use redis::{Cmd, Value, cmd};

use valkeybloom_protocol::names::BF_MDEL;
use valkeybloom_sketches::cuckoo;

use super::failure::{Failure, Fault, Result, shown};
use super::lines::Input;
use super::progress::{Progress, Show};
use super::report::{self, Report, grouped};
use super::server::{COMMAND_ITEMS, Server, Tls, is_filter};

/// Remove the items in files from a counting filter, or from a cuckoo filter
#[derive(Args)]
pub struct Remove {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    #[arg(long, value_name = "URL")]
    from: String,
    /// The filter's key
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    input: Input,
}

/// The numbers of items by what happened to them.
#[derive(Default)]
struct Counts {
    removed: u64,
    /// Items that the filter does not contain.
    absent: u64,
    /// Items that the filter refused to remove, and still claims.
    refused: u64,
}

impl Counts {
    const fn items(&self) -> u64 {
        self.removed + self.absent + self.refused
    }
}

impl Remove {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let bytes = self.input.bytes()?;
        let server = Server::connect(&self.from, tls)?;
        let is_cuckoo = self.is_cuckoo(&server)?;
        let mut counts = Counts::default();
        let mut progress = Progress::new(show, "removing", "items", bytes);
        self.input.each(|block, read| {
            let items: Vec<&[u8]> = block.items().collect();
            for batch in items.chunks(COMMAND_ITEMS) {
                let removed = self.remove(&server, is_cuckoo, batch, &mut counts);
                removed.map_err(|fault| {
                    let verb = format!("remove {} from", block.position(batch[0]));
                    server.failure_of(&verb, self.key.as_bytes(), &fault)
                })?;
            }
            progress.at(read, counts.items());
            Ok(())
        })?;
        progress.end(counts.items());

        let ended = match counts.refused {
            0 => Ok(()),
            refused => Err(Failure::new(format!(
                "{} removals were refused by {} at {}, which still finds the items",
                grouped(refused),
                self.shown(),
                server.address()
            ))),
        };
        if show == Show::Nothing && !json {
            return ended;
        }
        let mut report = Report::default();
        report.row("key", &self.key, self.key.clone());
        report.number("items", counts.items());
        report.number("removed", counts.removed);
        report.number("absent", counts.absent);
        report.number("refused", counts.refused);
        report::end(report, json, ended)
    }

    fn shown(&self) -> std::borrow::Cow<'_, str> {
        shown(self.key.as_bytes())
    }

    /// Returns whether the key holds a cuckoo filter, and not a Bloom filter.
    fn is_cuckoo(&self, server: &Server) -> Result<bool> {
        let (key, address) = (self.shown(), server.address());
        match &server.type_of(self.key.as_bytes())?[..] {
            kind if kind.as_bytes() == cuckoo::wire::TYPE_NAME.to_bytes() => Ok(true),
            kind if is_filter(kind) => Ok(false),
            "none" => Err(Failure::new(server.missing(self.key.as_bytes()))),
            kind => Err(Failure::new(format!(
                "{key} at {address} has type {kind}, which is not a filter: name another key"
            ))),
        }
    }

    fn command(&self, name: &str, items: &[&[u8]]) -> Cmd {
        let mut command = cmd(name);
        command.arg(&self.key).arg(items);
        command
    }

    /// Removes items, and counts what happened to them.
    fn remove(
        &self,
        server: &Server,
        is_cuckoo: bool,
        items: &[&[u8]],
        counts: &mut Counts,
    ) -> Result<(), Fault> {
        let removed = if is_cuckoo {
            self.remove_from_cuckoo(server, items)?
        } else {
            self.call(server, BF_MDEL, items)?
        };
        let pairs = items.iter().zip(removed);
        let left = pairs.filter(|(_, removed)| !removed);
        let left: Vec<&[u8]> = left.map(|(item, _)| *item).collect();
        counts.removed += (items.len() - left.len()) as u64;
        // A cuckoo filter removes every item that it claims.
        if is_cuckoo || left.is_empty() {
            counts.absent += left.len() as u64;
            return Ok(());
        }
        let claimed = self.call(server, "BF.MEXISTS", &left)?;
        let refused = claimed.iter().filter(|claimed| **claimed).count();
        counts.refused += refused as u64;
        counts.absent += (left.len() - refused) as u64;
        Ok(())
    }

    /// Calls a command with many items, and returns its reply for each.
    fn call(&self, server: &Server, name: &str, items: &[&[u8]]) -> Result<Vec<bool>, Fault> {
        let command = self.command(name, items);
        let replies: Vec<bool> = server.get(self.key.as_bytes(), &command)?;
        let all = Some(replies).filter(|replies| replies.len() == items.len());
        all.ok_or_else(|| Fault::Lost(format!("unexpected reply to {name}")))
    }

    fn remove_from_cuckoo(&self, server: &Server, items: &[&[u8]]) -> Result<Vec<bool>, Fault> {
        let key = self.key.as_bytes().to_vec();
        let delete = |item: &&[u8]| (key.clone(), self.command("CF.DEL", &[item]));
        let commands: Vec<_> = items.iter().map(delete).collect();
        let replies = server.call_all(&commands).into_iter();
        replies.map(|reply| Ok(reply? == Value::Int(1))).collect()
    }
}
