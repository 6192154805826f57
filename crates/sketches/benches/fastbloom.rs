//! Measures single lookups and additions beside the crate `fastbloom`, in full filters at 1 %: nanoseconds for an item.
//!
//! `cargo bench -p valkeybloom-sketches --bench fastbloom -- 100000 10000000` takes these numbers of items. Items have
//! 16 bytes, and come in random order. The best of five rounds is printed.

use std::hint::black_box;
use std::time::Instant;

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Limits, Time};
use valkeybloom_testing::support::{Rng, object, params};

type Item = [u8; 16];

/// The most items that are looked up in a round.
const LOOKUPS: usize = 1_000_000;

/// Returns the item with a number. Items with different salts differ.
fn item(number: u64, salt: u64) -> Item {
    let mut item = [0; 16];
    item[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    item[8..].copy_from_slice(&(number ^ salt << 48).to_le_bytes());
    item
}

/// Returns the nanoseconds for an item, when `look` is called with each.
fn time(items: &[Item], mut look: impl FnMut(&Item) -> bool) -> f64 {
    let begun = Instant::now();
    for item in items {
        black_box(look(item));
    }
    let items = u32::try_from(items.len()).expect("fewer than 2³² items");
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(items)
}

/// Returns the smallest of five measurements.
fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..5).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn measure(capacity: u64, rng: &mut Rng) {
    let all: Vec<Item> = (0..capacity).map(|n| item(n, 1)).collect();
    let size = all.len();
    let random = |rng: &mut Rng| rng.next() % capacity;
    let present: Vec<Item> = (0..LOOKUPS).map(|_| item(random(rng), 1)).collect();
    let absent: Vec<Item> = (0..LOOKUPS).map(|_| item(random(rng), 2)).collect();

    let our_empty = || object(&params(capacity, 0.01, 0), Seed::FIXED);
    let their_empty = || {
        let rate = fastbloom::BloomFilter::with_false_pos(0.01);
        rate.seed(&7).expected_items(size)
    };
    let (mut ours, mut theirs) = (our_empty(), their_empty());
    let add = |ours: &mut valkeybloom_sketches::bloom::Object, item: &Item| {
        ours.add(item, Time::default(), || Limits::NONE).is_ok()
    };
    let our_add = best(|| {
        ours = our_empty();
        time(&all, |item| add(&mut ours, item))
    });
    let their_add = best(|| {
        theirs = their_empty();
        time(&all, |item| theirs.insert(item.as_slice()))
    });
    let rows = [
        ("add", our_add, their_add),
        (
            "present",
            best(|| time(&present, |item| ours.contains(item, || 0))),
            best(|| time(&present, |item| theirs.contains(item.as_slice()))),
        ),
        (
            "absent",
            best(|| time(&absent, |item| ours.contains(item, || 0))),
            best(|| time(&absent, |item| theirs.contains(item.as_slice()))),
        ),
    ];
    let hash = best(|| time(&present, |item| ours.probe(item).hashes().0 == 0));
    for (name, ours, theirs) in rows {
        println!("| {capacity} | {name} | {ours:.1} | {theirs:.1} | {hash:.1} |");
    }
}

fn main() {
    let mut sizes: Vec<u64> = std::env::args()
        .filter_map(|word| word.parse().ok())
        .collect();
    if sizes.is_empty() {
        sizes = vec![100_000, 10_000_000];
    }
    println!("| items | | valkeybloom-sketches | fastbloom | its keyed hash alone |");
    let mut rng = Rng::new(1);
    for size in sizes {
        measure(size, &mut rng);
    }
}
