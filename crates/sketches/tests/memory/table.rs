//! Tables of fingerprints.

use valkeybloom_sketches::table::{Counts, Refused, Table};
use valkeybloom_testing::support::Rng;

use crate::refusing::{each_refused, each_refused_of};

/// Returns a table of 20,000 fingerprints, each counted up to seven times.
fn table() -> Table<Counts> {
    let mut table = Table::<Counts>::new(24).unwrap();
    let mut rng = Rng::new(1);
    for number in 0..20_000 {
        let fingerprint = rng.next() >> 40;
        for _ in 0..=number % 7 {
            table.add(fingerprint).unwrap();
        }
    }
    table
}

fn stored(table: &Table<Counts>) -> Vec<(u64, u64)> {
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
                .filter(|number| table.add(number << 10) == Err(Refused::OutOfMemory))
                .count();
            (table, refusals)
        },
        |(table, refusals), refused| {
            assert!(refusals <= usize::from(refused));
            let counts =
                |table: &Table<Counts>| stored(table).iter().map(|(_, count)| count).sum::<u64>();
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
                    assert_eq!(table.remove(*fingerprint), left);
                }
            }
            table
        },
        |table, _| assert!(stored(&table) == expected[expected.len() / 2..]),
    );
    assert!(copied > 0 && added > 0 && removed > 0);
}
