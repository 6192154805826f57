//! The measured rate is the requested rate at most, at every capacity, rate and depth; and what BF.INFO tells
//! is what is measured.
//!
//! How it is measured: objects are filled to the brim, the worst moment in their life, and asked for items that
//! were never added. Several objects of different seeds share the asking, since the rate of one depends on where
//! its bits happened to fall. The mean of `N` answers of which each is a false positive with probability `p` at
//! most exceeds `p` by more than 4 deviations once in 30,000 runs (one tail of the normal law: 3.2·10⁻⁵), and so
//! does that of objects whose own rates vary about `p`. So a mean over `p` by more than 4 deviations, of
//! whichever kind are larger, shows a rate over `p`. Seeds are fixed, so a bound once kept is kept.
//!
//! An estimate is compared where enough strangers were found to tell: a thousand give a rate within a tenth. Each
//! object's is within a factor of two of what is measured, and the mean of several objects within a third.

mod estimates;

use std::collections::VecDeque;

use valkeybloom_sketches::bloom::{
    Added, Growth, Object, Params, Refusal, Shape, Tightening, Time, dump,
};
use valkeybloom_sketches::{Fraction, Seed};

use crate::support::{
    NO_CLOCK, ROOMY, Rng, add, counting, dump_of, filter_rate, filters, grow, has, is_full, object,
    object_of, of_valkey_bloom, params, rate_of, through_every_form, tightening, windowed,
};

/// Adds so many random items at a time; those that were taken, and whether each was new.
fn add_random(object: &mut Object, count: u64, time: Time, rng: &mut Rng) -> Vec<([u8; 8], bool)> {
    // Each check of an object takes as long as many adds.
    let items: Vec<[u8; 8]> = (0..count.min(2000))
        .map(|_| rng.next().to_le_bytes())
        .collect();
    let mut outcomes = Vec::new();
    let slices = items.iter().map(|item| &item[..]);
    object.add_each(
        slices,
        time,
        None,
        || ROOMY,
        |outcome| outcomes.push(outcome),
    );
    let outcomes = outcomes.into_iter().map_while(Result::ok);
    items
        .into_iter()
        .zip(outcomes.map(|o| o == Added::New))
        .collect()
}

/// Adds items until so many were new.
fn fill(object: &mut Object, new: u64, rng: &mut Rng) {
    let mut taken = 0;
    while taken < new {
        let added = add_random(object, new - taken, Time::default(), rng);
        assert!(!added.is_empty(), "{:?} takes no more", object.shape());
        taken += added.iter().filter(|(_, new)| *new).count() as u64;
    }
}

/// Fills the filters that answer at a time, so many of them; the items that were added.
fn fill_to_depth(object: &mut Object, depth: u64, now_ms: u64, rng: &mut Rng) -> Vec<[u8; 8]> {
    let mut items = Vec::new();
    for _ in 0..1_000_000 {
        let room = object
            .capacity(|| now_ms)
            .saturating_sub(object.items(|| now_ms));
        if room == 0 && object.filter_count(|| now_ms) >= depth {
            return items;
        }
        // No item is counted twice, so these are not too many.
        let added = add_random(object, room.max(1), Time::at(now_ms), rng);
        items.extend(added.into_iter().map(|(item, _)| item));
    }
    panic!("never full: {:?}", object.shape());
}

/// How many of so many items that were never added are found: all of these end in the same word.
fn strangers_found(object: &Object, asked: u64, now_ms: u64, rng: &mut Rng) -> u64 {
    let (mut found, mut left) = (0, asked);
    while left > 0 {
        let count = left.min(4096);
        let batch: Vec<[u8; 16]> = (0..count)
            .map(|_| {
                let mut item = *b"........stranger";
                item[..8].copy_from_slice(&rng.next().to_le_bytes());
                item
            })
            .collect();
        let slices = batch.iter().map(|item| &item[..]);
        object.contains_each(slices, || now_ms, |claimed| found += u64::from(claimed));
        left -= count;
    }
    found
}

/// What several objects that are alike had.
#[derive(Default)]
struct Cell {
    name: String,
    /// For each: how many were asked for, how many found, and the estimate.
    objects: Vec<(f64, f64, f64)>,
}

impl Cell {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "counts are small")]
    fn measure(&mut self, object: &Object, asked: u64, now_ms: u64, rng: &mut Rng) {
        let found = strangers_found(object, asked, now_ms, rng);
        let estimate = object.estimated_rate(|| now_ms);
        self.objects.push((asked as f64, found as f64, estimate));
    }

    fn mean(&self, of: impl Fn(&(f64, f64, f64)) -> f64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "there are few objects")]
        let count = self.objects.len() as f64;
        self.objects.iter().map(of).sum::<f64>() / count
    }

    /// By how many deviations the rate is over this one.
    #[allow(clippy::cast_precision_loss, reason = "there are few objects")]
    fn deviations(&self, rate: f64) -> f64 {
        let count = self.objects.len() as f64;
        let measured = self.mean(|(asked, found, _)| found / asked);
        let asked: f64 = self.objects.iter().map(|(asked, ..)| asked).sum();
        let of_answers = rate * (1.0 - rate) / asked;
        let spread = self.mean(|(asked, found, _)| (found / asked - measured).powi(2));
        let of_objects = spread / (count - 1.0).max(1.0);
        (measured - rate) / of_answers.max(of_objects).sqrt()
    }

    /// What is wrong: a rate over this one.
    fn over(&self, rate: f64) -> Option<String> {
        let deviations = self.deviations(rate);
        let measured = self.mean(|(asked, found, _)| found / asked);
        (deviations > 4.0).then(|| {
            format!(
                "{}: {measured:.3e} is {deviations:.1} deviations over {rate}",
                self.name
            )
        })
    }

    /// Returns a message if the estimate of an object is not within a factor of two of what is measured, or the mean of
    /// the estimates not within a third.
    fn untrue(&self) -> Option<String> {
        let name = &self.name;
        let mut enough = self.objects.iter().filter(|(_, found, _)| *found >= 1000.0);
        let far = enough.find_map(|(asked, found, estimate)| {
            let ratio = estimate * asked / found;
            (!(0.5..=2.0).contains(&ratio))
                .then(|| format!("{name}: estimated at {ratio:.3} of what is measured"))
        });
        far.or_else(|| {
            let measured = self.mean(|(asked, found, _)| found / asked);
            let ratio = self.mean(|(.., estimate)| *estimate) / measured;
            let found = self.mean(|(_, found, _)| *found);
            (self.objects.len() >= 6 && found >= 1000.0 && !(0.75..=1.33).contains(&ratio))
                .then(|| format!("{name}: estimated in the mean at {ratio:.3} of what is measured"))
        })
    }
}

#[track_caller]
fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Objects without a window, full at a depth or after so many items.
fn cell(params: &Params, until: Until, objects: u64, asked: u64, rng: &mut Rng) -> Cell {
    let mut cell = Cell::new(format!("{params:?}, {until:?}"));
    for _ in 0..objects {
        let mut object = object(params, rng.seed());
        match until {
            Until::Depth(depth) => drop(fill_to_depth(&mut object, depth, 0, rng)),
            Until::Items(items) => fill(&mut object, items, rng),
        }
        cell.measure(&object, asked, 0, rng);
    }
    cell
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Depth(u64),
    Items(u64),
}

/// An object of valkey-bloom.
fn theirs(capacity: u64, rate: f64, expansion: u32) -> Params {
    Params {
        tightening: of_valkey_bloom(0.5),
        ..params(capacity, rate, expansion)
    }
}

/// The table of what other programs had: the rate, the items, and how many objects are asked for how many
/// strangers each.
#[test]
fn the_rate_that_was_asked_for_is_had() {
    let mut wrong = Vec::new();
    for (rate, capacity, expansion, items, objects, asked) in [
        (0.01, 1, 1, 20_000, 3, 60_000),
        (0.01, 10, 1, 20_000, 3, 60_000),
        (0.01, 1, 2, 20_000, 6, 100_000),
        (0.01, 10, 2, 10_000, 6, 100_000),
        (0.01, 100, 1, 50_000, 2, 100_000),
        (0.001, 1000, 1, 200_000, 1, 400_000),
        (0.0001, 20, 2, 5000, 12, 400_000),
        (0.000_01, 100, 0, 100, 20, 400_000),
        (0.000_001, 1000, 0, 1000, 8, 1_000_000),
        (0.7, 10_000, 0, 10_000, 3, 40_000),
        (0.5, 10_000, 0, 10_000, 3, 40_000),
        (0.3, 10_000, 0, 10_000, 3, 40_000),
        (0.1, 10_000, 0, 10_000, 3, 100_000),
    ] {
        let mut rng = Rng::new(capacity ^ items);
        let params = params(capacity, rate, expansion);
        let cell = cell(&params, Until::Items(items), objects, asked, &mut rng);
        wrong.extend(cell.over(rate));
        wrong.extend(cell.untrue());
        // A fixed object of so many items has what was asked for, and not much less.
        if capacity == 10_000 {
            let deviations = cell.deviations(rate);
            assert!(deviations >= -4.0, "{deviations:.1}: {}", cell.name);
        }
    }
    none(&wrong);
}

/// Every kind of plain object, from the least on.
#[test]
fn every_capacity_rate_and_depth_keeps_its_rate() {
    let mut rng = Rng::new(2);
    let mut wrong = Vec::new();
    for rate in [0.9, 0.5, 0.3, 0.1, 0.03, 0.01, 0.001] {
        for capacity in [1, 2, 3, 7, 8, 16, 20, 50, 100, 1000] {
            for (expansion, depth) in [(0, 1), (1, 3), (1, 20), (2, 4)] {
                if capacity == 1000 && depth > 4 {
                    continue;
                }
                for tightening in [Tightening::HALF, tightening(0.8)] {
                    if tightening != Tightening::HALF && (depth == 1 || rate > 0.1) {
                        continue;
                    }
                    let params = Params {
                        tightening,
                        ..params(capacity, rate, expansion)
                    };
                    let objects = if capacity < 100 { 12 } else { 2 };
                    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    let asked = ((300.0 / rate) as u64).clamp(2000, 40_000);
                    let cell = cell(&params, Until::Depth(depth), objects, asked, &mut rng);
                    wrong.extend(cell.over(rate));
                    wrong.extend(cell.untrue());
                }
            }
        }
    }
    none(&wrong);
}

/// With a steep ratio the first filters have nearly all of the rate: nothing is left over.
#[test]
fn a_steep_ratio_keeps_its_rate() {
    let mut rng = Rng::new(3);
    let mut wrong = Vec::new();
    for rate in [0.5, 0.1, 0.01] {
        for (capacity, expansion, depth) in [(10_000, 1, 1), (5000, 1, 6), (1000, 2, 4), (50, 1, 4)]
        {
            let params = Params {
                tightening: tightening(0.1),
                ..params(capacity, rate, expansion)
            };
            let cell = cell(&params, Until::Depth(depth), 2, 100_000, &mut rng);
            wrong.extend(cell.over(rate));
            wrong.extend(cell.untrue());
        }
    }
    none(&wrong);
}

/// At rates at which others never are: each item claims more than it should, and few are new.
#[test]
fn a_fixed_object_is_full_at_its_capacity_at_every_rate() {
    let mut rng = Rng::new(4);
    for capacity in [1, 2, 3, 7, 8, 16, 100, 10_000] {
        for rate in [0.999, 0.99, 0.9, 0.7, 0.5, 0.3, 0.1, 0.01, 0.001, 1e-6] {
            let params = params(capacity, rate, 0);
            let mut object = object(&params, rng.seed());
            fill(&mut object, capacity, &mut rng);
            assert_eq!(object.totals(), (1, capacity, capacity), "{params:?}");
            let outcomes = (0..).map(|_| add(&mut object, &rng.next().to_le_bytes()));
            let refused = outcomes.take(1_000_000).find(|o| *o != Ok(Added::Present));
            assert_eq!(refused, Some(Err(Refusal::Full)), "{params:?}");
        }
    }
}

/// Each number of live periods has its part of the rate at most, all of them the whole.
#[test]
fn windows_keep_their_rate_at_every_number_of_periods() {
    let mut wrong = Vec::new();
    for (rate, capacity, expansion, depth, periods) in [
        (0.1, 10, 0, 1, 12),
        (0.1, 200, 0, 1, 24),
        (0.1, 20, 1, 3, 5),
        (0.03, 100, 2, 3, 4),
        (0.01, 1000, 0, 1, 3),
        (0.01, 50, 1, 4, 2),
        (0.01, 500, 0, 1, 1),
        (0.5, 1000, 0, 1, 1),
    ] {
        let mut rng = Rng::new(capacity);
        let shape = windowed(params(capacity, rate, expansion), 1000, periods);
        let mut cells: Vec<Cell> = (1..=periods)
            .map(|live| Cell::new(format!("{shape:?}, {live} periods")))
            .collect();
        for _ in 0..6 {
            let mut object = object_of(&shape, rng.seed());
            for (period, cell) in (0..).zip(&mut cells) {
                let now_ms = period * 1000;
                object.tidy(now_ms);
                fill_to_depth(&mut object, (period + 1) * depth, now_ms, &mut rng);
                assert_eq!(object.live_periods(|| now_ms), Some(period + 1));
                assert_eq!(object.filter_count(|| now_ms), (period + 1) * depth);
                let asked = if period + 1 == periods {
                    60_000
                } else {
                    20_000
                };
                cell.measure(&object, asked, now_ms, &mut rng);
            }
        }
        for cell in &cells {
            wrong.extend(cell.over(rate));
            wrong.extend(cell.untrue());
        }
    }
    none(&wrong);
}

/// Fresh ones, and ones all of whose items were replaced, many times.
#[test]
fn counters_keep_their_rate_after_many_replacements() {
    let mut wrong = Vec::new();
    for (rate, capacity, expansion, depth, replaced) in [
        (0.1, 100, 0, 1, 3000),
        (0.1, 20, 1, 3, 1000),
        (0.01, 1000, 0, 1, 10_000),
        (0.01, 100, 2, 3, 3000),
        (0.5, 1000, 0, 1, 5000),
    ] {
        let mut rng = Rng::new(capacity);
        let shape = counting(params(capacity, rate, expansion));
        let mut fresh = Cell::new(format!("{shape:?}, fresh"));
        let mut used = Cell::new(format!("{shape:?}, after {replaced}"));
        for _ in 0..4 {
            let mut object = object_of(&shape, rng.seed());
            let mut items = VecDeque::from(fill_to_depth(&mut object, depth, 0, &mut rng));
            fresh.measure(&object, 60_000, 0, &mut rng);
            for _ in 0..replaced {
                let oldest = items.pop_front().unwrap();
                if object.remove(&oldest, None) {
                    let added = add_random(&mut object, 1, Time::default(), &mut rng);
                    items.extend(added.into_iter().map(|(item, _)| item));
                } else {
                    // Several filters claim it: it stays.
                    items.push_back(oldest);
                }
            }
            used.measure(&object, 60_000, 0, &mut rng);
        }
        for cell in [&fresh, &used] {
            wrong.extend(cell.over(rate));
            wrong.extend(cell.untrue());
        }
    }
    none(&wrong);
}

/// A reload keeps the rate, the answers and the estimate.
#[test]
fn a_reloaded_object_has_the_same_rate() {
    let mut rng = Rng::new(6);
    for (params, depth) in [
        (params(10, 0.1, 1), 30),
        (params(100, 0.01, 2), 4),
        (params(3000, 0.3, 0), 1),
        (theirs(10, 0.1, 1), 30),
    ] {
        let kinds = [
            Shape::plain(params),
            windowed(params, 1000, 3),
            counting(params),
        ];
        for shape in kinds
            .into_iter()
            .take(if params.tightening.is_ours() { 3 } else { 1 })
        {
            let mut object = object_of(&shape, rng.seed());
            fill_to_depth(&mut object, depth, 0, &mut rng);
            let copy = through_every_form(&object);
            let rates = [&object, &copy].map(|o| o.estimated_rate(|| 0));
            assert_eq!(rates[0].to_bits(), rates[1].to_bits(), "{shape:?}");
            let found =
                [&object, &copy].map(|object| strangers_found(object, 20_000, 0, &mut Rng::new(7)));
            assert_eq!(found[0], found[1]);
            assert!(found[0] > 0, "{shape:?}");
        }
    }
}

#[test]
fn the_rates_of_all_filters_sum_to_the_rate_at_most() {
    for rate in [0.999, 0.5, 0.1, 0.01, 0.001, 1e-9, 1e-100] {
        for ratio in [0.5, 0.1, 0.3, 0.8, 0.99, 0.9999, 0.999_999, 1e-9] {
            let params = Params {
                tightening: tightening(ratio),
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
            if params.tightening == Tightening::HALF {
                assert!(sum >= rate * (1.0 - 2e-6), "{sum:e}: {params:?}");
            }
        }
    }
}

#[test]
fn every_filter_of_a_non_scaling_object_is_for_the_rate_itself() {
    for ratio in [0.5, 0.1] {
        let params = Params {
            tightening: tightening(ratio),
            ..params(100, 0.02, 0)
        };
        assert_eq!(params.growth, Growth::Fixed);
        assert_eq!(params.rate(0).map(Fraction::get), Some(0.02));
    }
}

#[test]
fn an_object_ends_where_the_next_rate_is_too_small() {
    // The third filter would be at 10⁻³¹⁰, of which a double does not hold all digits. (What is as tight under
    // our law fits in no memory.)
    let params = Params {
        tightening: of_valkey_bloom(1e-5),
        ..params(1, 1e-300, 1)
    };
    let mut object = object(&params, Seed::FIXED);
    let outcomes: Vec<_> = (0..100_u8).map(|item| add(&mut object, &[item])).collect();
    let added = outcomes
        .iter()
        .take_while(|outcome| outcome.is_ok())
        .count();
    assert_eq!(outcomes.get(added), Some(&Err(Refusal::RateTooSmall)));
    assert_eq!(filters(&object).len(), 2);
    assert!((0..100_u8).take(added).all(|item| has(&object, &[item])));
}

#[test]
fn an_object_knows_the_rates_that_its_filters_were_made_for() {
    let mut rng = Rng::new(2);
    for (expansion, tightening) in [
        (0, tightening(0.5)),
        (1, tightening(0.5)),
        (2, tightening(0.5)),
        (2, tightening(0.75)),
        (0, of_valkey_bloom(0.5)),
        (1, of_valkey_bloom(0.5)),
        (2, of_valkey_bloom(0.75)),
    ] {
        let params = Params {
            tightening,
            ..params(100, 0.01, expansion)
        };
        let scale_outs = if expansion == 0 { 0 } else { 4 };
        let mut object = object(&params, rng.seed());
        grow(&mut object, &mut rng, |o| is_full(o, scale_outs as u64 + 1));
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
