//! Bloom filters.

use std::ffi::c_char;

use valkeybloom_bindings::{Bloom, Shared};

use super::border::{
    Batch, Status, call, items, moment, optional, optional_answers, put, require_if_given, slice,
    time, words_after,
};
use super::object::{self, Object, borrow_as};

/// Makes a filter for `capacity` items with an error rate between 0 and 1. Beyond its capacity it grows.
///
/// Options are those of BF.RESERVE: EXPANSION n, NONSCALING, WINDOW ms PERIODS n, COUNTING, SCALETO n. `seed` has 32
/// bytes, or is null for a random seed. Filters can only be united if their seeds are equal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_new(
    capacity: u64,
    error_rate: f64,
    options: *const c_char,
    seed: *const u8,
    filter: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let seed = optional(seed, 32)?;
        let numbers = [error_rate.to_string(), capacity.to_string()];
        let all = words_after(&numbers, options)?;
        object::give_new(filter, || Ok(Bloom::reserve(&all, seed)?))
    })
}

/// Adds an item. `is_new` receives whether the filter lacked it.
///
/// Options are for filters with a window: TTL ms, as in BF.INSERT, and AT ms, the time in milliseconds since the epoch,
/// instead of now, which the server takes from primaries and logs alone. A late item goes to its own period; if it has expired by the time of the latest one, it is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_add(
    filter: *mut Object,
    item: *const u8,
    item_length: usize,
    options: *const c_char,
    is_new: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (item, moment) = (slice(item, item_length)?, moment(options)?);
        let added = borrow_as::<Bloom>(filter)?.write(|filter| filter.add(item, &moment))?;
        put(is_new, added?)
    })
}

/// Adds the items of a batch in order, with the options of valkeybloom_bloom_add. `new_items` receives how many the
/// filter lacked. `answers` may be null, or receives a byte for each: 1 if the filter lacked it, else 0; of equal items of
/// the batch, only the first is new. If the filter is full and does not grow, the call returns
/// VALKEYBLOOM_STATUS_REFUSED; the items before the first one without room are added, and the answers for others are 2. If
/// the batch can't be read, nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_add_many(
    filter: *mut Object,
    batch: *const Batch,
    options: *const c_char,
    answers: *mut u8,
    new_items: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (batch, moment) = (items(batch)?, moment(options)?);
        let answers = optional_answers(answers, batch.len())?;
        require_if_given(new_items)?;
        let change = |filter: &mut Bloom| filter.add_each(&batch, &moment, answers);
        put(new_items, borrow_as::<Bloom>(filter)?.write(change)??)
    })
}

/// Makes the union of one or more filters: it claims every item that one of them claims. Filters that BF.MERGE refuses
/// to merge are refused. The only option is AT ms, for filters with a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_union(
    filters: *const *const Object,
    filters_length: usize,
    options: *const c_char,
    filter: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let all = object::borrow_all_as::<Bloom>(filters, filters_length)?;
        let at_ms = time(options)?;
        let union = |filters: &[&Bloom]| Bloom::union(filters, at_ms);
        object::give_new(filter, || Ok(Shared::read_all(&all, union)??))
    })
}

/// Parameters and contents of a filter. `items` were new, of the `capacity` that it has before it grows or is full; in a
/// window, that of all periods. `filters` is the number of stacked filters or tables. The next filter of the stack is
/// `expansion` times as large, and the next table eight times as large as that; 0 is for a filter that does not grow.
/// `window_ms` is the length of a period; it and `periods` are 0 without a window. Filters made by RedisBloom have no seed,
/// but zeros.
#[repr(C)]
pub struct BloomInfo {
    size: usize,
    items: u64,
    capacity: u64,
    filters: u64,
    memory_bytes: u64,
    error_rate: f64,
    expansion: u64,
    window_ms: u64,
    periods: u64,
    is_counting: bool,
    has_seed: bool,
    seed: [u8; 32],
}

/// Describes a filter. The only option is AT ms, for filters with a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_describe(
    filter: *const Object,
    options: *const c_char,
    info: *mut BloomInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let at_ms = time(options)?;
        object::describe(filter, info, |filter: &Bloom| {
            let (shape, seed) = (filter.shape(), filter.seed());
            let window = shape.window();
            let (window_ms, periods) =
                window.map_or((0, 0), |window| (window.period_ms(), window.periods()));
            BloomInfo {
                size: size_of::<BloomInfo>(),
                items: filter.items(at_ms),
                capacity: filter.capacity(),
                filters: filter.filter_count(),
                memory_bytes: filter.memory_bytes(),
                error_rate: shape.params.error_rate.get(),
                expansion: shape.params.growth.expansion().into(),
                window_ms,
                periods,
                is_counting: shape.is_counting(),
                has_seed: seed.is_some(),
                seed: seed.copied().unwrap_or_default(),
            }
        })
    })
}

/// Estimates the present rate of false positives. All bits of a plain filter are read. The only option
/// is AT ms, for filters with a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_estimated_error_rate(
    filter: *const Object,
    options: *const c_char,
    rate: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let at_ms = time(options)?;
        let estimated = borrow_as::<Bloom>(filter)?.read(|filter| filter.estimated_rate(at_ms));
        put(rate, estimated?)
    })
}
