//! Whether the files hold enough items to put a new value in place: one function for each rule.

use crate::failure::{Failure, Result};
use crate::report::grouped;

/// Requires the items that a first pass over the files counted.
pub fn require_counted(counted: u64, items: u64) -> Result<()> {
    require(items >= counted, || {
        let (first, second) = (grouped(counted), grouped(items));
        format!("the files changed while they were read: {first} items at first, then {second}")
    })
}

/// Requires an item.
pub fn require_any(items: u64) -> Result<()> {
    require(items > 0, || {
        "there are no items: to build it without any, add --allow-few".to_owned()
    })
}

/// Requires half of the items that `--items` promises.
pub fn require_promised(promised: u64, items: u64) -> Result<()> {
    require(items >= promised / 2, || {
        let (promised, items) = (grouped(promised), grouped(items));
        format!("there are only {items} items, not {promised}: if they are all, add --allow-few")
    })
}

/// Requires half of the items that are to be replaced.
pub fn require_replaced(to_replace: u64, items: u64) -> Result<()> {
    require(items >= to_replace / 2, || {
        let (to_replace, items) = (grouped(to_replace), grouped(items));
        format!(
            "there are only {items} items, and {to_replace} would be replaced: if they are all, add --allow-few"
        )
    })
}

fn require(is_enough: bool, text: impl FnOnce() -> String) -> Result<()> {
    if is_enough {
        Ok(())
    } else {
        Err(Failure::new(text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_begins_to_hold_at_its_bound() {
        type Rule = fn(u64, u64) -> Result<()>;
        let rules: [(Rule, u64, u64); 4] = [
            (require_counted, 1000, 1000),
            (|_, items| require_any(items), 1000, 1),
            (require_promised, 1001, 500),
            (require_replaced, 1001, 500),
        ];
        for (rule, expected, enough) in rules {
            rule(expected, enough).expect("enough items");
            rule(expected, enough - 1).expect_err("an item is missing");
            rule(0, 1).expect("nothing is expected");
        }
    }
}
