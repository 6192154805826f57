//! Top-k lists: how many of the most frequent items are listed, and how far their counts are off.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::topk::{Shape, TopK};

use crate::streams::Distribution;
use crate::{grouped, percent};

const EVENTS: u32 = 1_000_000;
const ITEMS: u32 = 100_000;

/// Length of the list, width and depth.
const SHAPES: [[u64; 3]; 8] = [
    [10, 8, 7],
    [10, 100, 5],
    [10, 1000, 5],
    [100, 500, 5],
    [100, 2000, 5],
    [100, 2000, 7],
    [1000, 5000, 5],
    [1000, 20_000, 5],
];

/// What a list reports of a stream.
struct Report {
    /// The share of the most frequent items that are listed.
    found: f64,
    /// The mean of how much the counts of these are too low, in relation to the true ones.
    low: f64,
    /// The most that a count of a listed item is too high.
    high: i64,
}

/// Prints the table of docs/top-k.md.
pub fn print() {
    println!(
        "| k, width × depth | memory | Zipf 1.0 | Zipf 1.5 | k items make half of the stream |"
    );
    println!("|---|---|---|---|---|");
    let mut high = 0;
    for [k, width, depth] in SHAPES {
        let frequent = u32::try_from(k).expect("a short list");
        let streams = [
            Distribution::Zipf(1.0),
            Distribution::Zipf(1.5),
            Distribution::Frequent(frequent),
        ];
        let shape = Shape::new(k, width, depth, 0.9).expect("a shape");
        let memory = TopK::bytes_of(&shape);
        let cells = streams.map(|stream| {
            let shape = Shape::new(k, width, depth, 0.9).expect("a shape");
            let mut sketch = TopK::new(shape, Seed::FIXED, u64::MAX).expect("memory");
            let report = fill(&mut sketch, stream);
            high = high.max(report.high);
            format!("{:.1} %, {}", 100.0 * report.found, percent(report.low))
        });
        let kilobytes = memory.div_ceil(1000);
        let [a, b, c] = cells;
        let [k, width] = [k, width].map(grouped);
        println!("| {k}, {width} × {depth} | {kilobytes} kB | {a} | {b} | {c} |");
    }
    println!("No count of a listed item is more than {high} too high.");
}

/// Adds a stream to a list, and compares.
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn fill(sketch: &mut TopK, stream: Distribution) -> Report {
    let mut truth = vec![0_u32; ITEMS as usize];
    for item in stream.stream(ITEMS).take(EVENTS as usize) {
        truth[item] += 1;
        let name = format!("item:{item}");
        sketch.add(name.as_bytes(), 1, || u64::MAX).expect("memory");
    }
    let k = sketch.shape().k() as usize;
    let mut order: Vec<usize> = (0..truth.len()).collect();
    order.sort_by_key(|item| std::cmp::Reverse(truth[*item]));
    let least = truth[order[k - 1]];
    let (mut found, mut low, mut high) = (0, 0.0, 0);
    for (name, count) in sketch.ranking().expect("memory") {
        let name = std::str::from_utf8(name).expect("text");
        let number: usize = name["item:".len()..].parse().expect("a number");
        let number = truth[number];
        high = high.max(i64::from(count) - i64::from(number));
        // Any item that ties with the last one of the list counts.
        if number >= least {
            found += 1;
            low += (f64::from(number) - f64::from(count)) / f64::from(number);
        }
    }
    Report {
        found: f64::from(found) / k as f64,
        low: low / f64::from(found.max(1)),
        high,
    }
}
