//! Count-min sketches.

use std::ffi::c_char;

use valkeybloom_bindings::{CountMin, Shared};

use super::border::{
    Batch, Status, call, items, optional, places, put, require_if_given, slice, words_after,
};
use super::object::{self, Object, borrow_as};

/// Makes a sketch with `depth` rows of `width` counters. The only option is CELL_SIZE n, the size of a counter in
/// bytes, as in CMS.INITBYDIM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count_min_new(
    width: u64,
    depth: u64,
    options: *const c_char,
    sketch: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let numbers = [width.to_string(), depth.to_string()];
        let all = words_after(&numbers, options)?;
        object::give_new(sketch, || Ok(CountMin::by_size(&all)?))
    })
}

/// Makes a sketch whose estimates exceed the true counts by more than `error` times the sum of all counts with
/// `probability` at most, as CMS.INITBYPROB does. The only option is CELL_SIZE n.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count_min_from_rates(
    error: f64,
    probability: f64,
    options: *const c_char,
    sketch: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let numbers = [error.to_string(), probability.to_string()];
        let all = words_after(&numbers, options)?;
        object::give_new(sketch, || Ok(CountMin::by_rates(&all)?))
    })
}

/// Adds `by`, which may be negative, to the count of an item. `count` receives the new estimate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count_min_add(
    sketch: *mut Object,
    item: *const u8,
    item_length: usize,
    by: i64,
    count: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        require_if_given(count)?;
        let added = borrow_as::<CountMin>(sketch)?.write(|sketch| sketch.add(item, by))?;
        put(count, added?)
    })
}

/// Counts the items of a batch in order. Adds `by[i]` to item `i`, or 1 if `by` is null. If an item is refused, all
/// others are counted. If the batch can't be read, nothing is counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count_min_add_many(
    sketch: *mut Object,
    batch: *const Batch,
    by: *const i64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let by = optional(by, batch.len())?;
        Ok(borrow_as::<CountMin>(sketch)?.write(|sketch| sketch.add_each(&batch, by))??)
    })
}

/// Estimates the counts of the items of a batch. `counts` receives one for each item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count_min_count_many(
    sketch: *const Object,
    batch: *const Batch,
    counts: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let counts = places(counts, batch.len())?;
        Ok(
            borrow_as::<CountMin>(sketch)?
                .read(|sketch| sketch.estimate_each(&batch, counts))??,
        )
    })
}

/// Makes the weighted sum of one or more sketches. If `weights` is null, each has weight 1. Sketches that CMS.MERGE
/// refuses to merge are refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count_min_merge(
    sketches: *const *const Object,
    weights: *const i64,
    sketches_length: usize,
    sketch: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let all = object::borrow_all_as::<CountMin>(sketches, sketches_length)?;
        let weights = optional(weights, sketches_length)?;
        let merged = |sketches: &[&CountMin]| CountMin::merged(sketches, weights);
        object::give_new(sketch, || Ok(Shared::read_all(&all, merged)??))
    })
}

/// Parameters and contents of a sketch: `depth` rows of `width` counters of `cell_size` bytes. `total` is the sum of all
/// counts.
#[repr(C)]
pub struct CountMinInfo {
    size: usize,
    width: u64,
    depth: u64,
    cell_size: u64,
    total: u64,
    memory_bytes: u64,
}

/// Describes a sketch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count_min_describe(
    sketch: *const Object,
    info: *mut CountMinInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        object::describe(sketch, info, |sketch: &CountMin| CountMinInfo {
            size: size_of::<CountMinInfo>(),
            width: sketch.shape().width(),
            depth: sketch.shape().depth(),
            cell_size: sketch.shape().cell_size().bytes(),
            total: sketch.count(),
            memory_bytes: sketch.memory_bytes(),
        })
    })
}
