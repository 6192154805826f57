//! Whether the files hold enough items to put a new value in place: one function for each rule.

use crate::failure::{Failure, Result};
use crate::report::{counted as number_of, grouped};

/// Requires the items that a first pass over the files counted.
pub fn require_counted(counted: u64, items: u64) -> Result<()> {
    require(items >= counted, || {
        let (first, second) = (number_of(counted, "item"), grouped(items));
        format!("the files changed while they were read: {first} at first, then {second}")
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
        let (promised, there_are) = (grouped(promised), there_are_only(items));
        format!("{there_are}, not {promised}: if they are all, add --allow-few")
    })
}

/// Requires half of the items that are to be replaced.
pub fn require_replaced(to_replace: u64, items: u64) -> Result<()> {
    require(items >= to_replace / 2, || {
        let (to_replace, there_are) = (grouped(to_replace), there_are_only(items));
        format!("{there_are}, and {to_replace} would be replaced: if they are all, add --allow-few")
    })
}

/// Returns a text like "there are only 5 items".
fn there_are_only(items: u64) -> String {
    let be = if items == 1 { "is" } else { "are" };
    format!("there {be} only {}", number_of(items, "item"))
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

    #[test]
    fn one_item_is_named_in_the_singular() {
        let found = require_promised(1000, 1).expect_err("too few").to_string();
        assert!(
            found.starts_with("there is only 1 item, not 1,000: "),
            "{found}"
        );
        let found = require_counted(1, 0).expect_err("too few").to_string();
        assert!(found.ends_with(": 1 item at first, then 0"), "{found}");
    }
}
