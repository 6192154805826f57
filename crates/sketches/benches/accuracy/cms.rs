//! Over-estimates of count-min sketches against the error that was requested.

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{CellSize, CountMin, Overflow, Shape};

use crate::streams::Distribution;
use crate::{grouped, percent};

const ITEMS: u32 = 100_000;
const EVENTS: u32 = 1_000_000;

const DISTRIBUTIONS: [Distribution; 3] = [
    Distribution::Uniform,
    Distribution::Zipf(1.0),
    Distribution::Zipf(1.5),
];

/// Prints the table of docs/count-min.md.
pub fn print() {
    println!(
        "| error, probability | stream | promised | median | 99 % | maximum | above the promise |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (error, probability) in [(0.01, 0.01), (0.001, 0.01), (0.0001, 0.0001)] {
        for distribution in DISTRIBUTIONS {
            row(error, probability, distribution);
        }
    }
}

fn row(error: f64, probability: f64, distribution: Distribution) {
    let fraction = |number| Fraction::new(number).expect("between 0 and 1");
    let shape = Shape::for_rates(fraction(error), fraction(probability), CellSize::Four);
    let mut sketch = CountMin::new(shape.expect("a shape"), u64::MAX).expect("memory");
    let mut counts = vec![0_u64; ITEMS as usize];
    for index in distribution.stream(ITEMS).take(EVENTS as usize) {
        counts[index] += 1;
        sketch
            .increment(&item(index), 1, Overflow::Refuse)
            .expect("it fits");
    }
    let over = |(index, count): (usize, &u64)| sketch.estimate(&item(index)) - count;
    let mut over: Vec<u64> = counts.iter().enumerate().map(over).collect();
    over.sort_unstable();
    let quantile = |percent| over[(over.len() - 1) * percent / 100];
    let promised = error * f64::from(EVENTS);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most a million"
    )]
    let promised = promised.round() as u64;
    let above = over.iter().filter(|over| **over > promised).count();
    #[allow(clippy::cast_precision_loss, reason = "a hundred thousand items")]
    let above = percent(above as f64 / over.len() as f64);
    let [median, most, maximum] = [50, 99, 100].map(|percent| grouped(quantile(percent)));
    let promised = grouped(promised);
    println!(
        "| {error}, {probability} | {} | {promised} | {median} | {most} | {maximum} | {above} |",
        name(distribution)
    );
}

fn name(distribution: Distribution) -> String {
    match distribution {
        Distribution::Zipf(s) => format!("Zipf, s = {s:.1}"),
        _ => "uniform".to_owned(),
    }
}

fn item(index: usize) -> Vec<u8> {
    format!("item:{index}").into_bytes()
}
