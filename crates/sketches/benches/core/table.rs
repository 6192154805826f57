//! Tables of fingerprints, at a rate of 1 %, beside the filters of `main.rs`.

use divan::Bencher;
use divan::counter::ItemsCount;
use valkeybloom_sketches::table::{Payload, Period, Table};
use valkeybloom_testing::support::Rng;

/// Numbers of fingerprints in the first cache, in the second one, and in memory.
const SIZES: [u32; 3] = [10_000, 1_000_000, 10_000_000];

/// Periods of a window.
const PERIODS: u32 = 24;

/// The current period.
const CURRENT: Period = Period(100);

const PAYLOADS: [Payload; 2] = [Payload::Count, Payload::Period(PERIODS)];

/// Adds a fingerprint, with any period of the window.
fn add(table: &mut Table, fingerprint: u64) {
    let room = &|| u64::MAX;
    match table {
        Table::Set(set) => drop(set.add(fingerprint, room)),
        Table::Counts(counts) => drop(counts.count_up(fingerprint, room)),
        Table::Lives(lives) => {
            let period = Period(CURRENT.0 - fingerprint % u64::from(PERIODS));
            lives.keep(fingerprint, period, CURRENT, room).ok();
        }
    }
}

/// Returns a table of fingerprints of so many bits that strangers are claimed at 1 %, and those bits.
fn table(fingerprints: u32, payload: usize) -> (Table, u32) {
    let bits = (u64::from(fingerprints) * 100).next_power_of_two().ilog2();
    let mut table = Table::new(bits, PAYLOADS[payload]).expect("memory");
    let mut random = Rng::new(1);
    for _ in 0..fingerprints {
        add(&mut table, random.next() >> (64 - bits));
    }
    (table, bits)
}

#[divan::bench(args = SIZES, consts = [0, 1])]
fn count_up_or_keep<const PAYLOAD: usize>(bencher: Bencher, fingerprints: u32) {
    let (mut table, bits) = table(fingerprints, PAYLOAD);
    let mut random = Rng::new(2);
    bencher.bench_local(|| add(&mut table, random.next() >> (64 - bits)));
}

/// Looks up those that are there.
#[divan::bench(args = SIZES, consts = [0, 1])]
fn contains<const PAYLOAD: usize>(bencher: Bencher, fingerprints: u32) {
    look_up(bencher, fingerprints, PAYLOAD, 1);
}

/// Looks up others.
#[divan::bench(args = SIZES, consts = [0, 1])]
fn contains_not<const PAYLOAD: usize>(bencher: Bencher, fingerprints: u32) {
    look_up(bencher, fingerprints, PAYLOAD, 2);
}

fn look_up(bencher: Bencher, fingerprints: u32, payload: usize, stream: u64) {
    let (table, bits) = table(fingerprints, payload);
    let mut random = Rng::new(stream);
    bencher.bench_local(|| table.contains(random.next() >> (64 - bits), Period(CURRENT.0 - 9)));
}

#[divan::bench(args = SIZES, consts = [0, 1])]
fn contains_each_of_100<const PAYLOAD: usize>(bencher: Bencher, fingerprints: u32) {
    let (table, bits) = table(fingerprints, PAYLOAD);
    let mut random = Rng::new(2);
    let mut answers = [false; 100];
    bencher.counter(ItemsCount::new(100_u32)).bench_local(|| {
        let wanted: [u64; 100] = std::array::from_fn(|_| random.next() >> (64 - bits));
        table.contains_each(&wanted, Period(CURRENT.0 - 9), &mut answers);
    });
}
