//! A filter that begins with room for one key, and doubles again and again.

use valkeybloom_testing::support::{Rng, items, object, params};

use crate::keys::{add, decimal, found, sample};
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

/// The most keys that are looked up at each doubling.
const SAMPLE: u64 = 1 << 23;

#[allow(clippy::cast_precision_loss, reason = "few doublings")]
pub(crate) fn run(table: &mut Table) {
    let doublings = u64::from(scaled(KEYS).ilog2());
    let mut rng = Rng::new(4);
    // Filters, the number of keys that each has got, and how many others each has claimed.
    let small = (0..1000).map(|_| (object(&params(1, RATE, 2), rng.seed()), 0, 0));
    let mut filters: Vec<_> = small.collect();
    let (mut rows, mut all_hold, mut all_missing) = (Vec::new(), true, 0);
    for doubling in 0..=doublings {
        if doubling == 12 {
            filters.truncate(1);
            // It is looked up more often than before.
            filters[0].2 = found(&filters[0].0, OTHERS..OTHERS + scaled(LOOKUPS), decimal, 0);
        }
        let lookups = scaled(LOOKUPS) / filters.len() as u64;
        // Each filter of the stack is measured when it is full, and the last one when it has begun.
        let new = if doubling < doublings {
            1 << doubling
        } else {
            1
        };
        let (mut checked, mut present, mut claimed, mut newly) = (0, 0, 0, 0);
        for (filter, keys, before) in &mut filters {
            let end = items(filter) + new;
            while items(filter) < end {
                let more = end - items(filter);
                add(filter, *keys..*keys + more, decimal, 0);
                *keys += more;
            }
            assert_eq!(filter.filter_count(), doubling + 1, "it has doubled");
            for numbers in sample(*keys, SAMPLE) {
                checked += numbers.end - numbers.start;
                present += found(filter, numbers, decimal, 0);
            }
            let others = found(filter, OTHERS..OTHERS + lookups, decimal, 0);
            claimed += others;
            newly += others - *before;
            *before = others;
        }
        let (missing, lookups) = (checked - present, lookups * filters.len() as u64);
        let allowed = most(RATE, lookups);
        // Filter i of a stack has this share of the rate: the shares of all add up to one.
        let share = 1.0 / ((doubling + 1) * (doubling + 2)) as f64;
        let newly_allowed = most(RATE * share, lookups);
        all_hold &= missing == 0 && claimed <= allowed && newly <= newly_allowed;
        all_missing += missing;
        rows.push([
            doubling.to_string(),
            grouped(filters[0].1),
            filters.len().to_string(),
            format!("{} of {}", grouped(missing), grouped(checked)),
            grouped(lookups),
            format!("{} of {}", grouped(claimed), grouped(allowed)),
            format!("{} of {}", grouped(newly), grouped(newly_allowed)),
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
        "found, of those allowed",
        "by the newest filter alone",
    ];
    table.details("Growth", columns, &rows);
}
