//! Listings as tables, CSV and JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthChar;
use unicode_width::UnicodeWidthStr;

use super::columns::Column;
use super::row::{Details, Growth, Row, Ttl};
use crate::failure::shown;
use crate::report::grouped;

/// The narrowest that a column of keys gets.
const LEAST_KEY: usize = 8;

/// The space between two columns.
pub const GAP: usize = 2;

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
    text.take_while(|c| {
        taken += c.width().unwrap_or(0);
        taken <= width
    })
    .collect()
}

/// Pads a text to a width: texts on the right, numbers on the left.
pub fn padded(column: Column, text: &str, width: usize) -> String {
    let space = " ".repeat(width.saturating_sub(text.width()));
    if column.is_text() {
        format!("{text}{space}")
    } else {
        format!("{space}{text}")
    }
}

/// The widths of a table's columns.
pub struct Widths([usize; Column::LISTED.len()]);

impl Widths {
    /// Returns the widths for these rows. Keys are cut if a line does not fit into `terminal`.
    pub fn of(rows: &[Row], terminal: Option<usize>) -> Self {
        let mut widths = Column::LISTED.map(|column| column.title().width());
        for row in rows {
            for (width, column) in widths.iter_mut().zip(Column::LISTED) {
                *width = (*width).max(column.text(row, None).width());
            }
        }
        if let Some(terminal) = terminal {
            let others: usize = widths[1..].iter().map(|own| own + GAP).sum();
            widths[0] = widths[0].min(terminal.saturating_sub(others).max(LEAST_KEY));
        }
        Self(widths)
    }

    /// Returns the line of titles.
    pub fn head(&self) -> String {
        self.line(|column| column.title().to_owned())
    }

    /// Returns the line of a row.
    pub fn row(&self, row: &Row) -> String {
        self.line(|column| column.text(row, None))
    }

    /// Returns a line without trailing spaces.
    fn line(&self, text: impl Fn(Column) -> String) -> String {
        let cells = Column::LISTED.into_iter().zip(self.0);
        let cells =
            cells.map(|(column, width)| padded(column, &shortened(&text(column), width), width));
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
        if !self.types.contains_key(&row.kind) {
            self.types.insert(row.kind.clone(), (0, 0));
        }
        if let Some((keys, bytes)) = self.types.get_mut(&row.kind) {
            *keys += 1;
            *bytes += row.bytes.unwrap_or(0);
        }
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
        let types = self.types.iter();
        let types: Vec<String> = types
            .map(|(kind, (keys, _))| format!("{} {kind}", grouped(*keys)))
            .collect();
        let (keys, bytes) = self.all();
        let end = if keys == 1 { "" } else { "s" };
        let sums = format!("{} key{end}, {} bytes", grouped(keys), grouped(bytes));
        if types.is_empty() {
            sums
        } else {
            format!("{sums}: {}", types.join(", "))
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

/// Returns the sums of rows in a line.
pub fn sums(rows: &[Row]) -> String {
    let mut sums = Sums::default();
    for row in rows {
        sums.add(row);
    }
    sums.line()
}

/// The first line of CSV as RFC 4180 has it.
pub const CSV_HEAD: &str =
    "key,type,items,capacity,full,error_rate,error_rate_now,filters,bytes,ttl_ms";

/// Returns the line of a row in CSV, without its end. Unknown values are empty.
pub fn csv(row: &Row) -> String {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let double = |number: Option<f64>| number.map(|number| number.to_string());
    let cells = [
        Some(quoted(&shown(&row.key))),
        Some(row.kind.clone()),
        number(row.items),
        number(row.capacity),
        double(row.full()),
        double(row.rate),
        double(row.rate_now),
        number(row.filters),
        number(row.bytes),
        ttl_ms(row.ttl).map(|ms| ms.to_string()),
    ];
    cells.map(Option::unwrap_or_default).join(",")
}

/// Returns a field of CSV.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Returns a time to live as PTTL has it: −1 for a key that does not expire.
fn ttl_ms(ttl: Option<Ttl>) -> Option<i64> {
    ttl.map(|ttl| match ttl {
        Ttl::Ms(ms) => i64::try_from(ms).unwrap_or(i64::MAX),
        Ttl::Never => -1,
    })
}

/// Returns a row as JSON. What only its type has is in it, too.
pub fn json(row: &Row) -> Value {
    let mut object = json!({
        "key": shown(&row.key),
        "type": row.kind,
        "items": row.items,
        "capacity": row.capacity,
        "full": row.full(),
        "error_rate": row.rate,
        "error_rate_now": row.rate_now,
        "filters": row.filters,
        "bytes": row.bytes,
        "ttl_ms": ttl_ms(row.ttl),
    });
    let mut set = |name: &str, value: Value| object[name] = value;
    match &row.details {
        Details::PartlyLoaded => set("partly_loaded", true.into()),
        Details::Bloom(bloom) => {
            set("can_grow_to", bloom.reach.into());
            set(
                "expansion",
                match bloom.growth {
                    Growth::Unknown => Value::Null,
                    Growth::Fixed => 0.into(),
                    Growth::By(expansion) => expansion.into(),
                },
            );
            if let Some((ms, periods)) = bloom.window {
                set("window_ms", ms.into());
                set("periods", periods.into());
                set("live_periods", bloom.live_periods.into());
                set("period_items", bloom.reaching.into());
            }
        }
        Details::Cuckoo { expansion } => set("expansion", (*expansion).into()),
        Details::CountMin {
            width,
            depth,
            cell_size,
        } => {
            set("width", (*width).into());
            set("depth", (*depth).into());
            set("cell_size", (*cell_size).into());
        }
        Details::TopK {
            k,
            width,
            depth,
            decay,
        } => {
            set("k", (*k).into());
            set("width", (*width).into());
            set("depth", (*depth).into());
            set("decay", (*decay).into());
        }
        Details::TDigest { compression } => set("compression", (*compression).into()),
    }
    if row.idle_seconds.is_some() {
        object["idle_seconds"] = row.idle_seconds.into();
    }
    object
}

/// Returns the widths of the first columns that fit into a screen. Keys get what is left, and columns that do not fit
/// are dropped from the right.
pub fn fitting(columns: &[Column], cells: &[Vec<String>], width: usize) -> Vec<usize> {
    let widest = |at: usize| {
        let title = columns[at].title().width();
        let cells = cells.iter().filter_map(|line| line.get(at));
        cells.map(|cell| cell.width()).max().unwrap_or(0).max(title)
    };
    let key = widest(0);
    let mut left = width.saturating_sub(key.min(LEAST_KEY));
    let mut widths = vec![0];
    for at in 1..columns.len() {
        let own = widest(at);
        let Some(rest) = left.checked_sub(own + GAP) else {
            break;
        };
        left = rest;
        widths.push(own);
    }
    widths[0] = key.min(key.min(LEAST_KEY) + left).min(width);
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, bytes: Option<u64>) -> Row {
        let mut row = Row::partly_loaded(key.into(), "bloomfltr");
        row.bytes = bytes;
        row
    }

    #[test]
    fn long_keys_are_cut_in_the_middle() {
        for (text, width, short) in [
            ("session", 7, "session"),
            ("session", 6, "ses…on"),
            ("session", 1, "…"),
            // Wide characters take two columns of a terminal.
            ("日本語テキスト", 7, "日…ト"),
            ("日本", 4, "日本"),
        ] {
            assert_eq!(shortened(text, width), short);
            assert!(shortened(text, width).width() <= width);
        }
    }

    fn table(rows: &[Row], terminal: Option<usize>) -> Vec<String> {
        let widths = Widths::of(rows, terminal);
        let rows = rows.iter().map(|row| widths.row(row));
        std::iter::once(widths.head()).chain(rows).collect()
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let rows = [row(&"x".repeat(100), Some(1000)), row("short", None)];
        let wide = table(&rows, None);
        assert!(wide[1].starts_with(&"x".repeat(100)));
        let fitted = table(&rows, Some(90));
        assert!(fitted.iter().all(|line| line.width() <= 90), "{fitted:?}");
        assert!(fitted[1].contains("x…x"));
        // The key keeps eight columns, however narrow the terminal is.
        assert!(table(&rows, Some(10))[1].starts_with("xxxx…xxx  "));
        assert_eq!(table(&[], None).len(), 1);
    }

    #[test]
    fn columns_are_dropped_from_the_right() {
        let columns = [Column::Key, Column::Type, Column::Items, Column::Bytes];
        let cells = vec![
            ["a long name of a key", "bloomfltr", "1,000", "12,345,678"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for (width, widths) in [
            (60, vec![20, 9, 5, 10]),
            (40, vec![10, 9, 5, 10]),
            (38, vec![8, 9, 5, 10]),
            (37, vec![19, 9, 5]),
            (20, vec![9, 9]),
            (18, vec![18]),
            (5, vec![5]),
        ] {
            let fitted = fitting(&columns, &cells, width);
            assert_eq!(fitted, widths, "{width}");
        }
    }

    #[test]
    fn sums_name_each_type() {
        let mut rows = vec![row("a", Some(1000)), row("b", Some(234))];
        rows[1].kind = "CMSk-TYPE".to_owned();
        assert_eq!(sums(&rows), "2 keys, 1,234 bytes: 1 CMSk-TYPE, 1 bloomfltr");
        assert_eq!(sums(&rows[..1]), "1 key, 1,000 bytes: 1 bloomfltr");
        assert_eq!(sums(&[]), "0 keys, 0 bytes");
    }

    #[test]
    fn csv_quotes_keys() {
        let rows = [row("a,\"b\"", Some(5)), row("new\nline", None)];
        let [first, second] = rows.each_ref().map(csv);
        assert_eq!(first, "\"a,\"\"b\"\"\",bloomfltr,,,,,,,5,");
        assert_eq!(second, "\"\"\"new\\nline\"\"\",bloomfltr,,,,,,,,");
    }

    #[test]
    fn json_has_null_for_what_is_unknown() {
        let mut rows = [row("a", Some(5))];
        rows[0].ttl = Some(Ttl::Never);
        let found = json(&rows[0]);
        assert_eq!(found["items"], Value::Null);
        assert_eq!(found["ttl_ms"], -1);
        assert_eq!(found["partly_loaded"], true);
    }
}
