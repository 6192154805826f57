//! Random lives of sketches, each beside the naive model.

use valkeybloom_sketches::cms::{CellSize, CountMin, NotCounted, Overflow, Refusal, Shape};
use valkeybloom_testing::count_min::Naive;

use murmur2::murmur2;
use crate::support::{Moving, Rng, at_each_width};

use super::{assert_equal, fields_of, increment, read, sketch};

#[test]
fn a_life_is_that_of_the_model() {
    at_each_width(|_| {
        let mut rng = Rng::new(1);
        let mut outcomes = [0; 4];
        for life in 0..60 {
            let width = *rng.pick(&[1, 2, 3, 7, 30, 64, 1000]);
            let depth = *rng.pick(&[1, 2, 5, 7, 8, 9, 16, 17, 33, 64, 65, 200, 1024, 1500]);
            let size = *rng.pick(&CellSize::ALL);
            let overflow = *rng.pick(&[Overflow::Refuse, Overflow::Saturate]);
            let items = 1 + rng.below(20);
            let items: Vec<_> = (0..items)
                .map(|_| {
                    let length = rng.below(40);
                    rng.bytes(length)
                })
                .collect();
            let mut naive = Naive::new(width, depth, size.bytes());
            let mut real = sketch(width as u64, depth as u64, size);
            for _ in 0..30 {
                let count = *rng.pick(&[1, 1, 2, 9, 300]);
                let pairs: Vec<_> = (0..count)
                    .map(|_| (&rng.pick(&items)[..], increment(&mut rng, size.max())))
                    .collect();
                let expected: Vec<_> = pairs
                    .iter()
                    .map(|(item, by)| naive.increment(item, *by, overflow))
                    .collect();
                let mut counted = Vec::new();
                if let [(item, by)] = pairs[..] {
                    counted.push(real.increment(item, by, overflow));
                } else {
                    let report = |outcome| counted.push(outcome);
                    real.increment_each(pairs.into_iter(), overflow, report);
                }
                assert_eq!(counted, expected, "life {life}");
                for outcome in counted {
                    outcomes[match outcome {
                        Ok(_) => 0,
                        Err(NotCounted::Overflow) => 1,
                        Err(NotCounted::Underflow) => 2,
                        Err(NotCounted::Saturated) => 3,
                    }] += 1;
                }
            }
            naive.assert_same(&real);
            let asked = rng.below(400);
            let asked: Vec<_> = (0..asked).map(|_| &rng.pick(&items)[..]).collect();
            let mut estimates = Vec::new();
            real.estimate_each(asked.iter().copied(), |estimate| estimates.push(estimate));
            let expected: Vec<_> = asked.iter().map(|item| naive.estimate(item)).collect();
            assert_eq!(estimates, expected, "life {life}");
            for (item, estimate) in asked.iter().zip(expected) {
                assert_eq!(real.estimate(item), estimate, "life {life}");
            }
            real.relocate(&mut Moving(usize::MAX));
            assert_equal(&read(0, fields_of(&real)).unwrap(), &real);
            assert_equal(&real.try_clone().unwrap(), &real);
        }
        assert!(outcomes.iter().all(|count| *count > 100), "{outcomes:?}");
    });
}

#[test]
fn the_published_columns_hold() {
    for (width, columns) in [
        (2000, [773, 586, 736, 1465, 27, 60, 281]),
        (8, [5, 2, 0, 1, 3, 4, 1]),
    ] {
        let mut real = sketch(width, 7, CellSize::One);
        assert_eq!(real.increment(b"foo", 1, Overflow::Refuse), Ok(1));
        let rows = real.table().chunks(usize::try_from(width).unwrap());
        let found = rows.map(|row| row.iter().position(|counter| *counter == 1).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), columns);
        for (row, column) in (0..).zip(columns) {
            assert_eq!(u64::from(murmur2(b"foo", row)) % width, column as u64);
        }
    }
}

#[test]
fn a_long_item_is_hashed_whole() {
    let item = Rng::new(2).bytes(100_001);
    for depth in [7, 100] {
        let (mut naive, mut real) = (
            Naive::new(1000, depth, 4),
            sketch(1000, depth as u64, CellSize::Four),
        );
        assert_eq!(naive.increment(&item, 5, Overflow::Refuse), Ok(5));
        assert_eq!(real.increment(&item, 5, Overflow::Refuse), Ok(5));
        naive.assert_same(&real);
    }
}

#[test]
fn the_limit_is_on_all_of_a_sketch() {
    let shape = Shape::new(1000, 5, CellSize::Two).unwrap();
    let bytes = 10_000 + CountMin::BASE_BYTES;
    assert_eq!(CountMin::new(shape, bytes).unwrap().memory_bytes(), bytes);
    let refused = CountMin::new(shape, bytes - 1);
    assert_eq!(refused.err(), Some(Refusal::MemoryLimit));
    // No machine has that much, and the size of the second one does not fit 64 bits.
    for (width, size) in [(1 << 60, CellSize::Four), (1 << 61, CellSize::Eight)] {
        let shape = Shape::new(width, 1, size).unwrap();
        let refused = CountMin::new(shape, u64::MAX);
        assert_eq!(refused.err(), Some(Refusal::OutOfMemory));
    }
}
