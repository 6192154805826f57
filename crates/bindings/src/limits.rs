//! Limits on growth. Loaded bytes decide how fast an object grows, so one addition might take all memory.

use std::sync::atomic::{AtomicU64, Ordering};

use valkeybloom_sketches::{bloom, cuckoo};

static FILTER_BYTES: AtomicU64 = AtomicU64::new(1 << 30);
static CUCKOO_FILTERS: AtomicU64 = AtomicU64::new(32);

/// Sets the limits for all objects of the process: `filter_bytes` for a filter that is stacked on full ones, 1 GiB by
/// default; and `cuckoo_filters` for the filters of a cuckoo filter, 32 by default, as on a server. A program may create and
/// load larger objects.
pub fn limit_growth(filter_bytes: u64, cuckoo_filters: u64) {
    FILTER_BYTES.store(filter_bytes, Ordering::Relaxed);
    CUCKOO_FILTERS.store(cuckoo_filters, Ordering::Relaxed);
}

/// The limits on what a program creates or loads: its memory alone. A full filter that does not grow refuses items, as
/// on a server.
pub const CREATION: bloom::Limits = bloom::Limits {
    saturate: false,
    ..bloom::Limits::NONE
};

/// Returns the limits on the growth of an object. Tables take memory only for the items in them.
pub fn of_bloom(object: &bloom::Object) -> impl Fn() -> bloom::Limits + use<> {
    let is_plain = object.is_plain();
    move || {
        let mut limits = CREATION;
        if is_plain {
            limits.filter_bytes = FILTER_BYTES.load(Ordering::Relaxed);
        }
        limits
    }
}

pub fn of_cuckoo() -> cuckoo::Limits {
    cuckoo::Limits {
        filters: CUCKOO_FILTERS.load(Ordering::Relaxed),
        filter_bytes: FILTER_BYTES.load(Ordering::Relaxed),
        ..cuckoo::Limits::NONE
    }
}
