//! Tables of fingerprints against maps: random operations, on random fingerprints and on crowded ones.

use std::collections::BTreeMap;

use valkeybloom_sketches::table::{Counts, Payload, Plain, Refused, Table};

use crate::support::{Moving, Rng, at_each_width};

/// What a table has to hold.
type Map = BTreeMap<u64, u64>;

/// The fingerprints that a round draws.
#[derive(Clone, Copy, Debug)]
struct Draw {
    bits: u32,
    /// The number of different ones.
    range: u64,
    /// How far apart they are, as a power of two.
    spread: u32,
    /// Whether half of them have one of a few values.
    has_favourites: bool,
}

impl Draw {
    fn new(rng: &mut Rng) -> Self {
        let bits = *rng.pick(&[12, 13, 17, 21, 27, 40, 60]);
        let log = bits.min(6 + u32::try_from(rng.below(11)).unwrap());
        Self {
            bits,
            range: 1 << log,
            spread: if rng.below(3) == 0 { 0 } else { bits - log },
            has_favourites: rng.below(3) == 0,
        }
    }

    fn next(self, rng: &mut Rng) -> u64 {
        let range = if self.has_favourites && rng.below(2) == 0 {
            5
        } else {
            self.range
        };
        (rng.next() % range) << self.spread
    }

    /// Returns a fingerprint that may be in no table.
    fn any(self, rng: &mut Rng) -> u64 {
        rng.next() >> (64 - self.bits)
    }
}

#[track_caller]
fn assert_holds<P: Payload>(table: &Table<P>, map: &Map, draw: Draw, rng: &mut Rng) {
    let mut held = Vec::new();
    table.for_each(|fingerprint, payload| held.push((fingerprint, payload)));
    assert!(
        held.iter()
            .copied()
            .eq(map.iter().map(|(key, count)| (*key, *count))),
        "{draw:?}"
    );
    assert_eq!(table.fingerprints(), map.len() as u64, "{draw:?}");
    let looked_up: Vec<u64> = (0..100)
        .map(|number| {
            if number % 2 == 0 {
                draw.any(rng)
            } else {
                draw.next(rng)
            }
        })
        .collect();
    let mut answers = vec![false; looked_up.len()];
    table.contains_each(&looked_up, &mut answers);
    for (fingerprint, answer) in looked_up.iter().zip(answers) {
        assert_eq!(answer, map.contains_key(fingerprint), "{draw:?}");
        assert_eq!(table.contains(*fingerprint), answer, "{draw:?}");
    }
}

#[test]
fn counts_are_those_of_a_map() {
    at_each_width(|_| {
        let mut rng = Rng::new(48);
        for _ in 0..30 {
            let draw = Draw::new(&mut rng);
            let (mut table, mut map) = (Table::<Counts>::new(draw.bits).unwrap(), Map::new());
            for additions in [95, 20, 70, 0, 50, 0] {
                for _ in 0..6_000 {
                    let fingerprint = draw.next(&mut rng);
                    let count = map.get(&fingerprint).copied().unwrap_or(0);
                    assert_eq!(table.count(fingerprint), count, "{draw:?}");
                    if rng.below(100) >= additions {
                        assert_eq!(table.remove(fingerprint), count, "{draw:?}");
                        if count > 1 {
                            map.insert(fingerprint, count - 1);
                        } else {
                            map.remove(&fingerprint);
                        }
                    } else if let Ok(before) = table.add(fingerprint) {
                        assert_eq!(before, count, "{draw:?}");
                        map.insert(fingerprint, count + 1);
                    } else {
                        assert_eq!(
                            (draw.spread, table.count(fingerprint)),
                            (0, count),
                            "{draw:?}"
                        );
                    }
                }
                assert_holds(&table, &map, draw, &mut rng);
                table = table.try_clone().unwrap();
                let mut next = Some(0);
                while let Some(first) = next {
                    next = table.relocate(first, &mut Moving(3));
                }
                assert_holds(&table, &map, draw, &mut rng);
            }
        }
    });
}

#[test]
fn plain_tables_are_sets() {
    let mut rng = Rng::new(49);
    for round in 0..40 {
        let draw = Draw::new(&mut rng);
        let (mut table, mut map) = (Table::<Plain>::new(draw.bits).unwrap(), Map::new());
        for _ in 0..1_000 * round {
            let fingerprint = draw.next(&mut rng);
            match table.add(fingerprint) {
                Ok(is_new) => assert_eq!(is_new, map.insert(fingerprint, 1).is_none(), "{draw:?}"),
                Err(refused) => {
                    assert_eq!(refused, Refused::Crowded);
                    assert!(
                        draw.spread == 0 && !map.contains_key(&fingerprint),
                        "{draw:?}"
                    );
                }
            }
        }
        assert_holds(&table, &map, draw, &mut rng);
    }
}

/// One fingerprint is counted as often as there is time for, and then as often down.
#[test]
fn a_count_grows_and_shrinks_by_digits() {
    for bits in [12, 13, 20] {
        let mut table = Table::<Counts>::new(bits).unwrap();
        for neighbour in [6, 8] {
            table.add(neighbour).unwrap();
        }
        for count in 0..100_000 {
            assert_eq!(table.add(7), Ok(count));
        }
        for count in (1..=100_000).rev() {
            assert_eq!(table.remove(7), count);
        }
        assert_eq!(
            [6, 7, 8].map(|fingerprint| table.count(fingerprint)),
            [1, 0, 1]
        );
    }
}

/// Tables of random fingerprints, of as many bits as a rate of 1 % needs, take the memory that the page of the module says.
#[test]
#[allow(clippy::cast_precision_loss, reason = "the numbers are small")]
fn memory_follows_the_fingerprints() {
    for number in [1_000, 10_000, 100_000, 1_000_000_u64] {
        let bits = (100 * number).next_power_of_two().ilog2();
        let mut rng = Rng::new(50);
        let (mut counts, mut plain) = (
            Table::<Counts>::new(bits).unwrap(),
            Table::<Plain>::new(bits).unwrap(),
        );
        for _ in 0..number {
            let fingerprint = rng.next() >> (64 - bits);
            counts.add(fingerprint).unwrap();
            plain.add(fingerprint).unwrap();
        }
        for (bytes, tag) in [(counts.memory_bytes(), 2.0), (plain.memory_bytes(), 0.0)] {
            let more = 8.0 * bytes as f64 / number as f64 - tag - f64::from(bits)
                + libm::log2(number as f64);
            assert!((3.2..=4.0).contains(&more), "{number}: {more}");
        }
    }
}
