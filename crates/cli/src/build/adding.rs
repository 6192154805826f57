//! Items that are added to keys on a server, by commands.
//!
//! ```text
//!   block → batches → commands for the server → replies → counts, or the item that a failure names
//! ```

use redis::{Cmd, cmd};

use super::batches::{Batch, Form, Positions, Words};
use super::replies::{Refusal, Replies};
use super::source::{Counts, Source};
use super::target::inapplicable;
use crate::existing::required_family;
use crate::failure::{Failure, Result, shown};
use crate::family::{Family, counts_twice};
use crate::held::limits;
use crate::lines::Block;
use crate::receipts::{RunReceipts, Sending};
use crate::server::Server;

/// Adds the items of a run to keys of one family.
pub struct Adding<'a> {
    server: &'a Server,
    pub family: Family,
    form: Form,
    destinations: Vec<Destination<'a>>,
    /// The receipts, if a repetition would count.
    receipts: Option<RunReceipts>,
}

struct Destination<'a> {
    /// The name of the key in messages.
    name: &'a str,
    /// The key that is filled.
    key: Vec<u8>,
}

impl<'a> Adding<'a> {
    /// Prepares additions to keys that exist, after the items that an earlier run of the same command added.
    pub fn to_existing(
        server: &'a Server,
        keys: &'a [String],
        source: &Source<'_>,
    ) -> Result<Self> {
        let (family, counts_twice) = family_of(server, keys)?;
        let form = Form::of(family);
        let names: Vec<_> = keys.iter().map(|key| key.clone().into_bytes()).collect();
        let sending = if keys.len() > 1 || form.words == Words::Counts {
            Sending::OutOfOrder
        } else {
            Sending::InOrder
        };
        let (command, input) = (form.command, source.input);
        let read = || RunReceipts::read(server, &names, "build", command, input, sending);
        let receipts = counts_twice.then(read).transpose()?;
        if let Some(receipts) = &receipts {
            receipts.resume(receipts.done_before(), source.show);
        }
        let destinations = keys.iter().zip(names);
        let destinations = destinations.map(|(name, key)| Destination { name, key });
        Ok(Self {
            server,
            family,
            form,
            destinations: destinations.collect(),
            receipts,
        })
    }

    /// Prepares additions to a temporary key, which gets its name later.
    pub fn to_temporary(server: &'a Server, family: Family, name: &'a str, key: &[u8]) -> Self {
        // A cluster's client may send a command again by itself. CF.INSERTNX adds an item only once.
        let may_count_twice = server.is_cluster() && family != Family::Cuckoo;
        Self {
            server,
            family,
            form: Form::of(family),
            destinations: vec![Destination {
                name,
                key: key.to_vec(),
            }],
            receipts: may_count_twice.then(|| RunReceipts::of_temporary(key)),
        }
    }

    /// Adds the items of the source, and calls `meanwhile` before and while it waits for each of its blocks.
    pub fn add(
        &self,
        source: &Source<'_>,
        meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<Counts> {
        let mut positions = Positions::new(self.destinations.len());
        let added = source.each("adding", meanwhile, |block, counts| {
            let of_keys = source.by_shard(block).into_iter();
            let of_keys: Vec<_> = of_keys.map(|items| self.form.parts(items)).collect();
            self.form.check(&of_keys, |item| block.position(item))?;
            let mut batches = positions.divide(&of_keys);
            let receipts = self.receipts.as_ref();
            let done = batches.extract_if(.., |batch| {
                receipts.is_some_and(|it| it.is_done(batch.index, batch.positions.end))
            });
            counts.items += done.map(|batch| batch.items()).sum::<u64>();
            self.send(block, &batches, counts)?;
            if let Some(receipts) = receipts {
                receipts.status().set_first_done(counts.items);
            }
            Ok(())
        });
        added.map_err(|failure| match &self.receipts {
            Some(receipts) => receipts.status().explain(failure),
            None => failure,
        })
    }

    /// Returns the number of items that earlier runs added.
    pub fn done_before(&self) -> u64 {
        let receipts = self.receipts.as_ref();
        receipts.map_or(0, RunReceipts::done_before)
    }

    /// Ends the run: the same command would begin with the first item now.
    pub fn finish(self) {
        if let Some(receipts) = self.receipts {
            receipts.delete(self.server);
        }
    }

    /// Sends the commands of a block at the same time, and counts the items that are added.
    ///
    /// # Errors
    /// The failure names the first item of the block that was not added, whichever command had it.
    fn send(&self, block: &Block, batches: &[Batch<'_>], counts: &mut Counts) -> Result<()> {
        let commands = batches.iter().map(|batch| {
            let key = self.destinations[batch.index].key.clone();
            (key, self.command(batch))
        });
        let commands: Vec<_> = commands.collect();
        let mut taken = Replies::new(self.form.words, self.receipts.as_ref(), counts);
        let replies = self.server.call_all(&commands);
        for ((batch, (key, command)), reply) in batches.iter().zip(&commands).zip(replies) {
            taken.take(batch, reply, || self.server.call(key, command));
        }
        taken.end().map_err(|refusal| self.failure(block, &refusal))
    }

    /// Returns the command that adds a batch to its key.
    fn command(&self, batch: &Batch<'_>) -> Cmd {
        let name = self.form.command;
        let mut command = if let Some(receipts) = &self.receipts {
            receipts.command(batch.index, batch.positions.clone(), name)
        } else {
            let mut command = cmd(name);
            command.arg(&self.destinations[batch.index].key);
            command
        };
        self.form.write(batch.parts, &mut command);
        command
    }

    fn failure(&self, block: &Block, refusal: &Refusal<'_>) -> Failure {
        let position = block.position(refusal.item);
        let name = shown(self.destinations[refusal.index].name.as_bytes());
        let what = format!("could not add {position} to {name} at");
        limits::failure(self.server, &what, &refusal.fault, None)
    }
}

/// Returns the family of keys that exist, and whether one of them counts what is added twice.
fn family_of(server: &Server, keys: &[String]) -> Result<(Family, bool)> {
    let mut family = Family::Bloom;
    let mut any_counts_twice = false;
    for key in keys {
        let kind = server.type_of(key.as_bytes())?;
        if kind == "none" {
            let missing = server.missing_key(key.as_bytes());
            return Err(Failure::new(missing + ": build it without --add"));
        }
        family = required_family(server, key, &kind)?;
        if family != Family::Bloom && keys.len() > 1 {
            return Err(inapplicable("--shards", family));
        }
        any_counts_twice |= counts_twice(&kind);
    }
    Ok((family, any_counts_twice))
}
