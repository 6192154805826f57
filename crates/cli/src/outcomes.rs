//! The outcomes of a run over many keys: lines and a table for people, or JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::failure::{Failure, Result, shown};
use super::report::{grouped, print_line, warn};

/// The outcome of a key, by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fate(&'static str);

impl Fate {
    pub const MOVED: Self = Self("moved");
    pub const REPLACED: Self = Self("replaced");
    /// A dry run would have moved it.
    pub const WOULD_MOVE: Self = Self("would move");
    /// A dry run would have replaced it.
    pub const WOULD_REPLACE: Self = Self("would replace");
    pub const SKIPPED: Self = Self("skipped");
    pub const SAME: Self = Self("same");
    pub const WITHIN_ACCURACY: Self = Self("within accuracy");
    pub const DIFFERENT: Self = Self("different");
    pub const CHANGING: Self = Self("changing");
    pub const ONLY_SOURCE: Self = Self("only at source");
    pub const ONLY_TARGET: Self = Self("only at target");
    pub const REFUSED: Self = Self("refused");
}

/// A key, its outcome, and the reason for it.
pub struct Outcome {
    pub key: Vec<u8>,
    pub kind: String,
    pub fate: Fate,
    pub reason: Option<String>,
    /// The bytes that were moved; `None` for a comparison.
    pub bytes: Option<u64>,
}

impl Outcome {
    /// Prints a line with a text after the key: to the standard error if the key was refused.
    pub fn print(&self, text: Option<&str>) {
        let text = text.map_or(String::new(), |text| format!(": {text}"));
        let line = format!("{} {}{text}", self.fate.0, shown(&self.key));
        if self.fate == Fate::REFUSED {
            warn(line);
        } else {
            print_line(line);
        }
    }
}

/// The totals of a type.
#[derive(Default)]
struct Totals {
    keys: BTreeMap<Fate, u64>,
    bytes: u64,
}

impl Totals {
    fn of(&self, fate: Fate) -> u64 {
        self.keys.get(&fate).copied().unwrap_or(0)
    }
}

/// The outcomes of a run.
#[derive(Default)]
pub struct Outcomes {
    types: BTreeMap<String, Totals>,
    /// All outcomes but [`Fate::SAME`].
    pub listed: Vec<Outcome>,
}

impl Outcomes {
    pub fn add(&mut self, outcome: Outcome) {
        let totals = self.types.entry(outcome.kind.clone()).or_default();
        *totals.keys.entry(outcome.fate).or_default() += 1;
        totals.bytes += outcome.bytes.unwrap_or(0);
        if outcome.fate != Fate::SAME {
            self.listed.push(outcome);
        }
    }

    /// Returns the number of keys.
    fn keys(&self) -> u64 {
        let types = self.types.values();
        types.flat_map(|totals| totals.keys.values()).sum()
    }

    /// Requires that no listed key has a fate that counts as a failure, which `what` describes.
    pub fn require_none(&self, is_failure: impl Fn(Fate) -> bool, what: &str) -> Result<()> {
        let fates = self.listed.iter().map(|outcome| outcome.fate);
        match fates.filter(|fate| is_failure(*fate)).count() {
            0 => Ok(()),
            count => Err(Failure::new(format!(
                "{count} of {} keys {what}",
                self.keys()
            ))),
        }
    }

    /// Prints the totals of each type, in columns of these widths. A width for bytes adds a column.
    pub fn print_table(&self, fates: &[(Fate, usize)], bytes_width: Option<usize>) {
        let row = |kind: &str, cell: &dyn Fn(Fate) -> String, bytes: &str| {
            let cells = fates.iter();
            let cells = cells.map(|&(fate, width)| format!("{:>width$}", cell(fate)));
            let cells = cells.chain(bytes_width.map(|width| format!("{bytes:>width$}")));
            print_line(format_args!("{kind:<10}{}", cells.collect::<String>()));
        };
        row("type", &|fate| fate.0.to_owned(), "bytes");
        for (kind, totals) in &self.types {
            row(
                kind,
                &|fate| totals.of(fate).to_string(),
                &grouped(totals.bytes),
            );
        }
    }

    /// Returns the number of keys of each type, by outcome, as JSON.
    pub fn types_json(&self, fates: &[(Fate, usize)]) -> Value {
        let types = self.types.iter().map(|(kind, totals)| {
            let fates = fates.iter();
            let counts = fates.map(|(fate, _)| (fate.0.to_owned(), totals.of(*fate).into()));
            (kind.clone(), Value::Object(counts.collect()))
        });
        Value::Object(types.collect())
    }

    /// Returns the listed outcomes as JSON.
    pub fn keys_json(&self) -> Value {
        let keys = self.listed.iter().map(|outcome| {
            let mut object = json!({
                "key": shown(&outcome.key),
                "type": outcome.kind,
                "outcome": outcome.fate.0,
                "reason": outcome.reason,
            });
            if let Some(bytes) = outcome.bytes {
                object["bytes"] = bytes.into();
            }
            object
        });
        keys.collect()
    }
}
