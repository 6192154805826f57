//! The items of a block as a family's commands add them to keys.

use std::ops::Range;

use redis::Cmd;

use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_protocol::tdigest::value_to_add;
use valkeybloom_sketches::topk::INCREMENT_MAX;

use crate::failure::{Failure, Result, shown};
use crate::family::Family;
use crate::server::COMMAND_ITEMS;

/// How a family's command adds items to a key that exists.
#[derive(Clone, Copy)]
pub struct Form {
    pub command: &'static str,
    pub words: Words,
}

/// What a command has after its key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Words {
    /// Words that keep the server from creating a missing key, and items. There is an answer for each item.
    Items,
    /// Items, each with a number: equal items of a block are counted before they are sent.
    Counts,
    /// Numbers.
    Values,
}

/// An item, and how often it is added.
pub type Part<'b> = (&'b [u8], u64);

/// The parts of a block that one command adds to a key.
#[derive(Debug, PartialEq)]
pub struct Batch<'b> {
    /// The index of the key.
    pub index: usize,
    pub parts: &'b [Part<'b>],
    /// The positions of the items in the order of sending.
    pub positions: Range<u64>,
}

/// The position of each key's next item among the items of the key. Receipts compare positions, so a run that continues divides
/// a block as the earlier run did.
pub struct Positions(Vec<u64>);

impl Form {
    pub const fn of(family: Family) -> Self {
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
    pub fn parts(self, mut items: Vec<&[u8]>) -> Vec<Part<'_>> {
        if self.words != Words::Counts {
            return items.into_iter().map(|item| (item, 1)).collect();
        }
        items.sort_unstable_by_key(|item| (*item, item.as_ptr()));
        let most = usize::try_from(INCREMENT_MAX).unwrap_or(usize::MAX);
        let equal = items.chunk_by(|one, other| one == other);
        let equal = equal.flat_map(|equal| equal.chunks(most));
        equal.map(|equal| (equal[0], equal.len() as u64)).collect()
    }

    /// Requires that the items can be added: that they are numbers, if the command takes numbers.
    ///
    /// # Errors
    /// Names the position of the first item that is not a number.
    pub fn check(
        self,
        of_keys: &[Vec<Part<'_>>],
        position: impl FnOnce(&[u8]) -> String,
    ) -> Result<()> {
        let mut all = of_keys.iter().flatten();
        let is_invalid = |item: &[u8]| value_to_add(item.trim_ascii()).is_err();
        match all.find(|(item, _)| self.words == Words::Values && is_invalid(item)) {
            None => Ok(()),
            Some((item, _)) => {
                let (position, item) = (position(item), shown(item));
                Err(Failure::new(format!("{position} is not a number: {item}")))
            }
        }
    }

    /// Adds the words after its key to a command.
    pub fn write(self, parts: &[Part<'_>], command: &mut Cmd) {
        if self.words == Words::Items {
            command.arg("NOCREATE").arg("ITEMS");
        }
        for (item, times) in parts {
            match self.words {
                Words::Items => command.arg(item),
                Words::Counts => command.arg(item).arg(times),
                Words::Values => command.arg(item.trim_ascii()),
            };
        }
    }
}

impl Batch<'_> {
    /// Returns the number of items: a part may stand for several.
    pub const fn items(&self) -> u64 {
        self.positions.end - self.positions.start
    }
}

impl Positions {
    /// Begins with the first item of each of this number of keys.
    pub fn new(keys: usize) -> Self {
        Self(vec![0; keys])
    }

    /// Divides the parts of a block for each key into batches, and moves the positions after them.
    pub fn divide<'b>(&mut self, of_keys: &'b [Vec<Part<'b>>]) -> Vec<Batch<'b>> {
        let mut batches = Vec::new();
        for (index, (parts, next)) in of_keys.iter().zip(&mut self.0).enumerate() {
            for parts in parts.chunks(COMMAND_ITEMS) {
                let start = *next;
                *next += parts.iter().map(|(_, times)| times).sum::<u64>();
                let positions = start..*next;
                batches.push(Batch {
                    index,
                    parts,
                    positions,
                });
            }
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use redis::{Arg, cmd};

    use super::*;

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
    fn each_family_has_its_words() {
        let parts: [Part<'_>; 2] = [(b" 1", 1), (b"2", 3)];
        for (family, expected) in [
            (Family::Bloom, &["NOCREATE", "ITEMS", " 1", "2"][..]),
            (Family::Cuckoo, &["NOCREATE", "ITEMS", " 1", "2"]),
            (Family::Cms, &[" 1", "1", "2", "3"]),
            (Family::Topk, &[" 1", "1", "2", "3"]),
            (Family::Tdigest, &["1", "2"]),
        ] {
            let mut command = cmd("X");
            Form::of(family).write(&parts, &mut command);
            let expected = expected.iter().map(|word| Arg::Simple(word.as_bytes()));
            assert!(command.args_iter().skip(1).eq(expected), "{command:?}");
        }
    }

    #[test]
    fn values_are_numbers() {
        let numbers: [Part<'_>; 3] = [(b"1", 1), (b" 2.5\t", 1), (b"-3e7", 1)];
        let other = [numbers.to_vec(), vec![(b"x 1", 1)]];
        let position = |item: &[u8]| format!("line {}", item.len());
        let form = Form::of(Family::Tdigest);
        form.check(&other[..1], position).expect("numbers");
        let failure = form.check(&other, position).expect_err("no number");
        assert_eq!(failure.to_string(), "line 3 is not a number: \"x 1\"");
        let items = Form::of(Family::Cms).check(&other, position);
        items.expect("they may be anything");
    }

    #[test]
    fn batches_of_a_key_follow_each_other() {
        let mut positions = Positions::new(3);
        let items = |count| vec![(&b"x"[..], 1); count];
        // Its first part stands for several items.
        let long = [vec![(&b"y"[..], 7)], items(2 * COMMAND_ITEMS)].concat();
        for (of_keys, expected) in [
            (
                [items(1), Vec::new(), long],
                &[
                    (0, 1, 0..1),
                    (2, 1000, 0..1006),
                    (2, 1000, 1006..2006),
                    (2, 1, 2006..2007),
                ][..],
            ),
            (
                [items(1000), items(2), items(1)],
                &[(0, 1000, 1..1001), (1, 2, 0..2), (2, 1, 2007..2008)],
            ),
        ] {
            let batches = positions.divide(&of_keys).into_iter();
            let found = batches.map(|batch| (batch.index, batch.parts.len(), batch.positions));
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
