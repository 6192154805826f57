//! The state of the screen: the rows, their order, and the visible part.

use std::collections::HashMap;
use std::time::Instant;

use super::feed::Update;
use crate::failure::shown;
use crate::list::columns::{self, Column};
use crate::list::read::Listing;
use crate::list::row::Row;

/// What a key on the keyboard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    End,
    /// Scrolls by rows.
    Scroll(isize),
    /// Scrolls by pages.
    Page(isize),
    First,
    Last,
    /// Sorts by the next column.
    Sort,
    Reverse,
    /// Begins to type a filter.
    Filter,
    Type(char),
    Erase,
    /// Ends typing, and keeps the filter.
    Accept,
    /// Ends typing without a filter.
    Clear,
}

/// The state of the screen.
pub struct View {
    pub address: String,
    pub sort: Column,
    pub reverse: bool,
    /// Only keys that contain this text are shown.
    pub filter: String,
    typing: bool,
    listing: Option<(Listing, Instant)>,
    /// The change of each key's items per second.
    changes: HashMap<Vec<u8>, f64>,
    /// Why there is no newer listing.
    pub failure: Option<String>,
    /// The first row that is seen.
    pub top: usize,
    /// The rows that fit on the screen.
    pub page: usize,
}

impl View {
    pub fn new(address: &str, sort: Column, reverse: bool) -> Self {
        Self {
            address: address.to_owned(),
            sort,
            reverse,
            filter: String::new(),
            typing: false,
            listing: None,
            changes: HashMap::new(),
            failure: None,
            top: 0,
            page: 1,
        }
    }

    pub const fn is_typing(&self) -> bool {
        self.typing
    }

    /// Returns the listing, unless the first one is still to come.
    pub fn listing(&self) -> Option<&Listing> {
        self.listing.as_ref().map(|(listing, _)| listing)
    }

    /// Returns the rows that match the filter, in order.
    pub fn rows(&self) -> Vec<&Row> {
        let rows = self.listing().map_or(&[][..], |listing| &listing.rows);
        let matching = rows
            .iter()
            .filter(|row| shown(&row.key).contains(&self.filter));
        matching.collect()
    }

    /// Returns the change of a key's items per second.
    pub fn change(&self, row: &Row) -> Option<f64> {
        self.changes.get(&row.key).copied()
    }

    /// Takes a new listing, or a failure. The last listing stays on the screen during a failure.
    pub fn update(&mut self, update: Update) {
        match update {
            Update::Failed(failure) => self.failure = Some(failure),
            Update::Listing(listing, at) => {
                self.changes = match &self.listing {
                    Some((last, before)) => changes(last, &listing, (at - *before).as_secs_f64()),
                    None => HashMap::new(),
                };
                self.failure = None;
                self.listing = Some((listing, at));
                self.order();
            }
        }
    }

    /// Sorts the rows.
    fn order(&mut self) {
        if let Some((listing, _)) = &mut self.listing {
            let change = |row: &Row| self.changes.get(&row.key).copied();
            columns::sort(&mut listing.rows, self.sort, self.reverse, &change);
        }
    }

    /// Does what a key on the keyboard stands for. Returns whether to end.
    pub fn act(&mut self, action: Action) -> bool {
        match action {
            Action::End => return true,
            Action::Scroll(rows) => self.scroll(rows),
            Action::Page(pages) => self.scroll(pages.saturating_mul(self.page.cast_signed())),
            Action::First => self.top = 0,
            Action::Last => self.top = usize::MAX,
            Action::Sort => {
                let all = Column::WATCHED;
                let at = all.iter().position(|column| *column == self.sort);
                self.sort = all[at.map_or(0, |at| (at + 1) % all.len())];
                self.order();
            }
            Action::Reverse => {
                self.reverse = !self.reverse;
                self.order();
            }
            Action::Filter => self.typing = true,
            Action::Type(letter) => self.filter.push(letter),
            Action::Erase => drop(self.filter.pop()),
            Action::Accept => self.typing = false,
            Action::Clear => {
                self.typing = false;
                self.filter.clear();
            }
        }
        self.keep_in_range();
        false
    }

    fn scroll(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows);
    }

    /// Keeps the last page full.
    pub fn keep_in_range(&mut self) {
        let last = self.rows().len().saturating_sub(self.page);
        self.top = self.top.min(last);
    }
}

/// Returns the change per second of the keys that both listings have.
fn changes(before: &Listing, now: &Listing, seconds: f64) -> HashMap<Vec<u8>, f64> {
    let items = |listing: &Listing| -> HashMap<Vec<u8>, u64> {
        let rows = listing.rows.iter();
        rows.filter_map(|row| Some((row.key.clone(), row.items?)))
            .collect()
    };
    let before = items(before);
    let changes = items(now).into_iter().filter_map(|(key, now)| {
        let before = *before.get(&key)?;
        let change = crate::report::double(now.abs_diff(before));
        let change = if now < before { -change } else { change };
        (seconds > 0.0).then(|| (key, change / seconds))
    });
    changes.collect()
}

#[cfg(test)]
pub mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns a listing of keys with items.
    pub fn listing(items: &[(&str, u64)]) -> Listing {
        let rows = items.iter().map(|(key, items)| {
            let mut row = Row::partly_loaded((*key).into(), "bloomfltr");
            row.items = Some(*items);
            row
        });
        Listing {
            rows: rows.collect(),
            ..Listing::default()
        }
    }

    fn keys(view: &View) -> String {
        let rows = view.rows().into_iter();
        rows.map(|row| shown(&row.key).into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn changes_are_per_second_and_need_two_listings() {
        let mut view = View::new("server", Column::Change, false);
        let start = Instant::now();
        view.update(Update::Listing(
            listing(&[("a", 10), ("b", 10), ("gone", 1)]),
            start,
        ));
        assert_eq!(keys(&view), "a b gone");
        let later = start + Duration::from_secs(2);
        view.update(Update::Listing(
            listing(&[("a", 5), ("b", 50), ("new", 7)]),
            later,
        ));
        let changes: Vec<Option<f64>> = view.rows().iter().map(|row| view.change(row)).collect();
        // A new key has no change yet, and comes last.
        assert_eq!(keys(&view), "b a new");
        assert_eq!(changes, [Some(20.0), Some(-2.5), None]);
    }

    #[test]
    fn keys_sort_filter_and_scroll() {
        let mut view = View::new("server", Column::Key, false);
        let all = ["a1", "a2", "b1", "b2", "b3"];
        let items: Vec<(&str, u64)> = all.into_iter().zip([3, 1, 5, 2, 4]).collect();
        view.update(Update::Listing(listing(&items), Instant::now()));
        view.page = 2;
        for (action, top) in [
            (Action::Scroll(-1), 0),
            (Action::Scroll(1), 1),
            (Action::Page(1), 3),
            (Action::Page(1), 3),
            (Action::First, 0),
            (Action::Last, 3),
            (Action::Page(-1), 1),
        ] {
            assert!(!view.act(action));
            assert_eq!(view.top, top, "{action:?}");
        }
        for action in [Action::Sort, Action::Sort] {
            view.act(action);
        }
        assert_eq!(keys(&view), "b1 b3 a1 b2 a2");
        view.act(Action::Reverse);
        assert_eq!(keys(&view), "a2 b2 a1 b3 b1");
        for action in [Action::Filter, Action::Type('b'), Action::Type('x')] {
            view.act(action);
        }
        assert_eq!((keys(&view), view.top), (String::new(), 0));
        view.act(Action::Erase);
        view.act(Action::Accept);
        assert_eq!(keys(&view), "b2 b3 b1");
        assert!(!view.is_typing());
        view.act(Action::Filter);
        view.act(Action::Clear);
        assert_eq!(view.rows().len(), 5);
        assert!(view.act(Action::End));
    }

    #[test]
    fn the_last_listing_stays_during_a_failure() {
        let mut view = View::new("server", Column::Key, false);
        view.update(Update::Listing(listing(&[("a", 1)]), Instant::now()));
        view.update(Update::Failed("lost".to_owned()));
        assert_eq!(
            (keys(&view), view.failure.as_deref()),
            ("a".to_owned(), Some("lost"))
        );
        view.update(Update::Listing(listing(&[("b", 1)]), Instant::now()));
        assert_eq!((keys(&view), view.failure), ("b".to_owned(), None));
    }
}
