//! The figures of a plan: rows for people, values for programs.

use serde_json::{Map, Value};

/// Rows of a name and a value.
#[derive(Debug, Default)]
pub struct Report {
    /// The rows for people, in order.
    pub rows: Vec<(String, String)>,
    /// The values for programs.
    pub json: Map<String, Value>,
}

impl Report {
    /// Adds a row with a text for people and a value for JSON, where underscores replace the spaces in the name.
    pub fn row(&mut self, name: &str, text: impl Into<String>, json: impl Into<Value>) {
        self.rows.push((name.to_owned(), text.into()));
        self.hidden(&name.replace(' ', "_"), json);
    }

    /// Adds a value to JSON alone.
    pub fn hidden(&mut self, name: &str, json: impl Into<Value>) {
        self.json.insert(name.to_owned(), json.into());
    }

    /// Adds a row with a whole number.
    pub fn number(&mut self, name: &str, number: u64) {
        self.row(name, grouped(number), number);
    }
}

/// Returns a number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Converts an integer to the nearest double.
#[allow(clippy::cast_precision_loss, reason = "a few digits are shown")]
pub const fn to_double(number: u64) -> f64 {
    number as f64
}

/// Returns a part of a whole as a fraction. A whole of 0 counts as 1.
pub fn ratio(part: u64, whole: u64) -> f64 {
    to_double(part) / to_double(whole.max(1))
}

/// Rounds a number to `digits` significant digits.
pub fn rounded(number: f64, digits: usize) -> f64 {
    let text = format!("{number:.*e}", digits - 1);
    text.parse().unwrap_or(number)
}
