//! Over-estimates of count-min sketches against the error that was requested.

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{CellSize, CountMin, Shape};

use crate::streams::{Distribution, Random};

const ITEMS: u32 = 100_000;
const EVENTS: u64 = 1_000_000;

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
    let counts = distribution.counts(ITEMS, EVENTS, &mut Random::new(1));
    for (index, count) in counts.iter().enumerate() {
        let by = i64::try_from(*count).expect("few");
        sketch.increment(&item(index), by).expect("it fits");
    }
    let over = |(index, count): (usize, &u64)| sketch.estimate(&item(index)) - count;
    let mut over: Vec<u64> = counts.iter().enumerate().map(over).collect();
    over.sort_unstable();
    let quantile = |percent| over[(over.len() - 1) * percent / 100];
    #[allow(clippy::cast_precision_loss, reason = "some millions")]
    let [promised, items] = [error * EVENTS as f64, over.len() as f64];
    #[allow(clippy::cast_precision_loss, reason = "some millions")]
    let above = over.partition_point(|over| *over as f64 <= promised);
    #[allow(clippy::cast_precision_loss, reason = "some millions")]
    let part = (over.len() - above) as f64 / items;
    println!(
        "| {error}, {probability} | {} | {promised:.0} | {} | {} | {} | {:.3} % |",
        distribution.name(),
        quantile(50),
        quantile(99),
        quantile(100),
        100.0 * part
    );
}

fn item(index: usize) -> Vec<u8> {
    format!("item:{index}").into_bytes()
}
