//! Measures the rate of false positives of objects that have grown: asked for, and had.
//!
//! ```text
//! cargo run --release --no-default-features --example rates
//! ```

use valkeybloom::bloom::{BloomObject, Fraction, Growth, Limits, Params, Seed};

const SEEDS: u8 = 3;
const ASKED: u64 = 200_000;

fn main() {
    println!("capacity  expansion    rate      items  filters      bytes       had");
    #[allow(clippy::cast_possible_truncation, reason = "at is below 32")]
    for (capacity, expansion, rate, items) in [
        (100, 2, 0.01, 10_000),
        (1000, 2, 0.01, 1_000_000),
        (100_000, 2, 0.001, 1_000_000),
        (10, 2, 0.01, 10_000),
        (100, 1, 0.01, 10_000),
        (1000, 1, 0.001, 100_000),
        (1000, 1, 0.001, 1_000_000),
    ] {
        let params = Params {
            capacity,
            error_rate: Fraction::new(rate).expect("a rate"),
            tightening: Fraction::HALF,
            growth: Growth::from_expansion(expansion),
        };
        let (mut found, mut filters, mut bytes) = (0_u32, 0, 0);
        for seed in 0..SEEDS {
            let seed = Seed::new(std::array::from_fn(|at| seed * 64 + at as u8));
            let mut object = BloomObject::new(&params, seed, Limits::Obey).expect("memory");
            for item in 0..items {
                let probe = object.probe(format!("item {item}").as_bytes());
                object.add(probe, || Limits::Obey).expect("room");
            }
            for stranger in 0..ASKED {
                let probe = object.probe(format!("stranger {stranger}").as_bytes());
                found += u32::from(object.contains(probe));
            }
            (filters, bytes) = (object.filters().len(), object.memory_bytes());
        }
        #[allow(clippy::cast_precision_loss, reason = "small counts")]
        let had = f64::from(found) / (u64::from(SEEDS) * ASKED) as f64;
        println!(
            "{capacity:>8} {expansion:>10} {:>6} % {items:>10} {filters:>8} {bytes:>10} {:>8.3} %",
            rate * 100.0,
            had * 100.0
        );
    }
}
