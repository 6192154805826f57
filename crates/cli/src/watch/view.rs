//! The state of the screen: the rows, their order, and the visible part.

use std::collections::HashMap;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::listings::Update;
use crate::failure::shown;
use crate::held::columns::{self, Column, WATCHED};
use crate::held::read::Listing;
use crate::held::row::Row;
use crate::report::double;

/// The state of the screen.
pub struct View {
    pub address: String,
    pub sort: &'static Column,
    pub reverse: bool,
    /// Only keys that contain this text are shown.
    pub filter: String,
    typing: bool,
    listing: Option<(Listing, Instant)>,
    /// Why there is no newer listing.
    pub failure: Option<String>,
    /// The first row that is seen.
    pub top: usize,
    /// The rows that fit on the screen.
    pub page: usize,
}

impl View {
    pub fn new(address: &str, sort: &'static Column, reverse: bool) -> Self {
        Self {
            address: address.to_owned(),
            sort,
            reverse,
            filter: String::new(),
            typing: false,
            listing: None,
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
        let matches = |row: &&Row| shown(&row.key).contains(&self.filter);
        rows.iter().filter(matches).collect()
    }

    /// Takes a new listing, or a failure. The last listing stays on the screen during a failure.
    pub fn update(&mut self, update: Update) {
        match update {
            Update::Failed(failure) => self.failure = Some(failure),
            Update::Listing(mut listing, at) => {
                if let Some((last, before)) = &self.listing {
                    set_changes(last, &mut listing, (at - *before).as_secs_f64());
                }
                self.failure = None;
                self.listing = Some((listing, at));
                self.order();
            }
        }
    }

    /// Sorts the rows.
    fn order(&mut self) {
        if let Some((listing, _)) = &mut self.listing {
            columns::sort(&mut listing.rows, self.sort, self.reverse);
        }
    }

    /// Does what a key on the keyboard stands for. Returns whether to end.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let page = self.page.cast_signed();
        match key.code {
            KeyCode::Char('c') if control => return true,
            KeyCode::Char(_) if control => {}
            KeyCode::Esc if self.typing => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Enter if self.typing => self.typing = false,
            KeyCode::Backspace if self.typing => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.typing => self.filter.push(letter),
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = usize::MAX,
            KeyCode::Esc | KeyCode::Char('q') => return true,
            KeyCode::Char('s') => {
                let mut columns = WATCHED.iter().cycle();
                columns.find(|column| column.title == self.sort.title);
                self.sort = columns.next().unwrap_or(self.sort);
                self.order();
            }
            KeyCode::Char('r') => {
                self.reverse = !self.reverse;
                self.order();
            }
            KeyCode::Char('/') => self.typing = true,
            _ => {}
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

/// Sets the change per second of the keys that an earlier listing has, too.
fn set_changes(before: &Listing, now: &mut Listing, seconds: f64) {
    let before = before.rows.iter().map(|row| (&row.key, row.items));
    let before: HashMap<_, _> = before.collect();
    for row in &mut now.rows {
        let items = before.get(&row.key).copied().flatten().zip(row.items);
        let change = items.map(|(before, now)| {
            double(now.saturating_sub(before)) - double(before.saturating_sub(now))
        });
        row.change = change.filter(|_| seconds > 0.0).map(|it| it / seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_per_second_and_need_two_listings() {
        let listing = |items: [(&str, u64); 3]| {
            let rows = items.map(|(key, items)| Row {
                key: key.into(),
                items: Some(items),
                ..Row::default()
            });
            Listing {
                rows: rows.into(),
                ..Listing::default()
            }
        };
        let before = listing([("a", 10), ("b", 10), ("gone", 1)]);
        let mut now = listing([("a", 5), ("b", 50), ("new", 7)]);
        set_changes(&before, &mut now, 2.0);
        let changes: Vec<_> = now.rows.iter().map(|row| row.change).collect();
        assert_eq!(changes, [Some(-2.5), Some(20.0), None]);
    }
}
