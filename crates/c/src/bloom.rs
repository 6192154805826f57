//! Bloom filters.

use std::ffi::c_char;

use valkeybloom_bindings::{self as bindings, Loader, Moment, Shared};

use super::border::{
    Batch, Buffer, Failure, Outcome, Status, borrow, borrow_mut, call, items, places, put, require,
    slice, words,
};
use super::object::{self, Handle};

/// A Bloom filter: plain, with a window, with counts, or scaled to a number of items. "Not found" is
/// certain; "found" is wrong at the error rate.
pub struct Bloom(Shared<bindings::Bloom>);

/// A Bloom filter that is being loaded from chunks. For one thread at a time.
pub struct BloomLoader(Loader<bindings::Bloom>);

impl Handle for Bloom {
    type Object = bindings::Bloom;
    fn of(object: Shared<bindings::Bloom>) -> Self {
        Self(object)
    }
    fn shared(&self) -> &Shared<bindings::Bloom> {
        &self.0
    }
}

/// Returns the time of a call whose only option is AT, in milliseconds since the epoch.
///
/// # Safety
/// As for [`words`].
unsafe fn time(options: *const c_char) -> Outcome<Option<u64>> {
    // SAFETY: the caller promises it.
    match unsafe { words(options) }[..] {
        [] => Ok(None),
        [at, time] if at.eq_ignore_ascii_case(b"AT") => Ok(Moment::of_words(&[at, time])?.at_ms()),
        _ => Err(Failure::refused("AT with a time is the only option here")),
    }
}

/// Returns the options of a call that writes.
///
/// # Safety
/// As for [`words`].
unsafe fn moment(options: *const c_char) -> Outcome<Moment> {
    if options.is_null() {
        return Ok(Moment::default());
    }
    // SAFETY: the caller promises it.
    Ok(Moment::of_words(&unsafe { words(options) })?)
}

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
    filter: *mut *mut Bloom,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let seed = if seed.is_null() {
            None
        } else {
            Some(slice(seed, 32)?)
        };
        let numbers = [error_rate.to_string(), capacity.to_string()];
        let mut all: Vec<&[u8]> = numbers.iter().map(String::as_bytes).collect();
        all.extend(words(options));
        object::make(filter, || Ok(bindings::Bloom::reserve(&all, seed)?))
    })
}

/// Frees a filter. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_free(filter: *mut Bloom) {
    // SAFETY: the header requires a filter that this library made, or null.
    unsafe { object::free(filter) }
}

/// Adds an item. `is_new` receives whether the filter lacked it.
///
/// Options are those of BF.INSERT for filters with a window: AT ms (milliseconds since the epoch, instead of now) and
/// TTL ms. A late item goes to its own period; if it has expired by the time of the latest one, it is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_add(
    filter: *mut Bloom,
    item: *const u8,
    item_length: usize,
    options: *const c_char,
    is_new: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (item, moment) = (slice(item, item_length)?, moment(options)?);
        let added = borrow(filter)?
            .0
            .write(|filter| filter.add(item, &moment))?;
        put(is_new, added?)
    })
}

/// Adds the items of a batch in order, with the options of valkeybloom_bloom_add. `new_items` receives how many the
/// filter lacked. If the filter is full and does not grow, the call returns VALKEYBLOOM_STATUS_REFUSED, and the items
/// before the first one without room are added. If the batch can't be read, nothing is added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_add_many(
    filter: *mut Bloom,
    batch: *const Batch,
    options: *const c_char,
    new_items: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (batch, moment) = (items(batch)?, moment(options)?);
        let added = borrow(filter)?
            .0
            .write(|filter| filter.update(&batch, &moment))?;
        put(new_items, added?)
    })
}

/// Adds the items of a batch as valkeybloom_bloom_add_many does. `answers` receives a byte for each: 1 if the filter
/// lacked it, else 0; of equal items of the batch, only the first is new. If the call is refused, it is 2 for those that
/// are not added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_add_each(
    filter: *mut Bloom,
    batch: *const Batch,
    options: *const c_char,
    answers: *mut u8,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (batch, moment) = (items(batch)?, moment(options)?);
        let answers = places(answers, batch.len())?;
        answers.fill(2);
        let change = |filter: &mut bindings::Bloom| filter.add_each(&batch, &moment, answers);
        borrow(filter)?.0.write(change)??;
        Ok(())
    })
}

/// Looks an item up. `found` receives whether the filter claims it. The only option is AT ms, for filters with a
/// window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_contains(
    filter: *const Bloom,
    item: *const u8,
    item_length: usize,
    options: *const c_char,
    found: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (item, at_ms) = (slice(item, item_length)?, time(options)?);
        put(
            found,
            borrow(filter)?
                .0
                .read(|filter| filter.contains(item, at_ms))?,
        )
    })
}

/// Looks up the items of a batch. `answers` receives a byte for each: 1 if the filter claims it, else 0. The only
/// option is AT ms, for filters with a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_contains_many(
    filter: *const Bloom,
    batch: *const Batch,
    options: *const c_char,
    answers: *mut u8,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (batch, at_ms) = (items(batch)?, time(options)?);
        let answers = places(answers, batch.len())?;
        Ok(borrow(filter)?
            .0
            .read(|filter| filter.contains_each(&batch, at_ms, answers))??)
    })
}

/// Takes one off the count of an item in a filter that counts. `removed` receives whether the item was there. If the
/// filter has grown beyond its capacity, a removal is now and then refused: the item stays, and `removed` is false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_remove(
    filter: *mut Bloom,
    item: *const u8,
    item_length: usize,
    removed: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        let outcome = borrow(filter)?.0.write(|filter| filter.remove(item))?;
        put(removed, outcome?)
    })
}

/// Counts an item in a filter that counts. `count` receives how often, at most, it was added and not removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_count(
    filter: *const Bloom,
    item: *const u8,
    item_length: usize,
    count: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let item = slice(item, item_length)?;
        put(count, borrow(filter)?.0.read(|filter| filter.count(item))??)
    })
}

/// Makes the union of one or more filters: it claims every item that one of them claims. Filters that BF.MERGE refuses
/// to merge are refused. The only option is AT ms, for filters with a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_union(
    filters: *const *const Bloom,
    filters_length: usize,
    options: *const c_char,
    filter: *mut *mut Bloom,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (all, at_ms) = (object::all(filters, filters_length)?, time(options)?);
        let union = |filters: &[&bindings::Bloom]| bindings::Bloom::union(filters, at_ms);
        object::make(filter, || Ok(Shared::read_all(&all, union)??))
    })
}

/// Removes all items. The seed and the parameters stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_clear(filter: *mut Bloom) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { Ok(borrow(filter)?.0.write(bindings::Bloom::clear)??) })
}

/// Makes a copy of a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_copy(
    filter: *const Bloom,
    copy: *mut *mut Bloom,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::copy(filter, copy) })
}

/// Compares two filters. `equal` receives whether their bytes are equal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_equal(
    filter: *const Bloom,
    other: *const Bloom,
    equal: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::equal(filter, other, equal) })
}

/// Parameters and contents of a filter.
#[repr(C)]
pub struct BloomInfo {
    /// The number of items that were new.
    items: u64,
    /// The number of items that the filter holds before it grows or is full; in a window, those of all periods.
    capacity: u64,
    /// The number of stacked filters or tables.
    filters: u64,
    /// The filter's memory, in bytes.
    memory_bytes: u64,
    /// The requested error rate.
    error_rate: f64,
    /// How many times larger the next filter of the stack is; 0 for a filter that does not grow. The next table is
    /// eight times as large as that.
    expansion: u64,
    /// The length of a period in milliseconds, and the number of periods; 0 without a window.
    window_ms: u64,
    periods: u64,
    /// Whether it counts.
    is_counting: bool,
    /// Whether it has a seed. Filters made by RedisBloom have none.
    has_seed: bool,
    /// The seed, or zeros.
    seed: [u8; 32],
}

/// Describes a filter. The only option is AT ms, for filters with a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_describe(
    filter: *const Bloom,
    options: *const c_char,
    info: *mut BloomInfo,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(info)?;
        let at_ms = time(options)?;
        let found = borrow(filter)?.0.read(|filter| {
            let (shape, seed) = (filter.shape(), filter.seed());
            let window = shape.window();
            let (window_ms, periods) =
                window.map_or((0, 0), |window| (window.period_ms(), window.periods()));
            BloomInfo {
                items: filter.items(at_ms),
                capacity: filter.capacity(),
                filters: filter.filters(),
                memory_bytes: bindings::Family::memory_bytes(filter),
                error_rate: shape.params.error_rate.get(),
                expansion: shape.params.growth.expansion().into(),
                window_ms,
                periods,
                is_counting: shape.is_counting(),
                has_seed: seed.is_some(),
                seed: seed.copied().unwrap_or_default(),
            }
        })?;
        put(info, found)
    })
}

/// Estimates the present rate of false positives. All bits of a plain filter are read. The only option is AT ms, for filters with a
/// window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_estimated_error_rate(
    filter: *const Bloom,
    options: *const c_char,
    rate: *mut f64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let at_ms = time(options)?;
        put(
            rate,
            borrow(filter)?
                .0
                .read(|filter| filter.estimated_rate(at_ms))?,
        )
    })
}

/// Encodes a filter as a payload of BF.LOAD; as a payload of RESTORE if RedisBloom made the filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_to_bytes(
    filter: *const Bloom,
    bytes: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::to_bytes(filter, bytes) })
}

/// Decodes bytes from valkeybloom_bloom_to_bytes, from DUMP, or from a BF.LOAD in an append-only file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_from_bytes(
    data: *const u8,
    length: usize,
    filter: *mut *mut Bloom,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::from_bytes(data, length, filter) })
}

/// Returns the next chunk of a filter, as BF.SCANDUMP does. `cursor` is 0 at first. Each call sets it to the chunk's
/// cursor; after the last chunk to 0, with a null buffer. The filter must not change between calls: if
/// other threads may change it, iterate over a copy from valkeybloom_bloom_copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_next_chunk(
    filter: *const Bloom,
    cursor: *mut u64,
    chunk: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::next_chunk(filter, cursor, chunk) })
}

/// Makes a loader for the chunks of a filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_loader_new(loader: *mut *mut BloomLoader) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::give(loader, BloomLoader(Loader::new())) })
}

/// Frees a loader. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_loader_free(loader: *mut BloomLoader) {
    // SAFETY: the header requires a loader that this library made, or null.
    unsafe { object::free(loader) }
}

/// Loads a chunk with its cursor, in the order of BF.SCANDUMP. Cursor 0, the end, has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_loader_load(
    loader: *mut BloomLoader,
    cursor: u64,
    chunk: *const u8,
    chunk_length: usize,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::load(&mut borrow_mut(loader)?.0, cursor, chunk, chunk_length) })
}

/// Makes a filter from the loaded chunks. Afterwards the loader is empty, even if chunks were missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_loader_finish(
    loader: *mut BloomLoader,
    filter: *mut *mut Bloom,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { object::finish(&mut borrow_mut(loader)?.0, filter) })
}
