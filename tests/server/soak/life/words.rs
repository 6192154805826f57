//! Words of random writes to Bloom and cuckoo filters.

use crate::harness::spaced;
use crate::support::Rng;

/// Items that filters may hold: few, so that some come again.
const ITEMS: usize = 1000;

/// The length of the periods of a window whose items pass during the test.
pub const SHORT_MS: i64 = 1000;

pub fn item(number: usize) -> String {
    format!("item-{number}\r\n\0")
}

fn items(random: &mut Rng, count: usize, among: usize) -> String {
    spaced((0..count).map(|_| item(random.below(among))))
}

/// Returns a write to a key, mostly one that suits the type of its value.
pub fn write(random: &mut Rng, kind: &str, key: &str, other: &str) -> String {
    match kind {
        _ if random.one_in(8) => cuckoo(random, key),
        "MBbloomCF" => cuckoo(random, key),
        _ => bloom(random, key, other),
    }
}

fn bloom(random: &mut Rng, key: &str, other: &str) -> String {
    let count = *random.pick(&[1, 4, 60, 300]);
    let several = items(random, count, ITEMS);
    match random.below(20) {
        0 | 1 => {
            let [capacity, rate, growth] = shape(random);
            format!("BF.RESERVE {key} {rate} {capacity} {growth}")
        }
        2..5 => {
            let [capacity, rate, growth] = shape(random);
            let ratio = random.pick(&["0.5", "0.8"]);
            // Objects of one seed can be merged.
            let seed = " SEED 0123456789abcdef0123456789abcdef";
            let seed = *random.pick(&["", seed, seed]);
            format!(
                "BF.INSERT {key} CAPACITY {capacity} ERROR {rate} TIGHTENING {ratio} {growth}{seed} ITEMS {several}"
            )
        }
        5..7 => format!("BF.ADD {key} {}", item(random.below(ITEMS))),
        7..10 => format!("BF.MADD {key} {several}"),
        10 => format!("BF.INSERT {key} NOCREATE"),
        11..13 => format!("BF.INSERT {key} NOCREATE ITEMS {several}"),
        13..16 => {
            let ttl = 1 + random.next() % 1_200_000_000_000;
            format!("BF.INSERT {key} NOCREATE TTL {ttl} ITEMS {several}")
        }
        16 => format!("BF.DEL {key} {}", item(random.below(ITEMS))),
        17 => format!("BF.MDEL {key} {several}"),
        _ => format!("BF.MERGE {key} {other}"),
    }
}

/// Returns a capacity, a rate, and how an object grows and forgets.
fn shape(random: &mut Rng) -> [String; 3] {
    let growth = *random.pick(&["NONSCALING", "EXPANSION 1", "EXPANSION 2", "EXPANSION 4"]);
    // A stack of hundreds of filters takes its time, and has tests of its own.
    let capacity = match growth {
        "EXPANSION 1" => *random.pick(&[200, 5000]),
        _ => *random.pick(&[1, 10, 200, 5000]),
    };
    let rate = *random.pick(&["0.01", "1e-3"]);
    let kind = match random.below(7) {
        0..2 => String::new(),
        6 if growth != "NONSCALING" => " SCALETO 300".to_owned(),
        2..4 => " COUNTING".to_owned(),
        4 => " WINDOW 100000000000 PERIODS 12".to_owned(),
        _ => format!(" WINDOW {SHORT_MS} PERIODS 4"),
    };
    [
        capacity.to_string(),
        rate.to_owned(),
        growth.to_owned() + &kind,
    ]
}

fn cuckoo(random: &mut Rng, key: &str) -> String {
    let nx = *random.pick(&["", "NX"]);
    let count = 1 + random.below(60);
    // Copies of few items make a filter grow.
    let among = *random.pick(&[3, 400, 400]);
    let several = items(random, count, among);
    let one = item(random.below(400));
    match random.below(12) {
        0 | 1 => {
            let size = *random.pick(&[1, 2, 2, 3, 4]);
            format!(
                "CF.RESERVE {key} {} BUCKETSIZE {size} EXPANSION {} MAXITERATIONS {}",
                2 * size + random.below(200),
                random.below(4),
                random.pick(&[1, 20, 500])
            )
        }
        2 => format!("CF.INSERT{nx} {key} NOCREATE ITEMS {several}"),
        3..7 => {
            let capacity = 4 + random.below(200);
            format!("CF.INSERT{nx} {key} CAPACITY {capacity} ITEMS {several}")
        }
        7 => format!("CF.ADD{nx} {key} {one}"),
        8 => format!("CF.COMPACT {key}"),
        _ => format!("CF.DEL {key} {one}"),
    }
}
