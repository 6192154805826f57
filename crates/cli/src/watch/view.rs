//! The state of the screen: the rows, their order, and the visible part.

use std::collections::HashMap;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::failure::shown;
use crate::held::columns::{self, Column, WATCHED};
use crate::held::read::Listing;
use crate::held::row::Row;
use crate::list::sums::Sums;
use crate::report::double;

/// The state of the screen.
pub struct View {
    pub address: String,
    pub sort: &'static Column,
    pub reverse: bool,
    /// Only keys that contain this text are shown.
    pub filter: String,
    typing: bool,
    latest: Option<Latest>,
    /// The indexes of the rows that match the filter.
    matching: Vec<usize>,
    /// Why there is no newer listing; the last one stays on the screen.
    pub failure: Option<String>,
    /// The index in `matching` of the first visible row. The last page is full.
    top: usize,
    /// The number of rows that fit on the screen.
    page: usize,
}

/// The latest listing, and its sums as a line.
struct Latest {
    listing: Listing,
    at: Instant,
    sums: String,
}

impl View {
    pub fn new(address: &str, sort: &'static Column, reverse: bool) -> Self {
        Self {
            address: address.to_owned(),
            sort,
            reverse,
            filter: String::new(),
            typing: false,
            latest: None,
            matching: Vec::new(),
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
        self.latest.as_ref().map(|latest| &latest.listing)
    }

    /// Returns the sums of the listing as a line.
    pub fn sums(&self) -> Option<&str> {
        self.latest.as_ref().map(|latest| &latest.sums[..])
    }

    /// Returns the number of rows that match the filter.
    pub const fn matching(&self) -> usize {
        self.matching.len()
    }

    /// Returns the visible rows.
    pub fn visible(&self) -> Vec<&Row> {
        let end = self.matching.len().min(self.top + self.page);
        self.rows_at(&self.matching[self.top..end])
    }

    fn rows_at(&self, indexes: &[usize]) -> Vec<&Row> {
        let rows = self.listing().map_or(&[][..], |listing| &listing.rows);
        indexes.iter().map(|index| &rows[*index]).collect()
    }

    /// Sets the number of rows that fit on the screen.
    pub fn resize(&mut self, page: usize) {
        self.page = page;
        self.keep_in_range();
    }

    /// Takes a new listing.
    pub fn update(&mut self, mut listing: Listing, at: Instant) {
        if let Some(last) = &self.latest {
            let seconds = (at - last.at).as_secs_f64();
            set_changes(&last.listing, &mut listing, seconds);
        }
        let mut sums = Sums::default();
        listing.rows.iter().for_each(|row| sums.add(row));
        let sums = sums.line();
        self.failure = None;
        self.latest = Some(Latest { listing, at, sums });
        self.order();
    }

    /// Sorts the rows.
    fn order(&mut self) {
        if let Some(latest) = &mut self.latest {
            columns::sort(&mut latest.listing.rows, self.sort, self.reverse);
        }
        self.select();
    }

    /// Finds the rows that match the filter.
    fn select(&mut self) {
        let rows = self.listing().map_or(&[][..], |listing| &listing.rows);
        let matches = |row: &Row| shown(&row.key).contains(&self.filter);
        let matching = rows.iter().enumerate().filter(|(_, row)| matches(row));
        self.matching = matching.map(|(index, _)| index).collect();
        self.keep_in_range();
    }

    /// Sets the filter.
    fn filter_by(&mut self, change: impl FnOnce(&mut String)) {
        change(&mut self.filter);
        self.select();
    }

    /// Sorts by the next column of the table: one for rare values is in it only if a row has one.
    fn sort_by_next(&mut self) {
        let rows = self.rows_at(&self.matching);
        let is_current = |column: &Column| column.title == self.sort.title;
        let current = WATCHED.iter().position(is_current);
        let after = current.map_or(0, |current| current + 1);
        let mut next = (after..after + WATCHED.len()).map(|at| &WATCHED[at % WATCHED.len()]);
        let next = next.find(|column| column.is_shown(&rows));
        self.sort = next.unwrap_or(self.sort);
        self.order();
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
                self.filter_by(String::clear);
            }
            KeyCode::Enter if self.typing => self.typing = false,
            KeyCode::Backspace if self.typing => self.filter_by(|filter| {
                filter.pop();
            }),
            KeyCode::Char(letter) if self.typing => self.filter_by(|filter| filter.push(letter)),
            KeyCode::Up => self.scroll(-1),
            KeyCode::Down => self.scroll(1),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = usize::MAX,
            KeyCode::Esc if !self.filter.is_empty() => self.filter_by(String::clear),
            KeyCode::Esc | KeyCode::Char('q') => return true,
            KeyCode::Char('s') => self.sort_by_next(),
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
    fn keep_in_range(&mut self) {
        let last = self.matching.len().saturating_sub(self.page);
        self.top = self.top.min(last);
    }
}

/// Sets the change per second of the keys that are in an earlier listing too.
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
    use crate::held::row::{Bloom, Details};
    use valkeybloom_sketches::bloom::Kind;

    /// Returns a view of these keys, each with one item more than the one before, on three rows.
    fn view(keys: &[&str]) -> View {
        let mut view = View::new("server", &WATCHED[0], false);
        view.resize(3);
        view.update(listing(keys), Instant::now());
        view
    }

    fn listing(keys: &[&str]) -> Listing {
        let rows = keys.iter().zip(1..).map(|(key, items)| Row {
            key: (*key).into(),
            items: Some(items),
            ..Row::default()
        });
        Listing {
            rows: rows.collect(),
            ..Listing::default()
        }
    }

    /// Presses keys, of which letters stand for themselves. Returns whether the last one ends the program.
    fn press(view: &mut View, keys: &[KeyCode]) -> bool {
        keys.iter().fold(false, |_, key| view.press((*key).into()))
    }

    fn visible(view: &View) -> Vec<&[u8]> {
        view.visible().iter().map(|row| &row.key[..]).collect()
    }

    const KEYS: [&str; 5] = ["a1", "b1", "c2", "d2", "e1"];

    #[test]
    fn keys_scroll_within_the_rows() {
        use KeyCode::{Down, End, Home, PageDown, PageUp, Up};
        let mut view = view(&KEYS);
        for (keys, first) in [
            (&[Up][..], "a1"),
            (&[Down], "b1"),
            (&[PageDown], "c2"),
            (&[Down], "c2"),
            (&[Up], "b1"),
            (&[PageUp], "a1"),
            (&[End], "c2"),
            (&[Home], "a1"),
        ] {
            assert!(!press(&mut view, keys));
            assert_eq!(visible(&view)[0], first.as_bytes(), "{keys:?}");
        }
        // The last page stays full on a larger screen, and for fewer rows.
        press(&mut view, &[End]);
        view.resize(4);
        assert_eq!(visible(&view), [b"b1", b"c2", b"d2", b"e1"]);
        press(&mut view, &[KeyCode::Char('/'), KeyCode::Char('2')]);
        assert_eq!(visible(&view), [b"c2", b"d2"]);
    }

    #[test]
    fn escape_removes_a_filter_before_it_ends_the_program() {
        use KeyCode::{Backspace, Char, Enter, Esc};
        for filtering in [
            &[Char('/'), Char('2')][..],
            &[Char('/'), Char('2'), Enter],
            &[Char('/'), Char('2'), Char('q'), Backspace, Enter],
        ] {
            let mut view = view(&KEYS);
            assert!(!press(&mut view, filtering));
            assert_eq!(visible(&view), [b"c2", b"d2"]);
            // New listings are filtered, too.
            let later = listing(&["a1", "f2"]);
            view.update(later, Instant::now());
            assert_eq!(visible(&view), [b"f2"]);
            assert!(!press(&mut view, &[Esc]));
            assert_eq!(visible(&view), [b"a1", b"f2"]);
            assert!(press(&mut view, &[Esc]));
        }
    }

    #[test]
    fn sorting_passes_over_columns_that_are_not_shown() {
        let titles = |view: &mut View| {
            let all = (0..12).map(|_| {
                press(view, &[KeyCode::Char('s')]);
                view.sort.title
            });
            all.collect::<Vec<_>>()
        };
        let mut view = view(&["a", "b"]);
        let found = titles(&mut view);
        assert_eq!(found[..2], ["type", "items"]);
        assert_eq!(found[9..], ["ttl", "key", "type"]);
        assert_eq!(visible(&view), [b"a", b"b"]);
        // A filter with a feed has readers.
        let mut read = listing(&["a", "b"]);
        read.rows[1].details = Details::Bloom(Bloom {
            growth: None,
            reach: None,
            kind: Kind::Plain,
            live_periods: None,
            period_items: None,
            feed_bytes: Some(1),
            readers: Some(1),
        });
        view.update(read, Instant::now());
        assert_eq!(titles(&mut view)[8..], ["ttl", "readers", "key", "type"]);
    }

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
