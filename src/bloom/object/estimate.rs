//! The error rate of an object, estimated from what is in it.
//!
//! The equations tell the rate of a filter from the share of its bits that are set. Filters of a few items are
//! asked as well, for so many items as take a fraction of a millisecond.

use crate::bloom::filter::{Filter, Likely};
use crate::bloom::hash::Batch;
use crate::bloom::stack::claims;

/// So many filters are asked at most. The rates of a stack's filters fall: those behind have little of it.
const FILTERS: usize = 64;

/// For so many items is asked at most, about.
const MOST_QUESTIONS: f64 = 65_536.0;

/// The standard deviation of what is found, as a share of it: asked for less, as there is no need for more;
/// and the largest that is better than what the equations tell.
const DEVIATION: f64 = 0.04;
const MOST_DEVIATION: f64 = 0.12;

/// A filter that is asked.
struct Asked<'f> {
    filter: &'f Filter,
    /// Its rate by the equations.
    rate: f64,
    /// Items that it is asked for, and the share of all items that are such.
    likely: Likely,
    share: f64,
}

impl<'f> Asked<'f> {
    /// A filter of few items that claims any.
    fn new(filter: &'f Filter) -> Option<Self> {
        let rate = filter.estimated_rate();
        (rate > 0.0).then(|| {
            let (likely, share) = filter.likely();
            Self {
                filter,
                rate,
                likely,
                share,
            }
        })
    }

    /// The standard deviation of one answer, weighted by the share of items that it stands for.
    fn deviation(&self) -> f64 {
        (self.share * self.rate).sqrt()
    }
}

/// The error rate of filters, given what it is by the equations.
pub fn rate<'f>(by_equations: f64, filters: impl Iterator<Item = &'f Filter>) -> f64 {
    let few = filters.filter(|filter| filter.holds_few()).take(FILTERS);
    let mut few: Vec<_> = few.filter_map(Asked::new).collect();
    let many = few.len() == FILTERS;
    let questions = loop {
        if few.is_empty() {
            return by_equations;
        }
        // Asked in proportion to the deviations of their answers, they tell the most (Neyman 1934).
        let deviations: f64 = few.iter().map(Asked::deviation).sum();
        let relative = deviations / few.iter().map(|asked| asked.rate).sum::<f64>();
        if relative <= MOST_DEVIATION * MOST_QUESTIONS.sqrt() {
            let enough = (relative / DEVIATION) * (relative / DEVIATION);
            break enough.min(MOST_QUESTIONS) / deviations;
        }
        few.pop();
    };
    // The share of items that any of these filters claims; by the equations, that none of them does.
    let (mut found, mut free) = (0.0, 1.0);
    for (index, asked) in few.iter().enumerate() {
        let questions = (questions * asked.deviation()).ceil();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "few questions"
        )]
        let mut probes = asked.likely.probes(questions as u32);
        loop {
            let batch = Batch::of_probes(&mut probes);
            if batch.len() == 0 {
                break;
            }
            // Each item counts for the first filter that claims it: filters of one size may claim the same ones.
            let mut claimed = claims(&batch, asked.filter, batch.mask_from(0));
            for older in &few[..index] {
                claimed &= !claims(&batch, older.filter, claimed);
            }
            found += asked.share / questions * f64::from(claimed.count_ones());
        }
        free *= 1.0 - asked.rate;
    }
    if free <= 0.0 {
        return by_equations;
    }
    let mut others = 1.0 - (1.0 - by_equations) / free;
    // Of so many, those that were not asked are likely to be off as much as those that were.
    if many {
        others *= found / (1.0 - free);
    }
    1.0 - (1.0 - found) * (1.0 - others.clamp(0.0, 1.0))
}
