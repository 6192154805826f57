//! Listings as tables for people.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::held::columns::Column;
use crate::held::row::Row;

/// The least width of a column of keys: some characters of both ends are left.
const LEAST_KEY: usize = 8;

/// The selector that gives the character before it two columns, as an emoji.
const WIDENS: char = '\u{fe0f}';

/// The space between two columns.
const GAP: usize = 2;

/// Cuts a text in the middle to a width in columns of a terminal.
pub fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let tail = take_width(text.chars().rev(), room / 2);
    let head = take_width(text.chars(), room - room / 2);
    let tail: String = tail.chars().rev().collect();
    // A selector without its character would act on the dots.
    format!("{head}…{}", tail.trim_start_matches(WIDENS))
}

/// Returns the first characters that fit into a width.
fn take_width(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = 0;
    let fits = |c: &char| {
        taken += if *c == WIDENS {
            1
        } else {
            c.width().unwrap_or(0)
        };
        taken <= width
    };
    text.take_while(fits).collect()
}

/// The columns of a table. The first is that of keys.
#[derive(Default)]
pub struct Table(Vec<Fitted>);

/// A column, and its width.
struct Fitted {
    column: &'static Column,
    width: usize,
    /// Whether wider texts are cut. Others move the rest of their line.
    is_cut: bool,
}

impl Table {
    /// Returns a table of these columns, wide enough for these rows.
    pub fn new(columns: impl Iterator<Item = &'static Column>, rows: &[&Row]) -> Self {
        let fitted = |column: &'static Column| {
            let cells = rows.iter().map(|row| column.text(row).width());
            let width = cells.max().unwrap_or(0).max(column.title.width());
            Fitted {
                column,
                width,
                is_cut: false,
            }
        };
        let shown = columns.filter(|column| column.is_shown(rows));
        Self(shown.map(fitted).collect())
    }

    /// Narrows the column of keys, if a line does not fit into this width.
    pub fn with_short_keys(mut self, width: usize) -> Self {
        if let [keys, others @ ..] = &mut self.0[..] {
            let taken: usize = others.iter().map(|other| other.width + GAP).sum();
            let room = width.saturating_sub(taken).max(LEAST_KEY);
            keys.width = keys.width.min(room);
            keys.is_cut = true;
        }
        self
    }

    /// Drops the last columns, as many as do not fit into a screen, and gives keys what is left.
    pub fn on_screen(mut self, width: usize) -> Self {
        if let [keys, others @ ..] = &mut self.0[..] {
            let least = keys.width.min(LEAST_KEY);
            let mut left = width.saturating_sub(least);
            let fits = |other: &&Fitted| {
                let rest = left.checked_sub(other.width + GAP);
                left = rest.unwrap_or(left);
                rest.is_some()
            };
            let shown = 1 + others.iter().take_while(fits).count();
            keys.width = keys.width.min(least + left).min(width);
            keys.is_cut = true;
            self.0.truncate(shown);
        }
        self
    }

    /// Returns the line of titles.
    pub fn head(&self) -> String {
        self.line(|column| column.title.to_owned())
    }

    /// Returns the line of a row.
    pub fn row(&self, row: &Row) -> String {
        self.line(|column| column.text(row))
    }

    /// Returns a line without trailing spaces: texts on the left of their columns, numbers on the right.
    fn line(&self, text: impl Fn(&Column) -> String) -> String {
        let cells = self.0.iter().map(|fitted| {
            let Fitted { column, width, .. } = *fitted;
            let mut text = text(column);
            if fitted.is_cut {
                text = shortened(&text, width);
            }
            let space = " ".repeat(width.saturating_sub(text.width()));
            if column.is_text() {
                text + &space
            } else {
                space + &text
            }
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::columns::WATCHED;

    #[test]
    fn a_text_is_cut_in_the_middle() {
        for (text, width, cut) in [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "ab…ef"),
            ("abcdef", 4, "ab…f"),
            ("abcdef", 1, "…"),
            // Each of these takes two columns.
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日…語"),
            ("日本語", 4, "日…"),
            // So do these, of two characters each.
            ("❤️❤️❤️❤️", 8, "❤️❤️❤️❤️"),
            ("❤️❤️❤️❤️", 5, "❤️…❤️"),
            ("❤️❤️❤️❤️", 4, "❤️…"),
            ("", 0, ""),
        ] {
            assert_eq!(shortened(text, width), cut, "{text} {width}");
            assert!(cut.width() <= width, "{text} {width}");
        }
    }

    /// Returns a table of the columns key, type and items, as wide as 20, 9 and 5.
    fn table() -> Table {
        let row = Row {
            key: b"abcdefghijklmnopqrst".to_vec(),
            kind: "bloomfltr".to_owned(),
            items: Some(1),
            ..Row::default()
        };
        Table::new(WATCHED[..3].iter(), &[&row])
    }

    fn widths(table: &Table) -> Vec<usize> {
        table.0.iter().map(|fitted| fitted.width).collect()
    }

    #[test]
    fn texts_are_aligned_on_the_left_and_numbers_on_the_right() {
        let row = |key: &str, kind: &str, items, ttl_ms| Row {
            key: key.into(),
            kind: kind.to_owned(),
            items,
            ttl_ms: Some(ttl_ms),
            ..Row::default()
        };
        let rows = [
            row("日本", "bloomfltr", Some(1_000_000), -1),
            row("b", "x", None, 5_000),
        ];
        let shown = ["key", "type", "items", "ttl", "readers"];
        let columns = WATCHED.iter();
        let columns = columns.filter(|column| shown.contains(&column.title));
        let table = Table::new(columns, &rows.each_ref());
        let lines = rows.iter().map(|row| table.row(row));
        let lines: Vec<String> = [table.head()].into_iter().chain(lines).collect();
        // Nothing is known of readers.
        assert_eq!(
            lines,
            [
                "key   type           items    ttl",
                "日本  bloomfltr  1,000,000  never",
                "b     x                  -     5s",
            ]
        );
        // The last text has no spaces after it.
        assert_eq!(
            Table::new(WATCHED[..2].iter(), &[&rows[0]]).row(&rows[1]),
            "b     x"
        );
    }

    #[test]
    fn a_screen_has_the_columns_that_fit_beside_a_short_key() {
        for (screen, shown) in [
            (100, &[20, 9, 5][..]),
            (38, &[20, 9, 5]),
            (37, &[19, 9, 5]),
            (26, &[8, 9, 5]),
            (25, &[14, 9]),
            (19, &[8, 9]),
            (18, &[18]),
            (5, &[5]),
            (0, &[0]),
        ] {
            assert_eq!(widths(&table().on_screen(screen)), shown, "{screen}");
        }
    }

    #[test]
    fn a_terminal_has_all_columns_beside_short_keys_and_nothing_else_is_cut() {
        for (terminal, key) in [(100, 20), (38, 20), (37, 19), (26, 8), (5, 8)] {
            let table = table().with_short_keys(terminal);
            assert_eq!(widths(&table), [key, 9, 5], "{terminal}");
        }
        let wide = Row {
            key: b"the-longer-key-of-a-later-row".to_vec(),
            kind: "bloomfltr".to_owned(),
            items: Some(1_000_000_000),
            ..Row::default()
        };
        assert_eq!(
            table().row(&wide),
            "the-longer-key-of-a-later-row  bloomfltr  1,000,000,000"
        );
        assert_eq!(
            table().with_short_keys(26).row(&wide),
            "the-…row  bloomfltr  1,000,000,000"
        );
        let none = Table::default().with_short_keys(5).on_screen(5);
        assert_eq!(none.head(), "");
    }
}
