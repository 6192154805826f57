//! Which shard an item belongs to, and how large shards are.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use valkeybloom_client::{shard_capacity, shard_of};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Cells, Geometry};

fn of(shards: u32) -> NonZeroU32 {
    NonZeroU32::new(shards).unwrap()
}

/// The sums are zlib's, which the documentation names for other languages.
#[test]
fn an_item_is_where_every_language_puts_it() {
    let all: Vec<u8> = (0..=255).collect();
    for (item, sum) in [
        (&b"123456789"[..], 3_421_780_262),
        (b"", 0),
        (b"https://example.org/", 3_437_926_341),
        (&all, 688_229_491),
    ] {
        for shards in [1, 2, 12, 1000, u32::MAX] {
            assert_eq!(shard_of(item, of(shards)), sum % shards);
        }
    }
}

/// The items are realistic: many differ in few bits.
#[test]
fn shares_stay_within_the_capacity_of_a_shard() {
    const ITEMS: u64 = 200_000;
    let kinds: [fn(u64) -> Vec<u8>; 4] = [
        |n| n.to_le_bytes().to_vec(),
        |n| n.to_string().into_bytes(),
        |n| format!("{:064x}", n << 40).into_bytes(),
        |n| format!("https://www.site{}.example/{n}?ref=feed", n % 977).into_bytes(),
    ];
    for kind in kinds {
        for shards in [1, 2, 3, 7, 12, 64, 100, 1000] {
            let mut counts = vec![0; shards as usize];
            for n in 0..ITEMS {
                counts[shard_of(kind(n), of(shards)) as usize] += 1;
            }
            let most = counts.into_iter().max().unwrap();
            assert!(
                most <= shard_capacity(ITEMS, of(shards)),
                "{shards}: {most}"
            );
        }
    }
}

#[test]
fn capacities_at_the_ends_of_their_range() {
    assert_eq!(shard_capacity(0, of(5)), 0);
    assert_eq!(shard_capacity(1, of(1)), 1);
    assert_eq!(shard_capacity(1_000_000, of(1)), 1_000_000);
    assert_eq!(shard_capacity(1_000_000, of(4)), 250_000 + 2166);
    assert_eq!(shard_capacity(u64::MAX, of(1)), u64::MAX);
    assert!(shard_capacity(u64::MAX, of(2)) > u64::MAX / 2);
}

/// Expects the table of `docs/sharded.md`: the fewest shards whose filters take at most 64 MiB each, the default of
/// `bf.bloom-filter-max-memory-usage`.
#[test]
#[allow(clippy::cast_precision_loss, reason = "gigabytes with two digits")]
fn the_table_of_sizes() {
    let mut table = String::new();
    for (name, items) in [
        ("10⁸", 10_u64.pow(8)),
        ("10⁹", 10_u64.pow(9)),
        ("10¹⁰", 10_u64.pow(10)),
    ] {
        for rate in [0.01, 0.001] {
            for (growth, filter_rate) in [("`NONSCALING`", rate), ("may grow", rate / 2.0)] {
                let filter_rate = Fraction::new(filter_rate).unwrap();
                let bytes = |shards| {
                    Geometry::for_rate(shard_capacity(items, of(shards)), filter_rate, Cells::Bits)
                        .blob_bytes()
                };
                let shards = (1..1000).find(|&shards| bytes(shards) <= 64 << 20).unwrap();
                let (each, percent) = (bytes(shards), rate * 100.0);
                let total = (each * u64::from(shards)) as f64 / 1e9;
                let capacity = shard_capacity(items, of(shards));
                writeln!(
                    table,
                    "| {name} | {percent} % | {growth} | {shards} | {capacity} | {each} | {total:.2} GB |"
                )
                .unwrap();
            }
        }
    }
    let docs = include_str!("../../../docs/sharded.md");
    assert!(docs.contains(&table), "expected:\n{table}");
}
