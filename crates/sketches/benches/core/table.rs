//! Tables of fingerprints, at a rate of 1 %, beside the filters of `main.rs`.

use divan::Bencher;
use divan::counter::ItemsCount;
use valkeybloom_sketches::table::{Counts, Table};
use valkeybloom_testing::support::Rng;

/// Numbers of fingerprints in the first cache, in the second one, and in memory.
const SIZES: [u32; 3] = [10_000, 1_000_000, 10_000_000];

/// Returns a table of fingerprints of so many bits that strangers are claimed at 1 %, and those bits.
fn table(fingerprints: u32) -> (Table<Counts>, u32) {
    let bits = (u64::from(fingerprints) * 100).next_power_of_two().ilog2();
    let mut table = Table::<Counts>::new(bits).expect("memory");
    let mut random = Rng::new(1);
    for _ in 0..fingerprints {
        table.add(random.next() >> (64 - bits)).expect("memory");
    }
    (table, bits)
}

#[divan::bench(args = SIZES)]
fn count_up(bencher: Bencher, fingerprints: u32) {
    let (mut table, bits) = table(fingerprints);
    let mut random = Rng::new(2);
    bencher.bench_local(|| table.add(random.next() >> (64 - bits)));
}

/// Looks up those that are there, or others.
#[divan::bench(args = SIZES, consts = [1, 2])]
fn contains<const STREAM: u64>(bencher: Bencher, fingerprints: u32) {
    let (table, bits) = table(fingerprints);
    let mut random = Rng::new(STREAM);
    bencher.bench_local(|| table.contains(random.next() >> (64 - bits)));
}

#[divan::bench(args = SIZES)]
fn contains_each_of_100(bencher: Bencher, fingerprints: u32) {
    let (table, bits) = table(fingerprints);
    let mut random = Rng::new(2);
    let mut answers = [false; 100];
    bencher.counter(ItemsCount::new(100_u32)).bench_local(|| {
        let wanted: [u64; 100] = std::array::from_fn(|_| random.next() >> (64 - bits));
        table.contains_each(&wanted, &mut answers);
    });
}
