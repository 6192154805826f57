//! At every capacity, rate and depth, the measured rate is at most the requested rate, and the estimate of BF.INFO
//! matches the measured rate.
//!
//! Tests fill objects completely, when their rate is the highest, and look up items that were never added: strangers.
//! They divide the lookups among several objects with different seeds, because the rate of an object depends on which
//! of its bits are set. If each of `N` answers is a false positive with probability `p` at most, their mean exceeds `p`
//! by more than 4 deviations once in 30,000 runs (one tail of the normal distribution: 3.2·10⁻⁵). The same holds for
//! the mean of objects whose own rates vary about `p`. So a mean that exceeds `p` by more than 4 deviations, of the
//! answers or of the objects, whichever are larger, shows a rate over `p`. Seeds are fixed, so a test that passes once
//! always passes.
//!
//! Tests compare an estimate if enough strangers were found: a thousand determine the rate to within a tenth. The
//! estimate of each object has to be within a factor of two of the measured rate, and the mean of several objects'
//! estimates within a third.

mod chosen;
mod estimates;

use std::collections::VecDeque;

use valkeybloom_sketches::bloom::{Added, Growth, Object, Params, Refusal, Tightening, Time, dump};
use valkeybloom_sketches::{Fraction, Seed};

use crate::support::{
    ROOMY, Rng, add, add_each_at, counting, dump_of, object, object_of, of_valkey_bloom, params,
    scaled_to, tightened, tightening, windowed,
};

/// Adds up to `count` random items, 2,000 at most. Returns the items that were accepted, and whether each was new.
fn add_random(object: &mut Object, count: u64, time: Time, rng: &mut Rng) -> Vec<([u8; 8], bool)> {
    // Items are added in batches, because each call checks the object, which takes as long as many adds.
    let items: Vec<[u8; 8]> = (0..count.min(2000))
        .map(|_| rng.next().to_le_bytes())
        .collect();
    let outcomes = add_each_at(object, &items, time, ROOMY);
    let outcomes = outcomes.into_iter().map_while(Result::ok);
    items
        .into_iter()
        .zip(outcomes.map(|o| o == Added::New))
        .collect()
}

/// Adds items until `new` of them were new.
fn fill(object: &mut Object, new: u64, rng: &mut Rng) {
    let mut taken = 0;
    while taken < new {
        let added = add_random(object, new - taken, Time::default(), rng);
        assert!(!added.is_empty(), "{:?} takes no more", object.shape());
        taken += added.iter().filter(|(_, new)| *new).count() as u64;
    }
}

/// Adds items until at least `depth` filters answer at this time, all of them full. Returns the added items.
fn fill_to_depth(object: &mut Object, depth: u64, time: Time, rng: &mut Rng) -> Vec<[u8; 8]> {
    let (mut items, now_ms) = (Vec::new(), time.now_ms);
    for _ in 0..1_000_000 {
        let room = object.capacity().saturating_sub(object.items(|| now_ms));
        if room == 0 && object.filter_count() >= depth {
            return items;
        }
        // Each item takes room at most once, so this many items fit.
        let added = add_random(object, room.max(1), time, rng);
        items.extend(added.into_iter().map(|(item, _)| item));
    }
    panic!("never full: {:?}", object.shape());
}

/// Returns how many of `asked` items that were never added an object claims. All of these items end in the same word.
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

/// Measurements of several objects of the same kind.
#[derive(Default)]
struct Cell {
    name: String,
    /// For each object, the number of strangers that were looked up, the number that were found, and the estimate.
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

    /// Returns the number of deviations by which the measured rate exceeds `rate`.
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

    /// Returns a message if the measured rate exceeds `rate` by more than 4 deviations.
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

    /// Returns a message if the estimate of an object is not within a factor of two of the measured rate, or the mean
    /// of the estimates is not within a third of it.
    fn untrue(&self) -> Option<String> {
        let name = &self.name;
        let mut enough = self.objects.iter().filter(|(_, found, _)| *found >= 1000.0);
        let far = enough.find_map(|(asked, found, estimate)| {
            let ratio = estimate * asked / found;
            let is_far = !(0.5..=2.0).contains(&ratio);
            is_far.then(|| format!("{name}: estimated at {ratio:.3} of what is measured"))
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

/// Requires that estimates match measured rates, and that none of these is over the rate, if one is given.
#[track_caller]
fn all_keep(cells: impl IntoIterator<Item = (Cell, Option<f64>)>) {
    let wrong = cells.into_iter().flat_map(|(cell, rate)| {
        let over = rate.and_then(|rate| cell.over(rate));
        [over, cell.untrue()].into_iter().flatten()
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Measures objects without a window after filling them up to a depth or a number of items.
fn cell(params: &Params, until: Until, objects: u64, asked: u64, rng: &mut Rng) -> Cell {
    let mut cell = Cell::new(format!("{params:?}, {until:?}"));
    for _ in 0..objects {
        let mut object = object(params, rng.seed());
        match until {
            Until::Depth(depth) => drop(fill_to_depth(&mut object, depth, Time::at(0), rng)),
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

/// Returns the parameters of an object of valkey-bloom.
fn theirs(capacity: u64, rate: f64, expansion: u32) -> Params {
    tightened(of_valkey_bloom(0.5), params(capacity, rate, expansion))
}

/// Measures the cases of the table in `docs/sizing.md` that compares programs. Each case also has a number of objects,
/// and a number of strangers that are looked up in each object.
#[test]
fn objects_keep_the_requested_rate() {
    let cells = [
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
        // Small objects with a low rate.
        (0.001, 1, 0, 1, 3, 2_000_000),
        (0.001, 3, 1, 100, 3, 2_000_000),
        (0.001, 10, 2, 5, 3, 2_000_000),
        (0.001, 20, 2, 5000, 3, 2_000_000),
        (0.001, 23, 1, 1000, 3, 2_000_000),
        (0.0002, 5, 1, 50, 3, 2_000_000),
        (0.0002, 20, 0, 20, 3, 2_000_000),
    ];
    all_keep(
        cells.map(|(rate, capacity, expansion, items, objects, asked)| {
            let mut rng = Rng::new(capacity ^ items);
            let params = params(capacity, rate, expansion);
            let cell = cell(&params, Until::Items(items), objects, asked, &mut rng);
            // The rate of a fixed object for 10,000 items is not much below the requested rate either.
            if capacity == 10_000 {
                let deviations = cell.deviations(rate);
                assert!(deviations >= -4.0, "{deviations:.1}: {}", cell.name);
            }
            (cell, Some(rate))
        }),
    );
}

/// Measures plain objects of every kind, from the smallest capacity on.
#[test]
fn every_capacity_rate_and_depth_keeps_its_rate() {
    let mut rng = Rng::new(2);
    let mut cells = Vec::new();
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
                    let params = tightened(tightening, params(capacity, rate, expansion));
                    let objects = if capacity < 100 { 12 } else { 2 };
                    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    let asked = ((300.0 / rate) as u64).clamp(2000, 40_000);
                    let cell = cell(&params, Until::Depth(depth), objects, asked, &mut rng);
                    cells.push((cell, Some(rate)));
                }
            }
        }
    }
    all_keep(cells);
}

/// With a steep ratio the first filters use nearly all of the rate, so there is no slack.
#[test]
fn a_steep_ratio_keeps_its_rate() {
    let mut rng = Rng::new(3);
    let mut cells = Vec::new();
    for rate in [0.5, 0.1, 0.01] {
        for (capacity, expansion, depth) in [(10_000, 1, 1), (5000, 1, 6), (1000, 2, 4), (50, 1, 4)]
        {
            let params = tightened(tightening(0.1), params(capacity, rate, expansion));
            let cell = cell(&params, Until::Depth(depth), 2, 100_000, &mut rng);
            cells.push((cell, Some(rate)));
        }
    }
    all_keep(cells);
}

/// At some of these rates, objects of other programs never fill up: each item causes more false positives than it
/// should, and few items are new.
#[test]
fn fixed_objects_fill_up_to_their_capacity_at_every_rate() {
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

/// Measures tables as they fill, and after items were removed or have expired, many times over.
#[test]
fn tables_keep_their_rate_at_every_fill() {
    let mut all = Vec::new();
    for (rate, capacity, expansion, depth) in [
        (0.1, 410, 0, 1),
        (0.1, 20, 1, 3),
        (0.01, 1000, 0, 1),
        (0.01, 40, 2, 2),
        (0.5, 2048, 0, 1),
        (0.5, 1500, 1, 2),
    ] {
        let params = params(capacity, rate, expansion);
        let shapes = [
            counting(params),
            scaled_to(params),
            windowed(params, 100, 1),
            windowed(params, 100, 5),
        ];
        for shape in shapes {
            let mut rng = Rng::new(capacity);
            let times = 6;
            let mut cells: Vec<_> = (0..times)
                .map(|time| Cell::new(format!("{shape:?}, time {time}")))
                .collect();
            for _ in 0..6 {
                let mut object = object_of(&shape, rng.seed());
                let mut items: VecDeque<[u8; 8]> = VecDeque::new();
                for (time, cell) in (0..).zip(&mut cells) {
                    let now_ms = time * 100;
                    object.tidy(now_ms);
                    while object.totals().1 > object.capacity() / 2 && shape.is_counting() {
                        // An item that several tables claim stays.
                        let Some(item) = items.pop_front() else { break };
                        object.remove(&item);
                    }
                    let share = if shape.window().is_some() { 3 } else { 1 };
                    while object.filter_count() <= depth {
                        let room = object.capacity() - object.totals().1;
                        if room == 0 && object.filter_count() == depth {
                            break;
                        }
                        let room = room.div_ceil(share).max(1);
                        let added = add_random(&mut object, room, Time::at(now_ms), &mut rng);
                        items.extend(added.into_iter().map(|(item, _)| item));
                        if share > 1 {
                            break;
                        }
                    }
                    cell.measure(&object, 60_000, now_ms, &mut rng);
                }
            }
            all.extend(cells.into_iter().map(|cell| (cell, Some(rate))));
        }
    }
    all_keep(all);
}

#[test]
fn the_rates_of_all_filters_sum_to_at_most_the_requested_rate() {
    for rate in [0.999, 0.5, 0.1, 0.01, 0.001, 1e-9, 1e-100] {
        for ratio in [0.5, 0.1, 0.3, 0.8, 0.99, 0.9999, 0.999_999, 1e-9] {
            let params = tightened(tightening(ratio), params(100, rate, 2));
            let (mut sum, mut last) = (0.0, 1.0);
            for index in 0..1_000_000 {
                // Growth ends when the rate is too small for a double.
                let Some(rate) = params.rate(index).map(Fraction::get) else {
                    assert!((index..index + 1000).all(|later| params.rate(later).is_none()));
                    break;
                };
                assert!(rate <= last, "{params:?} loosens at {index}");
                last = rate;
                sum += rate;
            }
            // A sum of up to 1,000,000 doubles has a rounding error.
            assert!(sum <= rate * (1.0 + 1e-12), "{sum:e}: {params:?}");
            // No part of the rate is unused: by now the default series is within 2·10⁻⁶ of its sum.
            if params.tightening == Tightening::HALF {
                assert!(sum >= rate * (1.0 - 2e-6), "{sum:e}: {params:?}");
            }
        }
    }
}

/// In other programs, the first filter of a scaling object has the whole rate. A filter's rate is computed from its
/// sizes, not from the rate that this program would have chosen.
#[test]
fn the_rate_of_a_foreign_filter_is_computed_from_its_sizes() {
    let theirs = object(&params(1000, 0.01, 0), Seed::FIXED);
    let mut bytes = dump_of(&theirs);
    // The expansion, after the version.
    bytes[1] = 2;
    let object = dump::decode(&bytes).unwrap();
    assert_eq!(object.shape().params.growth, Growth::from_expansion(2));
    let (_, told) = object.filters().next().unwrap();
    assert!((told - 0.01).abs() < 0.0001, "told {told}");
}
