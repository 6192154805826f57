//! A piece of advice: what to do about a key, and the command; and what the advice on several families shares.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

use valkeybloom_near::slot_prefix;

use super::reason;
use crate::failure::word;
use crate::held::limits::{Limit, Settings, Sizes};
use crate::held::row::Row;
use crate::report::{grouped, ratio};

/// A value is near its limit from this share on.
const NEAR: f64 = 0.9;

/// A piece of advice.
pub struct Advice {
    /// What is true of the key, and what to do about it.
    pub reason: String,
    /// The command to begin with.
    pub command: String,
}

impl Advice {
    const fn new(reason: String, command: String) -> Self {
        Self { reason, command }
    }

    /// Advises to delete a key.
    pub fn unlink(row: &Row, reason: String) -> Self {
        Self::new(reason, format!("UNLINK {}", word(&row.key)))
    }

    /// Advises to raise limits to these values.
    pub fn raise(reason: String, limits: &[Limit]) -> Self {
        let raised = limits.iter();
        let raised = raised.map(|limit| format!(" {} {}", limit.name, limit.bytes));
        Self::new(reason, format!("CONFIG SET{}", raised.collect::<String>()))
    }

    /// Advises to make a value of these sizes. Limits that refuse it are raised first.
    pub fn make(reason: String, command: String, sizes: Sizes, settings: Settings) -> Self {
        let refusing = &settings.exceeded(sizes)[..];
        let refuse = match refusing {
            [] => return Self::new(reason, command),
            [_] => "refuses",
            _ => "refuse",
        };
        let reason = reason::limited(reason, names(refusing), refuse);
        Self::raise(reason, refusing)
    }

    pub fn json(&self) -> Value {
        json!({ "reason": self.reason, "command": self.command })
    }
}

impl Display for Advice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.command)
    }
}

/// Returns the names of limits as one text.
pub fn names(limits: &[Limit]) -> String {
    let names: Vec<&str> = limits.iter().map(|limit| limit.name).collect();
    names.join(" and ")
}

/// Returns the share of a limit that is taken, if it is near.
pub fn near(taken: u64, limit: u64) -> Option<String> {
    let share = if limit == 0 { 1.0 } else { ratio(taken, limit) };
    (share >= NEAR).then(|| format!("{:.1} %", share * 100.0))
}

/// Warns of a value that grows, and whose bytes are near a limit.
pub fn near_memory(sizes: Option<Sizes>, settings: Settings) -> Option<Advice> {
    let nearest = settings.nearest(sizes?)?;
    let Limit { name, bytes } = nearest.limit;
    let share = near(nearest.needed, bytes)?;
    let reason = reason::near_memory(share, name, grouped(bytes));
    Some(Advice::raise(reason, &[nearest.raised()]))
}

/// Returns the capacity to reserve for a number of items: half as many again.
pub fn with_headroom(items: u64) -> u64 {
    items.saturating_add(items / 2).max(1)
}

/// Returns a name for the successor of a key, in the same slot of a cluster, so that it can be renamed.
pub fn new_key(row: &Row) -> String {
    word(&[&slot_prefix(&row.key)[..], b":new"].concat()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_a_line_or_an_object() {
        let advice = Advice::new("why; what".to_owned(), "UNLINK k".to_owned());
        assert_eq!(advice.to_string(), "why; what: UNLINK k");
        let object = json!({ "reason": "why; what", "command": "UNLINK k" });
        assert_eq!(advice.json(), object);
    }
}
