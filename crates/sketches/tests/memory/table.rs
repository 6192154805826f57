//! Tables of fingerprints.

use valkeybloom_sketches::table::{Counts, Filling, Held, Lives, Payload, Period, Refused, Table};
use valkeybloom_testing::support::Rng;

use crate::refusing::{each_refused, each_refused_of};

/// What a table may take.
const ROOM: &dyn Fn() -> u64 = &|| u64::MAX;

fn counts(table: &mut Table) -> &mut Counts {
    match table {
        Table::Counts(counts) => counts,
        other => panic!("{other:?}"),
    }
}

fn lives(table: &mut Table) -> &mut Lives {
    match table {
        Table::Lives(lives) => lives,
        other => panic!("{other:?}"),
    }
}

/// Returns a table of some 5,000 fingerprints, most of which have the first bits in common and some of which have digits.
fn table() -> Table {
    let mut table = Table::new(24, Payload::Count).unwrap();
    let mut rng = Rng::new(1);
    for number in 0..5_000 {
        let fingerprint = rng.next() >> if number % 8 == 0 { 40 } else { 50 };
        for _ in 0..=if number % 50 == 0 { 5 } else { number % 2 } {
            counts(&mut table).count_up(fingerprint, ROOM).unwrap();
        }
    }
    table
}

/// Returns a table of 2,000 fingerprints with periods of a window of 200 that ends with period 400.
fn periods() -> Table {
    let mut table = Table::new(24, Payload::Period(200)).unwrap();
    let mut rng = Rng::new(1);
    for number in 0..2_000 {
        let period = Period(201 + number % 200);
        let kept = lives(&mut table).keep(rng.next() >> 40, period, Period(400), ROOM);
        kept.unwrap();
    }
    table
}

fn stored(table: &Table) -> Vec<Held> {
    table.iter(0..u64::MAX).collect()
}

#[test]
fn tables_grow_shrink_and_are_copied() {
    let table = table();
    let expected = stored(&table);
    let copied = each_refused_of(
        || table.try_clone(),
        |copy, refused| match copy {
            Some(copy) => assert!(stored(&copy) == expected),
            None => assert!(refused),
        },
    );
    let added = each_refused(
        || table.try_clone().unwrap(),
        |mut table| {
            // The last ones are in a crowd.
            let fingerprints = (0..500).map(|number| number << 14).chain(0..500);
            let refused = |fingerprint: u64| {
                counts(&mut table).count_up(fingerprint, ROOM) == Err(Refused::OutOfMemory)
            };
            let refusals = fingerprints.map(refused).filter(|refused| *refused).count();
            (table, refusals)
        },
        |(table, refusals), refused| {
            assert!(refusals <= usize::from(refused));
            let counts = |stored: &[Held]| stored.iter().map(|held| held.value).sum::<u64>();
            let all = counts(&expected) + 1_000 - refusals as u64;
            assert_eq!(counts(&stored(&table)), all);
        },
    );
    let removed = each_refused(
        || table.try_clone().unwrap(),
        |mut table| {
            for held in &expected[..expected.len() / 2] {
                for left in (1..=held.value).rev() {
                    assert_eq!(counts(&mut table).count_down(held.fingerprint), left);
                }
            }
            table
        },
        |table, _| assert!(stored(&table) == expected[expected.len() / 2..]),
    );
    assert!(copied > 0 && added > 0 && removed > 0);
}

#[test]
fn periods_come_and_go() {
    let table = periods();
    let all = |mut table: Table| {
        for number in 0..250 {
            let (fingerprint, current) = (number << 14, Period(400 + number));
            lives(&mut table).drop_before(Period(current.0 - 199));
            let held = |table: &Table| {
                let is_in = table.contains(fingerprint, Period(0));
                (is_in, table.fingerprints(), table.periods().len())
            };
            let before = held(&table);
            let keep = |table: &mut Table| lives(table).keep(fingerprint, current, current, ROOM);
            if let Err(refused) = keep(&mut table) {
                assert_eq!((refused, before), (Refused::OutOfMemory, held(&table)));
                keep(&mut table).unwrap();
            }
        }
        table
    };
    let expected = stored(&all(table.try_clone().unwrap()));
    let refusals = each_refused(
        || table.try_clone().unwrap(),
        all,
        |table, _| assert!(stored(&table) == expected),
    );
    assert!(refusals > 0);
}

#[test]
fn tables_are_made_anew() {
    for table in [table(), periods()] {
        let (payload, expected) = (table.payload(), stored(&table));
        let refusals = each_refused_of(
            || {
                let entries = expected.iter().map(|held| payload.entries(held.value));
                let mut filling = Filling::new(24, payload, entries.sum(), Period(400))?;
                for held in &expected {
                    filling.push(held.fingerprint, held.value)?;
                }
                Table::filled(filling)
            },
            |filled, refused| match filled {
                Ok(filled) => assert!(stored(&filled) == expected),
                Err(error) => assert_eq!((error, refused), (Refused::OutOfMemory, true)),
            },
        );
        assert!(refusals > 0);
    }
}
