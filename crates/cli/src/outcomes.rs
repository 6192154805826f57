//! The outcomes of a run over many keys: lines and a table for people, or JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::failure::{Failure, Result, shown, text_of};
use super::report::{grouped, print_line, warn};

/// The outcome of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Returns the name in lines, tables and JSON.
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
        let text = text.map_or(String::new(), |text| format!(": {text}"));
        let line = format!("{} {}{text}", self.fate.name(), shown(&self.key));
        if self.fate == Fate::Refused {
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
    /// All outcomes but [`Fate::Same`].
    pub listed: Vec<Outcome>,
}

impl Outcomes {
    pub fn add(&mut self, outcome: Outcome) {
        let totals = self.types.entry(outcome.kind.clone()).or_default();
        *totals.keys.entry(outcome.fate).or_default() += 1;
        totals.bytes += outcome.bytes.unwrap_or(0);
        if outcome.fate != Fate::Same {
            self.listed.push(outcome);
        }
    }

    /// Returns the number of keys.
    fn keys(&self) -> u64 {
        let types = self.types.values();
        types.flat_map(|totals| totals.keys.values()).sum()
    }

    /// Requires that no listed key has a fate that counts as a failure, which `what` describes: of one key, and of several.
    pub fn require_none(&self, is_failure: impl Fn(Fate) -> bool, what: [&str; 2]) -> Result<()> {
        let fates = self.listed.iter().map(|outcome| outcome.fate);
        let count = fates.filter(|fate| is_failure(*fate)).count() as u64;
        if count == 0 {
            return Ok(());
        }
        let what = what[usize::from(count > 1)];
        let (count, keys) = (grouped(count), grouped(self.keys()));
        Err(Failure::new(format!("{count} of {keys} keys {what}")))
    }

    /// Prints the totals of each type, in columns of these widths. A width for bytes adds a column.
    pub fn print_table(&self, fates: &[(Fate, usize)], bytes_width: Option<usize>) {
        let row = |kind: &str, cell: &dyn Fn(Fate) -> String, bytes: &str| {
            let cells = fates.iter();
            let cells = cells.map(|&(fate, width)| format!("{:>width$}", cell(fate)));
            let cells = cells.chain(bytes_width.map(|width| format!("{bytes:>width$}")));
            print_line(format_args!("{kind:<10}{}", cells.collect::<String>()));
        };
        row("type", &|fate| fate.name().to_owned(), "bytes");
        for (kind, totals) in &self.types {
            let bytes = grouped(totals.bytes);
            row(kind, &|fate| grouped(totals.of(fate)), &bytes);
        }
    }

    /// Returns the number of keys of each type, by outcome, as JSON.
    pub fn types_json(&self, fates: &[(Fate, usize)]) -> Value {
        let types = self.types.iter().map(|(kind, totals)| {
            let fates = fates.iter();
            let counts = fates.map(|(fate, _)| (fate.name().to_owned(), totals.of(*fate).into()));
            (kind.clone(), Value::Object(counts.collect()))
        });
        Value::Object(types.collect())
    }

    /// Returns the listed outcomes as JSON.
    pub fn keys_json(&self) -> Value {
        let keys = self.listed.iter().map(|outcome| {
            let mut object = json!({
                "key": text_of(&outcome.key),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcomes of this many keys, all of them the same but the first ones, which differ.
    fn outcomes(different: u32, keys: u32) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for index in 0..keys {
            let is_same = index >= different;
            outcomes.add(Outcome {
                key: index.to_string().into_bytes(),
                kind: "bloomfltr".to_owned(),
                fate: if is_same { Fate::Same } else { Fate::Different },
                reason: None,
                bytes: None,
            });
        }
        outcomes
    }

    #[test]
    fn failures_are_counted_among_all_keys() {
        let require = |different, keys| {
            let is_failure = |fate| fate == Fate::Different;
            let found = outcomes(different, keys).require_none(is_failure, ["is", "are"]);
            found.map_err(|failure| failure.to_string())
        };
        assert_eq!(require(0, 2), Ok(()));
        assert_eq!(require(1, 3), Err("1 of 3 keys is".to_owned()));
        assert_eq!(
            require(1000, 2000),
            Err("1,000 of 2,000 keys are".to_owned())
        );
    }

    #[test]
    fn keys_that_are_the_same_are_counted_and_not_listed() {
        let outcomes = outcomes(1, 3);
        let columns = [Fate::Same, Fate::Different, Fate::Changing].map(|fate| (fate, 10));
        assert_eq!(
            outcomes.types_json(&columns),
            json!({ "bloomfltr": { "same": 2, "different": 1, "changing": 0 } })
        );
        assert_eq!(
            outcomes.keys_json(),
            json!([{ "key": "0", "type": "bloomfltr", "outcome": "different", "reason": null }])
        );
    }
}
