//! Cuckoo filters.

use std::ffi::c_char;

use valkeybloom_bindings::Cuckoo;

use super::border::{
    Batch, Status, call, items, optional_answers, put, require_if_given, slice, words_after,
};
use super::object::{self, Object, borrow_as};

/// Makes a filter for `capacity` items. Options are those of CF.RESERVE: BUCKETSIZE n, MAXITERATIONS n, EXPANSION n.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_new(
    capacity: u64,
    options: *const c_char,
    filter: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let numbers = [capacity.to_string()];
        let all = words_after(&numbers, options)?;
        object::give_new(filter, || Ok(Cuckoo::reserve(&all)?))
    })
}

/// Adds an item, or with `unless_present` only an item that the filter lacks. `added` receives whether it was added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_add(
    filter: *mut Object,
    item: *const u8,
    item_length: usize,
    unless_present: bool,
    added: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        require_if_given(added)?;
        let outcome =
            borrow_as::<Cuckoo>(filter)?.write(|filter| filter.add(item, unless_present))?;
        put(added, outcome?)
    })
}

/// Adds the items of a batch in order, as valkeybloom_cuckoo_add does. `added` receives how many were added. `answers` may
/// be null, or receives a byte for each: 1 if it was added, 0 if `unless_present` kept it out, 2 if it had no room. If the
/// filter is full, the call returns VALKEYBLOOM_STATUS_REFUSED, and all items that have room are added. If the batch
/// can't be read, nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_add_many(
    filter: *mut Object,
    batch: *const Batch,
    unless_present: bool,
    answers: *mut u8,
    added: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let answers = optional_answers(answers, batch.len())?;
        require_if_given(added)?;
        let change = |filter: &mut Cuckoo| filter.add_each(&batch, unless_present, answers);
        put(added, borrow_as::<Cuckoo>(filter)?.write(change)??)
    })
}

/// Moves items from newer filters of the stack into older ones, and frees filters that become empty, as CF.COMPACT
/// does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_compact(filter: *mut Object) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        borrow_as::<Cuckoo>(filter)?.write(|filter| filter.compact())?;
        Ok(())
    })
}

/// Parameters and contents of a filter, which is a stack of `filters`. Each of its `slots` has room for one item, and a bucket
/// consists of `bucket_size` slots. At most `max_iterations` items are moved to make room for a new one. The next filter of
/// the stack is `expansion` times as large; 0 is for a filter that does not grow.
#[repr(C)]
pub struct CuckooInfo {
    size: usize,
    items: u64,
    slots: u64,
    filters: u64,
    memory_bytes: u64,
    bucket_size: u64,
    max_iterations: u64,
    expansion: u64,
}

/// Describes a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_describe(
    filter: *const Object,
    info: *mut CuckooInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        object::describe(filter, info, |filter: &Cuckoo| CuckooInfo {
            size: size_of::<CuckooInfo>(),
            items: filter.items(),
            slots: filter.size(),
            filters: filter.filters().len() as u64,
            memory_bytes: filter.memory_bytes(),
            bucket_size: filter.shape().bucket_size().into(),
            max_iterations: filter.shape().max_iterations().into(),
            expansion: filter.shape().expansion().into(),
        })
    })
}
