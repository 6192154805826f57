//! The functions that families share.

use std::ffi::c_char;

use valkeybloom_bindings::{Bloom, CountMin, Cuckoo, Family, Shared, TopK, decode};

use super::border::{
    Batch, Buffer, Outcome, Status, borrow, call, items, places, put, require, slice,
};
use super::object::{Kind, Object, Typed, each, free, give_made, give_new};

/// Frees an object. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_free(object: *mut Object) {
    // SAFETY: the header requires an object that this library made, or null.
    unsafe { free(object) }
}

/// Returns the family of an object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_family_of(object: *const Object, family: *mut Kind) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { put(family, borrow(object)?.kind()) })
}

/// Looks an item up in a Bloom filter, cuckoo filter or top-k list. `found` receives whether the object claims it. The
/// only option is AT ms, the time in milliseconds since the epoch, for Bloom filters with a window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_contains(
    object: *const Object,
    item: *const u8,
    item_length: usize,
    options: *const c_char,
    found: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (object, item) = (borrow(object)?, slice(item, item_length)?);
        let at_ms = object.time(options)?;
        let is_found = match object {
            Object::Bloom(filter) => filter.read(|filter| filter.contains(item, at_ms))?,
            Object::Cuckoo(filter) => filter.read(|filter| filter.contains(item))?,
            Object::TopK(list) => list.read(|list| list.contains(item))?,
            _ => return Err(object.lacks("lookups")),
        };
        put(found, is_found)
    })
}

/// Looks up the items of a batch as valkeybloom_contains does. `answers` receives a byte for each: 1 if the object claims
/// it, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_contains_many(
    object: *const Object,
    batch: *const Batch,
    options: *const c_char,
    answers: *mut u8,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (object, batch) = (borrow(object)?, items(batch)?);
        let at_ms = object.time(options)?;
        let answers = places(answers, batch.len())?;
        Ok(match object {
            Object::Bloom(filter) => {
                filter.read(|filter| filter.contains_each(&batch, at_ms, answers))
            }
            Object::Cuckoo(filter) => filter.read(|filter| filter.contains_each(&batch, answers)),
            Object::TopK(list) => list.read(|list| list.contains_each(&batch, answers)),
            _ => return Err(object.lacks("lookups")),
        }??)
    })
}

/// Counts an item. `count` receives how often the item was added and not removed:
///
/// - Bloom filters that count, and count-min sketches, return an upper bound.
/// - Cuckoo filters return the number of copies of the item's fingerprint, an upper bound too.
/// - Top-k lists return an estimate, which may be too low.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_count(
    object: *const Object,
    item: *const u8,
    item_length: usize,
    count: *mut u64,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (object, item) = (borrow(object)?, slice(item, item_length)?);
        let found = match object {
            Object::Bloom(filter) => filter.read(|filter| filter.count(item))??,
            Object::Cuckoo(filter) => filter.read(|filter| filter.count(item))?,
            Object::CountMin(sketch) => sketch.read(|sketch| sketch.estimate(item))?,
            Object::TopK(list) => list.read(|list| list.count(item))?.into(),
            Object::TDigest(_) => return Err(object.lacks("counts")),
        };
        put(count, found)
    })
}

/// Removes an item once from a cuckoo filter, or a Bloom filter that counts. `removed` receives whether the filter claimed
/// it. Removing an item that was never added may remove another one. A Bloom filter that has grown beyond its capacity
/// refuses a removal now and then: the item stays, and `removed` is false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_remove(
    object: *mut Object,
    item: *const u8,
    item_length: usize,
    removed: *mut bool,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (object, item) = (borrow(object)?, slice(item, item_length)?);
        let is_removed = match object {
            Object::Bloom(filter) => filter.write(|filter| filter.remove(item))??,
            Object::Cuckoo(filter) => filter.write(|filter| filter.remove(item))?,
            _ => return Err(object.lacks("removals")),
        };
        put(removed, is_removed)
    })
}

/// Removes everything that was added. The parameters stay, and the seed of a Bloom filter.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_clear(object: *mut Object) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        Ok(match borrow(object)? {
            Object::Bloom(filter) => filter.write(Bloom::clear),
            Object::Cuckoo(filter) => filter.write(Cuckoo::clear),
            Object::CountMin(sketch) => sketch.write(CountMin::clear),
            Object::TopK(list) => list.write(TopK::clear),
            Object::TDigest(digest) => digest.write(|digest| {
                digest.reset();
                Ok(())
            }),
        }??)
    })
}

/// Makes a copy of an object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_copy(object: *const Object, copy: *mut *mut Object) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        each!(borrow(object)?, shared => give_new(copy, || Ok(shared.read(Family::try_clone)??)))
    })
}

/// Compares two objects. `equal` receives whether they are of one family, and their bytes are equal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_equal(
    object: *const Object,
    other: *const Object,
    equal: *mut bool,
) -> Status {
    fn equals<F: Typed>(one: &Shared<F>, other: &Object) -> Outcome<bool> {
        let Some(other) = F::of(other) else {
            return Ok(false);
        };
        Ok(Shared::read_all(&[one, other], |both| {
            both[0].equals(both[1])
        })??)
    }
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (object, other) = (borrow(object)?, borrow(other)?);
        put(equal, each!(object, shared => equals(shared, other))?)
    })
}

/// Encodes an object: a Bloom filter as a payload of BF.LOAD, unless RedisBloom made it; all others as a payload of
/// RESTORE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_to_bytes(object: *const Object, bytes: *mut Buffer) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(bytes)?;
        let encoded = each!(borrow(object)?, shared => shared.read(Family::to_bytes)??);
        put(bytes, Buffer::of(encoded)?)
    })
}

/// Decodes an object of any family, from valkeybloom_to_bytes, from DUMP, or from a BF.LOAD in an append-only file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_from_bytes(
    data: *const u8,
    length: usize,
    object: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe { give_made(object, || Ok(decode(slice(data, length)?)?.into())) })
}
