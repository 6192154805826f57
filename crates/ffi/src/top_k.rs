//! Top-k lists.

use valkeybloom_bindings::TopK;

use super::border::{
    Batch, Buffer, Items, Status, call, items, optional, put, put_made, require, require_if_given,
    slice, words_after,
};
use super::object::{self, Object, borrow_as};

/// Makes a list of the `k` most frequent items, with `depth` rows of `width` cells, as TOPK.RESERVE does. `decay` is the
/// probability that a count of 1 is lost to another item. TOPK.RESERVE without these uses width 8, depth 7 and decay 0.9.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_new(
    k: u64,
    width: u64,
    depth: u64,
    decay: f64,
    list: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        // They are parsed like the words of TOPK.RESERVE, and refused with the same errors.
        let numbers = [
            k.to_string(),
            width.to_string(),
            depth.to_string(),
            decay.to_string(),
        ];
        let all = words_after(&numbers, std::ptr::null())?;
        object::give_new(list, || Ok(TopK::reserve(&all)?))
    })
}

/// Adds an item `by` times. `expelled` receives the item that it expelled from the list, or a null buffer. `expelled` may
/// be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_add(
    list: *mut Object,
    item: *const u8,
    item_length: usize,
    by: i64,
    expelled: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        require_if_given(expelled)?;
        let item = borrow_as::<TopK>(list)?.write(|list| list.add(item, by))??;
        put_made(expelled, || Buffer::optional(item.map(Vec::from)))
    })
}

/// Adds the items of a batch in order: item `i` `by[i]` times, or once if `by` is null. `expelled` receives the items
/// that were expelled from the list, in order, and may be null. If the batch can't be read, nothing is added. After
/// VALKEYBLOOM_STATUS_NO_MEMORY some of the items, or all, are added, and those that they expelled are not returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_add_many(
    list: *mut Object,
    batch: *const Batch,
    by: *const i64,
    expelled: *mut Items,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let by = optional(by, batch.len())?;
        require_if_given(expelled)?;
        let items = borrow_as::<TopK>(list)?.write(|list| list.add_each(&batch, by))??;
        put_made(expelled, || Items::of(&items))
    })
}

/// Returns the items of the list with their counts, the largest first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_list(
    list: *const Object,
    ranking: *mut Items,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(ranking)?;
        let found = borrow_as::<TopK>(list)?.read(|list| Items::of_counted(list.ranking()?))?;
        put(ranking, found?)
    })
}

/// Parameters and contents of a list.
#[repr(C)]
pub struct TopKInfo {
    /// The size of this structure, which the caller sets.
    size: usize,
    /// The most items in the list.
    k: u64,
    /// The number of cells in a row.
    width: u64,
    /// The number of rows.
    depth: u64,
    /// The probability that a count of 1 is lost to another item.
    decay: f64,
    /// The number of items in the list.
    items: u64,
    /// The memory that the list takes, in bytes.
    memory_bytes: u64,
}

/// Describes a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_describe(
    list: *const Object,
    info: *mut TopKInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        object::describe(list, info, |list: &TopK| TopKInfo {
            size: size_of::<TopKInfo>(),
            k: list.shape().k().into(),
            width: list.shape().width().into(),
            depth: list.shape().depth().into(),
            decay: list.shape().decay(),
            items: list.listed().into(),
            memory_bytes: list.memory_bytes(),
        })
    })
}
