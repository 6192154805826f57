//! The settings of Bloom filters, and the values that commands derive from them.

use valkeybloom_protocol::bloom::{Defaults, InfoFields};
use valkeybloom_sketches::bloom::{Growth, Limits, Params, Tightening};
use valkeybloom_sketches::{MAX_CAPACITY, Seed};

use crate::ffi::server;
use crate::settings::{Setting, maker, memory_limits};

static CAPACITY: Setting = Setting::integer(c"bloom-capacity", 100_000, &(1..=MAX_CAPACITY))
    .with_alias(c"bloom_capacity")
    .with_arguments(&[b"INITIAL_SIZE", b"bf-initial-size"]);
static EXPANSION: Setting = Setting::integer(c"bloom-expansion", 2, &(0..=u32::MAX as u64))
    .with_alias(c"bloom_expansion_rate")
    .with_arguments(&[b"bf-expansion-factor"]);
static FP_RATE: Setting = Setting::ratio(c"bloom-fp-rate", 0.01)
    .with_alias(c"bloom_fp_rate")
    .with_arguments(&[b"ERROR_RATE", b"bf-error-rate"]);
static TIGHTENING: Setting = Setting::ratio(c"bloom-tightening-ratio", 0.5);
static SATURATE: Setting = Setting::switch(c"bloom-saturate-nonscaling", false);
static FEED: Setting = Setting::memory(c"bloom-feed-bytes", 1 << 20, 1024);
/// In seconds.
static RECEIPT_TTL: Setting =
    Setting::integer(c"bloom-receipt-ttl", 604_800, &(0..=u32::MAX as u64));
static INFO_FIELDS: Setting = Setting::choice(c"bloom-info-fields", &InfoFields::NAMES);
static RANDOM_SEED: Setting = Setting::switch(c"bloom-use-random-seed", true);

/// The settings of this family.
pub static ALL: &[&Setting] = &[
    &CAPACITY,
    &EXPANSION,
    &FP_RATE,
    &TIGHTENING,
    &SATURATE,
    &RANDOM_SEED,
    &FEED,
    &RECEIPT_TTL,
    &INFO_FIELDS,
];

/// Returns the parameters of a new object that its command does not give.
pub fn defaults() -> Defaults {
    let expansion = u32::try_from(EXPANSION.unsigned()).expect("the range ends at `u32::MAX`");
    Defaults {
        params: Params {
            capacity: CAPACITY.unsigned(),
            error_rate: FP_RATE.fraction(),
            tightening: Tightening::ours(TIGHTENING.fraction()),
            growth: Growth::from_expansion(expansion),
        },
        maker: maker(),
    }
}

/// Returns what BF.INFO without a field answers.
pub fn info_fields() -> InfoFields {
    InfoFields::ALL[INFO_FIELDS.index()]
}

/// Returns how long a receipt stays after its last use, in milliseconds. 0 means that it stays until it is deleted.
pub fn receipt_ttl_ms() -> u64 {
    1000 * RECEIPT_TTL.unsigned()
}

/// Returns the seed of a new object.
pub fn new_seed() -> Seed {
    if RANDOM_SEED.is_on() {
        Seed::new(server::random_bytes())
    } else {
        Seed::FIXED
    }
}

/// Returns the most bytes that the feed of an object of `memory_bytes` may take: no more than the object, and no more than the
/// limit on objects leaves. So a reader never keeps an object from growing.
pub fn feed_bytes(memory_bytes: u64) -> u64 {
    let (_, object_bytes) = memory_limits(memory_bytes);
    FEED.unsigned().min(memory_bytes).min(object_bytes)
}

/// Returns the limits on objects of clients. The memory of a value includes `overhead_bytes` besides the object's
/// own bytes.
pub fn limits(overhead_bytes: u64) -> Limits {
    let (filter_bytes, object_bytes) = memory_limits(overhead_bytes);
    Limits {
        filter_bytes,
        object_bytes,
        saturate: SATURATE.is_on(),
    }
}
