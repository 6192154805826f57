//! Objects of all families, and the functions that families share.

use std::ffi::{c_char, c_int};

use valkeybloom_bindings::{
    self as bindings, Bloom, Chunked, CountMin, Cuckoo, Family, Shared, Sketch, TDigest, TopK,
};

use super::border::{
    Batch, Buffer, Failure, Outcome, Status, borrow, borrow_mut, call, items, no_options, places,
    put, require, slice, time,
};

/// A sketch of one of the families.
#[allow(clippy::large_enum_variant, reason = "each is in a box of its own")]
pub enum Object {
    Bloom(Shared<Bloom>),
    Cuckoo(Shared<Cuckoo>),
    CountMin(Shared<CountMin>),
    TopK(Shared<TopK>),
    TDigest(Shared<TDigest>),
}

/// The families of objects.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum Kind {
    /// Bloom filters: plain, with a window, with counts, or scaled to a number of items. "Not found" is certain; "found"
    /// is wrong at the error rate.
    Bloom = 1,
    /// Cuckoo filters: "not found" is certain, "found" is probable, and items can be removed.
    Cuckoo = 2,
    /// Count-min sketches: estimate how often items were counted. An estimate may be too high, but never too low.
    CountMin = 3,
    /// Top-k lists: the most frequent items, with estimates of their counts.
    TopK = 4,
    /// T-digests: estimate quantiles of observations. They are most exact at both ends.
    TDigest = 5,
}

/// Does the same with an object of whichever family.
macro_rules! each {
    ($object:expr, $shared:ident => $work:expr) => {
        match $object {
            Object::Bloom($shared) => $work,
            Object::Cuckoo($shared) => $work,
            Object::CountMin($shared) => $work,
            Object::TopK($shared) => $work,
            Object::TDigest($shared) => $work,
        }
    };
}

/// A family, as a case of [`Object`].
pub trait Typed: Family {
    fn object(self) -> Object;
    fn of(object: &Object) -> Option<&Shared<Self>>;
}

macro_rules! families {
    ($($family:ident),*) => {
        $(impl Typed for $family {
            fn object(self) -> Object {
                Object::$family(Shared::new(self))
            }
            fn of(object: &Object) -> Option<&Shared<Self>> {
                match object {
                    Object::$family(shared) => Some(shared),
                    _ => None,
                }
            }
        })*

        impl Object {
            const fn kind(&self) -> Kind {
                match self {
                    $(Self::$family(_) => Kind::$family,)*
                }
            }

            fn of_sketch(sketch: Sketch) -> Self {
                match sketch {
                    $(Sketch::$family(object) => $family::from(object).object(),)*
                }
            }
        }
    };
}

families!(Bloom, Cuckoo, CountMin, TopK, TDigest);

impl Object {
    /// Returns the failure of a call that this object's family does not have.
    fn lacks(&self, call: &str) -> Failure {
        fn name<F: Family>(_: &Shared<F>) -> &'static str {
            F::NAME
        }
        Failure::bad_family(format!("a {} has no {call}", each!(self, it => name(it))))
    }
}

/// Borrows an object of a family.
///
/// # Safety
/// The pointer is null, or valid for the length of the call.
pub unsafe fn typed<'a, F: Typed + 'a>(object: *const Object) -> Outcome<&'a Shared<F>> {
    // SAFETY: the caller promises it.
    let object = unsafe { borrow(object) }?;
    F::of(object).ok_or_else(|| Failure::bad_family(format!("the object is no {}", F::NAME)))
}

/// Borrows several objects of a family.
///
/// # Safety
/// There are that many pointers, unless the array is null, each null or valid.
pub unsafe fn all<'a, F: Typed + 'a>(
    objects: *const *const Object,
    length: usize,
) -> Outcome<Vec<&'a Shared<F>>> {
    // SAFETY: the caller promises it.
    let pointers = unsafe { slice(objects, length) }?;
    // SAFETY: the caller promises it.
    let shared = |object: &*const Object| unsafe { typed(*object) };
    pointers.iter().map(shared).collect()
}

/// Gives a new object away.
///
/// # Safety
/// The place is null, or may be written to.
pub unsafe fn make<F: Typed>(
    place: *mut *mut Object,
    new: impl FnOnce() -> Outcome<F>,
) -> Outcome<()> {
    require(place)?;
    // SAFETY: the caller promises it.
    unsafe { give(place, new()?.object()) }
}

/// Gives away what is already made.
///
/// # Safety
/// The place is null, or may be written to.
unsafe fn give<T>(place: *mut *mut T, made: T) -> Outcome<()> {
    require(place)?;
    let mut one = Vec::new();
    one.try_reserve_exact(1)?;
    one.push(made);
    // A slice of one has the layout of a box.
    let one = Box::into_raw(one.into_boxed_slice());
    // SAFETY: the caller promises it.
    unsafe { put(place, one.cast()) }
}

/// Frees what was given away.
///
/// # Safety
/// The pointer is null, or that of a box that was given away, and not taken back.
unsafe fn free<T>(given: *mut T) {
    if !given.is_null() {
        // A destructor that panics would be a bug. There is no status to report it with.
        call(|| {
            // SAFETY: the caller promises it.
            drop(unsafe { Box::from_raw(given) });
            Ok(())
        });
    }
}

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
        let is_found = match object {
            Object::Bloom(filter) => {
                let at_ms = time(options)?;
                filter.read(|filter| filter.contains(item, at_ms))?
            }
            Object::Cuckoo(filter) => {
                no_options(options)?;
                filter.read(|filter| filter.contains(item))?
            }
            Object::TopK(list) => {
                no_options(options)?;
                list.read(|list| list.contains(item))?
            }
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
        let answers = places(answers, batch.len())?;
        match object {
            Object::Bloom(filter) => {
                let at_ms = time(options)?;
                filter.read(|filter| filter.contains_each(&batch, at_ms, answers))??;
            }
            Object::Cuckoo(filter) => {
                no_options(options)?;
                filter.read(|filter| filter.contains_each(&batch, answers))??;
            }
            Object::TopK(list) => {
                no_options(options)?;
                list.read(|list| list.contains_each(&batch, answers))??;
            }
            _ => return Err(object.lacks("lookups")),
        }
        Ok(())
    })
}

/// Counts an item. `count` receives how often it was added and not removed: at most, for a Bloom filter that counts, a
/// cuckoo filter, which counts the copies of its fingerprint, and a count-min sketch; an estimate that may be too low, for
/// a top-k list.
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
    call(|| match unsafe { borrow(object) }? {
        Object::Bloom(filter) => Ok(filter.write(Bloom::clear)??),
        Object::Cuckoo(filter) => Ok(filter.write(Cuckoo::clear)??),
        Object::CountMin(sketch) => Ok(sketch.write(CountMin::clear)??),
        Object::TopK(list) => Ok(list.write(TopK::clear)??),
        Object::TDigest(digest) => {
            digest.write(|digest| digest.reset())?;
            Ok(())
        }
    })
}

/// Makes a copy of an object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_copy(object: *const Object, copy: *mut *mut Object) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        each!(borrow(object)?, shared => make(copy, || Ok(shared.read(Family::try_clone)??)))
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
        let other = borrow(other)?;
        put(
            equal,
            each!(borrow(object)?, shared => equals(shared, other))?,
        )
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
    call(|| unsafe {
        require(object)?;
        let sketch = bindings::decode(slice(data, length)?)?;
        give(object, Object::of_sketch(sketch))
    })
}

/// Returns the next chunk of a Bloom filter or cuckoo filter, as SCANDUMP does. `cursor` is 0 at first. Each call sets it
/// to the chunk's cursor; after the last chunk to 0, with a null buffer. The filter must not change between calls: if
/// other threads may change it, iterate over a copy from valkeybloom_copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_next_chunk(
    object: *const Object,
    cursor: *mut u64,
    chunk: *mut Buffer,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        require(chunk)?;
        let (object, cursor) = (borrow(object)?, borrow_mut(cursor)?);
        let (next, bytes) = match object {
            Object::Bloom(filter) => filter.read(|filter| filter.piece(*cursor))??,
            Object::Cuckoo(filter) => filter.read(|filter| filter.piece(*cursor))??,
            _ => return Err(object.lacks("chunks")),
        };
        let bytes = match next {
            0 => Buffer::NONE,
            _ => Buffer::of(bytes)?,
        };
        *cursor = next;
        put(chunk, bytes)
    })
}

/// A Bloom filter or cuckoo filter that is being loaded from chunks. For one thread at a time.
pub enum Loader {
    Bloom(bindings::Loader<Bloom>),
    Cuckoo(bindings::Loader<Cuckoo>),
}

/// Makes a loader for the chunks of a filter: VALKEYBLOOM_FAMILY_BLOOM or VALKEYBLOOM_FAMILY_CUCKOO.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_loader_new(family: c_int, loader: *mut *mut Loader) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        // C does not keep a value of an enum within the enum.
        let new = if family == Kind::Bloom as c_int {
            Loader::Bloom(bindings::Loader::default())
        } else if family == Kind::Cuckoo as c_int {
            Loader::Cuckoo(bindings::Loader::default())
        } else {
            return Err(Failure::bad_family("only filters have chunks"));
        };
        give(loader, new)
    })
}

/// Frees a loader. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_loader_free(loader: *mut Loader) {
    // SAFETY: the header requires a loader that this library made, or null.
    unsafe { free(loader) }
}

/// Loads a chunk with its cursor, in the order of SCANDUMP. Cursor 0, the end, has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_loader_load(
    loader: *mut Loader,
    cursor: u64,
    chunk: *const u8,
    chunk_length: usize,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        let (loader, chunk) = (borrow_mut(loader)?, slice(chunk, chunk_length)?);
        match loader {
            Loader::Bloom(loader) => Ok(loader.load(cursor, chunk)?),
            Loader::Cuckoo(loader) => Ok(loader.load(cursor, chunk)?),
        }
    })
}

/// Makes a filter from the loaded chunks. Afterwards the loader is empty, even if chunks were missing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_loader_finish(
    loader: *mut Loader,
    filter: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        match borrow_mut(loader)? {
            Loader::Bloom(loader) => make(filter, || Ok(std::mem::take(loader).end()?)),
            Loader::Cuckoo(loader) => make(filter, || Ok(std::mem::take(loader).end()?)),
        }
    })
}
