//! The results of a run: rows for people, or JSON.

use indicatif::HumanCount;
use serde_json::{Map, Value};

use super::failure::Result;

/// Rows of a name and a value.
#[derive(Default)]
pub struct Report {
    rows: Vec<(String, String)>,
    json: Map<String, Value>,
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

    pub fn number(&mut self, name: &str, number: u64) {
        self.row(name, grouped(number), number);
    }

    /// Prints the report of a run with this result.
    pub fn end(self, json: bool, ended: Result<()>) -> Result<()> {
        if json {
            return print_json(self.json.into(), ended);
        }
        let width = self.rows.iter().map(|(name, _)| name.len()).max();
        let width = width.unwrap_or(0);
        for (name, value) in self.rows {
            println!("{name:<width$}  {value}");
        }
        ended
    }
}

/// Prints the JSON object of a successful run. A failure keeps the object, which is printed with the error.
pub fn print_json(found: Value, ended: Result<()>) -> Result<()> {
    match ended {
        Ok(()) => println!("{found}"),
        Err(failure) => return Err(failure.after(found)),
    }
    Ok(())
}

/// Returns a number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Rounds an estimate to two digits.
pub fn two_digits(rate: f64) -> String {
    let rounded = format!("{rate:.1e}").parse().unwrap_or(rate);
    f64::to_string(&rounded)
}

pub fn ratio(part: u64, whole: u64) -> f64 {
    double(part) / double(whole.max(1))
}

#[allow(clippy::cast_precision_loss, reason = "a few digits are shown")]
pub const fn double(number: u64) -> f64 {
    number as f64
}
