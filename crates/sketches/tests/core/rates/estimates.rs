//! The rate that BF.INFO estimates matches the measured rate.

use valkeybloom_sketches::bloom::{Object, Refusal, Time};

use crate::draft::Draft;
use crate::support::{ROOMY, Rng, add, filters, object, params};

use super::{Cell, Until, all_keep, cell, fill_to_depth, theirs};

/// Filters of one size that hold the same items claim the same strangers. Such filters are in merged objects, where they
/// had to be stacked.
#[test]
fn estimates_are_accurate_for_filters_that_share_items() {
    let cells = [
        (0.05, 1000, 950),
        (0.05, 1000, 500),
        (0.05, 1000, 0),
        (0.3, 128, 120),
    ];
    all_keep(cells.map(|(rate, capacity, shared)| {
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
        (cell, None)
    }));
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

/// Objects of valkey-bloom and of `RedisBloom` may exceed their requested rates, but estimates match the measured rates.
#[test]
fn estimates_are_accurate_for_objects_of_others() {
    let (mut rng, mut their_rng) = (Rng::new(8), Rng::new(9));
    let mut cells = Vec::new();
    for (rate, capacity) in [0.1, 0.01, 0.001]
        .map(|rate| [1, 10, 100].map(|it| (rate, it)))
        .concat()
    {
        for (expansion, depth) in [(0, 1), (1, 5), (1, 30), (2, 6)] {
            let params = theirs(capacity, rate, expansion);
            cells.push(cell(&params, Until::Depth(depth), 8, 40_000, &mut rng));
            if expansion == 0 {
                continue;
            }
            let mut cell = Cell::new(format!("{rate}, {capacity}, x{expansion}, {depth} links"));
            // Objects of RedisBloom have no seed, so their items differ instead.
            for _ in 0..8 {
                let draft = Draft::made(capacity, rate, expansion.into(), false);
                let mut object = draft.read().unwrap();
                fill_to_depth(&mut object, depth, Time::at(0), &mut their_rng);
                cell.measure(&object, 40_000, 0, &mut their_rng);
            }
            cells.push(cell);
        }
    }
    all_keep(cells.into_iter().map(|cell| (cell, None)));
}
