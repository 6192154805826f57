//! Items that are added to keys on a server, by commands.

use std::ops::Range;

use redis::{Cmd, Value, cmd};

use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_protocol::tdigest::value_to_add;
use valkeybloom_sketches::topk::INCREMENT_MAX;

use super::source::{Counts, Source};
use super::target::inapplicable;
use crate::existing::required_family;
use crate::failure::{Failure, Fault, Result, shown};
use crate::family::{Family, counts_twice};
use crate::held::limits;
use crate::lines::Block;
use crate::receipts::{RunReceipts, Sending};
use crate::server::{COMMAND_ITEMS, Server};

/// The reason for an item that a cuckoo filter did not take. The server does not report whether the filter is full, or may not
/// grow.
const NOT_TAKEN: &str = "ERR the filter takes no more items; if it is full, build a larger one, with more --items; if it may not grow, raise bf.cf-max-expansions or bf.bloom-memory-usage-limit there";

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

/// How a family's command adds items to a key that exists.
#[derive(Clone, Copy)]
struct Form {
    command: &'static str,
    words: Words,
}

/// What a command has after its key.
#[derive(Clone, Copy, PartialEq)]
enum Words {
    /// Words that keep the server from creating a missing key, and items. There is an answer for each item.
    Items,
    /// Items, each with a number: equal items of a block are counted before they are sent.
    Counts,
    /// Numbers.
    Values,
}

/// An item, and how often it is added.
type Part<'b> = (&'b [u8], u64);

/// The parts of a block that one command adds to a key.
#[derive(Debug, PartialEq)]
struct Batch<'b> {
    /// The index of the key's destination.
    index: usize,
    parts: &'b [Part<'b>],
    /// The positions of the items, in the order in which they are sent.
    positions: Range<u64>,
}

/// Items of a batch that were not added.
#[derive(Debug)]
struct Refusal<'b> {
    /// The index of the key's destination.
    index: usize,
    /// The first of the items in the input.
    item: &'b [u8],
    fault: Fault,
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
        let read = || RunReceipts::read(server, &names, "build", source.input, sending);
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
        // For each key, the number of items in the blocks before.
        let mut starts = vec![0; self.destinations.len()];
        let added = source.each("adding", meanwhile, |block, counts| {
            let of_keys = source.by_shard(block).into_iter();
            let of_keys: Vec<_> = of_keys.map(|items| self.form.parts(items)).collect();
            if self.form.words == Words::Values {
                require_numbers(&of_keys, |item| block.position(item))?;
            }
            let mut left = Vec::new();
            for (index, (parts, start)) in of_keys.iter().zip(&mut starts).enumerate() {
                for batch in batches(index, parts, *start) {
                    *start = batch.positions.end;
                    let receipts = self.receipts.as_ref();
                    if receipts.is_some_and(|it| it.is_done(index, batch.positions.end)) {
                        counts.items += items_in(batch.parts);
                    } else {
                        left.push(batch);
                    }
                }
            }
            self.send(block, &left, counts)?;
            if let Some(receipts) = &self.receipts {
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
        let replies = self.server.call_all(&commands).into_iter();
        let mut refusals: Vec<Refusal<'_>> = Vec::new();
        for ((batch, (key, command)), mut reply) in batches.iter().zip(&commands).zip(replies) {
            // After a refusal the run ends, and no more items are counted.
            let goes_on = refusals.is_empty();
            let has_refused = refusals.iter().any(|it| it.index == batch.index);
            if let Some(receipts) = &self.receipts
                && !has_refused
            {
                reply = receipts.settle(batch.index, reply, || self.server.call(key, command));
            }
            match self.form.new_items(batch, reply) {
                Ok(new) if goes_on => {
                    counts.new += new;
                    counts.items += items_in(batch.parts);
                    if let Some(receipts) = &self.receipts {
                        receipts.status().set_done_in_block(counts.items);
                    }
                }
                Ok(_) => {}
                Err(refusal) => refusals.push(refusal),
            }
        }
        first_in_input(refusals).map_or(Ok(()), |refusal| Err(self.failure(block, &refusal)))
    }

    /// Returns the command that adds a batch to its key.
    fn command(&self, batch: &Batch<'_>) -> Cmd {
        let Form {
            command: name,
            words,
        } = self.form;
        let mut command = if let Some(receipts) = &self.receipts {
            receipts.command(batch.index, batch.positions.clone(), name)
        } else {
            let mut command = cmd(name);
            command.arg(&self.destinations[batch.index].key);
            command
        };
        if words == Words::Items {
            command.arg("NOCREATE").arg("ITEMS");
        }
        for (item, times) in batch.parts {
            match words {
                Words::Items => command.arg(item),
                Words::Counts => command.arg(item).arg(times),
                Words::Values => command.arg(item.trim_ascii()),
            };
        }
        command
    }

    fn failure(&self, block: &Block, refusal: &Refusal<'_>) -> Failure {
        let position = block.position(refusal.item);
        let name = shown(self.destinations[refusal.index].name.as_bytes());
        let what = format!("could not add {position} to {name} at");
        limits::failure(self.server, &what, &refusal.fault, None)
    }
}

impl Form {
    const fn of(family: Family) -> Self {
        let (command, words) = match family {
            Family::Bloom => (BF_INSERT, Words::Items),
            Family::Cuckoo => ("CF.INSERTNX", Words::Items),
            Family::Cms => ("CMS.INCRBY", Words::Counts),
            Family::Topk => ("TOPK.INCRBY", Words::Counts),
            Family::Tdigest => ("TDIGEST.ADD", Words::Values),
        };
        Self { command, words }
    }

    /// Returns the parts that items of a block are sent as. The first of equal items stands for them.
    fn parts(self, mut items: Vec<&[u8]>) -> Vec<Part<'_>> {
        if self.words != Words::Counts {
            return items.into_iter().map(|item| (item, 1)).collect();
        }
        items.sort_unstable_by_key(|item| (*item, item.as_ptr()));
        let most = usize::try_from(INCREMENT_MAX).unwrap_or(usize::MAX);
        let equal = items.chunk_by(|one, other| one == other);
        let equal = equal.flat_map(|equal| equal.chunks(most));
        equal.map(|equal| (equal[0], equal.len() as u64)).collect()
    }

    /// Returns the number of new items in a batch, by the reply to its command.
    fn new_items<'b>(
        self,
        Batch { index, parts, .. }: &Batch<'b>,
        reply: Result<Value, Fault>,
    ) -> Result<u64, Refusal<'b>> {
        let unexpected = || Fault::Unusable("unexpected reply".to_owned());
        let (answers, mut fault) = match reply {
            Ok(Value::Array(answers)) if answers.len() <= parts.len() => (answers, None),
            Ok(Value::Okay) => (Vec::new(), None),
            Ok(_) => (Vec::new(), Some(unexpected())),
            Err(fault) => (Vec::new(), Some(fault)),
        };
        // Neither OK nor the script's reply to a repetition has answers.
        let lacks_answers = self.words != Words::Items && answers.is_empty() && fault.is_none();
        let mut answers = answers.into_iter();
        let mut new = 0;
        let mut refusal = None;
        for &(item, _) in *parts {
            let fault = match answers.next() {
                Some(Value::ServerError(error)) => error.into(),
                Some(Value::Int(-1)) if self.words == Words::Items => {
                    Fault::Refused(NOT_TAKEN.to_owned())
                }
                Some(answer) => {
                    new += u64::from(answer == Value::Int(1));
                    continue;
                }
                None if lacks_answers => continue,
                // The fault of the whole reply, or of one that ends early.
                None => fault.take().unwrap_or_else(unexpected),
            };
            let index = *index;
            let first = refusal.get_or_insert(Refusal { index, item, fault });
            if item.as_ptr() < first.item.as_ptr() {
                first.item = item;
            }
        }
        refusal.map_or(Ok(new), Err)
    }
}

/// Divides the parts of a block for a key into batches, of which the first begins at a position. Receipts compare positions, so a run
/// that continues divides a block as the earlier run did.
fn batches<'b>(
    index: usize,
    parts: &'b [Part<'b>],
    mut next: u64,
) -> impl Iterator<Item = Batch<'b>> {
    parts.chunks(COMMAND_ITEMS).map(move |parts| {
        let start = next;
        next += items_in(parts);
        let positions = start..next;
        Batch {
            index,
            parts,
            positions,
        }
    })
}

fn items_in(parts: &[Part<'_>]) -> u64 {
    parts.iter().map(|(_, times)| times).sum()
}

/// Returns the refusal of the item that is the first in the input, with the first fault of its key: later commands for the key
/// may have failed because that one did. Items of a block are in memory in their order.
fn first_in_input(refusals: Vec<Refusal<'_>>) -> Option<Refusal<'_>> {
    let first = refusals.iter().min_by_key(|it| it.item.as_ptr())?;
    let (index, item) = (first.index, first.item);
    let of_key = refusals.into_iter().find(|it| it.index == index)?;
    Some(Refusal { item, ..of_key })
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

fn require_numbers(
    of_keys: &[Vec<Part<'_>>],
    position: impl FnOnce(&[u8]) -> String,
) -> Result<()> {
    let mut all = of_keys.iter().flatten();
    match all.find(|(item, _)| value_to_add(item.trim_ascii()).is_err()) {
        None => Ok(()),
        Some((item, _)) => {
            let (position, item) = (position(item), shown(item));
            Err(Failure::new(format!("{position} is not a number: {item}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns parts of one item each, in the order of a block.
    fn parts(items: &[u8]) -> Vec<Part<'_>> {
        items.chunks(1).map(|item| (item, 1)).collect()
    }

    #[test]
    fn equal_items_are_sent_as_one_with_their_number() {
        let form = Form::of(Family::Cms);
        let text = b"bab";
        let [b, a] = [&text[..1], &text[1..2]];
        let found = form.parts(text.chunks(1).collect());
        assert_eq!(found, [(a, 1), (b, 2)]);
        // Its place names the line.
        assert_eq!(found[1].0.as_ptr(), b.as_ptr());
        let most = u64::from(INCREMENT_MAX);
        let many = vec![b; INCREMENT_MAX as usize + 1];
        assert_eq!(form.parts(many), [(b, most), (b, 1)]);
        let found = Form::of(Family::Tdigest).parts(text.chunks(1).collect());
        assert_eq!(found, [(b, 1), (a, 1), (b, 1)]);
    }

    #[test]
    fn batches_of_a_block_follow_each_other() {
        let items = [b'x'; 2 * COMMAND_ITEMS + 1];
        let mut parts = parts(&items);
        // It stands for several items.
        parts[0].1 = 7;
        let found: Vec<_> = batches(7, &parts, 500).collect();
        let sizes = found.iter().map(|batch| batch.parts.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [1000, 1000, 1]);
        let positions = found.iter().map(|batch| batch.positions.clone());
        let expected = [500..1506, 1506..2506, 2506..2507];
        assert_eq!(positions.collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|batch| batch.index == 7));
        assert_eq!(batches(0, &[], 500).next(), None);
    }

    /// Returns the number of new items, or the index of the item that a failure names, and the fault.
    fn new_items(
        family: Family,
        parts: &[Part<'_>],
        reply: Result<Value, Fault>,
    ) -> Result<u64, (usize, String)> {
        let batch = batches(0, parts, 0).next();
        let found = Form::of(family).new_items(&batch.expect("there are parts"), reply);
        found.map_err(|Refusal { item, fault, .. }| {
            let place = parts
                .iter()
                .position(|(part, _)| part.as_ptr() == item.as_ptr());
            (place.expect("it is a part"), fault.to_string())
        })
    }

    #[test]
    fn each_item_has_an_answer() {
        let parts = parts(b"abc");
        let answers = |numbers: &[i64]| {
            let answers = numbers.iter().map(|number| Value::Int(*number));
            Ok(Value::Array(answers.collect()))
        };
        let unexpected = |place| Err((place, "unexpected reply".to_owned()));
        for family in [Family::Bloom, Family::Cuckoo] {
            let taken = |reply| new_items(family, &parts, reply);
            assert_eq!(taken(answers(&[1, 0, 1])), Ok(2));
            assert_eq!(taken(answers(&[1, -1, -1])), Err((1, NOT_TAKEN.to_owned())));
            assert_eq!(taken(answers(&[1, 0])), unexpected(2));
            assert_eq!(taken(answers(&[1, 0, 1, 1])), unexpected(0));
            assert_eq!(taken(answers(&[])), unexpected(0));
            assert_eq!(taken(Ok(Value::Okay)), unexpected(0));
            let lost = Err(Fault::Lost("lost".to_owned()));
            assert_eq!(taken(lost), Err((0, "lost".to_owned())));
        }
        for family in [Family::Cms, Family::Topk, Family::Tdigest] {
            let taken = |reply| new_items(family, &parts, reply);
            assert!(taken(answers(&[])).is_ok(), "an earlier call added them");
            assert_eq!(taken(answers(&[7])), unexpected(1));
            assert_eq!(taken(Ok(Value::Nil)), unexpected(0));
        }
        assert_eq!(new_items(Family::Tdigest, &parts, Ok(Value::Okay)), Ok(0));
    }

    #[test]
    fn the_first_item_that_was_not_added_is_named() {
        let items = b"abcdef";
        let at = |index: usize| &items[index..=index];
        let refusal = |index, place, text: &str| Refusal {
            index,
            item: at(place),
            fault: Fault::Refused(text.to_owned()),
        };
        let first = |refusals| {
            let Refusal { index, item, fault } = first_in_input(refusals)?;
            Some((index, item, fault.to_string()))
        };
        assert_eq!(first(Vec::new()), None);
        let shards = vec![refusal(0, 1, "one"), refusal(1, 0, "other")];
        assert_eq!(first(shards), Some((1, at(0), "other".to_owned())));
        let sorted = vec![refusal(0, 4, "cause"), refusal(0, 2, "effect")];
        assert_eq!(first(sorted), Some((0, at(2), "cause".to_owned())));
        // Of a command that is refused as a whole.
        let sorted = [(at(3), 1), (at(1), 2), (at(2), 1)];
        let refused = Err(Fault::Refused("OOM".to_owned()));
        let found = new_items(Family::Topk, &sorted, refused);
        assert_eq!(found, Err((1, "OOM".to_owned())));
    }

    #[test]
    fn values_are_numbers() {
        let numbers: [Part<'_>; 3] = [(b"1", 1), (b" 2.5\t", 1), (b"-3e7", 1)];
        let position = |item: &[u8]| format!("line {}", item.len());
        require_numbers(&[numbers.to_vec()], position).expect("numbers");
        let other = [numbers.to_vec(), vec![(b"x 1", 1)]];
        let failure = require_numbers(&other, position).expect_err("no number");
        assert_eq!(failure.to_string(), "line 3 is not a number: \"x 1\"");
    }
}
