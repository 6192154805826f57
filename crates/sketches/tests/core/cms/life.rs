//! Random lives of sketches, each beside the naive model.

use murmur2::murmur2;
use valkeybloom_sketches::cms::{
    CellSize, CountMin, NotCounted, Overflow, Refusal, Shape, Term, wire,
};
use valkeybloom_sketches::payload::restore;
use valkeybloom_testing::count_min::Naive;
use valkeybloom_testing::loader::Dump;

use crate::support::{Field, Moving, Rng, at_each_width};

use super::{assert_equal, fields_of, increment, read, sketch};

fn dump_of(sketch: &CountMin, version: i32) -> Dump {
    let payload = restore(wire::TYPE_NAME, version, |to| {
        wire::write_rdb(sketch, version, to);
    });
    Dump::of(&payload).unwrap()
}

/// Replaces both by their multiple. Returns whether it was in range.
fn merge(real: &mut CountMin, naive: &mut Naive, weight: i64) -> bool {
    let term = Term {
        source: real,
        weight,
    };
    let merged = CountMin::merged(&[term], Overflow::Refuse);
    let expected = Naive::merged(&[(naive, weight)], Overflow::Refuse);
    assert_eq!(merged.as_ref().err(), expected.as_ref().err());
    let (Ok(merged), Ok(expected)) = (merged, expected) else {
        return false;
    };
    (*real, *naive) = (merged, expected);
    true
}

/// What has happened in the lives of sketches.
#[derive(Default)]
struct Seen {
    /// The outcomes of increments: counted, overflow, underflow, saturated.
    outcomes: [u32; 4],
    merged: u32,
    /// How often a count was above the largest signed number.
    wrapped: u32,
}

/// A sketch and its model.
struct Life {
    real: CountMin,
    naive: Naive,
    size: CellSize,
    overflow: Overflow,
    items: Vec<Vec<u8>>,
    /// How many items a command increments.
    counts: &'static [usize],
}

impl Life {
    fn run_command(&mut self, rng: &mut Rng, seen: &mut Seen) {
        match rng.below(20) {
            0 => {
                let weight = *rng.pick(&[0, 1, 2, -1, 1 << 20]);
                seen.merged += u32::from(merge(&mut self.real, &mut self.naive, weight));
            }
            1 => {
                self.real.relocate(&mut Moving(usize::MAX));
                let again = read(0, fields_of(&self.real)).unwrap();
                assert_equal(&again, &self.real);
                self.real = again.try_clone().unwrap();
            }
            _ => self.increment(rng, seen),
        }
    }

    fn increment(&mut self, rng: &mut Rng, seen: &mut Seen) {
        let pairs: Vec<_> = (0..*rng.pick(self.counts))
            .map(|_| (&rng.pick(&self.items)[..], increment(rng, self.size.max())))
            .collect();
        let expected = pairs.iter();
        let expected: Vec<_> = expected
            .map(|(item, by)| self.naive.increment(item, *by, self.overflow))
            .collect();
        let mut counted = Vec::new();
        if let [(item, by)] = pairs[..] {
            counted.push(self.real.increment(item, by, self.overflow));
        } else {
            let report = |outcome| counted.push(outcome);
            self.real
                .increment_each(pairs.into_iter(), self.overflow, report);
        }
        assert_eq!(counted, expected);
        for outcome in counted {
            seen.outcomes[match outcome {
                Ok(_) => 0,
                Err(NotCounted::Overflow) => 1,
                Err(NotCounted::Underflow) => 2,
                Err(NotCounted::Saturated) => 3,
            }] += 1;
        }
    }

    /// Compares the payload of DUMP in one of the encoding versions.
    fn compare_dumps(&self, rng: &mut Rng, seen: &mut Seen) {
        let version = *rng.pick(&[0, 1]);
        let dump = dump_of(&self.real, version);
        assert_eq!(dump.fields, self.naive.fields(version));
        let is_above = self.real.count() > i64::MAX as u64;
        seen.wrapped += u32::from(is_above);
        // Without the size of a counter, or with a larger count, RedisBloom 8.12 refuses it.
        if version == 1 || !is_above && self.size == CellSize::Four {
            let loaded = dump.count_min().unwrap();
            let counters = self.naive.rows.iter().flatten();
            let counters = counters.map(|it| u64::try_from(*it).unwrap());
            assert_eq!(loaded.counters, counters.collect::<Vec<_>>());
            assert_eq!(loaded.cell_bytes, self.naive.bytes);
        }
    }

    fn compare_estimates(&mut self, rng: &mut Rng) {
        let asked: Vec<_> = (0..rng.below(400))
            .map(|_| &rng.pick(&self.items)[..])
            .collect();
        let mut estimates = Vec::new();
        let report = |estimate| estimates.push(estimate);
        self.real.estimate_each(asked.iter().copied(), report);
        let expected: Vec<_> = asked.iter().map(|item| self.naive.estimate(item)).collect();
        assert_eq!(estimates, expected);
        for (item, estimate) in asked.iter().zip(expected) {
            assert_eq!(self.real.estimate(item), estimate);
        }
    }
}

/// Commands under both rules for increments that counters of four bytes can't take. Their outcomes, and the payload of
/// DUMP in one of the encoding versions, are those of the model; small sketches, which overflow soon, are compared after
/// each command.
#[test]
fn a_life_is_that_of_the_model() {
    at_each_width(|_| {
        for overflow in [Overflow::Refuse, Overflow::Saturate] {
            let mut rng = Rng::new(1);
            let mut seen = Seen::default();
            for life in 0..480 {
                let is_small = life % 8 > 0;
                let depths = [1, 2, 5, 7, 8, 9, 16, 17, 33, 64, 65, 200, 1024, 1500];
                let (width, depth, commands) = if is_small {
                    (1 + rng.below(4), 1 + rng.below(3), 500)
                } else {
                    let widths = [1, 2, 3, 7, 30, 64, 1000];
                    (*rng.pick(&widths), *rng.pick(&depths), 30)
                };
                let size = *rng.pick(&CellSize::ALL);
                let mut life = Life {
                    items: (0..=rng.below(20)).map(|_| rng.item(40)).collect(),
                    naive: Naive::new(width, depth, size.bytes()),
                    real: sketch(width as u64, depth as u64, size),
                    size,
                    overflow,
                    counts: if is_small { &[1, 1, 2] } else { &[1, 9, 300] },
                };
                for command in 1..=commands {
                    life.run_command(&mut rng, &mut seen);
                    if is_small || command == commands {
                        life.compare_dumps(&mut rng, &mut seen);
                    }
                }
                life.compare_estimates(&mut rng);
            }
            let counted = seen.outcomes.map(|count| count > 1000);
            assert!(counted[..3] == [true; 3] && seen.merged > 1000);
            let saturates = overflow == Overflow::Saturate;
            assert_eq!([counted[3], seen.wrapped > 1000], [saturates; 2]);
        }
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
        let mut naive = Naive::new(1000, depth, 4);
        let mut real = sketch(1000, depth as u64, CellSize::Four);
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

/// Counters of four bytes that saturated elsewhere: their count stays above the largest one until items are subtracted.
#[test]
fn a_count_above_the_largest_takes_no_more() {
    let mut fields = fields_of(&sketch(3, 2, CellSize::Four));
    fields.0[2] = Field::Uint(u64::MAX);
    fields.0[3] = Field::Bytes(vec![9; 24]);
    let mut real = read(0, fields).unwrap();
    let counter = u64::from(u32::from_le_bytes([9; 4]));
    for (by, overflow, outcome, count) in [
        (1, Overflow::Refuse, Err(NotCounted::Overflow), u64::MAX),
        (0, Overflow::Refuse, Ok(counter), u64::MAX),
        (-1, Overflow::Refuse, Ok(counter - 1), u64::MAX - 1),
        (3, Overflow::Saturate, Ok(counter + 2), 1),
        (-2, Overflow::Refuse, Err(NotCounted::Underflow), 1),
        (1, Overflow::Refuse, Ok(counter + 3), 2),
    ] {
        assert_eq!(real.increment(b"a", by, overflow), outcome, "{by}");
        assert_eq!(real.count(), count, "{by}");
    }
}
