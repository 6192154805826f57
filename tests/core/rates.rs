//! The measured rate is the requested rate at most, after any number of scale-outs.
//!
//! How it is measured: objects are filled to the brim, the worst moment in their life, and asked
//! for items that were never added. If each of `N` answers were a false positive with probability
//! `p` exactly, their count would exceed `N·p + 4·√(N·p·(1−p))` once in more than 30,000 runs (one
//! tail of the normal law at 4 deviations: 3.2·10⁻⁵). A count over that bound therefore shows a
//! rate over `p`; seeds are fixed, so a bound once kept is kept. Several objects of different seeds
//! share the asking, since the rate of one object depends on where its bits happened to fall.
//!
//! Filters of few items are left out. Two hashes give an item all of its positions, so in a small
//! filter two items share them all more often than independent hashes would: a floor under the
//! rate that no number of hashes goes below. It is the format's, and the nearer the smaller the
//! filter and the tighter its rate (21 filters of 50 items each, made for a thousandth, have four).
//! So the objects of tighter rates are of larger filters here.

use valkeybloom::bloom::{Fraction, Growth, Object, Params, Refusal, Seed, dump};

use crate::support::{
    NO_CLOCK, Rng, add, add_new, dump_of, filter_rate, filters, fraction, grow, has, is_full,
    object, params, rate_of,
};

/// Number of objects that share the asking.
const OBJECTS: u64 = 4;

/// How many strangers were found, of all that were looked up.
#[allow(clippy::cast_precision_loss, reason = "counts are small")]
struct Count {
    found: f64,
    asked: f64,
}

impl Count {
    /// Asks objects for so many items that they do not hold: all of these end in the same word.
    fn of(objects: impl Iterator<Item = Object>, asked: u32, rng: &mut Rng) -> Self {
        let mut count = Self {
            found: 0.0,
            asked: 0.0,
        };
        for object in objects {
            for _ in 0..asked / 4 {
                let stranger = [rng.next().to_le_bytes(), *b"stranger"].concat();
                count.found += f64::from(u8::from(has(&object, &stranger)));
                count.asked += 1.0;
            }
        }
        count
    }

    /// By how many deviations more than expected at this rate were found.
    fn deviations(&self, rate: f64) -> f64 {
        let variance = self.asked * rate * (1.0 - rate);
        (self.found - self.asked * rate) / variance.sqrt()
    }
}

/// An object of so many scale-outs, full.
fn full(params: &Params, scale_outs: usize, rng: &mut Rng) -> Object {
    let mut full = object(params, rng.seed());
    grow(&mut full, rng, |object| {
        is_full(object, scale_outs as u64 + 1)
    });
    full
}

#[track_caller]
fn keeps_its_rate(params: &Params, scale_outs: usize, asked: u32) {
    let mut rng = Rng::new(params.capacity ^ scale_outs as u64);
    let objects: Vec<_> = (0..OBJECTS)
        .map(|_| full(params, scale_outs, &mut rng))
        .collect();
    let count = Count::of(objects.into_iter(), asked, &mut rng);
    let deviations = count.deviations(params.error_rate.get());
    assert!(
        deviations <= 4.0,
        "{} of {} is {deviations:.1} deviations over the rate of {params:?} after {scale_outs} scale-outs",
        count.found,
        count.asked,
    );
}

#[test]
fn a_grown_object_keeps_its_rate() {
    for (rate, capacity, asked) in [
        (0.1, 1000, 400_000),
        (0.01, 1000, 400_000),
        (0.001, 5000, 1_000_000),
    ] {
        for scale_outs in [0, 1, 5, 20] {
            keeps_its_rate(&params(capacity, rate, 1), scale_outs, asked);
        }
        for scale_outs in [1, 5, 8] {
            keeps_its_rate(&params(500, rate, 2), scale_outs, asked);
        }
    }
}

#[test]
fn a_geometric_series_keeps_the_rate_too() {
    for (rate, capacity, asked) in [
        (0.1, 2000, 400_000),
        (0.01, 10_000, 400_000),
        (0.001, 20_000, 1_000_000),
    ] {
        for scale_outs in [0, 1, 5, 20] {
            let tightening = fraction(0.8);
            let params = Params {
                tightening,
                ..params(capacity, rate, 1)
            };
            keeps_its_rate(&params, scale_outs, asked);
        }
    }
    // With a steep ratio the first filters have nearly all of the rate: nothing is left over.
    for (rate, asked) in [(0.01, 400_000), (0.001, 1_000_000)] {
        for (scale_outs, expansion) in [(0, 1), (1, 1), (5, 1), (20, 1), (3, 2)] {
            let tightening = fraction(0.1);
            let params = Params {
                tightening,
                ..params(5000, rate, expansion)
            };
            keeps_its_rate(&params, scale_outs, asked);
        }
    }
}

/// The first filter has nine tenths of the rate here, and nothing makes up for what it has more: its
/// hash functions are a whole number, and an item that it claims by mistake is not counted, so it is
/// given more than it is for before it is full. Of a loose rate that is some percent, not more.
#[test]
fn a_steep_ratio_nearly_keeps_a_loose_rate() {
    for scale_outs in [0, 1, 5, 20] {
        let tightening = fraction(0.1);
        let steep = Params {
            tightening,
            ..params(10_000, 0.1, 1)
        };
        let mut rng = Rng::new(scale_outs as u64);
        let object = full(&steep, scale_outs, &mut rng);
        let count = Count::of(std::iter::once(object), 400_000, &mut rng);
        let deviations = count.deviations(1.08 * steep.error_rate.get());
        assert!(deviations <= 4.0, "{deviations:.1} deviations");
    }
}

/// Here the rate is met from both sides: it is made at the requested rate, not at a tighter one.
#[test]
fn a_non_scaling_object_has_its_rate_when_it_was_given_as_many_items_as_it_is_for() {
    let mut rng = Rng::new(1);
    for (rate, asked) in [(0.1, 400_000), (0.01, 400_000), (0.001, 2_000_000)] {
        let objects: Vec<_> = (0..OBJECTS)
            .map(|_| {
                let mut object = object(&params(10_000, rate, 0), rng.seed());
                for _ in 0..10_000 {
                    add_new(&mut object, &rng.next().to_le_bytes());
                }
                object
            })
            .collect();
        let count = Count::of(objects.into_iter(), asked, &mut rng);
        let deviations = count.deviations(rate);
        assert!(
            deviations.abs() <= 4.0,
            "{} of {} is {deviations:.1} deviations off {rate}",
            count.found,
            count.asked
        );
    }
}

#[test]
fn the_rates_of_all_filters_sum_to_the_rate_at_most() {
    for rate in [0.999, 0.5, 0.1, 0.01, 0.001, 1e-9, 1e-100] {
        for ratio in [0.5, 0.1, 0.3, 0.8, 0.99, 0.9999, 0.999_999, 1e-9] {
            let params = Params {
                tightening: fraction(ratio),
                ..params(100, rate, 2)
            };
            let (mut sum, mut last) = (0.0, 1.0);
            for index in 0..1_000_000 {
                // Where the rate has become too small for a double, growth ends.
                let Some(rate) = params.rate(index).map(Fraction::get) else {
                    assert!((index..index + 1000).all(|later| params.rate(later).is_none()));
                    break;
                };
                assert!(rate <= last, "{params:?} loosens at {index}");
                last = rate;
                sum += rate;
            }
            // A sum of so many doubles may be off in their last places.
            assert!(sum <= rate * (1.0 + 1e-12), "{sum:e}: {params:?}");
            // And nothing is given away: the default series is within 10⁻⁶ of its sum by now.
            if params.tightening == Fraction::HALF {
                assert!(sum >= rate * (1.0 - 2e-6), "{sum:e}: {params:?}");
            }
        }
    }
}

#[test]
fn every_filter_of_a_non_scaling_object_is_for_the_rate_itself() {
    for ratio in [0.5, 0.1] {
        let params = Params {
            tightening: fraction(ratio),
            ..params(100, 0.02, 0)
        };
        assert_eq!(params.growth, Growth::Fixed);
        assert_eq!(params.rate(0).map(Fraction::get), Some(0.02));
    }
}

#[test]
fn an_object_ends_where_the_next_rate_is_too_small() {
    // The sixth filter would be at 10⁻³⁰⁰·10⁻²⁵, below the least number that a double holds.
    let params = Params {
        tightening: fraction(1e-5),
        ..params(1, 1e-300, 1)
    };
    let mut object = object(&params, Seed::FIXED);
    let outcomes: Vec<_> = (0..100_u8).map(|item| add(&mut object, &[item])).collect();
    let added = outcomes
        .iter()
        .take_while(|outcome| outcome.is_ok())
        .count();
    assert_eq!(outcomes.get(added), Some(&Err(Refusal::RateTooSmall)));
    assert_eq!(filters(&object).len(), 5);
    assert!((0..100_u8).take(added).all(|item| has(&object, &[item])));
}

#[test]
fn an_object_knows_the_rates_that_its_filters_were_made_for() {
    let mut rng = Rng::new(2);
    for (expansion, ratio) in [(0, 0.5), (1, 0.5), (2, 0.5), (2, 0.75)] {
        let params = Params {
            tightening: fraction(ratio),
            ..params(100, 0.01, expansion)
        };
        let scale_outs = if expansion == 0 { 0 } else { 4 };
        let object = full(&params, scale_outs, &mut rng);
        for index in 0..=scale_outs {
            let made_for = rate_of(&params, index as u64).map(Fraction::get);
            assert_eq!(Some(filter_rate(&object, index)), made_for);
        }
        // There is no filter behind them, and so no rate.
        assert_eq!(object.filters(NO_CLOCK).count(), scale_outs + 1);
    }
}

/// Another program's first filter of a scaling object is at the whole rate. Its rate is
/// what its sizes give, not what this program would have made.
#[test]
fn the_rate_of_a_foreign_filter_is_what_its_sizes_give() {
    let theirs = object(&params(1000, 0.01, 0), Seed::FIXED);
    let mut bytes = dump_of(&theirs);
    // The expansion, behind the version.
    bytes[1] = 2;
    let object = dump::decode(&bytes).unwrap();
    assert_eq!(object.shape().params.growth, Growth::from_expansion(2));
    let told = filter_rate(&object, 0);
    assert!((told - 0.01).abs() < 0.0001, "told {told}");
}
