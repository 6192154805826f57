//! The columns of tables, CSV and JSON, and the order of rows.

use std::cmp::Ordering;

use serde_json::Value;

use super::row::{Row, Ttl};
use crate::failure::shown;
use crate::report::{grouped, two_digits};

/// What stands for a value that is unknown.
const UNKNOWN: &str = "-";

/// A column.
pub struct Column {
    pub title: &'static str,
    /// The name in CSV and JSON.
    pub field: &'static str,
    cell: fn(&Row) -> Option<Cell<'_>>,
}

/// A known value of a row.
enum Cell<'r> {
    Text(&'r [u8]),
    Count(u64),
    /// A number, and its form in tables.
    Double(f64, fn(f64) -> String),
    Ttl(Ttl),
}

use Cell::{Count, Double, Text};

const fn column(
    title: &'static str,
    field: &'static str,
    cell: fn(&Row) -> Option<Cell<'_>>,
) -> Column {
    Column { title, field, cell }
}

/// The columns of `watch`.
pub static WATCHED: [Column; 11] = [
    column("key", "key", |row| Some(Text(&row.key))),
    column("type", "type", |row| Some(Text(row.kind.as_bytes()))),
    column("items", "items", |row| row.items.map(Count)),
    column("items/s", "", |row| Some(Double(row.change?, signed))),
    column("capacity", "capacity", |row| row.capacity.map(Count)),
    column("full %", "full", |row| Some(Double(row.full()?, percent))),
    column("rate", "error_rate", |row| {
        Some(Double(row.rate?, |rate| rate.to_string()))
    }),
    column("rate now", "error_rate_now", |row| {
        Some(Double(row.rate_now?, estimate))
    }),
    column("filters", "filters", |row| row.filters.map(Count)),
    column("bytes", "bytes", |row| row.bytes.map(Count)),
    column("ttl", "ttl_ms", |row| row.ttl.map(Cell::Ttl)),
];

/// Returns the columns of `list`, which does not know changes.
pub fn listed() -> impl Iterator<Item = &'static Column> {
    WATCHED.iter().filter(|column| !column.field.is_empty())
}

impl Column {
    /// Returns the value of `--sort`.
    pub fn option(&self) -> String {
        self.title.trim_end_matches(" %").replace(' ', "-")
    }

    /// Returns whether its values are texts, which are aligned on the left and sorted in ascending order.
    pub fn is_text(&self) -> bool {
        ["key", "type"].contains(&self.title)
    }

    /// Returns the text of a cell in tables.
    pub fn text(&self, row: &Row) -> String {
        match (self.cell)(row) {
            None => UNKNOWN.to_owned(),
            Some(Text(text)) => shown(text).into_owned(),
            Some(Count(count)) => grouped(count),
            Some(Double(number, text)) => text(number),
            Some(Cell::Ttl(ttl)) => time_left(ttl),
        }
    }

    /// Returns the value of a cell in JSON. A time to live is −1 for a key that does not expire, as in PTTL.
    pub fn json(&self, row: &Row) -> Value {
        match (self.cell)(row) {
            None => Value::Null,
            Some(Text(text)) => shown(text).into(),
            Some(Count(count)) => count.into(),
            Some(Double(number, _)) => number.into(),
            Some(Cell::Ttl(Ttl::Ms(ms))) => ms.into(),
            Some(Cell::Ttl(Ttl::Never)) => (-1).into(),
        }
    }

    /// Returns the text of a cell in CSV, which is empty for an unknown value.
    pub fn csv(&self, row: &Row) -> String {
        match ((self.cell)(row), self.json(row)) {
            (Some(Double(number, _)), _) => number.to_string(),
            (_, Value::Null) => String::new(),
            (_, Value::String(text)) if text.contains(['"', ',']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            (_, Value::String(text)) => text,
            (_, number) => number.to_string(),
        }
    }
}

impl Cell<'_> {
    /// Compares two values of a column.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Text(one), Text(other)) => one.cmp(other),
            (Count(one), Count(other)) => one.cmp(other),
            (Double(one, _), Double(other, _)) => one.total_cmp(other),
            (Self::Ttl(one), Self::Ttl(other)) => one.cmp(other),
            _ => Ordering::Equal,
        }
    }
}

/// Sorts rows by a column: texts ascend and numbers descend, unless `reverse`. Rows without a value come last, and
/// equal rows are in the order of their keys.
pub fn sort(rows: &mut [Row], by: &Column, reverse: bool) {
    let descends = by.is_text() == reverse;
    rows.sort_by(|one, other| {
        let order = match ((by.cell)(one), (by.cell)(other)) {
            (Some(one), Some(other)) if descends => other.compare(&one),
            (Some(one), Some(other)) => one.compare(&other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        };
        order.then_with(|| one.key.cmp(&other.key))
    });
}

fn signed(change: f64) -> String {
    format!("{change:+.1}")
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Returns an estimated rate with two digits.
fn estimate(rate: f64) -> String {
    if rate > 0.0 && rate < 1e-6 {
        format!("{rate:.1e}")
    } else {
        two_digits(rate)
    }
}

/// Returns a time to live with its two largest units.
fn time_left(ttl: Ttl) -> String {
    let Ttl::Ms(ms) = ttl else {
        return "never".to_owned();
    };
    let seconds = ms / 1000;
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let Some(first) = units.iter().position(|(count, _)| *count > 0) else {
        return "0s".to_owned();
    };
    let shown = units[first..].iter().take(2);
    let shown = shown.filter(|(count, _)| *count > 0);
    let shown: Vec<String> = shown
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    shown.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, items: Option<u64>, ttl: Option<Ttl>) -> Row {
        Row {
            key: key.into(),
            items,
            change: (key != "c").then(|| f64::from(key.as_bytes()[0])),
            ttl,
            ..Row::default()
        }
    }

    fn text(title: &str, row: &Row) -> String {
        let mut columns = WATCHED.iter();
        let column = columns.find(|column| column.title == title);
        column.expect(title).text(row)
    }

    #[test]
    fn numbers_descend_and_unknown_values_come_last_both_ways() {
        for (by, down, up) in [
            (0, "abcd", "dcba"),
            // Equal numbers are in the order of keys.
            (2, "dbca", "bcda"),
            (3, "dbac", "abdc"),
            // Nothing is known.
            (9, "abcd", "abcd"),
            // A key that never expires has the longest time to live.
            (10, "cbda", "dbca"),
        ] {
            for (reverse, order) in [(false, down), (true, up)] {
                let mut rows = [
                    row("c", Some(2), Some(Ttl::Never)),
                    row("a", None, None),
                    row("d", Some(9), Some(Ttl::Ms(5))),
                    row("b", Some(2), Some(Ttl::Ms(70))),
                ];
                sort(&mut rows, &WATCHED[by], reverse);
                let keys: Vec<u8> = rows.iter().map(|row| row.key[0]).collect();
                assert_eq!(keys, order.as_bytes(), "{}", WATCHED[by].title);
            }
        }
    }

    #[test]
    fn cells_are_short_and_unknown_ones_a_stroke() {
        let mut row = row("a key\n", Some(1_234_567), None);
        (row.capacity, row.change) = (Some(2_000_000), Some(-2.0));
        for (title, shown) in [
            ("key", "\"a key\\n\""),
            ("items", "1,234,567"),
            ("items/s", "-2.0"),
            ("full %", "61.7"),
            ("rate", "-"),
        ] {
            assert_eq!(text(title, &row), shown);
        }
        for (rate, shown) in [
            (0.0, "0"),
            (3.21e-14, "3.2e-14"),
            (0.000_001, "0.000001"),
            (0.001_234, "0.0012"),
        ] {
            row.rate_now = Some(rate);
            assert_eq!(text("rate now", &row), shown);
        }
        for (ttl, shown) in [
            (Ttl::Ms(999), "0s"),
            (Ttl::Ms(59_999), "59s"),
            (Ttl::Ms(3_600_000), "1h"),
            (Ttl::Ms(90_061_000), "1d 1h"),
            (Ttl::Never, "never"),
        ] {
            row.ttl = Some(ttl);
            assert_eq!(text("ttl", &row), shown);
        }
    }
}
