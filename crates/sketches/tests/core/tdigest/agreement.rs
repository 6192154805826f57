//! Digests of the same observations agree whenever they were compressed, and those of others don't.

use valkeybloom_sketches::tdigest::{Compression, TDigest};

use crate::support::Rng;

/// Returns a digest of values, which reads compress now and then.
fn of(compression: u64, values: &[f64], reads: u64) -> TDigest {
    let mut digest = TDigest::new(Compression::new(compression).unwrap());
    let mut rng = Rng::new(reads);
    for values in values.chunks(10) {
        digest.add_each(values).unwrap();
        if reads > 0 && rng.below(20) == 0 {
            digest.compress();
        }
    }
    digest
}

#[test]
#[allow(clippy::cast_precision_loss, reason = "the numbers are small")]
fn compressions_are_told_from_changes() {
    const COUNT: usize = 20_000;
    let mut rng = Rng::new(1);
    let mut unit = || (rng.next() >> 11) as f64 / (1_u64 << 53) as f64;
    let uniform: Vec<f64> = (0..COUNT).map(|_| unit()).collect();
    let skewed: Vec<f64> = uniform.iter().map(|unit| (8.0 * unit).exp()).collect();
    let whole: Vec<f64> = uniform.iter().map(|unit| (40.0 * unit).floor()).collect();
    let ascending: Vec<f64> = (0..COUNT).map(|number| number as f64).collect();
    let huge: Vec<f64> = uniform.iter().map(|unit| (unit - 0.5) * 1e308).collect();
    for (name, values) in [
        ("uniform", uniform),
        ("skewed", skewed),
        ("whole", whole),
        ("ascending", ascending),
        ("huge", huge),
    ] {
        for compression in [1, 10, 100, 1000] {
            let one = of(compression, &values, 0);
            for reads in 1..5 {
                let other = of(compression, &values, reads);
                assert_eq!(one.agrees_with(&other), Some(true), "{name} {compression}");
            }
            // The smallest and the largest value stay.
            let (least, most) = (one.min(), one.max());
            let middle = |value: &f64| *value > least && *value < most;
            let place = values.iter().position(middle).unwrap();
            let mut moved = values.clone();
            moved[place] = f64::midpoint(moved[place], most);
            let mut shifted = values.clone();
            for value in shifted.iter_mut().filter(|value| middle(value)) {
                *value = f64::midpoint(*value, least);
            }
            let more = [&values[..], &[values[place]]].concat();
            let lacking = [&values[..place], &values[place + 1..]].concat();
            for (change, values) in [
                ("a value moved", moved),
                ("all moved", shifted),
                ("one more", more),
                ("one lost", lacking),
            ] {
                let other = of(compression, &values, 0);
                let agrees = one.agrees_with(&other);
                assert_eq!(agrees, Some(false), "{name} {compression}, {change}");
            }
        }
    }
    // The sums are equal, the shares are not.
    let ends = |each: usize| {
        let middle = std::iter::repeat_n(10.0, 3000 - 2 * each);
        let ends = [0.0, 20.0].into_iter().cycle().take(2 * each);
        middle.chain(ends).collect::<Vec<f64>>()
    };
    let [one, other] = [1000, 1300].map(|each| of(1000, &ends(each), 0));
    assert_eq!(one.agrees_with(&other), Some(false));
}
