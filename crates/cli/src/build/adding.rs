//! Items that are added to keys on a server, by commands.

use std::ops::Range;

use redis::{Cmd, Value, cmd};

use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_protocol::tdigest::value_to_add;
use valkeybloom_sketches::topk::INCREMENT_MAX;

use super::source::{Counts, Source};
use crate::failure::{Failure, Fault, Result, shown};
use crate::family::Family;
use crate::held::limits;
use crate::lines::Block;
use crate::receipts::RunReceipts;
use crate::server::{COMMAND_ITEMS, Server};

/// The reason for an item that a cuckoo filter had no room for.
const FULL: &str = "ERR the filter is full; build a larger one, with more --items";

/// The keys of a run, all of one family.
pub struct Adding<'a> {
    pub server: &'a Server,
    pub family: Family,
    /// The name of each key in messages.
    pub names: &'a [String],
    /// The keys that are filled.
    pub keys: Vec<Vec<u8>>,
    /// The receipts, if a repetition would count.
    pub receipts: Option<RunReceipts<'a>>,
}

/// An item, and how often it is added.
type Part<'i> = (&'i [u8], u64);

/// A command of a block.
struct Batch<'p> {
    /// The index of its key.
    index: usize,
    parts: &'p [Part<'p>],
}

impl Batch<'_> {
    fn items(&self) -> u64 {
        self.parts.iter().map(|(_, times)| times).sum()
    }
}

impl Adding<'_> {
    /// Adds the items of the source, and calls `meanwhile` before and while it waits for each of its blocks.
    pub fn add(
        &self,
        source: &Source<'_>,
        meanwhile: impl FnMut() -> Result<()>,
    ) -> Result<Counts> {
        // For each key, the number of items in the blocks before.
        let mut starts = vec![0; self.keys.len()];
        source.each("adding", meanwhile, |block, counts| {
            let of_keys = source.by_shard(block);
            let ends = of_keys.iter().zip(&starts);
            let ends: Vec<u64> = ends
                .map(|(items, start)| start + items.len() as u64)
                .collect();
            let of_keys: Vec<_> = of_keys.into_iter().map(|items| self.parts(items)).collect();
            if self.family == Family::Tdigest {
                require_numbers(block, &of_keys)?;
            }
            // All commands of a block are sent at the same time.
            let mut commands = Vec::new();
            let mut batches = Vec::new();
            for (index, parts) in of_keys.iter().enumerate() {
                let mut from = starts[index];
                let mut chunks = parts.chunks(COMMAND_ITEMS).peekable();
                while let Some(parts) = chunks.next() {
                    let next = chunks.peek().map(|_| from + parts.len() as u64);
                    let to = next.unwrap_or(ends[index]);
                    let batch = Batch { index, parts };
                    let mut receipts = self.receipts.iter();
                    if receipts.any(|receipts| receipts.is_done(index, to)) {
                        counts.items += batch.items();
                    } else {
                        commands.push((self.keys[index].clone(), self.command(&batch, from..to)));
                        batches.push(batch);
                    }
                    from = to;
                }
            }
            let replies = self.server.call_all(&commands).into_iter();
            for ((batch, (_, command)), reply) in batches.iter().zip(&commands).zip(replies) {
                self.take(block, batch, command, reply, counts)?;
            }
            if let Some(receipts) = &self.receipts {
                receipts.status.set_first_done(counts.items);
            }
            starts = ends;
            Ok(())
        })
    }

    /// Takes the reply to a command.
    fn take(
        &self,
        block: &Block,
        batch: &Batch<'_>,
        command: &Cmd,
        mut reply: Result<Value, Fault>,
        counts: &mut Counts,
    ) -> Result<()> {
        if let Some(receipts) = &self.receipts {
            reply = receipts.settle(batch.index, command, reply);
        }
        let failed = |index: usize, fault: &Fault| self.failure(block, batch, index, fault);
        let answers = match reply.map_err(|fault| failed(0, &fault))? {
            Value::Array(answers) => answers,
            Value::Okay => Vec::new(),
            _ => return Err(failed(0, &Fault::Unusable("unexpected reply".to_owned()))),
        };
        for (index, answer) in answers.into_iter().enumerate() {
            match answer {
                Value::ServerError(error) => return Err(failed(index, &error.into())),
                Value::Int(-1) if self.family == Family::Cuckoo => {
                    return Err(failed(index, &Fault::Refused(FULL.to_owned())));
                }
                answer => counts.new += u64::from(answer == Value::Int(1)),
            }
        }
        counts.items += batch.items();
        if let Some(receipts) = &self.receipts {
            receipts.status.set_done_in_block(counts.items);
        }
        Ok(())
    }

    /// Returns the parts of a command, or of many. Equal items are counted before they are sent, if their number is all
    /// that counts.
    fn parts<'i>(&self, mut items: Vec<&'i [u8]>) -> Vec<Part<'i>> {
        if !counts_equal_items(self.family) {
            return items.into_iter().map(|item| (item, 1)).collect();
        }
        items.sort_unstable();
        let most = usize::try_from(INCREMENT_MAX).unwrap_or(usize::MAX);
        let equal = items.chunk_by(|one, other| one == other);
        let equal = equal.flat_map(|equal| equal.chunks(most));
        equal.map(|equal| (equal[0], equal.len() as u64)).collect()
    }

    /// Returns the command that adds items to an existing key. Where a command would create a missing one from the
    /// server's settings, another is used.
    fn command(&self, batch: &Batch<'_>, positions: Range<u64>) -> Cmd {
        let name = match self.family {
            Family::Bloom => BF_INSERT,
            Family::Cuckoo => "CF.INSERTNX",
            Family::Cms => "CMS.INCRBY",
            Family::Topk => "TOPK.INCRBY",
            Family::Tdigest => "TDIGEST.ADD",
        };
        let mut command = if let Some(receipts) = &self.receipts {
            receipts.command(batch.index, positions, name)
        } else {
            let mut command = cmd(name);
            command.arg(&self.keys[batch.index]);
            command
        };
        if matches!(self.family, Family::Bloom | Family::Cuckoo) {
            command.arg("NOCREATE").arg("ITEMS");
        }
        for (item, times) in batch.parts {
            match self.family {
                Family::Cms | Family::Topk => command.arg(item).arg(times),
                Family::Tdigest => command.arg(item.trim_ascii()),
                Family::Bloom | Family::Cuckoo => command.arg(item),
            };
        }
        command
    }

    fn failure(&self, block: &Block, batch: &Batch<'_>, index: usize, fault: &Fault) -> Failure {
        let position = batch.parts.get(index);
        let position = position.map(|(item, _)| block.position(item));
        let position = position.unwrap_or_default();
        let name = shown(self.names[batch.index].as_bytes());
        let what = format!("could not add {position} to {name} at");
        limits::failure(self.server, &what, fault, None)
    }
}

/// Returns whether equal items of a block are sent as one, with their number. So they are not sent in their order.
pub fn counts_equal_items(family: Family) -> bool {
    matches!(family, Family::Cms | Family::Topk)
}

fn require_numbers(block: &Block, of_keys: &[Vec<Part<'_>>]) -> Result<()> {
    let mut all = of_keys.iter().flatten();
    match all.find(|(item, _)| value_to_add(item.trim_ascii()).is_err()) {
        None => Ok(()),
        Some((item, _)) => {
            let (position, item) = (block.position(item), shown(item));
            Err(Failure::new(format!("{position} is not a number: {item}")))
        }
    }
}
