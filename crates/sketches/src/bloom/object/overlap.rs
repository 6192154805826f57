//! What filters claim together because they hold the same items.
//!
//! An item that comes again in each period of a window sets the same bits in each period's filter, if these are of
//! one size. Then all of them claim the same strangers, and their rates do not add up.

use std::collections::HashMap;

use crate::bloom::stack::Effort;
use crate::number::{exp, to_double};

use super::view::View;

/// So many filters are looked at, at most and about.
const FILTERS: usize = 256;

/// For so many made-up items, at least.
const ITEMS: usize = 64;

/// So many lookups in small filters take no longer than fewer in large ones.
const LOOKUPS: usize = 24_576;

/// A position of a large filter, which is likely to miss the caches, counts as so many others.
const OF_LARGE: u64 = 16;

/// By how much the logarithm of the share of items that no filter claims is smaller than if they held different
/// items: 1 where they do, `1/n` where all `n` hold the same.
///
/// 1 as well where more positions would have to be looked at than `effort` has left.
pub fn factor(all: &[View], effort: &Effort) -> f64 {
    // Of a period's filters, which are few, all are among those that are looked at.
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
        // How many others claim such an item by chance, in the mean.
        let chance = others().map(|at| rates[*at]).sum::<f64>() * stride;
        // Each filter is asked for items in proportion to its rate.
        while next < passed {
            next += 1.0;
            let is_in_use = |view: &View, position| {
                effort.spend(if view.is_large() { OF_LARGE } else { 1 });
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
