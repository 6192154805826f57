//! Measures the false positive rate of full objects, compared with the requested rate.
//!
//! ```text
//! cargo run --release --example rates
//! ```

use valkeybloom_sketches::bloom::{Added, Growth, Limits, Object, Params, Tightening, Time};
use valkeybloom_sketches::{Fraction, Seed};

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small counts"
)]
fn main() {
    println!(
        "     rate  capacity  expansion     items  filters      bytes   measured  estimated  had/asked"
    );
    for (rate, capacity, expansion, items) in [
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
    ] {
        let params = Params {
            capacity,
            error_rate: Fraction::new(rate).expect("a rate"),
            tightening: Tightening::HALF,
            growth: Growth::from_expansion(expansion),
        };
        let seeds: u8 = if items < 50_000 { 60 } else { 3 };
        let strangers = ((3000.0 / rate) as u64 / u64::from(seeds)).clamp(20_000, 20_000_000);
        let (mut found, mut filters, mut bytes, mut estimated) = (0_u64, 0, 0, 0.0);
        for seed in 0..seeds {
            let seed = Seed::new(std::array::from_fn(|at| {
                seed.wrapping_mul(67) ^ (at as u8).wrapping_mul(41)
            }));
            let mut object = Object::plain(&params, seed, Limits::NONE).expect("memory");
            let limits = || Limits {
                saturate: false,
                ..Limits::NONE
            };
            let mut item = 0_u64;
            let mut new = 0;
            while new < items {
                item += 1;
                let added = object.add(&item.to_le_bytes(), Time::default(), limits);
                new += u64::from(added == Ok(Added::New));
            }
            for stranger in 0..strangers {
                let stranger = u128::from(stranger).to_le_bytes();
                found += u64::from(object.contains(&stranger, || 0));
            }
            (filters, bytes) = (object.filter_count(), object.memory_bytes());
            estimated += object.estimated_rate(|| 0) / f64::from(seeds);
        }
        let measured = found as f64 / (u64::from(seeds) * strangers) as f64;
        println!(
            "{rate:>9} {capacity:>9} {expansion:>10} {items:>9} {filters:>8} {bytes:>10} {:>9.5}% {:>9.5}% {:>6.3}",
            measured * 100.0,
            estimated * 100.0,
            measured / rate
        );
    }
}
