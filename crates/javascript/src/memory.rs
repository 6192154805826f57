//! The memory that JavaScript writes arguments to.

use valkeybloom_bindings::Bloom;

use super::border::{Status, call, put, slice};

/// Allocates bytes for JavaScript. Returns null if there is no memory for them.
#[unsafe(no_mangle)]
pub extern "C" fn valkeybloom_allocate(length: usize) -> *mut u8 {
    let mut bytes: Vec<u64> = Vec::new();
    match bytes.try_reserve_exact(length.div_ceil(8)) {
        Ok(()) => bytes.leak().as_mut_ptr().cast(),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Frees what [`valkeybloom_allocate`] returned for this length.
///
/// # Safety
/// The pointer is from there, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_deallocate(bytes: *mut u8, length: usize) {
    if !bytes.is_null() {
        // SAFETY: `valkeybloom_allocate` made a vector with this pointer and capacity.
        drop(unsafe { Vec::<u64>::from_raw_parts(bytes.cast(), 0, length.div_ceil(8)) });
    }
}

/// Sets `precedes` to whether additions alone can lead from the header of a Bloom filter's chunks to a later one.
///
/// # Safety
/// The headers have these lengths, and `precedes` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valkeybloom_bloom_precedes(
    header: *const u8,
    header_length: usize,
    later: *const u8,
    later_length: usize,
    precedes: *mut bool,
) -> Status {
    // SAFETY: the caller promises it.
    call(|| unsafe {
        let (header, later) = (slice(header, header_length)?, slice(later, later_length)?);
        put(precedes, Bloom::precedes(header, later))
    })
}
