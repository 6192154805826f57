//! The items whose answers failed calls did not get: the next call that has one of them asks its receipt first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::items::Items;

/// The most items of failed calls that are remembered.
const MOST_DEBTS: usize = 100_000;

/// A place in a receipt.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The number of an own receipt.
    pub number: u64,
    /// The first position whose answer is not known here.
    pub position: u64,
    /// When the receipt was used last.
    pub used: Duration,
}

/// The items whose answers failed calls did not get.
#[derive(Debug, Default)]
pub struct Debts {
    /// The failed commands, in their order.
    pub failed: BTreeMap<u64, Debt>,
    next_id: u64,
    /// For each item, the commands that have it, and its places in them.
    pub places: HashMap<Box<[u8]>, Vec<(u64, usize)>>,
    /// The number of places.
    pub count: usize,
}

/// A command whose answers were not told.
#[derive(Debug)]
pub struct Debt {
    pub line: Line,
    pub items: Arc<Items>,
    /// The answers, once they are known. Then only new items have places.
    pub answers: Option<Vec<bool>>,
    /// The number of calls that are asking for them.
    pub calls: usize,
    /// The number of items that nobody has asked for.
    pub left: usize,
}

impl Debts {
    pub fn insert(&mut self, line: Line, items: Items, answers: Option<Vec<bool>>) {
        let count = items.len();
        if count == 0 || self.places.try_reserve(count).is_err() {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let debt = Debt {
            line,
            items: Arc::new(items),
            answers,
            calls: 0,
            left: 0,
        };
        self.failed.insert(id, debt);
        (0..count).for_each(|place| self.note(id, place));
        while self.count > MOST_DEBTS
            && let Some((oldest, _)) = self.failed.first_key_value()
        {
            self.remove(*oldest);
        }
    }

    /// Notes that nobody has asked for an item.
    pub fn note(&mut self, id: u64, place: usize) {
        let Some(debt) = self.failed.get_mut(&id) else {
            return;
        };
        let places = self.places.entry(debt.items.get(place).into()).or_default();
        // Only the first of equal items can be new.
        if places.iter().all(|(of, _)| *of != id) {
            places.push((id, place));
            debt.left += 1;
            self.count += 1;
        }
    }

    /// Removes an item that needs no answer of this command.
    pub fn forget(&mut self, id: u64, place: usize) {
        let Some(debt) = self.failed.get_mut(&id) else {
            return;
        };
        let item = debt.items.get(place);
        if let Some(places) = self.places.get_mut(item) {
            let before = places.len();
            places.retain(|of| *of != (id, place));
            debt.left -= before - places.len();
            self.count -= before - places.len();
            if places.is_empty() {
                self.places.remove(item);
            }
        }
    }

    pub fn remove(&mut self, id: u64) {
        let count = self.failed.get(&id).map_or(0, |debt| debt.items.len());
        (0..count).for_each(|place| self.forget(id, place));
        self.failed.remove(&id);
    }

    pub fn remove_if_paid(&mut self, id: u64) {
        let is_paid = |debt: &Debt| debt.left == 0 && debt.calls == 0;
        if self.failed.get(&id).is_some_and(is_paid) {
            self.failed.remove(&id);
        }
    }
}
