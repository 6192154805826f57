//! The items whose answers were lost with failed calls: the next call that has one of them sends their command again
//! first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use valkeybloom_protocol::batch::COMMAND_ITEMS;

use super::items::Items;

/// The most items that are remembered.
const MOST_ITEMS: usize = 100_000;

/// A position in one of the object's own receipts.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    /// The number of the receipt.
    pub receipt: u64,
    /// The first position whose answer is not known here.
    pub position: u64,
}

/// Where the answers of a failed command are.
#[derive(Debug)]
enum Answers {
    /// In a receipt, from a position on.
    InReceipt(Cursor),
    /// Here.
    Known(Vec<bool>),
}

/// A command whose answers a failed call lost.
#[derive(Debug)]
struct Debt {
    items: Arc<Items>,
    answers: Answers,
    /// The number of calls that are sending it again.
    calls: usize,
    /// The number of items that no call has sent again.
    open: usize,
}

impl Debt {
    /// Returns the place of the answers in a receipt; `None` if they are known.
    const fn cursor(&self) -> Option<Cursor> {
        match self.answers {
            Answers::InReceipt(cursor) => Some(cursor),
            Answers::Known(_) => None,
        }
    }

    /// Returns whether the item at a place was new, as far as is known.
    fn may_be_new(&self, place: usize) -> bool {
        match &self.answers {
            Answers::InReceipt(_) => true,
            Answers::Known(answers) => answers.get(place) == Some(&true),
        }
    }
}

/// What failed calls lost of an item.
#[derive(Default)]
pub struct Lost {
    /// Whether the item was new to one of them.
    pub is_new: bool,
    /// The commands to send again for the item's answers, and its places in them.
    pub places: Vec<(u64, usize)>,
}

/// The commands whose answers failed calls lost.
#[derive(Debug, Default)]
pub struct Debts {
    /// The commands by their ids, which ascend in their order.
    commands: BTreeMap<u64, Debt>,
    next_id: u64,
    /// For each item that no call has sent again, the commands that have it, and its places in them.
    places: HashMap<Box<[u8]>, Vec<(u64, usize)>>,
    /// The number of places.
    count: usize,
}

impl Debts {
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    pub fn contains(&self, id: u64) -> bool {
        self.commands.contains_key(&id)
    }

    /// Remembers a command whose answers are in a receipt.
    pub fn insert(&mut self, cursor: Cursor, items: Items) {
        self.insert_with(Answers::InReceipt(cursor), items);
    }

    /// Remembers items that were new, which no program was told. They are remembered in pieces, so that beyond the limit only the
    /// oldest are forgotten.
    pub fn insert_new(&mut self, items: &Items) {
        let count = items.len();
        for start in (0..count).step_by(COMMAND_ITEMS) {
            let places = start..count.min(start + COMMAND_ITEMS);
            let answers = vec![true; places.len()];
            if let Some(piece) = items.part(places) {
                self.insert_with(Answers::Known(answers), piece);
            }
        }
    }

    fn insert_with(&mut self, answers: Answers, items: Items) {
        let count = items.len();
        if count == 0 || self.places.try_reserve(count).is_err() {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let debt = Debt {
            items: Arc::new(items),
            answers,
            calls: 0,
            open: 0,
        };
        self.commands.insert(id, debt);
        (0..count).for_each(|place| self.note(id, place));
        // Not one that calls are sending again: each of them would remember it anew, with the same receipt.
        while self.count > MOST_ITEMS
            && let Some((oldest, _)) = self.commands.iter().find(|(_, debt)| debt.calls == 0)
        {
            self.remove(*oldest);
        }
    }

    /// Removes an item that a call sends again. `None` if no failed call had it.
    pub fn take(&mut self, item: &[u8]) -> Option<Lost> {
        if self.places.is_empty() {
            return None;
        }
        let mut lost = Lost::default();
        for (id, place) in self.places.remove(item)? {
            self.count -= 1;
            let Some(debt) = self.commands.get_mut(&id) else {
                continue;
            };
            debt.open -= 1;
            if debt.cursor().is_some() {
                lost.places.push((id, place));
            } else {
                lost.is_new = true;
                self.remove_if_paid(id);
            }
        }
        Some(lost)
    }

    /// Returns where the answers of a command are. The call that sends it again must [end that](Self::end_repeat).
    pub fn begin_repeat(&mut self, id: u64) -> Option<(Cursor, Arc<Items>)> {
        let debt = self.commands.get_mut(&id)?;
        let cursor = debt.cursor()?;
        debt.calls += 1;
        Some((cursor, debt.items.clone()))
    }

    /// Ends a call that sent a command again. `answers` are those that it got, if it got all, and `untold` the places of
    /// items whose answers its program did not get. Returns whether the receipt is free, as it is after the first such call.
    pub fn end_repeat(
        &mut self,
        id: u64,
        answers: Option<&[bool]>,
        untold: impl Iterator<Item = usize>,
    ) -> bool {
        let Some(debt) = self.commands.get_mut(&id) else {
            return false;
        };
        debt.calls -= 1;
        let answers = answers.filter(|_| debt.cursor().is_some());
        if let Some(answers) = answers {
            debt.answers = Answers::Known(answers.to_vec());
        }
        let places = 0..debt.items.len();
        let may_be_new: Vec<bool> = places.map(|place| debt.may_be_new(place)).collect();
        for (place, may_be_new) in may_be_new.iter().enumerate() {
            if !may_be_new {
                self.forget(id, place);
            }
        }
        for place in untold.filter(|place| may_be_new[*place]) {
            self.note(id, place);
        }
        self.remove_if_paid(id);
        answers.is_some()
    }

    /// Notes that no call has sent an item again.
    fn note(&mut self, id: u64, place: usize) {
        let Some(debt) = self.commands.get_mut(&id) else {
            return;
        };
        let places = self.places.entry(debt.items.get(place).into()).or_default();
        // Only the first of equal items can be new.
        if places.iter().all(|(of, _)| *of != id) {
            places.push((id, place));
            debt.open += 1;
            self.count += 1;
        }
    }

    /// Removes an item that needs no answer of this command.
    fn forget(&mut self, id: u64, place: usize) {
        let Some(debt) = self.commands.get_mut(&id) else {
            return;
        };
        let item = debt.items.get(place);
        if let Some(places) = self.places.get_mut(item) {
            let before = places.len();
            places.retain(|of| *of != (id, place));
            debt.open -= before - places.len();
            self.count -= before - places.len();
            if places.is_empty() {
                self.places.remove(item);
            }
        }
    }

    /// Removes a command with all of its items.
    pub fn remove(&mut self, id: u64) {
        let count = self.commands.get(&id).map_or(0, |debt| debt.items.len());
        (0..count).for_each(|place| self.forget(id, place));
        self.commands.remove(&id);
    }

    /// Removes the commands whose answers are in receipts, which are not read any more.
    pub fn drop_receipts(&mut self) {
        let in_receipts = self
            .commands
            .iter()
            .filter(|(_, debt)| debt.cursor().is_some());
        let ids: Vec<u64> = in_receipts.map(|(id, _)| *id).collect();
        for id in ids {
            self.remove(id);
        }
    }

    fn remove_if_paid(&mut self, id: u64) {
        let is_paid = |debt: &Debt| debt.open == 0 && debt.calls == 0;
        if self.commands.get(&id).is_some_and(is_paid) {
            self.commands.remove(&id);
        }
    }
}
