//! Measures the false positive rate of full objects, compared with the requested rate.
//!
//! ```text
//! cargo run --release --example rates
//! ```

use valkeybloom_sketches::bloom::{Added, Growth, Limits, Object, Params, Tightening, Time};
use valkeybloom_sketches::{Fraction, Seed};

/// The shapes: rate, capacity, expansion, and the items that are added.
const SHAPES: [(f64, u64, u32, u64); 17] = [
    (0.01, 1, 1, 20_000),
    (0.01, 10, 1, 20_000),
    (0.01, 1, 2, 20_000),
    (0.01, 10, 2, 10_000),
    (0.01, 100, 1, 50_000),
    (0.001, 1000, 1, 200_000),
    (0.0001, 20, 2, 5000),
    (0.00001, 100, 0, 100),
    (0.000_001, 1000, 0, 1000),
    (0.7, 10_000, 0, 10_000),
    (0.5, 10_000, 0, 10_000),
    (0.3, 10_000, 0, 10_000),
    (0.1, 10_000, 0, 10_000),
    (0.01, 1000, 2, 1_000_000),
    (0.01, 100_000, 2, 1_000_000),
    (0.01, 1, 0, 1),
    (0.01, 3, 0, 3),
];

fn main() {
    println!(
        "     rate  capacity  expansion     items  filters      bytes   measured  estimated  had/asked"
    );
    for (rate, capacity, expansion, items) in SHAPES {
        let params = Params {
            capacity,
            error_rate: Fraction::new(rate).expect("a rate"),
            tightening: Tightening::HALF,
            growth: Growth::from_expansion(expansion),
        };
        let seeds = if items < 50_000 { 60 } else { 3 };
        let objects: Vec<_> = (0..seeds)
            .map(|seed| filled(&params, seed, items))
            .collect();
        let mean = |rates: Vec<f64>| rates.iter().sum::<f64>() / f64::from(seeds);
        let measured = mean(objects.iter().map(|it| measured(it, rate, seeds)).collect());
        let estimated = mean(objects.iter().map(|it| it.estimated_rate(|| 0)).collect());
        let (filters, bytes) = (objects[0].filter_count(), objects[0].memory_bytes());
        println!(
            "{rate:>9} {capacity:>9} {expansion:>10} {items:>9} {filters:>8} {bytes:>10} {:>9.5}% {:>9.5}% {:>6.3}",
            measured * 100.0,
            estimated * 100.0,
            measured / rate
        );
    }
}

/// Returns an object to which items were added until a number of them were new.
fn filled(params: &Params, seed: u8, items: u64) -> Object {
    let byte = |at: usize| seed.wrapping_mul(67) ^ at.to_le_bytes()[0].wrapping_mul(41);
    let seed = Seed::new(std::array::from_fn(byte));
    let mut object = Object::plain(params, seed, Limits::NONE).expect("memory");
    let limits = || Limits {
        saturate: false,
        ..Limits::NONE
    };
    let (mut item, mut new) = (0_u64, 0);
    while new < items {
        item += 1;
        let added = object.add(&item.to_le_bytes(), Time::default(), limits);
        new += u64::from(added == Ok(Added::New));
    }
    object
}

/// Returns the share of other items that an object claims, of as many as show some thousand false positives of all seeds.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small counts"
)]
fn measured(object: &Object, rate: f64, seeds: u8) -> f64 {
    let others = ((3000.0 / rate) as u64 / u64::from(seeds)).clamp(20_000, 20_000_000);
    let is_found = |other: &u64| object.contains(&u128::from(*other).to_le_bytes(), || 0);
    (0..others).filter(is_found).count() as f64 / others as f64
}
