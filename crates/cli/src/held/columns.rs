//! The columns of tables, CSV and JSON, and the order of rows.

use std::cmp::Ordering;

use serde_json::Value;

use super::row::Row;
use crate::failure::{shown, text_of};
use crate::report::{grouped, two_digits};

/// What stands for a value that is unknown.
const UNKNOWN: &str = "-";

/// A column of tables, CSV and JSON.
pub struct Column {
    pub title: &'static str,
    /// The name in CSV and JSON; `None` for a column of `watch` alone.
    field: Option<&'static str>,
    /// Whether tables leave it out if no row has a value.
    is_rare: bool,
    values: Values,
}

/// The values of a column.
#[derive(Clone, Copy)]
enum Values {
    /// Keys or types.
    Text(fn(&Row) -> &[u8]),
    Count(fn(&Row) -> Option<u64>),
    /// Other numbers, and their form in tables.
    Double(fn(&Row) -> Option<f64>, fn(f64) -> String),
    /// Times to live in milliseconds, −1 for a key that does not expire.
    Ttl(fn(&Row) -> Option<i64>),
}

use Values::{Count, Double, Text, Ttl};

/// The columns of `watch`.
#[rustfmt::skip]
pub static WATCHED: [Column; 12] = [
    Column { title: "key", field: Some("key"), is_rare: false, values: Text(|row| &row.key) },
    Column { title: "type", field: Some("type"), is_rare: false, values: Text(|row| row.kind.as_bytes()) },
    Column { title: "items", field: Some("items"), is_rare: false, values: Count(|row| row.items) },
    Column { title: "items/s", field: None, is_rare: false, values: Double(|row| row.change, signed) },
    Column { title: "capacity", field: Some("capacity"), is_rare: false, values: Count(|row| row.capacity) },
    Column { title: "full %", field: Some("full"), is_rare: false, values: Double(Row::full, percent) },
    Column { title: "rate", field: Some("error_rate"), is_rare: false, values: Double(|row| row.rate, plain) },
    Column { title: "rate now", field: Some("error_rate_now"), is_rare: false, values: Double(|row| row.rate_now, estimate) },
    Column { title: "filters", field: Some("filters"), is_rare: false, values: Count(|row| row.filters) },
    Column { title: "bytes", field: Some("bytes"), is_rare: false, values: Count(|row| row.bytes) },
    Column { title: "ttl", field: Some("ttl_ms"), is_rare: false, values: Ttl(|row| row.ttl_ms) },
    Column { title: "readers", field: Some("readers"), is_rare: true, values: Count(|row| row.bloom()?.readers) },
];

/// Returns the columns of `list`, which does not know changes.
pub fn listed() -> impl Iterator<Item = &'static Column> {
    fields().map(|(_, column)| column)
}

/// Returns the column that a value of `--sort` names. There must be one.
pub fn column(option: &str) -> &'static Column {
    let mut columns = WATCHED.iter();
    let column = columns.find(|column| column.option() == option);
    column.expect("there is such a column")
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

    /// Returns whether the values are texts, which tables align on the left.
    pub const fn is_text(&self) -> bool {
        matches!(self.values, Text(_))
    }

    /// Returns whether sorted values descend: numbers do, and texts do if they are reversed.
    pub const fn descends(&self, reverse: bool) -> bool {
        self.is_text() == reverse
    }

    /// Returns whether a table of these rows has the column.
    pub fn is_shown(&self, rows: &[&Row]) -> bool {
        !self.is_rare || rows.iter().any(|row| !self.json(row).is_null())
    }

    /// Returns the text of a cell in tables.
    pub fn text(&self, row: &Row) -> String {
        let known = match self.values {
            Text(of) => Some(shown(of(row)).into_owned()),
            Count(of) => of(row).map(grouped),
            Double(of, text) => of(row).map(text),
            Ttl(of) => of(row).map(time_left),
        };
        known.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// Returns the value of a cell in JSON, which is null for an unknown value.
    pub fn json(&self, row: &Row) -> Value {
        match self.values {
            Text(of) => text_of(of(row)).into(),
            Count(of) => of(row).into(),
            Double(of, _) => of(row).into(),
            Ttl(of) => of(row).into(),
        }
    }

    /// Returns the text of a cell in CSV, which is empty for an unknown value.
    fn csv(&self, row: &Row) -> String {
        let known = match self.values {
            Text(of) => Some(match text_of(of(row)) {
                text if text.contains(['"', ',']) => format!("\"{}\"", text.replace('"', "\"\"")),
                text => text.into_owned(),
            }),
            // Without an exponent, which JSON may have.
            Double(of, _) => of(row).map(plain),
            Count(of) => of(row).map(|count| count.to_string()),
            Ttl(of) => of(row).map(|ms| ms.to_string()),
        };
        known.unwrap_or_default()
    }

    fn compare(&self, one: &Row, other: &Row, descends: bool) -> Ordering {
        match self.values {
            Text(of) => known_first(Some(of(one)), Some(of(other)), descends, Ord::cmp),
            Count(of) => known_first(of(one), of(other), descends, Ord::cmp),
            Double(of, _) => known_first(of(one), of(other), descends, f64::total_cmp),
            // A key that never expires has −1, which is the longest time without its sign.
            Ttl(of) => {
                let time = |row| of(row).map(i64::cast_unsigned);
                known_first(time(one), time(other), descends, Ord::cmp)
            }
        }
    }
}

/// Compares two values. Unknown ones come last in either order.
fn known_first<T>(
    one: Option<T>,
    other: Option<T>,
    descends: bool,
    compare: fn(&T, &T) -> Ordering,
) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) if descends => compare(&other, &one),
        (Some(one), Some(other)) => compare(&one, &other),
        (one, other) => one.is_none().cmp(&other.is_none()),
    }
}

/// Sorts rows by a column: texts ascend and numbers descend, unless `reverse`. Rows without a value come last, and
/// equal rows are in the order of their keys.
pub fn sort(rows: &mut [Row], by: &Column, reverse: bool) {
    rows.sort_by(|one, other| {
        let order = by.compare(one, other, by.descends(reverse));
        order.then_with(|| one.key.cmp(&other.key))
    });
}

fn plain(number: f64) -> String {
    number.to_string()
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
    use serde_json::json;

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
    fn a_key_in_csv_is_quoted_if_it_must_be() {
        for (key, cell) in [
            ("", ""),
            ("a", "a"),
            ("a b", "a b"),
            ("a,b", "\"a,b\""),
            ("a\"b", "\"a\"\"b\""),
            // A key that begins with a quote, or has a line end, has quotes and escapes of its own.
            ("\"\"", r#""""\""\""""""#),
            ("a\nb", r#""""a\nb""""#),
        ] {
            let row = Row {
                key: key.into(),
                ..Row::default()
            };
            assert_eq!(column("key").csv(&row), cell);
        }
    }

    /// A known value, and an unknown one, of each kind.
    #[test]
    fn a_cell_has_a_form_in_tables_in_json_and_in_csv() {
        let known = Row {
            key: b"a key".to_vec(),
            items: Some(1_234_567),
            change: Some(2.0),
            capacity: Some(4_938_268),
            rate_now: Some(1.23e-7),
            ttl_ms: Some(90_061_000),
            ..Row::default()
        };
        for (option, text, json, csv) in [
            ("key", "\"a key\"", json!("a key"), "a key"),
            ("items", "1,234,567", json!(1_234_567), "1234567"),
            ("items/s", "+2.0", json!(2.0), "2"),
            ("full", "25.0", json!(0.25), "0.25"),
            ("rate-now", "1.2e-7", json!(1.23e-7), "0.000000123"),
            ("ttl", "1d 1h", json!(90_061_000), "90061000"),
            ("bytes", "-", Value::Null, ""),
            ("rate", "-", Value::Null, ""),
            ("readers", "-", Value::Null, ""),
        ] {
            let column = column(option);
            let forms = (column.text(&known), column.json(&known), column.csv(&known));
            assert_eq!(forms, (text.to_owned(), json, csv.to_owned()), "{option}");
        }
    }

    #[test]
    fn list_has_all_columns_but_the_changes() {
        let options: Vec<String> = listed().map(Column::option).collect();
        assert_eq!(
            options.join(" "),
            "key type items capacity full rate rate-now filters bytes ttl readers"
        );
        let head = csv_head();
        assert_eq!(
            head,
            "key,type,items,capacity,full,error_rate,error_rate_now,filters,bytes,ttl_ms,readers"
        );
        let row = Row {
            key: b"k".to_vec(),
            kind: "t".to_owned(),
            idle_seconds: Some(7),
            ..Row::default()
        };
        let object = json(&row);
        let names = object.as_object().expect("an object").keys();
        let mut fields: Vec<&str> = head.split(',').chain(["idle_seconds"]).collect();
        fields.sort_unstable();
        assert_eq!(names.collect::<Vec<_>>(), fields);
        assert_eq!(csv(&row), "k,t,,,,,,,,,");
    }

    #[test]
    fn rows_are_sorted_by_any_column_and_then_by_key() {
        let row = |key: &str, kind: &str, items, rate, ttl_ms| Row {
            key: key.into(),
            kind: kind.to_owned(),
            items,
            rate,
            ttl_ms,
            ..Row::default()
        };
        let all = [
            row("c", "x", Some(2), Some(0.1), Some(-1)),
            row("a", "z", None, None, None),
            row("d", "y", Some(9), Some(0.01), Some(5)),
            row("b", "x", Some(2), Some(1e-9), Some(70)),
        ];
        for (title, usual, reversed) in [
            ("key", "abcd", "dcba"),
            // Equal values are in the order of keys, and unknown ones come last.
            ("type", "bcda", "adbc"),
            ("items", "dbca", "bcda"),
            ("rate", "cdba", "bdca"),
            ("ttl", "cbda", "dbca"),
            ("bytes", "abcd", "abcd"),
        ] {
            for (reverse, expected) in [(false, usual), (true, reversed)] {
                let mut rows = all.clone();
                sort(&mut rows, column(title), reverse);
                let keys = rows.iter().flat_map(|row| row.key.clone());
                assert_eq!(keys.collect::<Vec<u8>>(), expected.as_bytes(), "{title}");
            }
        }
    }
}
