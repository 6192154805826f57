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
const LOOKUPS: u64 = 4_000_000;

/// Keys of large filters that are looked up at each doubling: this many runs of them, evenly spread, of this length. Of
/// smaller filters, all are.
const RUNS: u64 = 32;
const RUN: u64 = 1 << 18;

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
        // Each filter of the stack is measured when it is full, and the last one when it has begun.
        let new = if doubling < doublings {
            1 << doubling
        } else {
            1
        };
        let (mut checked, mut present, mut claimed) = (0, 0, 0);
        for (filter, keys) in &mut filters {
            let end = items(filter) + new;
            while items(filter) < end {
                let more = end - items(filter);
                add(filter, *keys..*keys + more, decimal, 0);
                *keys += more;
            }
            assert_eq!(filter.filter_count(), doubling + 1, "it has doubled");
            let runs = if *keys > RUNS * RUN { RUNS } else { 1 };
            for run in 0..runs {
                let start = *keys / runs * run;
                let end = (*keys).min(start + RUN * RUNS / runs);
                checked += end - start;
                present += found(filter, start..end, decimal, 0);
            }
            claimed += found(filter, OTHERS..OTHERS + lookups, decimal, 0);
        }
        let (missing, lookups) = (checked - present, lookups * filters.len() as u64);
        let allowed = most(RATE, lookups);
        all_hold &= missing == 0 && claimed <= allowed;
        all_missing += missing;
        rows.push([
            doubling.to_string(),
            grouped(filters[0].1),
            filters.len().to_string(),
            format!("{} of {}", grouped(missing), grouped(checked)),
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
