//! A filter that begins with room for one key, and doubles again and again.

use valkeybloom_testing::support::{Rng, items, object, params};

use crate::keys::{add, decimal, found};
use crate::rates::most;
use crate::{Table, grouped, scaled};

const RATE: f64 = 0.01;

/// The keys after thirty doublings.
const KEYS: u64 = 1 << 30;

/// A number beyond those of the keys that are added.
const OTHERS: u64 = 1 << 40;

/// Lookups of other keys at each doubling. Those of a small filter are shared among a thousand with different seeds,
/// because chance makes a single one better or worse than its rate.
const LOOKUPS: u64 = 10_000_000;

pub(crate) fn run(table: &mut Table) {
    let doublings = u64::from(scaled(KEYS).ilog2());
    let mut rng = Rng::new(4);
    // Filters, and the number of keys that each has got.
    let small = (0..1000).map(|_| (object(&params(1, RATE, 2), rng.seed()), 0));
    let mut filters: Vec<_> = small.collect();
    let (mut rows, mut all_hold, mut all_missing) = (Vec::new(), true, 0);
    for doubling in 0..=doublings {
        if doubling == 10 {
            filters.truncate(1);
        }
        let lookups = scaled(LOOKUPS) / filters.len() as u64;
        let (mut missing, mut claimed) = (0, 0);
        for (filter, keys) in &mut filters {
            // Each filter of the stack is measured when it is full, and the last one when it has begun.
            let new = if doubling == doublings {
                1
            } else {
                1 << doubling
            };
            let end = items(filter) + new;
            while items(filter) < end {
                let more = end - items(filter);
                add(filter, *keys..*keys + more, decimal, 0);
                *keys += more;
            }
            assert_eq!(filter.filter_count(), doubling + 1, "it has doubled");
            missing += *keys - found(filter, 0..*keys, decimal, 0);
            claimed += found(filter, OTHERS..OTHERS + lookups, decimal, 0);
        }
        let lookups = lookups * filters.len() as u64;
        let allowed = most(RATE, lookups);
        all_hold &= missing == 0 && claimed <= allowed;
        all_missing += missing;
        rows.push([
            doubling.to_string(),
            grouped(filters[0].1),
            filters.len().to_string(),
            grouped(missing),
            grouped(lookups),
            grouped(claimed),
            grouped(allowed),
        ]);
    }
    table.claim(
        &format!(
            "A filter that doubles {doublings} times has every key and at most its rate of {RATE}, \
             before and after each growth"
        ),
        &format!("{} keys, {all_missing} missing", grouped(filters[0].1)),
        all_hold,
    );
    let columns = [
        "doublings",
        "keys",
        "filters",
        "missing",
        "lookups of others",
        "found",
        "allowed",
    ];
    table.details("Growth", columns, &rows);
}
