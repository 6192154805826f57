//! The overlap of filters that hold the same items.
//!
//! An item that is added in each period of a window sets the same bits in each period's filter, if the filters have
//! one size. Then all of them claim the same false positives, and their rates do not add up.

use std::collections::HashMap;

use crate::bloom::stack::Effort;
use crate::number::{exp, to_double};

use super::view::View;

/// Roughly the most filters sampled.
const FILTERS: usize = 256;

/// The fewest synthetic items.
const ITEMS: usize = 64;

/// The intended number of lookups in small filters. They take no longer than fewer lookups in large ones.
const LOOKUPS: usize = 24_576;

/// The effort of a probe in a large filter, which is likely to miss the caches, relative to one in a small filter.
const LARGE_EFFORT: u64 = 16;

/// Returns the factor by which overlap shrinks the logarithm of the share of items that no filter claims: 1 if the
/// filters hold different items, `1/n` if all `n` hold the same.
///
/// Also returns 1 if `effort` is spent before the end.
pub fn factor(all: &[View], effort: &Effort) -> f64 {
    // An odd stride reaches all of a period's filters, which are few.
    let stride = (all.len() / FILTERS) | 1;
    let filters: Vec<View> = all.iter().copied().step_by(stride).collect();
    let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
    let key = |index: usize| filters[index].filter().merge_key();
    for index in 0..filters.len() {
        alike.entry(key(index)).or_default().push(index);
    }
    if alike.len() == filters.len() {
        return 1.0;
    }
    let small = filters.iter().all(|filter| !filter.is_large());
    let items = if small {
        (LOOKUPS / filters.len()).clamp(ITEMS, 8 * ITEMS)
    } else {
        ITEMS
    };
    let items = to_double(items as u64);
    let rates: Vec<f64> = filters
        .iter()
        .map(|filter| filter.filter().estimated_rate())
        .collect();
    let sum: f64 = rates.iter().sum();
    let stride = to_double(stride as u64);
    let (mut found, mut expected) = (0.0, 0.0);
    let (mut random, mut passed, mut next) = (0, 0.0, 0.5);
    for (index, filter) in filters.iter().enumerate() {
        passed += rates[index] / sum * items;
        let others = || alike[&key(index)].iter().filter(|at| **at != index);
        // The expected number of others that claim such an item by chance.
        let chance = others().map(|at| rates[*at]).sum::<f64>() * stride;
        // Each filter contributes items in proportion to its rate.
        while next < passed {
            next += 1.0;
            let is_in_use = |view: &View, position| {
                effort.spend(if view.is_large() { LARGE_EFFORT } else { 1 });
                view.is_in_use(position)
            };
            let positions = filter
                .filter()
                .claimed_positions(|position| is_in_use(filter, position), &mut random);
            let Some(positions) = positions else {
                continue;
            };
            let claims = |at: &&usize| positions.iter().all(|p| is_in_use(&filters[**at], *p));
            let claiming = to_double(others().filter(claims).count() as u64) * stride;
            if effort.is_spent() {
                return 1.0;
            }
            found += 1.0 / (1.0 + claiming);
            expected += if chance > 1e-9 {
                (1.0 - exp(-chance)) / chance
            } else {
                1.0
            };
        }
    }
    if expected > 0.0 {
        (found / expected).min(1.0)
    } else {
        1.0
    }
}
