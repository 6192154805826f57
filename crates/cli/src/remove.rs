//! `valkeybloom remove`: removes the items in files from a filter on a server.

use clap::Args;

use valkeybloom_protocol::names::BF_MDEL;
use valkeybloom_sketches::cuckoo;

use super::failure::{Failure, Result, shown, text_of};
use super::family::is_filter;
use super::lines::{Block, Input};
use super::progress::{Progress, Show};
use super::receipts::{RunReceipts, Sending};
use super::report::{self, Report, counted_as};
use super::server::{COMMAND_ITEMS, Server, Tls, convert};

/// Remove the items in files from a counting filter, or from a cuckoo filter
#[derive(Args)]
pub struct Remove {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The filter's key
    #[arg(long, value_name = "KEY")]
    key: String,
    #[command(flatten)]
    input: Input,
}

/// The numbers of items by what happened to them.
struct Counts {
    items: u64,
    removed: u64,
    /// Items that the filter refused to remove, and still claims.
    refused: u64,
}

impl Remove {
    pub fn run(&self, tls: &Tls, show: Show, json: bool) -> Result<()> {
        let bytes = self.input.bytes()?;
        let server = Server::connect(&self.from, tls)?;
        let name = self.command(&server)?;
        let keys = [self.key.clone().into_bytes()];
        let (input, sending) = (&self.input, Sending::InOrder);
        let receipts = RunReceipts::read(&server, &keys, "remove", name, input, sending)?;
        receipts.resume(receipts.done_before(), show);
        let (removed, refused) = receipts.removals();
        let mut counts = Counts {
            items: 0,
            removed,
            refused,
        };
        let mut progress = Progress::new(show, "removing", "items", bytes);
        let all_removed = self.input.each(
            || Ok(()),
            |block| {
                self.remove(&server, &receipts, name, block, &mut counts)?;
                progress.at(block.read, counts.items);
                Ok(())
            },
        );
        all_removed.map_err(|failure| receipts.status().explain(failure))?;
        progress.end(counts.items);
        // BF.MDEL finds no item in a missing key.
        server.required_type(self.key.as_bytes())?;

        let ended = match counts.refused {
            0 => Ok(()),
            refused => Err(Failure::new(format!(
                "{} refused by {} at {}, which still finds the items",
                removals_were(refused),
                self.shown(),
                server.address()
            ))),
        };
        let ended = if show == Show::Nothing && !json {
            ended
        } else {
            let mut report = Report::default();
            report.row("key", self.shown(), text_of(self.key.as_bytes()));
            report.number("items", counts.items);
            report.number("removed", counts.removed);
            report.number("absent", counts.items - counts.removed - counts.refused);
            report.number("refused", counts.refused);
            report::end(report, json, ended)
        };
        // Last, because this run could go on until now.
        receipts.delete(&server);
        ended
    }

    fn shown(&self) -> std::borrow::Cow<'_, str> {
        shown(self.key.as_bytes())
    }

    /// Returns the command that removes items from the key.
    fn command(&self, server: &Server) -> Result<&'static str> {
        let (key, address) = (self.shown(), server.address());
        match &server.required_type(self.key.as_bytes())?[..] {
            kind if kind.as_bytes() == cuckoo::wire::TYPE_NAME.to_bytes() => Ok("CF.DEL"),
            kind if is_filter(kind) => Ok(BF_MDEL),
            kind => Err(Failure::new(format!(
                "{key} at {address} has type {kind}, which is not a filter: name another key"
            ))),
        }
    }

    /// Removes the items of a block, and counts what happened to them. A batch that an earlier run removed is in the counts.
    fn remove(
        &self,
        server: &Server,
        receipts: &RunReceipts,
        name: &str,
        block: &Block,
        counts: &mut Counts,
    ) -> Result<()> {
        let items: Vec<&[u8]> = block.items().collect();
        for batch in items.chunks(COMMAND_ITEMS) {
            let (from, to) = (counts.items, counts.items + batch.len() as u64);
            counts.items = to;
            if receipts.is_done(0, to) {
                continue;
            }
            let mut command = receipts.command(0, from..to, name);
            command.arg(batch);
            let call = || server.call(self.key.as_bytes(), &command);
            let reply = receipts.settle(0, call(), call).and_then(convert);
            (counts.removed, counts.refused) = reply.map_err(|fault| {
                let verb = format!("remove {} from", block.position(batch[0]));
                server.failure_of(&verb, self.key.as_bytes(), &fault)
            })?;
            receipts.status().set_first_done(to);
        }
        Ok(())
    }
}

/// Returns a text like "5 removals were".
fn removals_were(removals: u64) -> String {
    counted_as(removals, "removal", ["was", "were"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_removals_are_counted_in_words() {
        assert_eq!(removals_were(1), "1 removal was");
        assert_eq!(removals_were(1000), "1,000 removals were");
    }
}
