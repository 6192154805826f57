//! Both rules for increments that counters of four bytes can't take: a million commands of each, and after each command
//! the payload of DUMP in one of the encoding versions.

use valkeybloom_sketches::cms::{CellSize, CountMin, NotCounted, Overflow, Term, wire};
use valkeybloom_sketches::payload::restore;
use valkeybloom_testing::count_min::Naive;
use valkeybloom_testing::loader::Dump;

use crate::support::Rng;

use super::{assert_equal, fields_of, increment, read, sketch};

const COMMANDS: u32 = 1_000_000;
const ITEMS: [&[u8]; 5] = [b"", b"a", b"foo", b"item", b"12345678"];

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
    let merged = CountMin::merged(&[term], true);
    let expected = Naive::merged(&[(naive, weight)]);
    assert_eq!(merged.as_ref().err(), expected.as_ref().err());
    let (Ok(merged), Ok(expected)) = (merged, expected) else {
        return false;
    };
    (*real, *naive) = (merged, expected);
    true
}

#[test]
fn a_million_commands_of_each_rule_have_the_bytes_of_the_model() {
    for overflow in [Overflow::Refuse, Overflow::Saturate] {
        let mut rng = Rng::new(8);
        let (mut outcomes, mut merged, mut wrapped) = ([0; 4], 0, 0);
        let mut real = sketch(1, 1, CellSize::Four);
        let mut naive = Naive::new(1, 1, 4);
        for number in 0..COMMANDS {
            if number % 500 == 0 {
                let (width, depth) = (1 + rng.below(4), 1 + rng.below(3));
                // The other sizes have one rule.
                let size = *rng.pick(&[
                    CellSize::Four,
                    CellSize::Four,
                    CellSize::One,
                    CellSize::Eight,
                ]);
                real = sketch(width as u64, depth as u64, size);
                naive = Naive::new(width, depth, size.bytes());
            }
            match rng.below(20) {
                0 => {
                    let weight = *rng.pick(&[0, 1, 2, -1, 1 << 20]);
                    merged += u32::from(merge(&mut real, &mut naive, weight));
                }
                1 => {
                    let again = read(0, fields_of(&real)).unwrap();
                    assert_equal(&again, &real);
                    real = again;
                }
                _ => {
                    let by = increment(&mut rng, real.shape().cell_size().max());
                    let item = rng.pick(&ITEMS);
                    let counted = real.increment(item, by, overflow);
                    assert_eq!(counted, naive.increment(item, by, overflow), "{number}");
                    outcomes[match counted {
                        Ok(_) => 0,
                        Err(NotCounted::Overflow) => 1,
                        Err(NotCounted::Underflow) => 2,
                        Err(NotCounted::Saturated) => 3,
                    }] += 1;
                }
            }
            let version = *rng.pick(&[0, 1]);
            let dump = dump_of(&real, version);
            assert_eq!(dump.fields, naive.fields(version), "{number}");
            let is_above = real.count() > i64::MAX as u64;
            wrapped += u32::from(is_above);
            // Without the size of a counter, or with a larger count, RedisBloom 8.12 refuses it.
            if version == 1 || !is_above && real.shape().cell_size() == CellSize::Four {
                let loaded = dump.count_min().unwrap();
                let counters = naive.rows.iter().flatten();
                let counters = counters.map(|counter| u64::try_from(*counter).unwrap());
                assert_eq!(loaded.counters, counters.collect::<Vec<_>>());
                assert_eq!(loaded.cell_bytes, naive.bytes);
            }
        }
        assert!(outcomes[..3].iter().all(|count| *count > 1000) && merged > 1000);
        let saturates = overflow == Overflow::Saturate;
        assert_eq!([outcomes[3] > 1000, wrapped > 1000], [saturates; 2]);
    }
}

/// A pair that fits gives the same bits under either rule, so a replica may have the other one.
#[test]
fn what_fits_is_counted_alike() {
    let [mut refusing, mut saturating] = [(); 2].map(|()| sketch(3, 2, CellSize::Four));
    let mut rng = Rng::new(9);
    let mut counted = 0;
    for _ in 0..10_000 {
        let (item, by) = (*rng.pick(&ITEMS), increment(&mut rng, u32::MAX.into()));
        if refusing.increment(item, by, Overflow::Refuse).is_ok() {
            counted += 1;
            let outcome = saturating.increment(item, by, Overflow::Saturate);
            assert!(matches!(outcome, Ok(_) | Err(NotCounted::Saturated)));
            assert_equal(&saturating, &refusing);
        }
    }
    assert!(counted > 1000);
}

/// Counters of four bytes that saturated elsewhere: their count stays above the largest one until items are subtracted.
#[test]
fn a_count_above_the_largest_takes_no_more() {
    let mut fields = fields_of(&sketch(3, 2, CellSize::Four));
    fields.0[2] = crate::support::Field::Uint(u64::MAX);
    fields.0[3] = crate::support::Field::Bytes(vec![9; 24]);
    let mut real = read(0, fields).unwrap();
    let counter = u64::from(u32::from_le_bytes([9; 4]));
    let mut increment = |by, overflow| (real.increment(b"a", by, overflow), real.count());
    let refused = Err(NotCounted::Overflow);
    assert_eq!(increment(1, Overflow::Refuse), (refused, u64::MAX));
    assert_eq!(increment(0, Overflow::Refuse), (Ok(counter), u64::MAX));
    assert_eq!(
        increment(-1, Overflow::Refuse),
        (Ok(counter - 1), u64::MAX - 1)
    );
    assert_eq!(increment(3, Overflow::Saturate), (Ok(counter + 2), 1));
    assert_eq!(
        increment(-2, Overflow::Refuse),
        (Err(NotCounted::Underflow), 1)
    );
    assert_eq!(increment(1, Overflow::Refuse), (Ok(counter + 3), 2));
}
