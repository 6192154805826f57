//! A filter that begins with room for one key, and doubles again and again.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::Object;
use valkeybloom_testing::support::{Rng, items, object, params};

use crate::keys::{add, decimal, found, sample};
use crate::rates::most_by_chance;
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

/// A filter that grows.
struct Growing {
    filter: Object,
    /// The keys that it has got.
    keys: u64,
    /// The other keys that it claimed when it was last measured.
    claimed: u64,
}

/// What was found in filters at a doubling.
#[derive(Default)]
struct Found {
    checked: u64,
    missing: u64,
    /// The other keys that were claimed, and those among them that were not claimed at the last doubling.
    claimed: u64,
    newly: u64,
}

impl Growing {
    fn new(seed: Seed) -> Self {
        Self {
            filter: object(&params(1, RATE, 2), seed),
            keys: 0,
            claimed: 0,
        }
    }

    /// Adds keys until this many more were new.
    fn grow(&mut self, new: u64) {
        let end = items(&self.filter) + new;
        while items(&self.filter) < end {
            let more = end - items(&self.filter);
            add(&mut self.filter, self.keys..self.keys + more, decimal, 0);
            self.keys += more;
        }
    }

    fn claims(&self, lookups: u64) -> u64 {
        found(&self.filter, OTHERS..OTHERS + lookups, decimal, 0)
    }

    fn measure(&mut self, lookups: u64, sum: &mut Found) {
        for numbers in sample(self.keys, SAMPLE) {
            let keys = numbers.end - numbers.start;
            sum.checked += keys;
            sum.missing += keys - found(&self.filter, numbers, decimal, 0);
        }
        let claimed = self.claims(lookups);
        sum.claimed += claimed;
        sum.newly += claimed - self.claimed;
        self.claimed = claimed;
    }
}

#[allow(clippy::cast_precision_loss, reason = "few doublings")]
pub(crate) fn run(table: &mut Table) {
    let doublings = u64::from(scaled(KEYS).ilog2());
    let mut rng = Rng::new(4);
    let mut filters: Vec<_> = (0..1000).map(|_| Growing::new(rng.seed())).collect();
    let (mut rows, mut all_hold, mut missing) = (Vec::new(), true, 0);
    for doubling in 0..=doublings {
        if doubling == 12 {
            filters.truncate(1);
            // From now on, it is looked up more often.
            filters[0].claimed = filters[0].claims(scaled(LOOKUPS));
        }
        let lookups = scaled(LOOKUPS) / filters.len() as u64;
        let mut sum = Found::default();
        for growing in &mut filters {
            // Each filter of the stack is measured when it is full, and the last one when it has begun.
            let is_last = doubling == doublings;
            growing.grow(if is_last { 1 } else { 1 << doubling });
            growing.measure(lookups, &mut sum);
            let count = growing.filter.filter_count();
            assert_eq!(count, doubling + 1, "it has doubled");
        }
        let lookups = lookups * filters.len() as u64;
        let most_claimed = most_by_chance(RATE, lookups);
        // Filter i of a stack has this share of the rate: the shares of all add up to one.
        let share = 1.0 / ((doubling + 1) * (doubling + 2)) as f64;
        let most_newly = most_by_chance(RATE * share, lookups);
        missing += sum.missing;
        all_hold &= sum.missing == 0 && sum.claimed <= most_claimed && sum.newly <= most_newly;
        let of = |found, of| format!("{} of {}", grouped(found), grouped(of));
        rows.push([
            doubling.to_string(),
            grouped(filters[0].keys),
            filters.len().to_string(),
            of(sum.missing, sum.checked),
            grouped(lookups),
            of(sum.claimed, most_claimed),
            of(sum.newly, most_newly),
        ]);
    }
    table.claim(
        &format!("A filter that doubles {doublings} times: no key is missing, and others are found at most at the requested rate"),
        &format!("{} keys, {missing} missing", grouped(filters[0].keys)),
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
