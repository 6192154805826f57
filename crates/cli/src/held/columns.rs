//! The columns of tables, CSV and JSON, and the order of rows.

use std::cmp::Ordering;

use serde_json::Value;

use super::row::Row;
use crate::failure::shown;
use crate::report::{grouped, two_digits};

/// What stands for a value that is unknown.
const UNKNOWN: &str = "-";

/// A column.
pub struct Column {
    pub title: &'static str,
    /// The name in CSV and JSON; `None` for a column of `watch` alone.
    pub field: Option<&'static str>,
    /// Whether its values are texts, which are aligned on the left and sorted in ascending order.
    pub is_text: bool,
    /// Whether tables leave it out if no row has a value.
    is_rare: bool,
    cell: fn(&Row) -> Option<Cell<'_>>,
}

/// A known value of a row.
enum Cell<'r> {
    Text(&'r [u8]),
    Count(u64),
    /// A number, and its form in tables.
    Double(f64, fn(f64) -> String),
    /// A time to live in milliseconds, or −1.
    Ttl(i64),
}

use Cell::{Count, Double, Text};

const fn column(
    title: &'static str,
    field: &'static str,
    cell: fn(&Row) -> Option<Cell<'_>>,
) -> Column {
    Column {
        title,
        field: Some(field),
        is_text: false,
        is_rare: false,
        cell,
    }
}

/// The columns of `watch`.
pub static WATCHED: [Column; 12] = [
    Column {
        is_text: true,
        ..column("key", "key", |row| Some(Text(&row.key)))
    },
    Column {
        is_text: true,
        ..column("type", "type", |row| Some(Text(row.kind.as_bytes())))
    },
    column("items", "items", |row| row.items.map(Count)),
    Column {
        field: None,
        ..column("items/s", "", |row| Some(Double(row.change?, signed)))
    },
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
    column("ttl", "ttl_ms", |row| row.ttl_ms.map(Cell::Ttl)),
    Column {
        is_rare: true,
        ..column("readers", "readers", |row| row.bloom()?.readers.map(Count))
    },
];

/// Returns the columns of `list`, which does not know changes.
pub fn listed() -> impl Iterator<Item = &'static Column> {
    fields().map(|(_, column)| column)
}

/// Returns the columns of CSV and JSON, and their names there.
fn fields() -> impl Iterator<Item = (&'static str, &'static Column)> {
    WATCHED
        .iter()
        .filter_map(|column| Some((column.field?, column)))
}

/// Returns the first line of CSV, in the form of RFC 4180, without its end.
pub fn csv_head() -> String {
    let names: Vec<&str> = fields().map(|(name, _)| name).collect();
    names.join(",")
}

/// Returns the line of a row in CSV, without its end.
pub fn csv(row: &Row) -> String {
    let cells: Vec<String> = listed().map(|column| column.csv(row)).collect();
    cells.join(",")
}

/// Returns a row as JSON, with what only its type has.
pub fn json(row: &Row) -> Value {
    let mut object = row.details.json();
    for (name, column) in fields() {
        object[name] = column.json(row);
    }
    if row.idle_seconds.is_some() {
        object["idle_seconds"] = row.idle_seconds.into();
    }
    object
}

impl Column {
    /// Returns the value of `--sort`.
    pub fn option(&self) -> String {
        self.title.trim_end_matches(" %").replace(' ', "-")
    }

    /// Returns whether a table of these rows has the column.
    pub fn is_shown(&self, rows: &[&Row]) -> bool {
        !self.is_rare || rows.iter().any(|row| (self.cell)(row).is_some())
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
            Some(Cell::Ttl(ms)) => ms.into(),
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
            // What never expires has the longest time.
            (Self::Ttl(one), Self::Ttl(other)) => one.cast_unsigned().cmp(&other.cast_unsigned()),
            _ => Ordering::Equal,
        }
    }
}

/// Sorts rows by a column: texts ascend and numbers descend, unless `reverse`. Rows without a value come last, and
/// equal rows are in the order of their keys.
pub fn sort(rows: &mut [Row], by: &Column, reverse: bool) {
    let descends = by.is_text == reverse;
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
fn time_left(ms: i64) -> String {
    let seconds = match ms {
        ..0 => return "never".to_owned(),
        0..1000 => return "0s".to_owned(),
        _ => ms / 1000,
    };
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let largest = units.iter().skip_while(|(count, _)| *count == 0).take(2);
    let shown = largest.filter(|(count, _)| *count > 0);
    let shown = shown.map(|(count, unit)| format!("{count}{unit}"));
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_has_its_two_largest_units() {
        for (ms, text) in [
            (-1, "never"),
            (0, "0s"),
            (999, "0s"),
            (1000, "1s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (3_661_000, "1h 1m"),
            (3_601_000, "1h"),
            (90_061_000, "1d 1h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(time_left(ms), text, "{ms}");
        }
    }

    #[test]
    fn estimates_have_two_digits() {
        for (rate, text) in [
            (0.0, "0"),
            (0.001_234, "0.0012"),
            (1e-6, "0.000001"),
            (3.21e-14, "3.2e-14"),
        ] {
            assert_eq!(estimate(rate), text);
        }
    }

    #[test]
    fn a_text_in_csv_is_quoted_if_it_must_be() {
        // A key with a space has quotes of its own.
        for (key, cell) in [("a", "a"), ("a,b", "\"a,b\""), ("a b", "\"\"\"a b\"\"\"")] {
            let row = Row {
                key: key.into(),
                ..Row::default()
            };
            assert_eq!(WATCHED[0].csv(&row), cell);
        }
    }

    #[test]
    fn rows_are_sorted_by_any_column_and_then_by_key() {
        let row = |key: &str, items, ttl_ms| Row {
            key: key.into(),
            items,
            ttl_ms,
            ..Row::default()
        };
        let all = [
            row("c", Some(2), Some(-1)),
            row("a", None, None),
            row("d", Some(9), Some(5)),
            row("b", Some(2), Some(70)),
        ];
        for (title, down, up) in [
            ("key", "abcd", "dcba"),
            ("items", "dbca", "bcda"),
            ("ttl", "cbda", "dbca"),
            ("bytes", "abcd", "abcd"),
        ] {
            let mut columns = WATCHED.iter();
            let column = columns.find(|column| column.title == title);
            for (reverse, expected) in [(false, down), (true, up)] {
                let mut rows = all.clone();
                sort(&mut rows, column.expect("a column"), reverse);
                let keys = rows.iter().flat_map(|row| row.key.clone());
                assert_eq!(keys.collect::<Vec<u8>>(), expected.as_bytes(), "{title}");
            }
        }
    }
}
