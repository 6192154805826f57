//! The distribution of contests, against the exact one and against draws one by one.

use std::collections::BTreeMap;

use valkeybloom_sketches::topk::{Chance, Collision, Contest, Decay, Derived, one_by_one};
use valkeybloom_sketches::work;

use crate::support::Rng;

use super::draw;

fn collision(count: u32, draws: u32, number: u64) -> Collision {
    Collision {
        fingerprint: 0x1234_5678,
        cell: 77,
        owner: 0x9abc_def0,
        count,
        draws,
        number,
    }
}

/// An outcome as a number: kept counts are positive, taken ones negative.
fn outcome(contest: Contest) -> i64 {
    match contest {
        Contest::Kept(count) => count.into(),
        Contest::Taken(left) => -i64::from(left),
    }
}

/// Returns the probability of each outcome, by following that of each count through all draws.
fn exact(decay: &Decay, count: u32, draws: u32) -> BTreeMap<i64, f64> {
    let losses: Vec<_> = (0..=count).map(|count| decay.probability(count)).collect();
    let mut kept = vec![0.0; count as usize + 1];
    kept[count as usize] = 1.0;
    let (mut low, mut high) = (count as usize, count as usize);
    let mut outcomes = BTreeMap::new();
    for left in (1..=draws).rev() {
        low = low.saturating_sub(1);
        for at in low..=high {
            // What has reached 0 is taken.
            kept[at] *= if at > 0 { 1.0 - losses[at] } else { 0.0 };
            if at < high {
                kept[at] += kept[at + 1] * losses[at + 1];
            }
        }
        if low == 0 {
            outcomes.insert(-i64::from(left), kept[0]);
            kept[0] = 0.0;
        }
        // Counts that hardly occur don't matter.
        while low < high && low > 0 && kept[low] < 1e-12 {
            kept[low] = 0.0;
            low += 1;
        }
        while high > low && kept[high] < 1e-12 {
            high -= 1;
        }
    }
    for (count, probability) in (0..).zip(&kept[..=high]).skip(low.max(1)) {
        outcomes.insert(count, *probability);
    }
    outcomes
}

/// Requires that samples fit their probabilities, by the chi-square of bins that are large enough. The deviation is
/// deterministic, so a test that passes once always does.
#[track_caller]
#[allow(clippy::cast_precision_loss, reason = "numbers of samples are small")]
fn assert_fits(samples: &mut [i64], probabilities: &BTreeMap<i64, f64>, what: &str) {
    let total: f64 = probabilities.values().sum();
    assert!((total - 1.0).abs() < 1e-6, "{what}: {total}");
    samples.sort_unstable();
    let number = samples.len() as f64;
    let (mut chi_square, mut bins, mut taken) = (0.0, 0, 0);
    let (mut expected, mut left) = (0.0, number);
    for (outcome, probability) in probabilities {
        expected += probability * number;
        if expected >= 25.0 && left - expected >= 25.0 {
            let end = samples.partition_point(|sample| sample <= outcome);
            let seen = (end - taken) as f64;
            chi_square += (seen - expected).powi(2) / expected;
            (bins, taken, left, expected) = (bins + 1, end, left - expected, 0.0);
        }
    }
    let seen = (samples.len() - taken) as f64;
    chi_square += (seen - left).powi(2) / left.max(1e-9);
    let freedom = f64::from(bins);
    let deviation = (chi_square - freedom) / (2.0 * freedom).max(1.0).sqrt();
    assert!(deviation < 4.0, "{what}: {chi_square} of {freedom}");
}

const SAMPLES: u64 = 20_000;

#[test]
fn contests_have_the_distribution_of_their_draws() {
    for (decay, count, draws) in [
        // Few draws.
        (0.9, 1, 1),
        (0.9, 3, 4),
        (0.5, 2, 3),
        // Few losses.
        (0.5, 1, 5),
        (0.5, 5, 100),
        (0.5, 12, 4000),
        (0.9, 20, 100),
        (0.9, 40, 1000),
        (0.9, 60, 1000),
        (0.9, 60, 30_000),
        (0.99, 500, 2000),
        (0.99, 700, 10_000),
        (0.99999, 1_000_000, 500_000),
        // Few draws without a loss.
        (0.99999, 20, 60),
        (0.99999, 1000, 900),
        (0.99999, 1000, 1015),
        (0.999, 100, 100),
        (0.999, 30, 29),
        // Many of both.
        (0.99, 100, 200),
        (0.99, 200, 300),
        (0.99, 300, 1500),
        (0.99, 300, 2000),
        (0.99, 400, 5000),
        (0.995, 300, 600),
        (0.999, 1000, 1000),
        (0.999, 1000, 1700),
        (0.999, 3000, 19_000),
        (0.9995, 1000, 1300),
        (0.9999, 3000, 3500),
        (0.99999, 5000, 4000),
        (0.99999, 5000, 5120),
        // Some losses one by one first.
        (0.9, 85, 100_000),
        (0.95, 120, 10_000),
        (0.97, 150, 3000),
        (0.97, 200, 14_000),
        (0.98, 150, 1000),
        (0.98, 300, 30_000),
    ] {
        let decay = Decay::new(decay).unwrap();
        let contest = |number| outcome(Derived.contest(&collision(count, draws, number), &decay));
        let mut samples: Vec<_> = (0..SAMPLES).map(contest).collect();
        let what = format!("{} {count} {draws}", decay.base());
        assert_fits(&mut samples, &exact(&decay, count, draws), &what);
    }
}

/// The exact distribution is that of the draws, too.
#[test]
fn draws_one_by_one_have_the_exact_distribution() {
    let mut rng = Rng::new(5);
    for (decay, count, draws) in [(0.9, 10, 30), (0.99, 60, 100), (0.999, 100, 120)] {
        let decay = Decay::new(decay).unwrap();
        let contest = |number| {
            let collision = collision(count, draws, number);
            outcome(one_by_one(&collision, &decay, || draw(&mut rng)))
        };
        let mut samples: Vec<_> = (0..SAMPLES).map(contest).collect();
        let what = format!("{} {count} {draws}", decay.base());
        assert_fits(&mut samples, &exact(&decay, count, draws), &what);
    }
}

/// Any part of the collision changes the outcome, and so do the numbers of collisions in a row.
#[test]
fn outcomes_depend_on_the_whole_collision() {
    let decay = Decay::new(0.5).unwrap();
    let first = collision(1, 1, 9);
    let change: [fn(&mut Collision, u32); 4] = [
        |collision, by| collision.fingerprint += by,
        |collision, by| collision.cell += by,
        |collision, by| collision.owner += by,
        |collision, by| collision.number += u64::from(by),
    ];
    for (which, change) in change.iter().enumerate() {
        let taken = |by| {
            let mut changed = first;
            change(&mut changed, by);
            Derived.contest(&changed, &decay) == Contest::Taken(1)
        };
        let taken: Vec<_> = (0..10_000).map(taken).collect();
        let number = taken.iter().filter(|taken| **taken).count();
        assert!((4800..=5200).contains(&number), "{which}: {number}");
        let alike = taken.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!((4800..=5200).contains(&alike), "{which}: {alike}");
    }
}

/// The largest increments take little work, whatever the decay and the counts.
#[test]
#[cfg(debug_assertions)]
fn work_does_not_grow_with_the_draws() {
    let few = [5e-324, 1e-9, 0.1, 0.5, 0.9, 0.95, 0.98, 0.9899];
    let decays = few
        .into_iter()
        .chain([0.99, 0.999, 0.9999, 0.99999, 0.999_999_9]);
    let counts = (0..30).flat_map(|bits| [4, 5, 6].map(|quarters: u32| (quarters << bits) / 4));
    for decay in decays.map(|decay| Decay::new(decay).unwrap()) {
        for count in counts.clone().filter(|count| decay.power(*count) > 0.0) {
            for draws in [10, 100, 1000, 10_000, 100_000, u32::MAX] {
                work::take();
                for number in 0..20 {
                    Derived.contest(&collision(count, draws, number), &decay);
                }
                let steps = work::take().steps / 20;
                assert!(steps < 130, "{} {count} {draws}: {steps}", decay.base());
            }
        }
    }
}
