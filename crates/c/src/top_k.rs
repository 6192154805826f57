//! Top-k lists.

use valkeybloom_bindings::{self as bindings, Family as _, Shared};

use super::border::{
    Batch, Buffer, Items, Status, borrow, call, items, optional, places, put, require, slice,
};
use super::object::{self, Handle};

/// A top-k list: the most frequent items, with estimates of their counts.
pub struct TopK(Shared<bindings::TopK>);

impl Handle for TopK {
    type Object = bindings::TopK;
    fn of(object: Shared<bindings::TopK>) -> Self {
        Self(object)
    }
    fn shared(&self) -> &Shared<bindings::TopK> {
        &self.0
    }
}

/// Makes a list of the `k` most frequent items, with `depth` rows of `width` cells, as TOPK.RESERVE does. Its defaults
/// are width 8, depth 7 and decay 0.9. `decay` is the probability that a count of 1 is lost to another item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_new(
    k: u64,
    width: u64,
    depth: u64,
    decay: f64,
    list: *mut *mut TopK,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let numbers = [
            k.to_string(),
            width.to_string(),
            depth.to_string(),
            decay.to_string(),
        ];
        let words: Vec<&[u8]> = numbers.iter().map(String::as_bytes).collect();
        object::make(list, || Ok(bindings::TopK::reserve(&words)?))
    })
}

/// Frees a list. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_free(list: *mut TopK) {
    // SAFETY: the header requires a list that this library made, or null.
    unsafe { object::free(list) }
}

/// Adds an item `by` times. `left` receives the item that it expelled from the list, or a null buffer. `left` may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_add(
    list: *mut TopK,
    item: *const u8,
    item_length: usize,
    by: i64,
    left: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        let gone = borrow(list)?.0.write(|list| list.add(item, by))??;
        if left.is_null() {
            return Ok(());
        }
        require(left)?;
        put(left, gone.map_or(Ok(Buffer::NONE), Buffer::of)?)
    })
}

/// Adds the items of a batch in order: item `i` `by[i]` times, or once if `by` is null. `left` receives the items that
/// were expelled from the list, in order, and may be null. If the batch can't be read, nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_add_many(
    list: *mut TopK,
    batch: *const Batch,
    by: *const i64,
    left: *mut Items,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let by = optional(by, batch.len())?;
        let gone = borrow(list)?.0.write(|list| list.update(&batch, by))??;
        if left.is_null() {
            return Ok(());
        }
        require(left)?;
        put(left, Items::of(gone.iter().map(|item| (&**item, None)))?)
    })
}

/// Looks an item up. `found` receives whether it is in the list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_contains(
    list: *const TopK,
    item: *const u8,
    item_length: usize,
    found: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        put(found, borrow(list)?.0.read(|list| list.contains(item))?)
    })
}

/// Looks up the items of a batch. `answers` receives a byte for each: 1 if it is in the list, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_contains_many(
    list: *const TopK,
    batch: *const Batch,
    answers: *mut u8,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let answers = places(answers, batch.len())?;
        Ok(borrow(list)?
            .0
            .read(|list| list.contains_each(&batch, answers))??)
    })
}

/// Estimates the count of an item, in the list or not. `count` may be too low.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_count(
    list: *const TopK,
    item: *const u8,
    item_length: usize,
    count: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        put(count, borrow(list)?.0.read(|list| list.count(item).into())?)
    })
}

/// Returns the items of the list with their counts, the largest first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_list(list: *const TopK, ranking: *mut Items) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(ranking)?;
        let found = borrow(list)?.0.read(|list| {
            let pairs = list.ranking()?;
            Items::of(pairs.map(|(item, count)| (item, Some(count))))
        })?;
        put(ranking, found?)
    })
}

/// Removes all items. The parameters stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_clear(list: *mut TopK) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { Ok(borrow(list)?.0.write(bindings::TopK::clear)??) })
}

/// Makes a copy of a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_copy(list: *const TopK, copy: *mut *mut TopK) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::copy(list, copy) })
}

/// Compares two lists. `equal` receives whether their bytes are equal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_equal(
    list: *const TopK,
    other: *const TopK,
    equal: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::equal(list, other, equal) })
}

/// Parameters and contents of a list.
#[repr(C)]
pub struct TopKInfo {
    /// The length of the list when it is full.
    k: u64,
    /// The number of cells in a row.
    width: u64,
    /// The number of rows.
    depth: u64,
    /// The probability that a count of 1 is lost to another item.
    decay: f64,
    /// The number of items in the list.
    items: u64,
    /// The list's memory, in bytes.
    memory_bytes: u64,
}

/// Describes a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_describe(
    list: *const TopK,
    info: *mut TopKInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(info)?;
        let found = borrow(list)?.0.read(|list| TopKInfo {
            k: list.shape().k().into(),
            width: list.shape().width().into(),
            depth: list.shape().depth().into(),
            decay: list.shape().decay(),
            items: list.listed().into(),
            memory_bytes: list.memory_bytes(),
        })?;
        put(info, found)
    })
}

/// Encodes a list as a payload of RESTORE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_to_bytes(
    list: *const TopK,
    bytes: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::to_bytes(list, bytes) })
}

/// Decodes bytes from valkeybloom_top_k_to_bytes or DUMP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_top_k_from_bytes(
    data: *const u8,
    length: usize,
    list: *mut *mut TopK,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::from_bytes(data, length, list) })
}
