//! Additions whose answers the server can repeat: which commands are sent, and what their replies mean.
//!
//! A [`Once`] names the receipts, and an [`Addition`] is one call of the program's. A driver sends the next command,
//! passes on its reply or refusal, and returns the addition at its end, whatever became of it.
//!
//! A consumer has one receipt, and states the position of each call. All others get receipts from the object: one for each
//! call in flight, which later calls use again, and begin anew if the server has lost it. If such a call ends without all
//! answers, its items are *debts*: the next call that has one of them sends their command again first. So a program that
//! repeats a failed call gets the answers that the call lost, while the server keeps the receipt.

mod addition;
mod debts;
mod items;

use std::collections::TryReserveError;

use valkeybloom_sketches::Receipt;

pub use crate::tag::receipt_prefix;
pub use addition::{Adding, Addition, Command, LACKING, Refusal, is_lacking};
pub use items::Items;

use addition::{Fate, Form, Part};
use debts::{Cursor, Debts};

/// Whose receipts are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipts<'a> {
    /// The receipt of this consumer, which begins at a position.
    Consumer(&'a [u8], u64),
    /// Receipts of the object's own. The number is random.
    Own(u128),
    /// None: an answer is lost with its reply.
    Off,
}

/// Additions to one filter.
#[derive(Debug)]
pub struct Once {
    form: Form,
    /// The number of own receipts so far.
    made: u64,
    /// Own receipts that no call uses. The last was used last.
    free: Vec<Cursor>,
    debts: Debts,
}

impl Once {
    /// Makes an object for the filter at a key.
    pub fn new(key: &[u8], receipts: Receipts<'_>, adding: Adding) -> Self {
        let mut name = receipt_prefix(key);
        let mut begin = None;
        match receipts {
            Receipts::Consumer(consumer, from) => {
                name.extend_from_slice(consumer);
                begin = Some(from);
            }
            Receipts::Own(random) => name.extend(format!("own-{random:032x}-").bytes()),
            Receipts::Off => {}
        }
        Self {
            form: Form {
                name: name.into(),
                begin,
                adding,
                without_receipts: receipts == Receipts::Off,
            },
            made: 0,
            free: Vec::new(),
            debts: Debts::default(),
        }
    }

    /// Returns whether the answers are kept in receipts.
    pub fn has_receipts(&self) -> bool {
        !self.form.without_receipts
    }

    /// Returns whether answers of failed calls are missing.
    pub fn has_debts(&self) -> bool {
        !self.debts.is_empty()
    }

    /// Returns the words of the command that reads where a consumer's receipt ends; `None` without a consumer. Its reply is
    /// passed to [`position_in`](Self::position_in).
    pub fn position_words(&self) -> Option<[Vec<u8>; 4]> {
        let name = self.form.begin.map(|_| self.form.name.to_vec())?;
        // The last byte of the head is a line feed.
        let end = (Receipt::HEAD_BYTES - 2).to_string().into_bytes();
        Some([b"GETRANGE".to_vec(), name, b"0".to_vec(), end])
    }

    /// Returns the first position without an answer, which is where the consumer begins if there is no receipt. `None` if the
    /// bytes are not a receipt's.
    pub fn position_in(&self, head: &[u8]) -> Option<u64> {
        if head.is_empty() {
            return self.form.begin;
        }
        Receipt::end_in(head)
    }

    /// Begins a call without items. `at` is the position of a consumer's first item, and 0 without a consumer.
    pub fn begin(&mut self, at: u64) -> Addition {
        let cursor = self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            Cursor {
                receipt: self.made,
                position: at,
            }
        });
        Addition::new(self.form.clone(), cursor)
    }

    /// Appends an item to a call. One that a copy of the filter claims is not new, unless a failed call added it.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn push(
        &mut self,
        to: &mut Addition,
        item: &[u8],
        is_claimed: bool,
    ) -> Result<(), TryReserveError> {
        let index = to.push()?;
        let Some(lost) = self.debts.take(item) else {
            return to.push_own(index, item, is_claimed);
        };
        if lost.is_new {
            to.settle(index, item);
        }
        for place in lost.places {
            to.repeat(place, index, || self.debts.begin_repeat(place.id));
        }
        Ok(())
    }

    /// Ends a call. `is_delivered` says whether the program gets the answers that are known.
    pub fn end(&mut self, addition: Addition, is_delivered: bool) {
        if addition.is_answered_without_receipts && !self.form.without_receipts {
            self.form.without_receipts = true;
            self.debts.drop_receipts();
        }
        if self.form.begin.is_some() {
            return;
        }
        let Addition { repeated, own, .. } = addition;
        for part in repeated {
            self.end_repeat(part, is_delivered);
        }
        if !is_delivered {
            let mut untold = addition.settled;
            // Without memory, the answers are lost.
            let _ = own.new_items().try_for_each(|item| untold.push(item));
            self.debts.insert_new(&untold);
        }
        let has_receipt = !addition.form.without_receipts && !self.form.without_receipts;
        match own.fate {
            Fate::Known => self.free.push(own.cursor),
            // Last, because beyond the bound the oldest are forgotten.
            Fate::Open if has_receipt => {
                if let Some(items) = own.items.part(own.unanswered()) {
                    self.debts.insert(own.cursor, items);
                }
            }
            Fate::Open | Fate::Abandoned => {}
        }
    }

    /// Ends the part of a call that sent a failed command again.
    fn end_repeat(&mut self, mut part: Part, is_delivered: bool) {
        let told = if is_delivered { part.answers.len() } else { 0 };
        let untold: Vec<usize> = part.awaited().filter(|index| *index >= told).collect();
        let Some(repeat) = part.repeat.take() else {
            return;
        };
        match part.fate {
            Fate::Known => self.free.extend(self.debts.answer(&repeat, part.answers)),
            Fate::Abandoned => self.debts.abandon(&repeat),
            Fate::Open => {}
        }
        self.debts.end_repeat(repeat, untold);
    }
}
