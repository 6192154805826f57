//! The settings of cuckoo filters, and the values that commands derive from them.

use valkeybloom_sketches::cuckoo::{Limits, Params, ranges};

use crate::settings::{Setting, memory_limits};

static BUCKET_SIZE: Setting = Setting::integer(c"cf-bucket-size", 2, &ranges::BUCKET_SIZE)
    .with_check(|size| require_two_buckets(INITIAL_SIZE.number(), size));
static INITIAL_SIZE: Setting =
    Setting::integer(c"cf-initial-size", 1024, &(2..=ranges::CAPACITY_MAX))
        .with_check(|size| require_two_buckets(size, BUCKET_SIZE.number()));
static MAX_ITERATIONS: Setting =
    Setting::integer(c"cf-max-iterations", 20, &ranges::MAX_ITERATIONS);
static EXPANSION: Setting = Setting::integer(c"cf-expansion-factor", 1, &ranges::EXPANSION);
/// The number of stacked filters at which a cuckoo filter takes no more items.
pub static MAX_FILTERS: Setting = Setting::integer(c"cf-max-expansions", 32, &(1..=65_536))
    .with_arguments(&[b"CF_MAX_EXPANSIONS"]);

/// The settings of this family. The server applies its config file in this order, so the initial size is compared
/// with the new bucket size.
pub static ALL: &[&Setting] = &[
    &BUCKET_SIZE,
    &INITIAL_SIZE,
    &MAX_ITERATIONS,
    &EXPANSION,
    &MAX_FILTERS,
];

/// Requires that the initial size is at least that of two buckets.
fn require_two_buckets(initial_size: i64, bucket_size: i64) -> Result<(), String> {
    if initial_size >= 2 * bucket_size {
        Ok(())
    } else {
        Err("cf-initial-size must be at least twice cf-bucket-size".to_owned())
    }
}

/// Returns the parameters of a new filter that its command does not give.
pub fn defaults() -> Params {
    let narrow = |setting: &Setting| u16::try_from(setting.unsigned()).unwrap_or(u16::MAX);
    Params {
        capacity: INITIAL_SIZE.unsigned(),
        bucket_size: u8::try_from(BUCKET_SIZE.unsigned()).unwrap_or(u8::MAX),
        max_iterations: narrow(&MAX_ITERATIONS),
        expansion: narrow(&EXPANSION),
    }
}

/// Returns the limits on objects of clients. The memory of a value includes `overhead_bytes` besides the object's
/// own bytes.
pub fn limits(overhead_bytes: u64) -> Limits {
    let (filter_bytes, object_bytes) = memory_limits(overhead_bytes);
    Limits {
        filters: MAX_FILTERS.unsigned(),
        filter_bytes,
        object_bytes,
    }
}
