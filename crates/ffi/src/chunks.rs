//! Filters as chunks, and chunks as filters.

use std::ffi::c_int;

use valkeybloom_bindings::{self as bindings, Bloom, Chunked, Cuckoo};

use super::border::{Buffer, Failure, Status, borrow, borrow_mut, call, put, require, slice};
use super::object::{Kind, Object, free, give, give_new};

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
            Object::Bloom(filter) => filter.read(|filter| filter.chunk(*cursor))??,
            Object::Cuckoo(filter) => filter.read(|filter| filter.chunk(*cursor))??,
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
            let text = "only Bloom filters and cuckoo filters have chunks";
            return Err(Failure::bad_family(text));
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

/// Makes a filter from the loaded chunks. Afterwards the loader is empty, even if chunks were missing. If `filter` is null,
/// or memory is out, it may still have its chunks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_loader_finish(
    loader: *mut Loader,
    filter: *mut *mut Object,
) -> Status {
    // SAFETY: the header requires valid pointers, and null is checked.
    call(|| unsafe {
        match borrow_mut(loader)? {
            Loader::Bloom(loader) => give_new(filter, || Ok(std::mem::take(loader).end()?)),
            Loader::Cuckoo(loader) => give_new(filter, || Ok(std::mem::take(loader).end()?)),
        }
    })
}
