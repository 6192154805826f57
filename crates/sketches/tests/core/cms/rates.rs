//! The shapes for an error rate and a probability.

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{CellSize, Shape};

fn shape(error: f64, probability: f64) -> Option<(u64, u64)> {
    let [error, probability] = [error, probability].map(|rate| Fraction::new(rate).unwrap());
    let shape = Shape::for_rates(error, probability, CellSize::Four)?;
    Some((shape.width(), shape.depth()))
}

#[test]
fn shapes_are_those_of_redisbloom() {
    for (error, probability, expected) in [
        (0.1, 0.5, (20, 1)),
        (0.1, 0.25, (20, 2)),
        (0.02, 0.1, (100, 4)),
        (0.01, 0.01, (200, 7)),
        (0.001, 0.01, (2000, 7)),
        (0.001, 0.001, (2000, 10)),
        (0.0001, 0.0001, (20_000, 14)),
        (0.3, 1e-6, (7, 20)),
        (0.7, 1e-9, (3, 30)),
        (0.9, 0.249_999_98, (3, 2)),
        (0.9, 0.249_999_9, (3, 3)),
        (0.9, 0.499_999_96, (3, 1)),
        (0.9, 0.999_999_97, (3, 1)),
        (0.5, 7.1e-46, (4, 149)),
        (0.5, 1e-45, (4, 149)),
    ] {
        assert_eq!(
            shape(error, probability),
            Some(expected),
            "{error} {probability}"
        );
    }
    for (error, probability) in [
        (0.9, 0.999_999_999_999_999_9),
        // The probability rounds to 1.
        (0.9, 1.0 - 1.0 / f64::from(1 << 25)),
        // It rounds to 0.
        (0.5, 7e-46),
        (0.5, f64::MIN_POSITIVE),
        (1e-19, 0.5),
        (3e-19, 0.1),
        (5e-324, 0.5),
    ] {
        assert_eq!(shape(error, probability), None, "{error} {probability}");
    }
}

/// The depth is log₂(1/δ), rounded up; a few floats below a power of two get the smaller depth. It never falls as δ
/// falls.
#[test]
fn depths_change_at_powers_of_two() {
    for depth in 1..=149_u32 {
        let power = 2.0_f64.powi(-depth.cast_signed());
        assert_eq!(shape(0.5, power), Some((4, depth.into())), "{depth}");
        // Some more steps of single precision below, the depth is that of the next power.
        let below = power * (1.0 - 2.0_f64.powi(-12));
        // Floats below have fewer digits.
        if depth <= 126 {
            assert_eq!(
                shape(0.5, below),
                Some((4, u64::from(depth) + 1)),
                "{depth}"
            );
        }
        let mut last = depth.into();
        let mut rate = power;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the steps are those of floats"
        )]
        for _ in 0..64 {
            rate = f64::from((rate as f32).next_down());
            let Some((_, depth)) = Fraction::new(rate).and_then(|_| shape(0.5, rate)) else {
                break;
            };
            assert!(depth >= last, "{rate:e}");
            last = depth;
        }
    }
}
