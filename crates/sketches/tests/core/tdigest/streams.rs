//! The errors of streams that a digest answers badly, as docs/t-digest.md has them.

use valkeybloom_sketches::tdigest::{Compression, TDigest};

use crate::support::Rng;

const PAGE: &str = include_str!("../../../../../docs/t-digest.md");
const VALUES: u32 = 100_000;

/// Returns the streams of the page. Powers of ten cover 600 orders of magnitude.
fn streams() -> [(&'static str, Vec<f64>); 4] {
    let power = |share: f64| libm::pow(10.0, 600.0 * share - 300.0);
    let share = |number| f64::from(number) / f64::from(VALUES);
    let ascending: Vec<f64> = (0..VALUES).map(|number| power(share(number))).collect();
    let descending = ascending.iter().rev().copied().collect();
    let mut shuffled = ascending.clone();
    let mut rng = Rng::new(1);
    for end in (1..shuffled.len()).rev() {
        shuffled.swap(end, rng.below(end + 1));
    }
    let sign = |number| if number % 2 == 0 { 1.0 } else { -1.0 };
    let converging = (1..=VALUES).map(|number| sign(number) / f64::from(number));
    [
        ("powers of ten", shuffled),
        ("powers, ascending", ascending),
        ("powers, descending", descending),
        ("converging to 0", converging.collect()),
    ]
}

/// Returns the distance between a quantile and the ranks of its estimate, in percent of all values.
fn error(sorted: &[f64], quantile: f64, estimate: f64) -> String {
    let share = |count: usize| f64::from(u32::try_from(count).unwrap()) / f64::from(VALUES);
    let below = share(sorted.partition_point(|value| *value < estimate));
    let up_to = share(sorted.partition_point(|value| *value <= estimate));
    let error = 100.0 * f64::max(below - quantile, quantile - up_to).max(0.0);
    format!("{error:.3} %")
}

#[test]
fn hard_streams_have_the_errors_of_the_page() {
    for compression in [100, 500] {
        for (name, values) in streams() {
            let mut digest = TDigest::new(Compression::new(compression).unwrap());
            digest.add_each(&values).unwrap();
            let mut sorted = values;
            sorted.sort_unstable_by(f64::total_cmp);
            let answers = digest.compressed().unwrap();
            let errors = [0.5, 0.9, 0.99, 0.999]
                .map(|quantile| error(&sorted, quantile, answers.quantile(quantile)));
            let row = format!("| {compression} | {name} | {} |", errors.join(" | "));
            assert!(PAGE.contains(&row), "{row}");
        }
    }
}
