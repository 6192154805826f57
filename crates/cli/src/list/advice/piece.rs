//! A piece of advice: what to do about a key, and the command; and what the advice on several families shares.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

use valkeybloom_near::slot_prefix;

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
    fn new(why: &str, what: &str, command: String) -> Self {
        let reason = format!("{why}; {what}");
        Self { reason, command }
    }

    /// Advises to delete a key.
    pub fn unlink(row: &Row, why: &str, what: &str) -> Self {
        Self::new(why, what, format!("UNLINK {}", word(&row.key)))
    }

    /// Advises to raise limits to these values.
    pub fn raise(why: &str, limits: &[Limit]) -> Self {
        let what = number_of(limits, "raise the limit", "raise the limits");
        Self::new(why, what, setting(limits))
    }

    /// Advises to make a value of these sizes. Limits that are too low for it are raised first.
    pub fn make(why: &str, what: &str, command: String, sizes: Sizes, settings: Settings) -> Self {
        let too_low = &settings.exceeded(sizes)[..];
        if too_low.is_empty() {
            return Self::new(why, what, command);
        }
        let are = number_of(too_low, "is", "are");
        let names = names(too_low);
        let what = format!("{what}; first raise {names}, which {are} too low for it");
        Self::new(why, &what, setting(too_low))
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

/// Returns the word for one limit, or for several.
pub const fn number_of(limits: &[Limit], one: &'static str, several: &'static str) -> &'static str {
    if limits.len() == 1 { one } else { several }
}

/// Returns the command that sets limits.
fn setting(limits: &[Limit]) -> String {
    let words = limits.iter();
    let words = words.map(|limit| format!(" {} {}", limit.name, limit.bytes));
    format!("CONFIG SET{}", words.collect::<String>())
}

/// Returns whether a value is near its limit.
pub fn is_near(&(taken, limit): &(u64, u64)) -> bool {
    limit == 0 || ratio(taken, limit) >= NEAR
}

/// Warns of a value that grows, and whose bytes are near a limit.
pub fn near_memory(sizes: Option<Sizes>, settings: Settings) -> Option<Advice> {
    let nearest = settings.nearest(sizes?);
    let nearest = nearest.filter(|nearest| nearest.share() >= NEAR)?;
    let (needed, most) = (grouped(nearest.needed), grouped(nearest.limit.bytes));
    let why = format!(
        "it has {needed} bytes, and {} allows {most}",
        nearest.limit.name
    );
    Some(Advice::raise(&why, &[nearest.raised()]))
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
        let advice = Advice::new("why", "what", "UNLINK k".to_owned());
        assert_eq!(advice.to_string(), "why; what: UNLINK k");
        let object = json!({ "reason": "why; what", "command": "UNLINK k" });
        assert_eq!(advice.json(), object);
    }
}
