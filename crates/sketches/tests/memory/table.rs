//! Tables of fingerprints.

use valkeybloom_sketches::table::{Payload, Refused, Table};
use valkeybloom_testing::support::Rng;

use crate::refusing::{each_refused, each_refused_of};

/// Returns a table of 20,000 fingerprints, each counted up to seven times.
fn table() -> Table {
    let mut table = Table::new(24, Payload::Count).unwrap();
    let mut rng = Rng::new(1);
    for number in 0..20_000 {
        let fingerprint = rng.next() >> 40;
        for _ in 0..=number % 7 {
            table.count_up(fingerprint, || u64::MAX).unwrap();
        }
    }
    table
}

/// Returns a table of 2,000 fingerprints with periods of a window of 200 that ends with period 400.
fn periods() -> Table {
    let mut table = Table::new(24, Payload::Period(200)).unwrap();
    let mut rng = Rng::new(1);
    for number in 0..2_000 {
        let period = 201 + number % 200;
        let kept = table.keep(rng.next() >> 40, period, 400, || u64::MAX);
        kept.unwrap();
    }
    table
}

fn stored(table: &Table) -> Vec<(u64, u64)> {
    let mut stored = Vec::new();
    table.for_each(|fingerprint, count| stored.push((fingerprint, count)));
    stored
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
            let refusals = (0..3_000)
                .filter(|number| {
                    table.count_up(number << 10, || u64::MAX) == Err(Refused::OutOfMemory)
                })
                .count();
            (table, refusals)
        },
        |(table, refusals), refused| {
            assert!(refusals <= usize::from(refused));
            let counts = |table: &Table| stored(table).iter().map(|(_, count)| count).sum::<u64>();
            assert_eq!(
                counts(&table),
                expected.iter().map(|(_, count)| count).sum::<u64>() + 3_000 - refusals as u64
            );
        },
    );
    let removed = each_refused(
        || table.try_clone().unwrap(),
        |mut table| {
            for (fingerprint, count) in &expected[..expected.len() / 2] {
                for left in (1..=*count).rev() {
                    assert_eq!(table.count_down(*fingerprint), left);
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
            let (fingerprint, current) = (number << 14, 400 + number);
            table.drop_before(current - 199);
            let held = |table: &Table| {
                let is_in = table.contains(fingerprint, 0);
                (is_in, table.fingerprints(), table.periods().len())
            };
            let before = held(&table);
            let keep = |table: &mut Table| table.keep(fingerprint, current, current, || u64::MAX);
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
                Table::filled(24, payload, table.fingerprints(), 400, |filling| {
                    let mut all = expected.iter();
                    all.try_for_each(|(fingerprint, payload)| filling.push(*fingerprint, *payload))
                })
            },
            |filled, refused| match filled {
                Ok(filled) => assert!(stored(&filled) == expected),
                Err(error) => assert_eq!((error, refused), (Refused::OutOfMemory, true)),
            },
        );
        assert!(refusals > 0);
    }
}
