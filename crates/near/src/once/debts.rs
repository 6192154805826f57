//! The debts of failed calls: commands whose answers no program got, and new items that no program was told.
//!
//! The life of a debt:
//!
//! 1. *Owed.* A call failed without all answers to its last command, which the server keeps in a receipt
//!    ([`Debts::insert`]). Or it had answers, and could not deliver them ([`Debts::insert_new`]). All items are *open*.
//! 2. *Repeated.* A later call has an open item, and [takes](Debts::take) it. If the answer is in a receipt, the call gets
//!    a [`Repeat`], and sends the whole command again. Other calls may do so at the same time, for other items.
//! 3. *Answered.* The first call that gets all answers [shares](Debts::answer) them, and the receipt is free. Items that
//!    were not new are closed. New ones stay open until a call takes them, which then needs no command.
//! 4. *Forgotten.* No item is open, and no call is sending the command. A debt also ends if its answers are
//!    [gone](Debts::abandon), or if there are too many items and it is the oldest that no call is sending.
//!
//! These invariants hold after each method, except between [`Debts::take`] and the repetitions that it leads to. `check`
//! asserts them in debug builds:
//!
//! - A debt has open items, or calls that are sending it: `open + calls > 0`.
//! - `by_item` has the open items of all debts, and `open` is their number in one. Each may be new. Of equal items of a
//!   command only the first is open, because no other can be new.
//! - `kept` is the number of all items of all debts, because a command is kept as a whole: at most [`MOST_ITEMS`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use valkeybloom_protocol::batch::COMMAND_ITEMS;

use super::items::Items;

/// The most items that are kept. They may have any length.
const MOST_ITEMS: usize = 100_000;

/// A position in one of the object's own receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the receipt.
    pub receipt: u64,
    /// The first position whose answer is not known here.
    pub position: u64,
}

impl Cursor {
    /// Returns the cursor after a number of answers.
    pub const fn after(self, answers: usize) -> Self {
        Self {
            position: self.position.saturating_add(answers as u64),
            ..self
        }
    }
}

/// Where the answers of a debt are.
#[derive(Debug)]
enum Answers {
    /// In a receipt, from a position on.
    InReceipt(Cursor),
    /// Here, for the first items. The others were not added, or their answers are gone.
    Known(Vec<bool>),
}

/// A command, or a list of new items, whose answers no program got.
#[derive(Debug)]
struct Debt {
    items: Arc<Items>,
    answers: Answers,
    /// The number of calls that are sending it again.
    calls: usize,
    /// The number of open items.
    open: usize,
}

impl Debt {
    /// Returns the place of the answers in a receipt; `None` if they are not there.
    const fn cursor(&self) -> Option<Cursor> {
        match self.answers {
            Answers::InReceipt(cursor) => Some(cursor),
            Answers::Known(_) => None,
        }
    }

    /// Returns whether an item was new, as far as is known.
    fn may_be_new(&self, index: usize) -> bool {
        match &self.answers {
            Answers::InReceipt(_) => true,
            Answers::Known(answers) => answers.get(index) == Some(&true),
        }
    }
}

/// An item of a debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The debt's id.
    pub id: u64,
    /// The item's index in the debt.
    pub index: usize,
}

/// What failed calls lost of an item.
#[derive(Debug, Default)]
pub struct Lost {
    /// Whether the item was new to one of them.
    pub is_new: bool,
    /// The item's places in the commands that have to be sent again for its answers.
    pub places: Vec<Place>,
}

/// A command that a call sends again. The debt stays until the call [ends](Debts::end_repeat) it.
#[derive(Debug)]
#[must_use]
pub struct Repeat {
    id: u64,
    /// Where the answers are in a receipt.
    pub cursor: Cursor,
    pub items: Arc<Items>,
}

impl Repeat {
    /// Returns the debt's id.
    pub const fn id(&self) -> u64 {
        self.id
    }
}

/// The debts of all failed calls.
#[derive(Debug, Default)]
pub struct Debts {
    /// The debts by their ids, from the oldest on.
    by_id: BTreeMap<u64, Debt>,
    next_id: u64,
    /// The places of each open item.
    by_item: HashMap<Box<[u8]>, Vec<Place>>,
    /// The number of items of all debts.
    kept: usize,
}

impl Debts {
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Inserts a command whose answers are in a receipt.
    pub fn insert(&mut self, cursor: Cursor, items: Items) {
        self.insert_with(Answers::InReceipt(cursor), items);
    }

    /// Inserts items that were new, which no program was told. A long list becomes several debts, so that only its oldest
    /// items are dropped.
    pub fn insert_new(&mut self, items: &Items) {
        let count = items.len();
        for start in (0..count).step_by(COMMAND_ITEMS) {
            let piece = start..count.min(start + COMMAND_ITEMS);
            let answers = Answers::Known(vec![true; piece.len()]);
            if let Some(piece) = items.part(piece) {
                self.insert_with(answers, piece);
            }
        }
    }

    fn insert_with(&mut self, answers: Answers, items: Items) {
        let count = items.len();
        if count == 0 || self.by_item.try_reserve(count).is_err() {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.kept += count;
        let debt = Debt {
            items: Arc::new(items),
            answers,
            calls: 0,
            open: 0,
        };
        self.by_id.insert(id, debt);
        self.open(id, 0..count);
        // Debts that calls are sending again stay, even if only the new one is left to drop.
        while self.kept > MOST_ITEMS
            && let Some((oldest, _)) = self.by_id.iter().find(|(_, debt)| debt.calls == 0)
        {
            self.settle(*oldest, Vec::new());
        }
        self.check();
    }

    /// Closes an item that a call adds again. The call has to [repeat](Self::begin_repeat) the commands in the result.
    /// `None` if no failed call had the item.
    pub fn take(&mut self, item: &[u8]) -> Option<Lost> {
        if self.by_item.is_empty() {
            return None;
        }
        let mut lost = Lost::default();
        for place in self.by_item.remove(item)? {
            let Some(debt) = self.by_id.get_mut(&place.id) else {
                continue;
            };
            debt.open -= 1;
            if debt.cursor().is_some() {
                lost.places.push(place);
            } else {
                lost.is_new = true;
                self.remove_if_paid(place.id);
            }
        }
        Some(lost)
    }

    /// Begins to send a command again, for the items that a call [took](Self::take). A call does so once for each command.
    pub fn begin_repeat(&mut self, id: u64) -> Option<Repeat> {
        let debt = self.by_id.get_mut(&id)?;
        let cursor = debt.cursor()?;
        debt.calls += 1;
        let items = debt.items.clone();
        Some(Repeat { id, cursor, items })
    }

    /// Shares the answers that a call got: to all items, or to those before an item that the server refused. Returns the
    /// end of the receipt if other calls may use it from now on.
    pub fn answer(&mut self, repeat: &Repeat, answers: Vec<bool>) -> Option<Cursor> {
        let debt = self.by_id.get(&repeat.id)?;
        let is_partial = answers.len() < debt.items.len();
        let free = match &debt.answers {
            // The commands of other calls may still add the refused item at this position.
            Answers::InReceipt(_) if is_partial && debt.calls > 1 => return None,
            // So may a command of a call that has ended, if it comes late.
            Answers::InReceipt(_) if is_partial => None,
            Answers::InReceipt(cursor) => Some(cursor.after(answers.len())),
            Answers::Known(known) if known.len() >= answers.len() => return None,
            Answers::Known(_) => None,
        };
        self.settle(repeat.id, answers);
        free
    }

    /// Notes that the server has no answers to a command any more. Answers that another call got stay.
    pub fn abandon(&mut self, repeat: &Repeat) {
        let debt = self.by_id.get(&repeat.id);
        if debt.is_some_and(|debt| debt.cursor().is_some()) {
            self.settle(repeat.id, Vec::new());
        }
    }

    /// Ends a repetition. `untold` has the indices of the items that the call took without its program getting the answers.
    /// They are open again if they may be new.
    #[expect(clippy::needless_pass_by_value, reason = "a repetition ends once")]
    pub fn end_repeat(&mut self, repeat: Repeat, untold: impl IntoIterator<Item = usize>) {
        if let Some(debt) = self.by_id.get_mut(&repeat.id) {
            debt.calls -= 1;
        }
        self.open(repeat.id, untold);
        self.remove_if_paid(repeat.id);
        self.check();
    }

    /// Notes that no receipt is read any more.
    pub fn drop_receipts(&mut self) {
        let debts = self.by_id.iter();
        let in_receipts = debts.filter(|(_, debt)| debt.cursor().is_some());
        let ids: Vec<u64> = in_receipts.map(|(id, _)| *id).collect();
        for id in ids {
            self.settle(id, Vec::new());
        }
        self.check();
    }

    /// Opens the items of a debt that may be new.
    fn open(&mut self, id: u64, indices: impl IntoIterator<Item = usize>) {
        let Some(debt) = self.by_id.get_mut(&id) else {
            return;
        };
        for index in indices {
            if debt.may_be_new(index) {
                let item = debt.items.get(index).into();
                let places = self.by_item.entry(item).or_default();
                if places.iter().all(|place| place.id != id) {
                    places.push(Place { id, index });
                    debt.open += 1;
                }
            }
        }
    }

    /// Sets the answers of a debt: none if they are gone. Closes the items that can't be new.
    fn settle(&mut self, id: u64, answers: Vec<bool>) {
        let Some(debt) = self.by_id.get_mut(&id) else {
            return;
        };
        debt.answers = Answers::Known(answers);
        for index in 0..debt.items.len() {
            let item = debt.items.get(index);
            if !debt.may_be_new(index)
                && let Some(places) = self.by_item.get_mut(item)
                && let Some(at) = places.iter().position(|of| *of == Place { id, index })
            {
                places.remove(at);
                if places.is_empty() {
                    self.by_item.remove(item);
                }
                debt.open -= 1;
            }
        }
        self.remove_if_paid(id);
    }

    /// Removes a debt that has neither open items nor calls.
    fn remove_if_paid(&mut self, id: u64) {
        if let Some(debt) = self.by_id.get(&id)
            && debt.open + debt.calls == 0
        {
            self.kept -= debt.items.len();
            self.by_id.remove(&id);
        }
    }

    /// Asserts the invariants. This reads all items, so `take` does not do it, which is called for each item.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut open = HashMap::new();
        for (item, places) in &self.by_item {
            assert!(!places.is_empty(), "an item without places");
            for Place { id, index } in places {
                let debt = &self.by_id[id];
                assert_eq!(debt.items.get(*index), &**item);
                assert!(debt.may_be_new(*index), "an open item that is not new");
                *open.entry(id).or_insert(0) += 1;
            }
        }
        for (id, debt) in &self.by_id {
            assert_eq!(open.get(id).copied().unwrap_or_default(), debt.open);
            assert!(debt.open + debt.calls > 0, "a debt that is paid");
        }
        let kept: usize = self.by_id.values().map(|debt| debt.items.len()).sum();
        assert_eq!(kept, self.kept);
        assert!(kept <= MOST_ITEMS, "too many items");
    }
}

#[cfg(test)]
mod tests;
