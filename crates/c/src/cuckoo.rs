//! Cuckoo filters.

use std::ffi::c_char;

use valkeybloom_bindings::{self as bindings, Family as _, Loader, Shared};

use super::border::{
    Batch, Buffer, Status, borrow, borrow_mut, call, items, places, put, require, slice, words,
};
use super::object::{self, Handle};

/// A cuckoo filter: "not found" is certain, "found" is probable, and items can be removed.
pub struct Cuckoo(Shared<bindings::Cuckoo>);

/// A cuckoo filter that is being loaded from chunks. For one thread at a time.
pub struct CuckooLoader(Loader<bindings::Cuckoo>);

impl Handle for Cuckoo {
    type Object = bindings::Cuckoo;
    fn of(object: Shared<bindings::Cuckoo>) -> Self {
        Self(object)
    }
    fn shared(&self) -> &Shared<bindings::Cuckoo> {
        &self.0
    }
}

/// Makes a filter for `capacity` items. Options are those of CF.RESERVE: BUCKETSIZE n, MAXITERATIONS n, EXPANSION n.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_new(
    capacity: u64,
    options: *const c_char,
    filter: *mut *mut Cuckoo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let capacity = capacity.to_string();
        let mut all = words(options);
        all.insert(0, capacity.as_bytes());
        object::make(filter, || Ok(bindings::Cuckoo::reserve(&all)?))
    })
}

/// Frees a filter. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_free(filter: *mut Cuckoo) {
    // SAFETY: the header requires a filter that this library made, or null.
    unsafe { object::free(filter) }
}

/// Adds an item, or with `unless_present` only an item that the filter lacks. `added` receives whether it was added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_add(
    filter: *mut Cuckoo,
    item: *const u8,
    item_length: usize,
    unless_present: bool,
    added: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        let outcome = borrow(filter)?
            .0
            .write(|filter| filter.add(item, unless_present))?;
        put(added, outcome?)
    })
}

/// Adds the items of a batch in order, as valkeybloom_cuckoo_add does. `added` receives how many were added. If the
/// filter is full, the call returns VALKEYBLOOM_STATUS_REFUSED, and all items that have room are added. If the batch
/// can't be read, nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_add_many(
    filter: *mut Cuckoo,
    batch: *const Batch,
    unless_present: bool,
    added: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let outcome = borrow(filter)?
            .0
            .write(|filter| filter.update(&batch, unless_present))?;
        put(added, outcome?)
    })
}

/// Adds the items of a batch as valkeybloom_cuckoo_add_many does. `answers` receives a byte for each: 1 if it was added,
/// 0 if `unless_present` kept it out, 2 if it had no room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_add_each(
    filter: *mut Cuckoo,
    batch: *const Batch,
    unless_present: bool,
    answers: *mut u8,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let answers = places(answers, batch.len())?;
        answers.fill(2);
        let change =
            |filter: &mut bindings::Cuckoo| filter.add_each(&batch, unless_present, answers);
        borrow(filter)?.0.write(change)??;
        Ok(())
    })
}

/// Looks an item up. `found` receives whether the filter claims it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_contains(
    filter: *const Cuckoo,
    item: *const u8,
    item_length: usize,
    found: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        put(
            found,
            borrow(filter)?.0.read(|filter| filter.contains(item))?,
        )
    })
}

/// Looks up the items of a batch. `answers` receives a byte for each: 1 if the filter claims it, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_contains_many(
    filter: *const Cuckoo,
    batch: *const Batch,
    answers: *mut u8,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let batch = items(batch)?;
        let answers = places(answers, batch.len())?;
        Ok(borrow(filter)?
            .0
            .read(|filter| filter.contains_each(&batch, answers))??)
    })
}

/// Removes one copy of an item. `removed` receives whether the filter claimed it. Removing an item that was never added
/// may remove another item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_remove(
    filter: *mut Cuckoo,
    item: *const u8,
    item_length: usize,
    removed: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        put(
            removed,
            borrow(filter)?.0.write(|filter| filter.remove(item))?,
        )
    })
}

/// Counts the copies of an item, and of items with the same fingerprint in the same buckets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_count(
    filter: *const Cuckoo,
    item: *const u8,
    item_length: usize,
    count: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        put(count, borrow(filter)?.0.read(|filter| filter.count(item))?)
    })
}

/// Moves items from newer filters of the stack into older ones, and frees filters that become empty, as CF.COMPACT
/// does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_compact(filter: *mut Cuckoo) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { Ok(borrow(filter)?.0.write(bindings::Cuckoo::compact)?) })
}

/// Removes all items. The parameters stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_clear(filter: *mut Cuckoo) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { Ok(borrow(filter)?.0.write(bindings::Cuckoo::clear)??) })
}

/// Makes a copy of a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_copy(
    filter: *const Cuckoo,
    copy: *mut *mut Cuckoo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::copy(filter, copy) })
}

/// Compares two filters. `equal` receives whether their bytes are equal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_equal(
    filter: *const Cuckoo,
    other: *const Cuckoo,
    equal: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::equal(filter, other, equal) })
}

/// Parameters and contents of a filter.
#[repr(C)]
pub struct CuckooInfo {
    /// The number of items.
    items: u64,
    /// The number of slots for items.
    slots: u64,
    /// The number of stacked filters.
    filters: u64,
    /// The filter's memory, in bytes.
    memory_bytes: u64,
    /// The number of slots in a bucket.
    bucket_size: u64,
    /// The most items that are moved to make room for one.
    max_iterations: u64,
    /// How many times larger the next filter of the stack is; 0 for a filter that does not grow.
    expansion: u64,
}

/// Describes a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_describe(
    filter: *const Cuckoo,
    info: *mut CuckooInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(info)?;
        let found = borrow(filter)?.0.read(|filter| CuckooInfo {
            items: filter.items(),
            slots: filter.size(),
            filters: filter.filters() as u64,
            memory_bytes: filter.memory_bytes(),
            bucket_size: filter.shape().bucket_size().into(),
            max_iterations: filter.shape().max_iterations().into(),
            expansion: filter.shape().expansion().into(),
        })?;
        put(info, found)
    })
}

/// Encodes a filter as a payload of RESTORE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_to_bytes(
    filter: *const Cuckoo,
    bytes: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::to_bytes(filter, bytes) })
}

/// Decodes bytes from valkeybloom_cuckoo_to_bytes or DUMP.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_from_bytes(
    data: *const u8,
    length: usize,
    filter: *mut *mut Cuckoo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::from_bytes(data, length, filter) })
}

/// Returns the next chunk of a filter, as CF.SCANDUMP does. `cursor` is 0 at first. Each call sets it to the chunk's
/// cursor; after the last chunk to 0, with a null buffer. The filter must not change between calls: if
/// other threads may change it, iterate over a copy from valkeybloom_cuckoo_copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_next_chunk(
    filter: *const Cuckoo,
    cursor: *mut u64,
    chunk: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::next_chunk(filter, cursor, chunk) })
}

/// Makes a loader for the chunks of a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_loader_new(loader: *mut *mut CuckooLoader) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::give(loader, CuckooLoader(Loader::new())) })
}

/// Frees a loader. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_loader_free(loader: *mut CuckooLoader) {
    // SAFETY: the header requires a loader that this library made, or null.
    unsafe { object::free(loader) }
}

/// Loads a chunk with its cursor, in the order of CF.SCANDUMP. Cursor 0, the end, has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_loader_load(
    loader: *mut CuckooLoader,
    cursor: u64,
    chunk: *const u8,
    chunk_length: usize,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::load(&mut borrow_mut(loader)?.0, cursor, chunk, chunk_length) })
}

/// Makes a filter from the loaded chunks. Afterwards the loader is empty, even if chunks were missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_cuckoo_loader_finish(
    loader: *mut CuckooLoader,
    filter: *mut *mut Cuckoo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::finish(&mut borrow_mut(loader)?.0, filter) })
}
