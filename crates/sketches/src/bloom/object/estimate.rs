//! The error rate of an object, estimated from what is in it.
//!
//! The equations tell the rate of a filter from the share of its bits that are set. Filters of a few items are
//! asked as well, for so many items as take a fraction of a millisecond.

use crate::bloom::filter::{Filter, Likely};
use crate::bloom::stack::{Effort, claims_counted};
use crate::hash::Batch;
use crate::number::{expm1, ln_1p, to_double};

use super::overlap;
use super::view::View;

/// So many filters are asked at most. The rates of a stack's filters fall: those behind have little of it.
const FILTERS: usize = 64;

/// For so many items is asked at most, about.
const MOST_QUESTIONS: f64 = 65_536.0;

/// The most positions that an estimate looks at. Where they do not suffice, as for forged filters of very many hash
/// functions, the equations alone serve.
const POSITIONS: u64 = 1 << 20;

/// The standard deviation of what is found, as a share of it: asked for less, as there is no need for more;
/// and the largest that is better than what the equations tell.
const DEVIATION: f64 = 0.04;
const MOST_DEVIATION: f64 = 0.12;

/// So many claims of all filters are compared, about.
const COMPARED: f64 = 2048.0;

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

/// The error rate of filters, given what it is by the equations if they hold different items.
pub fn rate<'f>(by_equations: f64, filters: impl Iterator<Item = View<'f>>) -> f64 {
    let all: Vec<View> = filters.collect();
    let mut effort = Effort::of(POSITIONS);
    // Those of few items have their own bits.
    let few = all
        .iter()
        .filter(|view| view.filter().holds_few())
        .take(FILTERS);
    let mut few: Vec<_> = few.filter_map(|view| Asked::new(view.filter())).collect();
    let many = few.len() == FILTERS;
    let questions = loop {
        if few.is_empty() {
            return together(by_equations, overlap::factor(&all, &effort));
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
    let most_compared = COMPARED / to_double(few.len() as u64);
    // The share of items that any of these filters claims; and that none of them would if they were independent,
    // by what was found of each, and by the equations.
    let (mut found, mut free, mut expected) = (0.0, 1.0, 1.0);
    for (index, asked) in few.iter().enumerate() {
        let questions = (questions * asked.deviation()).ceil();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "few questions"
        )]
        let mut probes = asked.likely.probes(questions as u32, index as u64);
        let mut claims_of_it = 0.0;
        // Of these claims, some are looked up in the others, too. What several filters claim counts as a part for
        // each: those of one size may claim the same items.
        let (mut compared, mut parts) = (0.0, 0.0);
        loop {
            let batch = Batch::of_probes(&mut probes);
            if batch.len() == 0 {
                break;
            }
            let candidates = batch.mask_from(0);
            let claimed = claims_counted(&batch, asked.filter, candidates, &mut effort);
            claims_of_it += f64::from(claimed.count_ones());
            for item in (0..batch.len()).filter(|item| claimed >> item & 1 == 1) {
                if compared >= most_compared {
                    break;
                }
                let probe = batch.probe(item);
                let others = few.iter().enumerate().filter(|(other, _)| *other != index);
                let mut claiming = 1.0_f64;
                for (_, other) in others {
                    let in_use = other.filter.leading_in_use(probe);
                    effort.spend(u64::from(in_use) + 1);
                    claiming += f64::from(u8::from(in_use == other.filter.hashes()));
                }
                compared += 1.0;
                parts += claiming.recip();
            }
            if effort.is_spent() {
                return by_equations;
            }
        }
        let alone = asked.share / questions * claims_of_it;
        if compared > 0.0 {
            found += alone * parts / compared;
        }
        free *= 1.0 - alone;
        expected *= 1.0 - asked.rate;
    }
    if expected <= 0.0 || free <= 0.0 || found >= 1.0 {
        return by_equations;
    }
    if many {
        // Those that were not asked are likely to be off as much as those that were, and to claim together as much.
        let asked: Vec<View> = few
            .iter()
            .map(|asked| View::new(asked.filter, None))
            .collect();
        let off = ln_1p(free - 1.0) / ln_1p(expected - 1.0);
        let shared = ln_1p(-found) / ln_1p(free - 1.0) / overlap::factor(&asked, &effort);
        return together(by_equations, off * shared * overlap::factor(&all, &effort));
    }
    let asked = |view: &View| {
        few.iter()
            .any(|asked| std::ptr::eq(asked.filter, view.filter()))
    };
    let others: Vec<View> = all.into_iter().filter(|view| !asked(view)).collect();
    let of_others = (1.0 - (1.0 - by_equations) / expected).clamp(0.0, 1.0);
    1.0 - (1.0 - found) * (1.0 - together(of_others, overlap::factor(&others, &effort)))
}

/// The rate where the logarithm of the share that is not claimed is so many times what the rate has.
fn together(rate: f64, factor: f64) -> f64 {
    if factor.is_finite() {
        -expm1(factor * ln_1p(-rate))
    } else {
        rate
    }
}
