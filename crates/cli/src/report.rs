//! What the program found out, as rows for people or as JSON.

use std::fmt::Write as _;

use indicatif::HumanCount;
use serde_json::{Map, Value};

use super::failure::Result;

/// Rows of a name and a value, in their order.
#[derive(Default)]
pub struct Report {
    rows: Vec<(String, String)>,
    json: Map<String, Value>,
}

impl Report {
    /// A value, written one way for people and another in JSON, where its name has underscores.
    pub fn row(&mut self, name: &str, text: impl Into<String>, json: impl Into<Value>) {
        self.rows.push((name.to_owned(), text.into()));
        self.hidden(&name.replace(' ', "_"), json);
    }

    /// A value in JSON alone.
    pub fn hidden(&mut self, name: &str, json: impl Into<Value>) {
        self.json.insert(name.to_owned(), json.into());
    }

    pub fn number(&mut self, name: &str, number: u64) {
        self.row(name, grouped(number), number);
    }

    /// Shows it for a run that ended like this.
    pub fn end(self, json: bool, ended: Result<()>) -> Result<()> {
        if json {
            return print_json(self.json, ended);
        }
        let name_width = self.rows.iter().map(|(name, _)| name.len()).max();
        let name_width = name_width.unwrap_or(0);
        let mut text = String::new();
        for (name, value) in self.rows {
            writeln!(text, "{name:<name_width$}  {value}").expect("a String takes all");
        }
        print!("{text}");
        ended
    }
}

/// Prints what a run found out. The object of one that failed is printed with its error, where that is.
pub fn print_json(found: Map<String, Value>, ended: Result<()>) -> Result<()> {
    match ended {
        Ok(()) => println!("{}", Value::Object(found)),
        Err(failure) => return Err(failure.after(found)),
    }
    Ok(())
}

/// A number in groups of three digits.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

#[allow(clippy::cast_precision_loss, reason = "a few digits are shown")]
pub fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
