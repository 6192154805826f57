//! The outcomes of a run over many keys: lines and a table for people, or JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::failure::shown;
use super::report::grouped;
use super::report::print_line;

/// The outcome of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Moved,
    Replaced,
    /// A dry run would have moved it.
    WouldMove,
    /// A dry run would have replaced it.
    WouldReplace,
    Skipped,
    Same,
    WithinAccuracy,
    Different,
    Changing,
    OnlySource,
    OnlyTarget,
    Refused,
}

impl Fate {
    const COUNT: usize = Self::Refused as usize + 1;

    const fn name(self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::Replaced => "replaced",
            Self::WouldMove => "would move",
            Self::WouldReplace => "would replace",
            Self::Skipped => "skipped",
            Self::Same => "same",
            Self::WithinAccuracy => "within accuracy",
            Self::Different => "different",
            Self::Changing => "changing",
            Self::OnlySource => "only at source",
            Self::OnlyTarget => "only at target",
            Self::Refused => "refused",
        }
    }
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
        let separator = if text.is_some() { ": " } else { "" };
        let (fate, key, text) = (self.fate.name(), shown(&self.key), text.unwrap_or_default());
        if self.fate == Fate::Refused {
            eprintln!("{fate} {key}{separator}{text}");
        } else {
            print_line(format_args!("{fate} {key}{separator}{text}"));
        }
    }
}

/// The totals of a type.
#[derive(Default)]
struct Totals {
    keys: [u64; Fate::COUNT],
    bytes: u64,
}

/// The outcomes of a run.
#[derive(Default)]
pub struct Outcomes {
    types: BTreeMap<String, Totals>,
    /// All outcomes but [`Fate::Same`].
    pub listed: Vec<Outcome>,
}

impl Outcomes {
    pub fn add(&mut self, outcome: Outcome) {
        let totals = self.types.entry(outcome.kind.clone()).or_default();
        totals.keys[outcome.fate as usize] += 1;
        totals.bytes += outcome.bytes.unwrap_or(0);
        if outcome.fate != Fate::Same {
            self.listed.push(outcome);
        }
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> u64 {
        self.types.values().flat_map(|totals| totals.keys).sum()
    }

    /// Prints the totals of each type, in columns of these widths. A width for bytes adds a column.
    pub fn print_table(&self, fates: &[(Fate, usize)], bytes_width: Option<usize>) {
        let row = |kind: &str, cell: &dyn Fn(Fate) -> String, bytes: &str| {
            let cells = fates
                .iter()
                .map(|&(fate, width)| format!("{:>width$}", cell(fate)));
            let cells = cells.chain(bytes_width.map(|width| format!("{bytes:>width$}")));
            print_line(format_args!("{kind:<10}{}", cells.collect::<String>()));
        };
        row("type", &|fate| fate.name().to_owned(), "bytes");
        for (kind, totals) in &self.types {
            let count = |fate| totals.keys[fate as usize].to_string();
            row(kind, &count, &grouped(totals.bytes));
        }
    }

    /// Returns the number of keys of each type, by outcome, as JSON.
    pub fn types_json(&self, fates: &[(Fate, usize)]) -> Value {
        let types = self.types.iter().map(|(kind, totals)| {
            let counts = fates.iter().map(|&(fate, _)| {
                let count = totals.keys[fate as usize];
                (fate.name().to_owned(), count.into())
            });
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
                "outcome": outcome.fate.name(),
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
