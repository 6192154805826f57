//! The error rate of an object, estimated from its contents.

use std::iter;

use crate::bloom::filter::next_random;
use crate::bloom::stack::{Effort, claims_counted};
use crate::hash::{BATCH, Batch, Probe};
use crate::number::{either, expm1, ln_1p, to_double};

use super::overlap;
use super::view::View;

/// The most positions in use that are looked at to compare filters, and by lookups of synthetic items.
const POSITIONS: u64 = 1 << 19;

/// The most lookups of synthetic items, in one filter each.
const LOOKUPS: u64 = 1 << 20;

/// The most synthetic items that are looked up.
const ITEMS: u64 = 1 << 16;

/// The number of claimed items from which on their share is closer to the rate than the equations: its standard
/// deviation is less than a fifth of it.
const ENOUGH: u64 = 32;

/// Returns the error rate of filters, given the rate that the equations yield if the filters hold different items.
pub fn rate<'f>(by_equations: f64, filters: impl Iterator<Item = View<'f>>) -> f64 {
    let all: Vec<View> = filters.collect();
    let (few, others): (Vec<View>, Vec<View>) =
        all.iter().partition(|view| view.filter().holds_few());
    let of_few = either(few.iter().map(|view| view.filter().estimated_rate()));
    match sampled_rate(&few) {
        Some(sampled) if of_few < 1.0 => {
            let of_others = (1.0 - (1.0 - by_equations) / (1.0 - of_few)).clamp(0.0, 1.0);
            either([sampled, rate_together(of_others, &others)].into_iter())
        }
        _ => rate_together(by_equations, &all),
    }
}

/// Returns the rate of filters that may share items, given the rate that they have if they share none.
fn rate_together(rate: f64, filters: &[View]) -> f64 {
    let factor = overlap::factor(filters, &Effort::of(POSITIONS));
    let together = -expm1(factor * ln_1p(-rate));
    if together.is_finite() { together } else { rate }
}

/// Measures the error rate of small filters by lookups of synthetic items. Returns `None` if too few are claimed.
fn sampled_rate(filters: &[View]) -> Option<f64> {
    let batches = LOOKUPS.checked_div(filters.len() as u64)?.min(ITEMS) / BATCH as u64;
    let mut effort = Effort::of(POSITIONS);
    let mut random = 0;
    let mut probes =
        iter::repeat_with(|| Probe::new(next_random(&mut random), next_random(&mut random)));
    let (mut items, mut claimed) = (0, 0);
    for _ in 0..batches {
        let batch = Batch::of_probes(&mut probes);
        let mut left = u64::MAX;
        for view in filters {
            left &= !claims_counted(&batch, view.filter(), left, &mut effort);
        }
        // Items whose lookups were cut short count as claimed.
        if effort.is_spent() {
            break;
        }
        items += BATCH as u64;
        claimed += u64::from(left.count_zeros());
    }
    (claimed >= ENOUGH).then(|| to_double(claimed) / to_double(items))
}
