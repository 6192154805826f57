//! Items that are added to keys on a server, by commands.

use redis::{Cmd, Value, cmd};

use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_protocol::tdigest::value_to_add;
use valkeybloom_sketches::topk::INCREMENT_MAX;

use super::source::{Counts, Source};
use crate::failure::{Failure, Fault, Result, shown};
use crate::family::Family;
use crate::held::limits;
use crate::lines::Block;
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
}

/// An item, and how often it is added.
type Part<'i> = (&'i [u8], u64);

impl Adding<'_> {
    /// Adds the items of the source, and calls `before_block` before each of its blocks.
    pub fn add(
        &self,
        source: &Source<'_>,
        mut before_block: impl FnMut() -> Result<()>,
    ) -> Result<Counts> {
        source.each("adding", |block, counts| {
            before_block()?;
            let of_keys = source.by_shard(block).into_iter();
            let of_keys: Vec<_> = of_keys.map(|items| self.parts(items)).collect();
            if self.family == Family::Tdigest {
                require_numbers(block, &of_keys)?;
            }
            // All commands of a block are sent at the same time.
            let mut commands = Vec::new();
            let mut batches = Vec::new();
            for ((name, key), parts) in self.names.iter().zip(&self.keys).zip(&of_keys) {
                for batch in parts.chunks(COMMAND_ITEMS) {
                    commands.push((key.clone(), self.command(key, batch)));
                    batches.push((name, batch));
                }
            }
            for ((name, batch), reply) in batches.into_iter().zip(self.server.call_all(&commands)) {
                let failed =
                    |index: usize, fault: &Fault| self.failure(block, name, batch, index, fault);
                let answers = match reply.map_err(|fault| failed(0, &fault))? {
                    Value::Array(answers) => answers,
                    Value::Okay => Vec::new(),
                    _ => return Err(failed(0, &Fault::Lost("unexpected reply".to_owned()))),
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
                counts.items += batch.iter().map(|(_, times)| times).sum::<u64>();
            }
            Ok(())
        })
    }

    /// Returns the parts of a command, or of many. Equal items are counted before they are sent, if their number is all
    /// that counts.
    fn parts<'i>(&self, mut items: Vec<&'i [u8]>) -> Vec<Part<'i>> {
        if !matches!(self.family, Family::Cms | Family::Topk) {
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
    fn command(&self, key: &[u8], parts: &[Part<'_>]) -> Cmd {
        let name = match self.family {
            Family::Bloom => BF_INSERT,
            Family::Cuckoo => "CF.INSERTNX",
            Family::Cms => "CMS.INCRBY",
            Family::Topk => "TOPK.INCRBY",
            Family::Tdigest => "TDIGEST.ADD",
        };
        let mut command = cmd(name);
        command.arg(key);
        if matches!(self.family, Family::Bloom | Family::Cuckoo) {
            command.arg("NOCREATE").arg("ITEMS");
        }
        for (item, times) in parts {
            match self.family {
                Family::Cms | Family::Topk => command.arg(item).arg(times),
                Family::Tdigest => command.arg(item.trim_ascii()),
                Family::Bloom | Family::Cuckoo => command.arg(item),
            };
        }
        command
    }

    fn failure(
        &self,
        block: &Block,
        name: &str,
        batch: &[Part<'_>],
        index: usize,
        fault: &Fault,
    ) -> Failure {
        let position = batch.get(index).map(|(item, _)| block.position(item));
        let position = position.unwrap_or_default();
        let what = format!("could not add {position} to {} at", shown(name.as_bytes()));
        limits::failure(self.server, &what, fault, (0, 0))
    }
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
