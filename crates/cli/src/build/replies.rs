//! What the replies to the commands of a block say: how many items are done, or which item was not added, and why.

use redis::Value;

use super::batches::{Batch, Words};
use super::source::Counts;
use crate::failure::{Fault, Result};
use crate::receipts::RunReceipts;

/// The reason for an item that a cuckoo filter did not take. The server does not report whether the filter is full, or may not
/// grow.
const NOT_TAKEN: &str = "ERR the filter takes no more items; if it is full, build a larger one, with more --items; if it may not grow, raise bf.cf-max-expansions or bf.bloom-memory-usage-limit there";

/// Items that were not added.
#[derive(Debug)]
pub struct Refusal<'b> {
    /// The index of the key.
    pub index: usize,
    /// The first of the items in the input.
    pub item: &'b [u8],
    pub fault: Fault,
}

/// The replies to the commands of a block, which are taken in the order of the commands.
pub struct Replies<'r, 'b> {
    words: Words,
    receipts: Option<&'r RunReceipts>,
    counts: &'r mut Counts,
    refusals: Vec<Refusal<'b>>,
}

impl<'r, 'b> Replies<'r, 'b> {
    pub const fn new(
        words: Words,
        receipts: Option<&'r RunReceipts>,
        counts: &'r mut Counts,
    ) -> Self {
        let refusals = Vec::new();
        Self {
            words,
            receipts,
            counts,
            refusals,
        }
    }

    /// Takes the reply to the command of a batch, which `again` calls once more if it came too early.
    pub fn take(
        &mut self,
        batch: &Batch<'b>,
        mut reply: Result<Value, Fault>,
        again: impl FnOnce() -> Result<Value, Fault>,
    ) {
        // After a refusal, the later commands for the key fail because their items do not follow those of the receipt.
        let has_refused = self.refusals.iter().any(|it| it.index == batch.index);
        if let Some(receipts) = self.receipts
            && !has_refused
        {
            reply = receipts.settle(batch.index, reply, again);
        }
        match new_items(self.words, batch, reply) {
            Ok(new) if self.refusals.is_empty() => {
                self.counts.new += new;
                self.counts.items += batch.items();
                if let Some(receipts) = self.receipts {
                    receipts.status().set_done_in_block(self.counts.items);
                }
            }
            // The run ends, and no more items are counted.
            Ok(_) => {}
            Err(refusal) => self.refusals.push(refusal),
        }
    }

    /// Ends the block.
    ///
    /// # Errors
    /// Names the refused item that is the first in the input, whichever command had it, with the first fault of its key: later
    /// commands for the key may have failed because that one did.
    pub fn end(mut self) -> Result<(), Refusal<'b>> {
        let first = self.refusals.iter().min_by_key(|it| it.item.as_ptr());
        let Some(&Refusal { index, item, .. }) = first else {
            return Ok(());
        };
        self.refusals.retain(|it| it.index == index);
        let of_key = self.refusals.swap_remove(0);
        Err(Refusal { item, ..of_key })
    }
}

/// Returns the number of new items in a batch, by the reply to its command.
fn new_items<'b>(
    words: Words,
    batch: &Batch<'b>,
    reply: Result<Value, Fault>,
) -> Result<u64, Refusal<'b>> {
    let (answers, mut first_fault) = match reply {
        Ok(Value::Array(answers)) if answers.len() <= batch.parts.len() => (answers, None),
        Ok(Value::Okay) => (Vec::new(), None),
        Ok(_) => (Vec::new(), Some(unexpected())),
        Err(fault) => (Vec::new(), Some(fault)),
    };
    // Neither OK nor the script's reply to a repetition has answers.
    if words != Words::Items && answers.is_empty() && first_fault.is_none() {
        return Ok(0);
    }
    let mut answers = answers.into_iter();
    let mut new = 0;
    let mut refused = Vec::new();
    for (item, _) in batch.parts {
        match is_new(words, answers.next()) {
            Ok(is_new) => new += u64::from(is_new),
            Err(fault) => {
                first_fault.get_or_insert(fault);
                refused.push(*item);
            }
        }
    }
    let index = batch.index;
    // Items of a block are in memory in their order.
    let first_item = refused.into_iter().min_by_key(|item| item.as_ptr());
    match first_item.zip(first_fault) {
        Some((item, fault)) => Err(Refusal { index, item, fault }),
        None => Ok(new),
    }
}

/// Returns whether the answer to an item says that it is new. Only filters say so.
///
/// # Errors
/// The item was not added, or has no answer.
fn is_new(words: Words, answer: Option<Value>) -> Result<bool, Fault> {
    match answer {
        Some(Value::ServerError(error)) => Err(error.into()),
        Some(Value::Int(-1)) if words == Words::Items => Err(Fault::Refused(NOT_TAKEN.to_owned())),
        Some(answer) => Ok(words == Words::Items && answer == Value::Int(1)),
        None => Err(unexpected()),
    }
}

fn unexpected() -> Fault {
    Fault::Unusable("unexpected reply".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::batches::Part;
    use super::*;
    use crate::failure::Failure;
    use crate::receipts::Sending;

    static ITEMS: &[u8] = b"abcdef";

    /// Returns parts of one item each, at these places of a block.
    fn parts(places: &[usize]) -> Vec<Part<'static>> {
        let parts = places.iter().map(|place| (&ITEMS[*place..=*place], 1));
        parts.collect()
    }

    const fn batch<'b>(index: usize, parts: &'b [Part<'b>]) -> Batch<'b> {
        Batch {
            index,
            parts,
            positions: 0..parts.len() as u64,
        }
    }

    /// What a server replies with: answers to items, or an error.
    type Answers<'a> = Result<&'a [i64], &'a str>;

    fn reply(answers: Answers<'_>) -> Result<Value, Fault> {
        let answers = answers.map(|answers| answers.iter().map(|it| Value::Int(*it)).collect());
        let fault = |text: &str| Fault::Refused(text.to_owned());
        answers.map(Value::Array).map_err(fault)
    }

    fn place(item: &[u8]) -> usize {
        item.as_ptr().addr() - ITEMS.as_ptr().addr()
    }

    #[test]
    fn each_item_has_an_answer() {
        use Words::{Counts, Items, Values};
        let parts = parts(&[0, 1, 2]);
        let new = |words, reply| {
            let new = new_items(words, &batch(0, &parts), reply);
            new.map_err(|it| (place(it.item), it.fault.to_string()))
        };
        let refused = |place, fault: &str| Err((place, fault.to_owned()));
        let unexpected = |place| refused(place, "unexpected reply");
        for (words, answers, expected) in [
            (Items, Ok(&[1, 0, 1][..]), Ok(2)),
            (Items, Ok(&[1, -1, -1]), refused(1, NOT_TAKEN)),
            (Items, Ok(&[1, 0]), unexpected(2)),
            (Items, Ok(&[1, 0, 1, 1]), unexpected(0)),
            (Items, Ok(&[]), unexpected(0)),
            (Items, Err("OOM"), refused(0, "OOM")),
            // An earlier call added them.
            (Counts, Ok(&[]), Ok(0)),
            (Values, Ok(&[]), Ok(0)),
            // The sums after the additions.
            (Counts, Ok(&[1, 7, -1]), Ok(0)),
            (Counts, Ok(&[7]), unexpected(1)),
        ] {
            assert_eq!(
                new(words, reply(answers)),
                expected,
                "{words:?} {answers:?}"
            );
        }
        assert_eq!(new(Values, Ok(Value::Okay)), Ok(0));
        assert_eq!(new(Items, Ok(Value::Okay)), unexpected(0));
        assert_eq!(new(Values, Ok(Value::Nil)), unexpected(0));
    }

    /// Takes replies to commands for keys, with items at these places in the input. Returns the key, the place and the fault that
    /// are named, and how many items are counted.
    fn taken(replies: &[(usize, &[usize], Answers<'_>)]) -> (Option<(usize, usize, String)>, u64) {
        let parts: Vec<_> = replies.iter().map(|(_, places, _)| parts(places)).collect();
        let mut counts = Counts::default();
        let mut taken = Replies::new(Words::Items, None, &mut counts);
        for ((index, _, answers), parts) in replies.iter().zip(&parts) {
            let again = || unreachable!("there is no receipt");
            taken.take(&batch(*index, parts), reply(*answers), again);
        }
        let refusal = taken.end().err();
        let named = refusal.map(|it| (it.index, place(it.item), it.fault.to_string()));
        (named, counts.items)
    }

    #[test]
    fn the_first_item_that_was_not_added_is_named() {
        let named = |index, place, fault: &str| Some((index, place, fault.to_owned()));
        let all = [(0, &[0, 1][..], Ok(&[1, 1][..])), (0, &[2], Ok(&[1]))];
        assert_eq!(taken(&all), (None, 3));
        // Nothing after a refusal is counted.
        let shards = [
            (0, &[0][..], Ok(&[1][..])),
            (0, &[2], Err("one")),
            (1, &[1], Err("other")),
            (2, &[3], Ok(&[1])),
        ];
        assert_eq!(taken(&shards), (named(1, 1, "other"), 1));
        // Counted items are sorted, so that a later command may have an earlier one.
        let sorted = [(0, &[4, 3, 5][..], Err("cause")), (0, &[2], Err("effect"))];
        assert_eq!(taken(&sorted), (named(0, 2, "cause"), 0));
    }

    #[test]
    fn a_receipt_notes_the_replies_for_its_key_until_a_refusal() {
        let both: Answers<'_> = Ok(&[1, 0]);
        let early = Err("FORGOTTEN answers are known from 0 to 0");
        for (first, second, calls, done) in [
            (both, Ok(&[1][..]), 0, "; the first 3 items are done; "),
            (both, Err("OOM"), 0, "; the first 2 items are done; "),
            // The second command came before the first one, and is called again.
            (both, early, 1, "; the first 3 items are done; "),
            // It is refused because the first one was, and would be refused again.
            (Err("OOM"), early, 0, ""),
        ] {
            let receipts = RunReceipts::new(&[b"k".to_vec()], "build", None, Sending::InOrder);
            let mut counts = Counts::default();
            let mut taken = Replies::new(Words::Items, Some(&receipts), &mut counts);
            let (one, other) = (parts(&[0, 1]), parts(&[2]));
            let mut called = 0;
            for (parts, answers) in [(&one, first), (&other, second)] {
                taken.take(&batch(0, parts), reply(answers), || {
                    called += 1;
                    reply(Ok(&[1]))
                });
            }
            let failure = receipts.status().explain(Failure::new("")).to_string();
            assert_eq!(called, calls);
            assert!(failure.starts_with(done), "{failure}");
            assert_eq!(failure.is_empty(), done.is_empty(), "{failure}");
        }
    }
}
