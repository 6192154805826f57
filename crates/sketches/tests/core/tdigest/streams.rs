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
    let shuffled = shuffled(ascending.clone());
    let sign = |number| if number % 2 == 0 { 1.0 } else { -1.0 };
    let converging = (1..=VALUES).map(|number| sign(number) / f64::from(number));
    [
        ("powers of ten", shuffled),
        ("powers, ascending", ascending),
        ("powers, descending", descending),
        ("converging to 0", converging.collect()),
    ]
}

pub fn shuffled(mut values: Vec<f64>) -> Vec<f64> {
    let mut rng = Rng::new(1);
    for end in (1..values.len()).rev() {
        values.swap(end, rng.below(end + 1));
    }
    values
}

/// The value at a share of a stream, from 0 to 1.
pub type Value = fn(f64) -> f64;

/// The streams of few values of the page.
pub const REPEATING: [(&str, Value); 7] = [
    ("0 and 1", |share| (2.0 * share).floor()),
    ("ratings from 1 to 5", |share| (5.0 * share).floor() + 1.0),
    ("90 % 200, 6 % 404, 4 % 500", |share| match share {
        0.0..0.9 => 200.0,
        0.9..0.96 => 404.0,
        _ => 500.0,
    }),
    ("30 % 0, others uniform", |share| f64::max(share - 0.3, 0.0)),
    ("whole numbers up to 21", |share| (22.0 * share).floor()),
    ("whole numbers up to 100", |share| (101.0 * share).floor()),
    ("whole milliseconds", |share| {
        (-20.0 * libm::log(1.0 - share)).floor()
    }),
];

/// Returns the shares of the values below a value and up to it.
fn shares(sorted: &[f64], value: f64) -> [f64; 2] {
    let below = sorted.partition_point(|other| *other < value);
    let up_to = sorted.partition_point(|other| *other <= value);
    [below, up_to].map(|count| f64::from(u32::try_from(count).unwrap()) / f64::from(VALUES))
}

/// Returns the distance between a quantile and the ranks of its estimate, as a share of all values.
fn error(sorted: &[f64], quantile: f64, estimate: f64) -> f64 {
    let [below, up_to] = shares(sorted, estimate);
    f64::max(below - quantile, quantile - up_to).max(0.0)
}

fn digest(compression: u64, values: &[f64]) -> TDigest {
    let mut digest = TDigest::new(Compression::new(compression).unwrap());
    digest.add_each(values).unwrap();
    digest
}

#[test]
fn hard_streams_have_the_errors_of_the_page() {
    for compression in [100, 500] {
        for (name, values) in streams() {
            let digest = digest(compression, &values);
            let mut sorted = values;
            sorted.sort_unstable_by(f64::total_cmp);
            let answers = digest.compressed().unwrap();
            let errors = [0.5, 0.9, 0.99, 0.999]
                .map(|quantile| error(&sorted, quantile, answers.quantile(quantile)))
                .map(|error| format!("{:.3} %", 100.0 * error));
            let row = format!("| {compression} | {name} | {} |", errors.join(" | "));
            assert!(PAGE.contains(&row), "{row}");
        }
    }
}

#[test]
fn repeating_streams_have_the_errors_of_the_page() {
    for compression in [100, 500] {
        for (name, value) in REPEATING {
            let shares_of_all = (0..VALUES).map(|number| f64::from(number) / f64::from(VALUES));
            let sorted: Vec<f64> = shares_of_all.map(value).collect();
            let digest = digest(compression, &shuffled(sorted.clone()));
            let answers = digest.compressed().unwrap();
            let (mut worst, mut hits) = (0.0_f64, 0);
            for percent in 1..100 {
                let quantile = f64::from(percent) / 100.0;
                let estimate = answers.quantile(quantile);
                worst = worst.max(error(&sorted, quantile, estimate));
                let place = sorted.binary_search_by(|value| value.total_cmp(&estimate));
                hits += u32::from(place.is_ok());
            }
            let mut values = sorted.clone();
            values.dedup();
            let worst_share = values.iter().map(|value| {
                let [below, up_to] = shares(&sorted, *value);
                (answers.cdf(*value) - f64::midpoint(below, up_to)).abs()
            });
            let worst_share = 100.0 * worst_share.fold(0.0, f64::max);
            let worst = 100.0 * worst;
            let row =
                format!("| {compression} | {name} | {worst:.2} % | {hits} | {worst_share:.2} % |");
            assert!(PAGE.contains(&row), "{row}");
        }
    }
}

#[test]
fn few_values_are_all_kept_up_to_the_number_of_the_page() {
    for compression in [100, 500, 1000] {
        let keeps_all = |number: &u32| {
            let values: Vec<f64> = (0..*number).map(f64::from).collect();
            let compressed = digest(compression, &values).compressed_copy().unwrap();
            compressed.merged_nodes() == values.len()
        };
        let most = (1..1000).find(|number| !keeps_all(number)).unwrap() - 1;
        let row = format!("{most} with a compression of {compression}");
        assert!(PAGE.contains(&row), "{row}");
    }
}
