//! Objects whose tables are large.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Kind, Limits, Object, Shape, Time, Window};
use valkeybloom_sketches::cuckoo::{self, Cuckoo};
use valkeybloom_testing::draft::{Draft, Link};
use valkeybloom_testing::support::{object_of, params};

/// Milliseconds of a period.
const PERIOD_MS: u64 = 100;

/// Returns the item of a number.
pub const fn item(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// Returns an object of `items`, added at a rate of `per_ms`.
fn filled(capacity: u64, kind: Kind, items: u64, per_ms: u64) -> Object {
    let params = params(capacity, 0.01, 1);
    let mut object = object_of(&Shape { params, kind }, Seed::FIXED);
    for number in 0..items {
        let now = number / per_ms;
        object.tidy(now);
        let added = object.add(&item(number), Time::at(now), || Limits::NONE);
        added.unwrap();
    }
    object
}

/// Returns a time in the newest period of a sample.
pub fn last_time(object: &Object) -> u64 {
    object.reached_period().unwrap_or(0) * PERIOD_MS
}

/// Returns an object of `RedisBloom` with this many links, and nothing in them.
fn linked(links: usize) -> Object {
    let draft = Draft {
        version: 4,
        items: 0,
        // 64-bit hashes, no rounding.
        options: 5,
        growth: 2,
        links: vec![Link::new(30, 0.001, 512, 0); links],
    };
    draft.read().unwrap()
}

/// Returns one object or more of each dialect: deep stacks, and tables of each kind, some of them in several.
pub fn samples() -> Vec<Object> {
    let window = |periods| Kind::Windowed(Window::new(PERIOD_MS, periods).unwrap());
    vec![
        filled(10, Kind::Plain, 2000, 1),
        filled(10, Kind::Counting, 3000, 1),
        filled(5000, Kind::ScaledTo, 40_000, 1),
        filled(5, window(40), 4000, 1),
        filled(3000, window(20), 2100, 1),
        linked(40),
    ]
}

/// Returns a cuckoo filter that has grown to hold `items`.
pub fn cuckoo_filter(items: u64) -> Cuckoo {
    let params = cuckoo::Params {
        capacity: 64,
        bucket_size: 2,
        max_iterations: 20,
        expansion: 1,
    };
    let shape = cuckoo::Shape::new(&params).unwrap();
    let mut object = Cuckoo::new(shape, &cuckoo::Limits::NONE).unwrap();
    for number in 0..items {
        let added = object.add(&item(number), false, || cuckoo::Limits::NONE);
        added.unwrap();
    }
    object
}
