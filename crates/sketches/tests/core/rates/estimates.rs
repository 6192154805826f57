//! The rate that BF.INFO estimates matches the measured rate.

use valkeybloom_sketches::bloom::{Object, Refusal, Time};

use crate::draft::Draft;
use crate::support::{ROOMY, Rng, add, filters, object, params};

use super::{Cell, Until, cell, fill_to_depth, none, theirs};

/// Measures small objects with a low rate, which takes many lookups.
#[test]
fn estimates_are_accurate_for_small_objects_with_a_low_rate() {
    let mut rng = Rng::new(10);
    let mut wrong = Vec::new();
    for (rate, capacity, expansion, items) in [
        (0.001, 1, 0, 1),
        (0.001, 3, 1, 100),
        (0.001, 10, 2, 5),
        (0.001, 20, 2, 5000),
        (0.001, 23, 1, 1000),
        (0.0002, 5, 1, 50),
        (0.0002, 20, 0, 20),
    ] {
        let params = params(capacity, rate, expansion);
        let cell = cell(&params, Until::Items(items), 3, 2_000_000, &mut rng);
        wrong.extend(cell.untrue());
    }
    none(&wrong);
}

/// Filters of one size that hold the same items claim the same strangers. Such filters are in merged objects, where they
/// had to be stacked.
#[test]
fn estimates_are_accurate_for_filters_that_share_items() {
    let mut wrong = Vec::new();
    for (rate, capacity, shared) in [
        (0.05, 1000, 950),
        (0.05, 1000, 500),
        (0.05, 1000, 0),
        (0.3, 128, 120),
    ] {
        let mut rng = Rng::new(shared);
        let seed = rng.seed();
        let of_items = |items: std::ops::Range<u64>| {
            let mut object = object(&params(capacity, rate, 0), seed);
            for item in items {
                let added = add(&mut object, &item.to_le_bytes());
                assert!(added.is_ok() || added == Err(Refusal::Full));
            }
            object
        };
        let one = of_items(0..capacity);
        let other = of_items(capacity - shared..2 * capacity - shared);
        let merged = Object::merged(&[&one, &other], ROOMY).unwrap();
        let mut cell = Cell::new(format!("{rate}, {capacity}, {shared} shared"));
        cell.measure(&merged, 300_000, 0, &mut rng);
        wrong.extend(cell.untrue());
    }
    none(&wrong);
}

/// Merges filters of one size that hold the same items; one of them has a single hash function. The other claims many of
/// the strangers that it claims, so the sum of their rates is a sixth too high.
#[test]
fn estimates_are_accurate_for_filters_with_one_and_two_hash_functions() {
    let mut rng = Rng::new(11);
    let mut cell = Cell::new("one hash function beside two");
    for _ in 0..20 {
        let seed = rng.seed();
        let items: Vec<_> = (0..10).map(|_| rng.bytes(8)).collect();
        let sources = [0.3, 0.4].map(|rate| {
            let mut object = object(&params(10, rate, 0), seed);
            for item in &items {
                let _ = add(&mut object, item);
            }
            object
        });
        let merged = Object::merged(&[&sources[0], &sources[1]], ROOMY).unwrap();
        let filters = filters(&merged).into_iter();
        let mut forms: Vec<_> = filters.map(|it| (it.hashes(), it.bitmap().len())).collect();
        forms.sort_unstable();
        assert_eq!(forms, [(1, 4), (2, 4)]);
        cell.measure(&merged, 100_000, 0, &mut rng);
    }
    let measured = cell.mean(|(asked, found, _)| found / asked);
    let ratio = cell.mean(|(.., estimate)| *estimate) / measured;
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
}

/// Objects of valkey-bloom may exceed their requested rates, but estimates match the measured rates.
#[test]
fn estimates_are_accurate_for_objects_of_valkey_bloom() {
    let mut rng = Rng::new(8);
    let mut wrong = Vec::new();
    for rate in [0.1, 0.01, 0.001] {
        for capacity in [1, 10, 100] {
            for (expansion, depth) in [(0, 1), (1, 5), (1, 30), (2, 6)] {
                let params = theirs(capacity, rate, expansion);
                let cell = cell(&params, Until::Depth(depth), 8, 40_000, &mut rng);
                wrong.extend(cell.untrue());
            }
        }
    }
    none(&wrong);
}

#[test]
fn estimates_are_accurate_for_objects_of_redisbloom() {
    let mut rng = Rng::new(9);
    let mut wrong = Vec::new();
    for rate in [0.1, 0.01, 0.001] {
        for capacity in [1, 10, 100] {
            for (growth, depth) in [(1, 5), (1, 30), (2, 6)] {
                let mut cell = Cell::new(format!("{rate}, {capacity}, x{growth}, {depth} links"));
                // Objects of RedisBloom have no seed, so their items differ instead.
                for _ in 0..8 {
                    let mut object = Draft::made(capacity, rate, growth, false).read().unwrap();
                    fill_to_depth(&mut object, depth, Time::at(0), &mut rng);
                    cell.measure(&object, 40_000, 0, &mut rng);
                }
                wrong.extend(cell.untrue());
            }
        }
    }
    none(&wrong);
}
