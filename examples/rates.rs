//! Measures the rate of false positives of objects that have grown, beside the one that was requested.
//!
//! ```text
//! cargo run --release --no-default-features --example rates
//! ```

use valkeybloom::bloom::{Fraction, Growth, Limits, Object, Params, Seed, Time};

const SEEDS: u8 = 3;
const STRANGERS: u64 = 200_000;

fn main() {
    println!("capacity  expansion    rate      items  filters      bytes  measured");
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
            let mut object = Object::plain(&params, seed, Limits::NONE).expect("memory");
            for item in 0..items {
                let item = format!("item {item}");
                let added = object.add(item.as_bytes(), Time::default(), None, || Limits::NONE);
                added.expect("memory");
            }
            for stranger in 0..STRANGERS {
                let stranger = format!("stranger {stranger}");
                // A plain object does not look at the time.
                found += u32::from(object.contains(stranger.as_bytes(), || 0));
            }
            (filters, bytes) = (object.all_filters().count(), object.memory_bytes());
        }
        #[allow(clippy::cast_precision_loss, reason = "small counts")]
        let measured = f64::from(found) / (u64::from(SEEDS) * STRANGERS) as f64;
        println!(
            "{capacity:>8} {expansion:>10} {:>6} % {items:>10} {filters:>8} {bytes:>10} {:>8.3} %",
            rate * 100.0,
            measured * 100.0
        );
    }
}
