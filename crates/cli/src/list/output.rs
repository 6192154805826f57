//! Listings as tables, and their sums.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthChar;
use unicode_width::UnicodeWidthStr;

use crate::held::columns::{Column, listed};
use crate::held::row::Row;
use crate::report::{counted, grouped};

/// The narrowest that a column of keys gets.
const LEAST_KEY: usize = 8;

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
    format!("{head}…{tail}")
}

/// Returns the first characters that fit into a width.
fn take_width(text: impl Iterator<Item = char>, width: usize) -> String {
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or(0);
        taken <= width
    };
    text.take_while(fits).collect()
}

/// The columns of a table, and their widths.
#[derive(Default)]
pub struct Table(Vec<(&'static Column, usize)>);

impl Table {
    /// Returns a table of these columns, wide enough for these rows.
    pub fn new(columns: impl Iterator<Item = &'static Column>, rows: &[&Row]) -> Self {
        let width = |column: &Column| {
            let cells = rows.iter().map(|row| column.text(row).width());
            cells.max().unwrap_or(0).max(column.title.width())
        };
        let shown = columns.filter(|column| column.is_shown(rows));
        Self(shown.map(|column| (column, width(column))).collect())
    }

    /// Narrows the column of keys, if a line does not fit into this width.
    pub fn with_short_keys(mut self, width: usize) -> Self {
        let others: usize = self.0[1..].iter().map(|(_, own)| own + GAP).sum();
        let room = width.saturating_sub(others).max(LEAST_KEY);
        self.0[0].1 = self.0[0].1.min(room);
        self
    }

    /// Drops the last columns, as many as do not fit into a screen, and gives keys what is left.
    pub fn on_screen(mut self, width: usize) -> Self {
        let least = self.0[0].1.min(LEAST_KEY);
        let mut left = width.saturating_sub(least);
        let fits = |(_, own): &&(_, usize)| {
            let rest = left.checked_sub(own + GAP);
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let count = self.0[1..].iter().take_while(fits).count();
        self.0.truncate(1 + count);
        self.0[0].1 = self.0[0].1.min(least + left).min(width);
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
        let cells = self.0.iter().map(|(column, width)| {
            let text = shortened(&text(column), *width);
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

/// The sums of a listing.
#[derive(Default)]
pub struct Sums {
    /// The keys and bytes of each type.
    types: BTreeMap<String, (u64, u64)>,
}

impl Sums {
    pub fn add(&mut self, row: &Row) {
        let (keys, bytes) = self.types.entry(row.kind.clone()).or_default();
        *keys += 1;
        *bytes += row.bytes.unwrap_or(0);
    }

    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    fn all(&self) -> (u64, u64) {
        let types = self.types.values();
        types.fold((0, 0), |(keys, bytes), own| (keys + own.0, bytes + own.1))
    }

    /// Returns the keys and bytes of all types, and the keys of each.
    pub fn line(&self) -> String {
        let (keys, bytes) = self.all();
        let sums = format!("{}, {} bytes", counted(keys, "key"), grouped(bytes));
        let types = self.types.iter();
        let types = types.map(|(kind, (keys, _))| format!("{} {kind}", grouped(*keys)));
        match types.collect::<Vec<_>>().join(", ") {
            types if types.is_empty() => sums,
            types => format!("{sums}: {types}"),
        }
    }

    /// Returns the fields of JSON: the keys and bytes of each type, and the bytes of all.
    pub fn json(&self) -> Map<String, Value> {
        let types = self.types.iter();
        let types = types
            .map(|(kind, (keys, bytes))| (kind.clone(), json!({ "keys": keys, "bytes": bytes })));
        let mut fields = Map::new();
        fields.insert("types".to_owned(), Value::Object(types.collect()));
        fields.insert("bytes".to_owned(), self.all().1.into());
        fields
    }
}

/// Returns the first line of CSV, in the form of RFC 4180, without its end.
pub fn csv_head() -> String {
    let fields: Vec<&str> = listed().map(|column| column.field).collect();
    fields.join(",")
}

/// Returns the line of a row in CSV, without its end.
pub fn csv(row: &Row) -> String {
    let cells: Vec<String> = listed().map(|column| column.csv(row)).collect();
    cells.join(",")
}

/// Returns a row as JSON. What only its type has is in it, too.
pub fn json(row: &Row) -> Value {
    let mut object = row.details.json();
    for column in listed() {
        object[column.field] = column.json(row);
    }
    if row.idle_seconds.is_some() {
        object["idle_seconds"] = row.idle_seconds.into();
    }
    object
}
